/* Derive the CRC of a byte range from the CRCs of two prefixes of the same bytes, as zlib's
 * crc32_combine() does.
 *
 * Polynomials are reflected: bit 31 is x^0. kf_powers[kind][i][b] is x^(8 * b * 256^i) modulo the
 * polynomial. A power of x is therefore the product of one entry per byte of the exponent.
 */
#ifndef KAFKAFMT_CRC_SPAN_H
#define KAFKAFMT_CRC_SPAN_H

#include "crc32c.h"
#include "crc32.h"

#define KF_EXPONENT_BYTES 8 /* a length has 64 bits */

static uint32_t kf_powers[2][KF_EXPONENT_BYTES][256];
static const uint32_t kf_polynomials[2] = {KF_POLY, KF_POLY32};

static void kf_span_init(void) {
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < KF_EXPONENT_BYTES; i++) {
            uint32_t step = kf_power_of_x(kf_polynomials[kind], (uint64_t)8 << (8 * i));
            kf_powers[kind][i][0] = 0x80000000u;
            for (int b = 1; b < 256; b++) kf_powers[kind][i][b] = kf_multiply(kf_polynomials[kind], kf_powers[kind][i][b - 1], step);
        }
}

/* Return the CRC of the last n bytes of some data. `whole` is the CRC of the data, and `prefix` is
 * the CRC of the bytes before the last n bytes.
 */
static uint32_t kf_span_rest(int kind, uint32_t whole, uint32_t prefix, uint64_t n) {
    for (int i = 0; n; i++, n >>= 8)
        if (n & 255) prefix = kf_multiply(kf_polynomials[kind], kf_powers[kind][i][n & 255], prefix);
    return whole ^ prefix;
}

#endif

/* CRC-32 (the one of gzip), which messages of formats 0 and 1 carry: a table, or 512-bit carry-less multiplication as in
 * crc32c.h, whose last 64 bytes go through the table since no instruction knows this polynomial.
 */
#ifndef KAFKAFMT_CRC32_H
#define KAFKAFMT_CRC32_H

#include "crc32c.h"

#define KF_POLY32 0xEDB88320u

static uint32_t kf_table32[8][256];
static uint64_t kf_fold32_2048[2], kf_fold32_512[2];

#ifdef KF_X86
__attribute__((target(KF_WIDE)))
static uint32_t kf_crc32_wide(uint32_t crc, const uint8_t *p, size_t n) {
    const __m512i by2048 = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)kf_fold32_2048[1], (long long)kf_fold32_2048[0]));
    const __m512i by512 = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)kf_fold32_512[1], (long long)kf_fold32_512[0]));
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    __m512i b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
    for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
        a = kf_fold(a, by2048, _mm512_loadu_si512(p));
        b = kf_fold(b, by2048, _mm512_loadu_si512(p + 64));
        c = kf_fold(c, by2048, _mm512_loadu_si512(p + 128));
        d = kf_fold(d, by2048, _mm512_loadu_si512(p + 192));
    }
    a = kf_fold(kf_fold(kf_fold(a, by512, b), by512, c), by512, d);
    for (; n >= 64; p += 64, n -= 64) a = kf_fold(a, by512, _mm512_loadu_si512(p));
    uint8_t last[64];
    _mm512_storeu_si512(last, a);
    return kf_crc_table(kf_table32, kf_crc_table(kf_table32, 0, last, 64), p, n);
}
#endif

static void crc32_init(void) {
    kf_fill_table(kf_table32, KF_POLY32);
    kf_fold32_2048[0] = kf_power_of_x(KF_POLY32, 2048 + 31);
    kf_fold32_2048[1] = kf_power_of_x(KF_POLY32, 2048 - 33);
    kf_fold32_512[0] = kf_power_of_x(KF_POLY32, 512 + 31);
    kf_fold32_512[1] = kf_power_of_x(KF_POLY32, 512 - 33);
}

static uint32_t crc32_update(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
#ifdef KF_X86
    if (kf_crc_way == 2 && n >= 512) return ~kf_crc32_wide(crc, p, n);
#endif
    return ~kf_crc_table(kf_table32, crc, p, n);
}

#endif

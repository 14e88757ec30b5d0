/* Skip bytes in which no batch header can begin, eight positions at a time. */
#ifndef KAFKAFMT_SKIP_H
#define KAFKAFMT_SKIP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KF_LENGTH_AT 8           /* position of the length field in a header */
#define KF_MAGIC_AT 16           /* position of the magic byte in a header */
#define KF_ZEROS 16              /* number of zero bytes that are skipped at once */
#define KF_EACH 0x0101010101010101ull

/* Return the first position from p on at which a header may begin.
 *
 * A header has a magic byte below 4, and a length that is not 0. Near `end`, positions that do not
 * meet these conditions may be returned. No byte at or after `end` is read.
 */
static inline const uint8_t* kf_skip(const uint8_t* p, const uint8_t* end) {
    while (end - p >= KF_MAGIC_AT + 8) {
        uint64_t magics, lengths, small;
        memcpy(&magics, p + KF_MAGIC_AT, 8);
        if (magics == 0) {
            memcpy(&lengths, p + KF_LENGTH_AT, 8);
            if (lengths != 0) return p;
            p += KF_ZEROS - 3; /* the last 3 of these zeros can be the start of another length */
            continue;
        }
        magics &= 0xFC * KF_EACH;
        small = (magics - KF_EACH) & ~magics & (0x80 * KF_EACH); /* bit 7 is set in the first byte that is 0 */
        if (small == 0) {
            p += 8;
            continue;
        }
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        p += __builtin_ctzll(small) >> 3;
#endif
        return p;
    }
    return p;
}

#endif

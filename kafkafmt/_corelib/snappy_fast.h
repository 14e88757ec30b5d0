/* Decompress the elements of a snappy block with copies of 16 bytes, which write too many bytes. */

#include <stdint.h>
#include <string.h>

#define KF_SNAPPY_SLOP 160  /* bytes that must be left of the input and of the output for two elements */

static inline void kf_copy8(uint8_t* to, const uint8_t* p) { uint64_t x; memcpy(&x, p, 8); memcpy(to, &x, 8); }
static inline void kf_copy16(uint8_t* to, const uint8_t* p) { uint64_t x[2]; memcpy(x, p, 16); memcpy(to, x, 16); }

/* Copy 1 to 64 bytes. The caller must ensure that 64 bytes are accessible. */
static inline void kf_copy64(uint8_t* to, const uint8_t* p, uint32_t n)
{
    kf_copy16(to, p);
    if (n > 16) {
        kf_copy16(to + 16, p + 16);
        if (__builtin_expect(n > 32, 0)) {
            kf_copy16(to + 32, p + 32);
            kf_copy16(to + 48, p + 48);
        }
    }
}

/* Decompress elements from *in to out + *produced, up to the first element that is invalid, long, or near the end of
   the input or of the output, which has `room` bytes. Store the position of this element. */
static void kf_snappy_fast(const uint8_t** in, const uint8_t* end, uint8_t* out, int64_t* produced, int64_t room)
{
    const uint8_t* p = *in;
    uint8_t* to = out + *produced;
    if (end - p < KF_SNAPPY_SLOP || room - *produced < KF_SNAPPY_SLOP)
        return;
    const uint8_t* last_in = end - KF_SNAPPY_SLOP;
    const uint8_t* last_out = out + (room - KF_SNAPPY_SLOP);
    while (p <= last_in && to <= last_out) {
        uint32_t tag = p[0];
        if ((tag & 3) == 0) {
            uint32_t n = (tag >> 2) + 1;
            if (__builtin_expect(n > 60, 0))
                break;
            kf_copy64(to, p + 1, n);
            to += n;
            p += n + 1;
            tag = p[0];         /* usually, a copy follows */
            if ((tag & 3) == 0)
                continue;
        }
        if (__builtin_expect((tag & 3) == 3, 0))
            break;
        uint32_t two = (uint32_t)p[1] | (uint32_t)p[2] << 8, small = tag & 1;
        uint32_t n = small ? 4 + (tag >> 2 & 7) : (tag >> 2) + 1;
        uint32_t offset = small ? (tag >> 5) << 8 | (two & 0xFF) : two;
        if (__builtin_expect((uint64_t)offset - 1 >= (uint64_t)(to - out), 0))
            break;
        p += 3 - small;
        const uint8_t* from = to - offset;
        if (__builtin_expect(offset >= 16, 1))
            kf_copy64(to, from, n);
        else if (offset >= 8)
            for (uint32_t k = 0; k < n; k += 8)
                kf_copy8(to + k, from + k);
        else
            for (uint32_t k = 0; k < n; k++)
                to[k] = from[k];
        to += n;
    }
    *in = p;
    *produced = to - out;
}

/* Find a byte string in a longer byte string. */

#ifndef KAFKAFMT_FIND_SPAN_H
#define KAFKAFMT_FIND_SPAN_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__) && defined(__GNUC__)
#include <emmintrin.h>
#define KF_FIND_BY_16 1
#endif

/* Return whether `n` bytes at `p` contain the `k` bytes at `needle`; k > 0.
 *
 * 16 positions are checked at once: the first and the last byte of the needle are compared at all of
 * them. The other bytes are compared only if both are equal. */
static inline int kf_contains(const uint8_t *p, Py_ssize_t n, const uint8_t *needle, Py_ssize_t k)
{
    Py_ssize_t at = 0, positions = n - k + 1;
    if (positions <= 0)
        return 0;
#ifdef KF_FIND_BY_16
    if (positions >= 16) {
        const __m128i first = _mm_set1_epi8((char)needle[0]), last = _mm_set1_epi8((char)needle[k - 1]);
        for (;;) {
            const __m128i a = _mm_loadu_si128((const __m128i *)(p + at));
            const __m128i b = _mm_loadu_si128((const __m128i *)(p + at + k - 1));
            unsigned both = (unsigned)_mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(a, first), _mm_cmpeq_epi8(b, last)));
            while (both) {
                if (memcmp(p + at + __builtin_ctz(both), needle, (size_t)k) == 0)
                    return 1;
                both &= both - 1;
            }
            if (at == positions - 16)
                return 0;
            at = at + 16 > positions - 16 ? positions - 16 : at + 16;   /* the last two steps can overlap */
        }
    }
#endif
    while (at < positions) {
        const uint8_t *found = (const uint8_t *)memchr(p + at, needle[0], (size_t)(positions - at));
        if (found == NULL)
            return 0;
        if (memcmp(found, needle, (size_t)k) == 0)
            return 1;
        at = found - p + 1;
    }
    return 0;
}

#endif

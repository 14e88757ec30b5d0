/* Compute CRC-32, which gzip and messages of magic 0 and 1 use. Messages typically have 100 bytes.
 *
 * The CRC is computed with a table, or with carry-less multiplication of 128 or 512 bits, as in
 * crc32c.h. No CPU instruction computes this CRC, so the last 128 bits are also reduced by
 * multiplication: to 96 bits, to 64 bits, and then to 32 bits. The last step subtracts the multiple
 * of P that has the same lower 32 bits. This multiple is found with the inverse of P. Words are
 * reflected.
 *
 * Leading zeros change only the initial value of the register: n zeros change ~0 to kf_zeros32[n].
 */
#ifndef KAFKAFMT_CRC32_H
#define KAFKAFMT_CRC32_H

#include "crc32c.h"

#define KF_POLY32 0xEDB88320u
#define KF_WHOLE 512  /* shorter data is processed as one piece */

static uint32_t kf_table32[8][256];
static uint64_t kf_fold32_2048[2], kf_fold32_512[2];
static uint64_t kf_fold32_bytes[17][2];  /* index: number of bytes */
static uint64_t kf_lanes32[4][2];        /* fold the four lanes of 512 bits onto the last lane */
static uint64_t kf_reduce32[2], kf_barrett32[2];
static uint32_t kf_zeros32[KF_WHOLE];
static const uint8_t kf_last_bytes[32] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
                                          255, 255, 255, 255, 255, 255, 255, 255};

#ifdef KF_X86
__attribute__((target("sse4.2,pclmul")))
static inline __m128i kf_fold32(__m128i x, const uint64_t by[2], __m128i next) {
    __m128i k = _mm_loadu_si128((const __m128i *)by);
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), next);
}

/* Reduce 128 bits, followed by the 32 zeros that a CRC appends, modulo P. */
__attribute__((target("sse4.2,pclmul")))
static inline uint32_t kf_reduce32_bits(__m128i x) {
    const __m128i k = _mm_loadu_si128((const __m128i *)kf_reduce32), barrett = _mm_loadu_si128((const __m128i *)kf_barrett32);
    const __m128i low = _mm_cvtsi32_si128(-1);
    x = _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_slli_si128(_mm_srli_si128(x, 8), 4));
    x = _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x10), x);
    x = _mm_srli_si128(x, 8);
    __m128i multiple = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low), barrett, 0x00), low);
    x = _mm_xor_si128(x, _mm_clmulepi64_si128(multiple, barrett, 0x10));
    return (uint32_t)_mm_extract_epi32(x, 1);
}

/* Return the CRC of 16 bytes or more: process n modulo 16 bytes first, then 16 bytes per step. */
__attribute__((target("sse4.2,pclmul")))
static uint32_t kf_crc32_narrow(uint32_t crc, const uint8_t *p, size_t n) {
    size_t odd = n & 15;
    __m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)p), _mm_cvtsi32_si128((int)crc));
    if (odd) {
        __m128i next = _mm_loadu_si128((const __m128i *)(p + odd)), mask = _mm_loadu_si128((const __m128i *)(kf_last_bytes + odd));
        x = kf_fold32(x, kf_fold32_bytes[odd], _mm_and_si128(next, mask));
    }
    for (p += 16 + odd, n -= 16 + odd; n; p += 16, n -= 16) x = kf_fold32(x, kf_fold32_bytes[16], _mm_loadu_si128((const __m128i *)p));
    return kf_reduce32_bits(x);
}

/* Return the CRC of 1 to KF_WHOLE - 1 bytes, with the initial register ~0. Zeros are added before
 * the bytes, so that their number is a multiple of 64.
 */
__attribute__((target(KF_WIDE)))
static uint32_t kf_crc32_whole(const uint8_t *p, size_t n) {
    const __m512i by512 = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)kf_fold32_512[1], (long long)kf_fold32_512[0]));
    const __m512i lanes = _mm512_loadu_si512(kf_lanes32);
    const uint32_t zeros = kf_zeros32[n];
    const size_t first = ((n - 1) & 63) + 1;
    __m512i x = _mm512_maskz_loadu_epi8(~(__mmask64)0 << (64 - first), (const void *)((uintptr_t)p + first - 64));
    for (p += first, n -= first; n; p += 64, n -= 64) x = kf_fold(x, by512, _mm512_loadu_si512(p));
    x = kf_fold(x, lanes, _mm512_maskz_mov_epi64(0xC0, x));
    __m256i y = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    return kf_reduce32_bits(_mm_xor_si128(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1))) ^ zeros;
}

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
    for (uint64_t i = 0; i <= 16; i++) {  /* negative exponents are also valid, because x^(2^32 - 1) is 1 */
        kf_fold32_bytes[i][0] = kf_power_of_x(KF_POLY32, 8 * i + 31);
        kf_fold32_bytes[i][1] = kf_power_of_x(KF_POLY32, 8 * i + 0xFFFFFFFFu - 33);
    }
    for (uint64_t i = 0; i < 3; i++) {
        kf_lanes32[i][0] = kf_power_of_x(KF_POLY32, 128 * (3 - i) + 31);
        kf_lanes32[i][1] = kf_power_of_x(KF_POLY32, 128 * (3 - i) - 33);
    }
    kf_reduce32[0] = (uint64_t)kf_power_of_x(KF_POLY32, 95) << 32;
    kf_reduce32[1] = (uint64_t)kf_power_of_x(KF_POLY32, 63) << 32;
    kf_barrett32[1] = (uint64_t)KF_POLY32 << 1 | 1;
    uint64_t rest = 1;
    for (int i = 0; i < 32; i++)
        if (rest >> i & 1) {
            kf_barrett32[0] |= 1ull << i;
            rest ^= kf_barrett32[1] << i;
        }
    kf_zeros32[0] = 0xFFFFFFFFu;
    for (int i = 1; i < KF_WHOLE; i++) kf_zeros32[i] = (kf_zeros32[i - 1] >> 8) ^ kf_table32[0][kf_zeros32[i - 1] & 255];
}

static uint32_t crc32_update(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
#ifdef KF_X86
    if (kf_crc_way == 2 && n >= KF_WHOLE) return ~kf_crc32_wide(crc, p, n);
    if (kf_crc_way == 2 && crc == 0xFFFFFFFFu && n) return ~kf_crc32_whole(p, n);
    if (kf_crc_way && n >= 16) return ~kf_crc32_narrow(crc, p, n);
#endif
    return ~kf_crc_table(kf_table32, crc, p, n);
}

#endif

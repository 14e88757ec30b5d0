/* Compute CRC-32C (Castagnoli) with the fastest method that the processor supports.
 *
 * The method is chosen at run time. There are three methods, from the slowest to the fastest:
 *
 * - a table of 8 x 256 words
 * - the crc32 instruction over three interleaved streams, whose results are combined with carry-less
 *   multiplication
 * - 512-bit carry-less multiplication that folds 256 bytes per step
 *
 * All constants are powers of x modulo the polynomial, and are computed once in crc32c_init().
 * Polynomials are reflected: bit 31 is x^0.
 *
 * The fast methods use two identities, in which * is the carry-less product of reflected words:
 *
 *   crc32_u64(0, a * b)  =  a b x^33  mod P
 *   Therefore, a CRC is moved past n bytes by a multiplication with x^(8n - 33).
 *
 *   Folding a 64-bit half D bits further is a product with x^(D + 31) for the low half (earlier
 *   bytes) and with x^(D - 33) for the high half.
 */
#ifndef KAFKAFMT_CRC32C_H
#define KAFKAFMT_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define KF_X86 1
#include <immintrin.h>
#endif

#define KF_POLY 0x82F63B78u
#define KF_LONG 1344   /* bytes per stream in a long and a short round of the interleaved loop */
#define KF_SHORT 128

static uint32_t kf_table[8][256];
static uint32_t kf_long1, kf_long2, kf_short1, kf_short2;
static uint64_t kf_fold2048[2], kf_fold512[2];
static int kf_crc_way; /* 0 table, 1 crc32 instruction, 2 wide carry-less multiplication */

static uint32_t kf_multiply(uint32_t poly, uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = (b >> 1) ^ ((b & 1) ? poly : 0);
    }
    return product;
}

static uint32_t kf_power_of_x(uint32_t poly, uint64_t n) {
    uint32_t result = 0x80000000u, square = 0x40000000u;
    for (; n; n >>= 1, square = kf_multiply(poly, square, square))
        if (n & 1) result = kf_multiply(poly, result, square);
    return result;
}

static void kf_fill_table(uint32_t table[8][256], uint32_t poly) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) ? poly : 0);
        table[0][i] = crc;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++) table[t][i] = (table[t - 1][i] >> 8) ^ table[0][table[t - 1][i] & 255];
}

static uint32_t kf_crc_table(const uint32_t table[8][256], uint32_t crc, const uint8_t *p, size_t n) {
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        word ^= crc;
        crc = table[7][word & 255] ^ table[6][(word >> 8) & 255] ^ table[5][(word >> 16) & 255]
            ^ table[4][(word >> 24) & 255] ^ table[3][(word >> 32) & 255] ^ table[2][(word >> 40) & 255]
            ^ table[1][(word >> 48) & 255] ^ table[0][word >> 56];
        p += 8;
        n -= 8;
    }
    while (n--) crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 255];
    return crc;
}

#ifdef KF_X86
static inline uint64_t kf_word(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

__attribute__((target("sse4.2,pclmul")))
static inline uint64_t kf_clmul(uint32_t a, uint32_t b) {
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0));
}

__attribute__((target("sse4.2,pclmul")))
static inline uint32_t kf_three_streams(uint32_t crc, const uint8_t *p, size_t stream, uint32_t past1, uint32_t past2) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < stream; i += 8) {
        a = _mm_crc32_u64(a, kf_word(p + i));
        b = _mm_crc32_u64(b, kf_word(p + stream + i));
        c = _mm_crc32_u64(c, kf_word(p + 2 * stream + i));
    }
    return (uint32_t)(_mm_crc32_u64(0, kf_clmul((uint32_t)a, past2) ^ kf_clmul((uint32_t)b, past1)) ^ c);
}

__attribute__((target("sse4.2,pclmul")))
static uint32_t kf_crc_instruction(uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 3 * KF_LONG; p += 3 * KF_LONG, n -= 3 * KF_LONG)
        crc = kf_three_streams(crc, p, KF_LONG, kf_long1, kf_long2);
    for (; n >= 3 * KF_SHORT; p += 3 * KF_SHORT, n -= 3 * KF_SHORT)
        crc = kf_three_streams(crc, p, KF_SHORT, kf_short1, kf_short2);
    uint64_t wide = crc;
    for (; n >= 8; p += 8, n -= 8) wide = _mm_crc32_u64(wide, kf_word(p));
    crc = (uint32_t)wide;
    while (n--) crc = _mm_crc32_u8(crc, *p++);
    return crc;
}

#define KF_WIDE "avx512f,avx512vl,avx512bw,avx512dq,vpclmulqdq,pclmul,sse4.2"

__attribute__((target(KF_WIDE)))
static inline __m512i kf_fold(__m512i x, __m512i by, __m512i next) {
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00), _mm512_clmulepi64_epi128(x, by, 0x11), next, 0x96);
}

__attribute__((target(KF_WIDE)))
static uint32_t kf_crc_wide(uint32_t crc, const uint8_t *p, size_t n) {
    if (n < 512) return kf_crc_instruction(crc, p, n);
    const __m512i by2048 = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)kf_fold2048[1], (long long)kf_fold2048[0]));
    const __m512i by512 = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)kf_fold512[1], (long long)kf_fold512[0]));
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    __m512i b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
    for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
        _mm_prefetch((const char *)(p + 2048), _MM_HINT_T0);
        _mm_prefetch((const char *)(p + 2112), _MM_HINT_T0);
        _mm_prefetch((const char *)(p + 2176), _MM_HINT_T0);
        _mm_prefetch((const char *)(p + 2240), _MM_HINT_T0);
        a = kf_fold(a, by2048, _mm512_loadu_si512(p));
        b = kf_fold(b, by2048, _mm512_loadu_si512(p + 64));
        c = kf_fold(c, by2048, _mm512_loadu_si512(p + 128));
        d = kf_fold(d, by2048, _mm512_loadu_si512(p + 192));
    }
    a = kf_fold(kf_fold(kf_fold(a, by512, b), by512, c), by512, d);
    for (; n >= 64; p += 64, n -= 64) a = kf_fold(a, by512, _mm512_loadu_si512(p));
    uint64_t words[8], rest = 0;
    _mm512_storeu_si512(words, a);
    for (int i = 0; i < 8; i++) rest = _mm_crc32_u64(rest, words[i]);
    return kf_crc_instruction((uint32_t)rest, p, n);
}
#endif

static void crc32c_init(void) {
    kf_fill_table(kf_table, KF_POLY);
    kf_long1 = kf_power_of_x(KF_POLY, 8 * KF_LONG - 33);
    kf_long2 = kf_power_of_x(KF_POLY, 16 * KF_LONG - 33);
    kf_short1 = kf_power_of_x(KF_POLY, 8 * KF_SHORT - 33);
    kf_short2 = kf_power_of_x(KF_POLY, 16 * KF_SHORT - 33);
    kf_fold2048[0] = kf_power_of_x(KF_POLY, 2048 + 31);
    kf_fold2048[1] = kf_power_of_x(KF_POLY, 2048 - 33);
    kf_fold512[0] = kf_power_of_x(KF_POLY, 512 + 31);
    kf_fold512[1] = kf_power_of_x(KF_POLY, 512 - 33);
    kf_crc_way = 0;
#ifdef KF_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) kf_crc_way = 1;
    if (kf_crc_way && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq")) kf_crc_way = 2;
#endif
}

/* Return the method in use. If `way` is 0 or more and the processor supports this method, choose it
 * first. Tests use this function to cover every method.
 */
static int crc32c_way(int way) {
    static int best = -1;
    if (best < 0) best = kf_crc_way;
    if (way >= 0 && way <= best) kf_crc_way = way;
    return kf_crc_way;
}

static uint32_t crc32c_update(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
#ifdef KF_X86
    if (kf_crc_way == 2) return ~kf_crc_wide(crc, p, n);
    if (kf_crc_way == 1) return ~kf_crc_instruction(crc, p, n);
#endif
    return ~kf_crc_table(kf_table, crc, p, n);
}

#endif

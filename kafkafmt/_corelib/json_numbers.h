/* Read the numbers of JSON texts. Doubles are correctly rounded.
 *
 * Most doubles need only Clinger's fast path or the algorithm of Eisel and Lemire ("Number parsing at
 * a gigabyte per second", 2021). If a number has more than 19 digits, and the digits after the 19th
 * can change the result, its digits are compared with the number halfway between two doubles.
 */
#ifndef KAFKAFMT_JSON_NUMBERS_H
#define KAFKAFMT_JSON_NUMBERS_H

#include <float.h>
#include <stdint.h>
#include <string.h>

enum {
    KV_SMALLEST_POWER = -342, KV_LARGEST_POWER = 308,  /* of ten, between which doubles are neither 0 nor infinite */
    KV_MOST_DIGITS = 769,  /* that the number halfway between two doubles can have */
    KV_LIMBS = 128
};

#define KV_INFINITE ((uint64_t)0x7ff << 52)

typedef struct {
    const uint8_t *first, *last;  /* the digits, with the decimal point */
    int64_t power;                /* the exponent that the text contains */
    uint64_t digits;              /* the first 19 digits, without leading zeros */
    int64_t exponent;             /* of `digits` */
    int negative, is_integer, has_more;
} kv_number;

static inline int kv_is_digit(uint8_t byte) { return (uint8_t)(byte - '0') < 10; }

/* Read digits as an integer. If there are more than 19, its value is arbitrary. */
static inline const uint8_t* kv_read_digits(const uint8_t* p, const uint8_t* end, uint64_t* number) {
    uint64_t n = *number;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (end - p >= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        if (((v + 0x4646464646464646u) | (v - 0x3030303030303030u)) & 0x8080808080808080u) break;
        v -= 0x3030303030303030u;
        v = v * 10 + (v >> 8);
        v = ((v & 0x000000ff000000ffu) * 0x000f424000000064u + (v >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u) >> 32;
        n = n * 100000000 + (uint32_t)v;
        p += 8;
    }
    if (end - p >= 4) {
        uint32_t v;
        memcpy(&v, p, 4);
        if (!(((v + 0x46464646u) | (v - 0x30303030u)) & 0x80808080u)) {
            v -= 0x30303030u;
            v = v * 10 + (v >> 8);
            n = n * 10000 + (v & 0xff) * 100 + (v >> 16 & 0xff);
            p += 4;
        }
    }
#endif
    for (; p < end && kv_is_digit(*p); p++) n = n * 10 + (*p - '0');
    *number = n;
    return p;
}

/* Take the first 19 digits of a number that has more, without leading zeros. */
static void kv_take_digits(kv_number* n) {
    const uint8_t* p = n->first;
    int taken = 0, is_fraction = 0;
    uint64_t digits = 0;
    int64_t exponent = n->power;
    n->has_more = 0;
    for (; p < n->last; p++) {
        if (*p == '.') is_fraction = 1;
        else if (taken < 19) {
            digits = digits * 10 + (*p - '0');
            taken += digits != 0;
            exponent -= is_fraction;
        } else {
            n->has_more |= *p != '0';
            exponent += !is_fraction;
        }
    }
    n->digits = digits;
    n->exponent = exponent;
}

/* Read a number by the grammar of JSON. Return its end, or NULL. `is_cut`: the text ends inside the number. */
static inline const uint8_t* kv_read_number(const uint8_t* p, const uint8_t* end, kv_number* n, int* is_cut) {
    int64_t count, power = 0;
    n->negative = *p == '-';
    n->has_more = 0;
    n->is_integer = 1;
    n->first = p += n->negative;
    uint64_t digits = 0;
    if (p >= end || !kv_is_digit(*p)) goto bad;
    if (*p == '0') p++;
    else for (; p < end && kv_is_digit(*p); p++) digits = digits * 10 + (*p - '0');  /* few before a decimal point */
    count = p - n->first;
    n->exponent = 0;
    if (p < end && *p == '.') {
        const uint8_t* fraction = ++p;
        p = kv_read_digits(p, end, &digits);
        if (p == fraction) goto bad;
        n->exponent = fraction - p;
        n->is_integer = 0;
        count += p - fraction;
    }
    n->last = p;
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        int negative = p < end && *p == '-';
        if (p < end && (*p == '-' || *p == '+')) p++;
        if (p >= end || !kv_is_digit(*p)) goto bad;
        for (; p < end && kv_is_digit(*p); p++)
            if (power < (int64_t)1 << 55) power = power * 10 + (*p - '0');
        if (negative) power = -power;
        n->is_integer = 0;
    }
    n->power = power;
    n->exponent += power;
    n->digits = digits;
    if (count > 19) kv_take_digits(n);
    return p;
bad:
    *is_cut = p >= end;
    return NULL;
}

/* Store a number as int64. Return 0 if it has a fraction or is out of range. */
static int kv_number_to_long(const kv_number* n, int64_t* value) {
    const uint8_t *p = n->first, *last = n->last, *point = n->last;
    uint64_t digits = 0, limit = (uint64_t)INT64_MAX + n->negative;
    for (const uint8_t* q = p; q < last; q++)
        if (*q == '.') point = q;
    while (p < last && (*p == '0' || *p == '.')) p++;
    while (last > p && (last[-1] == '0' || last[-1] == '.')) last--;
    *value = 0;
    if (p == last) return 1;
    int64_t exponent = n->power + (last <= point ? point - last : point - last + 1);
    if (exponent < 0 || exponent > 18 || last - p > 20) return 0;
    for (; p < last; p++) {
        if (*p == '.') continue;
        if (digits > (UINT64_MAX - 9) / 10) return 0;
        digits = digits * 10 + (*p - '0');
    }
    for (; exponent; exponent--) {
        if (digits > limit / 10) return 0;
        digits *= 10;
    }
    if (digits > limit) return 0;
    *value = (int64_t)(n->negative ? 0 - digits : digits);
    return 1;
}

static inline uint64_t kv_multiply(uint64_t a, uint64_t b, uint64_t* high) {
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
#else
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t low = al * bl, middle = ah * bl + (low >> 32), other = al * bh + (uint32_t)middle;
    *high = ah * bh + (middle >> 32) + (other >> 32);
    return other << 32 | (uint32_t)low;
#endif
}

/* Return the bits of the double nearest to digits * 10^power. `powers` has the highest 128 bits of 5^-342 to 5^308. */
static inline uint64_t kv_nearest_double(uint64_t digits, int64_t power, const uint8_t* powers) {
    uint64_t five[2], high, low, second;
    if (!digits || power < KV_SMALLEST_POWER) return 0;
    if (power > KV_LARGEST_POWER) return KV_INFINITE;
    memcpy(five, powers + 16 * (power - KV_SMALLEST_POWER), 16);
    int zeros = __builtin_clzll(digits);
    digits <<= zeros;
    low = kv_multiply(digits, five[0], &high);
    if ((high & 0x1ff) == 0x1ff) {
        kv_multiply(digits, five[1], &second);
        low += second;
        high += second > low;
    }
    int upper = (int)(high >> 63);
    uint64_t mantissa = high >> (upper + 9);
    int64_t exponent = (((152170 + 65536) * power) >> 16) + 63 + upper - zeros + 1023;
    if (exponent <= 0) {  /* subnormal */
        if (exponent <= -63) return 0;
        mantissa >>= 1 - exponent;
        mantissa += mantissa & 1;
        return mantissa >> 1;  /* 2^52 is the smallest normal number */
    }
    /* A tie is rounded to even. */
    if (low <= 1 && power >= -4 && power <= 23 && (mantissa & 3) == 1 && mantissa << (upper + 9) == high) mantissa--;
    mantissa += mantissa & 1;
    mantissa >>= 1;
    if (mantissa >= (uint64_t)1 << 53) {
        mantissa = (uint64_t)1 << 52;
        exponent++;
    }
    if (exponent >= 0x7ff) return KV_INFINITE;
    return (mantissa & (((uint64_t)1 << 52) - 1)) | (uint64_t)exponent << 52;
}

typedef struct { uint32_t limbs[KV_LIMBS]; int size; } kv_big;  /* a natural number, least significant limb first */

static void kv_big_multiply(kv_big* n, uint32_t factor, uint32_t added) {
    uint64_t carry = added;
    for (int i = 0; i < n->size; i++) {
        carry += (uint64_t)n->limbs[i] * factor;
        n->limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) n->limbs[n->size++] = (uint32_t)carry;
}

static void kv_big_multiply_five(kv_big* n, int64_t power) {
    for (; power >= 13; power -= 13) kv_big_multiply(n, 1220703125, 0);
    for (; power > 0; power--) kv_big_multiply(n, 5, 0);
}

static void kv_big_shift(kv_big* n, int64_t bits) {
    int whole = (int)(bits / 32);
    kv_big_multiply(n, (uint32_t)1 << (bits % 32), 0);
    memmove(n->limbs + whole, n->limbs, sizeof(uint32_t) * n->size);
    memset(n->limbs, 0, sizeof(uint32_t) * whole);
    n->size += whole;
}

static int kv_big_compare(const kv_big* a, const kv_big* b) {
    if (a->size != b->size) return a->size > b->size ? 1 : -1;
    for (int i = a->size - 1; i >= 0; i--)
        if (a->limbs[i] != b->limbs[i]) return a->limbs[i] > b->limbs[i] ? 1 : -1;
    return 0;
}

/* Return the bits of the nearest double: `lower` or the next one. No number here has more than 3,000 bits. */
static uint64_t kv_nearest_of_two(const kv_number* n, uint64_t lower) {
    kv_big number = {.size = 0}, halfway = {.size = 0};
    int64_t power = n->power;
    int taken = 0, is_fraction = 0, more = 0;
    for (const uint8_t* p = n->first; p < n->last; p++) {
        if (*p == '.') is_fraction = 1;
        else if (taken < KV_MOST_DIGITS) {
            kv_big_multiply(&number, 10, *p - '0');
            taken += number.size != 0;
            power -= is_fraction;
        } else {
            more |= *p != '0';
            power += !is_fraction;
        }
    }
    if (more) {
        kv_big_multiply(&number, 10, 1);
        power--;
    }
    uint64_t mantissa = lower & (((uint64_t)1 << 52) - 1);
    int64_t exponent = (int64_t)(lower >> 52);
    if (exponent) mantissa |= (uint64_t)1 << 52;
    else exponent = 1;
    mantissa = 2 * mantissa + 1;
    exponent -= 1023 + 53;
    halfway.limbs[0] = (uint32_t)mantissa;
    halfway.limbs[1] = (uint32_t)(mantissa >> 32);
    halfway.size = halfway.limbs[1] ? 2 : 1;
    if (power < 0) kv_big_multiply_five(&halfway, -power);
    else kv_big_multiply_five(&number, power);
    if (exponent > power) kv_big_shift(&halfway, exponent - power);
    else kv_big_shift(&number, power - exponent);
    int order = kv_big_compare(&number, &halfway);
    return lower + (order > 0 || (order == 0 && (lower & 1)));
}

/* Convert a number to the nearest double. Return 0 if it is out of range. */
static inline int kv_number_to_double(const kv_number* n, const uint8_t* powers, double* value) {
#if FLT_EVAL_METHOD == 0
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (n->digits <= (uint64_t)1 << 53 && n->exponent >= -22 && n->exponent <= 22 && !n->has_more) {
        double number = (double)n->digits;
        number = n->exponent < 0 ? number / tens[-n->exponent] : number * tens[n->exponent];
        *value = n->negative ? -number : number;
        return 1;
    }
#endif
    uint64_t bits = kv_nearest_double(n->digits, n->exponent, powers);
    if (n->has_more && kv_nearest_double(n->digits + 1, n->exponent, powers) != bits) bits = kv_nearest_of_two(n, bits);
    if (bits == KV_INFINITE) return 0;
    bits |= (uint64_t)n->negative << 63;
    memcpy(value, &bits, 8);
    return 1;
}

#endif

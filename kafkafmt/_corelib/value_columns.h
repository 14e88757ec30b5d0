/* Columns in Arrow's layout, to which the decoders of all formats append values.
 *
 * The columns are nodes of a tree in depth-first order. A row is added to each column of a record
 * while its fields are read. If a value is invalid, the columns are cut back to the row before it:
 * the offsets of a list tell how many items belong to earlier rows, so nothing else must be recorded.
 *
 * No memory is allocated here. If a column is full, the row is undone and the caller enlarges it.
 */
#ifndef KAFKAFMT_VALUE_COLUMNS_H
#define KAFKAFMT_VALUE_COLUMNS_H

#include <stdint.h>
#include <string.h>

enum { KV_NULLS, KV_BITS, KV_FIXED, KV_BINARY, KV_LIST, KV_STRUCT };

typedef struct {
    int32_t kind;
    union {
        int32_t width;       /* KV_FIXED: bytes of an item */
        int32_t rest_start;  /* KV_LIST, KV_STRUCT: see json_values.h */
    };
    int32_t last;            /* index after the last column below this one */
    union {
        int32_t precision;   /* decimals: largest number of digits */
        int32_t rest_end;
    };
    int64_t rows, capacity, nulls;
    int64_t filled, room;  /* KV_BINARY: bytes of data */
    int64_t checked;       /* maps: rows without equal keys */
    uint8_t* validity;
    int32_t* offsets;
    uint8_t* data;
    int64_t unused[5];     /* the size is a power of two, so that a column is found quickly by its index */
} kv_column;

enum { KV_AVRO, KV_PROTOBUF, KV_JSON };  /* in the order of constants.VALUE_FORMATS */

typedef struct {
    int32_t format;
    const void* code;  /* instructions, whose form depends on the format */
    const int32_t* tables;
    const uint8_t* constants;
    int64_t constants_size;
} kv_program;

enum {  /* in the order of constants.VALUE_FAULTS */
    KV_OK, KV_TRUNCATED, KV_TRAILING, KV_BAD_LENGTH, KV_BAD_INDEX, KV_BAD_UTF8, KV_BAD_NUMBER, KV_TOO_DEEP,
    KV_TOO_LARGE, KV_NO_BRANCH, KV_NO_SYMBOL, KV_BAD_JSON, KV_FULL
};

enum {
    KV_DEPTH = 64,  /* of nested values */
    KV_SLACK = 16   /* unused bytes after the data of a column */
};

typedef struct {
    kv_column* columns;
    int32_t full;      /* column that is full */
    int64_t needed;    /* bytes of data that it must hold, or 0: rows */
    const uint8_t* at; /* start of the item that is invalid */
    int64_t unknown;   /* Protobuf: fields of the value that its schema does not contain */
} kv_state;

#define KV_INLINE static inline __attribute__((always_inline))  /* a call takes as long as reading a short value */
#define KV_LIKELY(x) __builtin_expect(!!(x), 1)

static int kv_is_utf8(const uint8_t* p, int64_t size) {
    const uint8_t* end = p + size;
    while (p < end) {
        uint8_t first = *p++;
        if (first < 0x80) continue;
        int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        if (first < 0xc2 || first > 0xf4 || end - p < more) return 0;
        uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (*p < low || *p > high) return 0;
        for (int i = 1; i < more; i++)
            if ((p[i] & 0xc0) != 0x80) return 0;
        p += more;
    }
    return 1;
}

/* Check that a column has room for more bytes. */
KV_INLINE int kv_need(kv_state* s, int32_t index, int64_t size) {
    const kv_column* c = s->columns + index;
    if (KV_LIKELY(c->filled + size <= c->room)) return KV_OK;
    if (c->filled + size > INT32_MAX - KV_SLACK) return KV_TOO_LARGE;
    s->full = index;
    s->needed = c->filled + size;
    return KV_FULL;
}

/* Copy a text or bytes to the end of a column. `readable` is the end of the readable memory. */
KV_INLINE int kv_put_bytes(kv_state* s, int32_t index, const uint8_t* from, int64_t size, const uint8_t* readable,
                               int is_text) {
    kv_column* c = s->columns + index;
    int fault = kv_need(s, index, size);
    if (fault) return fault;
    uint8_t* to = c->data + c->filled;
    uint64_t seen = 0;
    if (KV_LIKELY(readable - from >= size + KV_SLACK)) {
        int64_t i = 0;
        uint64_t low, high;
        for (; i + 16 <= size; i += 16) {
            memcpy(&low, from + i, 8);
            memcpy(&high, from + i + 8, 8);
            memcpy(to + i, &low, 8);
            memcpy(to + i + 8, &high, 8);
            seen |= low | high;
        }
        memcpy(&low, from + i, 8);
        memcpy(&high, from + i + 8, 8);
        memcpy(to + i, &low, 8);
        memcpy(to + i + 8, &high, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        int64_t left = size - i;
        if (left >= 8) seen |= low | (high & (((uint64_t)1 << (8 * (left - 8))) - 1));
        else seen |= low & (((uint64_t)1 << (8 * left)) - 1);
#else
        for (; i < size; i++) seen |= from[i];
#endif
    } else {
        memcpy(to, from, size);
        for (int64_t i = 0; i < size; i++) seen |= from[i];
    }
    if (is_text && (seen & 0x8080808080808080u) && !kv_is_utf8(from, size)) return KV_BAD_UTF8;
    c->filled += size;
    return KV_OK;
}

/* Add a null to a column, and to the members of a struct. */
static int kv_put_null(kv_state* s, int32_t index) {
    kv_column* c = s->columns + index;
    if (c->rows >= c->capacity) {
        s->full = index;
        s->needed = 0;
        return KV_FULL;
    }
    int64_t row = c->rows;
    switch (c->kind) {
        case KV_BITS: c->data[row >> 3] &= ~(1u << (row & 7)); break;
        case KV_FIXED: memset(c->data + row * c->width, 0, c->width); break;
        case KV_BINARY: c->offsets[row + 1] = (int32_t)c->filled; break;
        case KV_LIST: c->offsets[row + 1] = c->offsets[row]; break;
        case KV_STRUCT:
            for (int32_t child = index + 1; child < c->last; child = s->columns[child].last) {
                int fault = kv_put_null(s, child);
                if (fault) return fault;
            }
    }
    if (c->kind != KV_NULLS) c->validity[row >> 3] &= ~(1u << (row & 7));
    c->nulls++;
    c->rows++;
    return KV_OK;
}

/* Remove all rows of a column, and of the columns below it, from `rows` on. */
static void kv_cut(kv_column* columns, int32_t index, int64_t rows) {
    kv_column* c = columns + index;
    if (c->kind == KV_NULLS) {
        if (c->rows > rows) c->nulls = c->rows = rows;
        return;
    }
    for (int64_t row = rows; row < c->rows; row++)
        if (!(c->validity[row >> 3] >> (row & 7) & 1)) {
            c->validity[row >> 3] |= 1u << (row & 7);
            c->nulls--;
        }
    if (c->rows > rows) c->rows = rows;
    if (c->kind == KV_BINARY) c->filled = c->offsets[c->rows];
    if (c->kind == KV_LIST) kv_cut(columns, index + 1, c->offsets[c->rows]);
    if (c->kind == KV_STRUCT)
        for (int32_t child = index + 1; child < c->last; child = columns[child].last) kv_cut(columns, child, rows);
}

/* Store a big-endian number in two's complement as a decimal of 128 or 256 bits, if it has not too many digits. */
static int kv_put_decimal(kv_column* c, const uint8_t* from, int64_t size, const uint8_t* limits) {
    uint8_t* to = c->data + c->rows * c->width;
    uint8_t sign = size && (from[0] & 0x80) ? 0xff : 0;
    for (; size > c->width; size--)
        if (*from++ != sign) return KV_BAD_NUMBER;
    memset(to, sign, c->width);
    for (int64_t i = 0; i < size; i++) to[i] = from[size - 1 - i];
    if (((to[c->width - 1] & 0x80) != 0) != (sign != 0)) return KV_BAD_NUMBER;
    /* Compare the absolute value with the limit, which is 10 to the power of the precision. */
    uint8_t absolute[32];
    int carry = sign != 0;
    for (int i = 0; i < c->width; i++) {
        int byte = (sign ? (uint8_t)~to[i] : to[i]) + carry;
        absolute[i] = (uint8_t)byte;
        carry = sign && byte > 0xff;
    }
    const uint8_t* limit = limits + 32 * c->precision;
    for (int i = c->width - 1; i >= 0; i--)
        if (absolute[i] != limit[i]) return absolute[i] < limit[i] ? KV_OK : KV_BAD_NUMBER;
    return KV_BAD_NUMBER;
}

static void kv_put_uuid(uint8_t* to, const uint8_t* from) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *to++ = '-';
        *to++ = digits[from[i] >> 4];
        *to++ = digits[from[i] & 15];
    }
}

#endif

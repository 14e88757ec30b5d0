/* Decode Avro values into the buffers of Arrow columns, by a compiled program.
 *
 * values/avro/program.py describes the instructions and compiles them. The columns are nodes of a
 * tree in depth-first order. A row is added to each column of a record while its fields are read. If
 * a value is invalid, the columns are cut back to the row before it: the offsets of a list tell how
 * many items belong to earlier rows, so nothing else must be recorded.
 *
 * No memory is allocated here. If a column is full, the row is undone and the caller enlarges it.
 */
#ifndef KAFKAFMT_VALUES_H
#define KAFKAFMT_VALUES_H

#include <stdint.h>
#include <string.h>

enum { KV_NULLS, KV_BITS, KV_FIXED, KV_BINARY, KV_LIST, KV_STRUCT };

typedef struct {
    int32_t kind;
    int32_t width;      /* KV_FIXED: bytes of an item */
    int32_t last;       /* index after the last column below this one */
    int32_t precision;  /* decimals: largest number of digits */
    int64_t rows, capacity, nulls;
    int64_t filled, room;  /* KV_BINARY: bytes of data */
    uint8_t* validity;
    int32_t* offsets;
    uint8_t* data;
} kv_column;

typedef struct {
    int16_t code;
    int16_t null_branch;  /* -1: the value is not in a union with null */
    int32_t column;       /* -1: the value is skipped */
    int32_t jump;
    int32_t argument;
} kv_instruction;

typedef struct {
    const kv_instruction* code;
    const int32_t* tables;
    const uint8_t* constants;
    int64_t constants_size;
} kv_program;

enum {  /* in the order of constants.VALUE_OPS */
    KV_END, KV_BOOLEAN, KV_INT, KV_LONG, KV_FLOAT, KV_DOUBLE, KV_TEXT, KV_BYTES, KV_FIXED_BYTES, KV_DECIMAL,
    KV_FIXED_DECIMAL, KV_ENUM, KV_ARRAY, KV_LOOP, KV_RECORD, KV_NULL, KV_UNION, KV_JUMP, KV_INT_TO_LONG,
    KV_INT_TO_FLOAT, KV_INT_TO_DOUBLE, KV_LONG_TO_FLOAT, KV_LONG_TO_DOUBLE, KV_FLOAT_TO_DOUBLE, KV_TIME_MILLIS,
    KV_TIME_MICROS, KV_UUID, KV_CALL, KV_RETURN, KV_CAPTURE, KV_CAPTURED, KV_DEFAULT, KV_DEFAULTED
};

enum {  /* in the order of constants.VALUE_FAULTS */
    KV_OK, KV_TRUNCATED, KV_TRAILING, KV_BAD_LENGTH, KV_BAD_INDEX, KV_BAD_UTF8, KV_BAD_NUMBER, KV_TOO_DEEP,
    KV_TOO_LARGE, KV_NO_BRANCH, KV_NO_SYMBOL, KV_FULL
};

enum {
    KV_DEPTH = 64,          /* of nested arrays and maps, and of calls */
    KV_EMPTY_ITEMS = 4096,  /* items without bytes that a value can have, in addition to its size */
    KV_SLACK = 16           /* unused bytes after the data of a column */
};

typedef struct { int64_t left; int32_t at; int32_t column; } kv_loop;

typedef struct {
    kv_column* columns;
    int32_t full;      /* column that is full */
    int64_t needed;    /* bytes of data that it must hold, or 0: rows */
    const uint8_t* at; /* start of the item that is invalid */
} kv_state;

#define KV_LIKELY(x) __builtin_expect(!!(x), 1)

static inline int kv_read_long(const uint8_t** position, const uint8_t* end, int64_t* value) {
    const uint8_t* p = *position;
    if (p >= end) return KV_TRUNCATED;
    uint64_t byte = *p++, bits = byte & 0x7f;
    if (KV_LIKELY(byte < 0x80)) {
        *position = p;
        *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
        return KV_OK;
    }
    for (int shift = 7; byte & 0x80; shift += 7) {
        if (p >= end) return KV_TRUNCATED;
        byte = *p++;
        if (shift == 63 && byte > 1) return KV_BAD_NUMBER;
        bits |= (byte & 0x7f) << shift;
    }
    *position = p;
    *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
    return KV_OK;
}

static inline int kv_read_int(const uint8_t** position, const uint8_t* end, int64_t* value) {
    int fault = kv_read_long(position, end, value);
    return fault ? fault : *value == (int32_t)*value ? KV_OK : KV_BAD_NUMBER;
}

static inline int kv_read_length(const uint8_t** position, const uint8_t* end, int64_t* length) {
    int fault = kv_read_long(position, end, length);
    if (fault) return fault;
    if (*length < 0) return KV_BAD_LENGTH;
    return *length > end - *position ? KV_TRUNCATED : KV_OK;
}

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

/* Copy a text or bytes to the end of a column. `readable` is the end of the readable memory. */
static inline int kv_put_bytes(kv_state* s, int32_t index, const uint8_t* from, int64_t size, const uint8_t* readable,
                               int is_text) {
    kv_column* c = s->columns + index;
    if (c->filled + size > c->room) {
        if (c->filled + size > INT32_MAX - KV_SLACK) return KV_TOO_LARGE;
        s->full = index;
        s->needed = c->filled + size;
        return KV_FULL;
    }
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

/* Read the number of items of the next block of an array or map. 0: there are no more items. */
static int kv_read_block(const uint8_t** p, const uint8_t* end, int has_bytes, int64_t* budget, int64_t* items) {
    int fault = kv_read_long(p, end, items);
    if (fault) return fault;
    if (*items < 0) {  /* the size of the block in bytes follows */
        int64_t size;
        if (*items == INT64_MIN) return KV_BAD_LENGTH;
        *items = -*items;
        if ((fault = kv_read_length(p, end, &size))) return fault;
    }
    if (has_bytes) return *items > end - *p ? KV_TRUNCATED : KV_OK;
    if (*items > *budget) return KV_TOO_LARGE;
    *budget -= *items;
    return KV_OK;
}

#define KV_READ(call) do { if ((fault = (call))) return fault; } while (0)
#define KV_ROOM() do { if (c && c->rows >= c->capacity) { s->full = o->column; s->needed = 0; return KV_FULL; } } while (0)

static int kv_decode_value(kv_state* s, const kv_program* program, const uint8_t* p, const uint8_t* end,
                           const uint8_t* readable, const uint8_t* limits) {
    const kv_instruction *code = program->code, *o = code;
    kv_loop loops[KV_DEPTH];
    int32_t calls[KV_DEPTH];
    int depth = 0, called = 0, fault;
    int64_t v, budget = end - p + KV_EMPTY_ITEMS;
    const uint8_t *captured = NULL, *saved = NULL, *saved_end = NULL, *saved_readable = NULL;

    for (;; o++) {
        kv_column* c = o->column < 0 ? NULL : s->columns + o->column;
        s->at = saved ? saved : p;
        if (o->null_branch >= 0) {
            if (p < end && !(*p & 0x80)) v = (*p & 1) ? -1 : *p >> 1, p++;
            else KV_READ(kv_read_long(&p, end, &v));
            if (v < 0 || v > 1) return KV_BAD_INDEX;
            if (v == o->null_branch) {
                if (c) KV_READ(kv_put_null(s, o->column));
                o = code + o->jump - 1;
                continue;
            }
        }
        switch (o->code) {
            case KV_END:
                return p == end ? KV_OK : KV_TRAILING;
            case KV_BOOLEAN:
                if (p >= end) return KV_TRUNCATED;
                if (*p > 1) return KV_BAD_NUMBER;
                KV_ROOM();
                if (c) {
                    uint8_t bit = 1u << (c->rows & 7), *byte = c->data + (c->rows++ >> 3);
                    *byte = *p ? *byte | bit : *byte & ~bit;
                }
                p++;
                break;
            case KV_TIME_MILLIS:
            case KV_INT:
                KV_READ(kv_read_int(&p, end, &v));
                if (o->code == KV_TIME_MILLIS && (v < 0 || v >= 86400000)) return KV_BAD_NUMBER;
                KV_ROOM();
                if (c) ((int32_t*)c->data)[c->rows++] = (int32_t)v;
                break;
            case KV_TIME_MICROS:
                KV_READ(kv_read_long(&p, end, &v));
                if (v < 0 || v >= 86400000000) return KV_BAD_NUMBER;
                KV_ROOM();
                if (c) ((int64_t*)c->data)[c->rows++] = v;
                break;
            case KV_LONG:
                KV_READ(kv_read_long(&p, end, &v));
                KV_ROOM();
                if (c) ((int64_t*)c->data)[c->rows++] = v;
                break;
            case KV_INT_TO_LONG:
                KV_READ(kv_read_int(&p, end, &v));
                KV_ROOM();
                ((int64_t*)c->data)[c->rows++] = v;
                break;
            case KV_INT_TO_FLOAT:
            case KV_LONG_TO_FLOAT:
                KV_READ(o->code == KV_INT_TO_FLOAT ? kv_read_int(&p, end, &v) : kv_read_long(&p, end, &v));
                KV_ROOM();
                ((float*)c->data)[c->rows++] = (float)v;
                break;
            case KV_INT_TO_DOUBLE:
            case KV_LONG_TO_DOUBLE:
                KV_READ(o->code == KV_INT_TO_DOUBLE ? kv_read_int(&p, end, &v) : kv_read_long(&p, end, &v));
                KV_ROOM();
                ((double*)c->data)[c->rows++] = (double)v;
                break;
            case KV_FLOAT:
                if (end - p < 4) return KV_TRUNCATED;
                KV_ROOM();
                if (c) memcpy(c->data + 4 * c->rows++, p, 4);
                p += 4;
                break;
            case KV_DOUBLE:
                if (end - p < 8) return KV_TRUNCATED;
                KV_ROOM();
                if (c) memcpy(c->data + 8 * c->rows++, p, 8);
                p += 8;
                break;
            case KV_FLOAT_TO_DOUBLE: {
                float number;
                if (end - p < 4) return KV_TRUNCATED;
                KV_ROOM();
                memcpy(&number, p, 4);
                ((double*)c->data)[c->rows++] = number;
                p += 4;
                break;
            }
            case KV_TEXT:
            case KV_BYTES:
                KV_READ(kv_read_length(&p, end, &v));
                KV_ROOM();
                if (c) {
                    KV_READ(kv_put_bytes(s, o->column, p, v, readable, o->code == KV_TEXT));
                    c->offsets[++c->rows] = (int32_t)c->filled;
                } else if (o->argument && !kv_is_utf8(p, v)) return KV_BAD_UTF8;
                p += v;
                break;
            case KV_FIXED_BYTES:
                if (end - p < o->argument) return KV_TRUNCATED;
                KV_ROOM();
                if (c) memcpy(c->data + (int64_t)c->width * c->rows++, p, o->argument);
                p += o->argument;
                break;
            case KV_DECIMAL:
            case KV_FIXED_DECIMAL:
                if (!c && (v = program->tables[o->argument + 1]) >= 0) {
                    if (end - p < v) return KV_TRUNCATED;
                } else if (o->code == KV_DECIMAL) KV_READ(kv_read_length(&p, end, &v));
                else if (end - p < (v = o->argument)) return KV_TRUNCATED;
                KV_ROOM();
                if (!c) {  /* only check it */
                    uint8_t number[32];
                    kv_column digits = {.width = 32, .precision = program->tables[o->argument], .data = number};
                    KV_READ(kv_put_decimal(&digits, p, v, limits));
                    p += v;
                    break;
                }
                KV_READ(kv_put_decimal(c, p, v, limits));
                c->rows++;
                p += v;
                break;
            case KV_UUID:
                if (end - p < 16) return KV_TRUNCATED;
                KV_ROOM();
                if (c->filled + 36 > c->room) {
                    s->full = o->column;
                    s->needed = c->filled + 36;
                    return c->filled + 36 > INT32_MAX - KV_SLACK ? KV_TOO_LARGE : KV_FULL;
                }
                kv_put_uuid(c->data + c->filled, p);
                c->filled += 36;
                c->offsets[++c->rows] = (int32_t)c->filled;
                p += 16;
                break;
            case KV_ENUM: {
                const int32_t* symbols = program->tables + o->argument;
                KV_READ(kv_read_int(&p, end, &v));
                if (v < 0 || v >= symbols[0]) return KV_BAD_INDEX;
                KV_ROOM();
                if (c) {
                    if (symbols[1 + v] < 0) return KV_NO_SYMBOL;
                    ((int32_t*)c->data)[c->rows++] = symbols[1 + v];
                }
                break;
            }
            case KV_RECORD:
                KV_ROOM();
                c->rows++;
                break;
            case KV_NULL:
                if (c) KV_READ(kv_put_null(s, o->column));
                break;
            case KV_JUMP:
                o = code + o->jump - 1;
                break;
            case KV_UNION: {
                const int32_t* branches = program->tables + o->argument;
                KV_READ(kv_read_long(&p, end, &v));
                if (v < 0 || v >= branches[0]) return KV_BAD_INDEX;
                if (branches[1 + v] < 0) return KV_NO_BRANCH;
                o = code + branches[1 + v] - 1;
                break;
            }
            case KV_ARRAY:
                KV_ROOM();
                KV_READ(kv_read_block(&p, end, o->argument, &budget, &v));
                if (v) {
                    if (depth == KV_DEPTH) return KV_TOO_DEEP;
                    loops[depth].left = v;
                    loops[depth].at = (int32_t)(o - code);
                    loops[depth++].column = o->column;
                    break;
                }
                if (c) {
                    c->offsets[c->rows + 1] = c->offsets[c->rows];
                    c->rows++;
                }
                o = code + o->jump - 1;
                break;
            case KV_LOOP: {
                kv_loop* loop = loops + depth - 1;
                if (!--loop->left) {
                    KV_READ(kv_read_block(&p, end, code[loop->at].argument, &budget, &loop->left));
                    if (!loop->left) {
                        if (loop->column >= 0) {
                            c = s->columns + loop->column;
                            if (c[1].rows > INT32_MAX) return KV_TOO_LARGE;
                            c->offsets[++c->rows] = (int32_t)c[1].rows;
                        }
                        depth--;
                        break;
                    }
                }
                o = code + loop->at;
                break;
            }
            case KV_CALL:
                if (called == KV_DEPTH) return KV_TOO_DEEP;
                calls[called++] = (int32_t)(o - code);
                o = code + o->jump - 1;
                break;
            case KV_RETURN:
                o = code + calls[--called];
                break;
            case KV_CAPTURE:
                captured = p;
                break;
            case KV_CAPTURED: {
                KV_ROOM();
                uint32_t type = (uint32_t)o->argument;
                s->at = captured;
                KV_READ(kv_put_bytes(s, o->column, (const uint8_t*)&type, 4, NULL, 0));
                fault = kv_put_bytes(s, o->column, captured, p - captured, readable, 0);
                if (fault) return fault;
                c->offsets[++c->rows] = (int32_t)c->filled;
                break;
            }
            case KV_DEFAULT:
                saved = p;
                saved_end = end;
                saved_readable = readable;
                p = program->constants + o->argument;
                end = readable = program->constants + program->constants_size;
                break;
            case KV_DEFAULTED:
                p = saved;
                end = saved_end;
                readable = saved_readable;
                saved = NULL;
                break;
        }
    }
}

#undef KV_READ
#undef KV_ROOM

#endif

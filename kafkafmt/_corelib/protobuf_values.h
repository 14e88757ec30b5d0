/* Decode Protobuf values into columns, by a compiled program. values/protobuf/program.py describes it.
 *
 * A field can occur several times: the last scalar wins, and messages are merged. A column has at most one
 * row more than before the message if its field occurred, and this row is the last one. It can therefore be
 * replaced or continued.
 */
#ifndef KAFKAFMT_PROTOBUF_VALUES_H
#define KAFKAFMT_PROTOBUF_VALUES_H

#include <stdlib.h>

#include "value_columns.h"

enum {  /* in the order of constants.PROTOBUF_OPS */
    KV_PB_SKIP, KV_PB_VARINT32, KV_PB_VARINT64, KV_PB_ZIGZAG32, KV_PB_ZIGZAG64, KV_PB_BOOL, KV_PB_FIXED32,
    KV_PB_FIXED64, KV_PB_ENUM, KV_PB_TEXT, KV_PB_BYTES, KV_PB_WIDER, KV_PB_MESSAGE, KV_PB_TIMESTAMP,
    KV_PB_DURATION, KV_PB_PATH, KV_PB_SECONDS, KV_PB_NANOS, KV_PB_CAPTURE
};
enum {  /* in the order of constants.PROTOBUF_NUMBERS */
    KV_PB_INT32, KV_PB_UINT32, KV_PB_SINT32, KV_PB_UFIXED32, KV_PB_SFIXED32, KV_PB_INT64, KV_PB_UINT64,
    KV_PB_SINT64, KV_PB_UFIXED64, KV_PB_SFIXED64, KV_PB_FLOAT
};
enum {  /* in the order of constants.PROTOBUF_ABSENT */
    KV_PB_ABSENT_NULL, KV_PB_ABSENT_ZERO, KV_PB_ABSENT_ENUM, KV_PB_ABSENT_LIST, KV_PB_ABSENT_MESSAGE,
    KV_PB_ABSENT_TEXT
};
enum { KV_PB_REPEATED = 1, KV_PB_PACKS = 2, KV_PB_WHOLE = 4, KV_PB_INLINE = 8, KV_PB_ENTRY = 16, KV_PB_PLAIN = 32 };
enum { KV_PB_WIRE_VARINT, KV_PB_WIRE_64, KV_PB_WIRE_LENGTH, KV_PB_WIRE_GROUP, KV_PB_WIRE_END, KV_PB_WIRE_32 };
enum {
    KV_PB_NO_BIT = 63,
    KV_PB_FEW_ENTRIES = 16,
    KV_PB_MOST_CELLS = 1 << 24  /* columns of all messages in a value: an empty message needs only two bytes */
};

typedef struct {
    int32_t number;
    uint8_t op, wire, flags, absent;
    uint16_t tag, mask;  /* plain fields: the bytes of a tag of one or two bytes; otherwise, the mask is 0 */
    int32_t column;    /* -1: the field is checked, and not stored */
    int32_t element;   /* column of an item; for a repeated field, the one after `column` */
    int32_t type;      /* messages: index of the type; captures: field that checks the value */
    int32_t argument;  /* enums: table; numbers: how they are widened; captures: number of the function */
    int32_t oneof;     /* table of the columns of its oneof, or -1 */
    int32_t bit;       /* index of its column in the fills of its type, or KV_PB_NO_BIT */
} kv_pb_field;

typedef struct { int32_t first, count, dense, dense_count, fills, fill_count, plain_fills, cells; } kv_pb_type;

typedef struct {
    kv_state* s;
    kv_column* columns;
    const kv_pb_field* fields;
    const int32_t* tables;
    const kv_pb_type* types;
    const uint8_t* readable;
    int64_t budget, seconds, nanos;
    int has_unknown_value;  /* the entry of a map has a value that its closed enum does not know */
} kv_pb;

#define KV_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Call a function that is not inlined. Its caller's position, whose address it does not get, stays in a register. */
#define KV_AWAY(call) do { const uint8_t* q = p; KV_READ(call); p = q; } while (0)
#define KV_READ(call) do { if (KV_UNLIKELY((fault = (call)) != KV_OK)) return fault; } while (0)

KV_INLINE int kv_pb_varint(const uint8_t** position, const uint8_t* end, uint64_t* value) {
    const uint8_t* p = *position;
    if (KV_UNLIKELY(p >= end)) return KV_TRUNCATED;
    uint64_t byte = *p++, bits = byte & 0x7f;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (byte & 0x80 && end - p >= 8) {  /* eight bytes at a time */
        uint64_t next, last;
        memcpy(&next, p, 8);
        if ((last = ~next & 0x8080808080808080u)) {
            next &= last ^ (last - 1);
            next = (next & 0x007f007f007f007fu) | (next & 0x7f007f007f007f00u) >> 1;
            next = (next & 0x00003fff00003fffu) | (next & 0x3fff00003fff0000u) >> 2;
            next = (next & 0x000000000fffffffu) | (next & 0x0fffffff00000000u) >> 4;
            *value = bits | next << 7;
            *position = p + (__builtin_ctzll(last) >> 3) + 1;
            return KV_OK;
        }
    }
#endif
    for (int shift = 7; byte & 0x80; shift += 7) {
        if (shift == 70) return KV_BAD_NUMBER;
        if (p >= end) return KV_TRUNCATED;
        byte = *p++;
        bits |= (byte & 0x7f) << shift;
    }
    *position = p;
    *value = bits;
    return KV_OK;
}

/* Read a number of at most five bytes. `fault`: it is longer. */
KV_INLINE int kv_pb_short(const uint8_t** position, const uint8_t* end, uint64_t* value, int fault) {
    const uint8_t* p = *position;
    if (p >= end) return KV_TRUNCATED;
    uint64_t byte = *p++, bits = byte & 0x7f;
    for (int shift = 7; byte & 0x80; shift += 7) {
        if (shift == 35) return fault;
        if (p >= end) return KV_TRUNCATED;
        byte = *p++;
        bits |= (byte & 0x7f) << shift;
    }
    *position = p;
    *value = bits;
    return KV_OK;
}

KV_INLINE int kv_pb_length(const uint8_t** position, const uint8_t* end, uint64_t* length) {
    int fault = kv_pb_short(position, end, length, KV_BAD_LENGTH);
    if (KV_UNLIKELY(fault)) return fault;
    return *length > (uint64_t)(end - *position) ? KV_TRUNCATED : KV_OK;
}

KV_INLINE int kv_pb_tag(const uint8_t** position, const uint8_t* end, uint32_t* number, int* wire) {
    uint64_t tag;
    int fault = kv_pb_short(position, end, &tag, KV_BAD_INDEX);
    if (KV_UNLIKELY(fault)) return fault;
    *number = (uint32_t)(tag >> 3);
    *wire = tag & 7;
    return tag > UINT32_MAX || !*number || *wire > KV_PB_WIRE_32 ? KV_BAD_INDEX : KV_OK;
}

static int kv_pb_skip(const uint8_t** p, const uint8_t* end, uint32_t number, int wire, int depth) {
    uint64_t v;
    int fault, size = wire == KV_PB_WIRE_64 ? 8 : 4;
    switch (wire) {
        case KV_PB_WIRE_VARINT:
            return kv_pb_varint(p, end, &v);
        case KV_PB_WIRE_LENGTH:
            KV_READ(kv_pb_length(p, end, &v));
            *p += v;
            return KV_OK;
        case KV_PB_WIRE_GROUP:
            if (depth == KV_DEPTH) return KV_TOO_DEEP;
            for (;;) {
                uint32_t inner;
                KV_READ(kv_pb_tag(p, end, &inner, &wire));
                if (wire == KV_PB_WIRE_END) return inner == number ? KV_OK : KV_BAD_INDEX;
                KV_READ(kv_pb_skip(p, end, inner, wire, depth + 1));
            }
        default:
            if (end - *p < size) return KV_TRUNCATED;
            *p += size;
            return KV_OK;
    }
}

static inline int kv_pb_full(kv_state* s, int32_t column) {
    s->full = column;
    s->needed = 0;
    return KV_FULL;
}

/* Remove the values of the other members of a oneof. */
static void kv_pb_clear(kv_pb* r, const kv_pb_field* f, int64_t n) {
    const int32_t* members = r->tables + f->oneof;
    for (int32_t i = 1; i <= members[0]; i++)
        if (members[i] != f->element && r->columns[members[i]].rows > n) kv_cut(r->columns, members[i], n);
}

/* Make the column ready for a scalar, which replaces an earlier one. */
KV_INLINE int kv_pb_begin(kv_pb* r, const kv_pb_field* f, kv_column* c, int64_t n, int is_plain) {
    if (!is_plain) {
        if (f->oneof >= 0) kv_pb_clear(r, f, n);
        if (!c) return KV_OK;
    }
    if (c->rows > n && !(f->flags & KV_PB_REPEATED)) kv_cut(r->columns, f->element, n);
    return KV_UNLIKELY(c->rows >= c->capacity) ? kv_pb_full(r->s, f->element) : KV_OK;
}

/* Return the index of the symbol for a number. -1: the number is unknown. -2: the column does not have its symbol. */
static int32_t kv_pb_symbol(const int32_t* table, int32_t number) {
    if (number >= 0 && number < table[0]) return table[4 + number];
    const int32_t* numbers = table + 4 + table[0];
    int32_t low = 0, high = table[1];
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (numbers[middle] < number) low = middle + 1;
        else high = middle;
    }
    return low < table[1] && numbers[low] == number ? numbers[table[1] + low] : -1;
}

static inline void kv_pb_put_symbol(kv_column* c, int32_t index, int32_t number) {
    ((int64_t*)c->data)[c->rows++] = index >= 0 ? index : (int64_t)((uint64_t)1 << 32 | (uint32_t)number);
}

static int kv_pb_zero(kv_state* s, int32_t index) {
    kv_column* c = s->columns + index;
    if (c->rows >= c->capacity) return kv_pb_full(s, index);
    int64_t row = c->rows++;
    switch (c->kind) {
        case KV_BITS: c->data[row >> 3] &= ~(1u << (row & 7)); break;
        case KV_FIXED: memset(c->data + row * c->width, 0, c->width); break;
        case KV_BINARY: c->offsets[row + 1] = (int32_t)c->filled; break;
        case KV_LIST: c->offsets[row + 1] = c->offsets[row]; break;
    }
    return KV_OK;
}

/* Append bytes to the text of a row, which may not exist yet. `head` is written before the first bytes. */
static int kv_pb_append(kv_pb* r, int32_t index, int64_t n, const uint8_t* from, int64_t size, const void* head,
                        int32_t head_size) {
    kv_column* c = r->columns + index;
    int fault, fresh = c->rows <= n;
    if (fresh && c->rows >= c->capacity) return kv_pb_full(r->s, index);
    if (fresh && head_size) KV_READ(kv_put_bytes(r->s, index, head, head_size, head, 0));
    KV_READ(kv_put_bytes(r->s, index, from, size, size ? r->readable : from, 0));
    c->rows += fresh;
    c->offsets[c->rows] = (int32_t)c->filled;
    return KV_OK;
}

static int kv_pb_message(kv_pb* r, const kv_pb_type* t, int64_t n, const uint8_t** position, const uint8_t* end,
                         uint32_t group, const uint8_t* opened, int depth);

/* Read the content of a time that consists of seconds and nanoseconds. Return 0 if it must be read as a message. */
static inline int kv_pb_time(kv_pb* r, const uint8_t** position, const uint8_t* end, uint32_t group) {
    const uint8_t* p = *position;
    uint64_t v;
    if (group || r->budget < 1) return 0;
    for (int64_t* to = &r->seconds; p < end; to = &r->nanos) {
        if (to == &r->seconds && *p == 0x10) to = &r->nanos;
        if (*p++ != (to == &r->seconds ? 0x08 : 0x10) || kv_pb_varint(&p, end, &v) != KV_OK) {
            r->seconds = r->nanos = 0;
            return 0;
        }
        *to = to == &r->seconds ? (int64_t)v : (int32_t)v;
    }
    r->budget--;
    *position = p;
    return 1;
}

/* Check a time, and store it. `seen`: it replaces the time of the row. */
static int kv_pb_put_time(kv_pb* r, const kv_pb_field* f, kv_column* c, int64_t n, int seen, const uint8_t* opened) {
    int is_time = f->op == KV_PB_TIMESTAMP;
    r->s->at = opened;
    if (r->seconds > 9223372036853 || r->seconds < -9223372036854) return KV_BAD_NUMBER;
    if (r->nanos > 999999999 || r->nanos < (is_time ? 0 : -999999999)) return KV_BAD_NUMBER;
    if (!is_time && ((r->seconds > 0 && r->nanos < 0) || (r->seconds < 0 && r->nanos > 0))) return KV_BAD_NUMBER;
    if (!c) return KV_OK;
    if (!seen && c->rows >= c->capacity) return kv_pb_full(r->s, f->element);
    ((int64_t*)c->data)[n] = r->seconds * 1000000 + r->nanos / 1000;
    c->rows = n + 1;
    return KV_OK;
}

/* Decode the content of a message field. `opened` is the position of the field. */
static int kv_pb_content(kv_pb* r, const kv_pb_field* f, int64_t n, const uint8_t** p, const uint8_t* end,
                         uint32_t group, const uint8_t* opened, int depth) {
    kv_column* c = f->element < 0 ? NULL : r->columns + f->element;
    int fault, seen = 0;
    if (depth > KV_DEPTH) return KV_TOO_DEEP;
    if (f->oneof >= 0) kv_pb_clear(r, f, n);
    if (c && f->flags & KV_PB_REPEATED) n = c->rows;
    else if (c && c->rows > n) {
        seen = c->validity[n >> 3] >> (n & 7) & 1;
        if (!seen) kv_cut(r->columns, f->element, n);
    }
    if (f->op == KV_PB_MESSAGE) {
        if (c && !seen && !(f->flags & KV_PB_INLINE)) {
            if (c->rows >= c->capacity) return kv_pb_full(r->s, f->element);
            c->rows++;
        }
        KV_READ(kv_pb_message(r, r->types + f->type, n, p, end, group, opened, depth));
        if (KV_UNLIKELY(r->has_unknown_value)) {  /* then the whole entry is an unknown field */
            r->has_unknown_value = 0;
            if (c) kv_cut(r->columns, f->element, n);
        }
        return KV_OK;
    }
    int is_time = f->op == KV_PB_TIMESTAMP;
    r->seconds = r->nanos = 0;
    if (!seen && kv_pb_time(r, p, end, group)) return kv_pb_put_time(r, f, c, n, 0, opened);
    if (seen) {
        int64_t micros = ((int64_t*)c->data)[n];
        r->seconds = micros / 1000000 - (is_time && micros % 1000000 < 0);
        r->nanos = (micros - r->seconds * 1000000) * 1000;
    }
    KV_READ(kv_pb_message(r, r->types + f->type, n, p, end, group, opened, depth));
    return kv_pb_put_time(r, f, c, n, seen, opened);
}

static int kv_pb_widened(kv_pb* r, const kv_pb_field* f, kv_column* c, int64_t n, const uint8_t** p,
                         const uint8_t* end) {
    uint64_t v = 0;
    uint32_t half;
    float number = 0;
    double wide = 0;
    int fault, source = f->argument >> 1, to_double = f->argument & 1;
    if (f->wire == KV_PB_WIRE_VARINT) KV_READ(kv_pb_varint(p, end, &v));
    else {
        int size = f->wire == KV_PB_WIRE_64 ? 8 : 4;
        if (end - *p < size) return KV_TRUNCATED;
        if (size == 8) memcpy(&v, *p, 8);
        else {
            memcpy(&half, *p, 4);
            memcpy(&number, *p, 4);
            v = half;
        }
        *p += size;
    }
    switch (source) {
        case KV_PB_INT32: case KV_PB_SFIXED32: v = (uint64_t)(int64_t)(int32_t)v; break;
        case KV_PB_UINT32: case KV_PB_UFIXED32: v = (uint32_t)v; break;
        case KV_PB_SINT32: v = (uint64_t)(int64_t)(int32_t)((uint32_t)v >> 1 ^ -((uint32_t)v & 1)); break;
        case KV_PB_SINT64: v = v >> 1 ^ -(v & 1); break;
    }
    KV_READ(kv_pb_begin(r, f, c, n, 0));
    if (to_double) {
        int is_unsigned = source == KV_PB_UINT64 || source == KV_PB_UFIXED64;
        wide = source == KV_PB_FLOAT ? (double)number : is_unsigned ? (double)v : (double)(int64_t)v;
        memcpy(&v, &wide, 8);
    }
    ((uint64_t*)c->data)[c->rows++] = v;
    return KV_OK;
}

static int kv_pb_captured(kv_pb* r, const kv_pb_field* f, int64_t n, const uint8_t** position, const uint8_t* end,
                          const uint8_t* start, int depth);

/* Decode an item of a field. `start` is the position of the field. `is_plain`: it has a column and no oneof. */
KV_INLINE int kv_pb_read(kv_pb* r, const kv_pb_field* f, int64_t n, const uint8_t** position,
                                const uint8_t* end, const uint8_t* start, int depth, kv_column* columns,
                                int is_plain) {
    kv_column* c = is_plain || f->element >= 0 ? columns + f->element : NULL;
    const uint8_t* p = *position;
    uint64_t v;
    int fault;
    switch (f->op) {
        case KV_PB_VARINT32:
        case KV_PB_ZIGZAG32:
            KV_READ(kv_pb_varint(&p, end, &v));
            KV_READ(kv_pb_begin(r, f, c, n, is_plain));
            if (f->op == KV_PB_ZIGZAG32) v = (uint32_t)v >> 1 ^ -((uint32_t)v & 1);
            if (c) ((uint32_t*)c->data)[c->rows++] = (uint32_t)v;
            break;
        case KV_PB_VARINT64:
        case KV_PB_ZIGZAG64:
            KV_READ(kv_pb_varint(&p, end, &v));
            KV_READ(kv_pb_begin(r, f, c, n, is_plain));
            if (f->op == KV_PB_ZIGZAG64) v = v >> 1 ^ -(v & 1);
            if (c) ((uint64_t*)c->data)[c->rows++] = v;
            break;
        case KV_PB_BOOL:
            KV_READ(kv_pb_varint(&p, end, &v));
            KV_READ(kv_pb_begin(r, f, c, n, is_plain));
            if (c) {
                uint8_t bit = 1u << (c->rows & 7), *byte = c->data + (c->rows++ >> 3);
                *byte = v ? *byte | bit : *byte & ~bit;
            }
            break;
        case KV_PB_FIXED32:
            if (end - p < 4) return KV_TRUNCATED;
            KV_READ(kv_pb_begin(r, f, c, n, is_plain));
            if (c) memcpy(c->data + 4 * c->rows++, p, 4);
            p += 4;
            break;
        case KV_PB_FIXED64:
            if (end - p < 8) return KV_TRUNCATED;
            KV_READ(kv_pb_begin(r, f, c, n, is_plain));
            if (c) memcpy(c->data + 8 * c->rows++, p, 8);
            p += 8;
            break;
        case KV_PB_TEXT:
        case KV_PB_BYTES:
            KV_READ(kv_pb_length(&p, end, &v));
            KV_READ(kv_pb_begin(r, f, c, n, is_plain));
            if (c) {
                KV_READ(kv_put_bytes(r->s, f->element, p, (int64_t)v, r->readable, f->op == KV_PB_TEXT));
                c->offsets[++c->rows] = (int32_t)c->filled;
            } else if (f->op == KV_PB_TEXT && !kv_is_utf8(p, (int64_t)v)) return KV_BAD_UTF8;
            p += v;
            break;
        case KV_PB_ENUM: {
            const int32_t* table = r->tables + f->argument;
            KV_READ(kv_pb_varint(&p, end, &v));
            int32_t index = kv_pb_symbol(table, (int32_t)v);
            if (index == -1 && table[2]) {  /* the enum is closed */
                r->s->unknown++;
                r->has_unknown_value |= f->flags & KV_PB_ENTRY;
                break;
            }
            KV_READ(kv_pb_begin(r, f, c, n, is_plain));
            if (c) kv_pb_put_symbol(c, index, (int32_t)v);
            break;
        }
        case KV_PB_WIDER:
            KV_AWAY(kv_pb_widened(r, f, c, n, &q, end));
            break;
        case KV_PB_MESSAGE:
        case KV_PB_TIMESTAMP:
        case KV_PB_DURATION: {
            if (f->wire == KV_PB_WIRE_GROUP) {
                KV_AWAY(kv_pb_content(r, f, n, &q, end, (uint32_t)f->number, start, depth + 1));
                break;
            }
            KV_READ(kv_pb_length(&p, end, &v));
            KV_AWAY(kv_pb_content(r, f, n, &q, p + v, 0, start, depth + 1));
            break;
        }
        case KV_PB_PATH:
            KV_READ(kv_pb_length(&p, end, &v));
            if (!kv_is_utf8(p, (int64_t)v)) return KV_BAD_UTF8;
            if (c) {
                static const uint8_t comma[1] = {','};
                if (c->rows > n && c->offsets[n + 1] > c->offsets[n])
                    KV_READ(kv_put_bytes(r->s, f->element, comma, 1, comma, 0));
                KV_READ(kv_pb_append(r, f->element, n, p, (int64_t)v, NULL, 0));
            }
            p += v;
            break;
        case KV_PB_SECONDS:
            KV_READ(kv_pb_varint(&p, end, &v));
            r->seconds = (int64_t)v;
            break;
        case KV_PB_NANOS:
            KV_READ(kv_pb_varint(&p, end, &v));
            r->nanos = (int32_t)v;
            break;
        case KV_PB_CAPTURE:
            KV_AWAY(kv_pb_captured(r, f, n, &q, end, start, depth));
            break;
        default:
            __builtin_unreachable();
    }
    *position = p;
    return KV_OK;
}

static int kv_pb_item(kv_pb* r, const kv_pb_field* f, int64_t n, const uint8_t** position, const uint8_t* end,
                      const uint8_t* start, int depth) {
    return kv_pb_read(r, f, n, position, end, start, depth, r->columns, 0);
}

static int kv_pb_packed(kv_pb* r, const kv_pb_field* f, int64_t n, const uint8_t** position, const uint8_t* end,
                        const uint8_t* start, int depth) {
    uint64_t size;
    int fault;
    KV_READ(kv_pb_length(position, end, &size));
    end = *position + size;
    while (*position < end) KV_READ(kv_pb_item(r, f, n, position, end, start, depth));
    return KV_OK;
}

/* Check an item, and store its bytes, from which JSON text is made later. */
static int kv_pb_captured(kv_pb* r, const kv_pb_field* f, int64_t n, const uint8_t** position, const uint8_t* end,
                          const uint8_t* start, int depth) {
    const kv_pb_field* inner = r->fields + f->type;
    const uint8_t* from = *position;
    int64_t unknown = r->s->unknown;
    uint64_t size;
    int fault;
    if (inner->wire == KV_PB_WIRE_LENGTH) KV_READ(kv_pb_length(&from, end, &size));
    KV_READ(kv_pb_item(r, inner, 0, position, end, start, depth));
    if (inner->op == KV_PB_ENUM && r->s->unknown > unknown) return KV_OK;
    kv_column* c = r->columns + f->element;
    if (f->oneof >= 0) kv_pb_clear(r, f, n);
    if (f->flags & KV_PB_REPEATED) n = c->rows;
    else if (c->rows > n && (inner->op < KV_PB_MESSAGE || !(c->validity[n >> 3] >> (n & 7) & 1)))
        kv_cut(r->columns, f->element, n);
    return kv_pb_append(r, f->element, n, from, *position - from, &f->argument, 4);
}

/* Check a repeated field that is stored as one JSON text, and add its bytes to the row. */
static int kv_pb_whole(kv_pb* r, const kv_pb_field* f, int64_t n, int wire, const uint8_t** position,
                       const uint8_t* end, const uint8_t* start, int depth) {
    const kv_pb_field* inner = r->fields + f->type;
    int fault;
    if (wire == inner->wire) KV_READ(kv_pb_item(r, inner, 0, position, end, start, depth));
    else KV_READ(kv_pb_packed(r, inner, 0, position, end, start, depth));
    return kv_pb_append(r, f->element, n, start, *position - start, &f->argument, 4);
}

static const kv_pb_field* kv_pb_search(const kv_pb* r, const kv_pb_type* t, uint32_t number) {
    const kv_pb_field* fields = r->fields + t->first;
    int32_t low = 0, high = t->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if ((uint32_t)fields[middle].number < number) low = middle + 1;
        else high = middle;
    }
    return low < t->count && (uint32_t)fields[low].number == number ? fields + low : NULL;
}

/* Fill the columns of the fields that a message does not contain, and end its lists. */
static inline int kv_pb_fill(kv_pb* r, const kv_pb_type* t, int64_t n, uint64_t seen, const uint8_t* opened) {
    const int32_t* fills = r->tables + t->fills;
    const int32_t count = t->fill_count, plain = t->plain_fills;
    const int32_t with_bits = plain < KV_PB_NO_BIT ? plain : KV_PB_NO_BIT;
    uint64_t missing = (((uint64_t)1 << with_bits) - 1) & ~seen;
    kv_column* const columns = r->columns;
    int fault;
    for (int32_t i = plain; i < count; i++) {
        kv_column* c = columns + fills[2 * i];
        if (c->rows <= n) {
            if (c->rows >= c->capacity) return kv_pb_full(r->s, fills[2 * i]);
            c->rows++;
        }
        if (c[1].rows > INT32_MAX) return KV_TOO_LARGE;
        c->offsets[n + 1] = (int32_t)c[1].rows;
    }
    for (int32_t after = with_bits; missing || after < plain;) {
        int32_t i = missing ? __builtin_ctzll(missing) : after++;
        missing &= missing - 1;
        kv_column* c = columns + fills[2 * i];
        if (c->rows > n) continue;
        const kv_pb_field* f = r->fields + fills[2 * i + 1];
        switch (f->absent) {
            case KV_PB_ABSENT_NULL:
                KV_READ(kv_put_null(r->s, f->column));
                break;
            case KV_PB_ABSENT_ZERO:
                KV_READ(kv_pb_zero(r->s, f->column));
                break;
            case KV_PB_ABSENT_ENUM: {
                const int32_t* table = r->tables + f->argument;
                if (c->rows >= c->capacity) return kv_pb_full(r->s, f->column);
                kv_pb_put_symbol(c, kv_pb_symbol(table, table[3]), table[3]);
                break;
            }
            case KV_PB_ABSENT_MESSAGE: {
                const uint8_t* p = opened;
                KV_READ(kv_pb_content(r, f, n, &p, p, 0, opened, 0));
                break;
            }
            case KV_PB_ABSENT_TEXT:
                KV_READ(kv_pb_append(r, f->column, n, opened, 0, &f->argument, 4));
                break;
        }
    }
    return KV_OK;
}

static int kv_pb_message(kv_pb* r, const kv_pb_type* t, int64_t n, const uint8_t** position, const uint8_t* end,
                         uint32_t group, const uint8_t* opened, int depth) {
    const int32_t* dense = r->tables + t->dense;
    const kv_pb_field* next = r->fields + t->first;  /* the field that is expected */
    const uint8_t* p = *position;
    kv_column* const columns = r->columns;
    kv_state* const s = r->s;
    uint64_t seen = 0;  /* the fields whose columns have the row */
    int fault;
    if ((r->budget -= t->cells) < 0) return KV_TOO_LARGE;
    for (;;) {
        if (p >= end) {
            if (!group) break;
            s->at = opened;
            return KV_TRUNCATED;
        }
        const uint8_t* start = p;
        const kv_pb_field* f = NULL;
        uint32_t number;
        int wire;
        s->at = p;
        if (KV_LIKELY(end - p >= 2) && (uint16_t)((p[0] | p[1] << 8) & next->mask) == next->tag) {
            p += 1 + (next->mask >> 15);
            KV_READ(kv_pb_read(r, next, n, &p, end, start, depth, columns, 1));
            seen |= (uint64_t)1 << next->bit;
            next += !(next->flags & KV_PB_REPEATED);
            continue;
        }
        KV_READ(kv_pb_tag(&p, end, &number, &wire));
        if (KV_UNLIKELY(wire == KV_PB_WIRE_END)) {
            if (group != number) return KV_BAD_INDEX;
            break;
        }
        if (KV_LIKELY(number < (uint32_t)t->dense_count)) {
            if (dense[number] >= 0) f = r->fields + dense[number];
        } else f = kv_pb_search(r, t, number);
        if (KV_LIKELY(f && wire == f->wire && f->flags & KV_PB_PLAIN)) {
            next = f + !(f->flags & KV_PB_REPEATED);
            KV_READ(kv_pb_read(r, f, n, &p, end, start, depth, columns, 1));
            seen |= (uint64_t)1 << f->bit;
            continue;
        }
        int packed = f && wire == KV_PB_WIRE_LENGTH && f->flags & KV_PB_PACKS;
        if (KV_UNLIKELY(!f || (wire != f->wire && !packed))) {
            r->s->unknown++;
            KV_AWAY(kv_pb_skip(&q, end, number, wire, depth));
        } else if (f->op == KV_PB_SKIP) {
            KV_AWAY(kv_pb_skip(&q, end, number, wire, depth));
            if (f->oneof >= 0) kv_pb_clear(r, f, n);
        } else if (KV_UNLIKELY(f->flags & KV_PB_WHOLE))
            KV_AWAY(kv_pb_whole(r, f, n, wire, &q, end, start, depth));
        else if (packed) KV_AWAY(kv_pb_packed(r, f, n, &q, end, start, depth));
        else KV_AWAY(kv_pb_item(r, f, n, &q, end, start, depth));
    }
    *position = p;
    return kv_pb_fill(r, t, n, seen, opened);
}

/* Compare two keys of a map: first by their content, and then by their rows. */
static int kv_pb_compare(const kv_column* keys, int32_t a, int32_t b) {
    int found;
    if (keys->kind == KV_BITS) found = (keys->data[a >> 3] >> (a & 7) & 1) - (keys->data[b >> 3] >> (b & 7) & 1);
    else if (keys->kind == KV_FIXED)
        found = memcmp(keys->data + (int64_t)a * keys->width, keys->data + (int64_t)b * keys->width, keys->width);
    else {
        int32_t size = keys->offsets[a + 1] - keys->offsets[a], other = keys->offsets[b + 1] - keys->offsets[b];
        if (size != other) return size < other ? -1 : 1;
        found = memcmp(keys->data + keys->offsets[a], keys->data + keys->offsets[b], size);
    }
    return found;
}

static inline int kv_pb_before(const kv_column* keys, int32_t a, int32_t b) {
    int found = kv_pb_compare(keys, a, b);
    return found ? found < 0 : a < b;
}

static void kv_pb_replace(kv_column* entries, int32_t row) {
    entries->validity[row >> 3] &= ~(1u << (row & 7));
    entries->nulls++;
}

/* Mark the entries of a map whose key a later entry has. The reader of the columns removes them. */
static int kv_pb_unique(kv_column* entries, int32_t first, int32_t end) {
    const kv_column* keys = entries + 1;
    if (end - first <= KV_PB_FEW_ENTRIES) {
        for (int32_t a = first; a + 1 < end; a++)
            for (int32_t b = a + 1; b < end; b++)
                if (!kv_pb_compare(keys, a, b)) {
                    kv_pb_replace(entries, a);
                    break;
                }
        return KV_OK;
    }
    int32_t n = end - first, *rows = (int32_t*)malloc(sizeof(int32_t) * (size_t)n);
    if (!rows) return KV_TOO_LARGE;
    for (int32_t i = 0; i < n; i++) rows[i] = first + i;
    for (int32_t begin = n / 2, left = n; left > 1;) {  /* heapsort */
        int32_t moved;
        if (begin > 0) moved = rows[--begin];
        else {
            moved = rows[--left];
            rows[left] = rows[0];
        }
        int32_t at = begin;
        for (int64_t child; (child = 2 * (int64_t)at + 1) < left; at = (int32_t)child) {
            if (child + 1 < left && kv_pb_before(keys, rows[child], rows[child + 1])) child++;
            if (!kv_pb_before(keys, moved, rows[child])) break;
            rows[at] = rows[child];
        }
        rows[at] = moved;
    }
    for (int32_t i = 0; i + 1 < n; i++)
        if (!kv_pb_compare(keys, rows[i], rows[i + 1])) kv_pb_replace(entries, rows[i]);
    free(rows);
    return KV_OK;
}

/* Follow the message indexes before a body. */
static int kv_pb_path(const int32_t* tables, int32_t node, int zigzag, const uint8_t** position, const uint8_t* end,
                      int32_t* state) {
    int64_t path[KV_DEPTH], count = 0;
    const uint8_t* p = *position;
    path[0] = 0;
    for (int64_t i = -1; i < count; i++) {
        uint64_t v = 0;
        int fault = kv_pb_short(&p, end, &v, KV_BAD_INDEX);
        int64_t number = zigzag ? (int64_t)(v >> 1 ^ -(v & 1)) : (int64_t)v;
        if (fault == KV_TRUNCATED) return fault;
        if (fault) {  /* the bytes after it cannot be read */
            p += 5;
            number = -1;
        }
        if (i >= 0) path[i] = number;
        else if (number < 0 || number > KV_DEPTH) return KV_BAD_INDEX;
        else count = number;
    }
    for (int64_t i = 0; i < (count ? count : 1); i++) {
        const int32_t* children = tables + node;
        if (path[i] < 0 || path[i] >= children[1]) return KV_BAD_INDEX;
        node = children[2 + path[i]];
        if (node < 0) return KV_BAD_INDEX;
    }
    *state = tables[node];
    *position = p;
    return KV_OK;
}

static int kv_pb_decode(kv_pb* r, const uint8_t* p, const uint8_t* end) {
    const kv_pb_field* root = r->fields + r->tables[0];
    int64_t n = r->columns[0].rows;
    const uint8_t* start = p;
    int fault, is_text = root->op == KV_PB_CAPTURE;
    KV_READ(kv_pb_content(r, is_text ? r->fields + root->type : root, n, &p, end, 0, start, 0));
    return is_text ? kv_pb_append(r, 0, n, start, end - start, &root->argument, 4) : KV_OK;
}

static int kv_decode_protobuf(kv_state* s, const kv_program* program, const uint8_t* p, const uint8_t* end,
                              const uint8_t* readable, const uint8_t* limits) {
    const int32_t *tables = program->tables, *maps = tables + tables[3];
    kv_pb r = {s, s->columns, (const kv_pb_field*)program->code, tables, (const kv_pb_type*)(tables + tables[4]), readable,
               KV_PB_MOST_CELLS, 0, 0, 0};
    int fault;
    (void)limits;
    s->at = p;
    if (tables[1]) {
        int32_t state;
        if (p < end && *p == 0) {  /* the first message */
            state = tables[5];
            p++;
        } else if ((fault = kv_pb_path(tables, tables[1], 1, &p, end, &state)) != KV_OK &&
                   kv_pb_path(tables, tables[2], 1, &p, end, &state) != KV_OK &&
                   kv_pb_path(tables, tables[1], 0, &p, end, &state) != KV_OK)
            return fault;
        if (!state) return KV_NO_BRANCH;
    }
    for (int32_t i = 1; i <= maps[0]; i++) s->columns[maps[i]].checked = s->columns[maps[i]].rows;
    KV_READ(kv_pb_decode(&r, p, end));
    for (int32_t i = 1; i <= maps[0]; i++) {
        kv_column* map = s->columns + maps[i];
        for (; map->checked < map->rows; map->checked++) {
            int32_t first = map->offsets[map->checked], last = map->offsets[map->checked + 1];
            if (last - first > 1) KV_READ(kv_pb_unique(map + 1, first, last));
        }
    }
    return KV_OK;
}

#undef KV_READ
#undef KV_AWAY

#endif

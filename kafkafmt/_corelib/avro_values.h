/* Decode Avro values into columns, by a compiled program. values/avro/program.py describes the instructions. */
#ifndef KAFKAFMT_AVRO_VALUES_H
#define KAFKAFMT_AVRO_VALUES_H

#include "value_columns.h"

enum {  /* in the order of constants.VALUE_OPS */
    KV_END, KV_BOOLEAN, KV_INT, KV_LONG, KV_FLOAT, KV_DOUBLE, KV_TEXT, KV_BYTES, KV_FIXED_BYTES, KV_DECIMAL,
    KV_FIXED_DECIMAL, KV_ENUM, KV_ARRAY, KV_LOOP, KV_RECORD, KV_NULL, KV_UNION, KV_JUMP, KV_INT_TO_LONG,
    KV_INT_TO_FLOAT, KV_INT_TO_DOUBLE, KV_LONG_TO_FLOAT, KV_LONG_TO_DOUBLE, KV_FLOAT_TO_DOUBLE, KV_TIME_MILLIS,
    KV_TIME_MICROS, KV_UUID, KV_CALL, KV_RETURN, KV_CAPTURE, KV_CAPTURED, KV_DEFAULT, KV_DEFAULTED,
    KV_REST_TEXT, KV_BIG_ENDIAN
};

typedef struct {
    int16_t code;
    int16_t null_branch;  /* -1: the value is not in a union with null */
    int32_t column;       /* -1: the value is skipped */
    int32_t jump;
    int32_t argument;
} kv_instruction;

enum { KV_EMPTY_ITEMS = 4096 };  /* items without bytes that a value can have, in addition to its size */

typedef struct { int64_t left; int32_t at; int32_t column; } kv_loop;

KV_INLINE int kv_read_long(const uint8_t** position, const uint8_t* end, int64_t* value) {
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

KV_INLINE int kv_read_int(const uint8_t** position, const uint8_t* end, int64_t* value) {
    int fault = kv_read_long(position, end, value);
    return fault ? fault : *value == (int32_t)*value ? KV_OK : KV_BAD_NUMBER;
}

KV_INLINE int kv_read_length(const uint8_t** position, const uint8_t* end, int64_t* length) {
    int fault = kv_read_long(position, end, length);
    if (fault) return fault;
    if (*length < 0) return KV_BAD_LENGTH;
    return *length > end - *position ? KV_TRUNCATED : KV_OK;
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

static int kv_decode_avro(kv_state* s, const kv_program* program, const uint8_t* p, const uint8_t* end,
                          const uint8_t* readable, const uint8_t* limits) {
    const kv_instruction *code = (const kv_instruction*)program->code, *o = code;
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
            case KV_REST_TEXT:
                KV_ROOM();
                KV_READ(kv_put_bytes(s, o->column, p, end - p, readable, 1));
                c->offsets[++c->rows] = (int32_t)c->filled;
                p = end;
                break;
            case KV_BIG_ENDIAN: {
                if (end - p < o->argument) return s->at = end, KV_TRUNCATED;
                uint64_t bits = *p & 0x80 ? UINT64_MAX : 0;
                KV_ROOM();
                for (int i = 0; i < o->argument; i++) bits = bits << 8 | *p++;
                if (c->width == 4) ((int32_t*)c->data)[c->rows++] = (int32_t)bits;
                else ((int64_t*)c->data)[c->rows++] = (int64_t)bits;
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

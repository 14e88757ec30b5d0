/* Decode JSON values into columns, by the nodes of a program. values/json/program.py describes the nodes.
 *
 * Members without a column become the JSON text of one more column, the rest. Its text is written while
 * the members are found: an object or array that contains such a member is opened in it once, and
 * closed at its end. If there are none, nothing is written, and the rest has fewer rows than the value.
 */
#ifndef KAFKAFMT_JSON_VALUES_H
#define KAFKAFMT_JSON_VALUES_H

#include "json_numbers.h"
#include "value_columns.h"

#if defined(__SSE2__) && defined(__GNUC__)
#include <emmintrin.h>
#endif

enum {  /* in the order of constants.JSON_NODES */
    KV_JSON_NULL, KV_JSON_BOOLEAN, KV_JSON_LONG, KV_JSON_DOUBLE, KV_JSON_STRING, KV_JSON_TEXT, KV_JSON_ARRAY,
    KV_JSON_MAP, KV_JSON_RECORD
};

enum {
    KV_GUESSES = 3  /* members that are compared before the hash table is used */
};

typedef struct {
    int32_t kind;
    int32_t column;            /* -1: the value is skipped */
    int32_t argument;          /* JSON text: how it becomes text. First node: index of the rest, or -1 */
    int32_t children, count;   /* first node of the members or items, and their number */
    int32_t columns;           /* number of members with a column */
    int32_t table, mask;       /* hash table of the names of members */
    int32_t name, size;        /* name of a member in the constants, with a quotation mark at its end; size without it */
    int32_t compared;          /* size with the mark; INT32_MAX if the name is never unescaped in JSON */
    int32_t label, label_size; /* name as JSON */
    int32_t start_bits;        /* a bit for each byte of the name, with the mark, in `start` */
    uint8_t start[16];
    int32_t unused[2];         /* a node has 80 bytes */
} kv_json_node;

typedef struct kv_json_frame {  /* an object or array that is being read */
    struct kv_json_frame* outer;
    const uint8_t* label;  /* its name as JSON, or NULL: `number` is its index */
    int64_t number;        /* size of the label, or index */
    int32_t start;         /* in the rest */
    int is_open;           /* in the rest */
} kv_json_frame;

typedef struct {
    kv_state* s;
    const kv_json_node* nodes;
    const int32_t* tables;
    const uint8_t* constants;
    const uint8_t *end, *readable;
    int64_t row;  /* of the value */
    int32_t rest;
    int fault, has_gaps;
} kv_json;

#define KV_FAIL(where, code) do { j->s->at = (where); j->fault = (code); return NULL; } while (0)
#define KV_CALL(call) do { if ((j->fault = (call))) return NULL; } while (0)
#define KV_JSON_ROOM(c, index) \
    do { if ((c)->rows >= (c)->capacity) { j->s->full = (index); j->s->needed = 0; j->fault = KV_FULL; return NULL; } } while (0)

static const uint8_t* kv_json_container(kv_json* j, const kv_json_node* node, const uint8_t* p, int depth,
                                        kv_json_frame* outer, const uint8_t* label, int64_t number);

static inline int kv_json_append(kv_json* j, int32_t index, const void* from, int64_t size) {
    kv_column* c = j->s->columns + index;
    int fault = kv_need(j->s, index, size);
    if (fault) return fault;
    memcpy(c->data + c->filled, from, size);
    c->filled += size;
    return KV_OK;
}

static inline const uint8_t* kv_json_space(const uint8_t* p, const uint8_t* end) {
    while (p < end && *p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    return p;
}

/* Return a bit for each of 16 bytes that needs a look in a string: quotation marks, backslashes, control characters. */
static inline uint32_t kv_json_special(const uint8_t* p, uint32_t* high) {
#if defined(__SSE2__) && defined(__GNUC__)
    __m128i bytes = _mm_loadu_si128((const __m128i*)p), control = _mm_set1_epi8(0x1f);
    __m128i found = _mm_cmpeq_epi8(_mm_max_epu8(bytes, control), control);
    found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    *high = (uint32_t)_mm_movemask_epi8(bytes);
    return (uint32_t)_mm_movemask_epi8(found);
#else
    uint32_t found = 0, bits = 0;
    for (int i = 0; i < 16; i++) {
        found |= (uint32_t)(p[i] < 0x20 || p[i] == '"' || p[i] == '\\') << i;
        bits |= (uint32_t)(p[i] >> 7) << i;
    }
    *high = bits;
    return found;
#endif
}

static int kv_json_hex(const uint8_t* p, uint32_t* unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t lower = p[i] | 0x20;
        int digit = kv_is_digit(p[i]) ? p[i] - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
        if (digit < 0) return 0;
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return 1;
}

/* Read one character or escape sequence of a string. Return the number of bytes in `out`, or minus a fault. */
static int kv_json_character(const uint8_t** position, const uint8_t* end, uint8_t out[4]) {
    const uint8_t* p = *position;
    if (*p != '\\') {
        out[0] = *p;
        *position = p + 1;
        return 1;
    }
    static const char letters[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    if (p[1] != 'u') {  /* a string does not end with a single backslash */
        const char* found = p[1] ? strchr(letters, p[1]) : NULL;
        if (!found) return -KV_BAD_JSON;
        out[0] = (uint8_t)characters[found - letters];
        *position = p + 2;
        return 1;
    }
    uint32_t code, second;
    if (end - p < 6 || !kv_json_hex(p + 2, &code)) return -KV_BAD_JSON;
    p += 6;
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || end - p < 6 || p[0] != '\\' || p[1] != 'u') return -KV_BAD_UTF8;
        if (!kv_json_hex(p + 2, &second)) return -KV_BAD_JSON;
        if (second < 0xdc00 || second >= 0xe000) return -KV_BAD_UTF8;
        code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
        p += 6;
    }
    *position = p;
    if (code < 0x80) return out[0] = (uint8_t)code, 1;
    int size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = size - 1; i > 0; i--, code >>= 6) out[i] = 0x80 | (code & 0x3f);
    out[0] = (uint8_t)((size == 2 ? 0xc0 : size == 3 ? 0xe0 : 0xf0) | code);
    return size;
}

/* Find the end of a string from its quotation mark on. Return the position of the mark at its end. */
static const uint8_t* kv_json_string_end(kv_json* j, const uint8_t* start, int* has_escapes) {
    const uint8_t *p = start + 1, *end = j->end;
    uint32_t seen = 0, high, found;
    *has_escapes = 0;
    for (;;) {
        while (j->readable - p >= 16 && !(found = kv_json_special(p, &high))) {
            seen |= high;
            p += 16;
        }
        if (j->readable - p >= 16) {
            int i = __builtin_ctz(found);
            seen |= high & (((uint32_t)1 << i) - 1);
            p += i;
        } else {
            while (p < end && *p != '"' && *p != '\\' && *p >= 0x20) seen |= *p++ & 0x80;
        }
        if (p >= end) KV_FAIL(start, KV_TRUNCATED);
        if (*p == '"') break;
        if (*p != '\\') KV_FAIL(start, KV_BAD_JSON);
        *has_escapes = 1;
        if (end - p < 2) KV_FAIL(start, KV_TRUNCATED);
        seen |= p[1] & 0x80;
        p += 2;
    }
    if (*has_escapes) {
        uint8_t out[4];
        for (const uint8_t* q = start + 1; q < p;) {
            int size = kv_json_character(&q, p, out);
            if (size < 0) KV_FAIL(start, -size);
        }
    }
    if (seen && !kv_is_utf8(start + 1, p - start - 1)) KV_FAIL(start, KV_BAD_UTF8);
    return p;
}

/* Append a string to a column. Return its end. */
static const uint8_t* kv_json_long_string(kv_json* j, int32_t index, const uint8_t* start) {
    kv_column* c = j->s->columns + index;
    int has_escapes;
    const uint8_t *p = start + 1, *last = kv_json_string_end(j, start, &has_escapes);
    if (!last) return NULL;
    j->s->at = start;
    if (!has_escapes) KV_CALL(kv_put_bytes(j->s, index, p, last - p, j->readable, 0));
    else {
        KV_CALL(kv_need(j->s, index, last - p));
        uint8_t* to = c->data + c->filled;
        while (p < last) to += kv_json_character(&p, last, to);  /* there are more than 4 bytes after the room */
        c->filled = to - c->data;
    }
    c->offsets[++c->rows] = (int32_t)c->filled;
    return last + 1;
}

/* Append a string to a column, which has room for one more row. Return its end. Most strings are copied in one pass. */
static inline const uint8_t* kv_json_string(kv_json* j, int32_t index, const uint8_t* start) {
    kv_column* c = j->s->columns + index;
    const uint8_t* p = start + 1;
    uint8_t *first = c->data + c->filled, *to = first, *limit = c->data + c->room;
    uint32_t seen = 0, high;
    while (j->readable - p >= 16 && to <= limit) {
        memcpy(to, p, 16);
        uint32_t found = kv_json_special(p, &high);
        if (!found) {
            seen |= high;
            p += 16;
            to += 16;
            continue;
        }
        int i = __builtin_ctz(found);
        seen |= high & (((uint32_t)1 << i) - 1);
        p += i;
        to += i;
        if (p >= j->end || *p != '"' || to > limit || to - c->data > INT32_MAX - KV_SLACK) break;
        if (seen && !kv_is_utf8(first, to - first)) break;
        c->filled = to - c->data;
        c->offsets[++c->rows] = (int32_t)c->filled;
        return p + 1;
    }
    return kv_json_long_string(j, index, start);
}

static inline const uint8_t* kv_json_word(kv_json* j, const uint8_t* p, const char* word, int64_t size) {
    int64_t there = j->end - p < size ? j->end - p : size;
    if (memcmp(p, word, there)) KV_FAIL(p, KV_BAD_JSON);
    if (there < size) KV_FAIL(p, KV_TRUNCATED);
    return p + size;
}

static inline const uint8_t* kv_json_number(kv_json* j, const uint8_t* p, kv_number* number) {
    int is_cut;
    const uint8_t* after = kv_read_number(p, j->end, number, &is_cut);
    if (!after) KV_FAIL(p, is_cut ? KV_TRUNCATED : KV_BAD_JSON);
    return after;
}

/* Check a value without storing it. Return its end. `depth` is the number of objects and arrays around it. */
static const uint8_t* kv_json_skip(kv_json* j, const uint8_t* p, int depth) {
    const uint8_t* end = j->end;
    uint64_t objects = 0;  /* a bit for each open object or array: whether it is an object */
    int has_escapes, level = 0;
    kv_number number;
value:
    if (p >= end) KV_FAIL(end, KV_TRUNCATED);
    switch (*p) {
        case '{':
        case '[':
            if (depth + level >= KV_DEPTH) KV_FAIL(p, KV_TOO_DEEP);
            level++;
            objects = objects << 1 | (*p == '{');
            p = kv_json_space(p + 1, end);
            if (p < end && *p == (objects & 1 ? '}' : ']')) goto close;
            if (objects & 1) goto name;
            goto value;
        case '"':
            if (!(p = kv_json_string_end(j, p, &has_escapes))) return NULL;
            p++;
            break;
        case 't': if (!(p = kv_json_word(j, p, "true", 4))) return NULL; break;
        case 'f': if (!(p = kv_json_word(j, p, "false", 5))) return NULL; break;
        case 'n': if (!(p = kv_json_word(j, p, "null", 4))) return NULL; break;
        default:
            if (*p != '-' && !kv_is_digit(*p)) KV_FAIL(p, KV_BAD_JSON);
            if (!(p = kv_json_number(j, p, &number))) return NULL;
    }
    for (;;) {
        if (!level) return p;
        p = kv_json_space(p, end);
        if (p >= end) KV_FAIL(end, KV_TRUNCATED);
        if (*p == ',') {
            p = kv_json_space(p + 1, end);
            if (objects & 1) goto name;
            goto value;
        }
        if (*p != (objects & 1 ? '}' : ']')) KV_FAIL(p, KV_BAD_JSON);
close:
        p++;
        level--;
        objects >>= 1;
    }
name:
    if (p >= end) KV_FAIL(end, KV_TRUNCATED);
    if (*p != '"') KV_FAIL(p, KV_BAD_JSON);
    if (!(p = kv_json_string_end(j, p, &has_escapes))) return NULL;
    p = kv_json_space(p + 1, end);
    if (p >= end) KV_FAIL(end, KV_TRUNCATED);
    if (*p != ':') KV_FAIL(p, KV_BAD_JSON);
    p = kv_json_space(p + 1, end);
    goto value;
}

static inline int kv_json_has_name(const kv_json_node* member, const uint8_t* p, const uint8_t* end,
                                   const uint8_t* readable, const uint8_t* constants) {
    if (end - p < member->compared) return 0;
#if defined(__SSE2__) && defined(__GNUC__)
    if (KV_LIKELY(readable - p >= 16)) {
        __m128i there = _mm_loadu_si128((const __m128i*)p), start = _mm_loadu_si128((const __m128i*)member->start);
        if (~(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(there, start)) & (uint32_t)member->start_bits) return 0;
        return member->compared <= 16 || !memcmp(p + 16, constants + member->name + 16, member->compared - 16);
    }
#endif
    return !memcmp(p, constants + member->name, member->compared);
}

/* Return the member with the name between `p` and `last`, or NULL. */
static const kv_json_node* kv_json_find(const kv_json* j, const kv_json_node* node, const uint8_t* p,
                                        const uint8_t* last) {
    const kv_json_node* members = j->nodes + node->children;
    uint32_t hash = 2166136261u;  /* FNV-1a */
    int64_t size = 0;
    uint8_t out[4];
    if (!node->count) return NULL;
    for (const uint8_t* q = p; q < last;) {
        int n = kv_json_character(&q, last, out);
        for (int i = 0; i < n; i++) hash = (hash ^ out[i]) * 16777619u;
        size += n;
    }
    for (uint32_t at = hash;; at++) {
        int32_t number = j->tables[node->table + (at & (uint32_t)node->mask)];
        if (number < 0) return NULL;
        if (members[number].size != size) continue;
        const uint8_t *name = j->constants + members[number].name, *q = p;
        while (q < last) {
            int n = kv_json_character(&q, last, out);
            if (memcmp(out, name, n)) break;
            name += n;
            if (q == last) return members + number;
        }
        if (!size) return members + number;
    }
}

/* Open an object or array in the rest, and those around it. */
static int kv_json_open(kv_json* j, kv_json_frame* frame) {
    kv_column* r = j->s->columns + j->rest;
    uint8_t digits[24];
    int fault, i = 24;
    if (frame->is_open) return KV_OK;
    if (!frame->outer) {
        while (r->rows < j->row)
            if ((fault = kv_put_null(j->s, j->rest))) return fault;
        if (r->rows >= r->capacity) {
            j->s->full = j->rest;
            j->s->needed = 0;
            return KV_FULL;
        }
    } else if ((fault = kv_json_open(j, frame->outer))) return fault;
    frame->start = (int32_t)r->filled;
    if (frame->outer) {
        if (frame->label) fault = kv_json_append(j, j->rest, frame->label, frame->number);
        else {
            int64_t left = frame->number;
            digits[--i] = '"';
            do digits[--i] = (uint8_t)('0' + left % 10); while (left /= 10);
            digits[--i] = '"';
            fault = kv_json_append(j, j->rest, digits + i, 24 - i);
        }
        if (fault || (fault = kv_json_append(j, j->rest, ":", 1))) return fault;
    }
    frame->is_open = 1;
    return kv_json_append(j, j->rest, "{", 1);
}

/* Append a member to the rest. */
static int kv_json_put_rest(kv_json* j, kv_json_frame* frame, const uint8_t* name, int64_t name_size,
                            const uint8_t* value, int64_t size) {
    int fault;
    j->s->at = name;
    if ((fault = kv_json_open(j, frame))) return fault;
    if ((fault = kv_json_append(j, j->rest, name, name_size))) return fault;
    if ((fault = kv_json_append(j, j->rest, ":", 1))) return fault;
    if ((fault = kv_json_append(j, j->rest, value, size))) return fault;
    return kv_json_append(j, j->rest, ",", 1);
}

/* Close an object or array in the rest. If it is the whole value, complete the row. */
static int kv_json_close(kv_json* j, kv_json_frame* frame, kv_column* c) {
    kv_column* r = j->s->columns + j->rest;
    int fault;
    int64_t last = r->filled - 1, first;
    while (!r->data[last]) last--;
    if (r->data[last] == ',') r->data[last] = '}';
    else if ((fault = kv_json_append(j, j->rest, "}", 1))) return fault;
    if (frame->outer) {
        if ((fault = kv_json_append(j, j->rest, ",", 1))) return fault;
        c->rest_start = frame->start;
        c->rest_end = (int32_t)r->filled;
        return KV_OK;
    }
    first = r->offsets[r->rows];
    if (j->has_gaps) {
        int64_t to = first;
        for (int64_t i = first; i < r->filled; i++)
            if (r->data[i]) r->data[to++] = r->data[i];
        r->filled = to;
    }
    if (r->filled - first == 2) r->filled = first;  /* nothing is left in it */
    else r->offsets[++r->rows] = (int32_t)r->filled;
    return KV_OK;
}

/* Remove the value of a member that occurs again. Its text in the rest becomes zeros, which are removed at the end. */
static void kv_json_remove(kv_json* j, int32_t index, int64_t row) {
    kv_column* c = j->s->columns + index;
    if ((c->kind == KV_LIST || c->kind == KV_STRUCT) && c->rest_end) {
        memset(j->s->columns[j->rest].data + c->rest_start, 0, c->rest_end - c->rest_start);
        j->has_gaps = 1;
    }
    kv_cut(j->s->columns, index, row);
}

/* Read a value into its column. Return its end. The last three arguments are those of its frame. */
KV_INLINE const uint8_t* kv_json_value(kv_json* j, kv_column* columns, const kv_json_node* node, const uint8_t* p,
                                       const uint8_t* end, int depth, kv_json_frame* outer, const uint8_t* label,
                                       int64_t number) {
    kv_column* c = columns + node->column;
    const uint8_t* start = p;
    kv_number n;
    if (p >= end) KV_FAIL(end, KV_TRUNCATED);
    if (*p == 'n') {
        if (!(p = kv_json_word(j, p, "null", 4))) return NULL;
        if (node->kind >= KV_JSON_ARRAY) c->rest_end = 0;
        KV_CALL(kv_put_null(j->s, node->column));
        return p;
    }
    KV_JSON_ROOM(c, node->column);
    switch (node->kind) {
        case KV_JSON_STRING:
            if (*p == '"') return kv_json_string(j, node->column, p);
            break;
        case KV_JSON_LONG: {  /* most integers have less than 19 digits */
            if (*p != '-' && !kv_is_digit(*p)) break;
            int negative = *p == '-';
            uint64_t digits = 0;
            const uint8_t* first = p + negative;
            p = first < end && *first == '0' ? first + 1 : kv_read_digits(first, end, &digits);
            if (p > first && p - first < 19 && (p >= end || (*p != '.' && (*p | 0x20) != 'e'))) {
                ((int64_t*)c->data)[c->rows++] = negative ? -(int64_t)digits : (int64_t)digits;
                return p;
            }
            if (!(p = kv_json_number(j, start, &n))) return NULL;
            if (!kv_number_to_long(&n, (int64_t*)c->data + c->rows)) KV_FAIL(start, KV_BAD_NUMBER);
            c->rows++;
            return p;
        }
        case KV_JSON_DOUBLE:
            if (*p != '-' && !kv_is_digit(*p)) break;
            if (!(p = kv_json_number(j, p, &n))) return NULL;
            if (!kv_number_to_double(&n, j->constants, (double*)c->data + c->rows)) KV_FAIL(start, KV_BAD_NUMBER);
            c->rows++;
            return p;
        case KV_JSON_BOOLEAN: {
            int is_true = *p == 't';
            if (!is_true && *p != 'f') break;
            if (!(p = is_true ? kv_json_word(j, p, "true", 4) : kv_json_word(j, p, "false", 5))) return NULL;
            uint8_t bit = 1u << (c->rows & 7), *byte = c->data + (c->rows++ >> 3);
            *byte = is_true ? *byte | bit : *byte & ~bit;
            return p;
        }
        case KV_JSON_RECORD:
        case KV_JSON_MAP:
            if (*p == '{') return kv_json_container(j, node, p, depth, outer, label, number);
            break;
        case KV_JSON_ARRAY:
            if (*p == '[') return kv_json_container(j, node, p, depth, outer, label, number);
            break;
        case KV_JSON_TEXT: {
            uint32_t argument = (uint32_t)node->argument;
            if (!(p = kv_json_skip(j, p, depth))) return NULL;
            j->s->at = start;
            KV_CALL(kv_json_append(j, node->column, &argument, 4));
            KV_CALL(kv_json_append(j, node->column, start, p - start));
            c->offsets[++c->rows] = (int32_t)c->filled;
            return p;
        }
    }
    /* A value of another kind than its column. */
    if (*p == '{' || *p == '[' || *p == '"' || *p == 't' || *p == 'f' || *p == '-' || kv_is_digit(*p))
        KV_FAIL(p, KV_NO_BRANCH);
    KV_FAIL(p, KV_BAD_JSON);
}

/* Read an object into the columns of its members. Return its end. */
static const uint8_t* kv_json_record(kv_json* j, const kv_json_node* node, const uint8_t* p, int depth,
                                     kv_json_frame* frame) {
    /* Copies, because the compiler must assume that a store to a column changes what a pointer refers to. */
    const uint8_t *end = j->end, *readable = j->readable, *constants = j->constants, *name, *name_end, *value;
    kv_column *columns = j->s->columns, *c = columns + node->column;
    const kv_json_node *members = j->nodes + node->children, *member;
    int32_t next = 0, present = 0;
    int64_t row = c->rows++;
    int has_escapes;
    p = kv_json_space(p + 1, end);
    if (p < end && *p == '}') p++;
    else for (;;) {
        if (p >= end) KV_FAIL(end, KV_TRUNCATED);
        if (*p != '"') KV_FAIL(p, KV_BAD_JSON);
        name = p++;
        int32_t guess = next, guesses = node->count - next < KV_GUESSES ? node->count : next + KV_GUESSES;
        while (guess < guesses && !kv_json_has_name(members + guess, p, end, readable, constants)) guess++;
        if (KV_LIKELY(guess < guesses)) {
            member = members + guess;
            p += member->compared;
        } else {
            if (!(p = kv_json_string_end(j, name, &has_escapes))) return NULL;
            member = kv_json_find(j, node, name + 1, p++);
        }
        name_end = p;
        if (KV_LIKELY(p < end && *p == ':')) p++;
        else {
            p = kv_json_space(p, end);
            if (p >= end) KV_FAIL(end, KV_TRUNCATED);
            if (*p != ':') KV_FAIL(p, KV_BAD_JSON);
            p++;
        }
        p = value = kv_json_space(p, end);
        if (KV_LIKELY(member && member->column >= 0)) {
            next = (int32_t)(member - members) + 1;
            if (KV_LIKELY(columns[member->column].rows == row)) present++;
            else kv_json_remove(j, member->column, row);
            p = kv_json_value(j, columns, member, p, end, depth, frame, constants + member->label, member->label_size);
            if (!p) return NULL;
        } else {
            if (!(p = kv_json_skip(j, p, depth))) return NULL;
            if (member) next = (int32_t)(member - members) + 1;
            else if (j->rest >= 0) KV_CALL(kv_json_put_rest(j, frame, name, name_end - name, value, p - value));
        }
        p = kv_json_space(p, end);
        if (p >= end) KV_FAIL(end, KV_TRUNCATED);
        if (KV_LIKELY(*p == ',')) {
            p = kv_json_space(p + 1, end);
            continue;
        }
        if (*p != '}') KV_FAIL(p, KV_BAD_JSON);
        p++;
        break;
    }
    if (present < node->columns)
        for (int32_t i = 0; i < node->count; i++)
            if (members[i].column >= 0 && columns[members[i].column].rows == row)
                KV_CALL(kv_put_null(j->s, members[i].column));
    return p;
}

/* Read an array or the entries of a map. Return its end. */
static const uint8_t* kv_json_list(kv_json* j, const kv_json_node* node, const uint8_t* p, int depth,
                                   kv_json_frame* frame) {
    const uint8_t *end = j->end, *start = p, *label = NULL, *key;
    kv_column *columns = j->s->columns, *c = columns + node->column, *items = c + 1;
    const kv_json_node* item = j->nodes + node->children;
    int is_map = node->kind == KV_JSON_MAP;
    uint8_t closing = is_map ? '}' : ']';
    int64_t number = 0;
    p = kv_json_space(p + 1, end);
    if (p < end && *p == closing) p++;
    else for (;;) {
        if (is_map) {
            if (p >= end) KV_FAIL(end, KV_TRUNCATED);
            if (*p != '"') KV_FAIL(p, KV_BAD_JSON);
            KV_JSON_ROOM(items, node->column + 1);
            KV_JSON_ROOM(items + 1, node->column + 2);
            items->rows++;
            key = label = p;
            if (!(p = kv_json_string(j, node->column + 2, p))) return NULL;
            number = p - key;
            p = kv_json_space(p, end);
            if (p >= end) KV_FAIL(end, KV_TRUNCATED);
            if (*p != ':') KV_FAIL(p, KV_BAD_JSON);
            p = kv_json_space(p + 1, end);
        }
        if (!(p = kv_json_value(j, columns, item, p, end, depth, frame, label, number))) return NULL;
        if (!is_map) number++;
        p = kv_json_space(p, end);
        if (p >= end) KV_FAIL(end, KV_TRUNCATED);
        if (*p == ',') {
            p = kv_json_space(p + 1, end);
            continue;
        }
        if (*p != closing) KV_FAIL(p, KV_BAD_JSON);
        p++;
        break;
    }
    if (items->rows > INT32_MAX) KV_FAIL(start, KV_TOO_LARGE);
    c->offsets[++c->rows] = (int32_t)items->rows;
    return p;
}

/* Read an object or array into its columns. Return its end. */
static const uint8_t* kv_json_container(kv_json* j, const kv_json_node* node, const uint8_t* p, int depth,
                                        kv_json_frame* outer, const uint8_t* label, int64_t number) {
    kv_json_frame frame = {outer, label, number, 0, 0};
    kv_column* c = j->s->columns + node->column;
    if (depth >= KV_DEPTH) KV_FAIL(p, KV_TOO_DEEP);
    c->rest_end = 0;
    p = node->kind == KV_JSON_RECORD ? kv_json_record(j, node, p, depth + 1, &frame)
                                     : kv_json_list(j, node, p, depth + 1, &frame);
    if (p && frame.is_open) KV_CALL(kv_json_close(j, &frame, c));
    return p;
}

static int kv_decode_json(kv_state* s, const kv_program* program, const uint8_t* p, const uint8_t* end,
                          const uint8_t* readable, const uint8_t* limits) {
    (void)limits;
    const kv_json_node* nodes = (const kv_json_node*)program->code;
    kv_json state = {
        .s = s, .nodes = nodes, .tables = program->tables, .constants = program->constants, .end = end,
        .readable = readable, .row = s->columns->rows, .rest = nodes->argument,
    };
    kv_json* j = &state;
    p = kv_json_value(j, s->columns, nodes, kv_json_space(p, end), end, 0, NULL, NULL, 0);
    if (!p) return j->fault;
    s->at = p = kv_json_space(p, end);
    return p == end ? KV_OK : KV_TRAILING;
}

#undef KV_FAIL
#undef KV_CALL
#undef KV_JSON_ROOM

#endif

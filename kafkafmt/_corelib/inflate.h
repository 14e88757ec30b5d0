/* Decompress gzip data of a few hundred bytes (RFC 1951 and RFC 1952).
 *
 * A small wrapper message has 100 to 250 bytes of gzip data. For such data, a call of zlib takes most of its time to
 * allocate and initialize a state. This code keeps no state between calls, and allocates nothing. It finds faults in
 * the same order as zlib, so the error messages are the same. For larger data, zlib and isal are faster.
 */
#ifndef KAFKAFMT_INFLATE_H
#define KAFKAFMT_INFLATE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "crc32.h"

#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define KF_LITTLE_WORDS 1
#endif

/* Results of kf_gunzip. They are indexes of GZIP_FAULTS in constants.py, except for the last one. */
enum {
    KF_GZIP_VALID, KF_GZIP_INCOMPLETE, KF_GZIP_HEADER, KF_GZIP_BLOCK_TYPE, KF_GZIP_STORED_SIZE, KF_GZIP_SYMBOL_COUNT,
    KF_GZIP_CODE_LENGTHS, KF_GZIP_REPEAT, KF_GZIP_NO_END_OF_BLOCK, KF_GZIP_LITERAL_LENGTHS, KF_GZIP_DISTANCE_LENGTHS,
    KF_GZIP_LITERAL_CODE, KF_GZIP_DISTANCE_CODE, KF_GZIP_DISTANCE, KF_GZIP_CRC, KF_GZIP_SIZE, KF_GZIP_NO_ROOM
};

enum {
    KF_GZIP_HEADER_SIZE = 10, /* without optional fields */
    KF_MAX_CODE_BITS = 15,
    KF_TABLE_BITS = 9,
    KF_LENGTH_SYMBOLS = 19,   /* symbols of the code length code */
    KF_LITERAL_SYMBOLS = 288, /* symbols of the literal/length code */
    KF_DISTANCE_SYMBOLS = 32, /* symbols of the distance code */
    KF_END_OF_BLOCK = 256,
    KF_NO_SYMBOL = 511
};

/* A prefix code. The next KF_TABLE_BITS bits of the data are an index of `table`. An entry contains a symbol in its upper
 * 12 bits, and the number of bits of the symbol's code in its lowest 4 bits. An entry of 0 means that the code has more
 * than KF_TABLE_BITS bits.
 */
typedef struct {
    uint16_t table[1 << KF_TABLE_BITS];
    uint16_t count[KF_MAX_CODE_BITS + 1];  /* number of symbols; index: number of bits of their codes */
    uint16_t symbols[KF_LITERAL_SYMBOLS];  /* in the order of their codes */
} kf_prefix_code;

typedef struct {
    const uint8_t *p, *end;
    uint64_t bits;   /* the next bits of the data; the lowest bit is the first one */
    unsigned count;  /* number of valid bits in `bits` */
} kf_bit_reader;

static const uint16_t kf_lengths[29] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115,
                                        131, 163, 195, 227, 258};
static const uint8_t kf_length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t kf_distances[30] = {1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
                                          2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t kf_distance_bits[30] = {0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12,
                                             13, 13};
static kf_prefix_code kf_fixed_literals, kf_fixed_distances;

/* Read bytes until at least 56 bits are available, or until the data ends. A literal or a copy has at most 48 bits. */
static inline void kf_fill_bits(kf_bit_reader *in) {
#ifdef KF_LITTLE_WORDS
    if (in->end - in->p >= 8) {
        uint64_t word;
        memcpy(&word, in->p, 8);
        in->bits |= word << in->count;
        in->p += (63 - in->count) >> 3;
        in->count |= 56;
        return;
    }
#endif
    for (; in->count < 56 && in->p < in->end; in->count += 8) in->bits |= (uint64_t)*in->p++ << in->count;
}

static inline uint32_t kf_take_bits(kf_bit_reader *in, unsigned n) {
    uint32_t value = (uint32_t)(in->bits & ((1ull << n) - 1));
    in->bits >>= n;
    in->count -= n;
    return value;
}

/* Return the next symbol, KF_NO_SYMBOL if no symbol has this code, or -1 if the data ends first. */
static inline int kf_next_symbol(kf_bit_reader *in, const kf_prefix_code *code) {
    unsigned entry = code->table[in->bits & ((1 << KF_TABLE_BITS) - 1)];
    if (entry) {
        if ((entry & 15) > in->count) return -1;
        kf_take_bits(in, entry & 15);
        return (int)(entry >> 4);
    }
    /* `first` is the first code of n bits, and `index` is the index of its symbol. */
    for (int n = 1, value = 0, first = 0, index = 0; n <= KF_MAX_CODE_BITS; n++) {
        if ((unsigned)n > in->count) return -1;
        value = value << 1 | (int)(in->bits >> (n - 1) & 1);
        if (value - first < code->count[n]) {
            kf_take_bits(in, (unsigned)n);
            return code->symbols[index + value - first];
        }
        index += code->count[n];
        first = (first + code->count[n]) << 1;
    }
    return KF_NO_SYMBOL;
}

/* Return the index of the first symbol with a code, from `symbol` on. Return n if there is none. */
static inline int kf_next_used(const uint8_t *lengths, int symbol, int n) {
#ifdef KF_LITTLE_WORDS
    for (; symbol + 8 <= n; symbol += 8) {
        uint64_t word;
        memcpy(&word, lengths + symbol, 8);
        if (word) return symbol + (__builtin_ctzll(word) >> 3);
    }
#endif
    while (symbol < n && !lengths[symbol]) symbol++;
    return symbol;
}

/* Create a code from the number of bits of each symbol's code. Return 0 if there is no such code.
 *
 * A code can have no symbols. If `may_be_partial` is 1, it can also have one symbol with a code of one bit. In
 * both cases, an unassigned code is read as one bit, as in zlib.
 */
static int kf_create_code(kf_prefix_code *code, const uint8_t *lengths, int n, int may_be_partial) {
    int unused = 1, longest = 0, index = 0;
    uint16_t next[KF_MAX_CODE_BITS + 2];
    uint16_t *table = code->table;
    memset(code->count, 0, sizeof code->count);
    for (int i = 0; (i = kf_next_used(lengths, i, n)) < n; i++) code->count[lengths[i]]++;
    next[1] = 0;
    for (int bits = 1; bits <= KF_MAX_CODE_BITS; bits++) {
        unused = unused * 2 - code->count[bits];
        if (unused < 0) return 0;
        if (code->count[bits]) longest = bits;
        next[bits + 1] = (uint16_t)(next[bits] + code->count[bits]);
    }
    if (unused && longest > may_be_partial) return 0;
    for (int i = 0; (i = kf_next_used(lengths, i, n)) < n; i++) code->symbols[next[lengths[i]]++] = (uint16_t)i;
    if (unused) {
        const uint16_t missing = KF_NO_SYMBOL << 4 | 1;
        table[0] = longest ? (uint16_t)(code->symbols[0] << 4 | 1) : missing;
        table[1] = missing;
        for (int bits = 1; bits < KF_TABLE_BITS; bits++) memcpy(table + (1 << bits), table, sizeof *table << bits);
        return 1;
    }
    /* In each step, the table is doubled, and the entries of codes with one more bit are added. */
    table[0] = 0;
    unsigned reversed = 0;  /* the next code. Its first bit is the lowest one, as in the index of the table. */
    for (int bits = 1; bits <= KF_TABLE_BITS; bits++) {
        const unsigned highest = 1u << (bits - 1);
        memcpy(table + highest, table, sizeof *table << (bits - 1));
        for (int end = index + code->count[bits]; index < end; index++) {
            table[reversed] = (uint16_t)(code->symbols[index] << 4 | bits);
            unsigned bit = highest;
            while (reversed & bit) bit >>= 1;
            reversed = (reversed & (bit - 1)) | bit;
        }
    }
    return 1;
}

static void inflate_init(void) {
    uint8_t lengths[KF_LITERAL_SYMBOLS];
    memset(lengths, 8, 144);
    memset(lengths + 144, 9, 112);
    memset(lengths + 256, 7, 24);
    memset(lengths + 280, 8, 8);
    kf_create_code(&kf_fixed_literals, lengths, KF_LITERAL_SYMBOLS, 0);
    memset(lengths, 5, KF_DISTANCE_SYMBOLS);
    kf_create_code(&kf_fixed_distances, lengths, KF_DISTANCE_SYMBOLS, 0);
}

/* Read the literal/length code and the distance code of a block. They are encoded with the code length code. */
static int kf_read_codes(kf_bit_reader *in, kf_prefix_code *literals, kf_prefix_code *distances) {
    static const uint8_t order[KF_LENGTH_SYMBOLS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[KF_LITERAL_SYMBOLS + KF_DISTANCE_SYMBOLS] = {0};
    kf_fill_bits(in);
    if (in->count < 14) return KF_GZIP_INCOMPLETE;
    const int n_literals = (int)kf_take_bits(in, 5) + 257, n_distances = (int)kf_take_bits(in, 5) + 1;
    const int n_lengths = (int)kf_take_bits(in, 4) + 4, n = n_literals + n_distances;
    if (n_literals > 286 || n_distances > 30) return KF_GZIP_SYMBOL_COUNT;
    for (int i = 0; i < n_lengths; i++) {
        kf_fill_bits(in);
        if (in->count < 3) return KF_GZIP_INCOMPLETE;
        lengths[order[i]] = (uint8_t)kf_take_bits(in, 3);
    }
    if (!kf_create_code(literals, lengths, KF_LENGTH_SYMBOLS, 0)) return KF_GZIP_CODE_LENGTHS;
    memset(lengths, 0, KF_LENGTH_SYMBOLS);
    for (int i = 0; i < n;) {
        kf_fill_bits(in);
        int symbol = kf_next_symbol(in, literals);
        if (symbol < 0) return KF_GZIP_INCOMPLETE;
        if (symbol == KF_NO_SYMBOL) symbol = 0;  /* The code has no symbols. zlib reads zeros in this case. */
        if (symbol < 16) {
            lengths[i++] = (uint8_t)symbol;
            continue;
        }
        const unsigned bits = symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
        if (in->count < bits) return KF_GZIP_INCOMPLETE;
        const int repeat = (int)kf_take_bits(in, bits) + (symbol == 18 ? 11 : 3);
        if ((symbol == 16 && i == 0) || repeat > n - i) return KF_GZIP_REPEAT;
        memset(lengths + i, symbol == 16 ? lengths[i - 1] : 0, (size_t)repeat);
        i += repeat;
    }
    if (!lengths[KF_END_OF_BLOCK]) return KF_GZIP_NO_END_OF_BLOCK;
    if (!kf_create_code(literals, lengths, n_literals, 1)) return KF_GZIP_LITERAL_LENGTHS;
    return kf_create_code(distances, lengths + n_literals, n_distances, 1) ? KF_GZIP_VALID : KF_GZIP_DISTANCE_LENGTHS;
}

/* Decompress a block with the given codes. `filled` is the number of bytes in `out`, which has space for `room` bytes. */
static int kf_read_block(kf_bit_reader *reader, const kf_prefix_code *literals, const kf_prefix_code *distances, uint8_t *out, size_t room,
                         size_t *filled) {
    kf_bit_reader in = *reader;  /* a local copy can be in registers */
    size_t n = *filled;
    for (;;) {
        kf_fill_bits(&in);
        int symbol = kf_next_symbol(&in, literals);
        if (symbol < KF_END_OF_BLOCK) {
            if (symbol < 0) return KF_GZIP_INCOMPLETE;
            if (n == room) return KF_GZIP_NO_ROOM;
            out[n++] = (uint8_t)symbol;
            continue;
        }
        if (symbol == KF_END_OF_BLOCK) break;
        symbol -= KF_END_OF_BLOCK + 1;
        if (symbol >= (int)(sizeof kf_length_bits)) return KF_GZIP_LITERAL_CODE;
        if (in.count < kf_length_bits[symbol]) return KF_GZIP_INCOMPLETE;
        const size_t length = kf_lengths[symbol] + kf_take_bits(&in, kf_length_bits[symbol]);
        symbol = kf_next_symbol(&in, distances);
        if (symbol < 0) return KF_GZIP_INCOMPLETE;
        if (symbol >= (int)(sizeof kf_distance_bits)) return KF_GZIP_DISTANCE_CODE;
        if (in.count < kf_distance_bits[symbol]) return KF_GZIP_INCOMPLETE;
        size_t distance = kf_distances[symbol] + kf_take_bits(&in, kf_distance_bits[symbol]);
        if (distance > n) return KF_GZIP_DISTANCE;
        if (length > room - n) return KF_GZIP_NO_ROOM;
        const size_t end = n + length;
        if (distance == 1) {
            memset(out + n, out[n - 1], length);
            n = end;
        }
        while (n < end) {  /* A copy that overlaps its source repeats the last `distance` bytes. */
            const size_t part = distance < end - n ? distance : end - n;
            memcpy(out + n, out + n - distance, part);
            n += part;
            distance += part;
        }
    }
    *reader = in;
    *filled = n;
    return KF_GZIP_VALID;
}

/* Copy a block of uncompressed bytes. The parameters are those of kf_read_block. */
static int kf_copy_block(kf_bit_reader *in, uint8_t *out, size_t room, size_t *filled) {
    kf_take_bits(in, in->count & 7);
    if (in->count < 32) return KF_GZIP_INCOMPLETE;
    const size_t n = kf_take_bits(in, 16);
    if (n != (kf_take_bits(in, 16) ^ 0xFFFF)) return KF_GZIP_STORED_SIZE;
    in->p -= in->count >> 3;
    in->bits = in->count = 0;
    if (n > (size_t)(in->end - in->p)) return KF_GZIP_INCOMPLETE;
    if (n > room - *filled) return KF_GZIP_NO_ROOM;
    memcpy(out + *filled, in->p, n);
    in->p += n;
    *filled += n;
    return KF_GZIP_VALID;
}

/* Decompress a gzip member whose header has no optional fields. Ignore bytes after the member, as zlib.decompress does.
 *
 * Set `filled` to the size of the result. `out` has space for `room` bytes. Return an index of GZIP_FAULTS, or
 * KF_GZIP_NO_ROOM.
 */
static int kf_gunzip(const uint8_t *p, size_t size, uint8_t *out, size_t room, size_t *filled) {
    static const uint8_t header[4] = {0x1F, 0x8B, 8, 0};
    kf_prefix_code literals, distances;
    int fault, last;
    *filled = 0;
    if (size < KF_GZIP_HEADER_SIZE) return KF_GZIP_INCOMPLETE;
    if (memcmp(p, header, sizeof header)) return KF_GZIP_HEADER;
    kf_bit_reader in = {p + KF_GZIP_HEADER_SIZE, p + size, 0, 0};
    do {
        kf_fill_bits(&in);
        if (in.count < 3) return KF_GZIP_INCOMPLETE;
        last = (int)kf_take_bits(&in, 1);
        switch (kf_take_bits(&in, 2)) {
        case 0:
            fault = kf_copy_block(&in, out, room, filled);
            break;
        case 1:
            fault = kf_read_block(&in, &kf_fixed_literals, &kf_fixed_distances, out, room, filled);
            break;
        case 2:
            fault = kf_read_codes(&in, &literals, &distances);
            if (!fault) fault = kf_read_block(&in, &literals, &distances, out, room, filled);
            break;
        default:
            fault = KF_GZIP_BLOCK_TYPE;
        }
        if (fault) return fault;
    } while (!last);
    kf_fill_bits(&in);
    kf_take_bits(&in, in.count & 7);
    if (in.count < 32) return KF_GZIP_INCOMPLETE;
    if (kf_take_bits(&in, 32) != crc32_update(0, out, *filled)) return KF_GZIP_CRC;
    kf_fill_bits(&in);
    if (in.count < 32) return KF_GZIP_INCOMPLETE;
    return kf_take_bits(&in, 32) == (uint32_t)*filled ? KF_GZIP_VALID : KF_GZIP_SIZE;
}

#endif

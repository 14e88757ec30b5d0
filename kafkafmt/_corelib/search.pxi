# Find valid batches in bytes that may hold anything, in time that is linear in the bytes.
#
# A header can claim any length, so one CRC per plausible header would take quadratic time. Instead, the CRCs of the buffer's prefixes
# are computed once, at every PREFIX_STEP bytes. The CRC of a span follows from the CRCs of two prefixes, by the rule that zlib's
# crc32_combine() uses: crc(B) = crc(AB) ^ crc(A) * x^(8 * len(B)), modulo the polynomial.

from libc.stdlib cimport free, malloc

cdef extern from "_corelib/crc_span.h":
    void kf_span_init() nogil
    uint32_t kf_span_rest(int kind, uint32_t whole, uint32_t prefix, uint64_t n) noexcept nogil

kf_span_init()

cdef enum:
    PREFIX_STEP = 256
    DIRECT_LENGTH = 2048        # a shorter span is summed directly, which is as fast
    KIND_CRC32C = 0
    KIND_CRC32 = 1

cdef struct Prefixes:           # CRCs of base[start : start + i * PREFIX_STEP], computed up to `known` of them
    const uint8_t* start
    const uint8_t* stop
    uint32_t* crcs[2]
    Py_ssize_t known[2]


cdef inline uint32_t crc_update(int kind, uint32_t crc, const uint8_t* p, Py_ssize_t n) noexcept nogil:
    return crc32c_update(crc, p, n) if kind == KIND_CRC32C else crc32_update(crc, p, n)


cdef uint32_t prefix_crc(Prefixes* prefixes, int kind, const uint8_t* end) noexcept nogil:
    """Return the CRC of the bytes from `prefixes.start` to `end`."""
    cdef Py_ssize_t i, at = (end - prefixes.start) // PREFIX_STEP
    cdef uint32_t* crcs = prefixes.crcs[kind]
    for i in range(prefixes.known[kind], at + 1):
        crcs[i] = crc_update(kind, crcs[i - 1], prefixes.start + (i - 1) * PREFIX_STEP, PREFIX_STEP) if i else 0
    prefixes.known[kind] = max(prefixes.known[kind], at + 1)
    return crc_update(kind, crcs[at], prefixes.start + at * PREFIX_STEP, end - prefixes.start - at * PREFIX_STEP)


cdef int span_crc(Prefixes* prefixes, int kind, const uint8_t* start, const uint8_t* end, uint32_t* crc) noexcept nogil:
    """Store the CRC of a span. Return -1 if there is no memory for the prefixes."""
    if end - start <= DIRECT_LENGTH:
        crc[0] = crc_update(kind, 0, start, end - start)
        return 0
    if prefixes.crcs[kind] == NULL:
        prefixes.crcs[kind] = <uint32_t*>malloc(((prefixes.stop - prefixes.start) // PREFIX_STEP + 1) * sizeof(uint32_t))
        if prefixes.crcs[kind] == NULL:
            return -1
    crc[0] = kf_span_rest(kind, prefix_crc(prefixes, kind, end), prefix_crc(prefixes, kind, start), end - start)
    return 0


cdef inline bint plausible(const uint8_t* p, Py_ssize_t readable) noexcept nogil:
    """Return whether the `readable` bytes at `p` can begin with the header of a valid batch or message."""
    cdef int32_t length, key_length, value_at
    if p[16] > 2 or p[0] & 0x80 or readable < 12 + min_length(p[16]):
        return False
    length = int32_at(p + 8)
    if length < min_length(p[16]) or length > MAX_BATCH_LENGTH:
        return False
    if p[16] == 2:
        return not (p[21] != 0 or p[22] & 0x80 or (p[22] & 7) > 4 or int32_at(p + 23) < 0 or int32_at(p + 57) < 0)
    if p[17] & 0xF0 or (p[17] & 7) > 3:
        return False
    value_at = 30 if p[16] else 22
    key_length = int32_at(p + value_at - 4)
    if key_length < -1 or key_length > length - min_length(p[16]):
        return False
    value_at += key_length if key_length > 0 else 0
    return not (readable - 4 >= value_at and int32_at(p + value_at) != length + 8 - value_at and (
        int32_at(p + value_at) != -1 or length + 8 != value_at))


cdef inline bint in_reach(int64_t offset, int64_t expected) noexcept nogil:
    """Return whether a segment that contains offset `expected` can contain `offset` after it."""
    return expected <= offset and <uint64_t>offset - <uint64_t>expected <= 0x7FFFFFFF


cdef inline int crc_kind(const uint8_t* p) noexcept nogil:
    return KIND_CRC32C if p[16] == 2 else KIND_CRC32


cdef inline const uint8_t* crc_start(const uint8_t* p) noexcept nogil:
    """Return the first byte that the crc field covers."""
    return p + (21 if p[16] == 2 else 16)


cdef void free_prefixes(Prefixes* prefixes) noexcept nogil:
    free(prefixes.crcs[0])
    free(prefixes.crcs[1])


def crc32c_of_rest(whole, prefix, size):
    return kf_span_rest(KIND_CRC32C, whole & 0xFFFFFFFF, prefix & 0xFFFFFFFF, natural(size))


def crc32_of_rest(whole, prefix, size):
    return kf_span_rest(KIND_CRC32, whole & 0xFFFFFFFF, prefix & 0xFFFFFFFF, natural(size))


def find_batch(buffer, start=0, end=None, check_crc=True):
    cdef Source source = Source(buffer)
    cdef Py_ssize_t first, last, found = -1
    first, last = bounds(source, start, end)
    cdef const uint8_t* p = source.data + first
    cdef const uint8_t* stop = source.data + last
    cdef Prefixes prefixes = Prefixes(p, stop, [NULL, NULL], [0, 0])
    cdef bint check = check_crc
    cdef uint32_t crc = 0
    cdef int failed = 0
    with nogil:
        while stop - p >= 26:                       # the smallest message of all
            if p[16] <= 2 and plausible(p, stop - p):
                if not check:
                    found = p - source.data
                    break
                if int32_at(p + 8) <= stop - p - 12:
                    failed = span_crc(&prefixes, crc_kind(p), crc_start(p), p + 12 + int32_at(p + 8), &crc)
                    if failed:
                        break
                    if crc == stored_crc(p):
                        found = p - source.data
                        break
            p += 1
        free_prefixes(&prefixes)
    if failed:
        raise MemoryError
    return None if found < 0 else found


def find_batches(buffer, found, beyond, start=0, end=None, lowest_offset=0):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t first, last, n = 0, n_beyond = 0, capacity = len(found), beyond_capacity = len(beyond)
    first, last = bounds(source, start, end)
    cdef int64_t* positions = <int64_t*>required(arrays.take(found, capacity, 8))
    cdef int64_t* open_batches = <int64_t*>required(arrays.take(beyond, 2 * beyond_capacity, 8))
    cdef const uint8_t* p = source.data + first
    cdef const uint8_t* stop = source.data + last
    cdef const uint8_t* data_end = source.data + source.size
    cdef Prefixes prefixes = Prefixes(p, data_end, [NULL, NULL], [0, 0])
    cdef const uint8_t* batch_end
    cdef int64_t lowest = lowest_offset
    cdef uint32_t crc = 0
    cdef int failed = 0
    with nogil:
        while p < stop and data_end - p >= 26:
            if p[16] <= 2 and plausible(p, data_end - p):
                if int32_at(p + 8) <= data_end - p - 12:
                    batch_end = p + 12 + int32_at(p + 8)
                    failed = span_crc(&prefixes, crc_kind(p), crc_start(p), batch_end, &crc)
                    if failed or (crc == stored_crc(p) and n == capacity):
                        break
                    if crc == stored_crc(p):
                        positions[n] = p - source.data
                        n += 1
                elif in_reach(int64_at(p), lowest):
                    if n_beyond == beyond_capacity:
                        break
                    failed = span_crc(&prefixes, crc_kind(p), crc_start(p), data_end, &crc)
                    if failed:
                        break
                    open_batches[2 * n_beyond] = p - source.data
                    open_batches[2 * n_beyond + 1] = crc
                    n_beyond += 1
            p += 1
        free_prefixes(&prefixes)
    if failed:
        raise MemoryError
    if p < stop and data_end - p < 26:
        p = stop
    return n, n_beyond, p - source.data


cdef inline bint continues(const uint8_t* p, int64_t expected) noexcept nogil:
    """Return whether the 61 bytes at `p` can begin with a header whose offset is `expected`, or higher but within a segment's reach."""
    cdef int64_t offset = int64_at(p)
    cdef int32_t length = int32_at(p + 8), key_length
    if not in_reach(offset, expected) or p[16] > 2 or length < min_length(p[16]):
        return False
    if p[16] == 2:
        return True
    key_length = int32_at(p + (26 if p[16] else 18))
    return not p[17] & 0xF0 and -1 <= key_length <= length - min_length(p[16])


cdef inline bint may_begin(const uint8_t* p, const uint8_t* following, int64_t expected) noexcept nogil:
    """Return whether the plausible header at `p` begins a valid batch that ends by `following`, or one of the log that ends later."""
    if int32_at(p + 8) > following - p - 12:
        return continues(p, expected)
    return actual_crc(p, int32_at(p + 8)) == stored_crc(p)


def skip_corrupted(buffer, positions, start=0, end=None, expected=0):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t first, last, n = 0, capacity = len(positions)
    first, last = bounds(source, start, end)
    cdef int64_t* found = <int64_t*>required(arrays.take(positions, capacity, 8))
    cdef const uint8_t* p = source.data + first
    cdef const uint8_t* stop = source.data + last
    cdef const uint8_t* following
    cdef const uint8_t* q
    cdef int64_t offset = expected
    with nogil:
        while n < capacity and stop - p >= BATCH_HEADER_SIZE and continues(p, offset):
            if int32_at(p + 8) > stop - p - 12:
                break
            following = p + 12 + int32_at(p + 8)
            if stop - following < BATCH_HEADER_SIZE or not continues(following, offset):
                break
            q = p + 1
            while q < following and not (q[16] <= 2 and plausible(q, stop - q) and may_begin(q, following, offset)):
                q += 1
            if q < following:
                break
            found[n] = p - source.data
            n += 1
            p = following
            if int32_at(p + 8) <= stop - p - 12 and actual_crc(p, int32_at(p + 8)) == stored_crc(p):
                break
    return n, p - source.data

# Find valid batches in arbitrary bytes, in time linear in the number of bytes.
#
# In arbitrary bytes, many positions can look like a batch header with a large length.
# Computing the CRC of each of these batches directly could take quadratic time.
# Instead, the CRCs of the buffer's prefixes are computed once, at every PREFIX_STEP bytes.
# The CRC of a byte range is derived from the CRCs of two prefixes, with the method of zlib's crc32_combine():
# crc(B) = crc(AB) ^ crc(A) * x^(8 * len(B)), modulo the polynomial of the CRC.

from libc.stdlib cimport free, malloc

cdef extern from "_corelib/crc_span.h":
    void kf_span_init() nogil
    uint32_t kf_span_rest(int kind, uint32_t whole, uint32_t prefix, uint64_t n) noexcept nogil

cdef extern from "_corelib/skip.h":
    const uint8_t* kf_skip(const uint8_t* p, const uint8_t* end) noexcept nogil

kf_span_init()

cdef enum:
    PREFIX_STEP = 256
    DIRECT_LENGTH = 2048        # Size in bytes. The CRC of a shorter byte range is computed directly.
    KIND_CRC32C = 0
    KIND_CRC32 = 1
    SMALLEST_MESSAGE = ENTRY_OVERHEAD + MIN_LEGACY_LENGTH

cdef struct Prefixes:           # CRCs of start[0 : i * PREFIX_STEP], of which the first `known` have been computed
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
    """Store the CRC of the bytes from `start` to `end`. Return -1 if malloc() fails."""
    if end - start <= DIRECT_LENGTH:
        crc[0] = crc_update(kind, 0, start, end - start)
        return 0
    if prefixes.crcs[kind] == NULL:
        prefixes.crcs[kind] = <uint32_t*>malloc(((prefixes.stop - prefixes.start) // PREFIX_STEP + 1) * sizeof(uint32_t))
        if prefixes.crcs[kind] == NULL:
            return -1
    crc[0] = kf_span_rest(kind, prefix_crc(prefixes, kind, end), prefix_crc(prefixes, kind, start), end - start)
    return 0


cdef inline bint header_plausible(const uint8_t* p, Py_ssize_t readable) noexcept nogil:
    """Return whether the bytes at `p` can be the header of a valid batch or message.

    `readable` is the number of bytes that are available at `p`.
    """
    cdef int32_t length, key_length, value_at
    if p[MAGIC_AT] > MAGIC_V2 or p[0] & 0x80 or readable < ENTRY_OVERHEAD + min_length(p[MAGIC_AT]):
        return False
    length = int32_at(p + LENGTH_AT)
    if length < min_length(p[MAGIC_AT]) or length > MAX_BATCH_LENGTH:
        return False
    if p[MAGIC_AT] == MAGIC_V2:
        return not (p[ATTRIBUTES_AT] != 0 or p[ATTRIBUTES_AT + 1] & 0x80 or (p[ATTRIBUTES_AT + 1] & CODEC_MASK) > CODEC_ZSTD
                    or int32_at(p + LAST_OFFSET_DELTA_AT) < 0 or int32_at(p + COUNT_AT) < 0)
    if p[LEGACY_ATTRIBUTES_AT] & 0xF0 or (p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK) > CODEC_LZ4:
        return False
    value_at = (LEGACY_KEY_AT_V1 if p[MAGIC_AT] else LEGACY_KEY_AT_V0) + 4
    key_length = int32_at(p + value_at - 4)
    if key_length < -1 or key_length > length - min_length(p[MAGIC_AT]):
        return False
    value_at += key_length if key_length > 0 else 0
    return not (readable - 4 >= value_at and int32_at(p + value_at) != length + ENTRY_OVERHEAD - 4 - value_at and (
        int32_at(p + value_at) != -1 or length + ENTRY_OVERHEAD - 4 != value_at))


cdef inline bint in_reach(int64_t offset, int64_t expected) noexcept nogil:
    """Return whether `offset` is at least `expected`, and can be in the same segment as `expected`."""
    return expected <= offset and <uint64_t>offset - <uint64_t>expected <= MAX_INT32


cdef inline int crc_kind(const uint8_t* p) noexcept nogil:
    return KIND_CRC32C if p[MAGIC_AT] == MAGIC_V2 else KIND_CRC32


cdef inline const uint8_t* crc_start(const uint8_t* p) noexcept nogil:
    """Return a pointer to the first byte that the CRC of the batch at `p` covers."""
    return p + (CRC_START if p[MAGIC_AT] == MAGIC_V2 else MAGIC_AT)


cdef void free_prefixes(Prefixes* prefixes) noexcept nogil:
    free(prefixes.crcs[0])
    free(prefixes.crcs[1])


def crc32c_of_rest(whole, prefix, size):
    return kf_span_rest(KIND_CRC32C, whole & 0xFFFFFFFF, prefix & 0xFFFFFFFF, natural(size))


def crc32_of_rest(whole, prefix, size):
    return kf_span_rest(KIND_CRC32, whole & 0xFFFFFFFF, prefix & 0xFFFFFFFF, natural(size))


def append_crcs(castagnoli, buffer, value, appended, ends, crcs):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(ends), size = natural(appended), at = 0, i
    cdef const int64_t* end = <const int64_t*>required(arrays.take(ends, n, 8, False))
    cdef int64_t* crc = <int64_t*>required(arrays.take(crcs, n, 8))
    cdef int kind = KIND_CRC32C if castagnoli else KIND_CRC32
    cdef uint32_t running = value & 0xFFFFFFFF
    for i in range(n):
        if not at <= end[i] <= source.size:
            raise ValueError(f"the end {end[i]} is not between {at} and {source.size}")
        running = crc_update(kind, running, source.data + at, end[i] - at)
        at = end[i]
        crc[i] = kf_span_rest(kind, running, <uint32_t>crc[i], <uint64_t>size + at)


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
        while True:
            p = kf_skip(p, stop)
            if stop - p < SMALLEST_MESSAGE:
                break
            if p[MAGIC_AT] <= MAGIC_V2 and header_plausible(p, stop - p):
                if not check:
                    found = p - source.data
                    break
                if int32_at(p + LENGTH_AT) <= stop - p - ENTRY_OVERHEAD:
                    failed = span_crc(&prefixes, crc_kind(p), crc_start(p), p + ENTRY_OVERHEAD + int32_at(p + LENGTH_AT), &crc)
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
        while True:
            p = kf_skip(p, data_end)
            if p >= stop or data_end - p < SMALLEST_MESSAGE:
                break
            if p[MAGIC_AT] <= MAGIC_V2 and header_plausible(p, data_end - p):
                if int32_at(p + LENGTH_AT) <= data_end - p - ENTRY_OVERHEAD:
                    batch_end = p + ENTRY_OVERHEAD + int32_at(p + LENGTH_AT)
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
    if p > stop or data_end - p < SMALLEST_MESSAGE:
        p = stop
    return n, n_beyond, p - source.data


cdef inline bint continues_log(const uint8_t* p, int64_t expected) noexcept nogil:
    """Return whether the bytes at `p` can be a header that continues the log at offset `expected`.

    The caller must ensure that 61 bytes are available at `p`.
    """
    cdef int64_t offset = int64_at(p)
    cdef int32_t length = int32_at(p + LENGTH_AT), key_length
    if not in_reach(offset, expected) or p[MAGIC_AT] > MAGIC_V2 or length < min_length(p[MAGIC_AT]):
        return False
    if p[MAGIC_AT] == MAGIC_V2:
        return True
    key_length = int32_at(p + (LEGACY_KEY_AT_V1 if p[MAGIC_AT] else LEGACY_KEY_AT_V0))
    return not p[LEGACY_ATTRIBUTES_AT] & 0xF0 and -1 <= key_length <= length - min_length(p[MAGIC_AT])

# Find valid batches in arbitrary bytes, in time linear in the number of bytes.
#
# In arbitrary bytes, many positions look like a batch header, with any length. Computing the CRC of
# each of these batches directly would take quadratic time. Instead, the CRCs of the buffer's
# prefixes are computed once, at every PREFIX_STEP bytes. The CRC of a span is derived from the CRCs
# of two prefixes, by the rule of zlib's crc32_combine(): crc(B) = crc(AB) ^ crc(A) * x^(8 * len(B)),
# modulo the polynomial of the CRC.

from libc.stdlib cimport free, malloc

cdef extern from "_corelib/crc_span.h":
    void kf_span_init() nogil
    uint32_t kf_span_rest(int kind, uint32_t whole, uint32_t prefix, uint64_t n) noexcept nogil

kf_span_init()

cdef enum:
    PREFIX_STEP = 256
    DIRECT_LENGTH = 2048        # in bytes; the CRC of a shorter span is computed directly
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
    """Return whether `offset` is at least `expected`, and small enough for the same segment."""
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
        while stop - p >= SMALLEST_MESSAGE:
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
        while p < stop and data_end - p >= SMALLEST_MESSAGE:
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
    if p < stop and data_end - p < SMALLEST_MESSAGE:
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


cdef inline int may_begin(Prefixes* prefixes, const uint8_t* p, const uint8_t* following, Py_ssize_t file_left, int64_t expected,
                          bint* beyond) noexcept nogil:
    """Return whether the plausible header at `p` can be the header of a batch in the log.

    If the batch ends at or before `following`, it must be valid. If it ends later, its header must
    continue the log at offset `expected`, and the batch must not end after the file. The file has
    `file_left` bytes from `p` on. If the batch would end after the file, set `beyond`. Return -1 if
    malloc() fails.
    """
    if int32_at(p + LENGTH_AT) > following - p - ENTRY_OVERHEAD:
        if not continues_log(p, expected):
            return False
        beyond[0] = beyond[0] or int32_at(p + LENGTH_AT) > file_left - ENTRY_OVERHEAD
        return int32_at(p + LENGTH_AT) <= file_left - ENTRY_OVERHEAD
    cdef uint32_t crc = 0
    if span_crc(prefixes, crc_kind(p), crc_start(p), p + ENTRY_OVERHEAD + int32_at(p + LENGTH_AT), &crc):
        return -1
    return crc == stored_crc(p)


cdef const uint8_t* after_corrupted(Prefixes* prefixes, const uint8_t* p, const uint8_t* stop, Py_ssize_t file_left, int64_t expected,
                                    bint* beyond, int* failed) noexcept nogil:
    """Return the end of a batch whose CRC does not match, or NULL if its length cannot be trusted."""
    cdef const uint8_t* following
    cdef const uint8_t* q
    cdef int begins
    beyond[0] = False
    if stop - p < BATCH_HEADER_SIZE or not continues_log(p, expected) or int32_at(p + LENGTH_AT) > stop - p - ENTRY_OVERHEAD:
        return NULL
    following = p + ENTRY_OVERHEAD + int32_at(p + LENGTH_AT)
    if stop - following < BATCH_HEADER_SIZE or not continues_log(following, expected):
        return NULL
    q = p + 1
    while q < following:
        if q[MAGIC_AT] <= MAGIC_V2 and header_plausible(q, stop - q):
            begins = may_begin(prefixes, q, following, file_left - (q - p), expected, beyond)
            if begins:
                failed[0] = begins < 0
                return NULL
        q += 1
    return following


def scan_extents(buffer, table, extents):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = 0, n_extents = 0, taken, capacity = len(table), extent_capacity = len(extents)
    cdef Batch* rows = <Batch*>required(arrays.take(table, capacity, sizeof(Batch)))
    cdef const int64_t* extent = <const int64_t*>required(arrays.take(extents, 4 * extent_capacity, 8, False))
    cdef const uint8_t* p
    cdef const uint8_t* stop
    cdef Batch* row
    cdef int64_t last
    cdef uint32_t crc = 0
    with nogil:
        while n_extents < extent_capacity:
            if not 0 <= extent[0] <= extent[1] <= source.size or not 0 < extent[2] <= capacity - n:
                break
            p = source.data + extent[0]
            stop = source.data + extent[1]
            scan_headers(source.data, &p, stop, rows + n, capacity - n, &taken, True, &crc)
            if taken != extent[2] or p != stop:
                break
            row = &rows[n + taken - 1]
            last = max(row.last_offset_delta, 0)
            last = INT64_MAX if row.base_offset > INT64_MAX - last else row.base_offset + last
            if last != extent[3]:
                break
            n += taken
            n_extents += 1
            extent += 4
    return n_extents, n


cdef inline bint may_follow(const uint8_t* p, int64_t expected) noexcept nogil:
    """Return whether the bytes at `p` can be a header with an offset of at least `expected`.

    The caller must ensure that 61 bytes are available at `p`.
    """
    cdef int32_t length = int32_at(p + LENGTH_AT), key_length
    if int64_at(p) < 0 or int64_at(p) < expected or p[MAGIC_AT] > MAGIC_V2 or length < min_length(p[MAGIC_AT]):
        return False
    if p[MAGIC_AT] == MAGIC_V2:
        return True
    key_length = int32_at(p + (LEGACY_KEY_AT_V1 if p[MAGIC_AT] else LEGACY_KEY_AT_V0))
    return not p[LEGACY_ATTRIBUTES_AT] & 0xF0 and -1 <= key_length <= length - min_length(p[MAGIC_AT])


cdef inline bint header_is_dense(const uint8_t* p) noexcept nogil:
    """Return whether the fields of a v2 header are consistent, and each offset has a record."""
    cdef int64_t producer_id = int64_at(p + PRODUCER_ID_AT)
    cdef int16_t epoch = int16_at(p + PRODUCER_EPOCH_AT)
    if int32_at(p + LAST_OFFSET_DELTA_AT) < 0 or int32_at(p + COUNT_AT) - 1 != int32_at(p + LAST_OFFSET_DELTA_AT) or int32_at(p + COUNT_AT) < 1:
        return False
    if not -1 <= int64_at(p + BASE_TIMESTAMP_AT) <= int64_at(p + MAX_TIMESTAMP_AT) or int64_at(p + MAX_TIMESTAMP_AT) >= (<int64_t>1 << 53):
        return False
    return (producer_id == NO_PRODUCER_ID and epoch == -1 and int32_at(p + BASE_SEQUENCE_AT) == -1) or (producer_id >= 0 and epoch >= 0)


cdef inline int64_t varint_before(const uint8_t* p, int size) noexcept nogil:
    """Decode the `size` bytes before `p` as one 32-bit zigzag varint.

    Return -1 if the varint is negative, or if it does not have exactly `size` bytes.
    """
    cdef uint32_t value = 0
    cdef int i
    if (p - 1)[0] & 0x80:
        return -1
    for i in range(size):
        if i < size - 1 and not p[i - size] & 0x80:
            return -1
        value |= <uint32_t>(p[i - size] & 0x7F) << (7 * i)
    return -1 if value & 1 else value >> 1


cdef enum:
    # These limits must equal the limits in log/reading/search.py, where CHAIN_REACH is called
    # LONG_CHAIN, and LATER_REACH is called LARGEST_WINDOW.
    CHAIN_REACH = 1 << 16
    LATER_REACH = 1 << 20
    LATER_FINDS = 16
    SPANNING_FINDS = 256
    OWN_CRC_FINDS = 64
    WRAPPED_MESSAGES = 0xFFFF


cdef struct FoundBatches:       # file positions of the valid batches that the search found
    const int64_t* at
    Py_ssize_t count


cdef inline int64_t last_offset_at(const uint8_t* p) noexcept nogil:
    """Return the last offset of the valid batch or message at `p`."""
    return int64_at(p) + (max(int32_at(p + LAST_OFFSET_DELTA_AT), 0) if p[MAGIC_AT] == MAGIC_V2 else 0)


cdef Py_ssize_t index_after(FoundBatches* candidates, int64_t position) noexcept nogil:
    """Return the index of the first candidate that begins after `position`."""
    cdef Py_ssize_t low = 0, high = candidates.count, middle
    while low < high:
        middle = (low + high) >> 1
        if candidates.at[middle] <= position:
            low = middle + 1
        else:
            high = middle
    return low


cdef bint batch_found_at(FoundBatches* candidates, int64_t position) noexcept nogil:
    """Return whether a valid batch was found at `position`."""
    cdef Py_ssize_t i = index_after(candidates, position - 1)
    return i < candidates.count and candidates.at[i] == position


cdef Py_ssize_t chain_end(const uint8_t* data, Py_ssize_t size, FoundBatches* candidates, Py_ssize_t i, int64_t origin, int64_t scanned_to,
                          int64_t file_end, int64_t expected, int64_t reach, const int64_t* lengths, int64_t* last) noexcept nogil:
    """Return the end of a chain of adjacent batches, and store their last offset in `last`.

    The chain begins with candidate `i`. It is followed until it has more than `reach` bytes, or
    until the next batch is not a candidate.

    Return -1 if the end is unknown, because the chain may continue after `scanned_to`, or with a
    batch that the search cannot find. Also return -1 if one of the six `lengths` is the number of
    bytes from the start of the chain to the end of one of its batches.
    """
    cdef int64_t start = candidates.at[i] - origin, p = start
    cdef int k
    while True:
        if int64_at(data + p) > INT64_MAX - (<int64_t>1 << 31):
            return -1
        last[0] = last_offset_at(data + p)
        p += ENTRY_OVERHEAD + <int64_t>int32_at(data + p + LENGTH_AT)
        if p + BATCH_HEADER_SIZE > size or p + origin >= scanned_to:
            return -1
        for k in range(6):
            if lengths[k] == p - start:
                return -1
        if p - start > reach:
            return p
        while i < candidates.count and candidates.at[i] < p + origin:
            i += 1
        if i == candidates.count or candidates.at[i] != p + origin:
            break
    if data[p + MAGIC_AT] > MAGIC_V2 or int32_at(data + p + LENGTH_AT) < min_length(data[p + MAGIC_AT]):
        return p
    if int32_at(data + p + LENGTH_AT) > file_end - origin - p - ENTRY_OVERHEAD:
        return p
    if in_reach(int64_at(data + p), expected) and header_plausible(data + p, size - p):
        return p                # if the batch were valid, the search would have found it
    if int32_at(data + p + LENGTH_AT) > size - p - ENTRY_OVERHEAD or actual_crc(data + p, int32_at(data + p + LENGTH_AT)) == stored_crc(data + p):
        return -1               # the search skips this header, although its batch may be valid
    return p


cdef int64_t resume_from(const uint8_t* data, Py_ssize_t size, int64_t origin, FoundBatches* candidates, int64_t position, int64_t scanned_to,
                         int64_t file_end, int64_t zero_tail, int64_t expected, bint* own) noexcept nogil:
    """Return the first result of `resume_after`, or -1 instead of None. Store the second in `own`."""
    cdef int64_t bad = position - origin, end, covered = 0, at, candidate = 0, summed, first_offset, next_offset, last, chained, stop = -1
    cdef int64_t lengths[6]
    cdef const uint8_t* p
    cdef const uint8_t* q
    cdef uint32_t crc = 0, stored
    cdef Py_ssize_t i, k, n
    cdef bint head_continues, plain
    cdef int kind
    own[0] = False
    if bad < 0 or bad + BATCH_HEADER_SIZE > size or expected < 0:
        return -1
    p = data + bad
    first_offset = int64_at(p)
    if first_offset > INT64_MAX - (<int64_t>1 << 32):
        return -1
    next_offset = last_offset_at(p) + 1
    head_continues = first_offset == expected and (header_is_dense(p) if p[MAGIC_AT] == MAGIC_V2 else p[MAGIC_AT] < MAGIC_V2)
    plain = p[MAGIC_AT] < MAGIC_V2 and not p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK
    kind = KIND_CRC32 if p[MAGIC_AT] < MAGIC_V2 else KIND_CRC32C
    stored = <uint32_t>int32_at(p + (LEGACY_CRC_AT if p[MAGIC_AT] < MAGIC_V2 else CRC_AT))
    if first_offset >= expected and int32_at(p + LENGTH_AT) >= MIN_LEGACY_LENGTH:
        end = bad + ENTRY_OVERHEAD + <int64_t>int32_at(p + LENGTH_AT)
        if end + origin == file_end or (end + origin < file_end and (end + BATCH_HEADER_SIZE > size or end + origin >= zero_tail)):
            return -1
        if end + origin < file_end and may_follow(data + end, expected):
            if end + origin >= scanned_to:
                return -1
            if continues_log(data + end, expected) or batch_found_at(candidates, end + origin):
                stop = end          # the length field may be correct
    summed = bad + (MAGIC_AT if p[MAGIC_AT] < MAGIC_V2 else CRC_START)
    i = index_after(candidates, position)
    if stop >= 0:
        k = index_after(candidates, stop + origin - 1)
        n = k - SPANNING_FINDS if k - i > SPANNING_FINDS else i
        for n in range(n, k):
            at = candidates.at[n] - origin
            if at + BATCH_HEADER_SIZE > size or at + ENTRY_OVERHEAD + <int64_t>int32_at(data + at + LENGTH_AT) > stop:
                return -1
        for n in range(i, k if k - i < OWN_CRC_FINDS else i + OWN_CRC_FINDS):
            at = candidates.at[n] - origin
            if at >= summed:
                crc = crc_update(kind, crc, data + summed, at - summed)
                summed = at
                if crc == stored:
                    own[0] = True
                    return at + origin
        own[0] = crc_update(kind, crc, data + summed, stop - summed) == stored
        return stop + origin
    while i < candidates.count:
        candidate = candidates.at[i] - origin
        if candidate + BATCH_HEADER_SIZE > size:
            return -1
        q = data + candidate
        if candidate >= summed:
            crc = crc_update(kind, crc, data + summed, candidate - summed)
            summed = candidate
            if crc == stored:
                own[0] = True
                return candidate + origin
        if candidate < covered:
            i += 1
            continue
        end = candidate + ENTRY_OVERHEAD + <int64_t>int32_at(q + LENGTH_AT)
        if candidate < 5 or end + BATCH_HEADER_SIZE > size or int64_at(q) > INT64_MAX - (<int64_t>1 << 32):
            return -1
        if q[MAGIC_AT] == MAGIC_V1 and not q[LEGACY_ATTRIBUTES_AT] & CODEC_MASK and p[MAGIC_AT] != MAGIC_V2 and not plain:
            return -1           # the candidate may be inside a wrapper message
        lengths[5] = <uint32_t>int32_at(q - 4)
        chained = lengths[5]
        for k in range(5):
            lengths[k] = varint_before(q, k + 1)
            chained = max(chained, lengths[k])
        if chained >= end - candidate and chain_end(data, size, candidates, i, origin, scanned_to, file_end, expected, chained, lengths, &last) < 0:
            return -1
        if head_continues and expected <= int64_at(q) < next_offset:
            return -1
        if int64_at(q) < expected and (head_continues or (q[MAGIC_AT] < MAGIC_V2 and not q[LEGACY_ATTRIBUTES_AT] & CODEC_MASK)):
            covered = end
            i += 1
            continue
        last = last_offset_at(q)
        at = end
        if head_continues and int64_at(q) != next_offset:
            for k in range(6):
                lengths[k] = -1
            at = chain_end(data, size, candidates, i, origin, scanned_to, file_end, expected, CHAIN_REACH, lengths, &last)
            if at < 0:
                return -1
        if at + origin >= scanned_to or at + origin >= zero_tail:
            return -1
        if at - candidate > CHAIN_REACH or continues_log(data + at, last + 1):
            break
        if int64_at(data + at) > last and int64_at(data + at) - last - 1 <= (0 if q[MAGIC_AT] == MAGIC_V2 else WRAPPED_MESSAGES):
            break
        if at == end and batch_found_at(candidates, at + origin):
            break
        covered = end
        i += 1
    if i == candidates.count:
        return -1
    if int64_at(data + candidate) == next_offset:
        return candidate + origin
    n = 0
    for k in range(i + 1, candidates.count):
        if n == LATER_FINDS or candidates.at[k] >= candidate + origin + LATER_REACH:
            return candidate + origin
        n += 1
        at = candidates.at[k] - origin
        if at + BATCH_HEADER_SIZE > size:
            return -1
        if int64_at(data + at) == next_offset:
            return -1
    return candidate + origin if n == LATER_FINDS or scanned_to >= min(candidate + origin + LATER_REACH, file_end) else -1


def resume_after(buffer, found, position, origin, scanned_to, file_end, zero_tail, expected):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count = len(found)
    cdef FoundBatches candidates = FoundBatches(<const int64_t*>required(arrays.take(found, count, 8, False)), count)
    cdef int64_t at = position, start = origin, to = scanned_to, end = file_end, zeros = zero_tail, lowest = expected, result
    cdef bint own = False
    with nogil:
        result = resume_from(source.data, source.size, start, &candidates, at, to, end, zeros, lowest, &own)
    return None if result < 0 else (result, own)


# scan_damaged() skips a damaged batch by its length field if after_corrupted() trusts this field.
# Otherwise, resume_from() finds the end of the damaged span in a window that was searched before.

cdef enum:
    LENGTH_PROBLEM = -2         # same values as in log/reading/parts.py
    MAGIC_PROBLEM = -3
    END_PROBLEM = -4
    SPAN_COLUMNS = 8
    # If batches with wrong CRCs have more bytes in total, CRCs are derived from the CRCs of prefixes.
    FAILED_BYTES = 1 << 20


cdef inline int64_t records_of(const uint8_t* p) noexcept nogil:
    """Return the number of data records that the header at `p` states.

    Return -1 if the header states no number or an impossible one.
    """
    if p[MAGIC_AT] < MAGIC_V2:
        return -1 if p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK else 1
    cdef int32_t count = int32_at(p + COUNT_AT)
    if not 0 <= count <= <int64_t>int32_at(p + LAST_OFFSET_DELTA_AT) + 1:
        return -1
    return 0 if int16_at(p + ATTRIBUTES_AT) & CONTROL_BIT else count


cdef inline int describe_problem(int64_t* span, int status, const uint8_t* p, const uint8_t* stop, Py_ssize_t file_left, uint32_t crc) noexcept nogil:
    """Store the problem of the batch at `p` in `span`. Return False if `span` cannot represent it."""
    if status == SCAN_CRC:
        span[3], span[4], span[5] = p[MAGIC_AT], crc, stored_crc(p)
    elif status == SCAN_LENGTH:
        span[3], span[4], span[5] = LENGTH_PROBLEM, int32_at(p + LENGTH_AT), 0
    elif status == SCAN_MAGIC:
        span[3], span[4], span[5] = MAGIC_PROBLEM, <int8_t>p[MAGIC_AT], 0
    elif status == SCAN_END and stop - p >= MAGIC_END and int32_at(p + LENGTH_AT) > file_left - ENTRY_OVERHEAD:
        span[3], span[4], span[5] = END_PROBLEM, file_left, <int64_t>int32_at(p + LENGTH_AT) + ENTRY_OVERHEAD
    else:
        return False
    return True


def scan_damaged(buffer, table, spans, start=0, end=None, file_end=None, expected=0, last=None, origin=0, window=None):
    cdef Source source = Source(buffer), searched = None
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t first, stop_at, n = 0, n_spans = 0, taken, capacity = len(table), span_capacity = len(spans)
    first, stop_at = bounds(source, start, end)
    cdef Batch* rows = <Batch*>required(arrays.take(table, capacity, sizeof(Batch)))
    cdef int64_t* span = <int64_t*>required(arrays.take(spans, SPAN_COLUMNS * span_capacity, 8))
    cdef Py_ssize_t file_size = source.size if file_end is None else natural(file_end)
    cdef const uint8_t* p = source.data + first
    cdef const uint8_t* stop = source.data + stop_at
    cdef const uint8_t* following
    cdef Batch* row
    cdef int64_t lowest = expected, before, buffer_at = origin, window_at = 0, searched_from = 0, searched_to = 0, searched_end = 0, zero_tail = 0, at, failed_bytes = 0
    cdef FoundBatches candidates = FoundBatches(NULL, 0)
    cdef Prefixes prefixes = Prefixes(p, stop, [NULL, NULL], [0, 0])
    cdef bint known = last is not None, beyond = False, own = False, derive
    cdef int64_t previous = last if known else 0
    cdef uint32_t crc = 0
    cdef int status = SCAN_FULL, failed = 0
    if window is not None:
        searched = Source(window.buffer)
        candidates.count = len(window.found)
        candidates.at = <const int64_t*>required(arrays.take(window.found, candidates.count, 8, False))
        window_at, searched_from, searched_to = window.position, window.searched_from, window.searched_to
        searched_end, zero_tail = window.file_end, window.zero_tail
    with nogil:
        while n < capacity and n_spans < span_capacity:
            row = &rows[n]
            derive = failed_bytes > FAILED_BYTES
            status = scan_headers(source.data, &p, stop, row, 1, &taken, not derive, &crc)
            if taken and derive:
                failed = span_crc(&prefixes, crc_kind(source.data + row.position), crc_start(source.data + row.position), p, &crc)
                if failed:
                    break
                if crc != row.crc:
                    p, taken, status = source.data + row.position, 0, SCAN_CRC
            if taken:
                status = SCAN_FULL
                if (row.count < 0 and row.magic < MAGIC_V2) or row.last_offset_delta < 0 or row.base_offset >= INT64_MAX - row.last_offset_delta:
                    p = source.data + row.position
                    status = SCAN_END
                    break
                before = previous if known else lowest - 1
                previous = row.base_offset + row.last_offset_delta
                lowest = (previous if row.base_offset == before + 1 else min(before, previous)) + 1
                known = True
                n += 1
                continue
            if not describe_problem(span, status, p, stop, file_size - (p - source.data), crc):
                break
            following = NULL
            if status == SCAN_CRC:
                failed_bytes += int32_at(p + LENGTH_AT)
                following = after_corrupted(&prefixes, p, stop, file_size - (p - source.data), lowest, &beyond, &failed)
                if failed:
                    break
            if following == NULL:
                at = buffer_at + (p - source.data)
                if not searched_from <= at < searched_to:
                    break
                at = resume_from(searched.data, searched.size, window_at, &candidates, at, searched_to, searched_end, zero_tail, lowest, &own)
                if at < 0 or at - buffer_at > stop_at:
                    break
                following = source.data + (at - buffer_at)
                beyond = True
                span[7] = records_of(p) if own else -1
            else:
                span[7] = -1
            span[0] = p - source.data
            span[1] = following - source.data
            span[2] = n
            span[6] = beyond
            span += SPAN_COLUMNS
            n_spans += 1
            failed_bytes -= following - p
            known = False
            p = following
            status = SCAN_FULL
        free_prefixes(&prefixes)
    if failed:
        raise MemoryError
    position = p - source.data
    error = None if status <= SCAN_FULL else scan_error(status, source, position, stop_at, crc)
    return n, n_spans, position, lowest, previous if known else None, error

# From the valid batches that a search has found, choose the one at which reading resumes after damage.

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
    """Return whether the fields of a v2 header are consistent, and the batch has a record for each offset."""
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
    # The limits must be equal to the limits in log/reading/search.py.
    # CHAIN_REACH has the name LONG_CHAIN in embedded.py, and LATER_REACH has the name LARGEST_WINDOW in batch_finder.py.
    CHAIN_REACH = 1 << 16
    LATER_REACH = 1 << 20
    LATER_FINDS = 16
    SPANNING_FINDS = 256
    OWN_CRC_FINDS = 64
    WRAPPED_MESSAGES = 0xFFFF
    MANY_MESSAGES = 1 << 20


cdef struct FoundBatches:       # File positions of the valid batches that the search found.
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


cdef bint may_be_missed(const uint8_t* data, Py_ssize_t size, Py_ssize_t p, int64_t origin, int64_t file_end, int64_t expected) noexcept nogil:
    """Return whether a valid batch may begin at `p` although the search has not found it.

    The caller must ensure that 61 bytes are available at `p`.
    """
    if data[p + MAGIC_AT] > MAGIC_V2 or int32_at(data + p + LENGTH_AT) < min_length(data[p + MAGIC_AT]):
        return False
    if int32_at(data + p + LENGTH_AT) > file_end - origin - p - ENTRY_OVERHEAD:
        return False
    if in_reach(int64_at(data + p), expected) and header_plausible(data + p, size - p):
        return False            # If the batch were valid, the search would have found it.
    # The search skips this header, although the batch may be valid.
    return int32_at(data + p + LENGTH_AT) > size - p - ENTRY_OVERHEAD or actual_crc(data + p, int32_at(data + p + LENGTH_AT)) == stored_crc(data + p)


cdef Py_ssize_t chain_end(const uint8_t* data, Py_ssize_t size, FoundBatches* candidates, Py_ssize_t i, int64_t origin, int64_t scanned_to,
                          int64_t file_end, int64_t expected, int64_t reach, const int64_t* lengths, int64_t* last) noexcept nogil:
    """Return the end of a chain of adjacent valid batches, and store their last offset in `last`.

    The candidates are the valid batches that a search found. The chain starts with candidate `i`,
    and ends when it has more than `reach` bytes or is not followed by another candidate.

    Return -1 if the chain may continue after `scanned_to` or with a batch that the search cannot
    find. Also return -1 if the distance from the start of the chain to the end of one of its batches
    is one of the six `lengths`.
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
        if p + origin < scanned_to and batch_found_at(candidates, p + origin) and int64_at(data + p) <= last[0]:
            return -1           # The offsets of the next batch contradict the previous offsets.
        while i < candidates.count and candidates.at[i] < p + origin:
            i += 1
        if i == candidates.count or candidates.at[i] != p + origin:
            break
    return -1 if may_be_missed(data, size, p, origin, file_end, expected) else p


cdef int64_t inner_messages_end(const uint8_t* data, Py_ssize_t size, FoundBatches* candidates, Py_ssize_t i, int64_t origin, int64_t scanned_to,
                                int64_t file_end, int64_t zero_tail, int64_t expected, bint among_plain, bint wrapper, int64_t damaged_offset) noexcept nogil:
    """Return the end of the inner messages that begin with candidate `i`, or 0 if the candidate is no inner message.

    The candidate is an uncompressed message of magic 1. `damaged_offset` is the offset in the header
    of the damaged batch, and `wrapper` is True if this is the header of a wrapper message. Return -1
    if the bytes in memory are not sufficient. See EmbeddedBatches._inner_messages_end.
    """
    cdef int64_t start = candidates.at[i] - origin, p = start, end = start, begin = int64_at(data + start), previous, highest = -1, found = 0, following
    cdef bint followed, ahead, inner
    if among_plain and not wrapper and 0 < begin < expected:
        return 0
    while True:                 # Find the end of the messages.
        previous = int64_at(data + end)
        end += ENTRY_OVERHEAD + <int64_t>int32_at(data + end + LENGTH_AT)
        if end - start > CHAIN_REACH or end + BATCH_HEADER_SIZE > size or end + origin >= scanned_to or end + origin >= zero_tail:
            return -1
        followed = batch_found_at(candidates, end + origin)
        if not followed and may_be_missed(data, size, end, origin, file_end, expected):
            return -1
        if not followed or data[end + MAGIC_AT] != MAGIC_V1 or data[end + LEGACY_ATTRIBUTES_AT] & CODEC_MASK or int64_at(data + end) <= previous:
            break
    if wrapper:
        highest = MANY_MESSAGES
        if damaged_offset >= expected:
            highest = min(highest, damaged_offset - expected)
    ahead = not among_plain or (followed and (data[end + MAGIC_AT] == MAGIC_V2 or data[end + LEGACY_ATTRIBUTES_AT] & CODEC_MASK))
    while p < end:              # Divide the messages into sequences with consecutive offsets.
        previous = int64_at(data + p)
        p += ENTRY_OVERHEAD + <int64_t>int32_at(data + p + LENGTH_AT)
        following = int64_at(data + p)
        if p < end and following == previous + 1 and following != highest + 1:
            continue
        inner = begin <= highest or (begin == 0 and expected > 0 if among_plain else begin < expected)
        if not inner and p < end:
            inner = ahead and begin <= following - expected
        elif not inner and not followed:
            inner = not among_plain or begin <= expected
        elif not inner and begin <= following - expected:
            if data[p + MAGIC_AT] < MAGIC_V2 and data[p + LEGACY_ATTRIBUTES_AT] & CODEC_MASK:
                return -1       # The first offset of the following wrapper message is not known.
            inner = following != previous + 1
        if not inner:
            break
        found = p
        begin = following
    return found


cdef int64_t resume_from(const uint8_t* data, Py_ssize_t size, int64_t origin, FoundBatches* candidates, int64_t position, int64_t scanned_to,
                         int64_t file_end, int64_t zero_tail, int64_t expected, int among_plain, bint* own) noexcept nogil:
    """Return the first result of `resume_after`, or -1 instead of None. Store the second result in `own`.

    `among_plain` is -1 if it is not known.
    """
    cdef int64_t bad = position - origin, end, bad_end, covered = 0, at, candidate = 0, summed, first_offset, next_offset, last, chained, inner_end, stop = -1
    cdef int64_t lengths[6]
    cdef const uint8_t* p
    cdef const uint8_t* q
    cdef uint32_t crc = 0, stored
    cdef Py_ssize_t i, k, n
    cdef bint head_continues, plain, wrapper, linked, possible, spanned = False
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
    # A destroyed header can contain zeros, which must not count as an uncompressed message.
    plain = p[MAGIC_AT] < MAGIC_V2 and int32_at(p + LENGTH_AT) >= min_length(p[MAGIC_AT]) and not p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK
    wrapper = p[MAGIC_AT] < MAGIC_V2 and int32_at(p + LENGTH_AT) >= min_length(p[MAGIC_AT]) and 0 < p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK < CODEC_ZSTD
    kind = KIND_CRC32 if p[MAGIC_AT] < MAGIC_V2 else KIND_CRC32C
    stored = <uint32_t>int32_at(p + (LEGACY_CRC_AT if p[MAGIC_AT] < MAGIC_V2 else CRC_AT))
    bad_end = size              # After all candidates, if the length field is implausible.
    if first_offset >= expected and int32_at(p + LENGTH_AT) >= MIN_LEGACY_LENGTH:
        bad_end = end = bad + ENTRY_OVERHEAD + <int64_t>int32_at(p + LENGTH_AT)
        if end + origin == file_end or (end + origin < file_end and (end + BATCH_HEADER_SIZE > size or end + origin >= zero_tail)):
            return -1
        if end + origin < file_end and may_follow(data + end, expected):
            if end + origin >= scanned_to:
                return -1
            if continues_log(data + end, expected) or batch_found_at(candidates, end + origin):
                stop = end          # The length field may be correct.
    summed = bad + (MAGIC_AT if p[MAGIC_AT] < MAGIC_V2 else CRC_START)
    i = index_after(candidates, position)
    if stop >= 0:
        k = index_after(candidates, stop + origin - 1)
        n = k - SPANNING_FINDS if k - i > SPANNING_FINDS else i
        for n in range(n, k):
            at = candidates.at[n] - origin
            if at + BATCH_HEADER_SIZE > size:
                return -1
            spanned = spanned or at + ENTRY_OVERHEAD + <int64_t>int32_at(data + at + LENGTH_AT) > stop
        for n in range(i, k if k - i < OWN_CRC_FINDS else i + OWN_CRC_FINDS):
            at = candidates.at[n] - origin
            if at >= summed:
                crc = crc_update(kind, crc, data + summed, at - summed)
                summed = at
                if crc == stored:
                    own[0] = True
                    return at + origin
        if not spanned or batch_found_at(candidates, stop + origin):
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
        lengths[5] = <uint32_t>int32_at(q - 4)
        chained = lengths[5]
        possible = False
        for k in range(6):
            if k < 5:
                lengths[k] = varint_before(q, k + 1)
            chained = max(chained, lengths[k])
            # A longer value is not recognized, see EmbeddedBatches._value_end.
            possible = possible or end - candidate <= lengths[k] <= max(LATER_REACH, end - candidate)
        if possible and chain_end(data, size, candidates, i, origin, scanned_to, file_end, expected, chained, lengths, &last) < 0:
            return -1
        if head_continues and expected <= int64_at(q) < next_offset:
            return -1
        if (q[MAGIC_AT] == MAGIC_V1 and not q[LEGACY_ATTRIBUTES_AT] & CODEC_MASK and int64_at(q) <= MANY_MESSAGES
                and not (head_continues and (plain or p[MAGIC_AT] == MAGIC_V2))):
            inner_end = -1
            if among_plain >= 0:
                inner_end = inner_messages_end(data, size, candidates, i, origin, scanned_to, file_end, zero_tail, expected, among_plain,
                                               wrapper, first_offset)
            if inner_end < 0:
                return -1
            if inner_end > 0:
                covered = inner_end
                i += 1
                continue
        if int64_at(q) < expected and (head_continues or (q[MAGIC_AT] < MAGIC_V2 and not q[LEGACY_ATTRIBUTES_AT] & CODEC_MASK)):
            covered = end
            i += 1
            continue
        last = last_offset_at(q)
        at = end
        linked = head_continues and int64_at(q) != next_offset
        if linked:
            for k in range(6):
                lengths[k] = -1
            at = chain_end(data, size, candidates, i, origin, scanned_to, file_end, expected, CHAIN_REACH, lengths, &last)
            if at < 0:
                return -1
        if at + origin >= scanned_to or at + origin >= zero_tail:
            return -1
        if (linked and at - candidate > CHAIN_REACH) or continues_log(data + at, last + 1):
            break
        if int64_at(data + at) > last and int64_at(data + at) - last - 1 <= (0 if q[MAGIC_AT] == MAGIC_V2 else WRAPPED_MESSAGES):
            break
        if at == end and batch_found_at(candidates, at + origin):
            return -1           # The offsets of the next batch contradict those of this batch.
        if at > end and bad_end <= candidate:
            return -1           # A later batch may confirm several batches, see Search._continued_later.
        covered = at
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


def resume_after(buffer, found, position, origin, scanned_to, file_end, zero_tail, expected, among_plain):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count = len(found)
    cdef FoundBatches candidates = FoundBatches(<const int64_t*>required(arrays.take(found, count, 8, False)), count)
    cdef int64_t at = position, start = origin, to = scanned_to, end = file_end, zeros = zero_tail, lowest = expected, result
    cdef int plain = -1 if among_plain is None else bool(among_plain)
    cdef bint own = False
    with nogil:
        result = resume_from(source.data, source.size, start, &candidates, at, to, end, zeros, lowest, plain, &own)
    return None if result < 0 else (result, own)

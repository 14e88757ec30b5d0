# Reject valid batches that a search has found after damage, and that do not belong to the log.
# Such batches are part of record values or of wrapper messages.

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
    # The limits must be equal to the limits in log/damage/search.py.
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


cdef struct Damage:             # The damaged batch at the start of a search. All positions are positions in the file.
    int64_t first_offset
    int64_t next_offset
    int64_t end                 # End according to the length field, or INT64_MAX if this field is implausible.
    bint continues              # The header is consistent, and its offset is the expected one.
    bint trusted                # The offset range of the header is trusted, see EmbeddedBatches._covered_end.
    bint magic_v2
    bint plain
    bint wrapper
    int kind                    # Algorithm of the CRC: KIND_CRC32 or KIND_CRC32C.
    uint32_t stored
    uint32_t crc                # CRC of the bytes up to `summed`.
    int64_t summed


cdef struct Rejected:           # The candidates that were rejected so far.
    Py_ssize_t count            # Index of the first candidate that was not rejected.
    int64_t covered             # Candidates before this position are inside rejected candidates.
    int64_t after_inner         # Offset after the inner messages that were rejected last.


cdef enum:
    ALL_REJECTED = 0
    ACCEPTED
    UNDECIDED                   # The bytes in memory are not sufficient, or the case is rare.
    OWN_END                     # The CRC of the damaged batch matches the bytes before the candidate.


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
                          int64_t file_end, int64_t expected, int64_t reach, int64_t stop_after, int64_t* last) noexcept nogil:
    """Return the end of a chain of adjacent valid batches, and store their last offset in `last`.

    The candidates are the valid batches that a search found. The chain starts with candidate `i`. It
    ends when it has more than `reach` bytes, when it has exactly `stop_after` bytes, or when it is not
    followed by another candidate.

    If the end is not known, return -1. There are two possible reasons:

    - The chain may continue after `scanned_to`, or with a batch that the search cannot find.
    - The offsets of the batches in the chain do not increase.
    """
    cdef int64_t start = candidates.at[i] - origin, p = start
    while True:
        if int64_at(data + p) > INT64_MAX - (<int64_t>1 << 31):
            return -1
        last[0] = last_offset_at(data + p)
        p += ENTRY_OVERHEAD + <int64_t>int32_at(data + p + LENGTH_AT)
        if p + BATCH_HEADER_SIZE > size or p + origin >= scanned_to:
            return -1
        if p - start > reach or p - start == stop_after:
            return p
        while i < candidates.count and candidates.at[i] < p + origin:
            i += 1
        if i == candidates.count or candidates.at[i] != p + origin:
            break
        if int64_at(data + p) <= last[0]:
            return -1           # The offsets of the next batch contradict the previous offsets.
    return -1 if may_be_missed(data, size, p, origin, file_end, expected) else p


cdef int64_t value_end(const uint8_t* data, Py_ssize_t size, FoundBatches* candidates, Py_ssize_t i, int64_t origin, int64_t scanned_to,
                       int64_t file_end, int64_t zero_tail, int64_t expected) noexcept nogil:
    """Return the end of the record value that begins with candidate `i`, or 0 if no record value begins there.

    At least five bytes are available before the candidate. Return -1 if the bytes in memory are not
    sufficient. See EmbeddedBatches._value_end.
    """
    cdef int64_t start = candidates.at[i] - origin, extent = ENTRY_OVERHEAD + <int64_t>int32_at(data + start + LENGTH_AT), end, last = 0
    cdef int64_t legacy = <uint32_t>int32_at(data + start - 4), longest = legacy
    cdef int64_t lengths[5]
    cdef int k
    cdef bint possible = extent <= legacy <= max(LATER_REACH, extent)
    for k in range(5):
        lengths[k] = varint_before(data + start, k + 1)
        longest = max(longest, lengths[k])
        # A longer value is not recognized.
        possible = possible or extent <= lengths[k] <= max(LATER_REACH, extent)
    if not possible:
        return 0
    end = chain_end(data, size, candidates, i, origin, scanned_to, file_end, expected, longest, legacy, &last)
    if end < 0 or end - start > LATER_REACH or end + origin >= zero_tail:
        return -1
    if end - start == legacy:
        return end
    for k in range(5):
        if lengths[k] == end - start and not continues_log(data + end, last + 1):
            return end
    return 0


cdef int64_t inner_messages_end(const uint8_t* data, Py_ssize_t size, FoundBatches* candidates, Py_ssize_t i, int64_t origin, int64_t scanned_to,
                                int64_t file_end, int64_t zero_tail, int64_t expected, bint among_plain, Damage* bad, int64_t* after_inner) noexcept nogil:
    """Return the end of the inner messages that begin with candidate `i`, or 0 if the candidate is not an inner message.

    The candidate is an uncompressed message of magic 1. Store the offset after the last inner message
    in `after_inner`. Return -1 if the bytes in memory are not sufficient. See
    EmbeddedBatches._inner_messages_end.
    """
    cdef int64_t start = candidates.at[i] - origin, p = start, end = start, begin = int64_at(data + start), previous, highest = -1, found = 0, after = 0, following
    cdef bint followed, ahead, inner
    if among_plain and not bad.wrapper and 0 < begin < expected:
        return 0
    while True:                 # Find the end of the messages.
        previous = int64_at(data + end)
        end += ENTRY_OVERHEAD + <int64_t>int32_at(data + end + LENGTH_AT)
        if end - start > CHAIN_REACH or end + BATCH_HEADER_SIZE > size or end + origin >= scanned_to or end + origin >= zero_tail or previous == INT64_MAX:
            return -1
        followed = batch_found_at(candidates, end + origin)
        if not followed and may_be_missed(data, size, end, origin, file_end, expected):
            return -1
        if not followed or data[end + MAGIC_AT] != MAGIC_V1 or data[end + LEGACY_ATTRIBUTES_AT] & CODEC_MASK or int64_at(data + end) <= previous:
            break
    if bad.wrapper:
        highest = MANY_MESSAGES
        if bad.first_offset >= expected:
            highest = min(highest, bad.first_offset - expected)
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
        found, after = p, previous + 1
        begin = following
    if found:
        after_inner[0] = after
    return found


cdef Damage damage_at(const uint8_t* p, int64_t position, int64_t expected) noexcept nogil:
    """Decode the header of the damaged batch at `position` in the file. Its 61 bytes are at `p`."""
    cdef Damage bad
    cdef bint legacy = p[MAGIC_AT] < MAGIC_V2, possible = legacy and int32_at(p + LENGTH_AT) >= min_length(p[MAGIC_AT]), dense
    bad.first_offset = int64_at(p)
    bad.next_offset = last_offset_at(p) + 1
    bad.end = INT64_MAX
    if bad.first_offset >= expected and int32_at(p + LENGTH_AT) >= MIN_LEGACY_LENGTH:
        bad.end = position + ENTRY_OVERHEAD + <int64_t>int32_at(p + LENGTH_AT)
    bad.magic_v2 = p[MAGIC_AT] == MAGIC_V2
    # Zeros look like the header of a message of format 0.
    dense = (
        header_is_dense(p) if bad.magic_v2 else legacy and (int32_at(p + LENGTH_AT) != 0 or int32_at(p + LEGACY_CRC_AT) != 0))
    bad.continues = dense and bad.first_offset == expected
    # A header of zeros has the magic and the codec of an uncompressed message, but its length is impossible.
    bad.plain = possible and not p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK
    bad.wrapper = possible and 0 < p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK < CODEC_ZSTD
    bad.trusted = bad.continues or (
        dense and not (legacy and p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK) and in_reach(bad.first_offset, expected))
    bad.kind = KIND_CRC32 if legacy else KIND_CRC32C
    bad.stored = <uint32_t>int32_at(p + (LEGACY_CRC_AT if legacy else CRC_AT))
    bad.crc, bad.summed = 0, position + (MAGIC_AT if legacy else CRC_START)
    return bad


cdef inline bint ends_before(Damage* bad, const uint8_t* data, int64_t origin, int64_t position) noexcept nogil:
    """Return whether the CRC of the damaged batch matches if the batch ends at `position`.

    `position` must not be lower than in the previous call.
    """
    if position < bad.summed:
        return False
    bad.crc = crc_update(bad.kind, bad.crc, data + (bad.summed - origin), position - bad.summed)
    bad.summed = position
    return bad.crc == bad.stored


cdef int judge_candidates(const uint8_t* data, Py_ssize_t size, int64_t origin, FoundBatches* candidates, int64_t scanned_to, int64_t file_end,
                          int64_t zero_tail, int64_t expected, int among_plain, Damage* bad, Rejected* rejected) noexcept nogil:
    """Reject candidates from `rejected.count` on, until one cannot be rejected. Return the reason for the end.

    - ACCEPTED: the next candidate belongs to the log.
    - UNDECIDED: the bytes in memory are not sufficient for the next candidate, or the case is rare.
    - OWN_END: the CRC of the damaged batch matches the bytes before the next candidate.
    - ALL_REJECTED: no candidate is left.

    `among_plain` is -1 if the search has not determined it. See Search._scan.
    """
    cdef int64_t candidate, end, at, last, inner_end
    cdef const uint8_t* q
    cdef bint linked
    while rejected.count < candidates.count:
        candidate = candidates.at[rejected.count] - origin
        # The window must contain the header of the candidate, and the five bytes before it, which value_end() reads.
        if candidate < 5 or candidate + BATCH_HEADER_SIZE > size:
            return UNDECIDED
        q = data + candidate
        if ends_before(bad, data, origin, candidate + origin):
            return OWN_END
        if candidate + origin < rejected.covered:
            rejected.count += 1
            continue
        end = candidate + ENTRY_OVERHEAD + <int64_t>int32_at(q + LENGTH_AT)
        if end + BATCH_HEADER_SIZE > size or int64_at(q) > INT64_MAX - (<int64_t>1 << 32):
            return UNDECIDED
        at = value_end(data, size, candidates, rejected.count, origin, scanned_to, file_end, zero_tail, expected)
        if at < 0:
            return UNDECIDED
        if at > 0:
            rejected.covered = at + origin
            rejected.count += 1
            continue
        if bad.trusted and bad.first_offset <= int64_at(q) < bad.next_offset:
            return UNDECIDED
        if (q[MAGIC_AT] == MAGIC_V1 and not q[LEGACY_ATTRIBUTES_AT] & CODEC_MASK and int64_at(q) <= MANY_MESSAGES
                and not (bad.continues and (bad.plain or bad.magic_v2))):
            inner_end = -1
            if among_plain >= 0:
                inner_end = inner_messages_end(data, size, candidates, rejected.count, origin, scanned_to, file_end, zero_tail, expected,
                                               among_plain, bad, &rejected.after_inner)
            if inner_end < 0:
                return UNDECIDED
            if inner_end > 0:
                rejected.covered = inner_end + origin
                rejected.count += 1
                continue
        if int64_at(q) < expected and (bad.continues or (q[MAGIC_AT] < MAGIC_V2 and not q[LEGACY_ATTRIBUTES_AT] & CODEC_MASK)):
            rejected.covered = end + origin
            rejected.count += 1
            continue
        last = last_offset_at(q)
        at = end
        linked = bad.continues and int64_at(q) != bad.next_offset
        if linked:
            at = chain_end(data, size, candidates, rejected.count, origin, scanned_to, file_end, expected, CHAIN_REACH, -1, &last)
            if at < 0:
                return UNDECIDED
        if at + origin >= scanned_to or at + origin >= zero_tail:
            return UNDECIDED
        if (linked and at - candidate > CHAIN_REACH) or continues_log(data + at, last + 1):
            return ACCEPTED
        if int64_at(data + at) > last and int64_at(data + at) - last - 1 <= (0 if q[MAGIC_AT] == MAGIC_V2 else WRAPPED_MESSAGES):
            return ACCEPTED
        if at == end and batch_found_at(candidates, at + origin):
            return UNDECIDED    # The offsets of the next batch contradict those of this batch.
        rejected.covered = at + origin
        rejected.count += 1
    return ALL_REJECTED

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


cdef int64_t end_by_crc(Damage* bad, const uint8_t* data, Py_ssize_t size, int64_t origin, FoundBatches* candidates, Py_ssize_t i,
                        int64_t scanned_to, int64_t file_end) noexcept nogil:
    """Return the end of the damaged batch if its CRC matches there, and this end is after the candidate `i`.

    The starts of later candidates and the end of the file are tested. Return 0 if the CRC matches
    nowhere, or -1 if the bytes in memory are not sufficient.
    """
    cdef int64_t reach = min(candidates.at[i] + LATER_REACH, file_end), at
    cdef Py_ssize_t k
    for k in range(i + 1, i + 1 + LATER_FINDS):
        if k < candidates.count and candidates.at[k] < reach:
            at = candidates.at[k]
        elif scanned_to < reach and k >= candidates.count:
            return -1
        elif reach < file_end:
            return 0
        else:
            at = file_end
        if at - origin > size:
            return -1
        if ends_before(bad, data, origin, at):
            return at
        if at == file_end:
            return 0
    return 0


cdef int64_t resume_from(const uint8_t* data, Py_ssize_t size, int64_t origin, FoundBatches* candidates, int64_t position, int64_t scanned_to,
                         int64_t file_end, int64_t zero_tail, int64_t expected, int among_plain, bint* own) noexcept nogil:
    """Return the first result of `resume_after`, or -1 instead of None. Store the second result in `own`.

    `among_plain` is -1 if it is not known.
    """
    cdef int64_t end, at, candidate, stop = -1
    cdef Damage bad
    cdef Rejected rejected = Rejected(index_after(candidates, position), 0, 0)
    cdef Py_ssize_t i = rejected.count, k, n
    cdef int outcome
    cdef bint spanned = False
    own[0] = False
    if position < origin or position - origin + BATCH_HEADER_SIZE > size or expected < 0:
        return -1
    bad = damage_at(data + position - origin, position, expected)
    if bad.first_offset > INT64_MAX - (<int64_t>1 << 32):
        return -1
    if bad.end < INT64_MAX:
        end = bad.end - origin
        if bad.end == file_end or (bad.end < file_end and (end + BATCH_HEADER_SIZE > size or bad.end >= zero_tail)):
            return -1
        if bad.end < file_end and may_follow(data + end, expected):
            if bad.end >= scanned_to:
                return -1
            if continues_log(data + end, expected) or batch_found_at(candidates, bad.end):
                stop = bad.end      # The length field may be correct.
    if stop >= 0:
        k = index_after(candidates, stop - 1)
        for n in range(k - SPANNING_FINDS if k - i > SPANNING_FINDS else i, k):
            at = candidates.at[n] - origin
            if at + BATCH_HEADER_SIZE > size:
                return -1
            spanned = spanned or candidates.at[n] + ENTRY_OVERHEAD + <int64_t>int32_at(data + at + LENGTH_AT) > stop
        for n in range(i, k if k - i < OWN_CRC_FINDS else i + OWN_CRC_FINDS):
            if ends_before(&bad, data, origin, candidates.at[n]):
                own[0] = True
                return candidates.at[n]
        if not spanned or batch_found_at(candidates, stop):
            own[0] = ends_before(&bad, data, origin, stop)
            return stop
    outcome = judge_candidates(data, size, origin, candidates, scanned_to, file_end, zero_tail, expected, among_plain, &bad, &rejected)
    if outcome == ALL_REJECTED or outcome == UNDECIDED:
        return -1
    i = rejected.count
    candidate = candidates.at[i]
    if outcome == OWN_END:
        own[0] = True
        return candidate
    if in_reach(bad.first_offset, expected):
        at = end_by_crc(&bad, data, size, origin, candidates, i, scanned_to, file_end)
        own[0] = at > 0
        if at != 0:
            return at
    if int64_at(data + candidate - origin) == bad.next_offset:
        return candidate
    at = position - origin
    if file_end < bad.end < INT64_MAX and file_end - position <= LATER_REACH and cuts_off(data, size, at, bad.end - origin, file_end - origin):
        return -1
    return candidate


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


def reject_candidates(buffer, found, head, state, position, origin, scanned_to, file_end, zero_tail, expected, among_plain):
    cdef Source source = Source(buffer), header = Source(head)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count = len(found)
    cdef FoundBatches candidates = FoundBatches(<const int64_t*>required(arrays.take(found, count, 8, False)), count)
    cdef int64_t* progress = <int64_t*>required(arrays.take(state, 5, 8))
    cdef int64_t start = origin, to = scanned_to, end = file_end, zeros = zero_tail, lowest = expected
    cdef int plain = -1 if among_plain is None else bool(among_plain)
    cdef Damage bad
    cdef Rejected rejected
    if header.size < BATCH_HEADER_SIZE or lowest < 0 or int64_at(header.data) > INT64_MAX - (<int64_t>1 << 32):
        return
    bad = damage_at(header.data, position, lowest)
    bad.summed, bad.crc = progress[3], <uint32_t>progress[4]
    if bad.summed < start:
        return
    with nogil:
        rejected = Rejected(index_after(&candidates, progress[0] - 1), progress[1], progress[2])
        judge_candidates(source.data, source.size, start, &candidates, to, end, zeros, lowest, plain, &bad, &rejected)
    progress[0] = candidates.at[rejected.count] if rejected.count < count else max(to, progress[0])
    progress[1], progress[2], progress[3], progress[4] = rejected.covered, rejected.after_inner, bad.summed, bad.crc

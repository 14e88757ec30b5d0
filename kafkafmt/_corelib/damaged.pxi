# Scan a buffer with damaged batches.
#
# If the length field of a damaged batch can be trusted, the batch is skipped (after_corrupted).
# Otherwise, resume_from() searches a window for the position at which the damage ends.

cdef enum:
    LENGTH_PROBLEM = -2         # log/damage/parts.py defines the same values.
    MAGIC_PROBLEM = -3
    END_PROBLEM = -4
    OFFSET_PROBLEM = -5
    WRAPPER_PROBLEM = -6
    DELTA_PROBLEM = -8
    COPY_PROBLEM = -10
    INNER_COLUMNS = 4
    SPAN_COLUMNS = 8
    # Largest total size of batches with wrong CRCs. Above it, CRCs are derived from the CRCs of prefixes.
    FAILED_BYTES = 1 << 20


cdef inline int may_begin(Prefixes* prefixes, const uint8_t* p, const uint8_t* following, Py_ssize_t file_left, int64_t expected,
                          bint* beyond) noexcept nogil:
    """Return whether the plausible header at `p` can be the header of a batch in the log.

    The batch must be valid, unless it ends after `following` and its header continues the log at offset
    `expected`. In this case, the batch need not be valid, but it must end within the file, which ends
    `file_left` bytes after `p`. If it ends later, set `beyond`. Return -1 if malloc() fails.
    """
    if int32_at(p + LENGTH_AT) > following - p - ENTRY_OVERHEAD:
        if continues_log(p, expected):
            beyond[0] = beyond[0] or int32_at(p + LENGTH_AT) > file_left - ENTRY_OVERHEAD
            return int32_at(p + LENGTH_AT) <= file_left - ENTRY_OVERHEAD
        if int32_at(p + LENGTH_AT) > prefixes.stop - p - ENTRY_OVERHEAD:
            return False
    cdef uint32_t crc = 0
    if span_crc(prefixes, crc_kind(p), crc_start(p), p + ENTRY_OVERHEAD + int32_at(p + LENGTH_AT), &crc):
        return -1
    return crc == stored_crc(p)


cdef const uint8_t* after_corrupted(Prefixes* prefixes, const uint8_t* p, const uint8_t* stop, Py_ssize_t file_left, int64_t expected,
                                    bint* beyond, int* failed) noexcept nogil:
    """Return the end of a batch whose CRC does not match, or NULL if its length field cannot be trusted."""
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


cdef inline int64_t records_of(const uint8_t* p) noexcept nogil:
    """Return the number of data records according to the header at `p`.

    Return -1 if the header contains no number of records or an impossible number.
    """
    if p[MAGIC_AT] < MAGIC_V2:
        return -1 if p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK else 1
    cdef int32_t count = int32_at(p + COUNT_AT)
    if not 0 <= count <= <int64_t>int32_at(p + LAST_OFFSET_DELTA_AT) + 1:
        return -1
    return 0 if int16_at(p + ATTRIBUTES_AT) & CONTROL_BIT else count


cdef inline int describe_problem(int64_t* span, int status, const uint8_t* p, const uint8_t* stop, Py_ssize_t file_left, uint32_t crc) noexcept nogil:
    """Store the problem of the batch at `p` in the row `span`. Return False if a row cannot represent it."""
    if status == SCAN_CRC:
        span[2], span[3], span[4] = p[MAGIC_AT], crc, stored_crc(p)
    elif status == SCAN_LENGTH:
        span[2], span[3], span[4] = LENGTH_PROBLEM, int32_at(p + LENGTH_AT), 0
    elif status == SCAN_MAGIC:
        span[2], span[3], span[4] = MAGIC_PROBLEM, <int8_t>p[MAGIC_AT], 0
    elif status == SCAN_END and stop - p >= MAGIC_END and int32_at(p + LENGTH_AT) > file_left - ENTRY_OVERHEAD:
        span[2], span[3], span[4] = END_PROBLEM, file_left, <int64_t>int32_at(p + LENGTH_AT) + ENTRY_OVERHEAD
    else:
        return False
    return True


def scan_damaged(buffer, table, spans, start=0, end=None, file_end=None, expected=0, last=None, origin=0, window=None, wrappers=None,
                 prefetch=False, anchor=None):
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
    cdef int64_t lowest = expected, last_offset, buffer_at = origin, window_at = 0, searched_from = 0, searched_to = 0, searched_end = 0, zero_tail = 0, at, failed_bytes = 0
    cdef FoundBatches candidates = FoundBatches(NULL, 0)
    cdef Prefixes prefixes = Prefixes(p, stop, [NULL, NULL], [0, 0])
    cdef bint known = last is not None, beyond = False, own = False, derive
    cdef uint32_t magics = 0, codecs = 0
    cdef int among_plain
    cdef int64_t previous = last if known else 0, first_offset
    cdef Py_ssize_t n_inner = 0 if wrappers is None else len(wrappers)
    cdef const int64_t* inner = <const int64_t*>arrays.take(wrappers, INNER_COLUMNS * n_inner, 8, False)
    cdef const int64_t* inner_end = inner + INNER_COLUMNS * n_inner
    cdef int64_t* certain = <int64_t*>arrays.take(anchor, 2, 8)
    cdef bint with_wrappers = wrappers is not None, guess = prefetch
    cdef uint32_t crc = 0
    cdef int status = SCAN_FULL, failed = 0
    if window is not None:
        searched = Source(window.buffer)
        candidates.count = len(window.found)
        candidates.at = <const int64_t*>required(arrays.take(window.found, candidates.count, 8, False))
        window_at, searched_from, searched_to = window.position, window.searched_from, window.searched_to
        searched_end, zero_tail, magics, codecs = window.file_end, window.zero_tail, window.magics, window.codecs
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
                if row.last_offset_delta < 0:
                    span[0], span[1], span[2], span[3] = row.position, p - source.data, DELTA_PROBLEM, row.base_offset
                    span[4], span[5], span[6], span[7] = row.last_offset_delta, -1, n, True
                    span += SPAN_COLUMNS
                    n_spans += 1
                    known = False
                    continue
                if (row.count < 0 and row.magic < MAGIC_V2 and not with_wrappers) or row.base_offset >= INT64_MAX - row.last_offset_delta:
                    p = source.data + row.position
                    status = SCAN_END
                    break
                first_offset = row.base_offset
                if row.count < 0 and row.magic < MAGIC_V2:
                    while inner < inner_end and inner[0] < row.position:
                        inner += INNER_COLUMNS
                    if inner < inner_end and inner[0] == row.position:
                        first_offset = inner[1]
                        if inner[2] != row.base_offset or inner[1] > inner[2]:
                            span[0], span[1], span[2], span[3] = row.position, p - source.data, WRAPPER_PROBLEM, row.base_offset
                            span[4], span[5], span[6], span[7] = inner[2], inner[3], n, True
                            span += SPAN_COLUMNS
                            n_spans += 1
                            known = False
                            continue
                    elif not guess:
                        p = source.data + row.position
                        status = SCAN_END
                        break
                last_offset = row.base_offset + row.last_offset_delta
                lowest = next_expected(first_offset, last_offset, buffer_at + row.position, buffer_at + (p - source.data),
                                       lowest, previous, known, certain)
                previous, known = last_offset, True
                magics |= 1u << (row.magic & 7)
                codecs |= 1u << (row.attributes & CODEC_MASK)
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
                among_plain = -1 if magics == 0 else (magics & ~(1u << MAGIC_V2)) != 0 and codecs & ~1u == 0
                at = resume_from(searched.data, searched.size, window_at, &candidates, at, searched_to, searched_end, zero_tail, lowest, among_plain, &own)
                if at < 0 or at - buffer_at > stop_at:
                    break
                following = source.data + (at - buffer_at)
                beyond = True
                span[5] = records_of(p) if own else -1
            else:
                span[5] = -1
            span[0] = p - source.data
            span[1] = following - source.data
            span[6] = n
            span[7] = beyond
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

# Scan a buffer with damaged batches.
#
# If the length field of a damaged batch can be trusted, the batch is skipped (after_corrupted).
# Otherwise, the scan ends, and log/damage/search.py searches for the next batch.

cdef enum:
    OFFSET_PROBLEM = -5         # log/damage/parts.py defines the same values.
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


def scan_damaged(buffer, table, spans, start=0, end=None, file_end=None, expected=0, last=None, wrappers=None, prefetch=False):
    cdef Source source = Source(buffer)
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
    cdef int64_t lowest = expected, failed_bytes = 0
    cdef Prefixes prefixes = Prefixes(p, stop, [NULL, NULL], [0, 0])
    cdef bint known = last is not None, beyond = False, derive
    cdef int64_t previous = last if known else 0, first_offset, last_offset
    cdef Py_ssize_t n_inner = 0 if wrappers is None else len(wrappers)
    cdef const int64_t* inner = <const int64_t*>arrays.take(wrappers, INNER_COLUMNS * n_inner, 8, False)
    cdef const int64_t* inner_end = inner + INNER_COLUMNS * n_inner
    cdef bint with_wrappers = wrappers is not None, guess = prefetch
    cdef uint32_t crc = 0
    cdef int status = SCAN_FULL, failed = 0
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
                if not known:
                    previous = lowest - 1
                last_offset = row.base_offset + row.last_offset_delta
                # After a gap, the offset may be corrupted, so the lower offset counts.
                lowest = 1 + (last_offset if first_offset - 1 == previous else min(last_offset, previous))
                previous, known = last_offset, True
                n += 1
                continue
            if status != SCAN_CRC:
                break
            failed_bytes += int32_at(p + LENGTH_AT)
            following = after_corrupted(&prefixes, p, stop, file_size - (p - source.data), lowest, &beyond, &failed)
            if following == NULL:
                break
            span[0], span[1], span[2], span[3] = p - source.data, following - source.data, p[MAGIC_AT], crc
            span[4], span[5], span[6], span[7] = stored_crc(p), -1, n, beyond
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

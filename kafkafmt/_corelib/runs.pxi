# Summarize tables of batch headers, and combine adjacent batches into ranges (see log/damage/part_builder.py).
#
# Most segments have so few batches that one loop is faster than a dozen calls of NumPy.


cdef inline int64_t last_offset_of(const Batch* row) noexcept nogil:
    """Return the last offset of a batch, as types.last_offsets() computes it."""
    cdef int64_t delta = max(row.last_offset_delta, 0)
    return INT64_MAX if row.base_offset > INT64_MAX - delta else row.base_offset + delta


cdef inline int64_t offsets_with_records(const Batch* row) noexcept nogil:
    """Return the number of records, but at most the number of offsets. Some producers wrote more records than offsets."""
    return min(<int64_t>row.count, <int64_t>max(row.last_offset_delta, 0) + 1)


def summarize_batches(rows):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), i
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef bint wrappers = False, producers = False, negative_delta = False
    cdef int64_t records = 0, low = NO_TIMESTAMP, high = NO_TIMESTAMP, lowest = INT64_MAX, highest = INT64_MIN
    cdef int64_t last = -1, previous = 0, counted = 0, offsets = 0, end = 0
    cdef int32_t lowest_epoch = MAX_INT32, highest_epoch = -MAX_INT32 - 1
    cdef bint increasing = True, dense = True, adjacent = True
    cdef uint32_t attributes = 0, codecs = 0, magics = 0
    cdef const Batch* row
    for i in range(n):
        row = &batches[i]
        last = last_offset_of(row)
        increasing = increasing and (i == 0 or previous < row.base_offset)
        adjacent = adjacent and (i == 0 or row.position == end)
        end = row.position + row.size
        dense = dense and (i == 0 or (previous < INT64_MAX and row.base_offset == previous + 1))
        counted += offsets_with_records(row)
        offsets += <int64_t>max(row.last_offset_delta, 0) + 1
        previous = last
        lowest_epoch = min(lowest_epoch, row.leader_epoch)
        highest_epoch = max(highest_epoch, row.leader_epoch)
        wrappers |= row.count < 0 and row.magic < MAGIC_V2
        producers |= row.producer_id != NO_PRODUCER_ID
        negative_delta |= row.last_offset_delta < 0
        lowest = min(lowest, row.base_offset)
        highest = max(highest, row.base_offset)
        records += max(row.count, 0)
        attributes |= <uint16_t>row.attributes
        codecs |= 1u << (row.attributes & CODEC_MASK)
        magics |= 1u << (row.magic & 7)
        high = max(high, row.max_timestamp)
        if row.base_timestamp >= 0 and not row.attributes & DELETE_HORIZON_BIT:
            low = row.base_timestamp if low < 0 else min(low, row.base_timestamp)
    dense = dense and (n == 0 or <uint64_t>counted == <uint64_t>last - <uint64_t>batches[0].base_offset + 1)
    return BatchSummary(wrappers, records, attributes, codecs, magics, low, high, producers, negative_delta, lowest, highest,
                        lowest_epoch, highest_epoch, offsets, increasing, dense, batches[0].base_offset if n else 0, last,
                        batches[0].position if n else 0, end, adjacent)


cdef inline Py_ssize_t first_at_least(const int64_t* values, Py_ssize_t n, int64_t value) noexcept nogil:
    """Return the index of the first item of the ascending array `values` that is at least `value`."""
    cdef Py_ssize_t low = 0, middle, high = n
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline bint contains(const int64_t* values, Py_ssize_t n, int64_t value) noexcept nogil:
    """Return whether the ascending array `values` contains `value`."""
    cdef Py_ssize_t at = first_at_least(values, n, value)
    return at < n and values[at] == value


def combine_batches(rows, firsts, cut_gaps, cut_at, cut_before, runs, before):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), cuts = len(cut_at), spans = len(cut_before), i, k = 0, m = -1
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef const int64_t* first_offsets = <const int64_t*>arrays.take(firsts, n, 8, False)
    cdef const int64_t* offsets = <const int64_t*>required(arrays.take(cut_at, cuts, 8, False))
    cdef const int64_t* cuts_before = <const int64_t*>required(arrays.take(cut_before, spans, 8, False))
    cdef int64_t* out = <int64_t*>required(arrays.take(runs, 9 * n, 8))
    cdef int64_t* places = <int64_t*>required(arrays.take(before, spans, 8))
    cdef bint gaps = cut_gaps, begins, unknown = False
    cdef uint64_t total = 0
    cdef int64_t first = 0, last = 0, previous = 0
    cdef const Batch* row
    with nogil:
        for i in range(n):
            row = &batches[i]
            begins = i == 0
            while k < spans and cuts_before[k] <= i:
                begins = begins or cuts_before[k] == i
                places[k] = m + 1 + k
                k += 1
            first = row.base_offset if first_offsets == NULL else first_offsets[i]
            last = last_offset_of(row)
            if not begins:
                begins = <uint64_t>first != <uint64_t>previous + 1 if gaps else first <= previous
                begins = begins or contains(offsets, cuts, first)
            if begins:
                m += 1
                total = 0
                unknown = False
                out[m] = i
                out[n + m] = row.position
                out[3 * n + m] = first
                out[5 * n + m] = 0
                out[6 * n + m] = 0
                out[8 * n + m] = m + k
            out[2 * n + m] = row.position + row.size
            out[4 * n + m] = last
            out[5 * n + m] += 1
            total += <uint64_t>offsets_with_records(row)
            unknown = unknown or (row.count < 0 and row.magic < MAGIC_V2)
            if unknown:
                out[6 * n + m] = -1
            elif not row.attributes & CONTROL_BIT:
                out[6 * n + m] += max(row.count, 0)
            out[7 * n + m] = total == <uint64_t>last - <uint64_t>out[3 * n + m] + 1
            previous = last
        while k < spans:
            places[k] = m + 1 + k
            k += 1
    return m + 1


def offsets_around(run_at, firsts, lasts, lower, upper, at, found):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(run_at), m = len(at), i
    cdef const int64_t* places = <const int64_t*>required(arrays.take(run_at, n, 8, False))
    cdef const int64_t* first = <const int64_t*>required(arrays.take(firsts, n, 8, False))
    cdef const int64_t* last = <const int64_t*>required(arrays.take(lasts, n, 8, False))
    cdef const int64_t* asked = <const int64_t*>required(arrays.take(at, m, 8, False))
    cdef int64_t* out = <int64_t*>required(arrays.take(found, 3 * m, 8))
    cdef int64_t low = lower, high = INT64_MAX if upper is None else upper
    cdef bint bounded = upper is not None
    cdef Py_ssize_t following
    with nogil:
        for i in range(m):
            following = first_at_least(places, n, asked[i])
            out[i] = <int64_t>(<uint64_t>last[following - 1] + 1) if following else low
            out[m + i] = <int64_t>(<uint64_t>first[following] - 1) if following < n else high
            out[2 * m + i] = following < n or bounded


def describe_damage(spans, count, firsts, lasts, lengths, whole, misplaced):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = natural(count), columns, i
    cdef const int64_t* start = <const int64_t*>required(arrays.take(spans, 8 * n, 8, False))
    columns = arrays.size() // (8 * 8)
    cdef const int64_t* end = start + columns
    cdef const int64_t* problem = start + 2 * columns
    cdef const int64_t* actual = start + 3 * columns
    cdef const int64_t* stored = start + 4 * columns
    cdef const int64_t* rest = start + 7 * columns
    cdef const int64_t* first = <const int64_t*>required(arrays.take(firsts, n, 8, False))
    cdef const int64_t* last = <const int64_t*>required(arrays.take(lasts, n, 8, False))
    cdef int64_t* length = <int64_t*>required(arrays.take(lengths, n, 8))
    cdef uint8_t* is_whole = <uint8_t*>required(arrays.take(whole, n, 1))
    cdef uint8_t* is_misplaced = <uint8_t*>required(arrays.take(misplaced, n, 1))
    cdef bint contradicting, copied, other_count
    with nogil:
        for i in range(n):
            contradicting, copied = problem[i] == OFFSET_PROBLEM, problem[i] == COPY_PROBLEM
            other_count = <uint64_t>stored[i] - <uint64_t>actual[i] != <uint64_t>last[i] - <uint64_t>first[i]
            length[i] = end[i] - start[i]
            is_whole[i] = rest[i] == 0 and (problem[i] >= 0 or contradicting or copied)
            is_misplaced[i] = copied or (contradicting and other_count)


cdef inline tuple fields_of_producer(const Batch* row):
    return (row.producer_id, row.producer_epoch, row.base_offset, row.last_offset_delta, row.base_sequence, row.max_timestamp,
            row.attributes)


def transactional_batches(rows):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), i
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef list found = []
    for i in range(n):
        if batches[i].attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
            found.append(fields_of_producer(&batches[i]))
    return found

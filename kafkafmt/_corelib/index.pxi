# Build the entries of indexes from tables of batch headers, and find the batches to which existing entries refer.


def index_batches(table, position, interval, state):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(table), i
    cdef const Batch* batches = <const Batch*>required(arrays.take(table, n, sizeof(Batch), False))
    cdef int64_t origin = natural(position), distance = natural(interval)
    cdef int64_t indexed_at, largest, largest_at, indexed_timestamp, last
    cdef const Batch* row
    cdef list offsets = [], times = []
    indexed_at, largest, largest_at, indexed_timestamp = state
    for i in range(n):
        row = &batches[i]
        last = last_offset_of(row)
        if row.max_timestamp > largest:
            largest, largest_at = row.max_timestamp, last
        if origin + row.position - indexed_at > distance:
            indexed_at = origin + row.position
            offsets.append((last, indexed_at))
            if largest > indexed_timestamp:
                times.append((largest, largest_at))
                indexed_timestamp = largest
    return offsets, times, (indexed_at, largest, largest_at, indexed_timestamp)


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


def match_index_entries(table, position, expected, largest, offsets, positions, matches, time_offsets, time_matches):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count = len(table), n = len(offsets), m = len(time_offsets), i, by_position, by_offset, by_time
    cdef const Batch* batches = <const Batch*>required(arrays.take(table, count, sizeof(Batch), False))
    cdef const int64_t* entry_offsets = <const int64_t*>required(arrays.take(offsets, n, 8, False))
    cdef const int64_t* entry_positions = <const int64_t*>required(arrays.take(positions, n, 8, False))
    cdef int64_t* found = <int64_t*>required(arrays.take(matches, 3 * n, 8))
    cdef const int64_t* timed = <const int64_t*>required(arrays.take(time_offsets, m, 8, False))
    cdef int64_t* found_times = <int64_t*>required(arrays.take(time_matches, 3 * m, 8))
    cdef int64_t first = expected, highest = largest, origin = natural(position), start, last
    cdef const Batch* row
    if not count:
        return first, highest
    with nogil:
        by_offset = first_at_least(entry_offsets, n, last_offset_of(batches))
        by_time = first_at_least(timed, m, first)
        for i in range(count):
            row = &batches[i]
            start, last = origin + row.position, last_offset_of(row)
            highest = max(highest, row.max_timestamp)
            by_position = first_at_least(entry_positions, n, start)
            while by_position < n and entry_positions[by_position] == start:
                found[by_position] = first
                found[n + by_position] = last
                by_position += 1
            while by_offset < n and entry_offsets[by_offset] <= last:
                if entry_offsets[by_offset] == last:
                    found[2 * n + by_offset] = start
                by_offset += 1
            while by_time < m and timed[by_time] <= last:
                if row.base_offset <= timed[by_time] or row.magic < MAGIC_V2:
                    found_times[by_time] = row.max_timestamp
                    found_times[m + by_time] = highest
                    if row.magic == MAGIC_V0:
                        found_times[2 * m + by_time] = 1
                by_time += 1
            first = last + 1 if last < INT64_MAX else INT64_MAX
    return first, highest

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


def read_index_entries(data, entry_size, base_offset, entries):
    cdef Source source = Source(data)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t size = natural(entry_size)
    if size not in (8, 12):
        raise ValueError(f"entry_size is {entry_size}; it must be 8 or 12")
    cdef Py_ssize_t n = source.size // size, i, used = 0
    cdef bint times = size == 12, valid = True
    cdef int64_t* first = <int64_t*>required(arrays.take(entries, 2 * n, 8))
    cdef int64_t* second = first + n
    cdef int64_t base = base_offset, first_low = 0 if times else base, second_low = base if times else 0
    cdef const uint8_t* p = source.data
    with nogil:
        for i in range(n):
            if times:
                first[i] = int64_at(p)
                second[i] = <int64_t>(<uint64_t>base + <uint64_t><int64_t>int32_at(p + 8))
            else:
                first[i] = <int64_t>(<uint64_t>base + <uint64_t><int64_t>int32_at(p))
                second[i] = int32_at(p + 4)
            p += size
            if i == 0:
                valid = first[0] >= first_low and second[0] >= second_low
            else:
                valid = valid and first[i] > first[i - 1] and second[i] >= second[i - 1]
            used += valid
        if used == 1 and first[0] == first_low and second[0] == second_low:
            used = 0
    return used


cdef enum:
    MOST_DAMAGE = 32            # With more than this number of damaged byte ranges, index entries are not compared with the damage.


def index_entries_agree(offsets, positions, matches, times, time_offsets, time_matches, end, firsts, lasts, starts, lengths):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(offsets), m = len(times), damaged = len(firsts), i, k
    cdef const int64_t* offset = <const int64_t*>required(arrays.take(offsets, n, 8, False))
    cdef const int64_t* position = <const int64_t*>required(arrays.take(positions, n, 8, False))
    cdef const int64_t* match = <const int64_t*>required(arrays.take(matches, 3 * n, 8, False))
    cdef const int64_t* time = <const int64_t*>required(arrays.take(times, m, 8, False))
    cdef const int64_t* time_offset = <const int64_t*>required(arrays.take(time_offsets, m, 8, False))
    cdef const int64_t* time_match = <const int64_t*>required(arrays.take(time_matches, 3 * m, 8, False))
    cdef const int64_t* first = <const int64_t*>required(arrays.take(firsts, damaged, 8, False))
    cdef const int64_t* last = <const int64_t*>required(arrays.take(lasts, damaged, 8, False))
    cdef const int64_t* start = <const int64_t*>required(arrays.take(starts, damaged, 8, False))
    cdef const int64_t* length = <const int64_t*>required(arrays.take(lengths, damaged, 8, False))
    cdef int64_t stop = end, at
    cdef bint explained = True
    with nogil:
        for i in range(n + m):
            if i < n:
                at = offset[i]
                explained = match[i] <= at < stop and match[2 * n + i] == position[i]
            else:
                at = time_offset[i - n]
                explained = time_match[i - n] == time[i - n] and time_match[i - n + m] <= time[i - n] and at < stop
            k = 0
            while not explained and damaged <= MOST_DAMAGE and k < damaged:
                explained = first[k] <= at <= last[k] or (i < n and 0 <= position[i] - start[k] < length[k])
                k += 1
            if not explained:
                break
    return bool(explained)

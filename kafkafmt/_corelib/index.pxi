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


cdef inline void read_index_entry(const uint8_t* p, bint times, int64_t base, int64_t* first, int64_t* second) noexcept nogil:
    if times:
        first[0] = int64_at(p)
        second[0] = <int64_t>(<uint64_t>base + <uint64_t><int64_t>int32_at(p + 8))
    else:
        first[0] = <int64_t>(<uint64_t>base + <uint64_t><int64_t>int32_at(p))
        second[0] = int32_at(p + 4)


cdef Py_ssize_t valid_entries(const uint8_t* data, Py_ssize_t n, bint times, int64_t base) noexcept nogil:
    """Return the number of valid entries at the start of an index file with `n` complete entries."""
    cdef int64_t first_low = 0 if times else base, second_low = base if times else 0
    cdef int64_t first_before = first_low, second_before = second_low, first, second
    cdef Py_ssize_t used = 0
    while used < n:
        read_index_entry(data + used * (12 if times else 8), times, base, &first, &second)
        if first < first_before or second < second_before or (used and first == first_before):
            break
        first_before, second_before = first, second
        used += 1
    # If the only valid entry contains zeros, it is preallocated space.
    return 0 if used == 1 and first_before == first_low and second_before == second_low else used


def read_index_entries(data, entry_size, base_offset, entries):
    cdef Source source = Source(data)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t size = natural(entry_size)
    if size not in (8, 12):
        raise ValueError(f"entry_size is {entry_size}; it must be 8 or 12")
    cdef Py_ssize_t n = source.size // size, i, used
    cdef bint times = size == 12
    cdef int64_t* first = <int64_t*>required(arrays.take(entries, 2 * n, 8))
    cdef int64_t base = base_offset
    with nogil:
        for i in range(n):
            read_index_entry(source.data + i * size, times, base, &first[i], &first[n + i])
        used = valid_entries(source.data, n, times, base)
    return used


cdef enum:
    MOST_DAMAGE = 32            # With more than this number of damaged byte ranges, index entries are not compared with the damage.


cdef class IndexMatches:
    cdef Py_ssize_t n, m        # number of entries of the offset index and of the time index
    cdef int64_t* offsets       # five arrays of n items: the two fields of the entries, and three fields of their batches
    cdef int64_t* times         # five arrays of m items
    cdef int64_t base, first, highest

    def __cinit__(self, offset_data, time_data, base_offset):
        cdef Source offsets = Source(offset_data), times = Source(time_data)
        cdef Py_ssize_t i
        self.base = base_offset
        self.n = valid_entries(offsets.data, offsets.size // 8, False, self.base)
        self.m = valid_entries(times.data, times.size // 12, True, self.base)
        if self.n + self.m:
            self.offsets = <int64_t*>malloc(5 * (self.n + self.m) * 8)
            if self.offsets == NULL:
                raise MemoryError
        self.times = self.offsets + 5 * self.n
        for i in range(self.n):
            read_index_entry(offsets.data + 8 * i, False, self.base, &self.offsets[i], &self.offsets[self.n + i])
        for i in range(self.m):
            read_index_entry(times.data + 12 * i, True, self.base, &self.times[i], &self.times[self.m + i])
        self.begin()

    def __dealloc__(self):
        free(self.offsets)

    @property
    def offset_entries(self):
        return self.n

    @property
    def time_entries(self):
        return self.m

    @property
    def next_offset(self):
        return self.first

    cpdef begin(self):
        cdef Py_ssize_t i
        self.first, self.highest = self.base, -1
        for i in range(self.n):
            self.offsets[2 * self.n + i] = INT64_MAX
            self.offsets[3 * self.n + i] = self.offsets[4 * self.n + i] = -1
        for i in range(self.m):
            self.times[2 * self.m + i] = self.times[3 * self.m + i] = -2
            self.times[4 * self.m + i] = 0

    def add(self, table, position):
        cdef Arrays arrays = Arrays()
        cdef Py_ssize_t count = len(table), n = self.n, m = self.m, i, by_position, by_offset, by_time
        cdef const Batch* batches = <const Batch*>required(arrays.take(table, count, sizeof(Batch), False))
        cdef const int64_t* offsets = self.offsets
        cdef const int64_t* positions = self.offsets + n
        cdef int64_t* found = self.offsets + 2 * n
        cdef const int64_t* timed = self.times + m
        cdef int64_t* found_times = self.times + 2 * m
        cdef int64_t origin = natural(position), start, last
        cdef const Batch* row
        if not count:
            return
        with nogil:
            by_offset = first_at_least(offsets, n, last_offset_of(batches))
            by_time = first_at_least(timed, m, self.first)
            for i in range(count):
                row = &batches[i]
                start, last = origin + row.position, last_offset_of(row)
                self.highest = max(self.highest, row.max_timestamp)
                by_position = first_at_least(positions, n, start)
                while by_position < n and positions[by_position] == start:
                    found[by_position] = self.first
                    found[n + by_position] = last
                    by_position += 1
                while by_offset < n and offsets[by_offset] <= last:
                    if offsets[by_offset] == last:
                        found[2 * n + by_offset] = start
                    by_offset += 1
                while by_time < m and timed[by_time] <= last:
                    if row.base_offset <= timed[by_time] or row.magic < MAGIC_V2:
                        found_times[by_time] = row.max_timestamp
                        found_times[m + by_time] = self.highest
                        if row.magic == MAGIC_V0:
                            found_times[2 * m + by_time] = 1
                    by_time += 1
                self.first = last + 1 if last < INT64_MAX else INT64_MAX

    def agree(self, end, firsts, lasts, starts, lengths):
        cdef Arrays arrays = Arrays()
        cdef Py_ssize_t n = self.n, m = self.m, damaged = len(firsts), i, k
        cdef const int64_t* first = <const int64_t*>required(arrays.take(firsts, damaged, 8, False))
        cdef const int64_t* last = <const int64_t*>required(arrays.take(lasts, damaged, 8, False))
        cdef const int64_t* start = <const int64_t*>required(arrays.take(starts, damaged, 8, False))
        cdef const int64_t* length = <const int64_t*>required(arrays.take(lengths, damaged, 8, False))
        cdef const int64_t* offsets = self.offsets
        cdef const int64_t* times = self.times
        cdef int64_t stop = end, at, position
        cdef bint explained = True
        with nogil:
            for i in range(n + m):
                position = -1
                if i < n:
                    at, position = offsets[i], offsets[n + i]
                    explained = offsets[2 * n + i] <= at < stop and offsets[4 * n + i] == position
                else:
                    k = i - n
                    at = times[m + k]
                    explained = times[2 * m + k] == times[k] and times[3 * m + k] <= times[k] and at < stop
                k = 0
                while not explained and damaged <= MOST_DAMAGE and k < damaged:
                    explained = first[k] <= at <= last[k] or (i < n and 0 <= position - start[k] < length[k])
                    k += 1
                if not explained:
                    break
        return bool(explained)

    def copy_to(self, offsets, times):
        cdef Arrays arrays = Arrays()
        cdef void* offset_rows = <void*>required(arrays.take(offsets, 5 * self.n, 8))
        cdef void* time_rows = <void*>required(arrays.take(times, 5 * self.m, 8))
        if self.offsets != NULL:
            memcpy(offset_rows, self.offsets, 5 * self.n * 8)
            memcpy(time_rows, self.times, 5 * self.m * 8)

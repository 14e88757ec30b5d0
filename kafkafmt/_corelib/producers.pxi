# ProducerTable: the states of a partition's producers, as C structs in one array.
#
# States enter and leave the table as bytes, in the layout of the entries of a producer snapshot
# (see log/formats/snapshots.py). A Python object for each state would take several times as long.

from libc.stdlib cimport qsort

cdef enum:
    STATE_SIZE = 46
    SPARE_ITEMS = 1024          # least number of ended transactions that are removed from the heap together

cdef struct ProducerState:
    int64_t id
    int64_t last_offset
    int64_t timestamp
    int64_t first_offset        # first offset of the open transaction, negative if no transaction is open
    int32_t last_sequence
    int32_t offset_delta
    int32_t coordinator_epoch
    int16_t epoch
    uint64_t compared           # number of the call of open_besides() that has found the state in a snapshot
    Py_ssize_t previous_open    # the states with an open transaction are linked, in the order in which the transactions
    Py_ssize_t next_open        # were opened

cdef struct Opened:
    int64_t first_offset
    int64_t id
    Py_ssize_t at


cdef Py_ssize_t states_in(Source source) except -1:
    if source.size % STATE_SIZE:
        raise ValueError(f"`states` has {source.size} bytes, which is not a multiple of {STATE_SIZE}")
    return source.size // STATE_SIZE


cdef inline void read_state(const uint8_t* p, ProducerState* state) noexcept nogil:
    state.id, state.epoch, state.last_sequence, state.last_offset = int64_at(p), int16_at(p + 8), int32_at(p + 10), int64_at(p + 14)
    state.offset_delta, state.timestamp = int32_at(p + 22), int64_at(p + 26)
    state.coordinator_epoch, state.first_offset = int32_at(p + 34), int64_at(p + 38)
    state.compared = 0


cdef inline void write_state(const ProducerState* state, uint8_t* p) noexcept nogil:
    cdef uint64_t wide
    cdef uint32_t word
    cdef uint16_t half = KF_BE16(<uint16_t>state.epoch)
    wide = KF_BE64(<uint64_t>state.id)
    memcpy(p, &wide, 8)
    memcpy(p + 8, &half, 2)
    word = KF_BE32(<uint32_t>state.last_sequence)
    memcpy(p + 10, &word, 4)
    wide = KF_BE64(<uint64_t>state.last_offset)
    memcpy(p + 14, &wide, 8)
    word = KF_BE32(<uint32_t>state.offset_delta)
    memcpy(p + 22, &word, 4)
    wide = KF_BE64(<uint64_t>state.timestamp)
    memcpy(p + 26, &wide, 8)
    word = KF_BE32(<uint32_t>state.coordinator_epoch)
    memcpy(p + 34, &word, 4)
    wide = KF_BE64(<uint64_t>state.first_offset)
    memcpy(p + 38, &wide, 8)


cdef inline bint same_batches(const ProducerState* a, const ProducerState* b) noexcept nogil:
    """Return whether all fields are equal, except the timestamp and the epoch of the coordinator."""
    return (a.epoch == b.epoch and a.last_sequence == b.last_sequence and a.last_offset == b.last_offset
            and a.offset_delta == b.offset_delta and a.first_offset == b.first_offset)


cdef inline void set_batch(ProducerState* state, const Batch* row) noexcept nogil:
    """Set the fields that describe the last batch of the producer, which is `row`."""
    state.epoch, state.offset_delta, state.timestamp = row.producer_epoch, row.last_offset_delta, row.max_timestamp
    state.last_sequence = -1
    if row.base_sequence >= 0:
        state.last_sequence = <int32_t>((<int64_t>row.base_sequence + row.last_offset_delta) & MAX_INT32)
    if row.last_offset_delta > 0 and row.base_offset > INT64_MAX - row.last_offset_delta:
        state.last_offset = INT64_MAX
    elif row.last_offset_delta < 0 and row.base_offset < INT64_MIN - row.last_offset_delta:
        state.last_offset = INT64_MIN
    else:
        state.last_offset = row.base_offset + row.last_offset_delta


cdef int compare_opened(const void* a, const void* b) noexcept nogil:
    """Compare two transactions by their first offsets, and then by their producer ids."""
    cdef const Opened* left = <const Opened*>a
    cdef const Opened* right = <const Opened*>b
    if left.first_offset != right.first_offset:
        return 1 if left.first_offset > right.first_offset else -1
    return 1 if left.id > right.id else -1


cdef void* grown(void* items, Py_ssize_t count, Py_ssize_t* room, size_t item_size) except NULL:
    """Return the array `items` with space for at least one item after its `count` items."""
    cdef Py_ssize_t more = 2 * room[0] + 8
    if items != NULL and count < room[0]:
        return items
    items = realloc(items, more * item_size)
    if items == NULL:
        raise MemoryError
    room[0] = more
    return items


cdef class ProducerTable:
    """The states of a partition's producers. See `_core.pyi`."""

    cdef dict index                             # the position of each producer in `states`, by producer id
    cdef ProducerState* states
    cdef Opened* oldest                         # A heap with all open transactions, and some that have ended.
    cdef Py_ssize_t count, room, oldest_count, oldest_room
    cdef Py_ssize_t open_count, first_linked, last_linked   # number of open transactions, and their first and last state
    cdef uint64_t comparisons                   # number of calls of open_besides()

    @cython.critical_section
    def __init__(self, states=b""):
        cdef Source source = Source(states)
        cdef Py_ssize_t n = states_in(source), i, at
        self.index = {}
        self.count = 0
        self.comparisons = 0
        for i in range(n):
            at = self.place_of(int64_at(source.data + i * STATE_SIZE), True)
            read_state(source.data + i * STATE_SIZE, &self.states[at])
        self.link_open()

    def __dealloc__(self):
        free(self.states)
        free(self.oldest)

    def __len__(self):
        return self.count

    cdef Py_ssize_t place_of(self, int64_t producer_id, bint add) except -2:
        """Return the position of a producer's state. If there is none, add a state without batches, or return -1."""
        cdef object producer = producer_id, at = self.index.get(producer)
        cdef ProducerState* state
        if at is not None:
            return at
        if not add:
            return -1
        self.states = <ProducerState*>grown(self.states, self.count, &self.room, sizeof(ProducerState))
        self.index[producer] = self.count
        state = &self.states[self.count]
        state.id, state.epoch, state.last_sequence, state.last_offset, state.offset_delta = producer_id, -1, -1, -1, 0
        state.timestamp, state.coordinator_epoch, state.first_offset, state.compared = -1, -1, -1, 0
        self.count += 1
        return self.count - 1

    cdef int link_open(self) except -1:
        """Collect the open transactions of all states again."""
        cdef Py_ssize_t i
        cdef int64_t first
        self.open_count = self.oldest_count = 0
        self.first_linked = self.last_linked = -1
        for i in range(self.count):
            first, self.states[i].first_offset = self.states[i].first_offset, -1
            self.set_first_offset(i, first)
        return 0

    cdef int set_first_offset(self, Py_ssize_t at, int64_t first) except -1:
        """Set the first offset of a producer's open transaction, or a negative number if no transaction is open."""
        cdef ProducerState* state = &self.states[at]
        cdef bint was_open = state.first_offset >= 0
        if first == state.first_offset:
            return 0
        state.first_offset = first
        if first >= 0:
            self.push(at)
        if was_open == (first >= 0):
            return 0
        if first >= 0:
            state.previous_open, state.next_open = self.last_linked, -1
            self.last_linked = at
            self.open_count += 1
            if state.previous_open < 0:
                self.first_linked = at
            else:
                self.states[state.previous_open].next_open = at
            return 0
        self.open_count -= 1
        if state.previous_open < 0:
            self.first_linked = state.next_open
        else:
            self.states[state.previous_open].next_open = state.next_open
        if state.next_open < 0:
            self.last_linked = state.previous_open
        else:
            self.states[state.next_open].previous_open = state.previous_open
        return 0

    cdef int push(self, Py_ssize_t at) except -1:
        """Add the open transaction of a producer to the heap. If most items of the heap have ended, remove them first."""
        cdef Py_ssize_t i
        if self.oldest_count > 2 * self.open_count + SPARE_ITEMS:
            self.oldest_count, i = 0, self.first_linked
            while i >= 0:
                self.add_to_heap(i)
                i = self.states[i].next_open
        return self.add_to_heap(at)

    cdef int add_to_heap(self, Py_ssize_t at) except -1:
        cdef Py_ssize_t i = self.oldest_count, parent
        self.oldest = <Opened*>grown(self.oldest, i, &self.oldest_room, sizeof(Opened))
        self.oldest[i].first_offset, self.oldest[i].id, self.oldest[i].at = self.states[at].first_offset, self.states[at].id, at
        self.oldest_count += 1
        while i:
            parent = (i - 1) // 2
            if self.oldest[parent].first_offset <= self.oldest[i].first_offset:
                break
            self.oldest[parent], self.oldest[i] = self.oldest[i], self.oldest[parent]
            i = parent
        return 0

    cdef void pop(self) noexcept:
        """Remove the lowest item of the heap."""
        cdef Py_ssize_t i = 0, child
        self.oldest_count -= 1
        self.oldest[0] = self.oldest[self.oldest_count]
        while True:
            child = 2 * i + 1
            if child >= self.oldest_count:
                return
            if child + 1 < self.oldest_count and self.oldest[child + 1].first_offset < self.oldest[child].first_offset:
                child += 1
            if self.oldest[i].first_offset <= self.oldest[child].first_offset:
                return
            self.oldest[i], self.oldest[child] = self.oldest[child], self.oldest[i]
            i = child

    cdef int64_t lowest_open(self) noexcept:
        """Return the first offset of the oldest open transaction, or -1. Remove ended transactions from the heap."""
        while self.open_count and self.oldest_count:
            if self.oldest[0].at < self.count and self.states[self.oldest[0].at].first_offset == self.oldest[0].first_offset:
                return self.oldest[0].first_offset
            self.pop()
        self.oldest_count = 0
        return -1

    @cython.critical_section
    def update(self, rows, dict markers not None):
        cdef Arrays arrays = Arrays()
        cdef Py_ssize_t n = len(rows), i, at
        cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
        cdef const Batch* row
        cdef ProducerState* state
        cdef list aborted = []
        cdef int64_t timestamp = 0, first, stable
        cdef int32_t coordinator_epoch = 0
        cdef int kind = -1
        for i in range(n):
            row = &batches[i]
            if row.producer_id == NO_PRODUCER_ID:
                continue
            if row.attributes & CONTROL_BIT:
                marker = markers.get(row.base_offset)
                if marker is None:
                    continue
                kind, timestamp, coordinator_epoch = marker
                if kind != CONTROL_ABORT and kind != CONTROL_COMMIT:
                    continue
            at = self.place_of(row.producer_id, True)
            state = &self.states[at]
            if not row.attributes & CONTROL_BIT:
                set_batch(state, row)
                if row.attributes & TRANSACTIONAL_BIT and state.first_offset < 0:
                    self.set_first_offset(at, row.base_offset)
                continue
            # If the epoch changes, discard the last sequence number, because sequence numbers restart at 0.
            if state.epoch != row.producer_epoch:
                state.epoch, state.last_sequence, state.last_offset, state.offset_delta = row.producer_epoch, -1, -1, 0
            state.timestamp, state.coordinator_epoch = timestamp, coordinator_epoch
            first = state.first_offset
            self.set_first_offset(at, -1)
            if first >= 0 and kind == CONTROL_ABORT:
                stable = self.lowest_open()
                aborted.append((row.producer_id, first, row.base_offset, <object>row.base_offset + 1 if stable < 0 else stable))
        return aborted

    @cython.critical_section
    def forget(self, before):
        cdef int64_t time = before
        cdef Py_ssize_t i, kept = 0
        self.index.clear()
        for i in range(self.count):
            if self.states[i].timestamp >= time or self.states[i].first_offset >= 0:
                self.states[kept] = self.states[i]
                self.index[self.states[kept].id] = kept
                kept += 1
        self.count = kept
        self.link_open()

    @cython.critical_section
    def first_open(self):
        cdef int64_t first = self.lowest_open()
        return None if first < 0 else first

    @cython.critical_section
    def state_of(self, producer_id):
        cdef Py_ssize_t at = self.place_of(producer_id, False)
        cdef uint8_t packed[STATE_SIZE]
        if at < 0:
            return None
        write_state(&self.states[at], packed)
        return PyBytes_FromStringAndSize(<const char*>packed, STATE_SIZE)

    @cython.critical_section
    def all_states(self):
        return self.packed(False)

    @cython.critical_section
    def open_states(self):
        return self.packed(True)

    cdef bytes packed(self, bint opened):
        """Return all states by producer id, or those with an open transaction by the first offset of the transaction."""
        cdef Py_ssize_t n = self.open_count if opened else self.count, i, at = self.first_linked
        cdef bint ordered = True
        cdef Opened* items = <Opened*>malloc(max(n, 1) * sizeof(Opened))
        cdef bytes result
        cdef uint8_t* out
        if items == NULL:
            raise MemoryError
        try:
            for i in range(n):
                if not opened:
                    at = i
                items[i].first_offset, items[i].id, items[i].at = self.states[at].first_offset if opened else 0, self.states[at].id, at
                ordered = ordered and (i == 0 or compare_opened(&items[i], &items[i - 1]) > 0)
                at = self.states[at].next_open
            if not ordered:
                qsort(items, n, sizeof(Opened), compare_opened)
            result = PyBytes_FromStringAndSize(NULL, n * STATE_SIZE)
            out = <uint8_t*>PyBytes_AS_STRING(result)
            for i in range(n):
                write_state(&self.states[items[i].at], out + i * STATE_SIZE)
        finally:
            free(items)
        return result

    @cython.critical_section
    def contains(self, states):
        cdef Source source = Source(states)
        cdef ProducerState theirs
        cdef const ProducerState* own
        cdef Py_ssize_t n = states_in(source), i, at
        for i in range(n):
            read_state(source.data + i * STATE_SIZE, &theirs)
            at = self.place_of(theirs.id, False)
            if at < 0:
                return False
            own = &self.states[at]
            if not same_batches(own, &theirs) or own.timestamp != theirs.timestamp or own.coordinator_epoch != theirs.coordinator_epoch:
                return False
        return True

    @cython.critical_section
    def differing(self, states, offset):
        cdef Source source = Source(states)
        cdef int64_t end = offset
        cdef ProducerState theirs
        cdef Py_ssize_t n = states_in(source), i, at
        cdef list found = []
        for i in range(n):
            read_state(source.data + i * STATE_SIZE, &theirs)
            at = self.place_of(theirs.id, False)
            if at < 0 or theirs.last_offset >= end or theirs.first_offset >= end or not same_batches(&self.states[at], &theirs):
                found.append(PyBytes_FromStringAndSize(<const char*>source.data + i * STATE_SIZE, STATE_SIZE))
        return b"".join(found)

    @cython.critical_section
    def open_besides(self, states):
        cdef Source source = Source(states)
        cdef Py_ssize_t n = states_in(source), i, at, opened = 0
        self.comparisons += 1
        for i in range(n):
            at = self.place_of(int64_at(source.data + i * STATE_SIZE), False)
            if at >= 0 and self.states[at].compared != self.comparisons:
                self.states[at].compared = self.comparisons
                opened += self.states[at].first_offset >= 0
        if opened == self.open_count:
            return 0, None
        at = self.first_linked
        while self.states[at].compared == self.comparisons:
            at = self.states[at].next_open
        return self.open_count - opened, self.state_of(self.states[at].id)

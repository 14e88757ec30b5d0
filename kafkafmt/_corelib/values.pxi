# Decode values into Arrow's layout. values.h has the interpreters of the programs.

cdef extern from "_corelib/values.h" nogil:
    enum: KV_NULLS, KV_BITS, KV_FIXED, KV_BINARY, KV_LIST, KV_STRUCT
    enum: KV_OK, KV_FULL, KV_SLACK
    ctypedef struct kv_column:
        int32_t kind, width, last, precision
        int64_t rows, capacity, nulls, filled, room
        uint8_t* validity
        int32_t* offsets
        uint8_t* data
    ctypedef struct kv_program:
        int32_t format
        const void* code
        const int32_t* tables
        const uint8_t* constants
        int64_t constants_size
    ctypedef struct kv_state:
        kv_column* columns
        int32_t full
        int64_t needed
        const uint8_t* at
        int64_t unknown
    int kv_put_null(kv_state*, int32_t) noexcept
    void kv_cut(kv_column*, int32_t, int64_t) noexcept
    int kv_decode_value(kv_state*, const kv_program*, const uint8_t*, const uint8_t*, const uint8_t*, const uint8_t*) noexcept

cdef enum:
    FIRST_ROWS = 1 << 10
    FIRST_BYTES = 1 << 14
    ID_PREFIX = 5               # a zero byte and the schema id
    NO_PROGRAM = -1
    UNKNOWN_PROGRAM = -2


cdef class ValueProgram:
    cdef object code, tables, constants
    cdef kv_program program

    def __init__(self, int32_t format, code, tables, constants):
        cdef const uint8_t[::1] instructions = code.view("u1")
        cdef const int32_t[::1] numbers = tables
        cdef const uint8_t[::1] defaults = constants
        self.code, self.tables, self.constants = code, tables, constants
        self.program.format = format
        self.program.code = &instructions[0]
        self.program.tables = &numbers[0] if len(tables) else NULL
        self.program.constants = &defaults[0] if len(constants) else NULL
        self.program.constants_size = len(constants)


cdef class ColumnBuilder:
    cdef kv_column* columns
    cdef int32_t count
    cdef object take, limits
    cdef const uint8_t* limit
    cdef list arrays
    cdef bint busy
    cdef readonly int64_t unknown_fields

    def __cinit__(self):
        self.columns = NULL

    def __dealloc__(self):
        free(self.columns)

    def __init__(self, kinds, widths, lasts, precisions, limits, take):
        cdef const uint8_t[::1] powers = limits
        cdef int32_t i
        self.count = len(kinds)
        self.columns = <kv_column*>calloc(self.count, sizeof(kv_column))
        if self.columns == NULL:
            raise MemoryError
        self.take, self.limits, self.limit = take, limits, &powers[0]
        self.arrays = [None] * self.count
        for i in range(self.count):
            self.columns[i].kind, self.columns[i].width = kinds[i], widths[i]
            self.columns[i].last, self.columns[i].precision = lasts[i], precisions[i]
            self.columns[i].capacity, self.columns[i].room = FIRST_ROWS, FIRST_BYTES
            self.begin(i)

    @property
    def rows(self):
        return self.columns[0].rows

    def decode(self, list programs, which, source, positions, lengths, faults):
        cdef Source buffer = Source(source)
        cdef Arrays given = Arrays()
        cdef Py_ssize_t n = len(which), row = 0
        cdef const int32_t* program = <const int32_t*>required(given.take(which, n, 4, False))
        cdef const int64_t* position = <const int64_t*>required(given.take(positions, n, 8, False))
        cdef const int32_t* length = <const int32_t*>required(given.take(lengths, n, 4, False))
        cdef int64_t* found = <int64_t*>required(given.take(faults, 3 * n, 8))
        cdef kv_program* all_programs = <kv_program*>calloc(len(programs) + 1, sizeof(kv_program))
        cdef kv_state state
        cdef const uint8_t* readable = buffer.data + buffer.size
        cdef const uint8_t* start
        cdef int64_t before
        cdef int32_t fault = KV_OK, known = len(programs), i
        cdef Py_ssize_t faulty = 0
        try:
            self.enter()
        except RuntimeError:
            free(all_programs)
            raise
        try:
            if all_programs == NULL:
                raise MemoryError
            for i in range(known):
                all_programs[i] = (<ValueProgram?>programs[i]).program
            state.columns, state.unknown = self.columns, 0
            while True:
                with nogil:
                    while row < n:
                        before = self.columns[0].rows
                        i = program[row]
                        if i < 0:
                            fault = kv_put_null(&state, 0)
                        elif i >= known or position[row] < 0 or length[row] < 0 or length[row] > buffer.size - position[row]:
                            fault = -1
                            break
                        else:
                            start = buffer.data + position[row]
                            fault = kv_decode_value(
                                &state, &all_programs[i], start, start + length[row], readable, self.limit
                            )
                        if KF_UNLIKELY(fault != KV_OK):
                            self.undo(before)
                            if fault == KV_FULL:
                                break
                            found[3 * faulty], found[3 * faulty + 1] = row, fault
                            found[3 * faulty + 2] = state.at - start
                            fault = kv_put_null(&state, 0)
                            if fault == KV_FULL:
                                kv_cut(self.columns, 0, before)
                                break
                            faulty += 1
                        else:
                            self.unknown_fields += state.unknown
                        row += 1
                if row == n:
                    return faulty
                if fault != KV_FULL:
                    raise ValueError(f"span {row} is outside the buffer, or its program does not exist")
                self.grow(state.full, state.needed)
        finally:
            self.busy = False
            free(all_programs)

    cdef void undo(self, int64_t rows) noexcept nogil:
        """Remove all rows from `rows` on, also from the column after the tree, which can have fewer rows."""
        kv_cut(self.columns, 0, rows)
        if self.columns[0].last < self.count:
            kv_cut(self.columns, self.columns[0].last, rows)

    cdef int enter(self) except -1:
        with cython.critical_section(self):
            if self.busy:
                raise RuntimeError("another thread is using this ColumnBuilder")
            self.busy = True
        return 0

    def finish(self):
        cdef list out = []
        self.enter()
        try:
            self.take_columns(out)
        finally:
            self.busy = False
        return out

    cdef int take_columns(self, list out) except -1:
        cdef int32_t i
        for i in range(self.count):
            validity, offsets, data = self.arrays[i]
            out.append((self.columns[i].rows, self.columns[i].nulls, validity, offsets, data, self.columns[i].filled))
            self.arrays[i] = None
        for i in range(self.count):
            self.columns[i].rows = self.columns[i].nulls = self.columns[i].filled = 0
            self.begin(i)
        return 0

    cdef int begin(self, int32_t i) except -1:
        """Take new arrays of the present capacity for a column."""
        cdef kv_column* c = &self.columns[i]
        cdef int64_t rows = c.capacity
        validity = offsets = data = None
        if c.kind == KV_NULLS:
            c.capacity = INT64_MAX
        else:
            validity = self.take((rows + 7) // 8)
            validity[:] = 255
            if c.kind == KV_BINARY or c.kind == KV_LIST:
                offsets = self.take(4 * (rows + 1))
            if c.kind == KV_BITS:
                data = self.take((rows + 7) // 8)
            elif c.kind == KV_FIXED:
                data = self.take(rows * c.width)
            elif c.kind == KV_BINARY:
                data = self.take(c.room + KV_SLACK)
        self.keep(i, validity, offsets, data)
        if c.offsets != NULL:
            c.offsets[0] = 0
        return 0

    cdef int keep(self, int32_t i, validity, offsets, data) except -1:
        cdef kv_column* c = &self.columns[i]
        self.arrays[i] = validity, offsets, data
        c.validity = address_of(validity)
        c.offsets = <int32_t*>address_of(offsets)
        c.data = address_of(data)
        return 0

    cdef int grow(self, int32_t i, int64_t needed) except -1:
        """Replace the arrays of a column that is full. Columns with as many rows are enlarged together."""
        cdef kv_column* c = &self.columns[i]
        cdef int64_t rows = c.capacity
        cdef int32_t j, first = 0, last = self.count
        if needed:
            old = self.arrays[i]
            c.room = max(2 * c.room, needed + needed // 8)
            data = self.take(c.room + KV_SLACK)
            data[:c.filled] = old[2][:c.filled]
            self.keep(i, old[0], old[1], data)
            return 0
        for j in range(i):
            if self.columns[j].kind == KV_LIST and i < self.columns[j].last:
                first, last = j + 1, self.columns[j].last
        j = first
        while j < last:
            if self.columns[j].capacity == rows:
                self.grow_rows(j)
            j = self.columns[j].last if self.columns[j].kind == KV_LIST else j + 1
        return 0

    cdef int grow_rows(self, int32_t i) except -1:
        cdef kv_column* c = &self.columns[i]
        cdef int64_t rows = c.capacity
        old = self.arrays[i]
        c.capacity = 2 * rows
        filled = c.filled
        kept_rows = c.rows
        self.begin(i)
        new = self.arrays[i]
        new[0][:(rows + 7) // 8] = old[0][:(rows + 7) // 8]
        if new[1] is not None:
            new[1][:4 * (kept_rows + 1)] = old[1][:4 * (kept_rows + 1)]
        if new[2] is not None:
            used = filled if c.kind == KV_BINARY else (rows + 7) // 8 if c.kind == KV_BITS else kept_rows * c.width
            new[2][:used] = old[2][:used]
        return 0


cdef uint8_t* address_of(array) except? NULL:
    cdef uint8_t[::1] view
    if array is None:
        return NULL
    view = array
    return &view[0]


def choose_programs(source, positions, lengths, known, which, bodies, sizes):
    cdef Source buffer = Source(source)
    cdef Arrays given = Arrays()
    cdef Py_ssize_t n = len(lengths), row, ids = len(known), unknown = 0
    cdef const int64_t* position = <const int64_t*>required(given.take(positions, n, 8, False))
    cdef const int32_t* length = <const int32_t*>required(given.take(lengths, n, 4, False))
    cdef const int32_t* program_of = <const int32_t*>required(given.take(known, ids, 4, False))
    cdef int32_t* program = <int32_t*>required(given.take(which, n, 4))
    cdef int64_t* body = <int64_t*>required(given.take(bodies, n, 8))
    cdef int32_t* size = <int32_t*>required(given.take(sizes, n, 4))
    cdef const uint8_t* p
    cdef uint32_t id_
    cdef bint inside = True
    with nogil:
        for row in range(n):
            body[row], size[row], program[row] = position[row], 0, NO_PROGRAM
            if length[row] < 0:
                continue
            if position[row] < 0 or length[row] > buffer.size - position[row]:
                inside = False
                break
            program[row] = UNKNOWN_PROGRAM
            p = buffer.data + position[row]
            if length[row] >= ID_PREFIX and p[0] == 0:
                id_ = <uint32_t>int32_at(p + 1)
                body[row] = position[row] + ID_PREFIX
                size[row] = length[row] - ID_PREFIX
                if id_ < ids:
                    program[row] = program_of[id_]
            unknown += program[row] == UNKNOWN_PROGRAM
    if not inside:
        raise ValueError(f"span {row} is outside the buffer")
    return unknown

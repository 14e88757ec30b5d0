# The deep walk: the records of many batches into the caller's columns, in one call, without the GIL.
#
# A batch is given out whole or, where it alone fills the columns, in parts after a first walk has found it sound: so
# no record of a damaged batch is ever given out. Each record's length is checked once against the batch; then its
# varints are read without further checks while 32 bytes and more lie behind the record, checked otherwise. Keys,
# values and header fields are compared with the record's end always. An unchecked read may notice a fault late: the
# record at fault is then walked once more, every read checked, so that the message names what the specification names.

cdef enum:
    WANT_KEY = 1
    WANT_VALUE = 2
    WANT_HEADERS = 4
    WALK_DONE = 0
    WALK_FULL = 1
    WALK_FULL_HEADERS = 2
    WALK_FULL_DATA = 3
    WALK_FAULT = 4
    FAULT_COUNT_FIELD = 1
    FAULT_UNSUPPORTED = 100
    SLACK = 32

cdef struct Binary:             # a column whose bytes are copied together, in Arrow's layout
    int32_t* offsets            # NULL where spans are wanted
    uint8_t* data
    uint8_t* validity           # its bits are 1 beforehand, those of nulls are cleared
    Py_ssize_t filled
    Py_ssize_t room

cdef struct Columns:
    int64_t* offset
    int64_t* timestamp
    int32_t* timestamp_type
    int64_t* key_position
    int32_t* key_length
    int64_t* value_position
    int32_t* value_length
    int64_t* header_start
    int32_t* header_count
    int64_t* header_key_position
    int32_t* header_key_length
    int64_t* header_value_position
    int32_t* header_value_length
    Binary key
    Binary value
    const uint8_t* source_end
    Py_ssize_t capacity
    Py_ssize_t header_capacity
    Py_ssize_t rows
    Py_ssize_t headers

cdef struct Cursor:             # inside one batch
    int64_t record              # records already passed
    int64_t position            # of the next one
    int64_t delta               # the last offset delta seen, -1 before the first

cdef struct Fault:
    int code
    int64_t record              # where the walk stood, as in a Cursor
    int64_t position
    int64_t delta


cdef inline const uint8_t* wild_varint(const uint8_t* p, int32_t* out) noexcept nogil:
    """A zigzag varint where 5 readable bytes are known to follow; NULL if it is longer."""
    cdef uint32_t raw = p[0]
    if KF_LIKELY(raw < 0x80):
        p += 1
    else:
        raw = (raw & 0x7F) | (<uint32_t>p[1] << 7)
        if KF_LIKELY(p[1] < 0x80):
            p += 2
        else:
            raw = (raw & 0x3FFF) | (<uint32_t>p[2] << 14)
            if p[2] < 0x80:
                p += 3
            else:
                raw = (raw & 0x1FFFFF) | (<uint32_t>p[3] << 21)
                if p[3] < 0x80:
                    p += 4
                else:
                    raw = (raw & 0xFFFFFFF) | (<uint32_t>p[4] << 28)
                    if p[4] >= 0x80:
                        return NULL
                    p += 5
    out[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
    return p


cdef inline const uint8_t* varint32(const uint8_t* p, const uint8_t* end, int32_t* out, bint checked) noexcept nogil:
    return get_varint(p, end, out) if checked else wild_varint(p, out)


cdef inline int walk_headers(const uint8_t* base, const uint8_t* p, const uint8_t* end, int32_t count, Columns* out,
                             Py_ssize_t h) noexcept nogil:
    """Every header of a record, up to its end; into the columns from `h` on where h is not negative. The fault, or 0."""
    cdef int32_t i, n
    for i in range(count):
        p = get_varint(p, end, &n)
        if p == NULL or n < 0 or n > end - p:
            return 10
        if h >= 0:
            out.header_key_position[h] = p - base
            out.header_key_length[h] = n
        p += n
        p = get_varint(p, end, &n)
        if p == NULL or n > end - p:
            return 11
        if h >= 0:
            out.header_value_position[h] = p - base
            out.header_value_length[h] = n if n >= 0 else -1
            h += 1
        if n > 0:
            p += n
    return 0 if p == end else 12


cdef inline void put_bytes(Binary* column, Py_ssize_t row, const uint8_t* p, int32_t n, bint slack) noexcept nogil:
    """Copy one value, for which there is room; n is -1 for a null."""
    if KF_LIKELY(n >= 0):
        copy_span(column.data + column.filled, p, n, slack)
        column.filled += n
    else:
        column.validity[row >> 3] &= <uint8_t>~(1 << (row & 7))
    column.offsets[row + 1] = <int32_t>column.filled


cdef void take_back(Columns* out, Py_ssize_t rows, Py_ssize_t end) noexcept nogil:
    """The rows from `rows` to `end` are not given out after all."""
    cdef Py_ssize_t row
    out.rows = rows
    for row in range(rows, end):
        if out.key.offsets != NULL:
            out.key.validity[row >> 3] |= <uint8_t>(1 << (row & 7))
        if out.value.offsets != NULL:
            out.value.validity[row >> 3] |= <uint8_t>(1 << (row & 7))
    if out.key.offsets != NULL:
        out.key.filled = out.key.offsets[rows]
    if out.value.offsets != NULL:
        out.value.filled = out.value.offsets[rows]


cdef inline int walk(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want, bint give,
                     int64_t first_offset, int64_t end_offset, Fault* fault, Py_ssize_t slack=SLACK, bint copied=False,
                     bint easy=False) noexcept nogil:
    """The records of one batch from the cursor on; `give` fills columns, else they are only checked.

    easy: all of them are wanted, and fit; copies with room to spare.
    """
    cdef const uint8_t* end = base + batch.payload_position + batch.payload_size
    cdef const uint8_t* p = base + cursor.position
    cdef const uint8_t* start
    cdef const uint8_t* stop
    cdef const uint8_t* q
    cdef int64_t record = cursor.record, count = batch.count, last_delta = cursor.delta, timestamp_delta, offset
    cdef int64_t key_position = 0, value_position = 0
    cdef int64_t timestamp
    cdef int32_t length, delta, header_count, key_length = -1, value_length = -1
    cdef int32_t timestamp_type = 1 if batch.attributes & 8 else 0
    cdef Py_ssize_t row = out.rows, header = out.headers
    cdef bint checked, inside
    cdef int code = 0
    cdef Binary keys = out.key, values = out.value
    while record < count:
        start = p
        if give and not easy and row == out.capacity:
            code = -1
            break
        if KF_LIKELY(end - p >= SLACK):
            q = wild_varint(p, &length)
        else:
            q = get_varint(p, end, &length)
        if q == NULL:
            code = 2
            break
        if length < 0 or length > end - q:
            code = 3
            break
        stop = q + length
        KF_PREFETCH(stop + 512)
        checked = end - stop < slack
        p = q + 1                                   # the attributes of a record are unused
        if checked and length < 1:
            code = 4
            break
        if KF_LIKELY(not checked and p[0] < 0x80):
            timestamp_delta = <int64_t>(p[0] >> 1) ^ -<int64_t>(p[0] & 1)
            p += 1
        elif not checked and p[1] < 0x80:
            timestamp_delta = <int64_t>((p[0] & 0x7F) | (<uint32_t>p[1] << 7))
            timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
            p += 2
        else:
            p = get_varlong(p, stop if checked else end, &timestamp_delta)
            if p == NULL:
                code = 4
                break
        p = varint32(p, stop, &delta, checked)
        if p == NULL:
            code = 5
            break
        if KF_UNLIKELY(delta <= last_delta or delta > batch.last_offset_delta):
            code = 5 if p > stop else 6
            break
        offset = <int64_t>(<uint64_t>batch.base_offset + <uint64_t>delta)
        header_count = 0
        if want:
            p = varint32(p, stop, &key_length, checked)
            if KF_UNLIKELY(p == NULL or p > stop or key_length > stop - p):
                code = 7
                break
            key_position = p - base
            if key_length > 0:
                p += key_length
            elif key_length < 0:
                key_length = -1
            if want & (WANT_VALUE | WANT_HEADERS):
                p = varint32(p, stop, &value_length, checked)
                if KF_UNLIKELY(p == NULL or p > stop or value_length > stop - p):
                    code = 8
                    break
                value_position = p - base
                if value_length > 0:
                    p += value_length
                elif value_length < 0:
                    value_length = -1
                if want & WANT_HEADERS:
                    p = varint32(p, stop, &header_count, checked)
                    if KF_UNLIKELY(p == NULL or p > stop or header_count < 0 or header_count > stop - p):
                        code = 9
                        break
        elif KF_UNLIKELY(p > stop):
            code = 5
            break
        inside = easy or (offset >= first_offset and offset < end_offset)
        if want & WANT_HEADERS:
            if header_count:
                if KF_UNLIKELY(give and inside and header_count > out.header_capacity - header):
                    code = walk_headers(base, p, stop, header_count, out, -1)
                    if code == 0:
                        code = -2
                    break
                code = walk_headers(base, p, stop, header_count, out, header if give and inside else -1)
                if code:
                    break
            elif p != stop:
                code = 12
                break
        if give and copied and not easy and inside:
            if KF_UNLIKELY((want & WANT_KEY and key_length > keys.room - keys.filled)
                           or (want & WANT_VALUE and value_length > values.room - values.filled)):
                code = -3
                break
        p = stop
        record += 1
        last_delta = delta
        if give:
            if out.offset != NULL:
                out.offset[row] = offset
            if out.timestamp != NULL:
                timestamp = batch.max_timestamp if timestamp_type else <int64_t>(<uint64_t>batch.base_timestamp + <uint64_t>timestamp_delta)
                out.timestamp[row] = timestamp
            if out.timestamp_type != NULL:
                out.timestamp_type[row] = timestamp_type
            if copied:
                if inside:
                    if want & WANT_KEY:
                        put_bytes(&keys, row, base + key_position, key_length, easy)
                    if want & WANT_VALUE:
                        put_bytes(&values, row, base + value_position, value_length, easy)
            else:
                if want & WANT_KEY:
                    out.key_position[row] = key_position
                    out.key_length[row] = key_length
                if want & WANT_VALUE:
                    out.value_position[row] = value_position
                    out.value_length[row] = value_length
            if want & WANT_HEADERS:
                out.header_start[row] = header
                out.header_count[row] = header_count
            if inside:
                row += 1
                header += header_count
    if code == 0 and p != end:
        start = p
        code = 13
    if give and copied:
        out.key.filled = keys.filled
        out.value.filled = values.filled
        if code > 0:
            take_back(out, out.rows, row)
    if code > 0:
        fault.code = code
        fault.record = record
        fault.position = start - base
        fault.delta = last_delta
        return WALK_FAULT
    out.rows = row
    out.headers = header
    cursor.record = record
    cursor.position = start - base if code else p - base
    cursor.delta = last_delta
    return -code                    # WALK_DONE, or what was full


# The walk compiled for the columns that are wanted most, each a function of its own: chosen once a call, by pointer.

ctypedef int (*Walk)(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want,
                     int64_t first_offset, int64_t end_offset, Fault* fault, bint easy) noexcept nogil


cdef int give_bodies(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want,
                     int64_t first_offset, int64_t end_offset, Fault* fault, bint easy) noexcept nogil:
    if easy:
        return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE, True, first_offset, end_offset, fault, SLACK, False, True)
    return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE, True, first_offset, end_offset, fault)


cdef int give_all(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want,
                  int64_t first_offset, int64_t end_offset, Fault* fault, bint easy) noexcept nogil:
    if easy:
        return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE | WANT_HEADERS, True, first_offset, end_offset, fault, SLACK, False, True)
    return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE | WANT_HEADERS, True, first_offset, end_offset, fault)


cdef int give_any(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want,
                  int64_t first_offset, int64_t end_offset, Fault* fault, bint easy) noexcept nogil:
    return walk(base, batch, out, cursor, want, True, first_offset, end_offset, fault)


cdef int give_copies(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want,
                     int64_t first_offset, int64_t end_offset, Fault* fault, bint easy) noexcept nogil:
    if easy and want == (WANT_KEY | WANT_VALUE):
        return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE, True, first_offset, end_offset, fault, SLACK, True, True)
    if easy:
        return walk(base, batch, out, cursor, want, True, first_offset, end_offset, fault, SLACK, True, True)
    return walk(base, batch, out, cursor, want, True, first_offset, end_offset, fault, SLACK, True)


cdef inline bint is_easy(const uint8_t* base, const Batch* b, const Columns* out, int64_t first_offset, int64_t end_offset) noexcept nogil:
    """Whether every record of a batch is wanted, and fits."""
    cdef Py_ssize_t need = <Py_ssize_t>b.payload_size + COPY_SLACK
    if b.count > out.capacity - out.rows or b.last_offset_delta < 0 or b.base_offset < first_offset \
            or b.base_offset >= end_offset or <uint64_t>end_offset - <uint64_t>b.base_offset <= <uint64_t>b.last_offset_delta:
        return False
    if out.key.offsets == NULL and out.value.offsets == NULL:
        return True
    return out.source_end - base - b.payload_position >= need and (
        out.key.offsets == NULL or out.key.room - out.key.filled >= need
    ) and (out.value.offsets == NULL or out.value.room - out.value.filled >= need)


cdef int check(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want, Fault* fault,
               Py_ssize_t slack) noexcept nogil:
    return walk(base, batch, out, cursor, want, False, 0, 0, fault, slack)


include "legacy.pxi"


cdef int decode(const uint8_t* base, const Batch* batches, Py_ssize_t count, int64_t* batch, Cursor* cursor, Columns* out, int want,
                int64_t first_offset, int64_t end_offset, Fault* fault) noexcept nogil:
    """Batches from `batch` on, until all are done, the columns are full, or one is at fault."""
    cdef const Batch* b
    cdef Py_ssize_t rows, headers
    cdef Cursor probe
    cdef bint whole, easy
    cdef int status
    cdef Walk give = give_any
    if out.key.offsets != NULL or out.value.offsets != NULL:
        give = give_copies
    elif want == (WANT_KEY | WANT_VALUE):
        give = give_bodies
    elif want == (WANT_KEY | WANT_VALUE | WANT_HEADERS):
        give = give_all
    while batch[0] < count:
        b = &batches[batch[0]]
        rows = out.rows
        headers = out.headers
        whole = cursor.record == 0
        if b.magic == 0 or b.magic == 1:
            if whole and not b.attributes & 7:
                rows = batch[0]
                batch[0] = give_plain(base, batches, count, rows, out, first_offset, end_offset)
                if batch[0] > rows:
                    continue
            status = give_set(base, b, out, cursor, first_offset, end_offset, fault)
            if status != WALK_DONE:
                return status
            batch[0] += 1
            cursor.record = 0
            continue
        if whole:
            if b.magic != 2:
                fault.code = FAULT_UNSUPPORTED
                fault.position = b.position
                return WALK_FAULT
            if b.count < 0 or b.count > b.payload_size // 7:
                fault.code = FAULT_COUNT_FIELD
                fault.position = b.payload_position
                return WALK_FAULT
            cursor.position = b.payload_position
            cursor.delta = -1
            if b.count > out.capacity - rows:
                if rows:
                    return WALK_FULL
                whole = False
                probe = cursor[0]
                if check(base, b, out, &probe, want, fault, SLACK) == WALK_FAULT:
                    return WALK_FAULT
        probe = cursor[0]
        easy = cursor.record == 0 and is_easy(base, b, out, first_offset, end_offset)
        status = give(base, b, out, cursor, want, first_offset, end_offset, fault, easy)
        if status == WALK_FAULT:
            return WALK_FAULT
        if status != WALK_DONE:
            if not whole:
                return WALK_FULL if out.rows else status
            take_back(out, rows, out.rows)  # its bytes or headers do not fit: it goes out whole next time, or checked and in parts
            out.headers = headers
            cursor[0] = probe
            if rows:
                return WALK_FULL
            if check(base, b, out, &probe, want, fault, SLACK) == WALK_FAULT:
                return WALK_FAULT
            status = give(base, b, out, cursor, want, first_offset, end_offset, fault, False)
            return WALK_FULL if out.rows else status
        batch[0] += 1
        cursor.record = 0
    return WALK_DONE


cdef decode_error(const Batch* batch, Fault* fault):
    if fault.code == FAULT_UNSUPPORTED:
        return UnsupportedError(f"magic {batch.magic} is not supported", fault.position, batch.base_offset)
    return StructureError(FAULTS[fault.code], fault.position, batch.base_offset)


cdef int take_binary(Arrays arrays, Binary* column, Py_ssize_t capacity, offsets, data, validity) except -1:
    column.offsets = <int32_t*>arrays.take(offsets, capacity + 1, 4)
    column.data = column.validity = NULL
    column.filled = column.room = 0
    if column.offsets != NULL:
        column.validity = <uint8_t*>required(arrays.take(validity, (capacity + 7) // 8, 1))
        column.data = <uint8_t*>required(arrays.take(data, 0, 1))
        column.room = min(arrays.size(), 2147483647)
    return 0


cdef int find_filled(Binary* column, Py_ssize_t rows) except -1:
    if column.offsets != NULL:
        column.filled = column.offsets[rows]
        if column.filled < 0 or column.filled > column.room:
            raise ValueError("the data filled so far do not lie within their room")
    return 0


def decode_records(buffer, batches, columns, first_offset=-(2**63), end_offset=2**63 - 1):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count = len(batches), capacity = natural(columns.capacity), header_capacity = natural(columns.header_capacity), i
    cdef const Batch* table = <const Batch*>arrays.take(batches, count, sizeof(Batch), False)
    cdef int64_t* state = <int64_t*>required(arrays.take(columns.cursor, 4, 8))
    cdef int64_t first = first_offset, end = end_offset
    cdef Columns out
    cdef Cursor cursor
    cdef Fault fault
    cdef int want = 0, status
    out.offset = <int64_t*>arrays.take(columns.offset, capacity, 8)
    out.timestamp = <int64_t*>arrays.take(columns.timestamp, capacity, 8)
    out.timestamp_type = <int32_t*>arrays.take(columns.timestamp_type, capacity, 4)
    out.key_position = <int64_t*>arrays.take(columns.key_position, capacity, 8)
    out.key_length = <int32_t*>arrays.take(columns.key_length, capacity, 4)
    out.value_position = <int64_t*>arrays.take(columns.value_position, capacity, 8)
    out.value_length = <int32_t*>arrays.take(columns.value_length, capacity, 4)
    out.header_start = <int64_t*>arrays.take(columns.header_start, capacity, 8)
    out.header_count = <int32_t*>arrays.take(columns.header_count, capacity, 4)
    out.header_key_position = <int64_t*>arrays.take(columns.header_key_position, header_capacity, 8)
    out.header_key_length = <int32_t*>arrays.take(columns.header_key_length, header_capacity, 4)
    out.header_value_position = <int64_t*>arrays.take(columns.header_value_position, header_capacity, 8)
    out.header_value_length = <int32_t*>arrays.take(columns.header_value_length, header_capacity, 4)
    take_binary(arrays, &out.key, capacity, columns.key_offsets, columns.key_data, columns.key_validity)
    take_binary(arrays, &out.value, capacity, columns.value_offsets, columns.value_data, columns.value_validity)
    out.source_end = source.data + source.size
    out.capacity = capacity
    out.header_capacity = header_capacity
    out.rows = natural(columns.rows)
    out.headers = natural(columns.headers)
    if capacity == 0 or out.rows > capacity or out.headers > header_capacity:
        raise ValueError("rows and headers filled so far do not lie within the capacity")
    find_filled(&out.key, out.rows)
    find_filled(&out.value, out.rows)
    if out.key_length != NULL or out.key.offsets != NULL:
        want |= WANT_KEY
    if out.value_length != NULL or out.value.offsets != NULL:
        want |= WANT_VALUE
    if out.header_count != NULL:
        want |= WANT_HEADERS
    if (out.key_length != NULL and out.key_position == NULL) or (out.value_length != NULL and out.value_position == NULL) or (
        out.header_count != NULL and (out.header_start == NULL or out.header_key_position == NULL or out.header_key_length == NULL
                                      or out.header_value_position == NULL or out.header_value_length == NULL)
    ):
        raise TypeError("columns of lengths without their positions")
    if (out.key.offsets != NULL and out.value_length != NULL) or (out.value.offsets != NULL and out.key_length != NULL):
        raise TypeError("one of key and value as copies, the other as spans")
    for i in range(max(state[0], 0), count):
        if table[i].payload_position < 0 or table[i].payload_size < 0 or table[i].payload_position > source.size \
                or table[i].payload_size > source.size - table[i].payload_position:
            raise ValueError(f"row {i} of the table: its payload does not lie in the buffer")
    if state[0] < 0 or state[1] < 0 or (state[0] < count and state[1] and (
        (table[state[0]].magic == 2 and state[1] > table[state[0]].count) or state[2] < table[state[0]].payload_position
        or state[2] > table[state[0]].payload_position + table[state[0]].payload_size
    )):
        raise ValueError("the cursor does not lie in the table of batches")
    cursor.record, cursor.position, cursor.delta = state[1], state[2], state[3]
    with nogil:
        status = decode(source.data, table, count, &state[0], &cursor, &out, want, first, end, &fault)
    columns.rows, columns.headers = out.rows, out.headers
    state[1], state[2], state[3] = cursor.record, cursor.position, cursor.delta
    if status == WALK_FAULT:
        if fault.code != FAULT_UNSUPPORTED and fault.code != FAULT_COUNT_FIELD and fault.code < FAULT_MESSAGE_END:
            cursor.record, cursor.position, cursor.delta = fault.record, fault.position, fault.delta
            check(source.data, &table[state[0]], &out, &cursor, want, &fault, PY_SSIZE_T_MAX)
        return decode_error(&table[state[0]], &fault)
    if out.rows == 0 and status != WALK_DONE:
        if status == WALK_FULL_HEADERS:
            columns.grow_headers(max(2 * header_capacity, 16))
        else:
            columns.grow_data()
        return decode_records(buffer, batches, columns, first_offset, end_offset)
    return None

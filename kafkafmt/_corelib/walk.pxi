# The deep walk through one batch of format 2: its records into the caller's columns, without the GIL.
#
# Each record's length is checked once against the batch; then its
# varints are read without further checks while 32 bytes and more lie behind the record, checked otherwise. Keys,
# values and header fields are compared with the record's end always. An unchecked read may notice a fault late: the
# record at fault is then walked once more, every read checked, so that the message names what the specification names.

cdef extern from *:
    """
    #define KF_MAX_MILLIS (INT64_MAX / 1000)
    #define KF_MICROS_BEYOND INT64_MIN          /* as in constants.py */
    #define KF_MICROS_NONE (INT64_MIN + 1)
    """
    const int64_t KF_MAX_MILLIS
    const int64_t KF_MICROS_BEYOND
    const int64_t KF_MICROS_NONE

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
    FAULT_MANY_HEADERS = 101        # with their number in Fault.delta
    SLACK = 32
    AHEAD = 512

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
    int64_t* timestamp_micros
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
    int32_t max_headers         # of one record
    Py_ssize_t rows
    Py_ssize_t headers
    bint odd_times              # a timestamp that microseconds cannot hold, or none, was met

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


cdef inline int64_t micros(Columns* out, int64_t millis, int32_t timestamp_type) noexcept nogil:
    """A timestamp in microseconds, or what stands for none and for one that they cannot hold."""
    if KF_LIKELY(timestamp_type >= 0 and -KF_MAX_MILLIS <= millis <= KF_MAX_MILLIS):
        return millis * 1000
    out.odd_times = True
    return KF_MICROS_NONE if timestamp_type < 0 else KF_MICROS_BEYOND


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
                     int64_t first_offset, int64_t last_offset, Fault* fault, Py_ssize_t slack=SLACK, bint copied=False,
                     bint easy=False, Py_ssize_t ahead=AHEAD) noexcept nogil:
    """The records of one batch from the cursor on; `give` fills columns, else they are only checked.

    easy: all of them are wanted, and fit; copies with room to spare. ahead: bytes from here to what is read after this batch, which
    is fetched meanwhile.
    """
    cdef const uint8_t* end = base + batch.payload_position + batch.payload_size
    cdef const uint8_t* p = base + cursor.position
    cdef const uint8_t* start
    cdef const uint8_t* stop
    cdef const uint8_t* q
    cdef const uint8_t* later
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
        if ahead == AHEAD:
            KF_PREFETCH(stop + AHEAD)
        else:
            later = start + ahead
            while later < stop + ahead:
                KF_PREFETCH(later)
                later += 64
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
        inside = easy or (offset >= first_offset and offset <= last_offset)
        if want & WANT_HEADERS:
            if header_count:
                if KF_UNLIKELY(header_count > out.max_headers):
                    last_delta = header_count
                    code = FAULT_MANY_HEADERS
                    break
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
            timestamp = batch.max_timestamp if timestamp_type else <int64_t>(<uint64_t>batch.base_timestamp + <uint64_t>timestamp_delta)
            if out.timestamp != NULL:
                out.timestamp[row] = timestamp
            if out.timestamp_micros != NULL:
                out.timestamp_micros[row] = micros(out, timestamp, timestamp_type)
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

ctypedef int (*Walk)(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want, int64_t first_offset,
                     int64_t last_offset, Fault* fault, bint easy, Py_ssize_t ahead) noexcept nogil


cdef int give_bodies(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want, int64_t first_offset,
                     int64_t last_offset, Fault* fault, bint easy, Py_ssize_t ahead) noexcept nogil:
    if easy:
        return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE, True, 0, 0, fault, SLACK, False, True, ahead)
    return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE, True, first_offset, last_offset, fault)


cdef int give_all(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want, int64_t first_offset,
                  int64_t last_offset, Fault* fault, bint easy, Py_ssize_t ahead) noexcept nogil:
    if easy:
        return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE | WANT_HEADERS, True, 0, 0, fault, SLACK, False, True, ahead)
    return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE | WANT_HEADERS, True, first_offset, last_offset, fault)


cdef int give_any(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want, int64_t first_offset,
                  int64_t last_offset, Fault* fault, bint easy, Py_ssize_t ahead) noexcept nogil:
    return walk(base, batch, out, cursor, want, True, first_offset, last_offset, fault)


cdef int give_copies(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want, int64_t first_offset,
                     int64_t last_offset, Fault* fault, bint easy, Py_ssize_t ahead) noexcept nogil:
    if easy and want == (WANT_KEY | WANT_VALUE):
        return walk(base, batch, out, cursor, WANT_KEY | WANT_VALUE, True, 0, 0, fault, SLACK, True, True, ahead)
    if easy:
        return walk(base, batch, out, cursor, want, True, 0, 0, fault, SLACK, True, True, ahead)
    return walk(base, batch, out, cursor, want, True, first_offset, last_offset, fault, SLACK, True)


cdef inline Walk chosen_walk(const Columns* out, int want) noexcept nogil:
    if out.key.offsets != NULL or out.value.offsets != NULL:
        return give_copies
    if want == (WANT_KEY | WANT_VALUE):
        return give_bodies
    if want == (WANT_KEY | WANT_VALUE | WANT_HEADERS):
        return give_all
    return give_any


cdef inline bint is_easy(const uint8_t* base, const Batch* b, const Columns* out, int64_t first_offset, int64_t last_offset) noexcept nogil:
    """Whether every record of a batch is wanted and fits, copies in whole steps."""
    return lies_between(b, first_offset, last_offset) and has_slack(base, b, out) and fits(b, out)


cdef inline bint lies_between(const Batch* b, int64_t first_offset, int64_t last_offset) noexcept nogil:
    return b.last_offset_delta >= 0 and first_offset <= b.base_offset <= last_offset \
        and <uint64_t>last_offset - <uint64_t>b.base_offset >= <uint64_t>b.last_offset_delta


cdef inline bint has_slack(const uint8_t* base, const Batch* b, const Columns* out) noexcept nogil:
    """Whether enough of the buffer lies behind a batch for copies in whole steps, where copies are wanted."""
    return (out.key.offsets == NULL and out.value.offsets == NULL) or \
        out.source_end - base - b.payload_position - b.payload_size >= COPY_SLACK


cdef inline bint fits(const Batch* b, const Columns* out) noexcept nogil:
    """Whether the columns have room for every record of a batch, and behind copies for whole steps."""
    cdef Py_ssize_t need = <Py_ssize_t>b.payload_size + COPY_SLACK
    return b.count <= out.capacity - out.rows and (
        out.key.offsets == NULL or out.key.room - out.key.filled >= need
    ) and (out.value.offsets == NULL or out.value.room - out.value.filled >= need)


cdef int check(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want, Fault* fault,
               Py_ssize_t slack) noexcept nogil:
    return walk(base, batch, out, cursor, want, False, 0, 0, fault, slack)

# Decode the records of one batch of magic 2 into the caller's columns, without the GIL.
#
# The length of each record is compared with the end of the batch.
# If at least SLACK bytes of the batch follow a record, the varints of the record cannot extend past the batch.
# In this case, the varints of the record are read without bounds checks.
# The lengths of the key, the value and the headers are always compared with the end of the record.
#
# Without bounds checks, an error can be detected one field late.
# Therefore, decode_records() decodes a faulty record again, with every read checked.
# As a result, the native core reports the same field as the pure-Python core.

cdef enum:
    # Bits for the fields of the record body that the columns need.
    WANT_KEY = 1
    WANT_VALUE = 2
    WANT_HEADERS = 4

    # Return values of walk_batch() and its callers.
    WALK_DONE = 0
    WALK_FULL = 1               # the columns have no free row
    WALK_FULL_HEADERS = 2       # the header columns are too small for the next record
    WALK_FULL_DATA = 3          # the Arrow data buffers are too small for the next record
    WALK_FAULT = 4
    WALK_ODD = 5                # mode EASY: the batch has an odd offset delta, so the batch must be decoded in another mode

    # Values of Fault.code that are not indexes of FAULTS.
    FAULT_UNSUPPORTED = 100
    FAULT_MANY_HEADERS = 101    # Fault.delta is the number of headers

    SLACK = 32                  # Up to and including the header count, a record has at most 31 bytes of attributes and varints.
    AHEAD = 512                 # default prefetch distance in bytes

    # Bits for the modes of walk_batch().
    # Callers pass constants, so that the compiler creates a separate function for each combination that is used.
    CHECK_ONLY = 0              # check the records without storing them
    STORE = 1                   # fill the columns
    COPY = 2                    # copy keys and values into Arrow buffers instead of storing their positions and lengths
    EASY = 4                    # All records are requested and fit, and COPY_SLACK bytes follow the source and the copies.
    CAREFUL = 8                 # check every read

cdef struct OffsetRange:        # Both ends are inclusive, because an exclusive end could not include the offset 2**63 - 1.
    int64_t first
    int64_t last

cdef struct Binary:             # an Arrow binary column
    int32_t* offsets            # NULL if the column is not copied
    uint8_t* data
    uint8_t* validity           # All bits are initially 1. The bits of nulls are cleared.
    Py_ssize_t filled           # number of bytes of `data` in use
    Py_ssize_t room             # size of `data` in bytes

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
    int32_t max_headers         # largest number of headers of one record
    Py_ssize_t rows
    Py_ssize_t headers
    bint odd_times              # timestamp_micros contains MICROS_BEYOND or MICROS_NONE
    bint late_times             # timestamp contains a timestamp after the maximum timestamp in the header of its batch
    bint odd_offsets            # the offset delta of a record is negative, above the last offset delta, or not above the previous one

cdef struct Cursor:             # a position between two records of a batch
    int64_t record              # number of records before this position
    int64_t position            # position of the next record in the buffer
    int64_t delta               # offset delta of the previous record; -1 before the first record

cdef struct Fault:
    int code                    # an index of FAULTS, or a FAULT_ code
    int64_t record              # number of records before the faulty record
    int64_t position
    int64_t delta


cdef inline const uint8_t* get_varint_unchecked(const uint8_t* p, int32_t* out) noexcept nogil:
    """Read a zigzag varint of at most 5 bytes, without a bounds check.

    Return the position after the varint, or NULL if the varint is longer.
    """
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
    return get_varint(p, end, out) if checked else get_varint_unchecked(p, out)


cdef inline const uint8_t* short_or_long_varint(const uint8_t* p, const uint8_t* end, int32_t* out) noexcept nogil:
    """Read a varint. Varints of one byte, which are the most common in headers, are read without a loop."""
    if KF_LIKELY(p < end and p[0] < 0x80):
        out[0] = <int32_t>(p[0] >> 1) ^ -<int32_t>(p[0] & 1)
        return p + 1
    return get_varint(p, end, out)


cdef inline int decode_headers(const uint8_t* base, const uint8_t* p, const uint8_t* end, int32_t count, Columns* out,
                               Py_ssize_t h) noexcept nogil:
    """Check the `count` headers of a record that ends at `end`.

    Return an index of FAULTS, or 0 if the headers are valid. Unless `h` is negative, the headers are
    stored, beginning at row `h`.
    """
    cdef int32_t i, n
    for i in range(count):
        p = short_or_long_varint(p, end, &n)
        if p == NULL or n < 0 or n > end - p:
            return FAULT_HEADER_KEY
        if h >= 0:
            out.header_key_position[h] = p - base
            out.header_key_length[h] = n
        p += n
        p = short_or_long_varint(p, end, &n)
        if p == NULL or n > end - p:
            return FAULT_HEADER_VALUE
        if h >= 0:
            out.header_value_position[h] = p - base
            out.header_value_length[h] = n if n >= 0 else -1
            h += 1
        if n > 0:
            p += n
    return 0 if p == end else FAULT_RECORD_REST


cdef inline int64_t micros_of(Columns* out, int64_t millis, int32_t timestamp_type) noexcept nogil:
    """Convert a timestamp in ms to microseconds, or to MICROS_NONE or MICROS_BEYOND."""
    if KF_LIKELY(timestamp_type >= 0 and -MAX_MILLIS <= millis <= MAX_MILLIS):
        return millis * 1000
    out.odd_times = True
    return MICROS_NONE if timestamp_type < 0 else MICROS_BEYOND


cdef inline void append_binary(Binary* column, Py_ssize_t row, const uint8_t* p, int32_t n, bint slack) noexcept nogil:
    """Append a value of `n` bytes to a column with sufficient capacity, or a null if `n` is -1."""
    if KF_LIKELY(n >= 0):
        copy_span(column.data + column.filled, p, n, slack)
        column.filled += n
    else:
        column.validity[row >> 3] &= <uint8_t>~(1 << (row & 7))
    column.offsets[row + 1] = <int32_t>column.filled


cdef void discard_rows(Columns* out, Py_ssize_t rows, Py_ssize_t end) noexcept nogil:
    """Remove the rows from `rows` to `end`. Reset their validity bits, and release their data."""
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


cdef inline int walk_batch(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, Fault* fault, int want, int mode,
                           const OffsetRange* wanted, Py_ssize_t ahead) noexcept nogil:
    """Decode the records of one batch, starting at `cursor`.

    Return a WALK_ code. If the code is WALK_FAULT, no row is added.

    - want: WANT_ bits of the fields to store. All fields are checked, so that the requested columns
      do not affect which batches are corrupted.
    - mode: STORE, COPY, EASY and CAREFUL. EASY omits the checks of the offset range and of the row
      capacity, but not the check of the header capacity.
    - wanted: range of offsets. Records with other offsets are checked, but not stored. The range is
      NULL unless STORE is set and EASY is not set.
    - ahead: prefetch distance in bytes. decode_plain() passes the size of the batch, so that the
      next batch is loaded while the current batch is decoded.
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
    cdef int32_t timestamp_type = LOG_APPEND_TIME if batch.attributes & LOG_APPEND_TIME_BIT else CREATE_TIME
    cdef Py_ssize_t row = out.rows, header = out.headers
    cdef bint store = mode & STORE, copy = mode & COPY, easy = mode & EASY, checked, inside, odd = False
    cdef int fault_code = 0, full = WALK_DONE
    cdef int64_t first_offset = 0, last_offset = 0
    cdef Binary keys = out.key, values = out.value
    if store and not easy:
        first_offset, last_offset = wanted.first, wanted.last
    while record < count:
        start = p
        if store and not easy and row == out.capacity:
            full = WALK_FULL
            break
        if KF_LIKELY(end - p >= SLACK):
            q = get_varint_unchecked(p, &length)
        else:
            q = get_varint(p, end, &length)
        if q == NULL:
            fault_code = FAULT_LENGTH
            break
        if length < 0 or length > end - q:
            fault_code = FAULT_RECORD_END
            break
        stop = q + length
        if ahead == AHEAD:
            KF_PREFETCH(stop + AHEAD)
        else:
            later = start + ahead
            while later < stop + ahead:
                KF_PREFETCH(later)
                later += 64
        checked = mode & CAREFUL or end - stop < SLACK
        p = q + 1                                   # skip the record's attributes, which are unused
        if checked and length < 1:
            fault_code = FAULT_TIMESTAMP
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
                fault_code = FAULT_TIMESTAMP
                break
        p = varint32(p, stop, &delta, checked)
        if p == NULL:
            fault_code = FAULT_OFFSET
            break
        if KF_UNLIKELY(delta <= last_delta or delta > batch.last_offset_delta):
            if easy:
                full = WALK_ODD
                break
            odd = True
        offset = <int64_t>(<uint64_t>batch.base_offset + <uint64_t>delta)
        p = varint32(p, stop, &key_length, checked)
        if KF_UNLIKELY(p == NULL or p > stop or key_length > stop - p):
            fault_code = FAULT_KEY
            break
        key_position = p - base
        if key_length > 0:
            p += key_length
        elif key_length < 0:
            key_length = -1
        p = varint32(p, stop, &value_length, checked)
        if KF_UNLIKELY(p == NULL or p > stop or value_length > stop - p):
            fault_code = FAULT_VALUE
            break
        value_position = p - base
        if value_length > 0:
            p += value_length
        elif value_length < 0:
            value_length = -1
        header_count = 0
        if KF_UNLIKELY(stop - p != 1 or p[0]):      # Most records have no headers, so that their last byte is the count 0.
            p = varint32(p, stop, &header_count, checked)
            if KF_UNLIKELY(p == NULL or p > stop or header_count < 0 or header_count > stop - p):
                fault_code = FAULT_HEADER_COUNT
                break
            if header_count == 0 and p != stop:     # The count 0 can also be a varint of several bytes.
                fault_code = FAULT_RECORD_REST
                break
        inside = easy or (offset >= first_offset and offset <= last_offset)
        if header_count:
            if KF_UNLIKELY(header_count > out.max_headers):
                last_delta = header_count
                fault_code = FAULT_MANY_HEADERS
                break
            if want & WANT_HEADERS and KF_UNLIKELY(store and inside and header_count > out.header_capacity - header):
                fault_code = decode_headers(base, p, stop, header_count, out, -1)
                if fault_code == 0:
                    full = WALK_FULL_HEADERS
                break
            fault_code = decode_headers(base, p, stop, header_count, out, header if want & WANT_HEADERS and store and inside else -1)
            if fault_code:
                break
        if store and copy and not easy and inside:
            if KF_UNLIKELY((want & WANT_KEY and key_length > keys.room - keys.filled)
                           or (want & WANT_VALUE and value_length > values.room - values.filled)):
                full = WALK_FULL_DATA
                break
        p = stop
        record += 1
        last_delta = delta
        if store:
            if out.offset != NULL:
                out.offset[row] = offset
            timestamp = batch.max_timestamp if timestamp_type else <int64_t>(<uint64_t>batch.base_timestamp + <uint64_t>timestamp_delta)
            if out.timestamp != NULL:
                out.timestamp[row] = timestamp
                if KF_UNLIKELY(timestamp > batch.max_timestamp) and inside:
                    out.late_times = True
            if out.timestamp_micros != NULL:
                out.timestamp_micros[row] = micros_of(out, timestamp, timestamp_type)
            if out.timestamp_type != NULL:
                out.timestamp_type[row] = timestamp_type
            if copy:
                if inside:
                    if want & WANT_KEY:
                        append_binary(&keys, row, base + key_position, key_length, easy)
                    if want & WANT_VALUE:
                        append_binary(&values, row, base + value_position, value_length, easy)
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
                if want & WANT_HEADERS:
                    header += header_count
    if fault_code == 0 and full == WALK_DONE and p != end:
        start = p
        fault_code = FAULT_BATCH_REST
    if store and copy:
        out.key.filled = keys.filled
        out.value.filled = values.filled
        if fault_code:
            discard_rows(out, out.rows, row)
    if fault_code:
        fault.code = fault_code
        fault.record = record
        fault.position = start - base
        fault.delta = last_delta
        return WALK_FAULT
    if odd:
        out.odd_offsets = True
    out.rows = row
    out.headers = header
    cursor.record = record
    cursor.position = start - base if full else p - base
    cursor.delta = last_delta
    return full


# walk_batch() is compiled into a separate function for each of the most common combinations of columns.
# decode_records() chooses one of these functions once per call.

ctypedef int (*BatchWalk)(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, Fault* fault, int want,
                          const OffsetRange* wanted, bint easy, Py_ssize_t ahead) noexcept nogil


cdef int walk_keys_values(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, Fault* fault, int want,
                          const OffsetRange* wanted, bint easy, Py_ssize_t ahead) noexcept nogil:
    if easy:
        return walk_batch(base, batch, out, cursor, fault, WANT_KEY | WANT_VALUE, STORE | EASY, NULL, ahead)
    return walk_batch(base, batch, out, cursor, fault, WANT_KEY | WANT_VALUE, STORE, wanted, AHEAD)


cdef int walk_all_fields(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, Fault* fault, int want,
                         const OffsetRange* wanted, bint easy, Py_ssize_t ahead) noexcept nogil:
    if easy:
        return walk_batch(base, batch, out, cursor, fault, WANT_KEY | WANT_VALUE | WANT_HEADERS, STORE | EASY, NULL, ahead)
    return walk_batch(base, batch, out, cursor, fault, WANT_KEY | WANT_VALUE | WANT_HEADERS, STORE, wanted, AHEAD)


cdef int walk_any_fields(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, Fault* fault, int want,
                         const OffsetRange* wanted, bint easy, Py_ssize_t ahead) noexcept nogil:
    if easy:
        return walk_batch(base, batch, out, cursor, fault, want, STORE | EASY, NULL, ahead)
    return walk_batch(base, batch, out, cursor, fault, want, STORE, wanted, AHEAD)


cdef int walk_copies(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, Fault* fault, int want,
                     const OffsetRange* wanted, bint easy, Py_ssize_t ahead) noexcept nogil:
    if easy and want == (WANT_KEY | WANT_VALUE):
        return walk_batch(base, batch, out, cursor, fault, WANT_KEY | WANT_VALUE, STORE | COPY | EASY, NULL, ahead)
    if easy:
        return walk_batch(base, batch, out, cursor, fault, want, STORE | COPY | EASY, NULL, ahead)
    return walk_batch(base, batch, out, cursor, fault, want, STORE | COPY, wanted, AHEAD)


cdef inline BatchWalk choose_walk(const Columns* out, int want) noexcept nogil:
    if out.key.offsets != NULL or out.value.offsets != NULL:
        return walk_copies
    if want == (WANT_KEY | WANT_VALUE):
        return walk_keys_values
    if want == (WANT_KEY | WANT_VALUE | WANT_HEADERS):
        return walk_all_fields
    return walk_any_fields


cdef int check_batch(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want, Fault* fault) noexcept nogil:
    """Check the records of a batch, beginning at `cursor`, without storing them."""
    return walk_batch(base, batch, out, cursor, fault, want, CHECK_ONLY, NULL, AHEAD)


cdef int check_batch_carefully(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, int want,
                               Fault* fault) noexcept nogil:
    """Check the records of a batch, with every read checked, as the pure-Python core does."""
    return walk_batch(base, batch, out, cursor, fault, want, CAREFUL, NULL, AHEAD)


cdef inline bint batch_is_easy(const uint8_t* base, const Batch* b, const Columns* out, const OffsetRange* wanted) noexcept nogil:
    """Return whether a batch can be decoded in the mode EASY."""
    return batch_in_range(b, wanted) and batch_has_slack(base, b, out) and batch_fits(b, out)


cdef inline bint batch_in_range(const Batch* b, const OffsetRange* wanted) noexcept nogil:
    """Return whether all offsets in the header of a batch are in the requested range."""
    return b.last_offset_delta >= 0 and wanted.first <= b.base_offset <= wanted.last \
        and <uint64_t>wanted.last - <uint64_t>b.base_offset >= <uint64_t>b.last_offset_delta


cdef inline bint batch_has_slack(const uint8_t* base, const Batch* b, const Columns* out) noexcept nogil:
    """Return True if COPY_SLACK bytes follow the batch, or if the columns store no copies."""
    return (out.key.offsets == NULL and out.value.offsets == NULL) or \
        out.source_end - base - b.payload_position - b.payload_size >= COPY_SLACK


cdef inline bint batch_fits(const Batch* b, const Columns* out) noexcept nogil:
    """Return whether every record of a batch fits, with COPY_SLACK bytes after the copies."""
    cdef Py_ssize_t need = <Py_ssize_t>b.payload_size + COPY_SLACK
    return b.count <= out.capacity - out.rows and (
        out.key.offsets == NULL or out.key.room - out.key.filled >= need
    ) and (out.value.offsets == NULL or out.value.room - out.value.filled >= need)

# Decode the records of many batches in one call. The batches are rows of a table, or plain batches in a buffer.
#
# A batch is stored completely or not at all, so that no records of a corrupted batch are returned.
# If a batch does not fit into empty columns, the complete batch is checked first, and then stored in parts.

include "legacy.pxi"


cdef int decode_batches(const uint8_t* base, const Batch* batches, Py_ssize_t count, int64_t* batch, Cursor* cursor, Columns* out,
                        int want, const OffsetRange* wanted, Fault* fault) noexcept nogil:
    """Decode batches, beginning with `batch`.

    Return WALK_DONE, a WALK_FULL code if the columns are full, or WALK_FAULT if a batch is
    corrupted.
    """
    cdef const Batch* b
    cdef Py_ssize_t rows, headers
    cdef Cursor probe
    cdef bint whole, easy
    cdef int status
    cdef BatchWalk decode_batch = choose_walk(out, want)
    while batch[0] < count:
        b = &batches[batch[0]]
        rows = out.rows
        headers = out.headers
        whole = cursor.record == 0
        if b.magic == MAGIC_V0 or b.magic == MAGIC_V1:
            if whole and not b.attributes & CODEC_MASK:
                rows = batch[0]
                batch[0] = decode_plain_messages(base, batches, count, rows, out, wanted)
                if batch[0] > rows:
                    continue
            status = decode_set(base, b, out, cursor, wanted, fault)
            if status != WALK_DONE:
                return status
            batch[0] += 1
            cursor.record = 0
            continue
        if whole:
            if b.magic != MAGIC_V2:
                fault.code = FAULT_UNSUPPORTED
                fault.position = b.position
                return WALK_FAULT
            if b.count < 0 or b.count > b.payload_size // MIN_RECORD_SIZE:
                fault.code = FAULT_COUNT
                fault.position = b.payload_position
                return WALK_FAULT
            cursor.position = b.payload_position
            cursor.delta = -1
            if b.count > out.capacity - rows:
                if rows:
                    return WALK_FULL
                whole = False
                probe = cursor[0]
                if check_batch(base, b, out, &probe, want, fault) == WALK_FAULT:
                    return WALK_FAULT
        probe = cursor[0]
        easy = cursor.record == 0 and batch_is_easy(base, b, out, wanted)
        status = decode_batch(base, b, out, cursor, fault, want, wanted, easy, AHEAD)
        if status == WALK_ODD:
            discard_rows(out, rows, out.rows)
            out.headers = headers
            cursor[0] = probe
            status = decode_batch(base, b, out, cursor, fault, want, wanted, False, AHEAD)
        if status == WALK_FAULT:
            return WALK_FAULT
        if status != WALK_DONE:
            if not whole:
                return WALK_FULL if out.rows else status
            # The bytes or headers of the batch do not fit into the columns.
            # If the columns contain rows, the next call stores the batch into empty columns.
            # If the columns are empty, the batch is checked and then stored in parts.
            discard_rows(out, rows, out.rows)
            out.headers = headers
            cursor[0] = probe
            if rows:
                return WALK_FULL
            if check_batch(base, b, out, &probe, want, fault) == WALK_FAULT:
                return WALK_FAULT
            status = decode_batch(base, b, out, cursor, fault, want, wanted, False, AHEAD)
            return WALK_FULL if out.rows else status
        batch[0] += 1
        cursor.record = 0
    return WALK_DONE


cdef decode_error(const Batch* batch, Fault* fault, int32_t max_headers):
    if fault.code == FAULT_UNSUPPORTED:
        return UnsupportedError(f"magic {batch.magic} is not supported", fault.position, batch.base_offset)
    if fault.code == FAULT_MANY_HEADERS:
        return TooLargeError(TOO_MANY_HEADERS.format(count=fault.delta, limit=max_headers), fault.position, batch.base_offset)
    return StructureError(FAULTS[fault.code], fault.position, batch.base_offset)


cdef int open_binary(Arrays arrays, Binary* column, Py_ssize_t capacity, offsets, data, validity) except -1:
    column.offsets = <int32_t*>arrays.take(offsets, capacity + 1, 4)
    column.data = column.validity = NULL
    column.filled = column.room = 0
    if column.offsets != NULL:
        column.validity = <uint8_t*>required(arrays.take(validity, (capacity + 7) // 8, 1))
        column.data = <uint8_t*>required(arrays.take(data, 0, 1))
        column.room = min(arrays.size(), MAX_INT32)
    return 0


cdef int load_filled(Binary* column, Py_ssize_t rows) except -1:
    if column.offsets != NULL:
        column.filled = column.offsets[rows]
        if column.filled < 0 or column.filled > column.room:
            raise ValueError("the data filled so far exceeds the data array")
    return 0


cdef int open_columns(Arrays arrays, Source source, columns, Columns* out) except -1:
    """Fill `out` from the caller's columns, and return the WANT_ bits of the required fields."""
    cdef Py_ssize_t capacity = natural(columns.capacity), header_capacity = natural(columns.header_capacity)
    cdef int want = 0
    out.offset = <int64_t*>arrays.take(columns.offset, capacity, 8)
    out.timestamp = <int64_t*>arrays.take(columns.timestamp, capacity, 8)
    out.timestamp_type = <int32_t*>arrays.take(columns.timestamp_type, capacity, 4)
    out.timestamp_micros = <int64_t*>arrays.take(columns.timestamp_micros, capacity, 8)
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
    open_binary(arrays, &out.key, capacity, columns.key_offsets, columns.key_data, columns.key_validity)
    open_binary(arrays, &out.value, capacity, columns.value_offsets, columns.value_data, columns.value_validity)
    out.capacity = capacity
    out.header_capacity = header_capacity
    out.max_headers = min(natural(columns.max_headers), MAX_INT32)
    out.rows = natural(columns.rows)
    out.headers = natural(columns.headers)
    out.odd_times = out.late_times = out.odd_offsets = False
    if capacity == 0 or out.rows > capacity or out.headers > header_capacity:
        raise ValueError("columns.rows or columns.headers exceeds the capacity")
    load_filled(&out.key, out.rows)
    load_filled(&out.value, out.rows)
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
        raise TypeError("a column of lengths has no column of positions")
    if (out.key.offsets != NULL and out.value_length != NULL) or (out.value.offsets != NULL and out.key_length != NULL):
        raise TypeError("key and value must both be copied, or both be spans")
    out.source_end = source.data + source.size
    return want


cdef close_columns(columns, Columns* out):
    columns.rows, columns.headers = out.rows, out.headers
    if out.odd_times:
        columns.odd_times = True
    if out.late_times:
        columns.late_times = True
    if out.odd_offsets:
        columns.odd_offsets = True


cdef OffsetRange offset_range(object first_offset, object end_offset) except *:
    """Return the range of offsets from `first_offset` to `end_offset`, which is exclusive."""
    cdef OffsetRange wanted = OffsetRange(first_offset, INT64_MAX)
    cdef int64_t end
    if end_offset is not None:
        end = end_offset
        if end == INT64_MIN:                        # No offset is below this end.
            return OffsetRange(0, -1)
        wanted.last = end - 1
    return wanted


cdef enum:
    FAULT_COLUMNS = 3               # number of columns of the array `faults`: row of the batch, index of FAULTS, position


cdef int decode_valid_batches(const uint8_t* base, const Batch* batches, Py_ssize_t count, int64_t* batch, Cursor* cursor, Columns* out,
                              int want, const OffsetRange* wanted, Fault* fault, int64_t* faults, Py_ssize_t capacity,
                              Py_ssize_t* fault_count) noexcept nogil:
    """Decode batches as decode_batches() does, but skip corrupted batches, and add a row to `faults` for each of them.

    Return WALK_FAULT at a corrupted batch if `faults` is full, or if FAULTS does not contain the
    error message.
    """
    cdef int status
    cdef int64_t* row
    cdef Cursor probe
    while True:
        status = decode_batches(base, batches, count, batch, cursor, out, want, wanted, fault)
        if status != WALK_FAULT:
            return status
        if fault.code != FAULT_UNSUPPORTED and fault.code != FAULT_COUNT and fault.code < FAULT_MESSAGE_END:
            probe.record, probe.position, probe.delta = fault.record, fault.position, fault.delta
            check_batch_carefully(base, &batches[batch[0]], out, &probe, want, fault)
        if fault.code >= FAULT_UNSUPPORTED or fault_count[0] == capacity:
            return WALK_FAULT
        row = faults + FAULT_COLUMNS * fault_count[0]
        row[0], row[1], row[2] = batch[0], fault.code, fault.position
        fault_count[0] += 1
        batch[0] += 1
        cursor.record = cursor.position = cursor.delta = 0


cdef decode_table(buffer, batches, columns, first_offset, end_offset, int64_t* faults, Py_ssize_t capacity, Py_ssize_t* fault_count):
    """Decode batches until the columns are full. Return the error of the first batch that cannot be added to `faults`."""
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count = len(batches), i
    cdef const Batch* table = <const Batch*>arrays.take(batches, count, sizeof(Batch), False)
    cdef int64_t* state = <int64_t*>required(arrays.take(columns.cursor, 4, 8))
    cdef OffsetRange wanted = offset_range(first_offset, end_offset)
    cdef int64_t at = state[0]      # Copy the cursor. Another thread could change the original after the check.
    cdef Columns out
    cdef Cursor cursor
    cdef Fault fault
    cdef int status, want = open_columns(arrays, source, columns, &out)
    for i in range(max(at, 0), count):
        if table[i].payload_position < 0 or table[i].payload_size < 0 or table[i].payload_position > source.size \
                or table[i].payload_size > source.size - table[i].payload_position:
            raise ValueError(f"the payload of row {i} of the table is outside the buffer")
    cursor.record, cursor.position, cursor.delta = state[1], state[2], state[3]
    if at < 0 or cursor.record < 0 or (at < count and cursor.record and (
        (table[at].magic == MAGIC_V2 and cursor.record > table[at].count) or cursor.position < table[at].payload_position
        or cursor.position > table[at].payload_position + table[at].payload_size
    )):
        raise ValueError("the cursor is outside the table of batches")
    with nogil:
        status = decode_valid_batches(source.data, table, count, &at, &cursor, &out, want, &wanted, &fault, faults, capacity,
                                      fault_count)
    close_columns(columns, &out)
    state[0], state[1], state[2], state[3] = at, cursor.record, cursor.position, cursor.delta
    if status == WALK_FAULT:
        return decode_error(&table[at], &fault, out.max_headers)
    if out.rows == 0 and status != WALK_DONE:
        if status == WALK_FULL_HEADERS:
            columns.grow_headers(min(max(2 * out.header_capacity, 16), max(out.max_headers, 16)))
        else:
            columns.grow_data()
        return decode_table(buffer, batches, columns, first_offset, end_offset, faults, capacity, fault_count)
    return None


def decode_records(buffer, batches, columns, first_offset=-(2**63), end_offset=None):
    cdef Py_ssize_t fault_count = 0
    return decode_table(buffer, batches, columns, first_offset, end_offset, NULL, 0, &fault_count)


def decode_valid_records(buffer, batches, columns, faults, first_offset=-(2**63), end_offset=None):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t fault_count = 0, capacity = len(faults)
    cdef int64_t* rows = <int64_t*>required(arrays.take(faults, FAULT_COLUMNS * capacity, 8))
    error = decode_table(buffer, batches, columns, first_offset, end_offset, rows, capacity, &fault_count)
    return fault_count, error


cdef enum:
    NOT_PLAIN_BITS = CODEC_MASK | CONTROL_BIT
    L1_SIZE = 32768                  # Largest size in bytes of a batch that stays in the L1 cache during check and decoding.


cdef const uint8_t* decode_plain(const uint8_t* base, const uint8_t* p, const uint8_t* end, Columns* out, int want,
                                 const OffsetRange* wanted, bint check_crc, bint* full) noexcept nogil:
    """Decode plain batches, beginning at `p`.

    Return the position of the first batch that is not plain, is corrupted, or might not fit into
    the columns.

    Each byte is loaded from memory only once. The CRC of a batch is checked and its records are
    decoded while the batch is in the L1 cache. Meanwhile, the next batch is prefetched.
    """
    cdef Batch b
    cdef Cursor cursor
    cdef Fault fault
    cdef Py_ssize_t rows, headers
    cdef int32_t length
    cdef int status
    cdef BatchWalk decode_batch = choose_walk(out, want)
    full[0] = False
    while end - p >= BATCH_HEADER_SIZE:
        length = int32_at(p + LENGTH_AT)
        if p[MAGIC_AT] != MAGIC_V2 or length < MIN_BATCH_LENGTH or length > MAX_BATCH_LENGTH or length > end - p - ENTRY_OVERHEAD or int16_at(p + ATTRIBUTES_AT) & NOT_PLAIN_BITS:
            break
        read_batch_header(base, p, length, &b)
        if b.count < 0 or b.count > b.payload_size // MIN_RECORD_SIZE:
            break
        if not batch_in_range(&b, wanted) or not batch_has_slack(base, &b, out):
            break
        if not batch_fits(&b, out):
            full[0] = True
            break
        if check_crc and actual_crc(p, length) != stored_crc(p):
            break
        rows = out.rows
        headers = out.headers
        cursor.record = 0
        cursor.position = b.payload_position
        cursor.delta = -1
        status = decode_batch(base, &b, out, &cursor, &fault, want, wanted, True, b.size if b.size <= L1_SIZE else AHEAD)
        if status != WALK_DONE:
            if status != WALK_FAULT:
                discard_rows(out, rows, out.rows)
                out.headers = headers
                full[0] = status != WALK_ODD
            break
        p += b.size
    return p


def decode_plain_batches(buffer, columns, start=0, end=None, first_offset=-(2**63), end_offset=None, check_crc=True):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Columns out
    cdef int want = open_columns(arrays, source, columns, &out)
    cdef Py_ssize_t begin, stop
    cdef OffsetRange wanted = offset_range(first_offset, end_offset)
    cdef const uint8_t* p
    cdef bint check = check_crc, full
    begin, stop = bounds(source, start, end)
    with nogil:
        p = decode_plain(source.data, source.data + begin, source.data + stop, &out, want, &wanted, check, &full)
    close_columns(columns, &out)
    columns.full = full
    return p - source.data

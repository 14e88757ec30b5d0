# Decode messages of magic 0 and 1.
#
# A plain (uncompressed) message is treated as a message set with one message.
# The decompressed value of a wrapper message is also a message set.
#
# Each message set is checked before its messages are returned. The bounds and magic of each message must be valid.
# The CRC-32 of inner messages must match, and inner messages must not be compressed.
# As in Kafka's Java code, an inner message can have another magic than its wrapper, bytes can follow the value of a
# message, and a message that is truncated by the end of its message set is ignored.
# The check also finds the last offset, which is needed to convert the relative offsets of magic 1 to absolute offsets.
# If all messages are requested and certainly fit into the columns, the messages are stored during the check.
# Otherwise, a second pass stores the messages.

cdef enum:
    SET_ENDED = -1

cdef struct Message:
    int64_t offset
    int64_t timestamp               # NO_TIMESTAMP for magic 0
    int32_t size
    uint8_t magic
    int32_t key_length
    int32_t value_length
    int64_t key_position
    int64_t value_position


cdef inline int read_message_fields(const uint8_t* base, const uint8_t* p, const uint8_t* end, Message* m) noexcept nogil:
    """Read the fields of the message at `p`. Return an index of FAULTS, or 0 if the message is valid.

    The caller must ensure that `end` is at least 26 bytes (magic 0) or 34 bytes (magic 1) after
    `p`.
    """
    cdef const uint8_t* stop
    m.size = int32_at(p + LENGTH_AT)
    m.magic = p[MAGIC_AT]
    if m.size < min_length(m.magic) or m.size > end - p - ENTRY_OVERHEAD:
        return FAULT_MESSAGE_END
    stop = p + ENTRY_OVERHEAD + m.size
    m.offset = int64_at(p)
    m.timestamp = int64_at(p + LEGACY_TIMESTAMP_AT) if m.magic else NO_TIMESTAMP
    p += LEGACY_KEY_AT_V1 if m.magic else LEGACY_KEY_AT_V0
    m.key_length = int32_at(p)
    p += 4
    if m.key_length > stop - p - 4:
        return FAULT_MESSAGE_FIELDS
    m.key_position = p - base
    if m.key_length > 0:
        p += m.key_length
    elif m.key_length < 0:
        m.key_length = -1
    m.value_length = int32_at(p)
    p += 4
    m.value_position = p - base
    if m.value_length < 0:
        m.value_length = -1
    return 0 if m.value_length <= stop - p else FAULT_MESSAGE_FIELDS


cdef inline int read_inner_message(const uint8_t* base, const uint8_t* p, const uint8_t* end, Message* m) noexcept nogil:
    """Read and check the inner message at `p`.

    Return an index of FAULTS, 0 if the message is valid, or SET_ENDED if the message set ends before
    or inside the message.
    """
    cdef int32_t size
    cdef int code
    if end - p < ENTRY_OVERHEAD:
        return SET_ENDED
    size = int32_at(p + LENGTH_AT)
    if size < MIN_LEGACY_LENGTH:
        return FAULT_MESSAGE_END
    if size > end - p - ENTRY_OVERHEAD:
        return SET_ENDED
    if p[MAGIC_AT] > MAGIC_V1:
        return FAULT_MESSAGE_MAGIC
    if size < min_length(p[MAGIC_AT]):
        return FAULT_MESSAGE_END
    if p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK:
        return FAULT_NESTED
    code = read_message_fields(base, p, end, m)
    if code == 0 and actual_crc(p, size) != stored_crc(p):
        code = FAULT_MESSAGE_CRC
    return code


cdef inline int32_t legacy_timestamp_type(const Batch* batch) noexcept nogil:
    return TIMESTAMP_TYPE_NONE if batch.magic == MAGIC_V0 else (batch.attributes & LOG_APPEND_TIME_BIT) != 0


cdef inline bint message_fits(const Message* m, const Columns* out) noexcept nogil:
    """Return True if copies of the message's key and value fit, or if the columns store no copies."""
    return (out.key.offsets == NULL or m.key_length <= out.key.room - out.key.filled) and (
        out.value.offsets == NULL or m.value_length <= out.value.room - out.value.filled
    )


cdef inline void store_message(const uint8_t* base, const Message* m, int64_t offset, int32_t timestamp_type, int64_t max_timestamp,
                               Columns* out, Py_ssize_t row) noexcept nogil:
    cdef int64_t timestamp
    cdef bint slack
    if m.magic == MAGIC_V0:
        timestamp_type = TIMESTAMP_TYPE_NONE
    if out.offset != NULL:
        out.offset[row] = offset
    timestamp = max_timestamp if timestamp_type == LOG_APPEND_TIME else m.timestamp
    if out.timestamp != NULL:
        out.timestamp[row] = timestamp
        if KF_UNLIKELY(timestamp > max_timestamp):
            out.late_times = True
    if out.timestamp_micros != NULL:
        out.timestamp_micros[row] = micros_of(out, timestamp, timestamp_type)
    if out.timestamp_type != NULL:
        out.timestamp_type[row] = timestamp_type
    if out.key_length != NULL:
        out.key_position[row] = m.key_position
        out.key_length[row] = m.key_length
    if out.value_length != NULL:
        out.value_position[row] = m.value_position
        out.value_length[row] = m.value_length
    slack = out.source_end - base - m.value_position >= COPY_SLACK
    if out.key.offsets != NULL:
        append_binary(&out.key, row, base + m.key_position, m.key_length, slack and out.key.room - out.key.filled >= COPY_SLACK)
    if out.value.offsets != NULL:
        append_binary(&out.value, row, base + m.value_position, m.value_length, slack and out.value.room - out.value.filled >= COPY_SLACK)
    if out.header_count != NULL:
        out.header_start[row] = out.headers
        out.header_count[row] = 0


cdef inline int scan_set(const uint8_t* base, const Batch* batch, Columns* out, int mode, int64_t* count, int64_t* added,
                         int64_t* highest, Fault* fault) noexcept nogil:
    """Check every message of a message set. In the mode STORE, also store the messages.

    The stored messages keep the offsets of the message set, which can be relative. The caller must
    ensure that the columns have space for all messages. The function stores three results:

    - count: number of messages
    - added: difference between the absolute offsets and the stored offsets
    - highest: highest stored offset
    """
    cdef const uint8_t* p = base + batch.payload_position
    cdef const uint8_t* end = p + batch.payload_size
    cdef bint wrapped = batch.attributes & CODEC_MASK
    cdef Message m
    cdef int code = 0
    cdef int32_t timestamp_type = legacy_timestamp_type(batch)
    memset(&m, 0, sizeof(m))
    count[0] = 0
    added[0] = 0
    highest[0] = INT64_MIN
    while p < end:
        if wrapped:
            code = read_inner_message(base, p, end, &m)
        elif end - p < ENTRY_OVERHEAD + min_length(<uint8_t>batch.magic):
            code = FAULT_MESSAGE_END
        elif p[MAGIC_AT] != <uint8_t>batch.magic:
            code = FAULT_MESSAGE_MAGIC
        else:
            code = read_message_fields(base, p, end, &m)
        if code:
            break
        if mode & STORE:
            store_message(base, &m, m.offset, timestamp_type, batch.max_timestamp, out, out.rows + count[0])
        highest[0] = max(highest[0], m.offset)
        count[0] += 1
        p += ENTRY_OVERHEAD + <Py_ssize_t>m.size
    if code == SET_ENDED:
        code = 0
    if code == 0 and count[0] == 0:
        code = FAULT_EMPTY_SET
    if code == 0 and wrapped and batch.magic == MAGIC_V1 and batch.base_offset != 0:
        added[0] = <int64_t>(<uint64_t>batch.base_offset - <uint64_t>m.offset)
        if batch.base_offset < m.offset:
            code = FAULT_INNER_OFFSET
            p = base + batch.payload_position
    if code:
        fault.code = code
        fault.position = p - base
        return WALK_FAULT
    return WALK_DONE


cdef int decode_set_at_once(const uint8_t* base, const Batch* batch, Columns* out, Fault* fault) noexcept nogil:
    """Decode a message set in one pass. All its messages must be requested.

    Return WALK_FULL, and store no messages, if the message set might not fit into the columns.
    """
    cdef Py_ssize_t need = <Py_ssize_t>batch.payload_size, rows = out.rows, i
    cdef int64_t count, added, highest
    cdef int status
    if need // (ENTRY_OVERHEAD + MIN_LEGACY_LENGTH) > out.capacity - rows:
        return WALK_FULL
    if (out.key.offsets != NULL and out.key.room - out.key.filled < need) or (
            out.value.offsets != NULL and out.value.room - out.value.filled < need):
        return WALK_FULL
    status = scan_set(base, batch, out, STORE, &count, &added, &highest, fault)
    if status == WALK_DONE and (added < 0 or highest >= INT64_MAX - added):
        status = WALK_FULL
    if status != WALK_DONE:
        discard_rows(out, rows, rows + count)
        return status
    if added and out.offset != NULL:
        for i in range(rows, rows + count):
            out.offset[i] += added
    out.rows = rows + count
    return WALK_DONE


cdef int decode_set(const uint8_t* base, const Batch* batch, Columns* out, Cursor* cursor, const OffsetRange* wanted,
                    Fault* fault) noexcept nogil:
    """Decode a message set, beginning at the cursor.

    Unless the columns are empty, the message set is stored completely or not at all.
    """
    cdef const uint8_t* p
    cdef const uint8_t* end = base + batch.payload_position + batch.payload_size
    cdef int64_t count, added, highest, offset, record = cursor.record
    cdef int32_t timestamp_type = legacy_timestamp_type(batch)
    cdef Py_ssize_t row = out.rows
    cdef int full = WALK_DONE
    cdef Message m
    cdef int64_t first_offset = wanted.first, last_offset = wanted.last
    if record == 0 and first_offset == INT64_MIN and last_offset == INT64_MAX:
        full = decode_set_at_once(base, batch, out, fault)
        if full != WALK_FULL:
            return full
        full = WALK_DONE
    if scan_set(base, batch, out, CHECK_ONLY, &count, &added, &highest, fault) == WALK_FAULT:
        return WALK_FAULT
    if record == 0:
        cursor.position = batch.payload_position
        if count > out.capacity - row and row:
            return WALK_FULL
    p = base + cursor.position
    while record < count:
        if row == out.capacity:
            full = WALK_FULL
            break
        if end - p < ENTRY_OVERHEAD + MIN_LEGACY_LENGTH or p[MAGIC_AT] > MAGIC_V1 or end - p < ENTRY_OVERHEAD + min_length(p[MAGIC_AT]) or read_message_fields(base, p, end, &m):
            fault.code = FAULT_MESSAGE_END          # The cursor is wrong, or the bytes have changed since the check.
            fault.position = p - base
            discard_rows(out, out.rows, row)
            return WALK_FAULT
        offset = <int64_t>(<uint64_t>added + <uint64_t>m.offset)
        if offset < first_offset or offset > last_offset:
            p += ENTRY_OVERHEAD + <Py_ssize_t>m.size
            record += 1
            continue
        if not message_fits(&m, out):
            full = WALK_FULL_DATA
            break
        p += ENTRY_OVERHEAD + <Py_ssize_t>m.size
        record += 1
        store_message(base, &m, offset, timestamp_type, batch.max_timestamp, out, row)
        row += 1
    if full == WALK_FULL_DATA and cursor.record == 0 and out.rows:
        discard_rows(out, out.rows, row)       # The next call stores the complete message set.
        return WALK_FULL
    out.rows = row
    cursor.record = record
    cursor.position = p - base
    return WALK_FULL if row and full else full


cdef int64_t decode_plain_messages(const uint8_t* base, const Batch* batches, int64_t count, int64_t at, Columns* out,
                                   const OffsetRange* wanted) noexcept nogil:
    """Decode successive plain messages. Return the first row that was not decoded.

    Decoding ends at a row that is not a plain message, is corrupted, or does not fit into the
    columns.
    """
    cdef const Batch* b
    cdef const uint8_t* p
    cdef Py_ssize_t row = out.rows
    cdef int32_t timestamp_type
    cdef Message m
    cdef int64_t first_offset = wanted.first, last_offset = wanted.last
    while at < count and row < out.capacity:
        b = &batches[at]
        p = base + b.payload_position
        if (b.magic != MAGIC_V0 and b.magic != MAGIC_V1) or b.attributes & CODEC_MASK or b.payload_size < ENTRY_OVERHEAD + min_length(<uint8_t>b.magic) or \
                p[MAGIC_AT] != <uint8_t>b.magic or read_message_fields(base, p, p + b.payload_size, &m) or m.size + ENTRY_OVERHEAD != b.payload_size:
            break
        if m.offset < first_offset or m.offset > last_offset:
            at += 1
            continue
        if not message_fits(&m, out):
            break
        at += 1
        timestamp_type = legacy_timestamp_type(b)
        store_message(base, &m, m.offset, timestamp_type, b.max_timestamp, out, row)
        row += 1
    out.rows = row
    return at


cdef inline bint offsets_rise(const uint8_t* p, int64_t count) noexcept nogil:
    """Return whether the offsets of the `count` valid messages at `p` increase."""
    cdef int64_t i, before = int64_at(p)
    for i in range(1, count):
        p += ENTRY_OVERHEAD + <Py_ssize_t>int32_at(p + LENGTH_AT)
        if int64_at(p) <= before:
            return False
        before = int64_at(p)
    return True


cdef inline int64_t latest_time(const uint8_t* p, const Batch* batch, int64_t count) noexcept nogil:
    """Return the highest timestamp of the `count` valid messages at `p`, as `decode_records` returns it."""
    cdef int64_t i, latest = INT64_MIN
    cdef bint append_time = legacy_timestamp_type(batch) == LOG_APPEND_TIME
    for i in range(count):
        latest = max(latest, NO_TIMESTAMP if p[MAGIC_AT] == MAGIC_V0 else batch.max_timestamp if append_time else int64_at(p + LEGACY_TIMESTAMP_AT))
        p += ENTRY_OVERHEAD + <Py_ssize_t>int32_at(p + LENGTH_AT)
    return latest


def message_offsets(buffer, batches, first, last, count, latest):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(batches), i
    cdef const Batch* rows = <const Batch*>required(arrays.take(batches, n, sizeof(Batch), False))
    cdef int64_t* firsts = <int64_t*>required(arrays.take(first, n, 8))
    cdef int64_t* lasts = <int64_t*>required(arrays.take(last, n, 8))
    cdef int64_t* counts = <int64_t*>required(arrays.take(count, n, 8))
    cdef int64_t* times = <int64_t*>required(arrays.take(latest, n, 8))
    cdef int64_t added, highest
    cdef Fault fault
    with nogil:
        for i in range(n):
            counts[i] = -1
            times[i] = NO_TIMESTAMP
            firsts[i] = lasts[i] = rows[i].base_offset
            if rows[i].magic < MAGIC_V0 or rows[i].magic > MAGIC_V1 or rows[i].payload_position < 0 or rows[i].payload_size < 0 or \
                    rows[i].payload_position > source.size or rows[i].payload_size > source.size - rows[i].payload_position:
                continue
            if scan_set(source.data, &rows[i], NULL, CHECK_ONLY, &counts[i], &added, &highest, &fault) == WALK_FAULT:
                counts[i] = -1
                continue
            firsts[i] = <int64_t>(<uint64_t>added + <uint64_t>int64_at(source.data + rows[i].payload_position))
            lasts[i] = <int64_t>(<uint64_t>added + <uint64_t>highest)
            times[i] = latest_time(source.data + rows[i].payload_position, &rows[i], counts[i])
            if not offsets_rise(source.data + rows[i].payload_position, counts[i]):
                firsts[i], lasts[i] = INT64_MAX, INT64_MIN

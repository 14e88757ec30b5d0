# Implement the fast path of validation and assign_offsets(): check batches and write their offsets in one pass.
#
# The CRC, the header and the records of each batch are checked.
# Then the base offset and the leader epoch of the batch are written, while the batch is in the CPU cache.
# No table and no Python objects are created. If a batch fails a check, all changed fields are restored.
# The caller then uses its slow path, which reports the error or re-encodes the batch.
# The slow paths are in records/validate.py and records/assign.py.

cdef extern from *:
    """
    #define KF_FAR ((int64_t)1 << 61)   /* the sum of two values within +-KF_FAR cannot overflow int64 */
    """
    const int64_t KF_FAR

cdef struct SavedFields:           # Previous values of the fields that were changed in a batch.
    int64_t position
    int64_t base_offset
    int64_t max_timestamp
    int32_t leader_epoch
    uint32_t crc

cdef struct History:
    SavedFields* batches
    Py_ssize_t count
    Py_ssize_t room

cdef struct Rules:
    bint check_crc
    bint with_epoch
    int32_t leader_epoch
    bint validate               # Whether to check the rules below. If False, only structure and CRC are checked.
    bint client
    int codec                   # Required codec. -1 allows any codec.
    int64_t max_size
    bint check_records
    bint compacted
    int64_t earliest
    int64_t latest
    bint stamp                  # Whether to set LogAppendTime and write append_time.
    int64_t append_time

cdef struct Totals:
    int64_t offset              # Offset of the next batch.
    int64_t count
    int64_t max_timestamp
    int64_t offset_of_max

cdef struct RecordSummary:               # Summary of the records of one batch.
    int64_t min_timestamp       # lowest timestamp delta
    int64_t max_timestamp
    int64_t delta_of_max        # offset delta of the first record that has max_timestamp
    bint null_key


cdef inline bint short_varint(const uint8_t** at, uint32_t* raw) noexcept nogil:
    """Read a varint of at most 3 bytes, without zigzag decoding.

    Return False if the varint is longer. The caller must ensure that 3 bytes are readable.
    """
    cdef const uint8_t* p = at[0]
    cdef uint32_t n = p[0]
    p += 1
    if KF_UNLIKELY(n >= 0x80):
        n = (n & 0x7F) | <uint32_t>p[0] << 7
        p += 1
        if KF_UNLIKELY(n >= 0x4000):
            n = (n & 0x3FFF) | <uint32_t>p[0] << 14
            p += 1
            if n >= 0x200000:
                return False
    at[0] = p
    raw[0] = n
    return True


cdef inline bint skip_short_headers(const uint8_t** at, const uint8_t* stop, uint32_t count) noexcept nogil:
    """Move `at` past the headers of a record.

    Return False if the headers are invalid or have varints of more than 3 bytes. The caller must
    ensure that 32 bytes after `stop` are readable.
    """
    cdef const uint8_t* p = at[0]
    cdef uint32_t i, n
    for i in range(count):
        if p >= stop or not short_varint(&p, &n) or n & 1:
            return False
        p += n >> 1
        if p >= stop or not short_varint(&p, &n) or (n & 1 and n != 1):
            return False
        p += n >> 1
    at[0] = p
    return True


cdef inline const uint8_t* short_record_end(const uint8_t* p, const uint8_t* limit, uint64_t delta, int64_t* timestamp,
                                            bint* null_key) noexcept nogil:
    """Return the end of a valid record that has short varints and the offset delta `delta`.

    Return NULL for other records, and for records that are followed by fewer than 32 bytes before
    `limit`. The caller must ensure that 32 bytes at `p` are readable.
    """
    cdef uint32_t length, time, number, key, value, count
    cdef const uint8_t* stop
    if not short_varint(&p, &length) or length & 1 or (length >> 1) > limit - p:
        return NULL
    stop = p + (length >> 1)
    p += 1                                          # Skip the attributes of the record, which are unused.
    if limit - stop < SLACK or not short_varint(&p, &time) or not short_varint(&p, &number) or number != 2 * delta:
        return NULL
    if not short_varint(&p, &key):
        return NULL
    if key & 1:
        if key != 1:
            return NULL
        null_key[0] = True
    else:
        p += key >> 1
    if p >= stop or not short_varint(&p, &value):
        return NULL
    if value & 1:
        if value != 1:
            return NULL
    else:
        p += value >> 1
    if p >= stop or not short_varint(&p, &count) or count & 1 or (count >> 1) > MANY_HEADERS or (count and not skip_short_headers(&p, stop, count >> 1)) or p != stop:
        return NULL
    timestamp[0] = <int64_t>(time >> 1) ^ -<int64_t>(time & 1)
    return stop


cdef const uint8_t* record_end(const uint8_t* p, const uint8_t* end, int64_t* delta, int64_t* timestamp, bint* null_key) noexcept nogil:
    """Return the end of the record at `p`, or NULL if it is invalid or does not end before `end`."""
    cdef const uint8_t* stop
    cdef int32_t n
    p = get_varint(p, end, &n)
    if p == NULL or n < 1 or n > end - p:
        return NULL
    stop = p + n
    p = get_varlong(p + 1, stop, timestamp)
    if p != NULL:
        p = get_varint(p, stop, &n)
    if p == NULL:
        return NULL
    delta[0] = n
    p = get_varint(p, stop, &n)
    if p == NULL or n > stop - p:
        return NULL
    if n < 0:
        null_key[0] = True
    else:
        p += n
    p = get_varint(p, stop, &n)
    if p == NULL or n > stop - p:
        return NULL
    p = get_varint(p + max(n, 0), stop, &n)
    if p == NULL or n < 0 or n > MANY_HEADERS or n > stop - p or decode_headers(p, p, stop, n, NULL, -1):
        return NULL
    return stop


cdef bint summarize_records(const uint8_t* p, const uint8_t* end, const uint8_t* limit, int32_t count, int32_t last_offset_delta,
                            RecordSummary* summary) noexcept nogil:
    """Summarize the records of a payload. Return False if a record is invalid.

    The payload must have exactly `count` records, whose offset deltas increase up to
    `last_offset_delta`.
    """
    cdef const uint8_t* stop
    cdef int64_t next_delta = 0, delta, timestamp = 0, earliest = INT64_MAX, latest = INT64_MIN, of_latest = 0
    cdef bint null_key = False
    cdef int32_t i
    for i in range(count):
        stop = NULL
        delta = next_delta
        if KF_LIKELY(end - p >= SLACK):
            stop = short_record_end(p, limit, <uint64_t>next_delta, &timestamp, &null_key)
        if stop == NULL:
            stop = record_end(p, end, &delta, &timestamp, &null_key)
        if stop == NULL or delta < next_delta or stop > end:
            return False
        next_delta = delta + 1
        p = stop
        if timestamp > latest:
            latest = timestamp
            of_latest = delta
        if timestamp < earliest:
            earliest = timestamp
    summary.min_timestamp, summary.max_timestamp, summary.delta_of_max, summary.null_key = earliest, latest, of_latest, null_key
    return p == end and next_delta - 1 <= last_offset_delta


cdef inline bint times_follow_rules(int64_t base_timestamp, int64_t max_timestamp, const RecordSummary* summary, const Rules* rules) noexcept nogil:
    """Return whether the header's maximum timestamp is correct and every timestamp is within the topic's limits.

    Timestamps are within the limits if all are in the range of `rules`, or if all are -1.
    """
    if base_timestamp < -KF_FAR or base_timestamp > KF_FAR or summary.min_timestamp < -KF_FAR or summary.max_timestamp > KF_FAR:
        return False
    if max_timestamp < NO_TIMESTAMP or base_timestamp + summary.max_timestamp != max_timestamp:
        return False
    if max_timestamp == NO_TIMESTAMP and summary.min_timestamp == summary.max_timestamp:
        return True
    return base_timestamp + summary.min_timestamp >= rules.earliest and max_timestamp <= rules.latest


cdef inline bint batch_follows_rules(const uint8_t* p, int32_t length, const uint8_t* limit, const Rules* rules, Totals* totals) noexcept nogil:
    """Return whether a batch of magic 2 complies with the rules. If it does, add it to `totals`.

    If a batch complies with the rules, a broker changes only its offset and leader epoch.
    """
    cdef int attributes = int16_at(p + ATTRIBUTES_AT), codec = attributes & CODEC_MASK
    cdef int32_t last_delta = int32_at(p + LAST_OFFSET_DELTA_AT), count = int32_at(p + COUNT_AT)
    cdef int64_t base_timestamp = int64_at(p + BASE_TIMESTAMP_AT), max_timestamp = int64_at(p + MAX_TIMESTAMP_AT)
    cdef RecordSummary summary
    if codec > CODEC_ZSTD or attributes & LOG_APPEND_TIME_BIT or length + ENTRY_OVERHEAD > rules.max_size:
        return False
    if rules.codec >= 0 and codec != rules.codec:
        return False
    if rules.client and (totals.count or int64_at(p) or count != <int64_t>last_delta + 1 or attributes & CONTROL_BIT
                         or (int64_at(p + PRODUCER_ID_AT) != NO_PRODUCER_ID and int32_at(p + BASE_SEQUENCE_AT) < 0)):
        return False
    if rules.check_records:
        if codec or count == 0 or not summarize_records(p + BATCH_HEADER_SIZE, p + ENTRY_OVERHEAD + length, limit, count, last_delta, &summary):
            return False
        if rules.compacted and summary.null_key:
            return False
        if not rules.stamp and not times_follow_rules(base_timestamp, max_timestamp, &summary, rules):
            return False
        if max_timestamp > totals.max_timestamp and max_timestamp != NO_TIMESTAMP:
            totals.offset_of_max = totals.offset + summary.delta_of_max
    totals.max_timestamp = max(totals.max_timestamp, max_timestamp)
    totals.count += count
    return True


cdef bint save_fields(History* history, const uint8_t* base, const uint8_t* p) noexcept nogil:
    cdef void* larger
    if history.count == history.room:
        larger = realloc(history.batches, (2 * history.room + 64) * sizeof(SavedFields))
        if larger == NULL:
            return False
        history.batches = <SavedFields*>larger
        history.room = 2 * history.room + 64
    history.batches[history.count] = SavedFields(p - base, int64_at(p), 0, int32_at(p + LEADER_EPOCH_AT), 0)
    history.count += 1
    return True


cdef inline void set_append_time(uint8_t* p, int32_t length, int64_t timestamp, SavedFields* saved) noexcept nogil:
    """Set the timestamp type to LogAppendTime, write `timestamp`, and update the CRC."""
    saved.max_timestamp, saved.crc = int64_at(p + MAX_TIMESTAMP_AT), stored_crc(p)
    p[ATTRIBUTES_AT + 1] |= LOG_APPEND_TIME_BIT
    put64(p + MAX_TIMESTAMP_AT, timestamp)
    put32(p + CRC_AT, actual_crc(p, length))


cdef bint check_and_number(uint8_t* base, Py_ssize_t size, const Rules* rules, Totals* totals, History* history) noexcept nogil:
    """Check all batches of a buffer, and write their new fields.

    Return False if a batch fails a check. The batches before this batch remain changed.
    """
    cdef uint8_t* p = base
    cdef uint8_t* end = base + size
    cdef int32_t length, delta
    while p < end:
        if end - p < MAGIC_END or p[MAGIC_AT] > MAGIC_V2:
            return False
        length = int32_at(p + LENGTH_AT)
        if length < min_length(p[MAGIC_AT]) or length > end - p - ENTRY_OVERHEAD or length > MAX_BATCH_LENGTH:
            return False
        if p[MAGIC_AT] != MAGIC_V2 and (rules.validate or p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK):
            return False
        delta = int32_at(p + LAST_OFFSET_DELTA_AT) if p[MAGIC_AT] == MAGIC_V2 else 0
        if p[MAGIC_AT] == MAGIC_V2 and int32_at(p + COUNT_AT) < 0:
            return False
        if delta < 0 or delta >= INT64_MAX - totals.offset:
            return False
        if rules.check_crc and actual_crc(p, length) != stored_crc(p):
            return False
        if rules.validate and not batch_follows_rules(p, length, end, rules, totals):
            return False
        if not save_fields(history, base, p):
            return False
        put64(p, totals.offset)
        if rules.with_epoch and p[MAGIC_AT] == MAGIC_V2:
            put32(p + LEADER_EPOCH_AT, <uint32_t>rules.leader_epoch)
        if rules.stamp:
            set_append_time(p, length, rules.append_time, &history.batches[history.count - 1])
        totals.offset += <int64_t>delta + 1
        p += ENTRY_OVERHEAD + <Py_ssize_t>length
    return True


cdef bint check_and_number_or_restore(uint8_t* base, Py_ssize_t size, const Rules* rules, Totals* totals) noexcept nogil:
    cdef History history = History(NULL, 0, 0)
    cdef SavedFields* saved
    cdef uint8_t* p
    cdef Py_ssize_t i
    cdef bint good = check_and_number(base, size, rules, totals, &history)
    if not good:
        for i in range(history.count):
            saved = &history.batches[i]
            p = base + saved.position
            put64(p, saved.base_offset)
            if rules.with_epoch and p[MAGIC_AT] == MAGIC_V2:
                put32(p + LEADER_EPOCH_AT, <uint32_t>saved.leader_epoch)
            if rules.stamp:
                p[ATTRIBUTES_AT + 1] &= <uint8_t>~LOG_APPEND_TIME_BIT
                put64(p + MAX_TIMESTAMP_AT, saved.max_timestamp)
                put32(p + CRC_AT, saved.crc)
    free(history.batches)
    return good


def number_buffer(buffer, next_offset, leader_epoch=None, check_crc=True):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t size
    cdef uint8_t* data = writable_bytes(arrays, buffer, &size)
    cdef Rules rules
    cdef Totals totals = Totals(next_offset, 0, 0, 0)
    cdef bint good
    rules.validate = rules.stamp = False
    rules.check_crc, rules.with_epoch = check_crc, leader_epoch is not None
    rules.leader_epoch = 0 if leader_epoch is None else leader_epoch
    check_next_offset(totals.offset)
    with nogil:
        good = check_and_number_or_restore(data, size, &rules, &totals)
    return totals.offset if good else None


def validate_buffer(
    buffer, next_offset, leader_epoch, client, codec, max_size, check_records, compacted, earliest, latest, append_time=None
):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t size
    cdef uint8_t* data = writable_bytes(arrays, buffer, &size)
    cdef int64_t first = next_offset
    cdef Rules rules
    cdef Totals totals = Totals(first, 0, INT64_MIN, -1)
    cdef bint good
    rules.validate = rules.check_crc = rules.with_epoch = True
    rules.leader_epoch, rules.client, rules.codec = leader_epoch, client, -1 if codec is None else codec
    rules.max_size = INT64_MAX if max_size is None else max_size
    rules.check_records, rules.compacted, rules.earliest, rules.latest = check_records, compacted, earliest, latest
    rules.stamp, rules.append_time = append_time is not None, 0 if append_time is None else append_time
    check_next_offset(first)
    with nogil:
        good = size > 0 and check_and_number_or_restore(data, size, &rules, &totals)
    if not good:
        return None
    if rules.stamp:
        return totals.count, totals.offset, rules.append_time, first
    return totals.count, totals.offset, totals.max_timestamp, totals.offset_of_max


def look_at_payload(payload, count, last_offset_delta):
    cdef Source source = Source(payload)
    cdef int32_t records = count, last = last_offset_delta
    cdef RecordSummary summary
    cdef bint good
    with nogil:
        good = records > 0 and summarize_records(source.data, source.data + source.size, source.data + source.size, records, last, &summary)
    return (summary.min_timestamp, summary.max_timestamp, summary.delta_of_max, bool(summary.null_key)) if good else None

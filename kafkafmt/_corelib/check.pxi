# Sound batches numbered where they lie, in one pass: CRC, rules, records, then offset and leader epoch, while a batch is in the cache.
#
# What is found good needs no table and no object. The first batch that is not good ends the pass, and the batches before it get
# back what they had; what is wrong with it, or has to be built anew, is for the careful way to say (records/validate.py).

cdef extern from *:
    """
    #define KF_FAR ((int64_t)1 << 61)   /* timestamps nearer to 0 are added without a look at their sum */
    """
    const int64_t KF_FAR

cdef struct Numbered:           # what a batch had before
    int64_t position
    int64_t base_offset
    int64_t max_timestamp
    int32_t leader_epoch
    uint32_t crc

cdef struct History:
    Numbered* batches
    Py_ssize_t count
    Py_ssize_t room

cdef struct Rules:
    bint check_crc
    bint with_epoch
    int32_t leader_epoch
    bint validate               # with those below
    bint client
    int codec                   # -1: each its own
    int64_t max_size
    bint check_records
    bint compacted
    int64_t earliest
    int64_t latest
    bint stamp                  # LogAppendTime: this for all
    int64_t append_time

cdef struct Tally:
    int64_t offset              # of the next batch
    int64_t count
    int64_t max_timestamp
    int64_t offset_of_max

cdef struct Seen:               # of one batch's records
    int64_t min_timestamp       # as deltas
    int64_t max_timestamp
    int64_t delta_of_max        # the offset delta of the first that has it
    bint null_key


cdef inline bint short_varint(const uint8_t** at, uint32_t* raw) noexcept nogil:
    """A varint of at most 3 bytes, before zigzag, where as many can be read; False for a longer one."""
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


cdef enum:
    MANY = 131072               # headers of one record, which the slow path compares with its limit (MANY_HEADERS)


cdef inline bint short_headers(const uint8_t** at, const uint8_t* stop, uint32_t count) noexcept nogil:
    """Passes the headers of a record, behind whose end as much can be read as their varints take."""
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


cdef inline const uint8_t* plain_record(const uint8_t* p, const uint8_t* limit, uint64_t delta, int64_t* timestamp,
                                        bint* null_key) noexcept nogil:
    """The end of a sound record of short varints with this offset delta, 32 readable bytes before `limit`; NULL for any other."""
    cdef uint32_t length, time, number, key, value, count
    cdef const uint8_t* stop
    if not short_varint(&p, &length) or length & 1 or (length >> 1) > limit - p:
        return NULL
    stop = p + (length >> 1)
    p += 1                                          # the attributes of a record are unused
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
    if p >= stop or not short_varint(&p, &count) or count & 1 or (count >> 1) > MANY or (count and not short_headers(&p, stop, count >> 1)) or p != stop:
        return NULL
    timestamp[0] = <int64_t>(time >> 1) ^ -<int64_t>(time & 1)
    return stop


cdef const uint8_t* any_record(const uint8_t* p, const uint8_t* end, int64_t* delta, int64_t* timestamp, bint* null_key) noexcept nogil:
    """The end of any sound record that lies before `end`, NULL for one that is not."""
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
    if p == NULL or n < 0 or n > MANY or n > stop - p or walk_headers(p, p, stop, n, NULL, -1):
        return NULL
    return stop


cdef bint look_at_records(const uint8_t* p, const uint8_t* end, const uint8_t* limit, int32_t count, int32_t last_offset_delta,
                          Seen* seen) noexcept nogil:
    """Whether a payload is so many sound records with rising offset deltas, and what the rules ask of them."""
    cdef const uint8_t* stop
    cdef int64_t next_delta = 0, delta, timestamp = 0, earliest = INT64_MAX, latest = INT64_MIN, of_latest = 0
    cdef bint null_key = False
    cdef int32_t i
    for i in range(count):
        stop = NULL
        delta = next_delta
        if KF_LIKELY(end - p >= SLACK):
            stop = plain_record(p, limit, <uint64_t>next_delta, &timestamp, &null_key)
        if stop == NULL:
            stop = any_record(p, end, &delta, &timestamp, &null_key)
        if stop == NULL or delta < next_delta or stop > end:
            return False
        next_delta = delta + 1
        p = stop
        if timestamp > latest:
            latest = timestamp
            of_latest = delta
        if timestamp < earliest:
            earliest = timestamp
    seen.min_timestamp, seen.max_timestamp, seen.delta_of_max, seen.null_key = earliest, latest, of_latest, null_key
    return p == end and next_delta - 1 <= last_offset_delta


cdef inline bint keeps_times(int64_t base_timestamp, int64_t max_timestamp, const Seen* seen, const Rules* rules) noexcept nogil:
    """Whether the header's maximum timestamp is that of the records, and all lie within the bounds, or all are -1."""
    if base_timestamp < -KF_FAR or base_timestamp > KF_FAR or seen.min_timestamp < -KF_FAR or seen.max_timestamp > KF_FAR:
        return False
    if max_timestamp < -1 or base_timestamp + seen.max_timestamp != max_timestamp:
        return False
    if max_timestamp == -1 and seen.min_timestamp == seen.max_timestamp:
        return True
    return base_timestamp + seen.min_timestamp >= rules.earliest and max_timestamp <= rules.latest


cdef inline bint keeps_rules(const uint8_t* p, int32_t length, const uint8_t* limit, const Rules* rules, Tally* tally) noexcept nogil:
    """Whether a batch of format 2 may stay as it is but for offset and leader epoch; then it is counted."""
    cdef int attributes = int16_at(p + 21), codec = attributes & 7
    cdef int32_t last_delta = int32_at(p + 23), count = int32_at(p + 57)
    cdef int64_t base_timestamp = int64_at(p + 27), max_timestamp = int64_at(p + 35)
    cdef Seen seen
    if codec > 4 or attributes & 8 or length + 12 > rules.max_size:
        return False
    if rules.codec >= 0 and codec != rules.codec:
        return False
    if rules.client and (tally.count or int64_at(p) or count != <int64_t>last_delta + 1 or attributes & 0x20
                         or (int64_at(p + 43) != -1 and int32_at(p + 53) < 0)):
        return False
    if rules.check_records:
        if codec or count == 0 or not look_at_records(p + HEADER, p + 12 + length, limit, count, last_delta, &seen):
            return False
        if rules.compacted and seen.null_key:
            return False
        if not rules.stamp and not keeps_times(base_timestamp, max_timestamp, &seen, rules):
            return False
        if max_timestamp > tally.max_timestamp and max_timestamp != -1:
            tally.offset_of_max = tally.offset + seen.delta_of_max
    tally.max_timestamp = max(tally.max_timestamp, max_timestamp)
    tally.count += count
    return True


cdef bint remember(History* history, const uint8_t* base, const uint8_t* p) noexcept nogil:
    cdef void* larger
    if history.count == history.room:
        larger = realloc(history.batches, (2 * history.room + 64) * sizeof(Numbered))
        if larger == NULL:
            return False
        history.batches = <Numbered*>larger
        history.room = 2 * history.room + 64
    history.batches[history.count] = Numbered(p - base, int64_at(p), 0, int32_at(p + 12), 0)
    history.count += 1
    return True


cdef inline void stamp(uint8_t* p, int32_t length, int64_t timestamp, Numbered* was) noexcept nogil:
    """LogAppendTime, for which the CRC is computed anew."""
    was.max_timestamp, was.crc = int64_at(p + 35), stored_crc(p)
    p[22] |= 8
    put64(p + 35, timestamp)
    put32(p + 17, actual_crc(p, length))


cdef bint number_all(uint8_t* base, Py_ssize_t size, const Rules* rules, Tally* tally, History* history) noexcept nogil:
    """Every batch of a buffer, up to its end; False at the first that is not good."""
    cdef uint8_t* p = base
    cdef uint8_t* end = base + size
    cdef int32_t length, delta
    while p < end:
        if end - p < 17 or p[16] > 2:
            return False
        length = int32_at(p + 8)
        if length < min_length(p[16]) or length > end - p - 12 or length > MAX_LENGTH:
            return False
        if p[16] != 2 and (rules.validate or p[17] & 7):
            return False
        delta = int32_at(p + 23) if p[16] == 2 else 0
        if p[16] == 2 and int32_at(p + 57) < 0:
            return False
        if delta < 0 or delta >= INT64_MAX - tally.offset:
            return False
        if rules.check_crc and actual_crc(p, length) != stored_crc(p):
            return False
        if rules.validate and not keeps_rules(p, length, end, rules, tally):
            return False
        if not remember(history, base, p):
            return False
        put64(p, tally.offset)
        if rules.with_epoch and p[16] == 2:
            put32(p + 12, <uint32_t>rules.leader_epoch)
        if rules.stamp:
            stamp(p, length, rules.append_time, &history.batches[history.count - 1])
        tally.offset += <int64_t>delta + 1
        p += 12 + <Py_ssize_t>length
    return True


cdef bint number_or_not(uint8_t* base, Py_ssize_t size, const Rules* rules, Tally* tally) noexcept nogil:
    cdef History history = History(NULL, 0, 0)
    cdef Numbered* was
    cdef uint8_t* p
    cdef Py_ssize_t i
    cdef bint good = number_all(base, size, rules, tally, &history)
    if not good:
        for i in range(history.count):
            was = &history.batches[i]
            p = base + was.position
            put64(p, was.base_offset)
            if rules.with_epoch and p[16] == 2:
                put32(p + 12, <uint32_t>was.leader_epoch)
            if rules.stamp:
                p[22] &= <uint8_t>~8
                put64(p + 35, was.max_timestamp)
                put32(p + 17, was.crc)
    free(history.batches)
    return good


def number_buffer(buffer, next_offset, leader_epoch=None, check_crc=True):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t size
    cdef uint8_t* data = writable_bytes(arrays, buffer, &size)
    cdef Rules rules
    cdef Tally tally = Tally(next_offset, 0, 0, 0)
    cdef bint good
    rules.validate = rules.stamp = False
    rules.check_crc, rules.with_epoch = check_crc, leader_epoch is not None
    rules.leader_epoch = 0 if leader_epoch is None else leader_epoch
    check_next_offset(tally.offset)
    with nogil:
        good = number_or_not(data, size, &rules, &tally)
    return tally.offset if good else None


def validate_buffer(
    buffer, next_offset, leader_epoch, client, codec, max_size, check_records, compacted, earliest, latest, append_time=None
):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t size
    cdef uint8_t* data = writable_bytes(arrays, buffer, &size)
    cdef int64_t first = next_offset
    cdef Rules rules
    cdef Tally tally = Tally(first, 0, INT64_MIN, -1)
    cdef bint good
    rules.validate = rules.check_crc = rules.with_epoch = True
    rules.leader_epoch, rules.client, rules.codec = leader_epoch, client, -1 if codec is None else codec
    rules.max_size = INT64_MAX if max_size is None else max_size
    rules.check_records, rules.compacted, rules.earliest, rules.latest = check_records, compacted, earliest, latest
    rules.stamp, rules.append_time = append_time is not None, 0 if append_time is None else append_time
    check_next_offset(first)
    with nogil:
        good = size > 0 and number_or_not(data, size, &rules, &tally)
    if not good:
        return None
    if rules.stamp:
        return tally.count, tally.offset, rules.append_time, first
    return tally.count, tally.offset, tally.max_timestamp, tally.offset_of_max


def look_at_payload(payload, count, last_offset_delta):
    cdef Source source = Source(payload)
    cdef int32_t records = count, last = last_offset_delta
    cdef Seen seen
    cdef bint good
    with nogil:
        good = records > 0 and look_at_records(source.data, source.data + source.size, source.data + source.size, records, last, &seen)
    return (seen.min_timestamp, seen.max_timestamp, seen.delta_of_max, bool(seen.null_key)) if good else None

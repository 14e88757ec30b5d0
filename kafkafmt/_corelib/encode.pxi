# Encode records and messages into memory that the caller has reserved. The functions do not need the GIL.

cdef extern from *:
    """
    #define KF_BITS(x) (64 - __builtin_clzll((unsigned long long)(x) | 1))
    """
    int KF_BITS(uint64_t) nogil
    const int64_t NEXT_OFFSET "INT64_MIN"       # Stands for the offset after the last record.

cdef struct Field:
    const uint8_t* data
    Py_ssize_t size             # -1 means null

cdef struct Header:
    Field key
    Field value


cdef inline void put16(uint8_t* p, int16_t n) noexcept nogil:
    cdef uint16_t x = KF_BE16(<uint16_t>n)
    memcpy(p, &x, 2)


cdef inline void put32(uint8_t* p, uint32_t n) noexcept nogil:
    cdef uint32_t x = KF_BE32(n)
    memcpy(p, &x, 4)


cdef inline void put64(uint8_t* p, int64_t n) noexcept nogil:
    cdef uint64_t x = KF_BE64(<uint64_t>n)
    memcpy(p, &x, 8)


cdef inline uint64_t zigzag(int64_t n) noexcept nogil:
    return (<uint64_t>n << 1) ^ <uint64_t>(n >> 63)


cdef inline int varint_size(uint64_t raw) noexcept nogil:
    if KF_LIKELY(raw < 0x80):
        return 1
    if KF_LIKELY(raw < 0x4000):
        return 2
    return (KF_BITS(raw) + 6) // 7


cdef inline uint8_t* put_varint(uint8_t* p, uint64_t raw) noexcept nogil:
    if KF_LIKELY(raw < 0x80):
        p[0] = <uint8_t>raw
        return p + 1
    p[0] = <uint8_t>(raw | 0x80)
    if KF_LIKELY(raw < 0x4000):
        p[1] = <uint8_t>(raw >> 7)
        return p + 2
    p += 1
    raw >>= 7
    while raw >= 0x80:
        p[0] = <uint8_t>(raw | 0x80)
        p += 1
        raw >>= 7
    p[0] = <uint8_t>raw
    return p + 1


cdef inline void copy_exact(uint8_t* to, const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Copy exactly `n` bytes. For few bytes, this function is faster than memcpy()."""
    cdef Py_ssize_t i = 0
    if n > 256:
        memcpy(to, p, n)
    elif n >= 32:
        while i < n - 32:
            memcpy(to + i, p + i, 32)
            i += 32
        memcpy(to + n - 32, p + n - 32, 32)
    elif n >= 16:
        memcpy(to, p, 16)
        memcpy(to + n - 16, p + n - 16, 16)
    elif n >= 8:
        memcpy(to, p, 8)
        memcpy(to + n - 8, p + n - 8, 8)
    else:
        while i < n:
            to[i] = p[i]
            i += 1


cdef inline Py_ssize_t field_size(const Field* field) noexcept nogil:
    return varint_size(zigzag(field.size)) + (field.size if field.size > 0 else 0)


cdef inline uint8_t* put_field(uint8_t* p, const Field* field) noexcept nogil:
    p = put_varint(p, zigzag(field.size))
    if field.size > 0:
        copy_exact(p, field.data, field.size)
        p += field.size
    return p


cdef inline uint8_t* put_plain(uint8_t* p, const uint8_t* end, int64_t base_timestamp, uint64_t delta, int64_t timestamp,
                               const uint8_t* key, Py_ssize_t key_size, const uint8_t* value, Py_ssize_t value_size,
                               bint slack) noexcept nogil:
    """Encode a plain record (magic 2, no headers, small fields), and return the position after it.

    Return NULL if the record might not fit before `end`, or if a field is not small. `slack` has
    the same meaning as in copy_span().
    """
    cdef uint64_t time_raw = zigzag(<int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp))
    cdef uint64_t key_raw = zigzag(key_size), value_raw = zigzag(value_size)
    cdef Py_ssize_t size = (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0), head
    cdef uint8_t* q
    if KF_UNLIKELY((time_raw | delta | key_raw | value_raw) >= 0x8000000 or timestamp < NO_TIMESTAMP or size > end - p - 22):
        return NULL
    if KF_LIKELY(size >= 58 and size < 8174):       # The other fields of the record take 6 to 18 bytes.
        head = 2
    elif size < 46:
        head = 1
    else:
        size += 2 + varint_size(time_raw) + varint_size(delta)
        head = varint_size(2 * <uint64_t>(size + varint_size(key_raw) + varint_size(value_raw)))
    q = p + head
    q[0] = 0
    q = put_varint(q + 1, time_raw)
    q = put_varint(q, delta)
    q = put_varint(q, key_raw)
    if key_size > 0:
        if slack:
            copy_span(q, key, key_size, True)
        else:
            copy_exact(q, key, key_size)
        q += key_size
    q = put_varint(q, value_raw)
    if value_size > 0:
        if slack:
            copy_span(q, value, value_size, True)
        else:
            copy_exact(q, value, value_size)
        q += value_size
    q[0] = 0
    put_varint(p, 2 * <uint64_t>(q + 1 - p - head))
    return q + 1


cdef inline Py_ssize_t record_size(uint64_t time_raw, uint64_t delta_raw, const Field* key, const Field* value, const Header* headers,
                                   Py_ssize_t header_count) noexcept nogil:
    """Return the length field of a record of magic 2."""
    cdef Py_ssize_t i, size = 1 + varint_size(time_raw) + varint_size(delta_raw) + field_size(key) + field_size(value)
    size += varint_size(zigzag(header_count))
    for i in range(header_count):
        size += field_size(&headers[i].key) + field_size(&headers[i].value)
    return size


cdef inline uint8_t* put_record(uint8_t* p, Py_ssize_t size, uint64_t time_raw, uint64_t delta_raw, const Field* key, const Field* value,
                                const Header* headers, Py_ssize_t header_count) noexcept nogil:
    cdef Py_ssize_t i
    p = put_varint(p, zigzag(size))
    p[0] = 0
    p = put_varint(p + 1, time_raw)
    p = put_varint(p, delta_raw)
    p = put_field(p, key)
    p = put_field(p, value)
    p = put_varint(p, zigzag(header_count))
    for i in range(header_count):
        p = put_field(p, &headers[i].key)
        p = put_field(p, &headers[i].value)
    return p


cdef inline uint8_t* put_long_field(uint8_t* p, const Field* field) noexcept nogil:
    put32(p, <uint32_t><int32_t>field.size)
    if field.size > 0:
        copy_exact(p + 4, field.data, field.size)
        p += field.size
    return p + 4


cdef inline uint8_t* encode_message(uint8_t* message, int magic, int attributes, int64_t offset, int64_t timestamp, const Field* key,
                                    const Field* value) noexcept nogil:
    """Encode a message of magic 0 or 1 with its CRC, and return the position after it."""
    cdef uint8_t* p = message + LEGACY_TIMESTAMP_AT
    if magic:
        put64(p, timestamp)
        p += 8
    p = put_long_field(put_long_field(p, key), value)
    put64(message, offset)
    put32(message + LENGTH_AT, <uint32_t>(p - message - ENTRY_OVERHEAD))
    message[MAGIC_AT] = <uint8_t>magic
    message[LEGACY_ATTRIBUTES_AT] = <uint8_t>attributes
    put32(message + LEGACY_CRC_AT, crc32_update(0, message + MAGIC_AT, p - message - MAGIC_AT))
    return p


cdef inline void put_batch_header(uint8_t* p, Py_ssize_t size, const Batch* row) noexcept nogil:
    """Write the header of a batch of magic 2, including the CRC. The records must follow the header."""
    put64(p, row.base_offset)
    put32(p + LENGTH_AT, <uint32_t>(size - ENTRY_OVERHEAD))
    put32(p + LEADER_EPOCH_AT, <uint32_t>row.leader_epoch)
    p[MAGIC_AT] = MAGIC_V2
    put16(p + ATTRIBUTES_AT, row.attributes)
    put32(p + LAST_OFFSET_DELTA_AT, <uint32_t>row.last_offset_delta)
    put64(p + BASE_TIMESTAMP_AT, row.base_timestamp)
    put64(p + MAX_TIMESTAMP_AT, row.max_timestamp)
    put64(p + PRODUCER_ID_AT, row.producer_id)
    put16(p + PRODUCER_EPOCH_AT, row.producer_epoch)
    put32(p + BASE_SEQUENCE_AT, <uint32_t>row.base_sequence)
    put32(p + COUNT_AT, <uint32_t>row.count)
    put32(p + CRC_AT, crc32c_update(0, p + CRC_START, size - CRC_START))


cdef inline Py_ssize_t wrapper_head(int magic) noexcept nogil:
    """Return the size of a wrapper message with a null key, excluding its value."""
    return ENTRY_OVERHEAD + min_length(<uint8_t>magic)


cdef inline void put_wrapper(uint8_t* p, Py_ssize_t size, int magic, int attributes, int64_t offset, int64_t timestamp) noexcept nogil:
    """Write the fields of a wrapper message that precede its value, including the CRC. The key is null."""
    cdef Py_ssize_t head = wrapper_head(magic)
    put64(p, offset)
    put32(p + LENGTH_AT, <uint32_t>(size - ENTRY_OVERHEAD))
    p[MAGIC_AT] = <uint8_t>magic
    p[LEGACY_ATTRIBUTES_AT] = <uint8_t>attributes
    if magic:
        put64(p + LEGACY_TIMESTAMP_AT, timestamp)
    put32(p + head - 8, 0xffffffff)
    put32(p + head - 4, <uint32_t>(size - head))
    put32(p + LEGACY_CRC_AT, crc32_update(0, p + MAGIC_AT, size - MAGIC_AT))

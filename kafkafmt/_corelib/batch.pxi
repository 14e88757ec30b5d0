# The shallow walk: batch headers into a table, CRCs checked, nothing decompressed.

cdef struct Batch:      # BATCH_DTYPE, field by field
    int64_t position
    int64_t base_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int64_t payload_position
    int32_t payload_size
    int32_t size
    int32_t leader_epoch
    uint32_t crc
    int32_t last_offset_delta
    int32_t base_sequence
    int32_t count
    int16_t attributes
    int16_t producer_epoch
    int8_t magic

if sizeof(Batch) != BATCH_DTYPE.itemsize:
    raise ImportError(f"BATCH_DTYPE has {BATCH_DTYPE.itemsize} bytes, the native core was built for {sizeof(Batch)}")

cdef enum:
    HEADER = 61
    MAX_LENGTH = 2147483647 - 12    # the size of a batch is an int32 too
    SCAN_END = 0
    SCAN_FULL = 1
    SCAN_LENGTH = 2
    SCAN_MAGIC = 3
    SCAN_CRC = 4


cdef inline int min_length(uint8_t magic) noexcept nogil:
    """The smallest length field by magic; 14 where the magic is unknown."""
    return HEADER - 12 if magic == 2 else 22 if magic == 1 else 14


cdef inline uint32_t stored_crc(const uint8_t* p) noexcept nogil:
    return <uint32_t>int32_at(p + (17 if p[16] == 2 else 12))


cdef inline uint32_t actual_crc(const uint8_t* p, int32_t length) noexcept nogil:
    """The checksum of a batch, or of a message of magic 0 or 1, that is known to lie in the buffer."""
    if p[16] == 2:
        return crc32c_update(0, p + 21, length - 9)
    return crc32_update(0, p + 16, length - 4)


cdef inline void read_header(const uint8_t* base, const uint8_t* p, int32_t length, Batch* row) noexcept nogil:
    row.position = p - base
    row.base_offset = int64_at(p)
    row.size = length + 12
    row.leader_epoch = int32_at(p + 12)
    row.magic = <int8_t>p[16]
    row.crc = <uint32_t>int32_at(p + 17)
    row.attributes = int16_at(p + 21)
    row.last_offset_delta = int32_at(p + 23)
    row.base_timestamp = int64_at(p + 27)
    row.max_timestamp = int64_at(p + 35)
    row.producer_id = int64_at(p + 43)
    row.producer_epoch = int16_at(p + 51)
    row.base_sequence = int32_at(p + 53)
    row.count = int32_at(p + 57)
    row.payload_position = row.position + HEADER
    row.payload_size = row.size - HEADER


cdef inline void read_message(const uint8_t* base, const uint8_t* p, int32_t length, Batch* row) noexcept nogil:
    """A row for a message of magic 0 or 1. Its payload: itself, for the deep walk; of a wrapper, the compressed value."""
    cdef const uint8_t* end = p + 12 + length
    cdef const uint8_t* q = p + (26 if p[16] else 18)
    cdef int32_t key_length, value_length
    row.position = p - base
    row.base_offset = int64_at(p)
    row.size = length + 12
    row.leader_epoch = -1
    row.magic = <int8_t>p[16]
    row.crc = <uint32_t>int32_at(p + 12)
    row.attributes = p[17] & 0x0F                   # all that Kafka uses; the flags of format 2 lie above
    row.last_offset_delta = 0
    row.base_timestamp = row.max_timestamp = int64_at(p + 18) if p[16] else -1
    row.producer_id = row.producer_epoch = row.base_sequence = -1
    row.count = 1
    row.payload_position = row.position
    row.payload_size = row.size
    if p[17] & 7:
        row.count = -1
        row.payload_size = 0
        key_length = int32_at(q)
        q += 4
        if key_length <= end - q - 4:
            q += key_length if key_length > 0 else 0
            value_length = int32_at(q)
            if value_length >= 0 and value_length == end - q - 4:
                row.payload_position = q + 4 - base
                row.payload_size = value_length


cdef int scan(const uint8_t* base, const uint8_t** at, const uint8_t* end, Batch* rows, Py_ssize_t capacity,
              Py_ssize_t* count, bint check_crc, uint32_t* crc) noexcept nogil:
    cdef const uint8_t* p = at[0]
    cdef Py_ssize_t n = 0
    cdef int32_t length
    cdef int status = SCAN_END
    while end - p >= 17:
        length = int32_at(p + 8)
        if length < 14 or length > MAX_LENGTH:
            status = SCAN_LENGTH
            break
        if p[16] > 2:
            status = SCAN_MAGIC
            break
        if length < min_length(p[16]):
            status = SCAN_LENGTH
            break
        if length > end - p - 12:
            break
        if n == capacity:
            status = SCAN_FULL
            break
        if check_crc:
            crc[0] = actual_crc(p, length)
            if crc[0] != stored_crc(p):
                status = SCAN_CRC
                break
        if p[16] == 2:
            read_header(base, p, length, &rows[n])
        else:
            read_message(base, p, length, &rows[n])
        n += 1
        p += 12 + <Py_ssize_t>length
    if status == SCAN_END and 12 <= end - p < 17 and not 14 <= int32_at(p + 8) <= MAX_LENGTH:
        status = SCAN_LENGTH                        # the magic is cut off, but no magic allows this length
    at[0] = p
    count[0] = n
    return status


cdef scan_error(int status, Source source, Py_ssize_t at, Py_ssize_t end, uint32_t crc):
    cdef const uint8_t* p = source.data + at
    cdef int64_t base_offset = int64_at(p)
    cdef int32_t length = int32_at(p + 8)
    if status == SCAN_LENGTH:
        return StructureError(f"length field is {length}, which no batch can have", at, base_offset, None)
    resume = at + 12 + <Py_ssize_t>length if length >= 14 and length <= end - at - 12 else None
    if status == SCAN_MAGIC:
        return UnsupportedError(f"magic {<int8_t>p[16]} is not supported", at, base_offset, resume)
    name = "CRC-32C" if p[16] == 2 else "CRC-32"
    return ChecksumError(f"{name} is {crc:#010x}, the crc field says {stored_crc(p):#010x}", at, base_offset, resume)


def scan_batches(buffer, table, start=0, end=None, check_crc=True):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t first, last, count = 0, capacity = len(table)
    first, last = bounds(source, start, end)
    cdef Batch* rows = <Batch*>arrays.take(table, capacity, sizeof(Batch))
    cdef const uint8_t* p = source.data + first
    cdef bint check = check_crc
    cdef uint32_t crc = 0
    cdef int status
    with nogil:
        status = scan(source.data, &p, source.data + last, rows, capacity, &count, check, &crc)
    at = p - source.data
    return Scan(count, at, None if status <= SCAN_FULL else scan_error(status, source, at, last, crc))

# Read batch headers into a table and check CRCs, without decompressing or decoding records.
#
# In Kafka, this is called shallow iteration.

from libc.errno cimport EINTR, errno
from libc.string cimport memmove
from posix.unistd cimport pread

cdef struct Batch:      # Row of a table with dtype BATCH_DTYPE.
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
    SCAN_END = 0
    SCAN_FULL = 1
    SCAN_LENGTH = 2
    SCAN_MAGIC = 3
    SCAN_CRC = 4


cdef inline int min_length(uint8_t magic) noexcept nogil:
    """Return the smallest valid length field for a magic. An unknown magic is treated as magic 0."""
    return MIN_BATCH_LENGTH if magic == MAGIC_V2 else MIN_LENGTH_V1 if magic == MAGIC_V1 else MIN_LEGACY_LENGTH


cdef inline uint32_t stored_crc(const uint8_t* p) noexcept nogil:
    return <uint32_t>int32_at(p + (CRC_AT if p[MAGIC_AT] == MAGIC_V2 else LEGACY_CRC_AT))


cdef inline uint32_t actual_crc(const uint8_t* p, int32_t length) noexcept nogil:
    """Compute the CRC of a batch or message. The buffer must contain the complete batch or message."""
    if p[MAGIC_AT] == MAGIC_V2:
        return crc32c_update(0, p + CRC_START, length + ENTRY_OVERHEAD - CRC_START)
    return crc32_update(0, p + MAGIC_AT, length + ENTRY_OVERHEAD - MAGIC_AT)


cdef inline void read_batch_header(const uint8_t* base, const uint8_t* p, int32_t length, Batch* row) noexcept nogil:
    row.position = p - base
    row.base_offset = int64_at(p)
    row.size = length + ENTRY_OVERHEAD
    row.leader_epoch = int32_at(p + LEADER_EPOCH_AT)
    row.magic = <int8_t>p[MAGIC_AT]
    row.crc = <uint32_t>int32_at(p + CRC_AT)
    row.attributes = int16_at(p + ATTRIBUTES_AT)
    row.last_offset_delta = int32_at(p + LAST_OFFSET_DELTA_AT)
    row.base_timestamp = int64_at(p + BASE_TIMESTAMP_AT)
    row.max_timestamp = int64_at(p + MAX_TIMESTAMP_AT)
    row.producer_id = int64_at(p + PRODUCER_ID_AT)
    row.producer_epoch = int16_at(p + PRODUCER_EPOCH_AT)
    row.base_sequence = int32_at(p + BASE_SEQUENCE_AT)
    row.count = int32_at(p + COUNT_AT)
    row.payload_position = row.position + BATCH_HEADER_SIZE
    row.payload_size = row.size - BATCH_HEADER_SIZE


cdef inline void read_message_header(const uint8_t* base, const uint8_t* p, int32_t length, Batch* row) noexcept nogil:
    """Fill a table row for a message of magic 0 or 1.

    The payload of an uncompressed message is the message itself, as decode_records() expects. The
    payload of a wrapper message is its compressed value. If the value is null or runs past the end of
    the message, the payload size is 0.
    """
    cdef const uint8_t* end = p + ENTRY_OVERHEAD + length
    cdef const uint8_t* q = p + (LEGACY_KEY_AT_V1 if p[MAGIC_AT] else LEGACY_KEY_AT_V0)
    cdef int32_t key_length, value_length
    row.position = p - base
    row.base_offset = int64_at(p)
    row.size = length + ENTRY_OVERHEAD
    row.leader_epoch = -1
    row.magic = <int8_t>p[MAGIC_AT]
    row.crc = <uint32_t>int32_at(p + LEGACY_CRC_AT)
    row.attributes = p[LEGACY_ATTRIBUTES_AT] & LEGACY_ATTRIBUTES
    row.last_offset_delta = 0
    row.base_timestamp = row.max_timestamp = int64_at(p + LEGACY_TIMESTAMP_AT) if p[MAGIC_AT] else NO_TIMESTAMP
    row.producer_id = row.producer_epoch = row.base_sequence = -1
    row.count = 1
    row.payload_position = row.position
    row.payload_size = row.size
    if p[LEGACY_ATTRIBUTES_AT] & CODEC_MASK:
        row.count = -1
        row.payload_size = 0
        key_length = int32_at(q)
        q += 4
        if key_length <= end - q - 4:
            q += key_length if key_length > 0 else 0
            value_length = int32_at(q)
            if 0 <= value_length <= end - q - 4:
                row.payload_position = q + 4 - base
                row.payload_size = value_length


cdef int scan_headers(const uint8_t* base, const uint8_t** at, const uint8_t* end, Batch* rows, Py_ssize_t capacity,
                      Py_ssize_t* count, bint check_crc, uint32_t* crc) noexcept nogil:
    cdef const uint8_t* p = at[0]
    cdef Py_ssize_t n = 0
    cdef int32_t length
    cdef int status = SCAN_END
    while end - p >= MAGIC_END:
        length = int32_at(p + LENGTH_AT)
        if length < MIN_LEGACY_LENGTH or length > MAX_BATCH_LENGTH:
            status = SCAN_LENGTH
            break
        if p[MAGIC_AT] > MAGIC_V2:
            status = SCAN_MAGIC
            break
        if length < min_length(p[MAGIC_AT]):
            status = SCAN_LENGTH
            break
        if length > end - p - ENTRY_OVERHEAD:
            break
        if n == capacity:
            status = SCAN_FULL
            break
        if check_crc:
            crc[0] = actual_crc(p, length)
            if crc[0] != stored_crc(p):
                status = SCAN_CRC
                break
        if p[MAGIC_AT] == MAGIC_V2:
            read_batch_header(base, p, length, &rows[n])
        else:
            read_message_header(base, p, length, &rows[n])
        n += 1
        p += ENTRY_OVERHEAD + <Py_ssize_t>length
    if status == SCAN_END and ENTRY_OVERHEAD <= end - p < MAGIC_END and not MIN_LEGACY_LENGTH <= int32_at(p + LENGTH_AT) <= MAX_BATCH_LENGTH:
        status = SCAN_LENGTH                        # This length is invalid for any magic.
    at[0] = p
    count[0] = n
    return status


cdef scan_error(int status, Source source, Py_ssize_t at, Py_ssize_t end, uint32_t crc):
    cdef const uint8_t* p = source.data + at
    cdef int64_t base_offset = int64_at(p)
    cdef int32_t length = int32_at(p + LENGTH_AT)
    if status == SCAN_LENGTH:
        return StructureError(f"length field is {length}, which no batch can have", at, base_offset, None)
    resume = at + ENTRY_OVERHEAD + <Py_ssize_t>length if length >= MIN_LEGACY_LENGTH and length <= end - at - ENTRY_OVERHEAD else None
    if status == SCAN_MAGIC:
        return UnsupportedError(f"magic {<int8_t>p[MAGIC_AT]} is not supported", at, base_offset, resume)
    name = "CRC-32C" if p[MAGIC_AT] == MAGIC_V2 else "CRC-32"
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
        status = scan_headers(source.data, &p, source.data + last, rows, capacity, &count, check, &crc)
    at = p - source.data
    return Scan(count, at, None if status <= SCAN_FULL else scan_error(status, source, at, last, crc))


cdef enum:
    FILE_READ_ALIGNMENT = 64    # The kernel copies data faster into an aligned buffer.


cdef Py_ssize_t scan_descriptor(int descriptor, uint8_t* data, Py_ssize_t size, Batch* rows, Py_ssize_t capacity,
                                int64_t* position, int64_t end) noexcept nogil:
    cdef Py_ssize_t begin = 0, held = 0, count = 0, found = 0, used, got, i
    cdef int64_t wanted
    cdef const uint8_t* p
    cdef uint32_t crc = 0
    cdef int status
    while True:     # `held` bytes of the file, from `position` on, are in the buffer at `begin`.
        if begin + held == size and begin:
            memmove(data, data + begin, held)
            begin = 0
        wanted = min(<int64_t>(size - begin - held), end - position[0] - held)
        if wanted <= 0:
            return count
        got = pread(descriptor, data + begin + held, wanted, position[0] + held)
        if got < 0 and errno == EINTR:
            continue
        if got <= 0:
            return count
        held += got
        p = data + begin
        status = scan_headers(p, &p, p + held, rows + count, capacity - count, &found, True, &crc)
        for i in range(count, count + found):
            rows[i].position += position[0]
            rows[i].payload_position += position[0]
        count += found
        used = p - (data + begin)
        position[0] += used
        held -= used
        if status != SCAN_END:
            return count
        # Move the incomplete batch, so that the next read is aligned.
        begin = (FILE_READ_ALIGNMENT - held % FILE_READ_ALIGNMENT) % FILE_READ_ALIGNMENT
        if begin + held > size:
            begin = 0
        memmove(data + begin, p, held)


def scan_file(descriptor, buffer, table, start, end):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count, size = len(buffer), capacity = len(table)
    cdef uint8_t* data = <uint8_t*>arrays.take(buffer, size, 1)
    cdef Batch* rows = <Batch*>arrays.take(table, capacity, sizeof(Batch))
    cdef int handle = descriptor
    cdef int64_t position = start, stop = end
    if position < 0 or stop < position:
        raise ValueError(f"start {start} and end {end} are not a valid range of a file")
    with nogil:
        count = scan_descriptor(handle, data, size, rows, capacity, &position, stop)
    return Scan(count, position, None)

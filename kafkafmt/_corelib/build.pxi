# Define RecordBuffer, which encodes records into a growing buffer, batch by batch.
#
# The open batch begins at `start`, where space is reserved. In magic 2, the space is for the batch header.
# In magic 0 and 1 with a codec, the space is for the fields of the wrapper message that precede its value.
# If there is a codec, close() replaces the records with compressed records.
# Then close() fills the reserved space and begins the next batch.
#
# To append a record, append.pxi first converts Python objects to pointers (`Field`), without running Python code.
# Then place() encodes the record. Rows of columns are encoded without the GIL.

from libc.stdlib cimport free, realloc
from libc.string cimport memmove

from .errors import InvalidError

cdef enum:
    COPY_ROOM = 64              # Minimum number of free bytes after written data, and of readable bytes after copied data.
    FIRST_ROOM = 4096

cdef extern from *:
    """
    /* put_plain() writes only offset deltas below 2^26. Up to this offset, it cannot reach INT64_MAX. */
    #define KF_LAST_PLAIN_OFFSET (INT64_MAX - (1 << 27))
    """
    const int64_t LAST_PLAIN_OFFSET "KF_LAST_PLAIN_OFFSET"

@cython.final
cdef class RecordBuffer:
    """Builds batches in a growing buffer, which contains closed batches and then one open batch.

    See `_core.pyi`.
    """

    cdef uint8_t* data
    cdef Py_ssize_t capacity, filled, start, max_size
    cdef Py_ssize_t plain_end       # End of the space for plain records. 0 if the next record cannot be plain.
    cdef Header* header_fields
    cdef Py_ssize_t header_room
    cdef Py_ssize_t* ends           # End position of each closed batch.
    cdef Py_ssize_t end_count, end_room
    cdef readonly int64_t base_offset, next_offset, max_timestamp, producer_id
    cdef readonly int32_t count, base_sequence
    cdef int64_t base_timestamp, append_time, delete_horizon
    cdef int32_t leader_epoch
    cdef int16_t attributes, producer_epoch
    cdef int magic, head
    cdef bint base_given
    cdef public bint stored
    cdef bint busy                  # True while a thread appends columns without the GIL. See `enter`.

    def __cinit__(self, magic=2, attributes=0, max_size=None, base_offset=None, leader_epoch=-1, producer_id=-1, producer_epoch=-1,
                  base_sequence=-1, append_time=-1, delete_horizon=-1):
        self.data = NULL
        self.header_fields = NULL
        self.ends = NULL
        if magic not in (0, 1, 2):
            raise ValueError(f"magic is {magic}; it must be 0, 1 or 2")
        self.magic = magic
        self.attributes = attributes
        self.max_size = MAX_BATCH_SIZE
        if max_size is not None and natural(max_size) < self.max_size:
            self.max_size = max_size
        self.base_given = base_offset is not None
        self.base_offset = self.next_offset = base_offset if self.base_given else 0
        if self.base_offset < 0:
            raise ValueError(f"base_offset is {base_offset}; it cannot be negative")
        self.leader_epoch, self.producer_id, self.producer_epoch = leader_epoch, producer_id, producer_epoch
        self.base_sequence, self.append_time, self.delete_horizon = base_sequence, append_time, delete_horizon
        self.head = BATCH_HEADER_SIZE if magic == MAGIC_V2 else wrapper_head(magic) if self.attributes & CODEC_MASK else 0
        self.grow(FIRST_ROOM)
        self.begin()

    def __dealloc__(self):
        free(self.data)
        free(self.header_fields)
        free(self.ends)

    cdef int enter(self, bint busy=True) except -1:
        """Begin a critical section, in which no other thread appends. If `busy` is True, this holds until `busy` is reset."""
        # A free-threaded Python suspends a critical section while a lock is waited for, or while columns are appended.
        if self.busy:
            raise RuntimeError("another thread is appending columns")
        self.busy = busy
        return 0

    cdef void begin(self) noexcept nogil:
        """Begin a new batch after the closed batches.

        Space is reserved for the batch header, or for the fields of a wrapper message that precede
        its value.
        """
        self.filled = self.start + self.head
        self.plain_end = self.count = 0
        self.max_timestamp = NO_TIMESTAMP
        self.base_timestamp = self.delete_horizon if self.attributes & DELETE_HORIZON_BIT else -1

    cdef int grow(self, Py_ssize_t more) except -1:
        if self.reserve(more):
            raise MemoryError
        return 0

    cdef inline int reserve(self, Py_ssize_t more) noexcept nogil:
        if KF_LIKELY(more + COPY_ROOM <= self.capacity - self.filled):
            return 0
        return self.enlarge(more)

    cdef int enlarge(self, Py_ssize_t more) noexcept nogil:
        cdef Py_ssize_t room = self.filled + more + COPY_ROOM
        cdef void* data
        if room < 2 * self.capacity:
            room = 2 * self.capacity
        data = realloc(self.data, room)
        if data == NULL:
            return NO_MEMORY
        self.data = <uint8_t*>data
        self.capacity = room
        return 0

    cdef int reserve_headers(self, Py_ssize_t n) noexcept nogil:
        cdef void* grown
        if n > self.header_room:
            grown = realloc(self.header_fields, 2 * n * sizeof(Header))
            if grown == NULL:
                return NO_MEMORY
            self.header_fields = <Header*>grown
            self.header_room = 2 * n
        return 0

    @property
    def size(self):
        return self.filled - self.start

    @property
    def closed_size(self):
        return self.start

    cdef inline int place(self, const Field* key, const Field* value, int64_t timestamp, int64_t offset, const Header* headers,
                          Py_ssize_t header_count, bint dry) noexcept nogil:
        """Append a record.

        Return PLACED, FULL, an index of BUILD_FAULTS, or NO_MEMORY. If `dry` is True, return this
        result without appending the record.
        """
        if KF_LIKELY(offset == NEXT_OFFSET):
            offset = self.next_offset
        if KF_UNLIKELY(offset < self.next_offset or offset == INT64_MAX):
            return BUILD_OFFSET
        if KF_UNLIKELY(timestamp < NO_TIMESTAMP) and not self.stored:
            return BUILD_TIMESTAMP
        if self.magic == MAGIC_V2:
            return self.place_record(key, value, timestamp, offset, headers, header_count, dry)
        if header_count:
            return BUILD_NO_HEADERS
        return self.place_message(key, value, timestamp, offset, dry)

    cdef inline bint place_plain(self, const Field* key, const Field* value, int64_t timestamp) noexcept nogil:
        """Append a record of magic 2 if it is plain.

        Return False if the record is not plain or might not fit.
        """
        cdef uint8_t* p = put_plain(self.data + self.filled, self.data + self.plain_end, self.base_timestamp,
                                    zigzag(self.next_offset - self.base_offset), timestamp, key.data, key.size, value.data,
                                    value.size, False)
        if p == NULL:
            return False
        self.filled = p - self.data
        self.count += 1
        self.next_offset += 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        return True

    cdef inline void placed_plain(self, const uint8_t* p, Py_ssize_t n, int64_t latest) noexcept nogil:
        self.filled = p - self.data
        self.count += <int32_t>n
        self.next_offset += n
        self.max_timestamp = latest

    cdef inline int fits_batch(self, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t room = self.max_size - (self.filled - self.start)
        if KF_UNLIKELY(size > room):
            if self.count:
                return FULL
            if size > MAX_BATCH_SIZE - (self.filled - self.start):
                return BUILD_TOO_LARGE
        return PLACED

    cdef inline void placed(self, int64_t timestamp, int64_t offset, int64_t base) noexcept nogil:
        if self.count == 0:
            self.base_offset = base
        self.count += 1
        self.next_offset = offset + 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    cdef inline int place_record(self, const Field* key, const Field* value, int64_t timestamp, int64_t offset,
                                 const Header* headers, Py_ssize_t header_count, bint dry) noexcept nogil:
        cdef int64_t base = self.base_offset if self.count or self.base_given else offset
        cdef int64_t base_timestamp = self.base_timestamp if self.count or self.attributes & DELETE_HORIZON_BIT else timestamp
        cdef uint64_t when = zigzag(<int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp))
        cdef Py_ssize_t size
        cdef uint8_t* p
        cdef int status
        if KF_UNLIKELY(offset - base > MAX_INT32):
            return BUILD_DELTA
        size = record_size(when, zigzag(offset - base), key, value, headers, header_count)
        status = self.fits_batch(size + varint_size(zigzag(size)))
        if status or dry:
            return status
        if self.reserve(size + 5):
            return NO_MEMORY
        p = put_record(self.data + self.filled, size, when, zigzag(offset - base), key, value, headers, header_count)
        self.filled = p - self.data
        self.base_timestamp = base_timestamp
        self.placed(timestamp, offset, base)
        self.plain_end = min(self.start + self.max_size, self.capacity - COPY_ROOM) if offset < LAST_PLAIN_OFFSET else 0
        return PLACED

    cdef inline int place_message(self, const Field* key, const Field* value, int64_t timestamp, int64_t offset, bint dry) noexcept nogil:
        cdef int64_t base = self.base_offset if self.count or self.base_given else offset
        cdef bint wrapped = self.attributes & CODEC_MASK
        cdef Py_ssize_t size = ENTRY_OVERHEAD + min_length(<uint8_t>self.magic)
        cdef int status
        if KF_UNLIKELY(self.magic == MAGIC_V0 and timestamp != NO_TIMESTAMP):
            return BUILD_NO_TIMESTAMP
        size += (key.size if key.size > 0 else 0) + (value.size if value.size > 0 else 0)
        status = self.fits_batch(size)
        if status or dry:
            return status
        if self.reserve(size):
            return NO_MEMORY
        encode_message(self.data + self.filled, self.magic, self.attributes & LOG_APPEND_TIME_BIT, offset - base if wrapped and self.magic else offset,
                       self.append_time if self.attributes & LOG_APPEND_TIME_BIT and not wrapped else timestamp, key, value)
        self.filled += size
        self.placed(timestamp, offset, base)
        return PLACED

    def append(self, key, value, timestamp=-1, headers=(), offset=None):
        return take_record(self, key, value, timestamp, headers, offset, False) == PLACED

    def has_room_for(self, key, value, timestamp=-1, headers=(), offset=None):
        return take_record(self, key, value, timestamp, headers, offset, True) == PLACED

    def extend(self, records, start=0):
        return append_records(self, records, natural(start))

    def append_columns(self, keys, values, timestamps, offsets, headers, start, stop, many=False):
        return append_rows(self, keys, values, timestamps, offsets, headers, natural(start), natural(stop), many)

    @cython.critical_section
    def records(self):
        self.enter(False)
        return PyBytes_FromStringAndSize(<const char*>self.data + self.start + self.head, self.filled - self.start - self.head)

    cdef int finish(self, int64_t last_offset) noexcept nogil:
        """Fill the reserved space at the start of the batch, and begin the next batch."""
        cdef uint8_t* p = self.data + self.start
        cdef Py_ssize_t size = self.filled - self.start
        cdef void* ends
        cdef Batch row
        cdef int64_t timestamp = self.append_time if self.attributes & LOG_APPEND_TIME_BIT else self.max_timestamp
        if last_offset < 0:
            last_offset = self.next_offset - 1
        if self.end_count == self.end_room:
            ends = realloc(self.ends, (2 * self.end_room + 8) * sizeof(Py_ssize_t))
            if ends == NULL:
                return NO_MEMORY
            self.ends = <Py_ssize_t*>ends
            self.end_room = 2 * self.end_room + 8
        self.ends[self.end_count] = self.filled
        self.end_count += 1
        if self.magic == MAGIC_V2:
            row.base_offset, row.leader_epoch, row.attributes = self.base_offset, self.leader_epoch, self.attributes
            row.last_offset_delta, row.base_timestamp = <int32_t>(last_offset - self.base_offset), self.base_timestamp
            row.max_timestamp, row.producer_id, row.producer_epoch = timestamp, self.producer_id, self.producer_epoch
            row.base_sequence, row.count = self.base_sequence, self.count
            put_batch_header(p, size, &row)
        elif self.attributes & CODEC_MASK:
            put_wrapper(p, size, self.magic, self.attributes, last_offset, timestamp)
        if self.base_sequence >= 0:
            self.base_sequence = <int32_t>((self.base_sequence + (last_offset - self.base_offset) + 1) & MAX_INT32)
        self.next_offset = last_offset + 1
        self.base_given = False
        self.start = self.filled
        if self.reserve(self.head):
            return NO_MEMORY
        self.begin()
        return PLACED

    @cython.critical_section
    def close(self, compressed=None, last_offset=None, count=None):
        cdef Source source
        cdef int64_t last = -1 if last_offset is None else last_offset
        self.enter(False)
        if count is not None and self.count != count:
            raise RuntimeError(CHANGED_MEANWHILE)
        if self.count == 0:
            return 0
        if last_offset is not None and (last < self.next_offset - 1 or last == INT64_MAX
                                        or (self.magic == MAGIC_V2 and last - self.base_offset > MAX_INT32)):
            raise ValueError(f"last_offset is {last}, but the batch contains {offsets_text(self.base_offset, self.next_offset - 1)}")
        if (compressed is None) != (not self.attributes & CODEC_MASK):
            raise ValueError("compressed is required if the attributes contain a codec, and not allowed otherwise")
        if compressed is not None:
            source = Source(compressed)
            if source.size > MAX_BATCH_SIZE - self.head:
                raise TooLargeError(f"{source.size} compressed bytes do not fit into a batch", self.filled - self.start, self.base_offset)
            self.filled = self.start + self.head
            self.grow(source.size)
            memcpy(self.data + self.filled, source.data, source.size)
            self.filled += source.size
        size = self.filled - self.start
        if self.finish(last):
            raise MemoryError
        return size

    cdef void forget(self) noexcept:
        """Remove the closed batches and move the open batch to the start of the buffer."""
        memmove(self.data, self.data + self.start, self.filled - self.start)
        self.filled -= self.start
        self.start = self.end_count = 0
        if self.plain_end:
            self.plain_end = min(self.max_size, self.capacity - COPY_ROOM)

    @cython.critical_section
    def take_closed(self):
        self.enter(False)
        cdef object closed = PyBytes_FromStringAndSize(<const char*>self.data, self.start)
        self.forget()
        return closed

    @cython.critical_section
    def take_batches(self):
        cdef Py_ssize_t i, start = 0
        cdef list batches = []
        self.enter(False)
        for i in range(self.end_count):
            batches.append(PyBytes_FromStringAndSize(<const char*>self.data + start, self.ends[i] - start))
            start = self.ends[i]
        self.forget()
        return batches

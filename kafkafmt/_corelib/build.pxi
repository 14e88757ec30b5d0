# Building: records into a growing buffer, batch behind batch, with places kept free for what is known only at the end.
#
# A batch under way begins at `start`; of format 2 its first 61 bytes are the place of the header. Closing writes it (or, over
# compressed data, header or wrapper message and data) and begins the next batch behind it. Appending is two steps: Python objects
# become pointers (`Field`), without running any Python code, and `place` writes the record, without the GIL where there are columns.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

cdef extern from "Python.h":
    bint PyLong_Check(object o)
    bint PyUnicode_CheckExact(object o)
    bint PyList_CheckExact(object o)
    Py_ssize_t PyList_GET_SIZE(object o)
    PyObject* PyList_GET_ITEM(object o, Py_ssize_t i)
    long long PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1
    const char* PyUnicode_AsUTF8AndSize(object o, Py_ssize_t* size) except NULL

cdef extern from "_corelib/record.h":
    """
    #define kf_is_record(o) Py_IS_TYPE(o, &KfRecord_Type)
    #define kf_record_key(o) (((KfRecord *)(o))->key)
    #define kf_record_value(o) (((KfRecord *)(o))->value)
    #define kf_record_timestamp(o) (((KfRecord *)(o))->timestamp)
    #define kf_record_headers(o) (((KfRecord *)(o))->headers)
    """
    bint kf_is_record(object o)
    PyObject* kf_record_key(object o)
    PyObject* kf_record_value(object o)
    PyObject* kf_record_timestamp(object o)
    PyObject* kf_record_headers(object o)

cdef extern from *:
    """
    #define KF_BITS(x) (64 - __builtin_clzll((unsigned long long)(x) | 1))
    #define KF_PREFETCH(p) __builtin_prefetch(p)
    """
    int KF_BITS(uint64_t) nogil
    void KF_PREFETCH(const void*) nogil
    const int64_t INT64_MAX
    const int64_t NEXT_OFFSET "INT64_MIN"       # stands for the offset behind the last record's

from .errors import InvalidError, TooLargeError

cdef enum:
    PLACED = 0
    FULL = 1
    BUILD_OFFSET = 2            # from here on indexes of BUILD_FAULTS
    BUILD_DELTA = 3
    BUILD_TIMESTAMP = 4
    BUILD_NO_TIMESTAMP = 5
    BUILD_NO_HEADERS = 6
    BUILD_TOO_LARGE = 7
    BUILD_SPAN = 8
    BUILD_HEADER_KEY = 9
    NO_MEMORY = 10
    NOT_PLAIN = 11              # a Python object that is not of the types read without calling anything
    COPY_ROOM = 64              # bytes kept free behind what is written, for copies in whole steps
    FIRST_ROOM = 4096
    PREFETCH = 2048

cdef struct Field:
    const uint8_t* data
    Py_ssize_t size             # -1: null

cdef struct Header:
    Field key
    Field value


cdef struct Column:             # spans of one buffer; no positions: all null
    const uint8_t* data
    Py_ssize_t size
    const int64_t* positions
    const int32_t* lengths


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


cdef inline Py_ssize_t field_size(const Field* field) noexcept nogil:
    return varint_size(zigzag(field.size)) + (field.size if field.size > 0 else 0)


cdef inline uint8_t* put_field(uint8_t* p, const Field* field) noexcept nogil:
    p = put_varint(p, zigzag(field.size))
    if field.size > 0:
        copy_exact(p, field.data, field.size)
        p += field.size
    return p


cdef inline int plain_field(object o, Field* field) noexcept:
    """Bytes or None as a field; NOT_PLAIN for anything else."""
    if PyBytes_CheckExact(o):
        field.data = <const uint8_t*>PyBytes_AS_STRING(o)
        field.size = PyBytes_GET_SIZE(o)
    elif o is None:
        field.size = -1
    else:
        return NOT_PLAIN
    return PLACED


cdef inline void copy_exact(uint8_t* to, const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Not a byte more on either side; for short spans quicker than a call of memcpy."""
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


cdef inline uint8_t* put_plain(uint8_t* p, const uint8_t* end, int64_t base_timestamp, uint64_t delta, int64_t timestamp, const uint8_t* key,
                               Py_ssize_t key_size, const uint8_t* value, Py_ssize_t value_size, bint slack) noexcept nogil:
    """A record of format 2 without headers at `p`, the position behind it; NULL if it is not sure to fit, or one of its fields is large."""
    cdef uint64_t time_raw = zigzag(<int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp))
    cdef uint64_t key_raw = zigzag(key_size), value_raw = zigzag(value_size)
    cdef Py_ssize_t size = (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0), head
    cdef uint8_t* q
    if KF_UNLIKELY((time_raw | delta | key_raw | value_raw) >= 0x8000000 or timestamp < -1 or size > end - p - 22):
        return NULL
    if KF_LIKELY(size >= 58 and size < 8174):       # 6 to 18 bytes more in any case
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


cdef inline bint is_empty_tuple(PyObject* o) noexcept:
    return PyTuple_CheckExact(<object>o) and PyTuple_GET_SIZE(<object>o) == 0


cdef inline void prefetch_record(PyObject* record, PyObject* later) noexcept:
    """Load what is needed next: objects that lie about in memory are what takes the time."""
    cdef PyObject* value
    KF_PREFETCH(later)
    if PyTuple_CheckExact(<object>record) and PyTuple_GET_SIZE(<object>record) > 2:
        KF_PREFETCH(PyTuple_GET_ITEM(<object>record, 0))
        value = PyTuple_GET_ITEM(<object>record, 1)
        KF_PREFETCH(value)
        KF_PREFETCH(<const char*>value + 64)
        KF_PREFETCH(PyTuple_GET_ITEM(<object>record, 2))


cdef object plain_bytes(o, name):
    if o is None or type(o) is bytes:
        return o
    try:
        return bytes(memoryview(o))
    except TypeError:
        raise TypeError(f"{name} must be bytes-like or None, not {type(o).__name__}") from None


cdef list plain_headers(headers):
    """Headers as pairs of exact types, which is what is read without calling anything."""
    plain = []
    for pair in headers or ():
        key, value = pair
        if type(key) is not str:
            key = str(key) if isinstance(key, str) else plain_bytes(key, "header key")
        if key is None:
            raise TypeError("header key must be str or bytes-like, not None")
        plain.append((key, plain_bytes(value, "header value")))
    return plain


@cython.final
cdef class RecordBuffer:
    cdef uint8_t* data
    cdef Py_ssize_t capacity, filled, start, max_size
    cdef Py_ssize_t plain_end       # how far plain records may reach; 0 where the next record is none
    cdef Header* header_fields
    cdef Py_ssize_t header_room
    cdef Py_ssize_t* ends           # of the closed batches
    cdef Py_ssize_t end_count, end_room
    cdef readonly int64_t base_offset, next_offset, max_timestamp, producer_id
    cdef readonly int32_t count, base_sequence
    cdef int64_t base_timestamp, append_time, delete_horizon
    cdef int32_t leader_epoch
    cdef int16_t attributes, producer_epoch
    cdef int magic, head
    cdef bint base_given

    def __cinit__(self, magic=2, attributes=0, max_size=None, base_offset=None, leader_epoch=-1, producer_id=-1, producer_epoch=-1,
                  base_sequence=-1, append_time=-1, delete_horizon=-1):
        self.data = NULL
        self.header_fields = NULL
        self.ends = NULL
        if magic not in (0, 1, 2):
            raise ValueError(f"magic is {magic}; it can be 0, 1 or 2")
        self.magic = magic
        self.attributes = attributes
        self.max_size = MAX_LENGTH + 12
        if max_size is not None and natural(max_size) < self.max_size:
            self.max_size = max_size
        self.base_given = base_offset is not None
        self.base_offset = self.next_offset = base_offset if self.base_given else 0
        if self.base_offset < 0:
            raise ValueError(f"base_offset is {base_offset}; it cannot be negative")
        self.leader_epoch, self.producer_id, self.producer_epoch = leader_epoch, producer_id, producer_epoch
        self.base_sequence, self.append_time, self.delete_horizon = base_sequence, append_time, delete_horizon
        self.head = HEADER if magic == 2 else 0 if not self.attributes & 7 else 34 if magic else 26
        self.grow(FIRST_ROOM)
        self.begin()

    def __dealloc__(self):
        free(self.data)
        free(self.header_fields)
        free(self.ends)

    cdef void begin(self) noexcept nogil:
        """A batch behind what is closed: with a place for its header, or for all that stands before a wrapper's value."""
        self.filled = self.start + self.head
        self.plain_end = self.count = 0
        self.max_timestamp = -1
        self.base_timestamp = self.delete_horizon if self.attributes & 0x40 else -1

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

    @property
    def size(self):
        return self.filled - self.start

    @property
    def closed_size(self):
        return self.start

    cdef inline int place(self, const Field* key, const Field* value, int64_t timestamp, int64_t offset, const Header* headers,
                          Py_ssize_t header_count, bint dry) noexcept nogil:
        """Write a record; `dry` only tells what would become of it."""
        if KF_LIKELY(offset == NEXT_OFFSET):
            offset = self.next_offset
        if KF_UNLIKELY(offset < self.next_offset or offset == INT64_MAX):
            return BUILD_OFFSET
        if KF_UNLIKELY(timestamp < -1):
            return BUILD_TIMESTAMP
        if self.magic == 2:
            return self.place_record(key, value, timestamp, offset, headers, header_count, dry)
        if header_count:
            return BUILD_NO_HEADERS
        return self.place_message(key, value, timestamp, offset, dry)

    cdef inline bint place_plain(self, const Field* key, const Field* value, int64_t timestamp) noexcept nogil:
        """Write a record of format 2 of the kind that nearly all are; False for any other."""
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

    cdef Py_ssize_t fill_columns(self, const Column* key, const Column* value, const int64_t* when, Py_ssize_t i,
                                 Py_ssize_t last) noexcept nogil:
        """The same for rows of columns, up to the first that is not of this kind; what changes stays in registers."""
        cdef uint8_t* p = self.data + self.filled
        cdef uint8_t* end = self.data + self.plain_end
        cdef uint8_t* q
        cdef int64_t base = self.base_timestamp, timestamp = -1, latest = self.max_timestamp
        cdef uint64_t delta = zigzag(self.next_offset - self.base_offset)
        cdef Py_ssize_t key_size = -1, value_size = -1, first = i
        cdef const uint8_t* key_data = NULL
        cdef const uint8_t* value_data = NULL
        while i < last:
            if when != NULL:
                timestamp = when[i]
            if key.lengths != NULL:
                key_size = key.lengths[i]
                if key_size < 0:
                    key_size = -1
                elif key_size > key.size - COPY_ROOM or <uint64_t>key.positions[i] > <uint64_t>(key.size - COPY_ROOM - key_size):
                    break
                else:
                    key_data = key.data + key.positions[i]
            if value.lengths != NULL:
                value_size = value.lengths[i]
                if value_size < 0:
                    value_size = -1
                elif value_size > value.size - COPY_ROOM or <uint64_t>value.positions[i] > <uint64_t>(value.size - COPY_ROOM - value_size):
                    break
                else:
                    value_data = value.data + value.positions[i]
                    KF_PREFETCH(value_data + PREFETCH)
                    KF_PREFETCH(value_data + PREFETCH + 64)
            q = put_plain(p, end, base, delta, timestamp, key_data, key_size, value_data, value_size, True)
            if KF_UNLIKELY(q == NULL):
                break
            p = q
            delta += 2
            i += 1
            if timestamp > latest:
                latest = timestamp
        self.placed_plain(p, i - first, latest)
        return i

    cdef Py_ssize_t fill_tuples(self, list records, Py_ssize_t i) except -1:
        """The same for tuples of exact types; no code of anybody's runs meanwhile, so nothing need be held."""
        cdef uint8_t* p = self.data + self.filled
        cdef uint8_t* end = self.data + self.plain_end
        cdef uint8_t* q
        cdef int64_t base = self.base_timestamp, timestamp, latest = self.max_timestamp
        cdef uint64_t delta = zigzag(self.next_offset - self.base_offset)
        cdef Py_ssize_t n = PyList_GET_SIZE(records), items, first = i
        cdef PyObject* record
        cdef Field key, value
        cdef int overflow = 0
        while i < n:
            if i + 32 < n:
                prefetch_record(PyList_GET_ITEM(records, i + 16), PyList_GET_ITEM(records, i + 32))
            record = PyList_GET_ITEM(records, i)
            if not PyTuple_CheckExact(<object>record):
                break
            items = PyTuple_GET_SIZE(<object>record)
            timestamp = -1
            if items > 2 and PyLong_Check(<object>PyTuple_GET_ITEM(<object>record, 2)):
                timestamp = PyLong_AsLongLongAndOverflow(<object>PyTuple_GET_ITEM(<object>record, 2), &overflow)
            elif items != 2:
                break
            if items > 3 and (items > 4 or not is_empty_tuple(PyTuple_GET_ITEM(<object>record, 3))):
                break
            if overflow or plain_field(<object>PyTuple_GET_ITEM(<object>record, 0), &key) or \
                    plain_field(<object>PyTuple_GET_ITEM(<object>record, 1), &value):
                break
            q = put_plain(p, end, base, delta, timestamp, key.data, key.size, value.data, value.size, False)
            if KF_UNLIKELY(q == NULL):
                break
            p = q
            delta += 2
            i += 1
            if timestamp > latest:
                latest = timestamp
        self.placed_plain(p, i - first, latest)
        return i

    cdef inline int fits(self, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t room = self.max_size - (self.filled - self.start)
        if KF_UNLIKELY(size > room):
            if self.count:
                return FULL
            if size > MAX_LENGTH + 12 - (self.filled - self.start):
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
        cdef int64_t base_timestamp = self.base_timestamp if self.count or self.attributes & 0x40 else timestamp
        cdef uint64_t when = zigzag(<int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp))
        cdef Py_ssize_t size, i
        cdef uint8_t* p
        cdef int status
        if KF_UNLIKELY(offset - base > 0x7fffffff):
            return BUILD_DELTA
        size = 1 + varint_size(when) + varint_size(zigzag(offset - base)) + field_size(key) + field_size(value)
        size += varint_size(zigzag(header_count))
        for i in range(header_count):
            size += field_size(&headers[i].key) + field_size(&headers[i].value)
        status = self.fits(size + varint_size(zigzag(size)))
        if status or dry:
            return status
        if self.reserve(size + 5):
            return NO_MEMORY
        p = put_varint(self.data + self.filled, zigzag(size))
        p[0] = 0
        p = put_varint(p + 1, when)
        p = put_varint(p, zigzag(offset - base))
        p = put_field(p, key)
        p = put_field(p, value)
        p = put_varint(p, zigzag(header_count))
        for i in range(header_count):
            p = put_field(p, &headers[i].key)
            p = put_field(p, &headers[i].value)
        self.filled = p - self.data
        self.base_timestamp = base_timestamp
        self.placed(timestamp, offset, base)
        self.plain_end = min(self.start + self.max_size, self.capacity - COPY_ROOM)
        return PLACED

    cdef inline int place_message(self, const Field* key, const Field* value, int64_t timestamp, int64_t offset, bint dry) noexcept nogil:
        cdef int64_t base = self.base_offset if self.count or self.base_given else offset
        cdef bint wrapped = self.attributes & 7
        cdef Py_ssize_t size = 12 + min_length(<uint8_t>self.magic) + (key.size if key.size > 0 else 0) + (value.size if value.size > 0 else 0)
        cdef uint8_t* p
        cdef uint8_t* message
        cdef int status
        if KF_UNLIKELY(self.magic == 0 and timestamp != -1):
            return BUILD_NO_TIMESTAMP
        status = self.fits(size)
        if status or dry:
            return status
        if self.reserve(size):
            return NO_MEMORY
        message = p = self.data + self.filled
        put64(p, offset - base if wrapped and self.magic else offset)
        put32(p + 8, <uint32_t>(size - 12))
        p[16] = <uint8_t>self.magic
        p[17] = <uint8_t>(self.attributes & 8)
        p += 18
        if self.magic:
            put64(p, self.append_time if self.attributes & 8 and not wrapped else timestamp)
            p += 8
        put32(p, <uint32_t><int32_t>key.size)
        p += 4
        if key.size > 0:
            copy_exact(p, key.data, key.size)
            p += key.size
        put32(p, <uint32_t><int32_t>value.size)
        p += 4
        if value.size > 0:
            copy_exact(p, value.data, value.size)
        put32(message + 12, crc32_update(0, message + 16, size - 16))
        self.filled += size
        self.placed(timestamp, offset, base)
        return PLACED

    cdef fail(self, int status, int64_t offset, int64_t timestamp):
        if status == NO_MEMORY:
            return MemoryError()
        if offset == NEXT_OFFSET:
            offset = self.next_offset
        rule, text = BUILD_FAULTS[status]
        text = text.format(offset=offset, next=self.next_offset, timestamp=timestamp, magic=self.magic)
        base = self.base_offset if self.count else None
        if status == BUILD_TOO_LARGE:
            return TooLargeError(text, self.filled - self.start, base)
        return InvalidError(text, self.filled - self.start, base, rule=rule)

    cdef inline int take_objects(self, object key, object value, object timestamp, object headers, object offset, bint dry,
                                 int64_t* when, int64_t* at) except -1:
        """Place a record given as objects of exact types, of which none runs any code; NOT_PLAIN where one is not."""
        cdef Field key_field, value_field
        cdef Py_ssize_t count = 0, i
        cdef int overflow = 0
        cdef Header* header
        cdef object pair, name
        if plain_field(key, &key_field) or plain_field(value, &value_field) or not PyLong_Check(timestamp):
            return NOT_PLAIN
        when[0] = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
        at[0] = NEXT_OFFSET
        if offset is not None:
            if overflow or not PyLong_Check(offset):
                return NOT_PLAIN
            at[0] = PyLong_AsLongLongAndOverflow(offset, &overflow)
            at[0] = max(at[0], NEXT_OFFSET + 1)
        if overflow:
            return NOT_PLAIN
        if headers is not None and not (PyTuple_CheckExact(headers) and PyTuple_GET_SIZE(headers) == 0):
            if PyList_CheckExact(headers):
                count = PyList_GET_SIZE(headers)
            elif PyTuple_CheckExact(headers):
                count = PyTuple_GET_SIZE(headers)
            else:
                return NOT_PLAIN
            if count > self.header_room:
                header = <Header*>realloc(self.header_fields, 2 * count * sizeof(Header))
                if header == NULL:
                    raise MemoryError
                self.header_fields = header
                self.header_room = 2 * count
            for i in range(count):
                pair = <object>PyList_GET_ITEM(headers, i) if PyList_CheckExact(headers) else <object>PyTuple_GET_ITEM(headers, i)
                if not PyTuple_CheckExact(pair) or PyTuple_GET_SIZE(pair) != 2:
                    return NOT_PLAIN
                header = &self.header_fields[i]
                name = <object>PyTuple_GET_ITEM(pair, 0)
                if PyUnicode_CheckExact(name):
                    header.key.data = <const uint8_t*>PyUnicode_AsUTF8AndSize(name, &header.key.size)
                elif name is None or plain_field(name, &header.key):
                    return NOT_PLAIN
                if plain_field(<object>PyTuple_GET_ITEM(pair, 1), &header.value):
                    return NOT_PLAIN
        elif offset is None and not dry and self.place_plain(&key_field, &value_field, when[0]):
            return PLACED
        return self.place(&key_field, &value_field, when[0], at[0], self.header_fields, count, dry)

    cdef int take(self, object key, object value, object timestamp, object headers, object offset, bint dry) except -1:
        cdef int64_t when = 0, at = 0
        cdef int status = self.take_objects(key, value, timestamp, headers, offset, dry, &when, &at)
        if KF_LIKELY(status <= FULL):
            return status
        if status == NOT_PLAIN:
            key, value, headers = plain_bytes(key, "key"), plain_bytes(value, "value"), plain_headers(headers)
            timestamp, offset = int64(timestamp, "timestamp"), None if offset is None else int64(offset, "offset")
            status = self.take_objects(key, value, timestamp, headers, offset, dry, &when, &at)
            if status <= FULL:
                return status
        raise self.fail(status, at, when)

    def append(self, key, value, timestamp=-1, headers=(), offset=None):
        return self.take(key, value, timestamp, headers, offset, False) == PLACED

    def has_room_for(self, key, value, timestamp=-1, headers=(), offset=None):
        return self.take(key, value, timestamp, headers, offset, True) == PLACED

    def extend(self, records, start=0):
        cdef Py_ssize_t i = natural(start), n
        cdef object record, timestamp, headers, offset, none = (), unset = -1
        if type(records) is not list and type(records) is not tuple:
            raise TypeError(f"a list or tuple of records is needed, not {type(records).__name__}")
        cdef bint listed = type(records) is list
        while i < len(records):
            if listed and self.plain_end:
                i = self.fill_tuples(records, i)
                if i == len(records):
                    break
            record = records[i]
            timestamp, headers, offset = unset, none, None
            if PyTuple_CheckExact(record):
                n = PyTuple_GET_SIZE(record)
                if n < 2 or n > 5:
                    raise ValueError(f"a record is (key, value[, timestamp[, headers[, offset]]]), this tuple has {n} items")
                if n > 2:
                    timestamp = <object>PyTuple_GET_ITEM(record, 2)
                if n > 3:
                    headers = <object>PyTuple_GET_ITEM(record, 3)
                if n > 4:
                    offset = <object>PyTuple_GET_ITEM(record, 4)
                if self.take(<object>PyTuple_GET_ITEM(record, 0), <object>PyTuple_GET_ITEM(record, 1), timestamp, headers, offset, False):
                    break
            elif kf_is_record(record):
                if self.take(<object>kf_record_key(record), <object>kf_record_value(record), <object>kf_record_timestamp(record),
                             <object>kf_record_headers(record), None, False):
                    break
            else:
                raise TypeError(f"a record is a tuple or a Record, not {type(record).__name__}")
            i += 1
        return i

    def append_columns(self, keys, values, timestamps, offsets, headers, start, stop, many=False):
        cdef Arrays arrays = Arrays()
        cdef Py_ssize_t first = natural(start), last = natural(stop), i = first, h, n, header_total = 0
        cdef Column key, value, header_key, header_value
        cdef const int64_t* when = <const int64_t*>arrays.take(timestamps, last, 8, False)
        cdef const int64_t* at = <const int64_t*>arrays.take(offsets, last, 8, False)
        cdef const int64_t* header_start = NULL
        cdef const int32_t* header_count = NULL
        cdef Field key_field, value_field
        cdef Header* grown
        cdef int64_t timestamp = -1, offset = NEXT_OFFSET
        cdef int status = PLACED
        cdef bint seal = many
        sources = [take_column(arrays, keys, last, &key), take_column(arrays, values, last, &value)]
        if headers is not None:
            header_start = <const int64_t*>required(arrays.take(headers.starts, last, 8, False))
            header_count = <const int32_t*>required(arrays.take(headers.counts, last, 4, False))
            header_total = min(len(headers.keys.lengths), len(headers.values.lengths))
            sources += [take_column(arrays, headers.keys, header_total, &header_key),
                        take_column(arrays, headers.values, header_total, &header_value)]
        if last < first:
            raise ValueError(f"rows {first} to {last} are none")
        if seal and self.attributes & 7:
            raise ValueError("batches that are compressed are closed one by one")
        with nogil:
            while i < last:
                if self.plain_end and header_count == NULL and at == NULL:
                    i = self.fill_columns(&key, &value, when, i, last)
                    if i == last:
                        break
                status = column_field(&key, i, &key_field)
                if column_field(&value, i, &value_field):
                    status = BUILD_SPAN
                if when != NULL:
                    timestamp = when[i]
                if at != NULL:
                    offset = max(at[i], NEXT_OFFSET + 1)
                n = 0
                if header_count != NULL and status == PLACED and header_count[i]:
                    n = header_count[i]
                    if n < 0 or header_start[i] < 0 or header_start[i] > header_total or n > header_total - header_start[i]:
                        status = BUILD_SPAN
                        break
                    if n > self.header_room:
                        grown = <Header*>realloc(self.header_fields, 2 * n * sizeof(Header))
                        if grown == NULL:
                            status = NO_MEMORY
                            break
                        self.header_fields = grown
                        self.header_room = 2 * n
                    for h in range(n):
                        if column_field(&header_key, header_start[i] + h, &self.header_fields[h].key) or \
                                column_field(&header_value, header_start[i] + h, &self.header_fields[h].value):
                            status = BUILD_SPAN
                        elif self.header_fields[h].key.size < 0:
                            status = BUILD_HEADER_KEY
                if KF_UNLIKELY(status):
                    break
                status = self.place(&key_field, &value_field, timestamp, offset, self.header_fields, n, False)
                if KF_UNLIKELY(status):
                    if status != FULL or not seal:
                        break
                    status = self.finish(-1)
                    if status:
                        break
                    continue
                i += 1
        if status == BUILD_SPAN:
            raise ValueError(f"row {i}: a span does not lie in its buffer, or headers are not among those given")
        if status > FULL:
            raise self.fail(status, offset, timestamp)
        return i

    def records(self):
        return PyBytes_FromStringAndSize(<const char*>self.data + self.start + self.head, self.filled - self.start - self.head)

    cdef int finish(self, int64_t last_offset) noexcept nogil:
        """Write what stands before the records, and begin the next batch."""
        cdef uint8_t* p = self.data + self.start
        cdef Py_ssize_t size = self.filled - self.start
        cdef void* ends
        cdef int64_t timestamp = self.append_time if self.attributes & 8 else self.max_timestamp
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
        if self.magic == 2:
            put64(p, self.base_offset)
            put32(p + 8, <uint32_t>(size - 12))
            put32(p + 12, <uint32_t>self.leader_epoch)
            p[16] = 2
            put16(p + 21, self.attributes)
            put32(p + 23, <uint32_t>(last_offset - self.base_offset))
            put64(p + 27, self.base_timestamp)
            put64(p + 35, timestamp)
            put64(p + 43, self.producer_id)
            put16(p + 51, self.producer_epoch)
            put32(p + 53, <uint32_t>self.base_sequence)
            put32(p + 57, <uint32_t>self.count)
            put32(p + 17, crc32c_update(0, p + 21, size - 21))
        elif self.attributes & 7:
            put64(p, last_offset)
            put32(p + 8, <uint32_t>(size - 12))
            p[16] = <uint8_t>self.magic
            p[17] = <uint8_t>self.attributes
            if self.magic:
                put64(p + 18, timestamp)
            put32(p + self.head - 8, 0xffffffff)
            put32(p + self.head - 4, <uint32_t>(size - self.head))
            put32(p + 12, crc32_update(0, p + 16, size - 16))
        if self.base_sequence >= 0:
            self.base_sequence = <int32_t>((self.base_sequence + (last_offset - self.base_offset) + 1) & 0x7fffffff)
        self.next_offset = last_offset + 1
        self.base_given = False
        self.start = self.filled
        if self.reserve(self.head):
            return NO_MEMORY
        self.begin()
        return PLACED

    def close(self, compressed=None, last_offset=None):
        cdef Source source
        cdef int64_t last = -1 if last_offset is None else last_offset
        if self.count == 0:
            return 0
        if last_offset is not None and (last < self.next_offset - 1 or (self.magic == 2 and last - self.base_offset > 0x7fffffff)):
            raise ValueError(f"last_offset is {last}, but offsets have reached {self.next_offset - 1}, from {self.base_offset} on")
        if (compressed is None) != (not self.attributes & 7):
            raise ValueError("compressed records are needed for a codec, and only for one")
        if compressed is not None:
            source = Source(compressed)
            if source.size > MAX_LENGTH + 12 - self.head:
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
        """Forget what is closed; the batch under way moves to the front."""
        memmove(self.data, self.data + self.start, self.filled - self.start)
        self.filled -= self.start
        self.start = self.end_count = 0
        if self.plain_end:
            self.plain_end = min(self.max_size, self.capacity - COPY_ROOM)

    def take_closed(self):
        cdef object closed = PyBytes_FromStringAndSize(<const char*>self.data, self.start)
        self.forget()
        return closed

    def take_batches(self):
        cdef Py_ssize_t i, start = 0
        cdef list batches = []
        for i in range(self.end_count):
            batches.append(PyBytes_FromStringAndSize(<const char*>self.data + start, self.ends[i] - start))
            start = self.ends[i]
        self.forget()
        return batches


cdef Source take_column(Arrays arrays, spans, Py_ssize_t n, Column* column):
    column.lengths = NULL
    if spans is None:
        return None
    cdef Source source = Source(spans.buffer)
    column.data = source.data
    column.size = source.size
    column.positions = <const int64_t*>required(arrays.take(spans.positions, n, 8, False))
    column.lengths = <const int32_t*>required(arrays.take(spans.lengths, n, 4, False))
    return source


cdef inline int column_field(const Column* column, Py_ssize_t i, Field* field) noexcept nogil:
    cdef int64_t position
    field.size = -1
    if column.lengths == NULL or column.lengths[i] < 0:
        return PLACED
    position = column.positions[i]
    field.size = column.lengths[i]
    if KF_UNLIKELY(position < 0 or position > column.size or field.size > column.size - position):
        return BUILD_SPAN
    field.data = column.data + position
    return PLACED


cdef object int64(n, name):
    """An integer of the caller's that Kafka holds in 64 bits."""
    number = n.__index__() if hasattr(n, "__index__") else None
    if number is None:
        raise TypeError(f"{name} must be an integer, not {type(n).__name__}")
    if not -0x8000000000000000 <= number <= 0x7fffffffffffffff:
        raise OverflowError(f"{name} {number} does not fit into 64 bits")
    return number

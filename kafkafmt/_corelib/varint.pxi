# Read varints, which store 7 bits per byte, least significant bits first. Signed varints are zigzag-encoded.
#
# A 32-bit varint has at most 5 bytes, and a 64-bit varint has at most 10 bytes.
# Bits above the width are dropped, as in Kafka's ByteUtils.


cdef inline const uint8_t* get_uvarint(const uint8_t* p, const uint8_t* end, uint32_t* out) noexcept nogil:
    """Read an unsigned varint of 32 bits.

    Return the position after the varint, or NULL if it does not end before `end` or within 5 bytes.
    """
    cdef uint32_t value = 0
    cdef int shift = 0
    while p < end:
        value |= <uint32_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            out[0] = value
            return p + 1
        p += 1
        shift += 7
        if shift > 28:
            return NULL
    return NULL


cdef inline const uint8_t* get_uvarlong(const uint8_t* p, const uint8_t* end, uint64_t* out) noexcept nogil:
    """Read an unsigned varint of 64 bits.

    Return the position after the varint, or NULL if it does not end before `end` or within 10
    bytes.
    """
    cdef uint64_t value = 0
    cdef int shift = 0
    while p < end:
        value |= <uint64_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            out[0] = value
            return p + 1
        p += 1
        shift += 7
        if shift > 63:
            return NULL
    return NULL


cdef inline const uint8_t* get_varint(const uint8_t* p, const uint8_t* end, int32_t* out) noexcept nogil:
    cdef uint32_t raw = 0
    p = get_uvarint(p, end, &raw)
    out[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
    return p


cdef inline const uint8_t* get_varlong(const uint8_t* p, const uint8_t* end, int64_t* out) noexcept nogil:
    cdef uint64_t raw = 0
    p = get_uvarlong(p, end, &raw)
    out[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    return p


cdef varint_error(Source source, Py_ssize_t start, Py_ssize_t end, int width):
    if end - start >= width:
        return StructureError(f"a varint has more than {width} bytes", start)
    return TruncatedError("the input ends inside a varint", start)


cdef (Py_ssize_t, Py_ssize_t) bounds(Source source, start, end) except *:
    cdef Py_ssize_t first = natural(start), last = source.size if end is None else natural(end)
    source.check_range(first, last)
    return first, last


def read_varint(buffer, start=0, end=None):
    cdef Source source = Source(buffer)
    cdef int32_t value
    first, last = bounds(source, start, end)
    cdef const uint8_t* p = get_varint(source.data + <Py_ssize_t>first, source.data + <Py_ssize_t>last, &value)
    if p == NULL:
        raise varint_error(source, first, last, 5)
    return value, p - source.data


def read_varlong(buffer, start=0, end=None):
    cdef Source source = Source(buffer)
    cdef int64_t value
    first, last = bounds(source, start, end)
    cdef const uint8_t* p = get_varlong(source.data + <Py_ssize_t>first, source.data + <Py_ssize_t>last, &value)
    if p == NULL:
        raise varint_error(source, first, last, 10)
    return value, p - source.data


def read_unsigned_varint(buffer, start=0, end=None):
    cdef Source source = Source(buffer)
    cdef uint32_t value
    first, last = bounds(source, start, end)
    cdef const uint8_t* p = get_uvarint(source.data + <Py_ssize_t>first, source.data + <Py_ssize_t>last, &value)
    if p == NULL:
        raise varint_error(source, first, last, 5)
    return value, p - source.data

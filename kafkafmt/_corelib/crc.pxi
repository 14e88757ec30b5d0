# Compute CRC-32C and CRC-32.
#
# The C code in crc32c.h and crc32.h chooses the CPU instructions at run time.

cdef extern from "_corelib/crc32c.h":
    void crc32c_init() nogil
    uint32_t crc32c_update(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil
    int c_crc32c_way "crc32c_way"(int way) nogil

cdef extern from "_corelib/crc32.h":
    void crc32_init() nogil
    uint32_t crc32_update(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil

crc32c_init()
crc32_init()
_CRC_WAYS = ("table", "crc32 instruction", "wide carry-less multiplication")


def crc32c(buffer, value=0, start=0, end=None):
    cdef Source source = Source(buffer)
    first, last = bounds(source, start, end)
    cdef Py_ssize_t a = first, n = last - first
    cdef uint32_t crc = value & 0xFFFFFFFF
    with nogil:
        crc = crc32c_update(crc, source.data + a, n)
    return crc


def crc32(buffer, value=0, start=0, end=None):
    cdef Source source = Source(buffer)
    first, last = bounds(source, start, end)
    cdef Py_ssize_t a = first, n = last - first
    cdef uint32_t crc = value & 0xFFFFFFFF
    with nogil:
        crc = crc32_update(crc, source.data + a, n)
    return crc


def crc32c_way(way=None):
    """Return the name of the method that computes CRC-32C.

    If `way` is 0, 1 or 2, choose this method first. Method 2 is the fastest. If the processor does
    not support the method, `way` is ignored.
    """
    return _CRC_WAYS[c_crc32c_way(-1 if way is None else way)]

# Access the caller's buffers and NumPy arrays.
#
# The classes Source and Arrays keep references to the buffers and arrays during one call of the core.

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define KF_BE16(x) (x)
    #define KF_BE32(x) (x)
    #define KF_BE64(x) (x)
    #else
    #define KF_BE16(x) __builtin_bswap16(x)
    #define KF_BE32(x) __builtin_bswap32(x)
    #define KF_BE64(x) __builtin_bswap64(x)
    #endif
    #if defined(__GNUC__)   /* always inline, because walk_batch() is compiled into several functions */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE __inline__ __attribute__((always_inline))
    #endif
    #ifdef Py_GIL_DISABLED
    #define KF_FREE_THREADED 1
    #else
    #define KF_FREE_THREADED 0
    #endif
    #if defined(__GNUC__)
    #define KF_PREFETCH(p) __builtin_prefetch(p)
    #else
    #define KF_PREFETCH(p) ((void)(p))
    #endif
    #define KF_LIKELY(x) __builtin_expect(!!(x), 1)
    #define KF_UNLIKELY(x) __builtin_expect(!!(x), 0)
    """
    uint16_t KF_BE16(uint16_t) nogil
    uint32_t KF_BE32(uint32_t) nogil
    uint64_t KF_BE64(uint64_t) nogil
    const Py_ssize_t PY_SSIZE_T_MAX
    const int64_t INT64_MAX
    const int64_t INT64_MIN
    void KF_PREFETCH(const void*) nogil
    bint KF_LIKELY(bint) nogil
    bint KF_UNLIKELY(bint) nogil
    const bint KF_FREE_THREADED     # whether Python has no GIL


cdef inline int16_t int16_at(const uint8_t* p) noexcept nogil:
    cdef uint16_t x
    memcpy(&x, p, 2)
    return <int16_t>KF_BE16(x)


cdef inline int32_t int32_at(const uint8_t* p) noexcept nogil:
    cdef uint32_t x
    memcpy(&x, p, 4)
    return <int32_t>KF_BE32(x)


cdef inline int64_t int64_at(const uint8_t* p) noexcept nogil:
    cdef uint64_t x
    memcpy(&x, p, 8)
    return <int64_t>KF_BE64(x)


cdef enum:
    COPY_SLACK = 128 + 32       # Number of bytes from the start of a value that copy_span() may read and write.


cdef inline void copy_span(uint8_t* to, const uint8_t* p, Py_ssize_t n, bint slack) noexcept nogil:
    """Copy a value of `n` bytes.

    If `slack` is True, a short value is copied in 32-byte steps. In this case, the caller must
    ensure that COPY_SLACK bytes are accessible at `to` and at `p`.
    """
    if KF_LIKELY(slack and n <= 128):
        memcpy(to, p, 32)
        if n > 32:
            memcpy(to + 32, p + 32, 32)
            if n > 64:
                memcpy(to + 64, p + 64, 32)
                if n > 96:
                    memcpy(to + 96, p + 96, 32)
    else:
        memcpy(to, p, n)


@cython.internal
cdef class Source:
    """Holds a buffer of the caller during one call of the core."""

    cdef Py_buffer view
    cdef const uint8_t* data
    cdef Py_ssize_t size

    def __cinit__(self, obj):
        try:
            PyObject_GetBuffer(obj, &self.view, PyBUF_SIMPLE)
        except BufferError as error:
            raise ValueError(f"a C-contiguous buffer is needed: {error}") from None
        self.data = <const uint8_t*>self.view.buf
        self.size = self.view.len

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    cdef int check_range(self, Py_ssize_t start, Py_ssize_t end) except -1:
        if start < 0 or end < start or end > self.size:
            raise ValueError(f"start {start} and end {end} are not a valid range of a buffer of {self.size} bytes")
        return 0


@cython.internal
cdef class Arrays:
    """Holds arrays of the caller during one call of the core."""

    cdef Py_buffer views[24]
    cdef int count

    def __cinit__(self):
        self.count = 0

    def __dealloc__(self):
        cdef int i
        for i in range(self.count):
            PyBuffer_Release(&self.views[i])

    cdef Py_ssize_t size(self) noexcept:
        """Return the size in bytes of the array that was most recently passed to take()."""
        return self.views[self.count - 1].len

    cdef void* take(self, obj, Py_ssize_t items, Py_ssize_t itemsize, bint writable=True) except? NULL:
        """Return the address of an array with at least `items` items, or NULL if the array is None."""
        if obj is None:
            return NULL
        if self.count == 24:
            raise ValueError("too many arrays")
        try:
            PyObject_GetBuffer(obj, &self.views[self.count], PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        except BufferError as error:
            raise ValueError(f"a C-contiguous{' writable' if writable else ''} array is needed: {error}") from None
        self.count += 1
        cdef Py_buffer* view = &self.views[self.count - 1]
        if view.itemsize != itemsize and view.itemsize != 1:
            raise ValueError(f"an array of {itemsize}-byte items is needed; this one has {view.itemsize}-byte items")
        if items > view.len // itemsize:
            raise ValueError(f"an array of at least {items} items is needed; this one has {view.len // itemsize}")
        if <size_t>view.buf % <size_t>(8 if itemsize > 8 else itemsize):
            raise ValueError("the items of the array must be aligned")
        return view.buf if view.buf != NULL else <void*>self.views


cdef Py_ssize_t natural(n) except -1:
    """Return `n` as a C integer.

    Raise ValueError if `n` is negative or too large for a count or position.
    """
    cdef Py_ssize_t size = -1
    try:
        size = n
    except OverflowError:
        pass
    if size < 0:
        raise ValueError(f"a count or position is {n}; it must be between 0 and 2**63 - 1")
    return size


cdef inline const void* required(const void* array) except NULL:
    if array == NULL:
        raise TypeError("expected an array, not None")
    return array

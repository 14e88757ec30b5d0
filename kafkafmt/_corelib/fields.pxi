# Convert Python objects and rows of columns to fields. A field is a pointer and a length.
#
# Objects of exact types (bytes, int, str, list, tuple) are read without running Python code.
# Python code could change the objects while fields point to their data.
# Other objects are first converted to objects of exact types. Columns consist of positions and lengths in buffers.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE

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
    #define kf_record_offset(o) (((KfRecord *)(o))->offset)
    #define kf_record_headers(o) (((KfRecord *)(o))->headers)
    """
    bint kf_is_record(object o)
    PyObject* kf_record_key(object o)
    PyObject* kf_record_value(object o)
    PyObject* kf_record_timestamp(object o)
    PyObject* kf_record_offset(object o)
    PyObject* kf_record_headers(object o)

cdef enum:                      # Return values of place(), in addition to the indexes 2 to 7 and 9 of BUILD_FAULTS.
    PLACED = 0
    FULL = 1                    # The record does not fit into the open batch.
    BUILD_SPAN = 8              # A key or value is outside its buffer.
    NO_MEMORY = 10
    NOT_PLAIN = 11              # An object cannot be read without running Python code.

cdef struct Column:             # Values in one buffer. If `lengths` is NULL, all values are null.
    const uint8_t* data
    Py_ssize_t size
    const int64_t* positions
    const int32_t* lengths

cdef struct HeaderColumn:       # Headers of each record. If `counts` is NULL, no record has headers.
    const int64_t* starts
    const int32_t* counts
    Py_ssize_t total
    Column key
    Column value


cdef inline int plain_field(object o, Field* field) noexcept:
    """Convert bytes or None to a field. Return NOT_PLAIN for any other object."""
    if PyBytes_CheckExact(o):
        field.data = <const uint8_t*>PyBytes_AS_STRING(o)
        field.size = PyBytes_GET_SIZE(o)
    elif o is None:
        field.size = -1
    else:
        return NOT_PLAIN
    return PLACED


cdef inline bint is_empty_tuple(PyObject* o) noexcept:
    return PyTuple_CheckExact(<object>o) and PyTuple_GET_SIZE(<object>o) == 0


cdef inline void prefetch_record(PyObject* record, PyObject* later) noexcept:
    """Prefetch the objects of a record that will be appended soon.

    The objects are scattered in memory. Without prefetching, most of the time is spent on cache
    misses.
    """
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
    """Convert headers (pairs or a dict) to a list of (str or bytes, bytes or None) tuples."""
    plain = []
    for pair in headers.items() if isinstance(headers, dict) else headers or ():
        key, value = pair
        if type(key) is not str:
            key = str(key) if isinstance(key, str) else plain_bytes(key, "header key")
        if key is None:
            raise TypeError("header key must be str or bytes-like, not None")
        plain.append((key, plain_bytes(value, "header value")))
    return plain


cdef object checked_int64(n, name):
    """Return `n` as an int.

    Raise TypeError if `n` is not an integer, and OverflowError if `n` does not fit into 64 bits.
    """
    number = n.__index__() if hasattr(n, "__index__") else None
    if number is None:
        raise TypeError(f"{name} must be an integer, not {type(n).__name__}")
    if not -0x8000000000000000 <= number <= 0x7fffffffffffffff:
        raise OverflowError(f"{name} {number} does not fit into 64 bits")
    return number


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


cdef list take_headers(Arrays arrays, headers, Py_ssize_t n, HeaderColumn* column):
    column.counts = NULL
    if headers is None:
        return []
    column.starts = <const int64_t*>required(arrays.take(headers.starts, n, 8, False))
    column.counts = <const int32_t*>required(arrays.take(headers.counts, n, 4, False))
    column.total = min(len(headers.keys.lengths), len(headers.values.lengths))
    return [take_column(arrays, headers.keys, column.total, &column.key), take_column(arrays, headers.values, column.total, &column.value)]

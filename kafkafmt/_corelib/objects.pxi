# Create Python objects from columns: Record objects and single values.

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8

from threading import RLock

from .support.text import decode_header_key

cdef extern from "_corelib/record.h":
    object kf_record_type()
    object kf_record_make(object offset, object timestamp, int timestamp_type, object key, object value, object headers,
                          object topic, object partition)

Record = kf_record_type()


cdef inline object span_object(Source source, object view, int64_t position, int32_t length):
    """Return a value as bytes or, if `view` is given, as a slice of `view`. Return None for a null."""
    if length < 0:
        return None
    if KF_UNLIKELY(position < 0 or position > source.size or length > source.size - position):
        raise ValueError(f"a span of {quantity(length, 'byte')} at {position} is outside the buffer")
    if view is None:
        return PyBytes_FromStringAndSize(<const char*>source.data + position, length)
    return view[position:position + length]


cdef object header_key_object(Source source, int64_t position, int32_t length):
    if length < 0 or position < 0 or position > source.size or length > source.size - position:
        raise ValueError(f"a header key of {quantity(length, 'byte')} at {position} is outside the buffer")
    try:
        return PyUnicode_DecodeUTF8(<const char*>source.data + position, length, NULL)
    except UnicodeDecodeError:
        return decode_header_key(PyBytes_FromStringAndSize(<const char*>source.data + position, length))


def make_records(buffer, columns, start=0, stop=None, views=False, topic=None, partition=None):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t rows = natural(columns.rows), headers_filled = natural(columns.headers)
    cdef Py_ssize_t first = natural(start), last = rows if stop is None else natural(stop), n, i, h, header
    if last < first or last > rows:
        raise ValueError(f"rows {first} to {last} are not among the {rows} decoded rows")
    n = last
    cdef const int64_t* offset = <const int64_t*>arrays.take(columns.offset, n, 8, False)
    cdef const int64_t* timestamp = <const int64_t*>arrays.take(columns.timestamp, n, 8, False)
    cdef const int32_t* timestamp_type = <const int32_t*>arrays.take(columns.timestamp_type, n, 4, False)
    cdef const int64_t* key_position = <const int64_t*>arrays.take(columns.key_position, n, 8, False)
    cdef const int32_t* key_length = <const int32_t*>arrays.take(columns.key_length, n, 4, False)
    cdef const int64_t* value_position = <const int64_t*>arrays.take(columns.value_position, n, 8, False)
    cdef const int32_t* value_length = <const int32_t*>arrays.take(columns.value_length, n, 4, False)
    cdef const int64_t* header_start = <const int64_t*>arrays.take(columns.header_start, n, 8, False)
    cdef const int32_t* header_count = <const int32_t*>arrays.take(columns.header_count, n, 4, False)
    cdef const int64_t* hk_position = <const int64_t*>arrays.take(columns.header_key_position, headers_filled, 8, False)
    cdef const int32_t* hk_length = <const int32_t*>arrays.take(columns.header_key_length, headers_filled, 4, False)
    cdef const int64_t* hv_position = <const int64_t*>arrays.take(columns.header_value_position, headers_filled, 8, False)
    cdef const int32_t* hv_length = <const int32_t*>arrays.take(columns.header_value_length, headers_filled, 4, False)
    if (key_length != NULL and key_position == NULL) or (value_length != NULL and value_position == NULL) or (
        header_count != NULL and (header_start == NULL or hk_position == NULL or hk_length == NULL
                                  or hv_position == NULL or hv_length == NULL)
    ):
        raise TypeError("a column of lengths has no column of positions")
    cdef object view = memoryview(buffer).toreadonly().cast("B") if views else None
    cdef list records = PyList_New(last - first)
    cdef tuple headers, none = ()
    cdef object key, value, record, pair, at = -1, when = -1
    cdef int64_t time = -1
    for i in range(first, last):
        key = span_object(source, view, key_position[i], key_length[i]) if key_length != NULL else None
        value = span_object(source, view, value_position[i], value_length[i]) if value_length != NULL else None
        headers = none
        if header_count != NULL and header_count[i] > 0:
            header = header_start[i]
            n = header_count[i]
            if header < 0 or header > headers_filled or n > headers_filled - header:
                raise ValueError(f"the headers of row {i} are not among the {headers_filled} decoded headers")
            headers = PyTuple_New(n)
            for h in range(n):
                pair = (
                    header_key_object(source, hk_position[header + h], hk_length[header + h]),
                    span_object(source, view, hv_position[header + h], hv_length[header + h]),
                )
                Py_INCREF(pair)
                PyTuple_SET_ITEM(headers, h, pair)
        if offset != NULL:
            at = offset[i]
        if timestamp != NULL and timestamp[i] != time:  # Successive records with equal timestamps share one int object.
            time = timestamp[i]
            when = time
        record = kf_record_make(
            at,
            when,
            timestamp_type[i] if timestamp_type != NULL else -1,
            key, value, headers, topic, partition,
        )
        Py_INCREF(record)
        PyList_SET_ITEM(records, i - first, record)
    return records


def make_values(buffer, positions, lengths, count, views=False):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = natural(count), i
    cdef const int64_t* position = <const int64_t*>required(arrays.take(positions, n, 8, False))
    cdef const int32_t* length = <const int32_t*>required(arrays.take(lengths, n, 4, False))
    cdef object view = memoryview(buffer).toreadonly().cast("B") if views else None
    cdef list values = PyList_New(n)
    cdef object value
    for i in range(n):
        value = span_object(source, view, position[i], length[i])
        Py_INCREF(value)
        PyList_SET_ITEM(values, i, value)
    return values


@cython.final
cdef class RecordIterator:
    """Iterates over the records of successive lists.

    Several threads can share the iterator. Each record is returned to exactly one thread.
    """

    # The lock is needed only at the end of a list. Before the end, the GIL or a critical section is sufficient.
    cdef object lists, lock
    cdef list records
    cdef Py_ssize_t at
    cdef bint busy

    def __cinit__(self, lists):
        self.lists, self.lock, self.records, self.at = iter(lists), RLock(), [], 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef object record
        if not KF_FREE_THREADED and KF_LIKELY(self.at < PyList_GET_SIZE(self.records)):
            record = <object>PyList_GET_ITEM(self.records, self.at)
            self.at += 1
            return record
        record = self.next_of_list() if KF_FREE_THREADED else None
        return self.next_of_next_list() if record is None else record

    @cython.critical_section
    cdef object next_of_list(self):
        """Return the next record of the current list, or None at its end."""
        cdef object record
        if self.at >= PyList_GET_SIZE(self.records):
            return None
        record = <object>PyList_GET_ITEM(self.records, self.at)
        self.at += 1
        return record

    cdef object next_of_next_list(self):
        cdef object held = self     # Another thread may drop the caller's reference during the call.
        cdef object lists, record
        cdef list records, done
        with self.lock:
            while True:
                record = self.next_of_list()
                if record is not None:
                    return record
                lists = self.lists
                if lists is None:
                    raise StopIteration
                if self.busy:
                    raise RuntimeError("the iterator was called recursively, by code that produces its next item")
                self.busy = True
                try:
                    records = next(lists)
                except BaseException:
                    self.lists = None
                    raise
                finally:
                    self.busy = False
                done = self.records     # Keep the old records until both fields are set: a destructor can use this iterator.
                with cython.critical_section(self):
                    self.records, self.at = records, 0

# Append plain records in fast loops, whose state stays in CPU registers.
#
# A plain record has magic 2, no headers, the next offset and small fields. Nearly all records are plain.
# A loop begins after the first record of a batch, and ends at a record that is not plain or might not fit.
# RecordBuffer.place() appends the record at which the loop ends.

cdef enum:
    PREFETCH = 2048             # Prefetch distance in bytes.


cdef Py_ssize_t append_plain_rows(RecordBuffer self, const Column* key, const Column* value, const int64_t* when, Py_ssize_t i,
                                  Py_ssize_t last) noexcept nogil:
    """Append plain rows of columns. Return the first row that was not appended."""
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


cdef Py_ssize_t append_plain_tuples(RecordBuffer self, list records, Py_ssize_t i) except -1:
    """Append plain tuples of a list. Return the index of the first tuple that was not appended.

    References to the tuples are not needed, because no Python code that could release them runs.
    """
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

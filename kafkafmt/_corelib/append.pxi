# Append records to a RecordBuffer.
#
# This file converts Python objects and rows of columns to fields. RecordBuffer.place() encodes the fields (build.pxi).


cdef building_error(RecordBuffer self, int status, object offset, int64_t timestamp):
    if status == NO_MEMORY:
        return MemoryError()
    if offset is None:
        offset = self.next_offset
    code, text = BUILD_FAULTS[status]
    text = text.format(offset=offset, next=self.next_offset, timestamp=timestamp, magic=self.magic)
    base = self.base_offset if self.count else None
    if status == BUILD_TOO_LARGE:
        return TooLargeError(text, self.filled - self.start, base)
    return InvalidError(text, self.filled - self.start, base, code=code)


cdef inline int take_objects(RecordBuffer self, object key, object value, object timestamp, object headers, object offset, bint dry,
                             int64_t* when, int64_t* at) except -1:
    """Append a record without running Python code. If this is not possible, return NOT_PLAIN."""
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
        if self.reserve_headers(count):
            raise MemoryError
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


cdef inline int take_alone(RecordBuffer self, object key, object value, object timestamp, object headers, object offset, bint dry,
                           int64_t* when, int64_t* at) except -1:
    """Call take_objects() while no other thread uses the buffer."""
    if not KF_FREE_THREADED:
        if KF_UNLIKELY(self.busy):
            self.enter()
        return take_objects(self, key, value, timestamp, headers, offset, dry, when, at)
    if PyList_CheckExact(headers):
        headers = tuple(headers)    # Another thread can change the list.
    with cython.critical_section(self):
        self.enter()
        try:
            return take_objects(self, key, value, timestamp, headers, offset, dry, when, at)
        finally:
            self.busy = False


cdef int take_record(RecordBuffer self, object key, object value, object timestamp, object headers, object offset, bint dry) except -1:
    cdef int64_t when = 0, at = 0
    cdef int status = take_alone(self, key, value, timestamp, headers, offset, dry, &when, &at)
    if KF_LIKELY(status <= FULL):
        return status
    if status == NOT_PLAIN:
        key, value, timestamp = plain_bytes(key, "key"), plain_bytes(value, "value"), checked_int64(timestamp, "timestamp")
        headers, offset = plain_headers(headers), None if offset is None else checked_int64(offset, "offset")
        status = take_alone(self, key, value, timestamp, headers, offset, dry, &when, &at)
        if status <= FULL:
            return status
    raise building_error(self, status, offset, when)


cdef enum:
    FROM_RECORD = 1             # The record is a `Record` that keeps its offset.
    NEXT = 2                    # The record gets the next offset.
    BOTH = 3


cdef inline bint keeps_offset(object record) except -1:
    """Return whether a Record has an offset. If the offset was not read, it is -1."""
    cdef int overflow = 0
    return PyLong_AsLongLongAndOverflow(<object>kf_record_offset(record), &overflow) != -1 or overflow


cdef inline int origin_of(object record) except -1:
    """Return FROM_RECORD, NEXT or 0.

    The result is FROM_RECORD for a Record with an offset, NEXT for a Record or tuple without an
    offset, and 0 for other objects.
    """
    if PyTuple_CheckExact(record):
        return NEXT if PyTuple_GET_SIZE(record) < 5 or <object>PyTuple_GET_ITEM(record, 4) is None else 0
    if kf_is_record(record):
        return FROM_RECORD if keeps_offset(record) else NEXT
    return 0


cdef Py_ssize_t append_records(RecordBuffer self, object records, Py_ssize_t i) except -1:
    cdef Py_ssize_t n
    cdef object record, timestamp, headers, offset, none = (), unset = -1
    if type(records) is not list and type(records) is not tuple:
        raise TypeError(f"records must be a list or tuple, not {type(records).__name__}")
    cdef bint listed = type(records) is list
    cdef int origins = origin_of(records[i - 1]) if 0 < i <= len(records) else 0
    cdef Py_ssize_t before
    while i < len(records):
        if listed and self.plain_end and not self.busy and not origins & FROM_RECORD:
            before = i
            with cython.critical_section(self, records):
                if self.plain_end and not self.busy:
                    i = append_plain_tuples(self, records, i)
            if i > before:
                origins |= NEXT
            if i == len(records):
                break
        record = records[i]
        origins |= origin_of(record)
        if origins == BOTH:
            raise ValueError(MIXED_OFFSETS)
        timestamp, headers, offset = unset, none, None
        if PyTuple_CheckExact(record):
            n = PyTuple_GET_SIZE(record)
            if n < 2 or n > 5:
                raise ValueError(f"a record must be a tuple (key, value[, timestamp[, headers[, offset]]]); this tuple has {n} items")
            if n > 2:
                timestamp = <object>PyTuple_GET_ITEM(record, 2)
            if n > 3:
                headers = <object>PyTuple_GET_ITEM(record, 3)
            if n > 4:
                offset = <object>PyTuple_GET_ITEM(record, 4)
            if take_record(self, <object>PyTuple_GET_ITEM(record, 0), <object>PyTuple_GET_ITEM(record, 1), timestamp, headers, offset,
                           False):
                break
        elif kf_is_record(record):
            if take_record(self, <object>kf_record_key(record), <object>kf_record_value(record), <object>kf_record_timestamp(record),
                           <object>kf_record_headers(record), <object>kf_record_offset(record) if keeps_offset(record) else None, False):
                break
        else:
            raise TypeError(f"a record must be a tuple or a Record, not {type(record).__name__}")
        i += 1
    return i


cdef int header_row(RecordBuffer self, const HeaderColumn* column, Py_ssize_t i) noexcept nogil:
    """Convert the headers of row `i` to fields, and store them in self.header_fields."""
    cdef Py_ssize_t h, n = column.counts[i], first = column.starts[i]
    if n == 0:
        return PLACED
    if n < 0 or first < 0 or first > column.total or n > column.total - first:
        return BUILD_SPAN
    if self.reserve_headers(n):
        return NO_MEMORY
    for h in range(n):
        if column_field(&column.key, first + h, &self.header_fields[h].key) or \
                column_field(&column.value, first + h, &self.header_fields[h].value):
            return BUILD_SPAN
        if self.header_fields[h].key.size < 0:
            return BUILD_HEADER_KEY
    return PLACED


cdef Py_ssize_t append_rows(RecordBuffer self, object keys, object values, object timestamps, object offsets, object headers,
                            Py_ssize_t first, Py_ssize_t last, bint seal) except -1:
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t i = first, n = 0
    cdef Column key, value
    cdef HeaderColumn header
    cdef const int64_t* when = <const int64_t*>arrays.take(timestamps, last, 8, False)
    cdef const int64_t* at = <const int64_t*>arrays.take(offsets, last, 8, False)
    cdef Field key_field, value_field
    cdef int64_t timestamp = -1, offset = NEXT_OFFSET
    cdef int status = PLACED
    sources = [take_column(arrays, keys, last, &key), take_column(arrays, values, last, &value)]
    sources += take_headers(arrays, headers, last, &header)
    if last < first:
        raise ValueError(f"stop {last} is below start {first}")
    if seal and self.attributes & CODEC_MASK:
        raise ValueError("many=True cannot be combined with a codec, because each compressed batch must be closed separately")
    with cython.critical_section(self):
        self.enter()
    with nogil:
        while i < last:
            if self.plain_end and header.counts == NULL and at == NULL:
                i = append_plain_rows(self, &key, &value, when, i, last)
                if i == last:
                    break
            status = BUILD_SPAN if column_field(&key, i, &key_field) or column_field(&value, i, &value_field) else PLACED
            if header.counts != NULL and status == PLACED:
                n = header.counts[i]
                status = header_row(self, &header, i)
            if when != NULL:
                timestamp = when[i]
            if at != NULL:
                offset = max(at[i], NEXT_OFFSET + 1)
            if KF_LIKELY(status == PLACED):
                status = self.place(&key_field, &value_field, timestamp, offset, self.header_fields, n, False)
            if KF_LIKELY(status == PLACED):
                i += 1
            elif status != FULL or not seal:
                break
            else:
                status = self.finish(-1)
                if status:
                    break
    with cython.critical_section(self):
        self.busy = False
    if status == BUILD_SPAN:
        raise ValueError(f"row {i}: a span is outside its buffer, or headers are outside their columns")
    if status > FULL:
        raise building_error(self, status, None if at == NULL else at[i], timestamp)
    return i

# Read messages of the wire protocol (see wire.pxi).
#
# Each length or count is compared with the number of remaining bytes before memory is allocated.

cdef inline object wire_number_at(const uint8_t* data, int kind):
    """Read a value whose type has a fixed size."""
    cdef uint64_t bits
    cdef double number
    cdef int i
    if kind == WIRE_INT32:
        return PyLong_FromLong(int32_at(data))
    if kind == WIRE_INT64:
        return PyLong_FromLongLong(int64_at(data))
    if kind == WIRE_INT16:
        return PyLong_FromLong(int16_at(data))
    if kind == WIRE_INT8:
        return PyLong_FromLong(<int8_t>data[0])
    if kind == WIRE_BOOL:
        return data[0] != 0
    if kind == WIRE_UUID:
        for i in range(16):
            if data[i]:
                return UUID(bytes=PyBytes_FromStringAndSize(<const char*>data, 16))
        return ZERO_UUID
    if kind == WIRE_UINT16:
        return PyLong_FromLong(<uint16_t>int16_at(data))
    if kind == WIRE_UINT32:
        return PyLong_FromLongLong(<uint32_t>int32_at(data))
    bits = <uint64_t>int64_at(data)
    memcpy(&number, &bits, 8)
    return number


@cython.internal
cdef class WireSource:
    """Holds the buffer from which a message is read.

    `view` is created when record data is first read.
    """

    cdef Source source
    cdef object buffer
    cdef object view
    cdef int64_t objects            # Number of further objects that the message may contain.
    cdef int64_t max_objects

    def __cinit__(self, buffer, int64_t max_objects):
        self.source = Source(buffer)
        self.objects = self.max_objects = max_objects
        self.buffer = buffer
        self.view = None

    cdef int take(self, Layout form, int i, int64_t count, Py_ssize_t start) except -1:
        """Count `count` more objects. Raise TooLargeError if the message has more than `max_objects` objects."""
        self.objects -= count
        if self.objects < 0:
            raise TooLargeError(TOO_MANY_OBJECTS.format(name=form.where(i), limit=self.max_objects), start)
        return 0

    cdef object slice(self, Py_ssize_t start, Py_ssize_t length):
        if self.view is None:
            self.view = memoryview(self.buffer).cast("B")
        return self.view[start:start + length]


cdef object read_wire_struct(Layout form, WireSource source, Py_ssize_t* p, Py_ssize_t end):
    cdef object message = KF_NEW(form.message_type)
    if form.is_tree:
        PyObject_GC_UnTrack(message)
    cdef WireField* wire
    cdef int i
    for i in range(form.fields_end):
        wire = &form.wire[i]
        if not wire.array and wire.kind < WIRE_UUID and wire.smallest <= end - p[0]:
            kf_fill_slot(message, wire.slot, wire_number_at(source.source.data + p[0], wire.kind))
            p[0] += wire.smallest
        else:
            kf_fill_slot(message, wire.slot, read_wire_field(form, i, source, p, end))
    for i in range(form.fields_end, form.absent_end):
        kf_fill_slot(message, form.wire[i].slot, (<object>form.defaults[i])() if form.wire[i].fresh else form.defaults[i])
    kf_fill_slot(message, form.unknown_slot, read_wire_tagged(form, message, source, p, end) if form.flexible else NO_TAGS)
    return message


cdef object read_wire_tagged(Layout form, message, WireSource source, Py_ssize_t* p, Py_ssize_t end):
    """Fill the slots of known tagged fields. Return unknown tagged fields as (tag, bytes) pairs."""
    cdef Py_ssize_t start = p[0], stop
    cdef uint32_t count = read_wire_uvarint(form, -1, source, p, end), tag, size
    cdef int64_t last = -1
    cdef int i = form.fields_end
    if count == 0:
        return NO_TAGS
    if count > (end - p[0]) // 2:
        raise TruncatedError(f"{form.where(-1)}: the remaining {quantity(end - p[0], 'byte')} cannot contain {quantity(count, 'field')}", start)
    source.take(form, -1, count, start)
    cdef list unknown = []
    while count:
        count -= 1
        start = p[0]
        tag = read_wire_uvarint(form, -1, source, p, end)
        size = read_wire_uvarint(form, -1, source, p, end)
        if tag <= last:
            raise StructureError(f"{form.where(-1)}: tag {tag} follows tag {last}, but tags must increase", start)
        if tag > MAX_FRAME:
            raise StructureError(f"{form.where(-1)}: {tag} is not a valid tag", start)
        if size > end - p[0]:
            raise short_error(form, -1, size, end - p[0], p[0])
        last, stop = tag, p[0] + size
        while i < form.tagged_end and form.wire[i].tag < tag:
            i += 1
        if i < form.tagged_end and form.wire[i].tag == tag:
            kf_set_slot(message, form.wire[i].slot, read_wire_field(form, i, source, p, stop))
            if p[0] != stop:
                raise StructureError(f"{form.where(i)}: the tagged field has {quantity(stop - p[0], 'byte')} after its value", p[0])
        else:
            unknown.append((tag, PyBytes_FromStringAndSize(<const char*>source.source.data + p[0], size)))
            p[0] = stop
    return tuple(unknown)


cdef object short_error(Layout form, int i, Py_ssize_t need, Py_ssize_t left, Py_ssize_t position):
    return TruncatedError(f"{form.where(i)}: {quantity(need, 'byte')} expected, but the data ends after {left}", position)


cdef uint32_t read_wire_uvarint(Layout form, int i, WireSource source, Py_ssize_t* p, Py_ssize_t end) except? 0xFFFFFFFF:
    cdef uint32_t value
    cdef const uint8_t* data = source.source.data
    cdef const uint8_t* after = get_uvarint(data + p[0], data + end, &value)
    if after == NULL:
        if end - p[0] >= 5:
            raise StructureError(f"{form.where(i)}: the varint has more than 5 bytes", p[0])
        raise TruncatedError(f"{form.where(i)}: the input ends inside a varint", p[0])
    p[0] = after - data
    return value


cdef int64_t read_wire_length(Layout form, int i, WireSource source, Py_ssize_t* p, Py_ssize_t end, bint wide, bint nullable) except? -2:
    """Read a length or count, which is an int16, an int32, or a varint if the field is compact.

    Return -1 for null.
    """
    cdef WireField* wire = &form.wire[i]
    cdef int64_t length
    cdef Py_ssize_t start = p[0], width = 4 if wide else 2
    if wire.compact:
        length = <int64_t>read_wire_uvarint(form, i, source, p, end) - 1
    else:
        if width > end - start:
            raise short_error(form, i, width, end - start, start)
        length = int32_at(source.source.data + start) if wide else int16_at(source.source.data + start)
        p[0] += width
    if length >= 0:
        return length
    if not nullable:
        raise StructureError(f"{form.where(i)} is null, which this version does not allow", start)
    return -1


cdef object read_wire_field(Layout form, int i, WireSource source, Py_ssize_t* p, Py_ssize_t end):
    cdef WireField* wire = &form.wire[i]
    if not wire.array:
        return read_wire_value(form, i, source, p, end, wire.nullable)
    cdef Py_ssize_t start = p[0]
    cdef int64_t count = read_wire_length(form, i, source, p, end, True, wire.nullable), n
    if count < 0:
        return None
    if count > (end - p[0]) // wire.element:
        raise TruncatedError(f"{form.where(i)}: the remaining {quantity(end - p[0], 'byte')} cannot contain {quantity(count, 'element')}", start)
    source.take(form, i, 1 + count if wire.kind > WIRE_UUID else 1, start)
    cdef list values
    if wire.kind > WIRE_UUID:    # Do not reserve memory for `count` elements: they need more memory than their encoded bytes.
        values = []
        if form.is_tree:
            PyObject_GC_UnTrack(values)
        for n in range(count):
            PyList_Append(values, read_wire_value(form, i, source, p, end, False))
        return values
    values = PyList_New(count)
    PyObject_GC_UnTrack(values)
    for n in range(count):
        value = wire_number_at(source.source.data + p[0], wire.kind)
        p[0] += wire.element
        Py_INCREF(value)
        PyList_SET_ITEM(values, n, value)
    return values


cdef object read_wire_value(Layout form, int i, WireSource source, Py_ssize_t* p, Py_ssize_t end, bint nullable):
    cdef WireField* wire = &form.wire[i]
    cdef int kind = wire.kind
    cdef Py_ssize_t start = p[0], size
    cdef const uint8_t* data = source.source.data + start
    cdef int64_t length
    if kind <= WIRE_UUID:
        size = SIZES[kind]
        if size > end - start:
            raise short_error(form, i, size, end - start, start)
        p[0] += size
        return wire_number_at(data, kind)
    if kind == WIRE_STRUCT:
        if nullable:
            if end - start < 1:
                raise short_error(form, i, 1, 0, start)
            p[0] += 1
            if data[0] == 0 if form.wire[i].tagged else data[0] > 0x7F:
                return None
        return read_wire_struct(<Layout>form.layouts[i], source, p, end)
    length = read_wire_length(form, i, source, p, end, kind != WIRE_STRING, nullable)
    if length < 0:
        return None
    if kind == WIRE_STRING and length > MAX_STRING:
        raise StructureError(f"{form.where(i)}: the string has {length} bytes; the limit is {MAX_STRING}", start)
    if length > end - p[0]:
        raise short_error(form, i, length, end - p[0], p[0])
    start = p[0]
    data = source.source.data + start
    p[0] += length
    if kind == WIRE_RECORDS:
        return source.slice(start, length)
    if kind == WIRE_BYTES:
        return PyBytes_FromStringAndSize(<const char*>data, length)
    try:
        return PyUnicode_DecodeUTF8(<const char*>data, length, NULL)
    except UnicodeDecodeError:
        return decode_text(PyBytes_FromStringAndSize(<const char*>data, length))

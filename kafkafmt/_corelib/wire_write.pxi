# Write messages of the wire protocol (see wire.pxi).

@cython.internal
cdef class WireOutput:
    """Collects encoded messages as a list of buffers and the bytes after the last buffer."""

    cdef list parts
    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t room
    cdef Py_ssize_t closed

    def __cinit__(self):
        self.parts = []
        self.data = NULL
        self.size = self.room = self.closed = 0

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef uint8_t* extend(self, Py_ssize_t n) except NULL:
        """Reserve `n` bytes and return their address. The caller must fill all reserved bytes."""
        cdef Py_ssize_t room
        cdef uint8_t* data
        if n > self.room - self.size:
            if n > MAX_FRAME - self.size:
                raise ValueError(f"the frame would have more than {MAX_FRAME} bytes, which is the limit")
            room = max(256, 2 * self.room, self.size + n)
            data = <uint8_t*>PyMem_Realloc(self.data, room)
            if data == NULL:
                raise MemoryError()
            self.data, self.room = data, room
        self.size += n
        return self.data + self.size - n

    cdef int uvarint(self, uint32_t value) except -1:
        cdef uint8_t* p
        while value > 0x7F:
            p = self.extend(1)
            p[0] = <uint8_t>(value & 0x7F | 0x80)
            value >>= 7
        p = self.extend(1)
        p[0] = <uint8_t>value
        return 0

    cdef int integer(self, uint64_t value, int width) except -1:
        cdef uint8_t* p = self.extend(width)
        value = KF_BE64(value) >> (64 - 8 * width) if width < 8 else KF_BE64(value)
        memcpy(p, &value, width)
        return 0

    cdef int bytes_(self, const void* data, Py_ssize_t n) except -1:
        if n:
            memcpy(self.extend(n), data, n)
        return 0

    cdef int close_tail(self) except -1:
        if self.size:
            self.parts.append(PyBytes_FromStringAndSize(<const char*>self.data, self.size))
            self.closed += self.size
            self.size = 0
        return 0

    cdef int whole(self, view) except -1:
        """Append a buffer to `parts` without copying it."""
        cdef Py_ssize_t n = view.nbytes
        if n:
            self.close_tail()
            self.parts.append(view)
            self.closed += n
        return 0


cdef int write_wire_struct(Layout form, WireOutput out, message) except -1:
    if form.message_type is None or not PyType_IsSubtype(Py_TYPE(message), <PyTypeObject*>form.message_type):
        raise TypeError(f"expected an object of type {form.message_type.__qualname__}, not {shown(message)}")
    cdef int i
    for i in range(form.tagged_end, form.absent_end):
        if not form.wire[i].ignorable and not slot_is_default(form, i, message):
            raise ValueError(f"{form.where(i)} does not exist in version {form.version}")
    for i in range(form.fields_end):
        write_wire_field(form, i, out, slot_value(form, i, message))
    cdef object unknown = kf_slot_value(message, form.unknown_slot, NO_TAGS)
    if form.flexible:
        write_wire_tagged(form, out, message, unknown)
    elif unknown:
        raise ValueError(f"{form.message_type.__name__}: version {form.version} has no tagged fields")
    return 0


cdef object slot_value(Layout form, int i, message):
    value = kf_slot_value(message, form.wire[i].slot, NO_VALUE)
    if value is NO_VALUE:
        raise AttributeError(form.where(i))
    return value


cdef bint slot_is_default(Layout form, int i, message) except -1:
    value = slot_value(form, i, message)
    sample = form.samples[i]
    return value is sample or KF_EQUAL(value, sample)


cdef int write_wire_tagged(Layout form, WireOutput out, message, unknown) except -1:
    cdef list present = []    # items are (tag, number of the field, None) or (tag, None, Source of the bytes)
    cdef int i
    for i in range(form.fields_end, form.tagged_end):
        if not slot_is_default(form, i, message):
            present.append((form.wire[i].tag, i, None))
    if unknown:
        for tag, value in unknown:
            if not 0 <= tag <= MAX_FRAME:
                raise ValueError(f"{form.message_type.__name__}: {tag} is not a valid tag")
            present.append((tag, None, Source(value)))
        present.sort(key=lambda entry: entry[0])
        if len({entry[0] for entry in present}) < len(present):
            raise ValueError(f"{form.message_type.__name__}: two tagged fields have the same tag")
    out.uvarint(<uint32_t>len(present))
    for tag, number, value in present:
        out.uvarint(tag)
        inside = WireOutput()
        if number is None:
            inside.bytes_((<Source>value).data, (<Source>value).size)
        else:
            write_wire_field(form, number, inside, slot_value(form, number, message))
        out.uvarint(<uint32_t>inside.size)
        out.bytes_(inside.data, inside.size)
    return 0


cdef int write_wire_length(Layout form, int i, WireOutput out, Py_ssize_t length, bint wide, bint nullable) except -1:
    """Write a length or count. -1 means null."""
    if length < 0 and not nullable:
        raise ValueError(f"{form.where(i)} cannot be None in this version")
    if length > MAX_FRAME:
        raise ValueError(f"{form.where(i)} is too long")
    if form.wire[i].compact:
        return out.uvarint(<uint32_t>(length + 1))
    return out.integer(<uint64_t>length, 4 if wide else 2)


cdef int write_wire_field(Layout form, int i, WireOutput out, value) except -1:
    cdef WireField* wire = &form.wire[i]
    cdef Py_ssize_t n
    if not wire.array:
        return write_wire_value(form, i, out, value, wire.nullable)
    if value is None:
        return write_wire_length(form, i, out, -1, True, wire.nullable)
    if not isinstance(value, list | tuple):
        raise TypeError(f"{form.where(i)} must be a list, not {shown(value)}")
    cdef Py_ssize_t count = PySequence_Fast_GET_SIZE(value)
    write_wire_length(form, i, out, count, True, wire.nullable)
    for n in range(count):
        if n >= PySequence_Fast_GET_SIZE(value):
            raise RuntimeError(f"{form.where(i)} changed while it was written")
        write_wire_value(form, i, out, kf_item(value, n), False)
    return 0


cdef int write_wire_value(Layout form, int i, WireOutput out, value, bint nullable) except -1:
    cdef WireField* wire = &form.wire[i]
    cdef int kind = wire.kind, overflow = 0
    cdef int64_t integer
    cdef uint64_t bits
    cdef double number
    cdef const char* text
    cdef Py_ssize_t size
    cdef Source source
    if kind == WIRE_BOOL:
        return out.integer(1 if value else 0, 1)
    if kind <= WIRE_INT64:
        try:
            integer = PyLong_AsLongLongAndOverflow(value, &overflow)
        except TypeError:
            raise TypeError(f"{form.where(i)} must be an integer, not {shown(value)}") from None
        if overflow or integer < LOWEST[kind] or integer > HIGHEST[kind]:
            raise ValueError(f"{form.where(i)}: {shown(value)} is out of range")
        return out.integer(<uint64_t>integer, SIZES[kind])
    if kind == WIRE_FLOAT64:
        try:
            number = PyFloat_AsDouble(value)
        except TypeError:
            raise TypeError(f"{form.where(i)} must be a number, not {shown(value)}") from None
        memcpy(&bits, &number, 8)
        return out.integer(bits, 8)
    if kind == WIRE_UUID:
        if not isinstance(value, UUID):
            raise TypeError(f"{form.where(i)} must be a uuid.UUID, not {shown(value)}")
        raw = value.bytes
        if not isinstance(raw, bytes) or len(raw) != 16:
            raise ValueError(f"{form.where(i)}: {shown(value)} does not have 16 bytes")
        return out.bytes_(PyBytes_AS_STRING(raw), 16)
    if kind == WIRE_STRUCT:
        if nullable:
            out.integer(1 if value is not None else 0 if form.wire[i].tagged else 0xFF, 1)
            if value is None:
                return 0
        return write_wire_struct(<Layout>form.layouts[i], out, value)
    if value is None:
        return write_wire_length(form, i, out, -1, kind != WIRE_STRING, nullable)
    if kind == WIRE_STRING:
        if not PyUnicode_Check(value):
            raise TypeError(f"{form.where(i)} must be a str, not {shown(value)}")
        text = PyUnicode_AsUTF8AndSize(value, &size)
        if size > MAX_STRING:
            raise ValueError(f"{form.where(i)}: the string has {size} bytes; the limit is {MAX_STRING}")
        write_wire_length(form, i, out, size, False, nullable)
        return out.bytes_(text, size)
    if kind == WIRE_BYTES:
        try:
            source = Source(value)
        except TypeError:
            raise TypeError(f"{form.where(i)} must be bytes, not {shown(value)}") from None
        write_wire_length(form, i, out, source.size, True, nullable)
        return out.bytes_(source.data, source.size)
    try:
        views = [byte_view(b) for b in (value if isinstance(value, list | tuple) else [value])]
    except TypeError:
        raise TypeError(f"{form.where(i)} must be bytes or a list of bytes, not {shown(value)}") from None
    size = 0
    for view in views:
        size += view.nbytes
    write_wire_length(form, i, out, size, True, nullable)
    for view in views:
        out.whole(view)
    return 0


cdef object byte_view(buffer):
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError("a C-contiguous buffer is needed")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def write_messages(layouts, messages, framed=False):
    cdef WireOutput out = WireOutput()
    if framed:
        memset(out.extend(4), 0, 4)
    for layout, message in zip(layouts, messages, strict=True):
        write_wire_struct(<Layout?>layout, out, message)
    out.close_tail()
    if framed:
        size = out.closed - 4
        if size > MAX_FRAME:
            raise ValueError(f"the frame would have {size} bytes; the limit is {MAX_FRAME}")
        out.parts[0] = size.to_bytes(4, "big") + out.parts[0][4:]
    return out.parts

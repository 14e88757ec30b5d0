# Messages of the wire protocol: a Layout is one structure in one version, its fields an array of C structs that say what stands
# on the wire and in which slot of the message it goes. Slots are read and written in place, which a type check of each message
# makes safe; a message is made without its __init__, all slots filled here.

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.list cimport PyList_Append
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject

from uuid import UUID

from .text import decode_header_key as decode_text

cdef extern from *:
    """
    #include <structmember.h>
    /* Where a slot lies in an instance; -1 for what is no slot of this type itself. */
    static Py_ssize_t kf_slot_offset(PyObject *type, PyObject *name) {
        PyObject *slot = PyObject_GetAttr(type, name);
        Py_ssize_t offset = -1;
        if (!slot) { PyErr_Clear(); return -1; }
        if (Py_IS_TYPE(slot, &PyMemberDescr_Type) && ((PyMemberDescrObject *)slot)->d_member->type == T_OBJECT_EX
            && PyType_IsSubtype((PyTypeObject *)type, PyDescr_TYPE(slot)))
            offset = ((PyMemberDescrObject *)slot)->d_member->offset;
        Py_DECREF(slot);
        return offset;
    }
    #define KF_SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
    #define KF_NEW(type) (((PyTypeObject *)(type))->tp_alloc((PyTypeObject *)(type), 0))
    static inline void kf_fill_slot(PyObject *object, Py_ssize_t offset, PyObject *value) {   /* of a new object, empty so far */
        Py_INCREF(value);
        KF_SLOT(object, offset) = value;
    }
    static inline void kf_set_slot(PyObject *object, Py_ssize_t offset, PyObject *value) {
        PyObject *old = KF_SLOT(object, offset);
        Py_INCREF(value);
        KF_SLOT(object, offset) = value;
        Py_XDECREF(old);
    }
    #define KF_EQUAL(a, b) PyObject_RichCompareBool(a, b, Py_EQ)
    """
    Py_ssize_t kf_slot_offset(object type, object name)
    PyObject* KF_SLOT(object message, Py_ssize_t offset)
    object KF_NEW(object type)
    int KF_EQUAL(object a, object b) except -1
    void kf_fill_slot(object message, Py_ssize_t offset, object value)
    void kf_set_slot(object message, Py_ssize_t offset, object value)
    void PyObject_GC_UnTrack(object o)
    bint PyType_IsSubtype(PyTypeObject* a, PyTypeObject* b)
    PyTypeObject* Py_TYPE(object o)
    object PyLong_FromLong(long n)
    object PyLong_FromLongLong(long long n)
    long long PyLong_AsLongLongAndOverflow(object n, int* overflow) except? -1
    double PyFloat_AsDouble(object n) except? -1
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    bint PyUnicode_Check(object o)
    Py_ssize_t PySequence_Fast_GET_SIZE(object o)
    PyObject* PySequence_Fast_GET_ITEM(object o, Py_ssize_t i)

cdef enum:                      # as in constants.py
    KIND_BOOL = 0
    KIND_INT8
    KIND_INT16
    KIND_UINT16
    KIND_INT32
    KIND_UINT32
    KIND_INT64
    KIND_FLOAT64
    KIND_UUID
    KIND_STRING
    KIND_BYTES
    KIND_RECORDS
    KIND_STRUCT
    MAX_TEXT = 32767
    MAX_FRAME = 0x7FFFFFFF

cdef object NO_TAGS = ()
cdef object ZERO_UUID = UUID(int=0)

cdef int64_t[8] LOWEST = [0, -128, -32768, 0, -2147483648, 0, <int64_t>-9223372036854775807 - 1, 0]
cdef int64_t[8] HIGHEST = [1, 127, 32767, 65535, 2147483647, 4294967295, 9223372036854775807, 0]
cdef int[9] SIZES = [1, 1, 2, 2, 4, 4, 8, 8, 16]    # of KIND_BOOL to KIND_UUID

cdef struct WireField:
    int kind
    bint array
    bint nullable
    bint compact
    bint fresh              # the default is a type: a new one for each message
    bint ignorable
    uint32_t tag
    Py_ssize_t slot
    Py_ssize_t smallest     # bytes that it takes at least
    Py_ssize_t element      # the same of an array's element


cdef inline object number_at(const uint8_t* data, int kind):
    """A value of fixed size."""
    cdef uint64_t bits
    cdef double number
    cdef int i
    if kind == KIND_INT32:
        return PyLong_FromLong(int32_at(data))
    if kind == KIND_INT64:
        return PyLong_FromLongLong(int64_at(data))
    if kind == KIND_INT16:
        return PyLong_FromLong(int16_at(data))
    if kind == KIND_INT8:
        return PyLong_FromLong(<int8_t>data[0])
    if kind == KIND_BOOL:
        return data[0] != 0
    if kind == KIND_UUID:
        for i in range(16):
            if data[i]:
                return UUID(bytes=PyBytes_FromStringAndSize(<const char*>data, 16))
        return ZERO_UUID
    if kind == KIND_UINT16:
        return PyLong_FromLong(<uint16_t>int16_at(data))
    if kind == KIND_UINT32:
        return PyLong_FromLongLong(<uint32_t>int32_at(data))
    bits = <uint64_t>int64_at(data)
    memcpy(&number, &bits, 8)
    return number


@cython.internal
cdef class WireSource:
    """A buffer that is being read; `view` is made when record data is first met."""

    cdef Source source
    cdef object buffer
    cdef object view

    def __cinit__(self, buffer):
        self.source = Source(buffer)
        self.buffer = buffer
        self.view = None

    cdef object slice(self, Py_ssize_t start, Py_ssize_t length):
        if self.view is None:
            self.view = memoryview(self.buffer).cast("B")
        return self.view[start:start + length]


@cython.internal
cdef class WireOutput:
    """What has been written: whole buffers, and the bytes behind the last of them."""

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
        """Room for `n` bytes more, which count as written."""
        cdef Py_ssize_t room
        cdef uint8_t* data
        if n > self.room - self.size:
            if n > MAX_FRAME - self.size:
                raise ValueError(f"a frame of more than {MAX_FRAME} bytes")
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
        """A buffer as it is, not copied."""
        cdef Py_ssize_t n = view.nbytes
        if n:
            self.close_tail()
            self.parts.append(view)
            self.closed += n
        return 0


cdef class Layout:
    cdef type message_type
    cdef int version
    cdef bint flexible
    cdef bint is_tree               # no record data inside: nothing but a tree of values
    cdef Py_ssize_t smallest
    cdef Py_ssize_t unknown_slot
    cdef WireField* wire            # the fields, then the tagged, then the absent ones
    cdef int fields_end
    cdef int tagged_end
    cdef int absent_end
    cdef list names
    cdef list defaults              # of each field: the value, or the type that makes it
    cdef list samples               # of each field: what a default one equals
    cdef list layouts

    def __cinit__(self):
        self.wire = NULL

    def __dealloc__(self):
        PyMem_Free(self.wire)

    def __init__(self, message_type, version, fields, tagged=(), absent=(), flexible=False):
        if self.wire != NULL:
            raise TypeError("a layout cannot be changed")
        self.message_type = message_type
        self.version = version
        self.flexible = flexible
        self.is_tree = True
        self.unknown_slot = self.slot_of("unknown_tagged_fields")
        self.names, self.defaults, self.samples, self.layouts = [], [], [], []
        cdef Py_ssize_t n = len(fields) + len(tagged) + len(absent)
        self.wire = <WireField*>PyMem_Malloc(max(n, 1) * sizeof(WireField))
        if self.wire == NULL:
            raise MemoryError()
        self.fields_end = self.tagged_end = self.absent_end = 0
        self.smallest = flexible
        for field in fields:
            self.add(field, 0)
            self.smallest += self.wire[self.absent_end - 1].smallest
        self.smallest = max(1, self.smallest)
        self.fields_end = self.absent_end
        for tag, field in sorted(tagged, key=lambda pair: pair[0]):
            self.add(field, tag)
        self.tagged_end = self.absent_end
        for name, default, ignorable in absent:
            self.add((name, KIND_INT8, False, False, False, None, default), 0)
            self.wire[self.absent_end - 1].ignorable = ignorable

    cdef Py_ssize_t slot_of(self, name) except -1:
        cdef Py_ssize_t slot = kf_slot_offset(self.message_type, name)
        if slot < 0:
            raise TypeError(f"{self.message_type.__name__}.{name} is no slot")
        return slot

    cdef int add(self, tuple field, uint32_t tag) except -1:
        name, kind, array, nullable, compact, layout, default = field
        if not 0 <= kind < len(WIRE_TYPES):
            raise ValueError(f"{name}: there is no kind {kind}")
        if (kind == KIND_STRUCT) != isinstance(layout, Layout):
            raise TypeError(f"{name}: a structure has a layout, nothing else has")
        cdef WireField* wire = &self.wire[self.absent_end]
        wire.kind, wire.array, wire.nullable, wire.compact = kind, array, nullable, compact
        wire.fresh, wire.ignorable, wire.tag = isinstance(default, type), False, tag
        wire.slot = self.slot_of(name)
        if kind == KIND_STRUCT:
            wire.element = 1 if nullable and not array else (<Layout>layout).smallest
        elif kind <= KIND_UUID:
            wire.element = SIZES[<int>kind]
        else:
            wire.element = 1 if compact else 2 if kind == KIND_STRING else 4
        wire.smallest = wire.element if not array else 1 if compact else 4
        if kind == KIND_RECORDS or (kind == KIND_STRUCT and not (<Layout>layout).is_tree):
            self.is_tree = False
        self.names.append(name)
        self.defaults.append(default)
        self.samples.append(default() if wire.fresh else default)
        self.layouts.append(layout)
        self.absent_end += 1
        return 0

    def read(self, buffer, start=0, end=None):
        cdef WireSource source = WireSource(buffer)
        first, last = bounds(source.source, start, end)
        cdef Py_ssize_t p = first
        if self.message_type is None:
            raise TypeError("a layout that was never made")
        message = self.read_struct(source, &p, last)
        return message, p

    cdef str where(self, int i):
        return f"{self.message_type.__name__}.{self.names[i]}"

    cdef object read_struct(self, WireSource source, Py_ssize_t* p, Py_ssize_t end):
        cdef object message = KF_NEW(self.message_type)
        if self.is_tree:
            PyObject_GC_UnTrack(message)
        cdef WireField* wire
        cdef int i
        for i in range(self.fields_end):
            wire = &self.wire[i]
            if not wire.array and wire.kind < KIND_UUID and wire.smallest <= end - p[0]:
                kf_fill_slot(message, wire.slot, number_at(source.source.data + p[0], wire.kind))
                p[0] += wire.smallest
            else:
                kf_fill_slot(message, wire.slot, self.read_field(i, source, p, end))
        for i in range(self.fields_end, self.absent_end):
            kf_fill_slot(message, self.wire[i].slot, (<object>self.defaults[i])() if self.wire[i].fresh else self.defaults[i])
        kf_fill_slot(message, self.unknown_slot, self.read_tagged(message, source, p, end) if self.flexible else NO_TAGS)
        return message

    cdef object read_tagged(self, message, WireSource source, Py_ssize_t* p, Py_ssize_t end):
        """Fills the slots of tagged fields; the ones that are not known."""
        cdef Py_ssize_t start = p[0], stop
        cdef uint32_t count = self.read_uvarint(-1, source, p, end), tag, size
        cdef int64_t last = -1
        cdef int i = self.fields_end
        if count == 0:
            return NO_TAGS
        if count > (end - p[0]) // 2:
            where = f"{self.message_type.__name__}'s tagged fields"
            raise TruncatedError(f"{where}: {count} of them do not fit the {end - p[0]} bytes that are left", start)
        cdef list unknown = []
        while count:
            count -= 1
            start = p[0]
            tag = self.read_uvarint(-1, source, p, end)
            size = self.read_uvarint(-1, source, p, end)
            if tag <= last:
                raise StructureError(f"{self.message_type.__name__}'s tagged fields: tag {tag} follows tag {last}", start)
            if size > end - p[0]:
                raise self.short(-1, size, end - p[0], p[0])
            last, stop = tag, p[0] + size
            while i < self.tagged_end and self.wire[i].tag < tag:
                i += 1
            if i < self.tagged_end and self.wire[i].tag == tag:
                kf_set_slot(message, self.wire[i].slot, self.read_field(i, source, p, stop))
                if p[0] != stop:
                    raise StructureError(f"{self.where(i)}: {stop - p[0]} bytes are left over", p[0])
            else:
                unknown.append((tag, PyBytes_FromStringAndSize(<const char*>source.source.data + p[0], size)))
                p[0] = stop
        return tuple(unknown)

    cdef object short(self, int i, Py_ssize_t need, Py_ssize_t left, Py_ssize_t position):
        where = f"{self.message_type.__name__}'s tagged fields" if i < 0 else self.where(i)
        return TruncatedError(f"{where}: {need} bytes are needed, {left} are left", position)

    cdef uint32_t read_uvarint(self, int i, WireSource source, Py_ssize_t* p, Py_ssize_t end) except? 0xFFFFFFFF:
        cdef uint32_t value
        cdef const uint8_t* data = source.source.data
        cdef const uint8_t* after = get_uvarint(data + p[0], data + end, &value)
        if after == NULL:
            where = f"{self.message_type.__name__}'s tagged fields" if i < 0 else self.where(i)
            if end - p[0] >= 5:
                raise StructureError(f"{where}: varint of more than 5 bytes", p[0])
            raise TruncatedError(f"{where}: the input ends inside a varint", p[0])
        p[0] = after - data
        return value

    cdef int64_t read_length(self, int i, WireSource source, Py_ssize_t* p, Py_ssize_t end, bint wide, bint nullable) except? -2:
        """A length or count: an int32 or int16, or a varint; -1 for null."""
        cdef WireField* wire = &self.wire[i]
        cdef int64_t length
        cdef Py_ssize_t start = p[0], width = 4 if wide else 2
        if wire.compact:
            length = <int64_t>self.read_uvarint(i, source, p, end) - 1
        else:
            if width > end - start:
                raise self.short(i, width, end - start, start)
            length = int32_at(source.source.data + start) if wide else int16_at(source.source.data + start)
            p[0] += width
        if length >= 0:
            return length
        if not nullable:
            raise StructureError(f"{self.where(i)} is null, which it must not be in this version", start)
        return -1

    cdef object read_field(self, int i, WireSource source, Py_ssize_t* p, Py_ssize_t end):
        cdef WireField* wire = &self.wire[i]
        if not wire.array:
            return self.read_value(i, source, p, end, wire.nullable)
        cdef Py_ssize_t start = p[0]
        cdef int64_t count = self.read_length(i, source, p, end, True, wire.nullable), n
        if count < 0:
            return None
        if count > (end - p[0]) // wire.element:
            raise TruncatedError(f"{self.where(i)}: {count} elements do not fit the {end - p[0]} bytes that are left", start)
        cdef list values
        if wire.kind > KIND_UUID:    # larger in memory than on the wire: the list grows with what is there
            values = []
            if self.is_tree:
                PyObject_GC_UnTrack(values)
            for n in range(count):
                PyList_Append(values, self.read_value(i, source, p, end, False))
            return values
        values = PyList_New(count)
        PyObject_GC_UnTrack(values)
        for n in range(count):
            value = number_at(source.source.data + p[0], wire.kind)
            p[0] += wire.element
            Py_INCREF(value)
            PyList_SET_ITEM(values, n, value)
        return values

    cdef object read_value(self, int i, WireSource source, Py_ssize_t* p, Py_ssize_t end, bint nullable):
        cdef WireField* wire = &self.wire[i]
        cdef int kind = wire.kind
        cdef Py_ssize_t start = p[0], size
        cdef const uint8_t* data = source.source.data + start
        cdef int64_t length
        if kind <= KIND_UUID:
            size = SIZES[kind]
            if size > end - start:
                raise self.short(i, size, end - start, start)
            p[0] += size
            return number_at(data, kind)
        if kind == KIND_STRUCT:
            if nullable:
                if end - start < 1:
                    raise self.short(i, 1, 0, start)
                p[0] += 1
                if data[0] > 0x7F:
                    return None
            return (<Layout>self.layouts[i]).read_struct(source, p, end)
        length = self.read_length(i, source, p, end, kind != KIND_STRING, nullable)
        if length < 0:
            return None
        if kind == KIND_STRING and length > MAX_TEXT:
            raise StructureError(f"{self.where(i)}: a string of {length} bytes, more than {MAX_TEXT}", start)
        if length > end - p[0]:
            raise self.short(i, length, end - p[0], p[0])
        start = p[0]
        data = source.source.data + start
        p[0] += length
        if kind == KIND_RECORDS:
            return source.slice(start, length)
        if kind == KIND_BYTES:
            return PyBytes_FromStringAndSize(<const char*>data, length)
        try:
            return PyUnicode_DecodeUTF8(<const char*>data, length, NULL)
        except UnicodeDecodeError:
            return decode_text(PyBytes_FromStringAndSize(<const char*>data, length))

    cdef int write_struct(self, WireOutput out, message) except -1:
        if self.message_type is None or not PyType_IsSubtype(Py_TYPE(message), <PyTypeObject*>self.message_type):
            raise TypeError(f"a {self.message_type.__qualname__} is needed, not {message!r}")
        cdef int i
        for i in range(self.tagged_end, self.absent_end):
            if not self.wire[i].ignorable and not self.is_default(i, message):
                raise ValueError(f"{self.where(i)} does not exist in version {self.version}")
        for i in range(self.fields_end):
            self.write_field(i, out, self.value_of(i, message))
        cdef PyObject* unknown = KF_SLOT(message, self.unknown_slot)
        if self.flexible:
            self.write_tagged(out, message, NO_TAGS if unknown == NULL else <object>unknown)
        elif unknown != NULL and <object>unknown:
            raise ValueError(f"{self.message_type.__name__}: version {self.version} has no tagged fields")
        return 0

    cdef object value_of(self, int i, message):
        cdef PyObject* value = KF_SLOT(message, self.wire[i].slot)
        if value == NULL:
            raise AttributeError(self.where(i))
        return <object>value

    cdef bint is_default(self, int i, message) except -1:
        value = self.value_of(i, message)
        sample = self.samples[i]
        return value is sample or KF_EQUAL(value, sample)

    cdef int write_tagged(self, WireOutput out, message, unknown) except -1:
        cdef list present = []    # (tag, number of the field, or None and the bytes)
        cdef int i
        for i in range(self.fields_end, self.tagged_end):
            if not self.is_default(i, message):
                present.append((self.wire[i].tag, i, None))
        if unknown:
            for tag, value in unknown:
                if not 0 <= tag <= MAX_FRAME:
                    raise ValueError(f"{self.message_type.__name__}: {tag} cannot be a tag")
                present.append((tag, None, Source(value)))
            present.sort(key=lambda entry: entry[0])
            if len({entry[0] for entry in present}) < len(present):
                raise ValueError(f"{self.message_type.__name__}: two tagged fields have one tag")
        out.uvarint(<uint32_t>len(present))
        for tag, number, value in present:
            out.uvarint(tag)
            inside = WireOutput()
            if number is None:
                inside.bytes_((<Source>value).data, (<Source>value).size)
            else:
                self.write_field(number, inside, self.value_of(number, message))
            out.uvarint(<uint32_t>inside.size)
            out.bytes_(inside.data, inside.size)
        return 0

    cdef int write_length(self, int i, WireOutput out, Py_ssize_t length, bint wide, bint nullable) except -1:
        """A length or count, -1 for null."""
        if length < 0 and not nullable:
            raise ValueError(f"{self.where(i)} must not be None in this version")
        if length > MAX_FRAME:
            raise ValueError(f"{self.where(i)} is too long")
        if self.wire[i].compact:
            return out.uvarint(<uint32_t>(length + 1))
        return out.integer(<uint64_t>length, 4 if wide else 2)

    cdef int write_field(self, int i, WireOutput out, value) except -1:
        cdef WireField* wire = &self.wire[i]
        cdef Py_ssize_t n
        if not wire.array:
            return self.write_value(i, out, value, wire.nullable)
        if value is None:
            return self.write_length(i, out, -1, True, wire.nullable)
        if not isinstance(value, list | tuple):
            raise TypeError(f"{self.where(i)}: a list is needed, not {value!r}")
        cdef Py_ssize_t count = PySequence_Fast_GET_SIZE(value)
        self.write_length(i, out, count, True, wire.nullable)
        for n in range(count):
            if n >= PySequence_Fast_GET_SIZE(value):
                raise RuntimeError(f"{self.where(i)} changed while it was written")
            self.write_value(i, out, <object>PySequence_Fast_GET_ITEM(value, n), False)
        return 0

    cdef int write_value(self, int i, WireOutput out, value, bint nullable) except -1:
        cdef WireField* wire = &self.wire[i]
        cdef int kind = wire.kind, overflow = 0
        cdef int64_t integer
        cdef uint64_t bits
        cdef double number
        cdef const char* text
        cdef Py_ssize_t size
        cdef Source source
        if kind == KIND_BOOL:
            return out.integer(1 if value else 0, 1)
        if kind <= KIND_INT64:
            try:
                integer = PyLong_AsLongLongAndOverflow(value, &overflow)
            except TypeError:
                raise TypeError(f"{self.where(i)}: an integer is needed, not {value!r}") from None
            if overflow or integer < LOWEST[kind] or integer > HIGHEST[kind]:
                raise ValueError(f"{self.where(i)}: {value!r} is out of range")
            return out.integer(<uint64_t>integer, SIZES[kind])
        if kind == KIND_FLOAT64:
            try:
                number = PyFloat_AsDouble(value)
            except TypeError:
                raise TypeError(f"{self.where(i)}: a number is needed, not {value!r}") from None
            memcpy(&bits, &number, 8)
            return out.integer(bits, 8)
        if kind == KIND_UUID:
            if not isinstance(value, UUID):
                raise TypeError(f"{self.where(i)}: a uuid.UUID is needed, not {value!r}")
            raw = value.bytes
            if not isinstance(raw, bytes) or len(raw) != 16:
                raise ValueError(f"{self.where(i)}: {value!r} does not have 16 bytes")
            return out.bytes_(PyBytes_AS_STRING(raw), 16)
        if kind == KIND_STRUCT:
            if nullable:
                out.integer(0xFF if value is None else 1, 1)
                if value is None:
                    return 0
            return (<Layout>self.layouts[i]).write_struct(out, value)
        if value is None:
            return self.write_length(i, out, -1, kind != KIND_STRING, nullable)
        if kind == KIND_STRING:
            if not PyUnicode_Check(value):
                raise TypeError(f"{self.where(i)}: a str is needed, not {value!r}")
            text = PyUnicode_AsUTF8AndSize(value, &size)
            if size > MAX_TEXT:
                raise ValueError(f"{self.where(i)}: a string of {size} bytes, more than {MAX_TEXT}")
            self.write_length(i, out, size, False, nullable)
            return out.bytes_(text, size)
        if kind == KIND_BYTES:
            try:
                source = Source(value)
            except TypeError:
                raise TypeError(f"{self.where(i)}: bytes are needed, not {value!r}") from None
            self.write_length(i, out, source.size, True, nullable)
            return out.bytes_(source.data, source.size)
        try:
            views = [byte_view(b) for b in (value if isinstance(value, list | tuple) else [value])]
        except TypeError:
            raise TypeError(f"{self.where(i)}: bytes, or a list of them, are needed, not {value!r}") from None
        size = 0
        for view in views:
            size += view.nbytes
        self.write_length(i, out, size, True, nullable)
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
        (<Layout?>layout).write_struct(out, message)
    out.close_tail()
    if framed:
        size = out.closed - 4
        if size > MAX_FRAME:
            raise ValueError(f"a frame of {size} bytes, more than {MAX_FRAME}")
        out.parts[0] = size.to_bytes(4, "big") + out.parts[0][4:]
    return out.parts

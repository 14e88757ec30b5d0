# Define Layout, which reads and writes one structure of the wire protocol in one version.
#
# A C struct describes the encoding of each field, and the slot of the message object that stores its value.
# Slots are read and written directly in memory. This is safe because the type of every message object is checked first.
# A message object is created without calling __init__, because reading a message fills all its slots.

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.list cimport PyList_Append
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject

from uuid import UUID

from .support.text import decode_header_key as decode_text

cdef extern from *:
    """
    #include <structmember.h>
    /* Return the position of a slot in an instance, or -1 if it is not a slot of this type. */
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
    static inline void kf_fill_slot(PyObject *object, Py_ssize_t offset, PyObject *value) {   /* the slot is empty */
        Py_INCREF(value);
        KF_SLOT(object, offset) = value;
    }
    static inline void kf_set_slot(PyObject *object, Py_ssize_t offset, PyObject *value) {
        PyObject *old = KF_SLOT(object, offset);
        Py_INCREF(value);
        KF_SLOT(object, offset) = value;
        Py_XDECREF(old);
    }
    /* The value of a slot, or `absent` if it is empty. Without the GIL, another thread can replace the value meanwhile. */
    static inline PyObject *kf_slot_value(PyObject *object, Py_ssize_t offset, PyObject *absent) {
        PyObject *value;
    #ifdef Py_GIL_DISABLED
        Py_BEGIN_CRITICAL_SECTION(object);
    #endif
        value = KF_SLOT(object, offset);
        value = Py_NewRef(value ? value : absent);
    #ifdef Py_GIL_DISABLED
        Py_END_CRITICAL_SECTION();
    #endif
        return value;
    }
    /* An item of a list or tuple. Without the GIL, another thread can change the list meanwhile. */
    static inline PyObject *kf_item(PyObject *items, Py_ssize_t i) {
    #ifdef Py_GIL_DISABLED
        if (PyList_Check(items)) return PyList_GetItemRef(items, i);
    #endif
        return Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
    }
    #define KF_EQUAL(a, b) PyObject_RichCompareBool(a, b, Py_EQ)
    """
    Py_ssize_t kf_slot_offset(object type, object name)
    object kf_slot_value(object message, Py_ssize_t offset, object absent)
    object kf_item(object items, Py_ssize_t i)
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

cdef enum:
    MAX_FRAME = MAX_INT32

cdef object NO_TAGS = ()
cdef object NO_VALUE = object()
cdef object ZERO_UUID = UUID(int=0)

cdef int64_t[8] LOWEST = [0, -128, -32768, 0, -2147483648, 0, <int64_t>-9223372036854775807 - 1, 0]
cdef int64_t[8] HIGHEST = [1, 127, 32767, 65535, 2147483647, 4294967295, 9223372036854775807, 0]
cdef int[9] SIZES = [1, 1, 2, 2, 4, 4, 8, 8, 16]    # sizes in bytes of the types WIRE_BOOL to WIRE_UUID

cdef struct WireField:
    int kind
    bint array
    bint nullable
    bint compact
    bint fresh              # The default is a type that is called to create the value for each message.
    bint ignorable
    bint tagged
    uint32_t tag
    Py_ssize_t slot
    Py_ssize_t smallest     # smallest encoded size of the field, in bytes
    Py_ssize_t element      # smallest encoded size of one array element, in bytes


cdef class Layout:
    """Reads and writes one structure of the wire protocol, in one version. See `_core.pyi`."""

    cdef type message_type
    cdef int version
    cdef bint flexible
    cdef bint is_tree               # True if the structure contains no record data. A message is then a tree of values.
    cdef Py_ssize_t smallest
    cdef Py_ssize_t unknown_slot
    cdef WireField* wire            # the fields, then the tagged fields, then the absent fields
    cdef int fields_end
    cdef int tagged_end
    cdef int absent_end
    cdef list names
    cdef list defaults              # the default of each field, or a type that creates the default
    cdef list samples               # For each field, a value that equals the default of the field.
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
            if field[1] == WIRE_RECORDS or (field[5] is not None and not (<Layout?>field[5]).is_tree):
                raise ValueError(f"{field[0]}: record data cannot be tagged")
            self.add(field, tag, True)
        self.tagged_end = self.absent_end
        for name, default, ignorable in absent:
            self.add((name, WIRE_INT8, False, False, False, None, default), 0)
            self.wire[self.absent_end - 1].ignorable = ignorable

    cdef Py_ssize_t slot_of(self, name) except -1:
        cdef Py_ssize_t slot = kf_slot_offset(self.message_type, name)
        if slot < 0:
            raise TypeError(f"{self.message_type.__name__}.{name} is not a slot")
        return slot

    cdef int add(self, tuple field, uint32_t tag, bint tagged=False) except -1:
        name, kind, array, nullable, compact, layout, default = field
        if not 0 <= kind < len(WIRE_TYPES):
            raise ValueError(f"{name}: there is no kind {kind}")
        if (kind == WIRE_STRUCT) != isinstance(layout, Layout):
            raise TypeError(f"{name}: a field has a layout if it is a structure, and only then")
        cdef WireField* wire = &self.wire[self.absent_end]
        wire.kind, wire.array, wire.nullable, wire.compact = kind, array, nullable, compact
        wire.fresh, wire.ignorable, wire.tag = isinstance(default, type), False, tag
        wire.tagged = tagged
        wire.slot = self.slot_of(name)
        if kind == WIRE_STRUCT:
            wire.element = 1 if nullable and not array else (<Layout>layout).smallest
        elif kind <= WIRE_UUID:
            wire.element = SIZES[<int>kind]
        else:
            wire.element = 1 if compact else 2 if kind == WIRE_STRING else 4
        wire.smallest = wire.element if not array else 1 if compact else 4
        if kind == WIRE_RECORDS or (kind == WIRE_STRUCT and not (<Layout>layout).is_tree):
            self.is_tree = False
        self.names.append(name)
        self.defaults.append(default)
        self.samples.append(default() if wire.fresh else default)
        self.layouts.append(layout)
        self.absent_end += 1
        return 0

    def read(self, buffer, start=0, end=None, max_objects=None):
        cdef WireSource source = WireSource(buffer, MAX_OBJECTS if max_objects is None else max_objects)
        first, last = bounds(source.source, start, end)
        cdef Py_ssize_t p = first
        if self.message_type is None:
            raise TypeError("this layout was not initialized")
        message = read_wire_struct(self, source, &p, last)
        return message, p

    cdef str where(self, int i):
        """Return the name of field `i`, or of the tagged fields if `i` is -1, for an error message."""
        return f"{self.message_type.__name__}'s tagged fields" if i < 0 else f"{self.message_type.__name__}.{self.names[i]}"

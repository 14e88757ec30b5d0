/* Define the type Record, with plain members, without a garbage-collector header, and with a free
 * list.
 *
 * The type is written in C because records are read one field at a time. Reading a member descriptor
 * takes a third of the time of a property, which Cython would generate. Members of type T_OBJECT_EX
 * are even faster, because the interpreter specialises their reads. Therefore, offset and timestamp
 * are stored as Python ints.
 */
#ifndef KAFKAFMT_RECORD_H
#define KAFKAFMT_RECORD_H

#include <Python.h>
#include <stddef.h>
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *offset;
    PyObject *timestamp;
    int timestamp_type;
    PyObject *key;
    PyObject *value;
    PyObject *headers;
    PyObject *topic;
    PyObject *partition;
} KfRecord;

#define KF_FREE_RECORDS 1024
static KfRecord *kf_free_records[KF_FREE_RECORDS];
static int kf_free_count = 0;
static PyTypeObject KfRecord_Type;

static inline KfRecord *kf_record_alloc(void) {
    KfRecord *self;
#ifndef Py_GIL_DISABLED
    if (kf_free_count) {
        self = kf_free_records[--kf_free_count];
        (void)PyObject_Init((PyObject *)self, &KfRecord_Type);
    } else
#endif
    {
        self = PyObject_New(KfRecord, &KfRecord_Type);
        if (!self) return NULL;
    }
    self->offset = self->timestamp = self->key = self->value = self->headers = self->topic = self->partition = NULL;
    return self;
}

static void kf_record_dealloc(PyObject *object) {
    KfRecord *self = (KfRecord *)object;
    Py_XDECREF(self->offset);
    Py_XDECREF(self->timestamp);
    Py_XDECREF(self->key);
    Py_XDECREF(self->value);
    Py_XDECREF(self->headers);
    Py_XDECREF(self->topic);
    Py_XDECREF(self->partition);
#ifndef Py_GIL_DISABLED
    if (kf_free_count < KF_FREE_RECORDS) {
        kf_free_records[kf_free_count++] = self;
        return;
    }
#endif
    PyObject_Free(self);
}

static PyObject *kf_record_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"offset", "timestamp", "timestamp_type", "key", "value", "headers", "topic", "partition", NULL};
    long long offset = 0, timestamp = -1;
    int timestamp_type = 0;
    PyObject *key = Py_None, *value = Py_None, *headers = NULL, *topic = Py_None, *partition = Py_None;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|LLiOOOOO:Record", names, &offset, &timestamp, &timestamp_type, &key, &value,
                                     &headers, &topic, &partition))
        return NULL;
    KfRecord *self = kf_record_alloc();
    if (!self) return NULL;
    self->offset = PyLong_FromLongLong(offset);
    self->timestamp = PyLong_FromLongLong(timestamp);
    self->timestamp_type = timestamp_type;
    self->key = Py_NewRef(key);
    self->value = Py_NewRef(value);
    self->headers = headers ? Py_NewRef(headers) : PyTuple_New(0);
    self->topic = Py_NewRef(topic);
    self->partition = Py_NewRef(partition);
    if (!self->offset || !self->timestamp || !self->headers) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* Return the fields that are compared. */
static PyObject *kf_record_fields(PyObject *object) {
    KfRecord *self = (KfRecord *)object;
    return Py_BuildValue("(OOiOOO)", self->offset, self->timestamp, self->timestamp_type, self->key, self->value, self->headers);
}

static PyObject *kf_record_repr(PyObject *object) {
    KfRecord *self = (KfRecord *)object;
    PyObject *place = self->topic == Py_None && self->partition == Py_None
                          ? PyUnicode_FromString("")
                          : PyUnicode_FromFormat(", topic=%R, partition=%R", self->topic, self->partition);
    if (!place) return NULL;
    PyObject *text =
        PyUnicode_FromFormat("Record(offset=%R, timestamp=%R, timestamp_type=%d, key=%R, value=%R, headers=%R%U)", self->offset,
                             self->timestamp, self->timestamp_type, self->key, self->value, self->headers, place);
    Py_DECREF(place);
    return text;
}

static PyObject *kf_record_compare(PyObject *a, PyObject *b, int op) {
    if (!Py_IS_TYPE(b, &KfRecord_Type) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    PyObject *x = kf_record_fields(a), *y = x ? kf_record_fields(b) : NULL;
    PyObject *result = y ? PyObject_RichCompare(x, y, op) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return result;
}

static Py_hash_t kf_record_hash(PyObject *object) {
    PyObject *fields = kf_record_fields(object);
    if (!fields) return -1;
    Py_hash_t hash = PyObject_Hash(fields);
    Py_DECREF(fields);
    return hash;
}

static PyObject *kf_record_reduce(PyObject *object, PyObject *unused) {
    (void)unused;
    KfRecord *self = (KfRecord *)object;
    return Py_BuildValue("(O(OOiOOOOO))", (PyObject *)&KfRecord_Type, self->offset, self->timestamp, self->timestamp_type, self->key,
                         self->value, self->headers, self->topic, self->partition);
}

static PyObject *kf_record_to_dict(PyObject *object, PyObject *unused) {
    (void)unused;
    KfRecord *self = (KfRecord *)object;
    return Py_BuildValue("{s:O,s:O,s:O,s:O,s:i,s:O,s:O,s:O}", "topic", self->topic, "partition", self->partition, "offset", self->offset,
                         "timestamp", self->timestamp, "timestamp_type", self->timestamp_type, "key", self->key, "value", self->value,
                         "headers", self->headers);
}

static PyObject *kf_record_datetime(PyObject *object, void *unused) {
    (void)unused;
    PyObject *times = PyImport_ImportModule("kafkafmt.support.times");
    if (!times) return NULL;
    PyObject *found = PyObject_CallMethod(times, "to_datetime", "O", ((KfRecord *)object)->timestamp);
    Py_DECREF(times);
    return found;
}

static PyMemberDef kf_record_members[] = {
    {"offset", T_OBJECT_EX, offsetof(KfRecord, offset), READONLY, "Offset of the record in its partition."},
    {"timestamp", T_OBJECT_EX, offsetof(KfRecord, timestamp), READONLY, "Milliseconds since 1970-01-01 UTC; -1 if there is none."},
    {"timestamp_type", T_INT, offsetof(KfRecord, timestamp_type), READONLY, "0 CreateTime, 1 LogAppendTime, -1 none (magic 0)."},
    {"key", T_OBJECT_EX, offsetof(KfRecord, key), READONLY, "bytes, a memoryview if views were requested, or None if the key is null."},
    {"value", T_OBJECT_EX, offsetof(KfRecord, value), READONLY, "bytes, a memoryview if views were requested, or None if the value is null."},
    {"headers", T_OBJECT_EX, offsetof(KfRecord, headers), READONLY, "Tuple of (str, bytes or None), in the order in which they are stored."},
    {"topic", T_OBJECT_EX, offsetof(KfRecord, topic), READONLY, "Name of the topic; None if the record was not read from a log."},
    {"partition", T_OBJECT_EX, offsetof(KfRecord, partition), READONLY,
     "Number of the partition; None if the record was not read from a log."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef kf_record_properties[] = {
    {"datetime", kf_record_datetime, NULL,
     "Timestamp as a datetime in UTC; None if the timestamp is -1 or outside the years 1 to 9999.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef kf_record_methods[] = {
    {"__reduce__", kf_record_reduce, METH_NOARGS, NULL},
    {"to_dict", kf_record_to_dict, METH_NOARGS, "to_dict($self, /)\n--\n\nReturn the fields by name. Record(**fields) creates an equal record."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject KfRecord_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "kafkafmt._core.Record",
    .tp_doc = "Record(offset=0, timestamp=-1, timestamp_type=0, key=None, value=None, headers=(), topic=None, partition=None)\n--\n\n"
              "One record of a partition.\n\n"
              "Records are equal if all their fields except topic and partition are equal, and are hashable. Fields are read-only.\n\n"
              "Parameters\n"
              "----------\n"
              "offset : int, default 0\n"
              "timestamp : int, default -1\n"
              "    Milliseconds since 1970-01-01 UTC; -1 if there is none.\n"
              "timestamp_type : int, default 0\n"
              "    0 CreateTime, 1 LogAppendTime, -1 none (magic 0).\n"
              "key, value : bytes, memoryview or None\n"
              "    A read-only memoryview if views were requested; None if the field is null.\n"
              "headers : tuple of (str, bytes or memoryview or None)\n"
              "    Keys and values of the headers, in the order in which they are stored.\n"
              "topic, partition : str and int, or None\n"
              "    Where the record was read; None if it was read from a buffer.\n\n"
              "Notes\n"
              "-----\n"
              "If a field was not read, its value is -1, None or ().\n",
    .tp_basicsize = sizeof(KfRecord),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = kf_record_new,
    .tp_dealloc = kf_record_dealloc,
    .tp_repr = kf_record_repr,
    .tp_richcompare = kf_record_compare,
    .tp_hash = kf_record_hash,
    .tp_members = kf_record_members,
    .tp_methods = kf_record_methods,
    .tp_getset = kf_record_properties,
};

static PyObject *kf_record_type(void) {
    return PyType_Ready(&KfRecord_Type) < 0 ? NULL : Py_NewRef((PyObject *)&KfRecord_Type);
}

static inline PyObject *kf_record_make(PyObject *offset, PyObject *timestamp, int timestamp_type, PyObject *key, PyObject *value,
                                       PyObject *headers, PyObject *topic, PyObject *partition) {
    KfRecord *self = kf_record_alloc();
    if (!self) return NULL;
    self->offset = Py_NewRef(offset);
    self->timestamp = Py_NewRef(timestamp);
    self->timestamp_type = timestamp_type;
    self->key = Py_NewRef(key);
    self->value = Py_NewRef(value);
    self->headers = Py_NewRef(headers);
    self->topic = Py_NewRef(topic);
    self->partition = Py_NewRef(partition);
    return (PyObject *)self;
}

#endif

# Write offsets and leader epochs into batches in place.
#
# In magic 2, the CRC of a batch remains valid, because it does not cover the base offset and the leader epoch.


cdef uint8_t* writable_bytes(Arrays arrays, buffer, Py_ssize_t* size) except NULL:
    cdef uint8_t* data = <uint8_t*>arrays.take(memoryview(buffer).cast("B"), 0, 1)
    size[0] = arrays.size()
    return data


cdef Py_ssize_t first_row_outside(const Batch* rows, Py_ssize_t count, Py_ssize_t size) noexcept nogil:
    """Return the first row whose batch is not inside a buffer of `size` bytes, or -1."""
    cdef Py_ssize_t i
    for i in range(count):
        if rows[i].position < 0 or rows[i].position > size - MAGIC_END:
            return i
    return -1


cdef int check_next_offset(int64_t offset) except -1:
    if offset < 0:
        raise ValueError(f"next_offset is {offset}; it cannot be negative")
    return 0


def write_offsets(buffer, batches):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count = len(batches), i, bad, size
    cdef const Batch* rows = <const Batch*>arrays.take(batches, count, sizeof(Batch), False)
    cdef uint8_t* data = writable_bytes(arrays, buffer, &size)
    with nogil:
        bad = first_row_outside(rows, count, size)
        if bad < 0:
            for i in range(count):
                put64(data + rows[i].position, rows[i].base_offset)
                if rows[i].magic == MAGIC_V2:
                    put32(data + rows[i].position + LEADER_EPOCH_AT, <uint32_t>rows[i].leader_epoch)
    if bad >= 0:
        raise ValueError(f"the batch in row {bad} of the table is outside the buffer")


def number_batches(buffer, batches, next_offset, leader_epoch=None):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count = len(batches), i, bad, size
    cdef const Batch* rows = <const Batch*>arrays.take(batches, count, sizeof(Batch), False)
    cdef uint8_t* data = writable_bytes(arrays, buffer, &size)
    cdef bint with_epoch = leader_epoch is not None
    cdef uint32_t epoch = <uint32_t><int32_t>(leader_epoch if with_epoch else 0)
    cdef int64_t offset = next_offset, delta
    check_next_offset(offset)
    with nogil:
        bad = first_row_outside(rows, count, size)
        if bad < 0:
            for i in range(count):
                if rows[i].last_offset_delta < 0 or rows[i].last_offset_delta >= INT64_MAX - offset:
                    bad = i
                    break
                offset += <int64_t>rows[i].last_offset_delta + 1
    if bad >= 0:
        raise ValueError(f"the batch in row {bad} of the table is outside the buffer, or its offsets do not fit into 64 bits")
    offset = next_offset
    with nogil:
        for i in range(count):
            delta = rows[i].last_offset_delta
            put64(data + rows[i].position, offset + delta if rows[i].count < 0 else offset)
            if with_epoch and rows[i].magic == MAGIC_V2:
                put32(data + rows[i].position + LEADER_EPOCH_AT, epoch)
            offset += delta + 1
    return offset

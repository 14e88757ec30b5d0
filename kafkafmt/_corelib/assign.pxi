# Offsets and leader epochs written into batches where they lie: the fields that no CRC of format 2 covers.


def write_offsets(buffer, batches):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t count = len(batches), i, bad = -1, size
    cdef const Batch* row
    cdef const Batch* rows = <const Batch*>arrays.take(batches, count, sizeof(Batch), False)
    cdef uint8_t* data = <uint8_t*>arrays.take(memoryview(buffer).cast("B"), 0, 1)
    size = arrays.size()
    with nogil:
        for i in range(count):
            row = &rows[i]
            if row.position < 0 or row.position > size - 17:
                bad = i
                break
        else:
            for i in range(count):
                row = &rows[i]
                if i + 24 < count:
                    KF_PREFETCH(data + rows[i + 24].position)
                put64(data + row.position, row.base_offset)
                if row.magic == 2:
                    put32(data + row.position + 12, <uint32_t>row.leader_epoch)
    if bad >= 0:
        raise ValueError(f"row {bad} of the table: its batch does not lie in the buffer")

# Copy values from a buffer into Arrow's binary layout: int32 offsets, data and a validity bitmap.


def total_length(lengths, count):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = natural(count), i
    cdef const int32_t* length = <const int32_t*>required(arrays.take(lengths, n, 4, False))
    cdef int64_t total = 0
    with nogil:
        for i in range(n):
            total += length[i] if length[i] > 0 else 0
    return total


def gather(buffer, positions, lengths, count, offsets, data, validity, row=0, filled=0):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = natural(count), at = natural(row), i, room, size = source.size
    cdef const int64_t* position = <const int64_t*>required(arrays.take(positions, n, 8, False))
    cdef const int32_t* length = <const int32_t*>required(arrays.take(lengths, n, 4, False))
    if at > PY_SSIZE_T_MAX // 2:        # With smaller values, the sums below cannot overflow.
        raise ValueError(f"row {row} is outside the array of offsets")
    cdef int32_t* offset = <int32_t*>required(arrays.take(offsets, at + n + 1, 4))
    cdef uint8_t* valid = <uint8_t*>arrays.take(validity, (at + n + 7) // 8, 1)
    cdef uint8_t* out = <uint8_t*>required(arrays.take(data, 0, 1))
    cdef int64_t end = natural(filled), nulls = 0
    cdef int64_t p
    cdef int32_t k
    cdef bint inside = True
    room = arrays.size()
    if end > room or room > MAX_INT32:
        raise ValueError("filled and the size of data must be between 0 and 2**31 - 1")
    with nogil:
        offset[at] = <int32_t>end
        for i in range(n):
            k = length[i]
            p = position[i]
            if k >= 0:
                if KF_UNLIKELY(p < 0 or p > size or k > size - p or k > room - end):
                    inside = False
                    break
                copy_span(out + end, source.data + p, k, size - p >= COPY_SLACK and room - end >= COPY_SLACK)
                end += k
                if valid != NULL:
                    valid[(at + i) >> 3] |= <uint8_t>(1 << ((at + i) & 7))
            else:
                nulls += 1
                if valid != NULL:
                    valid[(at + i) >> 3] &= <uint8_t>~(1 << ((at + i) & 7))
            offset[at + i + 1] = <int32_t>end
    if not inside:
        raise ValueError(f"span {i} ({quantity(k, 'byte')} at {p}) is outside the buffer, or the data array is full")
    return end, nulls

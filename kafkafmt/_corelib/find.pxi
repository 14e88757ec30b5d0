# Find the keys or values in a buffer that contain a byte string or are equal to it.

from libc.string cimport memcmp

cdef extern from "_corelib/find_span.h":
    bint kf_contains(const uint8_t* p, Py_ssize_t n, const uint8_t* needle, Py_ssize_t k) nogil


def find_spans(buffer, positions, lengths, count, needle, whole, found):
    cdef Source source = Source(buffer), searched = Source(needle)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = natural(count), i, k = searched.size, size = source.size, matches = 0, bad = -1
    cdef const int64_t* position = <const int64_t*>required(arrays.take(positions, n, 8, False))
    cdef const int32_t* length = <const int32_t*>required(arrays.take(lengths, n, 4, False))
    cdef int64_t* rows = <int64_t*>required(arrays.take(found, n, 8))
    cdef bint equal = whole, match
    with nogil:
        for i in range(n):
            if length[i] < 0:
                continue
            if KF_UNLIKELY(position[i] < 0 or position[i] > size or length[i] > size - position[i]):
                bad = i
                break
            if k == 0:
                match = not equal or length[i] == 0
            elif equal:
                match = length[i] == k and memcmp(source.data + position[i], searched.data, k) == 0
            else:
                match = kf_contains(source.data + position[i], length[i], searched.data, k)
            rows[matches] = i
            matches += match
    if bad >= 0:
        raise ValueError(f"span {bad} is outside the buffer")
    return matches

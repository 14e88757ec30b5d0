# Compute murmur2 hashes with the seed that Kafka's producers use, 0x9747b28c.
#
# The data is read in words of 4 bytes, least significant byte first. Words can have any alignment.


cdef inline uint32_t murmur(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    cdef uint32_t h = 0x9747b28cu ^ <uint32_t>n, k
    while n >= 4:
        k = p[0] | <uint32_t>p[1] << 8 | <uint32_t>p[2] << 16 | <uint32_t>p[3] << 24
        k *= 0x5bd1e995u
        k ^= k >> 24
        k *= 0x5bd1e995u
        h = h * 0x5bd1e995u ^ k
        p += 4
        n -= 4
    if n > 2:
        h ^= <uint32_t>p[2] << 16
    if n > 1:
        h ^= <uint32_t>p[1] << 8
    if n > 0:
        h ^= p[0]
        h *= 0x5bd1e995u
    h ^= h >> 13
    h *= 0x5bd1e995u
    return h ^ h >> 15


def murmur2(buffer):
    cdef Source source = Source(buffer)
    return <int32_t>murmur(source.data, source.size)


def murmur2_spans(buffer, positions, lengths, count, hashes):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = natural(count), i, bad = -1, size = source.size
    cdef const int64_t* position = <const int64_t*>required(arrays.take(positions, n, 8, False))
    cdef const int32_t* length = <const int32_t*>required(arrays.take(lengths, n, 4, False))
    cdef int32_t* out = <int32_t*>required(arrays.take(hashes, n, 4))
    with nogil:
        for i in range(n):
            if length[i] < 0:
                out[i] = 0
            elif position[i] < 0 or position[i] > size or length[i] > size - position[i]:
                bad = i
                break
            else:
                out[i] = <int32_t>murmur(source.data + position[i], length[i])
    if bad >= 0:
        raise ValueError(f"span {bad} is outside the buffer")

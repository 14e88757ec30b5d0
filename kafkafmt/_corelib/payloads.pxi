# Decompress many small payloads of different codecs in one call.

cdef extern from "_corelib/inflate.h":
    void inflate_init() nogil
    int kf_gunzip(const uint8_t* p, size_t size, uint8_t* out, size_t room, size_t* filled) noexcept nogil
    enum: KF_GZIP_NO_ROOM

inflate_init()
if KF_GZIP_NO_ROOM != len(GZIP_FAULTS):
    raise ImportError(f"the native core has {KF_GZIP_NO_ROOM} faults of gzip data, but constants.py has {len(GZIP_FAULTS)}; "
                      "rebuild the native core")


cdef enum:
    DOES_NOT_FIT = -1


cdef inline int decompress_payload(int64_t codec, const uint8_t* p, int32_t length, uint8_t* out, int64_t room, int64_t* size) noexcept nogil:
    """Decompress one payload into `out`, which has space for `room` bytes. Set `size` to the size of the result.

    The size is -1 for a fault and for another codec. Return an index of GZIP_FAULTS or SNAPPY_FAULTS, 0 if there is no
    fault, or DOES_NOT_FIT. In the last case, `size` is not set.
    """
    cdef size_t filled = 0
    cdef int64_t produced = 0
    cdef int fault = 0
    if codec == CODEC_NONE:
        if length > room:
            return DOES_NOT_FIT
        memcpy(out, p, <size_t>length)
        produced = length
    elif codec == CODEC_GZIP:
        fault = kf_gunzip(p, <size_t>length, out, <size_t>room, &filled)
        if fault == KF_GZIP_NO_ROOM:
            return DOES_NOT_FIT
        produced = <int64_t>filled
    elif codec == CODEC_SNAPPY:
        fault = read_snappy_data(p, p + length, room, &produced, out)
        if fault == FAULT_SNAPPY_LIMIT:
            return DOES_NOT_FIT
    else:
        produced = -1
    size[0] = -1 if fault else produced
    return fault


def decompress_payloads(buffer, positions, lengths, codecs, count, limit, stop_at_fault, out, sizes, faults):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = natural(count), i, done = 0, bad = -1
    cdef const int64_t* position = <const int64_t*>required(arrays.take(positions, n, 8, False))
    cdef const int32_t* length = <const int32_t*>required(arrays.take(lengths, n, 4, False))
    cdef const int64_t* codec = <const int64_t*>required(arrays.take(codecs, n, 8, False))
    cdef int64_t* size = <int64_t*>required(arrays.take(sizes, n, 8))
    cdef int8_t* fault = <int8_t*>required(arrays.take(faults, n, 1))
    cdef uint8_t* data = <uint8_t*>required(arrays.take(out, 0, 1))
    cdef int64_t most = natural(limit), room = arrays.size(), filled = 0
    cdef bint stop = stop_at_fault
    cdef int code
    with nogil:
        for i in range(n):
            if KF_UNLIKELY(not is_inside(source.size, position[i], length[i])):
                bad = i
                break
            code = decompress_payload(codec[i], source.data + position[i], length[i], data + filled, min(most, room - filled), &size[i])
            if code == DOES_NOT_FIT:
                break
            fault[i] = <int8_t>code
            if size[i] > 0:
                filled += size[i]
            done += 1
            if code and stop:
                break
    if bad >= 0:
        raise ValueError(f"span {bad} is outside the buffer")
    return done, filled

# Decompress snappy data, and find snappy data that cannot be decompressed.

cdef extern from *:
    """
    static const uint8_t KF_XERIAL_MAGIC[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
    """
    const uint8_t* XERIAL_MAGIC "KF_XERIAL_MAGIC"

cdef extern from "_corelib/snappy_fast.h":
    void kf_snappy_fast(const uint8_t** p, const uint8_t* end, uint8_t* out, int64_t* produced, int64_t room) nogil

cdef enum:
    XERIAL_MAGIC_SIZE = 8


cdef inline int read_snappy_block(const uint8_t* p, const uint8_t* end, int64_t limit, int64_t* size, uint8_t* out) noexcept nogil:
    """Decompress one raw snappy block into `out`. Set `size` to the decompressed size that the block states.

    `out` has space for `limit` bytes. If `out` is NULL, only check the block. Return an index of SNAPPY_FAULTS, or 0 if
    the block is valid.
    """
    cdef const uint8_t* start = p
    cdef const uint8_t* copied
    cdef int64_t stated = 0, produced = 0, n, offset, k
    cdef int shift, extra, i
    cdef uint8_t tag
    tag = 0x80
    for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
        if p == end or tag < 0x80:
            break
        tag = p[0]
        stated |= <int64_t>(tag & 0x7F) << shift
        p += 1
    if tag >= 0x80:
        return FAULT_SNAPPY_LENGTH
    size[0] = stated
    if stated > limit:
        return FAULT_SNAPPY_LIMIT
    if stated > SNAPPY_MAX_RATIO * (end - start):
        return FAULT_SNAPPY_SIZE
    while p < end:
        if out != NULL:
            kf_snappy_fast(&p, end, out, &produced, stated)
            if p == end:
                break
        tag = p[0]
        p += 1
        n = (tag >> 2) + 1
        if tag & 3 == 0:                    # a literal: bytes of the output
            if n > 60:                      # 1 to 4 bytes contain its length
                extra = <int>n - 60
                if extra > end - p:
                    return FAULT_SNAPPY_ELEMENT
                n = 1
                for i in range(extra):
                    n += <int64_t>p[i] << (8 * i)
                p += extra
            if n > end - p or n > stated - produced:
                return FAULT_SNAPPY_ELEMENT
            if out != NULL:
                memcpy(out + produced, p, <size_t>n)
            p += n
        else:                               # a copy of earlier output: 1, 2 or 4 bytes contain its offset
            extra = 4 if tag & 3 == 3 else tag & 3
            if extra > end - p:
                return FAULT_SNAPPY_ELEMENT
            offset = 0
            for i in range(extra):
                offset |= <int64_t>p[i] << (8 * i)
            if extra == 1:
                n = 4 + (tag >> 2 & 7)
                offset |= (tag >> 5) << 8
            if offset == 0 or offset > produced or n > stated - produced:
                return FAULT_SNAPPY_ELEMENT
            p += extra
            if out != NULL:
                copied = out + produced - offset
                if offset >= n:
                    memcpy(out + produced, copied, <size_t>n)
                else:                       # the copy overlaps the output
                    for k in range(n):
                        out[produced + k] = copied[k]
        produced += n
    return 0 if produced == stated else FAULT_SNAPPY_ELEMENT


cdef inline int read_snappy_data(const uint8_t* p, const uint8_t* end, int64_t limit, int64_t* total, uint8_t* out) noexcept nogil:
    """Decompress one raw snappy block, or the blocks of xerial streams, into `out`. Set `total` to the total size.

    `out` has space for `limit` bytes. If `out` is NULL, only check the data. Return an index of SNAPPY_FAULTS, or 0 if
    all blocks are valid.
    """
    cdef int64_t size = 0
    cdef int32_t block
    cdef int code
    total[0] = 0
    if end - p < XERIAL_MAGIC_SIZE or memcmp(p, XERIAL_MAGIC, XERIAL_MAGIC_SIZE) != 0:
        return read_snappy_block(p, end, limit, total, out)
    if end - p < XERIAL_HEADER_SIZE:
        return FAULT_XERIAL_HEADER
    p += XERIAL_HEADER_SIZE
    while end - p >= 4:
        if end - p >= XERIAL_MAGIC_SIZE and memcmp(p, XERIAL_MAGIC, XERIAL_MAGIC_SIZE) == 0:
            if end - p < XERIAL_HEADER_SIZE:
                break
            p += XERIAL_HEADER_SIZE
            continue
        block = int32_at(p)
        p += 4
        if block < 0 or block > end - p:
            return FAULT_XERIAL_BLOCK
        code = read_snappy_block(p, p + block, limit - total[0], &size, out + total[0] if out != NULL else NULL)
        if code:
            return code
        p += block
        total[0] += size
    return 0


cdef inline bint is_inside(int64_t size, int64_t position, int32_t length) noexcept nogil:
    """Return whether the `length` bytes from `position` on are inside a buffer of `size` bytes."""
    return position >= 0 and length >= 0 and position <= size and length <= size - position


def check_snappy(buffer, positions, lengths, count, limit, faults):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = natural(count), i, bad = -1
    cdef const int64_t* position = <const int64_t*>required(arrays.take(positions, n, 8, False))
    cdef const int32_t* length = <const int32_t*>required(arrays.take(lengths, n, 4, False))
    cdef int8_t* fault = <int8_t*>required(arrays.take(faults, n, 1))
    cdef int64_t most = natural(limit), size
    cdef const uint8_t* p
    with nogil:
        for i in range(n):
            if KF_UNLIKELY(not is_inside(source.size, position[i], length[i])):
                bad = i
                break
            p = source.data + position[i]
            fault[i] = <int8_t>read_snappy_data(p, p + length[i], most, &size, NULL)
    if bad >= 0:
        raise ValueError(f"span {bad} is outside the buffer")

# Decompress the payloads of many batches without the GIL, with functions of the installed compression packages.
#
# codecs/functions.py finds the addresses. snappy needs none (snappy.pxi).

from libc.stdlib cimport calloc

cdef extern from "_corelib/codec_calls.h":
    ctypedef struct kf_lz4_options:
        unsigned stable_dst
        unsigned skip_checksums
        unsigned reserved[2]
    ctypedef struct kf_codec_functions:
        size_t (*lz4_create)(void**, unsigned) noexcept nogil
        size_t (*lz4_free)(void*) noexcept nogil
        void (*lz4_reset)(void*) noexcept nogil
        size_t (*lz4_decompress)(void*, void*, size_t*, const void*, size_t*, const kf_lz4_options*) noexcept nogil
        void* (*zstd_create)() noexcept nogil
        size_t (*zstd_free)(void*) noexcept nogil
        size_t (*zstd_decompress)(void*, void*, size_t, const void*, size_t) noexcept nogil
        unsigned long long (*zstd_size)(const void*, size_t) noexcept nogil
        int (*zlib_init)(void*, int, const char*, int) noexcept nogil
        int (*zlib_reset)(void*) noexcept nogil
        int (*zlib_inflate)(void*, int) noexcept nogil
        int (*zlib_end)(void*) noexcept nogil
        void (*isal_init)(void*) noexcept nogil
        int (*isal_inflate)(void*) noexcept nogil
    ctypedef struct kf_zlib_stream:
        const uint8_t* next_in
        unsigned avail_in
        uint8_t* next_out
        unsigned avail_out
    ctypedef struct kf_isal_state:
        uint8_t* next_out
        uint32_t avail_out
        uint32_t total_out
        const uint8_t* next_in
        uint32_t avail_in

cdef enum:
    LZ4F_VERSION = 100
    MAX_ERROR_CODES = 1 << 10       # size_t results of lz4 and zstd from -MAX_ERROR_CODES on are errors
    ZSTD_DST_TOO_SMALL = 70
    ZSTD_CONTENTSIZE_ERROR = -2
    GZIP_WINDOW_BITS = 31
    GZIP_HEADER_SIZE = 10
    GZIP_TRAILER_SIZE = 8
    DEFLATE_MAX_RATIO = 1032
    Z_FINISH = 4
    Z_STREAM_END = 1
    ISAL_STATE_SIZE = 1 << 18       # at least twice the size of inflate_state
    REFUSED = -1                    # the data is left to the caller, who names the error
    NEEDS_ROOM = -2                 # the arena is too small


cdef inline int64_t little_endian32(const uint8_t* p) noexcept nogil:
    return p[0] | p[1] << 8 | p[2] << 16 | <int64_t>p[3] << 24


cdef class PayloadDecoder:
    cdef kf_codec_functions calls
    cdef void* lz4
    cdef void* zstd
    cdef kf_zlib_stream* zlib
    cdef kf_isal_state* isal
    cdef bint busy

    def __cinit__(self, addresses):
        cdef size_t* call = <size_t*>&self.calls
        cdef int i
        for i, name in enumerate(CODEC_FUNCTIONS):
            call[i] = addresses.get(name, 0)

    def __dealloc__(self):
        if self.lz4 != NULL:
            self.calls.lz4_free(self.lz4)
        if self.zstd != NULL:
            self.calls.zstd_free(self.zstd)
        if self.zlib != NULL:
            self.calls.zlib_end(self.zlib)
            free(self.zlib)
        free(self.isal)

    def append(self, buffer, table, moved, begin, arena, filled, enough, limit):
        cdef Source source = Source(buffer)
        cdef Arrays arrays = Arrays()
        cdef Py_ssize_t n = len(table), row = natural(begin)
        cdef const Batch* rows = <const Batch*>required(arrays.take(table, n, sizeof(Batch), False))
        cdef Batch* placed = <Batch*>required(arrays.take(moved, n, sizeof(Batch)))
        cdef uint8_t* out = <uint8_t*>required(arrays.take(arena, 0, 1))
        cdef int64_t room = arrays.size(), used = natural(filled), stop = natural(enough), most = min(natural(limit), MAX_INT32), found = 0, needed = 0
        if used > room:
            raise ValueError(f"{filled} bytes are filled of an arena of {room} bytes")
        with cython.critical_section(self):
            if self.busy:
                raise RuntimeError("another thread is using this PayloadDecoder")
            self.busy = True
        with nogil:
            while row < n and used < stop:
                if not is_inside(source.size, rows[row].payload_position, rows[row].payload_size):
                    break
                found = append_payload(self, &rows[row], source.data + rows[row].payload_position, out + used, room - used, most, &needed)
                if found < 0:
                    break
                placed[row] = rows[row]
                placed[row].payload_position, placed[row].payload_size = used, <int32_t>found
                used += found
                row += 1
        with cython.critical_section(self):
            self.busy = False
        return row, used, used + needed if found == NEEDS_ROOM else 0


cdef int64_t append_payload(PayloadDecoder self, const Batch* batch, const uint8_t* p, uint8_t* out, int64_t room, int64_t limit,
                            int64_t* needed) noexcept nogil:
    """Decompress a payload to `out`. Return its size, REFUSED, or NEEDS_ROOM and a possible size in `needed`."""
    cdef int codec = batch.attributes & CODEC_MASK
    cdef int64_t size = batch.payload_size, found = 0
    needed[0] = 0
    if codec == CODEC_NONE:
        needed[0] = size
        if size > room:
            return NEEDS_ROOM
        memcpy(out, p, <size_t>size)
        return size
    if size == 0 or batch.magic < MAGIC_V2 and (codec > CODEC_LZ4 or (codec == CODEC_LZ4 and batch.magic == MAGIC_V0)):
        return REFUSED
    if codec == CODEC_SNAPPY:
        if read_snappy_data(p, p + size, min(room, limit), &found, out) == 0:
            return found
        if room >= limit or read_snappy_data(p, p + size, limit, &found, NULL) != 0:
            return REFUSED
        needed[0] = found
        return NEEDS_ROOM
    if codec == CODEC_LZ4 and self.calls.lz4_decompress != NULL:
        found = lz4_payload(self, p, size, out, min(room, limit))
    elif codec == CODEC_ZSTD and self.calls.zstd_decompress != NULL:
        found = zstd_payload(self, p, size, out, min(room, limit), limit, needed)
    elif codec == CODEC_GZIP:
        found = gzip_payload(self, p, size, out, min(room, limit), limit, needed)
    else:
        return REFUSED
    if found == NEEDS_ROOM and room >= limit:
        return REFUSED
    if found == NEEDS_ROOM and needed[0] <= room:   # the data does not state its size
        needed[0] = min(2 * room + 4 * size, limit)
    return found


cdef int64_t lz4_payload(PayloadDecoder self, const uint8_t* p, int64_t size, uint8_t* out, int64_t room) noexcept nogil:
    cdef size_t produced = room, consumed = size, result
    cdef kf_lz4_options options = kf_lz4_options(1, 0, [0, 0])
    if self.lz4 == NULL and self.calls.lz4_create(&self.lz4, LZ4F_VERSION) != 0:
        self.lz4 = NULL
        return REFUSED
    result = self.calls.lz4_decompress(self.lz4, out, &produced, p, &consumed, &options)
    if result == 0:
        return produced
    self.calls.lz4_reset(self.lz4)
    if result > <size_t>0 - MAX_ERROR_CODES or <int64_t>produced < room:
        return REFUSED
    return NEEDS_ROOM


cdef int64_t zstd_payload(PayloadDecoder self, const uint8_t* p, int64_t size, uint8_t* out, int64_t room, int64_t limit,
                          int64_t* needed) noexcept nogil:
    cdef unsigned long long stated = self.calls.zstd_size(p, size)
    cdef size_t result
    if self.zstd == NULL:
        self.zstd = self.calls.zstd_create()
        if self.zstd == NULL:
            return REFUSED
    if stated == <unsigned long long>ZSTD_CONTENTSIZE_ERROR:
        return REFUSED
    if stated <= INT64_MAX:     # otherwise, the frame does not state its size
        if <int64_t>stated > limit:
            return REFUSED
        needed[0] = stated
        if <int64_t>stated > room:
            return NEEDS_ROOM
    result = self.calls.zstd_decompress(self.zstd, out, room, p, size)
    if result == <size_t>0 - ZSTD_DST_TOO_SMALL:
        return NEEDS_ROOM
    return REFUSED if result > <size_t>0 - MAX_ERROR_CODES else <int64_t>result


cdef int64_t gzip_payload(PayloadDecoder self, const uint8_t* p, int64_t size, uint8_t* out, int64_t room, int64_t limit,
                          int64_t* needed) noexcept nogil:
    """Decompress one gzip member without optional header fields, as Kafka's clients write it."""
    cdef int64_t stated
    if size < GZIP_HEADER_SIZE + GZIP_TRAILER_SIZE or size > MAX_INT32 or p[0] != 0x1F or p[1] != 0x8B or p[2] != 8 or p[3] != 0:
        return REFUSED
    stated = little_endian32(p + size - 4)
    if stated > limit or stated > DEFLATE_MAX_RATIO * size:
        return REFUSED
    needed[0] = stated
    if stated > room:
        return NEEDS_ROOM
    if self.calls.isal_inflate != NULL:
        if self.isal == NULL:
            self.isal = <kf_isal_state*>calloc(1, ISAL_STATE_SIZE)
            if self.isal == NULL:
                return REFUSED
        self.calls.isal_init(self.isal)
        self.isal.next_in, self.isal.avail_in = p + GZIP_HEADER_SIZE, <uint32_t>(size - GZIP_HEADER_SIZE)
        self.isal.next_out, self.isal.avail_out = out, <uint32_t>stated
        if self.calls.isal_inflate(self.isal) != 0 or self.isal.avail_in != GZIP_TRAILER_SIZE or self.isal.avail_out != 0:
            return REFUSED
        if crc32_update(0, out, stated) != little_endian32(p + size - GZIP_TRAILER_SIZE):
            return REFUSED
        return stated
    if self.calls.zlib_inflate == NULL:
        return REFUSED
    if self.zlib == NULL:
        self.zlib = <kf_zlib_stream*>calloc(1, sizeof(kf_zlib_stream))
        if self.zlib == NULL:
            return REFUSED
        if self.calls.zlib_init(self.zlib, GZIP_WINDOW_BITS, "1.2.11", sizeof(kf_zlib_stream)) != 0:
            free(self.zlib)
            self.zlib = NULL
            return REFUSED
    self.calls.zlib_reset(self.zlib)
    self.zlib.next_in, self.zlib.avail_in = p, <unsigned>size
    self.zlib.next_out, self.zlib.avail_out = out, <unsigned>stated
    if self.calls.zlib_inflate(self.zlib, Z_FINISH) != Z_STREAM_END or self.zlib.avail_in != 0 or self.zlib.avail_out != 0:
        return REFUSED
    return stated

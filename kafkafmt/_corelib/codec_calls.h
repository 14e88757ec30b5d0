/* The C functions of lz4, zstd, zlib and ISA-L that the core calls by address. Only functions and structs whose
   binary interface these libraries keep stable are declared. */

#include <stddef.h>
#include <stdint.h>

typedef struct {            /* LZ4F_decompressOptions_t */
    unsigned stable_dst;    /* earlier output stays where it was written */
    unsigned skip_checksums;
    unsigned reserved[2];
} kf_lz4_options;

typedef struct {
    size_t (*lz4_create)(void** context, unsigned version);
    size_t (*lz4_free)(void* context);
    void (*lz4_reset)(void* context);
    size_t (*lz4_decompress)(void* context, void* out, size_t* room, const void* in, size_t* size, const kf_lz4_options* options);
    void* (*zstd_create)(void);
    size_t (*zstd_free)(void* context);
    size_t (*zstd_decompress)(void* context, void* out, size_t room, const void* in, size_t size);
    unsigned long long (*zstd_size)(const void* in, size_t size);
    int (*zlib_init)(void* stream, int window_bits, const char* version, int stream_size);
    int (*zlib_reset)(void* stream);
    int (*zlib_inflate)(void* stream, int flush);
    int (*zlib_end)(void* stream);
    void (*isal_init)(void* state);
    int (*isal_inflate)(void* state);
} kf_codec_functions;

typedef struct {            /* z_stream; inflateInit2_ refuses another size */
    const uint8_t* next_in;
    unsigned avail_in;
    unsigned long total_in;
    uint8_t* next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char* message;
    void* state;
    void* zalloc;
    void* zfree;
    void* opaque;
    int data_type;
    unsigned long adler;
    unsigned long reserved;
} kf_zlib_stream;

typedef struct {            /* the first fields of ISA-L's inflate_state */
    uint8_t* next_out;
    uint32_t avail_out;
    uint32_t total_out;
    const uint8_t* next_in;
    uint64_t read_in;
    uint32_t avail_in;
    int32_t read_in_length;
} kf_isal_state;

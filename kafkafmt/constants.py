"""Define constants of Kafka's formats, such as positions of fields, attribute bits, and limits.

Layout of a record batch (magic 2; all integers big-endian; Kafka: DefaultRecordBatch):

      0  base offset            int64     not covered by the CRC
      8  length                 int32     bytes after this field; not covered by the CRC
     12  partition leader epoch int32     not covered by the CRC
     16  magic                  int8      not covered by the CRC
     17  crc                    uint32    CRC-32C of everything from the attributes to the end
     21  attributes             int16
     23  last offset delta      int32
     27  base timestamp         int64     the delete horizon, if attribute bit 6 is set
     35  max timestamp          int64
     43  producer id            int64     -1: none
     51  producer epoch         int16
     53  base sequence          int32
     57  record count           int32
     61  records, compressed as one block if the attributes name a codec

Layout of a record: varint length, int8 attributes (unused), varlong timestamp delta, varint offset
delta, varint key length (negative: null), key, varint value length (negative: null), value, varint
header count, headers. Layout of a header: varint key length, key, varint value length (negative:
null), value.

Layout of a message (magic 0 and 1; Kafka: LegacyRecord):

      0  offset                  int64     not covered by the CRC; in a wrapper message, the offset
                                           of the last inner message
      8  size                    int32     bytes after this field; not covered by the CRC
     12  crc                     uint32    CRC-32 of everything from the magic to the end
     16  magic                   int8
     17  attributes              int8      bits 0-2 codec; bit 3, from magic 1 on, LogAppendTime
     18  timestamp               int64     magic 1 only
     18 or 26  key length        int32     negative: null
     then key, value length (int32, negative: null), value

The attributes of a wrapper message name a codec. The value of a wrapper message is a compressed
message set, which consists of inner messages back to back. In magic 1, the offsets of inner
messages are relative to the first offset of the set.
"""

from __future__ import annotations

from typing import Final, Literal

OFFSET_AT = 0
LENGTH_AT = 8
ENTRY_OVERHEAD = 12
"""Size of the fields offset and length, which the value of the length field does not include."""
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
MAGIC_END = 17
CRC_AT = 17
CRC_START = 21
"""Position of the first byte that the CRC-32C of a record batch covers."""
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
COUNT_AT = 57
BATCH_HEADER_SIZE = 61
MIN_BATCH_LENGTH = BATCH_HEADER_SIZE - ENTRY_OVERHEAD
MAX_RELATIVE_OFFSET = 2**31 - 1
"""Largest difference of an offset and its segment's base offset, which an offset index stores as an int32."""
MAX_BATCH_LENGTH = 2**31 - 1 - ENTRY_OVERHEAD
"""Largest value of the length field. As in Kafka, the total size must fit into an int32."""
MIN_LEGACY_LENGTH = 14
"""Smallest value of the length field: a message of magic 0 with a null key and a null value."""
MIN_LENGTHS = (MIN_LEGACY_LENGTH, 22, MIN_BATCH_LENGTH)
"""Smallest value of the length field of a message or batch, by magic."""
LEGACY_CRC_AT = 12
LEGACY_ATTRIBUTES_AT = 17
LEGACY_ATTRIBUTES = 0x0F
"""Attribute bits that Kafka uses in formats 0 and 1. The others have a meaning only in format 2."""
LEGACY_TIMESTAMP_AT = 18
LEGACY_KEY_AT = (18, 26)
"""Position of the key length in a message, by magic."""
MIN_RECORD_SIZE = 7

MAGIC_V0, MAGIC_V1, MAGIC_V2 = 0, 1, 2

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD = range(5)
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODEC_NAMES: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
# Value of the parameter `wbits` with which zlib reads and writes gzip data.
GZIP_WBITS = 31

TIMESTAMP_TYPE_NONE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1
NO_TIMESTAMP = -1
MICROS_BEYOND, MICROS_NONE = -(2**63), -(2**63) + 1
"""Timestamps in microseconds that do not fit into int64, or that a record does not have."""
MAX_MILLIS = (2**63 - 1) // 1000
"""Largest timestamp in milliseconds that fits into int64 when converted to microseconds."""
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 2**31 - 1
"""Largest sequence number of a producer. The next sequence number is 0."""

CONTROL_ABORT, CONTROL_COMMIT = 0, 1
Isolation = Literal["read_uncommitted", "read_committed"]
READ_UNCOMMITTED: Final = "read_uncommitted"
READ_COMMITTED: Final = "read_committed"
ISOLATION_LEVELS: tuple[Isolation, ...] = (READ_UNCOMMITTED, READ_COMMITTED)
"""Values of Kafka's consumer setting isolation.level. The first value is the default."""

OnError = Literal["fail", "skip"]
ON_ERROR: tuple[OnError, ...] = ("fail", "skip")
"""Values of the argument `on_error` of functions that read logs. The first value is the default."""

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10

MIN_OFFSET = -(2**63)
MAX_OFFSET = 2**63 - 1
NO_END = MAX_OFFSET + 1
"""End (exclusive) of an unlimited range of offsets. MAX_OFFSET itself can be an offset."""

DEFAULT_MAX_BATCH_BYTES = 128 * 1024 * 1024
"""Default limit for the size of one batch, in bytes after decompression."""

# Error messages for damaged records in a batch. The decoding functions return an index into this tuple.
FAULTS = (
    "",
    "record count does not fit the bytes of the batch",
    "record length does not end within the batch",
    "record length runs past the end of the batch",
    "timestamp delta does not end within its record",
    "offset delta does not end within its record",
    "key runs past the end of its record",
    "value runs past the end of its record",
    "header count does not fit the bytes of its record",
    "header key runs past the end of its record",
    "header value runs past the end of its record",
    "bytes are left over at the end of a record",
    "bytes are left over after the last record",
    "inner message size does not fit its message set",
    "inner message has a magic other than 0 and 1",
    "inner message is itself compressed",
    "key or value runs past the end of its message",
    "CRC-32 of an inner message does not match its crc field",
    "message set of a wrapper is empty",
    "inner offsets are above the wrapper's offset",
)
(
    FAULT_COUNT,
    FAULT_LENGTH,
    FAULT_RECORD_END,
    FAULT_TIMESTAMP,
    FAULT_OFFSET,
    FAULT_KEY,
    FAULT_VALUE,
    FAULT_HEADER_COUNT,
    FAULT_HEADER_KEY,
    FAULT_HEADER_VALUE,
    FAULT_RECORD_REST,
    FAULT_BATCH_REST,
    FAULT_MESSAGE_END,
    FAULT_MESSAGE_MAGIC,
    FAULT_NESTED,
    FAULT_MESSAGE_FIELDS,
    FAULT_MESSAGE_CRC,
    FAULT_EMPTY_SET,
    FAULT_INNER_OFFSET,
) = range(1, len(FAULTS))

XERIAL_MAGIC = b"\x82SNAPPY\x00"
"""First bytes of the header of a stream in the format of xerial's snappy-java."""
XERIAL_HEADER_SIZE = 16
SNAPPY_MAX_RATIO = 64
"""Largest ratio of a snappy block's output to its size: a copy has at least 2 bytes, and produces at most 64."""
CODEC_FUNCTIONS = {
    "lz4_create": "LZ4F_createDecompressionContext",
    "lz4_free": "LZ4F_freeDecompressionContext",
    "lz4_reset": "LZ4F_resetDecompressionContext",
    "lz4_decompress": "LZ4F_decompress",
    "zstd_create": "ZSTD_createDCtx",
    "zstd_free": "ZSTD_freeDCtx",
    "zstd_decompress": "ZSTD_decompressDCtx",
    "zstd_size": "ZSTD_getFrameContentSize",
    "zlib_init": "inflateInit2_",
    "zlib_reset": "inflateReset",
    "zlib_inflate": "inflate",
    "zlib_end": "inflateEnd",
    "isal_init": "isal_inflate_init",
    "isal_inflate": "isal_inflate_stateless",
}
"""Functions of compression libraries that the core can call, with their C names, in the order of its struct."""

# Error messages for snappy data that cannot be decompressed. `check_snappy` returns indexes of this tuple. The message
# for FAULT_SNAPPY_LIMIT contains the limit, and is the same for all codecs.
SNAPPY_FAULTS = (
    "",
    "snappy data ends inside xerial's header",
    "a xerial block does not fit into the snappy data",
    "snappy block ends inside its length",
    "",
    "a snappy block states a size that its bytes cannot produce",
    "a snappy block contains an invalid element, or does not have its stated size",
)
(
    FAULT_XERIAL_HEADER,
    FAULT_XERIAL_BLOCK,
    FAULT_SNAPPY_LENGTH,
    FAULT_SNAPPY_LIMIT,
    FAULT_SNAPPY_SIZE,
    FAULT_SNAPPY_ELEMENT,
) = range(1, len(SNAPPY_FAULTS))

MANY_HEADERS = 1 << 17
"""A record may have this number of headers even if their memory exceeds `max_batch_bytes`."""
HEADER_MEMORY = 128
"""Estimated bytes for one header: a row in the columns, a tuple, and an item in the record's tuple."""
TOO_MANY_HEADERS = "a record has {count} headers, more than the limit of {limit}"

# Names and error messages of the rules for records that are added to a batch. The index identifies the rule.
BUILD_FAULTS = (
    ("", ""),
    ("", ""),
    (
        "offset_order",
        "offset {offset} is rejected; it must be at least the next offset, {next}, and at most 2**63 - 2",
    ),
    ("offset_delta", "offset {offset} is more than 2**31 - 1 above the batch's base offset"),
    ("timestamp", "timestamp {timestamp} is negative and not -1"),
    ("timestamp_in_format", "format {magic} has no timestamps, so {timestamp} would be lost"),
    ("headers_in_format", "format {magic} has no headers"),
    ("record_size", "the record is larger than a batch can be"),
    ("", ""),
    ("header_key", "a header key is null"),
)
(
    BUILD_OFFSET,
    BUILD_DELTA,
    BUILD_TIMESTAMP,
    BUILD_NO_TIMESTAMP,
    BUILD_NO_HEADERS,
    BUILD_TOO_LARGE,
    _NO_BUILD_FAULT,
    BUILD_HEADER_KEY,
) = range(2, len(BUILD_FAULTS))

CHANGED_MEANWHILE = "another thread changed the batch while its records were compressed"
MIXED_OFFSETS = (
    "some records are Record objects, which keep their offsets, and others have no offset; "
    "give an offset to all records, as (key, value, timestamp, headers, offset), or to none"
)

WIRE_TYPES = (
    "bool",
    "int8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "float64",
    "uuid",
    "string",
    "bytes",
    "records",
    "struct",
)
"""Types of fields and of array elements in messages of Kafka's wire protocol."""
(
    WIRE_BOOL,
    WIRE_INT8,
    WIRE_INT16,
    WIRE_UINT16,
    WIRE_INT32,
    WIRE_UINT32,
    WIRE_INT64,
    WIRE_FLOAT64,
    WIRE_UUID,
    WIRE_STRING,
    WIRE_BYTES,
    WIRE_RECORDS,
    WIRE_STRUCT,
) = range(len(WIRE_TYPES))

RECORD_FIELDS = (
    "offset",
    "timestamp",
    "timestampType",
    "time",
    "key",
    "value",
    "headers",
    "keyLength",
    "valueLength",
    "valueSize",
)
"""Fields of a record that `format_records` can write."""
(
    FIELD_OFFSET,
    FIELD_TIMESTAMP,
    FIELD_TIMESTAMP_TYPE,
    FIELD_TIME,
    FIELD_KEY,
    FIELD_VALUE,
    FIELD_HEADERS,
    FIELD_KEY_LENGTH,
    FIELD_VALUE_LENGTH,
    FIELD_VALUE_SIZE,
) = range(len(RECORD_FIELDS))
TEXT_STYLES = ("json", "text", "csv", "escaped_csv", "tsv", "raw", "escaped_raw")
"""Styles in which `format_records` can write fields."""
STYLE_JSON, STYLE_TEXT, STYLE_CSV, STYLE_ESCAPED_CSV, STYLE_TSV, STYLE_RAW, STYLE_ESCAPED_RAW = range(len(TEXT_STYLES))
BYTE_ENCODINGS = ("utf8", "base64", "hex")
"""Encodings in which `format_records` can write keys, values and header values."""
ENCODING_UTF8, ENCODING_BASE64, ENCODING_HEX = range(len(BYTE_ENCODINGS))
MAX_OBJECTS = 1 << 23
"""Largest number of objects in a protocol message. Each array, each unknown tagged field, and each
array element that is not a number is an object. An object needs about 100 bytes of memory.
"""
TOO_MANY_OBJECTS = "{name}: the message contains more than {limit} array elements and unknown tagged fields"
MAX_STRING = 32767
"""Largest size of a string in a protocol message, in bytes. It also applies if the size is encoded as a varint."""

VALUE_FORMATS = ("avro", "protobuf", "json")
"""Formats of the values that programs decode (`core.ValueProgram`). Their numbers are the indexes."""
VALUE_OPS = (
    "end", "boolean", "int", "long", "float", "double", "text", "bytes", "fixed_bytes", "decimal",
    "fixed_decimal", "enum", "array", "loop", "record", "null", "union", "jump", "int_to_long",
    "int_to_float", "int_to_double", "long_to_float", "long_to_double", "float_to_double", "time_millis",
    "time_micros", "uuid", "call", "return", "capture", "captured", "default", "defaulted",
    "rest_text", "big_endian",
)  # fmt: skip
"""Instructions of the programs that decode Avro values. Their codes are the indexes."""
JSON_NODES = ("null", "boolean", "long", "double", "string", "json", "array", "map", "record")
"""Kinds of the nodes of programs that decode JSON values. Their numbers are the indexes."""
PROTOBUF_OPS = (
    "skip", "varint32", "varint64", "zigzag32", "zigzag64", "bool", "fixed32", "fixed64", "enum", "text", "bytes",
    "wider", "message", "timestamp", "duration", "path", "seconds", "nanos", "capture",
)  # fmt: skip
"""What programs do with a Protobuf field. Their codes are the indexes."""
PROTOBUF_NUMBERS = (
    "int32", "uint32", "sint32", "fixed32", "sfixed32", "int64", "uint64", "sint64", "fixed64", "sfixed64", "float",
)  # fmt: skip
"""Types of Protobuf that are widened. Their codes are the indexes."""
PROTOBUF_ABSENT = ("null", "zero", "enum", "list", "message", "text")
"""What the column of a Protobuf field gets if the field is absent. The codes are the indexes."""
PROTOBUF_REPEATED, PROTOBUF_PACKS, PROTOBUF_WHOLE, PROTOBUF_INLINE, PROTOBUF_ENTRY, PROTOBUF_PLAIN = 1, 2, 4, 8, 16, 32
"""Flags of a Protobuf field: it is repeated; its items can be packed; it is stored as one JSON text; its message has
no column; it belongs to the entry of a map; its items have a column, and it is neither in a oneof nor one JSON text.
"""
PROTOBUF_CELLS = 1 << 24
"""Largest number of columns of all messages in a Protobuf value. An empty message needs only two bytes."""
VALUE_FAULTS = (
    "", "truncated", "trailing_bytes", "bad_length", "bad_index", "bad_utf8", "bad_number", "too_deep", "too_large",
    "no_branch", "no_symbol", "bad_json",
)  # fmt: skip
"""Why a value cannot be decoded. The numbers that `core.ColumnBuilder` returns are the indexes."""
VALUE_COLUMNS = ("nulls", "bits", "fixed", "binary", "list", "struct")
"""Kinds of the columns that `core.ColumnBuilder` builds."""

"""The pure core: the readable specification of `_core`, its fallback and its partner in tests and benchmarks."""

from .assign import number_batches, write_offsets
from .batch import find_batch, scan_batches
from .build import RecordBuffer
from .check import look_at_payload, number_buffer, validate_buffer
from .crc import crc32, crc32c, crc32c_way
from .gather import gather, total_length
from .murmur import murmur2, murmur2_spans
from .objects import Record, make_records, make_values
from .records import decode_records, decode_run
from .varint import read_unsigned_varint, read_varint, read_varlong
from .wire import Layout, write_messages

__all__ = [
    "Layout",
    "Record",
    "RecordBuffer",
    "crc32",
    "crc32c",
    "crc32c_way",
    "decode_records",
    "decode_run",
    "find_batch",
    "gather",
    "look_at_payload",
    "make_records",
    "make_values",
    "murmur2",
    "murmur2_spans",
    "number_batches",
    "number_buffer",
    "read_unsigned_varint",
    "read_varint",
    "read_varlong",
    "scan_batches",
    "total_length",
    "validate_buffer",
    "write_messages",
    "write_offsets",
]

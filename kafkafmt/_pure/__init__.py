"""The pure-Python core: the readable specification of the native core, used if the native core is missing.

Tests and benchmarks compare the pure-Python core with the native core.
"""

from .assign import number_batches, write_offsets
from .batch import scan_batches, scan_file
from .build import RecordBuffer
from .chain import heaviest_chain
from .check import look_at_payload, number_buffer, validate_buffer
from .codecs import PayloadDecoder
from .crc import crc32, crc32c, crc32c_way
from .damaged import scan_damaged
from .find import find_batch, find_batches
from .find_spans import find_spans
from .format import format_records
from .gather import gather, total_length
from .index import IndexMatches, index_batches, read_index_entries
from .legacy import message_offsets
from .murmur import murmur2, murmur2_spans
from .objects import Record, RecordIterator, make_records, make_values
from .prefix_crcs import append_crcs, crc32_of_rest, crc32c_of_rest
from .producers import ProducerTable
from .records import decode_plain_batches, decode_records, decode_valid_records
from .runs import combine_batches, describe_damage, offsets_around, summarize_batches, transactional_batches
from .snappy import check_snappy
from .spans import next_spans, spans_outside
from .transactions import end_transactions, keep_committed, read_markers, walk_transactions
from .value_columns import ValueProgram
from .values import ColumnBuilder, choose_programs
from .varint import read_unsigned_varint, read_varint, read_varlong
from .wire import Layout, write_messages

__all__ = [
    "ColumnBuilder",
    "IndexMatches",
    "Layout",
    "PayloadDecoder",
    "ProducerTable",
    "Record",
    "RecordBuffer",
    "RecordIterator",
    "ValueProgram",
    "append_crcs",
    "check_snappy",
    "choose_programs",
    "combine_batches",
    "crc32",
    "crc32_of_rest",
    "crc32c",
    "crc32c_of_rest",
    "crc32c_way",
    "decode_plain_batches",
    "decode_records",
    "decode_valid_records",
    "describe_damage",
    "end_transactions",
    "find_batch",
    "find_batches",
    "find_spans",
    "format_records",
    "gather",
    "heaviest_chain",
    "index_batches",
    "keep_committed",
    "look_at_payload",
    "make_records",
    "make_values",
    "message_offsets",
    "murmur2",
    "murmur2_spans",
    "next_spans",
    "number_batches",
    "number_buffer",
    "offsets_around",
    "read_index_entries",
    "read_markers",
    "read_unsigned_varint",
    "read_varint",
    "read_varlong",
    "scan_batches",
    "scan_damaged",
    "scan_file",
    "spans_outside",
    "summarize_batches",
    "total_length",
    "transactional_batches",
    "validate_buffer",
    "walk_transactions",
    "write_messages",
    "write_offsets",
]

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Define the native core, by including its parts in the order of their dependencies.

The file _core.pyi documents each function and its types. The pure-Python core (_pure/) is the
readable specification.

These rules apply to all parts. The input is any C-contiguous buffer. It is never copied, and only
the functions that assign offsets write to it. Every read is checked against the end of the input.
Bounds are compared by subtraction, which cannot overflow. Loops over batches and records run
without the GIL. Errors about data contain a position.
"""

from .constants import BUILD_FAULTS, CHANGED_MEANWHILE, CODEC_FUNCTIONS, FAULTS, MAX_OBJECTS, MIXED_OFFSETS, TOO_MANY_HEADERS, TOO_MANY_OBJECTS, WIRE_TYPES
from .errors import ChecksumError, StructureError, TooLargeError, TruncatedError, UnsupportedError
from .support.text import quantity, shown
from .support.text import offset_range as offsets_text
from .types import BATCH_DTYPE, BatchSummary, Scan

include "_corelib/buffer.pxi"     # Source, Arrays: the caller's buffers and arrays
include "_corelib/layout.pxi"     # Kafka's numbers as C constants, checked against constants.py
include "_corelib/varint.pxi"     # read_varint, read_varlong, read_unsigned_varint
include "_corelib/crc.pxi"        # crc32c, crc32, crc32c_way
include "_corelib/batch.pxi"      # scan_batches, scan_file: batch headers into a table
include "_corelib/search.pxi"     # find_batch(es): valid batches in arbitrary bytes
include "_corelib/damaged.pxi"    # scan_damaged: valid batches and damaged byte ranges of a buffer
include "_corelib/runs.pxi"       # summarize_batches, combine_batches, offsets_around, …: many batch headers at once
include "_corelib/transactions.pxi" # read_markers, end_transactions, walk_transactions, keep_committed
include "_corelib/index.pxi"      # index_batches, read_index_entries, IndexMatches: the entries of indexes
include "_corelib/chain.pxi"      # heaviest_chain: which batches to trust if their offsets contradict each other
include "_corelib/walk.pxi"       # records of one batch of magic 2 into columns
include "_corelib/records.pxi"    # decode_records, decode_plain_batches, message_offsets (legacy.pxi)
include "_corelib/spans.pxi"      # spans_outside, next_spans: byte ranges of a file to copy and to read together
include "_corelib/gather.pxi"     # gather, total_length: values into Arrow's binary layout
include "_corelib/objects.pxi"    # Record, make_records, make_values, RecordIterator: columns into Python objects
include "_corelib/encode.pxi"     # encoding of records, messages and headers
include "_corelib/fields.pxi"     # Python objects and columns into fields, which are encoded
include "_corelib/plain.pxi"      # plain records, many at a time
include "_corelib/build.pxi"      # RecordBuffer: fields into batches
include "_corelib/append.pxi"     # the appending methods of RecordBuffer
include "_corelib/wire.pxi"       # Layout: structures of the wire protocol
include "_corelib/wire_read.pxi"  # Layout.read
include "_corelib/wire_write.pxi" # write_messages
include "_corelib/producers.pxi"  # ProducerTable: the states of producers
include "_corelib/assign.pxi"     # write_offsets, number_batches: offsets and leader epochs into the batches of a table
include "_corelib/check.pxi"      # number_buffer, validate_buffer: check a buffer and assign offsets in one pass
include "_corelib/murmur.pxi"     # murmur2, murmur2_spans: hashes of keys for partitioning
include "_corelib/find.pxi"       # find_spans: keys or values that contain or equal a byte string
include "_corelib/snappy.pxi"     # check_snappy: which small snappy data cannot be decompressed
include "_corelib/codecs.pxi"     # PayloadDecoder: decompress the payloads of many batches
include "_corelib/values.pxi"     # ValueProgram, ColumnBuilder: values into Arrow columns
include "_corelib/text.pxi"       # numbers, times and escaped text
include "_corelib/format.pxi"     # format_records: columns into lines of text

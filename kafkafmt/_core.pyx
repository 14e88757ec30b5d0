# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The native core. This file is its table of contents; the contract, typed, is _core.pyi, the specification _pure/.

Rules: input is any C-contiguous buffer, never copied, and written to only where batches are numbered; every read knows its end,
and bounds are compared by subtraction; loops over batches and records run without the GIL; bad data gives an error that says where.
"""

from .constants import BUILD_FAULTS, CHANGED_MEANWHILE, FAULTS, MAX_OBJECTS, MIXED_OFFSETS, TOO_MANY_HEADERS, TOO_MANY_OBJECTS, WIRE_TYPES
from .errors import ChecksumError, StructureError, TooLargeError, TruncatedError, UnsupportedError
from .types import BATCH_DTYPE, Scan

include "_corelib/buffer.pxi"     # borrowed views of the caller's buffers and arrays
include "_corelib/layout.pxi"     # Kafka's numbers as C constants, checked against constants.py
include "_corelib/varint.pxi"     # read_varint, read_varlong, read_unsigned_varint
include "_corelib/crc.pxi"        # crc32c, crc32
include "_corelib/batch.pxi"      # scan_batches: the shallow walk
include "_corelib/search.pxi"     # find_batch, find_batches, scan_damaged, scan_extents: valid batches in damaged data
include "_corelib/chain.pxi"      # heaviest_chain: which batches to trust if their offsets contradict each other
include "_corelib/walk.pxi"       # one batch's records into columns
include "_corelib/records.pxi"    # decode_records, decode_plain_batches: the deep walk over many batches (formats 0 and 1: legacy.pxi)
include "_corelib/gather.pxi"     # gather, total_length: spans into Arrow's binary layout
include "_corelib/objects.pxi"    # Record, make_records, make_values: columns into Python objects
include "_corelib/encode.pxi"     # records and messages as bytes
include "_corelib/fields.pxi"     # what they are built from: Python objects and columns
include "_corelib/plain.pxi"      # the records that nearly all are, many at a time
include "_corelib/build.pxi"      # RecordBuffer: records and columns into batches
include "_corelib/append.pxi"
include "_corelib/wire.pxi"       # Layout: how messages lie on the wire
include "_corelib/wire_read.pxi"
include "_corelib/wire_write.pxi" # write_messages
include "_corelib/assign.pxi"     # write_offsets, number_batches: offsets and leader epochs into batches where they lie
include "_corelib/check.pxi"      # number_buffer, validate_buffer: the same for a whole buffer in one pass, if all of it is good
include "_corelib/murmur.pxi"     # murmur2, murmur2_spans: the hash of keys that partitions are chosen by

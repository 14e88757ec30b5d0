"""Read, check, build and convert record batches in buffers."""

from .assign import assign_offsets
from .batches import Batch, iter_batches
from .build import build_batch, build_batches, build_columns
from .builder import BatchBuilder
from .check import Check, Problem, check_batches
from .columns import Columns, columns_of
from .control import ControlRecord, build_marker, decode_control_record
from .convert import Converted, Recompressed, convert, recompress
from .isolation import AbortedTransactions
from .partitioner import Partitioner
from .reader import Chunk, RecordReader, iter_tables
from .rules import KAFKA_ERRORS
from .stream import read_chunks, read_records
from .validate import LogValidator, validate_and_assign_offsets
from .validated import Validated

__all__ = [
    "KAFKA_ERRORS",
    "AbortedTransactions",
    "Batch",
    "BatchBuilder",
    "Check",
    "Chunk",
    "Columns",
    "ControlRecord",
    "Converted",
    "LogValidator",
    "Partitioner",
    "Problem",
    "Recompressed",
    "RecordReader",
    "Validated",
    "assign_offsets",
    "build_batch",
    "build_batches",
    "build_columns",
    "build_marker",
    "check_batches",
    "columns_of",
    "convert",
    "decode_control_record",
    "iter_batches",
    "iter_tables",
    "read_chunks",
    "read_records",
    "recompress",
    "validate_and_assign_offsets",
]

"""Batches and records of Kafka's formats: read from buffers, and built."""

from .builder import BatchBuilder, build_batch, build_batches, build_columns
from .columns import Columns, columns_of
from .reader import Chunk, RecordReader, iter_tables, read_records

__all__ = [
    "BatchBuilder",
    "Chunk",
    "Columns",
    "RecordReader",
    "build_batch",
    "build_batches",
    "build_columns",
    "columns_of",
    "iter_tables",
    "read_records",
]

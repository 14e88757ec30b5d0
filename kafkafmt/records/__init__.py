"""Batches and records of Kafka's formats, read from buffers."""

from .reader import Chunk, RecordReader, iter_tables, read_records

__all__ = ["Chunk", "RecordReader", "iter_tables", "read_records"]

"""Parse and serialize index entries (Kafka: ``OffsetIndex``, ``TimeIndex``, ``TransactionIndex``).

All integers are big-endian. Offsets in the offset and time indexes are relative to the segment's
base offset.

.index (8 bytes)
    int32 offset, int32 position: the last offset of a batch, and the position of this batch in the
    `.log` file. Up to Kafka 4.0, a broker writes one entry for batches that it appends together:
    the last offset of the last batch, and the position of the first batch.
.timeindex (12 bytes)
    int64 timestamp, int32 offset: the largest timestamp (in ms) of all records so far, and the last
    offset of the batch that contains this timestamp.
.txnindex (34 bytes)
    int16 version (0), int64 producer id, int64 first offset, int64 last offset (of the abort
    marker), int64 last stable offset after the end of the transaction.

Entries in `.index` and `.timeindex` files are in increasing order. A broker preallocates these
files. Until it trims a file, zeros follow the last entry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...support.text import quantity

OFFSET_ENTRY = np.dtype([("relative", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("relative", ">i4")])
TRANSACTION_ENTRY = np.dtype(
    [("version", ">i2"), ("producer_id", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)

Entries = npt.NDArray[np.int64]
Columns = tuple[Entries, Entries]
Numbers = Entries | Iterable[int]
_OFFSET, _TIME = struct.Struct(">ii"), struct.Struct(">qi")


def _entries(data: bytes, entry: np.dtype[np.void], base_offset: int) -> tuple[Columns, int]:
    """Return the two fields of all entries as arrays, and the number of valid entries at the start of the file."""
    columns = np.empty((2, len(data) // entry.itemsize), np.int64)
    used: int = core.read_index_entries(data, entry.itemsize, base_offset, columns)
    return (columns[0], columns[1]), used


def all_offset_entries(data: bytes, base_offset: int) -> Columns:
    """Return the offsets and positions of all complete entries in a `.index` file, even of invalid ones or zeros."""
    return _entries(data, OFFSET_ENTRY, base_offset)[0]


def all_time_entries(data: bytes, base_offset: int) -> Columns:
    """Return the timestamps and offsets of all complete entries in a `.timeindex` file, even invalid ones or zeros."""
    return _entries(data, TIME_ENTRY, base_offset)[0]


def read_offset_index(data: bytes, base_offset: int) -> Columns:
    """Return the offsets and positions in a `.index` file before its first invalid entry, such as zeros."""
    (offsets, positions), n = _entries(data, OFFSET_ENTRY, base_offset)
    return offsets[:n], positions[:n]


def read_time_index(data: bytes, base_offset: int) -> Columns:
    """Return the timestamps (ms) and offsets in a `.timeindex` file before its first invalid entry, such as zeros."""
    (timestamps, offsets), n = _entries(data, TIME_ENTRY, base_offset)
    return timestamps[:n], offsets[:n]


def read_transaction_index(data: bytes) -> np.ndarray:
    """Return the entries of a `.txnindex` file as an array. An incomplete last entry is omitted."""
    return np.frombuffer(data, TRANSACTION_ENTRY, len(data) // TRANSACTION_ENTRY.itemsize)


def partial_entry_message(size: int, entry_size: int) -> str:
    """Return the error message for an index file of `size` bytes that ends inside an entry."""
    return f"the file has {quantity(size, 'byte')}, which is not a multiple of the entry size, {entry_size}"


def offset_index_bytes(offsets: Numbers, positions: Numbers, base_offset: int) -> bytes:
    """Serialize entries of a `.index` file. ValueError: a number is negative or too large."""
    return _bytes(OFFSET_ENTRY, _column(offsets) - base_offset, _column(positions))


def time_index_bytes(timestamps: Numbers, offsets: Numbers, base_offset: int) -> bytes:
    """Serialize entries of a `.timeindex` file. ValueError: a number is negative or too large."""
    return _bytes(TIME_ENTRY, _column(timestamps), _column(offsets) - base_offset)


def offset_entry(offset: int, position: int, base_offset: int) -> bytes:
    return _OFFSET.pack(offset - base_offset, position)


def time_entry(timestamp: int, offset: int, base_offset: int) -> bytes:
    """Serialize one entry of a `.timeindex` file. `timestamp` is in ms."""
    return _TIME.pack(timestamp, offset - base_offset)


def transaction_index_bytes(entries: Iterable[tuple[int, int, int, int]]) -> bytes:
    """Serialize `.txnindex` entries: tuples (producer id, first offset, last offset, last stable offset)."""
    return np.array([(0, *e) for e in entries], TRANSACTION_ENTRY).tobytes()


def _column(values: Numbers) -> Entries:
    return np.fromiter(values, np.int64) if not isinstance(values, np.ndarray) else values


def _bytes(dtype: np.dtype[np.void], *columns: Entries) -> bytes:
    """Serialize index entries: an array for each field of `dtype`. ValueError: a number is negative or too large."""
    table = np.empty(len(columns[0]), dtype)
    for name, column in zip(dtype.names or (), columns, strict=True):
        limit = np.iinfo(dtype[name]).max
        if len(column) and (column.min() < 0 or column.max() > limit):
            raise ValueError(
                f"the values of {name} range from {int(column.min())} to {int(column.max())}; "
                f"an index entry can hold values from 0 to {limit}"
            )
        table[name] = column
    return table.tobytes()

"""The entries of the three indexes, as bytes and as arrays (Kafka: OffsetIndex, TimeIndex, TransactionIndex).

    .index     int32 offset - base, int32 position: the last offset of a batch, and where that begins; up to Kafka 4.0
               of the batches appended together, and where the first of them begins
    .timeindex int64 timestamp, int32 offset - base: the largest timestamp so far, and the last offset of its batch
    .txnindex  int16 version (0), int64 producer id, int64 first offset, int64 last offset (the abort marker's),
               int64 last stable offset once that transaction has ended

Entries of the first two rise; behind the last one of a file that was never trimmed stand zeros.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

OFFSET_ENTRY = np.dtype([("relative", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("relative", ">i4")])
TRANSACTION_ENTRY = np.dtype(
    [("version", ">i2"), ("producer_id", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)

Entries = npt.NDArray[np.int64]
Columns = tuple[Entries, Entries]
Numbers = Entries | Iterable[int]
_OFFSET, _TIME = struct.Struct(">ii"), struct.Struct(">qi")


def all_offset_entries(data: bytes, base_offset: int) -> Columns:
    """Offsets and positions of every whole entry of a `.index`, zero tail and nonsense included."""
    raw = np.frombuffer(data, OFFSET_ENTRY, len(data) // OFFSET_ENTRY.itemsize)
    return raw["relative"].astype(np.int64) + base_offset, raw["position"].astype(np.int64)


def all_time_entries(data: bytes, base_offset: int) -> Columns:
    """Timestamps (ms) and offsets of every whole entry of a `.timeindex`, zero tail and nonsense included."""
    raw = np.frombuffer(data, TIME_ENTRY, len(data) // TIME_ENTRY.itemsize)
    return raw["timestamp"].astype(np.int64), raw["relative"].astype(np.int64) + base_offset


def read_offset_index(data: bytes, base_offset: int) -> Columns:
    """Offsets and positions of the entries in use."""
    offsets, positions = all_offset_entries(data, base_offset)
    n = in_use(offsets, positions, base_offset, 0)
    return offsets[:n], positions[:n]


def read_time_index(data: bytes, base_offset: int) -> Columns:
    """Timestamps (ms) and offsets of the entries in use."""
    timestamps, offsets = all_time_entries(data, base_offset)
    n = in_use(timestamps, offsets, 0, base_offset)
    return timestamps[:n], offsets[:n]


def read_transaction_index(data: bytes) -> np.ndarray:
    """The entries of a `.txnindex`, rows of TRANSACTION_ENTRY; a partial one at the end is left out."""
    return np.frombuffer(data, TRANSACTION_ENTRY, len(data) // TRANSACTION_ENTRY.itemsize)


def in_use(first: Entries, second: Entries, first_low: int = 0, second_low: int = 0) -> int:
    """How many entries from the front on rise: the others are a zero tail, or nonsense. One of zeros alone is tail too."""
    if not len(first) or first[0] < first_low or second[0] < second_low:
        return 0
    falls = (first[1:] <= first[:-1]) | (second[1:] < second[:-1])
    n = int(np.argmax(falls)) + 1 if falls.any() else len(first)
    return 0 if n == 1 and first[0] == first_low and second[0] == second_low else n


def offset_index_bytes(offsets: Numbers, positions: Numbers, base_offset: int) -> bytes:
    return _bytes(OFFSET_ENTRY, _column(offsets) - base_offset, _column(positions))


def time_index_bytes(timestamps: Numbers, offsets: Numbers, base_offset: int) -> bytes:
    return _bytes(TIME_ENTRY, _column(timestamps), _column(offsets) - base_offset)


def offset_entry(offset: int, position: int, base_offset: int) -> bytes:
    """One alone, as a writer has them."""
    return _OFFSET.pack(offset - base_offset, position)


def time_entry(timestamp: int, offset: int, base_offset: int) -> bytes:
    return _TIME.pack(timestamp, offset - base_offset)


def transaction_index_bytes(entries: Iterable[tuple[int, int, int, int]]) -> bytes:
    """Of (producer id, first offset, last offset, last stable offset)."""
    return np.array([(0, *e) for e in entries], TRANSACTION_ENTRY).tobytes()


def _column(values: Numbers) -> Entries:
    return np.fromiter(values, np.int64) if not isinstance(values, np.ndarray) else values


def _bytes(dtype: np.dtype[np.void], *columns: Entries) -> bytes:
    """ValueError where a number is more than its field holds."""
    table = np.empty(len(columns[0]), dtype)
    for name, column in zip(dtype.names or (), columns, strict=True):
        limit = np.iinfo(dtype[name]).max
        if len(column) and (column.min() < 0 or column.max() > limit):
            raise ValueError(f"{name} {int(column.min())} to {int(column.max())} is not within 0 to {limit}")
        table[name] = column
    return table.tobytes()

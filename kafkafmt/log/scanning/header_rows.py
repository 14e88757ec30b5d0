"""Read the batch headers of a segment into NumPy arrays (tables). The records of large batches are not read.

If batches are large, only their headers of 61 bytes are read, one by one. If batches are small,
reading blocks of whole batches is faster. The CRCs of the small batches are then checked too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from ..._backend import core
from ...constants import BATCH_HEADER_SIZE, ENTRY_OVERHEAD, LENGTH_AT, MAGIC_V2, MIN_BATCH_LENGTH
from ...types import BATCH_DTYPE, TABLE_ROWS, BatchTable, last_offsets
from ..storage import FileView, aligned_buffer
from .header_walk import FEW_BATCHES, REMOTE_BLOCK, SMALL_BATCH, UnclearHeadersError, read_batch

BLOCK = 1 << 20  # size in bytes of the blocks in which a segment with small batches is read
ROWS = 1024  # maximum number of batch headers in an array if headers are read one by one
_LENGTH_AND_MAGIC = struct.Struct(">i4xb")
_FIELDS = {
    "base_offset": ">i8",
    "length": ">i4",
    "leader_epoch": ">i4",
    "magic": "i1",
    "crc": ">u4",
    "attributes": ">i2",
    "last_offset_delta": ">i4",
    "base_timestamp": ">i8",
    "max_timestamp": ">i8",
    "producer_id": ">i8",
    "producer_epoch": ">i2",
    "base_sequence": ">i4",
    "count": ">i4",
}
_HEADER = np.dtype(list(_FIELDS.items()))  # NumPy dtype of the header of a v2 batch, without padding between the fields
assert _HEADER.itemsize == BATCH_HEADER_SIZE


def header_tables(view: FileView, first_offset: int, next_base: int | None) -> Iterator[BatchTable]:
    """Yield the headers of all batches in a segment in file order, in tables that are valid until the next one."""
    # Offsets are at least `first_offset`; `next_base` is the base offset of the next segment. UnclearHeadersError: a
    # header is impossible, offsets do not increase, the file ends inside a batch, or the CRC of a small batch does not
    # match. The caller must then check the whole segment with `plan_segment`.
    scan = _HeaderScan(view)
    before = first_offset - 1
    while (rows := scan.read()) is not None:
        if not len(rows):
            continue
        lasts = last_offsets(rows)
        # Also check wrapper messages, whose base_offset is the last offset of the inner messages.
        increasing = bool((rows["base_offset"] > np.concatenate(([before], lasts[:-1]))).all())
        impossible = (rows["last_offset_delta"] < 0) | (rows["count"] > rows["last_offset_delta"].astype(np.int64) + 1)
        if not increasing or impossible.any() or (next_base is not None and lasts[-1] >= next_base):
            raise UnclearHeadersError
        before = int(lasts[-1])
        yield rows


class _HeaderScan:
    """Reads the batch headers of one file: small batches in blocks, large ones one by one."""

    def __init__(self, view: FileView) -> None:
        self._view = view
        self._position = 0
        self._small_batch = max(SMALL_BATCH, view.least_read)
        self._block = aligned_buffer(min(REMOTE_BLOCK if view.least_read else BLOCK, view.size))
        self._table = np.empty(TABLE_ROWS, BATCH_DTYPE)
        self._raw = bytearray(ROWS * BATCH_HEADER_SIZE)
        self._in_blocks = True

    def read(self) -> BatchTable | None:
        """Return the next batch headers as an array, which can be empty. At the end of the file, return None."""
        if self._position >= self._view.size:
            return None
        table = self._read_block() if self._in_blocks else self._read_headers()
        if self._view.unreadable:
            # A header may contain filler bytes in place of unreadable bytes. Only a CRC check would detect this.
            raise UnclearHeadersError
        return table

    def _read_block(self) -> BatchTable:
        """Read the next block of the file, and return the headers of all complete batches after a check."""
        got = self._view.read_into(self._block[: self._view.size - self._position], self._position)
        scan = core.scan_batches(self._block, self._table, 0, got)
        if scan.error is not None:
            raise UnclearHeadersError
        rows = self._table[: scan.count]
        _move(rows, self._position)
        self._position += scan.position
        self._in_blocks = scan.count > 0 and scan.position // scan.count <= self._small_batch
        return rows

    def _read_headers(self) -> BatchTable:
        """Read batch headers one by one. Stop after several small batches, which are read faster in blocks."""
        view, position, end, raw = self._view, self._position, self._view.size, memoryview(self._raw)
        positions: list[int] = []
        small = 0
        while len(positions) < ROWS and position < end and small < FEW_BATCHES:
            at = len(positions) * BATCH_HEADER_SIZE
            if view.read_into(raw[at : at + BATCH_HEADER_SIZE], position) < BATCH_HEADER_SIZE:
                raise UnclearHeadersError
            length, magic = _LENGTH_AND_MAGIC.unpack_from(raw, at + LENGTH_AT)
            size = length + ENTRY_OVERHEAD
            if magic != MAGIC_V2 and not positions:
                return self._read_message(size)
            if magic != MAGIC_V2:
                break
            if length < MIN_BATCH_LENGTH or size > end - position:
                raise UnclearHeadersError
            positions.append(position)
            position += size
            small = small + 1 if size <= self._small_batch else 0
        self._position, self._in_blocks = position, small >= FEW_BATCHES
        return _table_of(self._raw, positions)

    def _read_message(self, size: int) -> BatchTable:
        """Read one complete message of format 0 or 1, and return its header."""
        if not 0 < size <= self._view.size - self._position:
            raise UnclearHeadersError
        _, table = read_batch(self._view, self._position, size)
        _move(table, self._position)
        self._position += size
        return table


def _move(table: BatchTable, by: int) -> None:
    """Add `by` to all positions in an array of batch headers."""
    table["position"] += by
    table["payload_position"] += by


def _table_of(raw: bytearray, positions: list[int]) -> BatchTable:
    """Decode batch headers into an array. `positions` contains the file positions of the batches."""
    headers = np.frombuffer(raw, _HEADER, len(positions))
    table = np.empty(len(positions), BATCH_DTYPE)
    for name in _FIELDS:
        if name != "length":
            table[name] = headers[name]
    table["position"] = positions
    table["size"] = headers["length"] + ENTRY_OVERHEAD
    table["payload_position"] = table["position"] + BATCH_HEADER_SIZE
    table["payload_size"] = table["size"] - BATCH_HEADER_SIZE
    return table

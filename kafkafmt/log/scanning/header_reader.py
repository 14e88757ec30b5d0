"""Read the batch headers of a file in order, without reading the records of large batches.

Only the headers of large batches are read, one by one. Small batches are read in blocks of whole
batches, because this is faster. Their CRCs are then checked too, unless the caller declines.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import BATCH_HEADER_SIZE, ENTRY_OVERHEAD, MAGIC_END, MAGIC_V2
from ...errors import StructureError, TruncatedError
from ...types import BATCH_DTYPE, TABLE_ROWS, BatchTable, ByteArray, last_offsets
from ..storage import FileView, aligned_buffer
from .batch_head import Head

SMALL_BATCH = 8 << 10  # maximum size of a small batch, in bytes
FEW_BATCHES = 4
"""Number of consecutive small batches after which whole blocks of batches are read, and all CRCs are checked."""
BLOCK = 256 << 10  # number of bytes that are read at once if the batches are small
REMOTE_BLOCK = 4 << 20
"""Number of bytes that are read at once from a URL if the batches are small. This takes one request."""
HEADERS_READ = 64 << 10
"""Number of bytes that are read first to find an offset. Each further read is GROWTH times as large, up to a limit."""
MAX_HEADERS_READ = 1 << 20
GROWTH = 4
ROWS = 1024  # maximum number of batch headers in an array if headers are read one by one
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


class UnclearHeadersError(Exception):
    """Raised if batches may be damaged or out of order, so that reading only their headers is not sufficient."""


class HeaderReader:
    """Reads the batch headers of one file after the other, in order."""

    # If the last batches of a file are small, the next file is read in blocks from the start. If `first_block` is given,
    # the blocks grow from this size, and only larger batches are read one by one.

    view: FileView
    position: int  # end of the last batch that was read
    end: int  # of the byte range
    block: ByteArray  # the bytes of the last block, from `block_at` of the file
    block_at: int
    cut: Head | None  # the batch that does not end before the end of the byte range

    def __init__(self, check_crc: bool = True, first_block: int | None = None) -> None:
        self._check_crc = check_crc
        self._first_block = first_block
        self._small = 0  # number of consecutive small batches
        self._buffer = aligned_buffer(0)
        self._header = memoryview(bytearray(BATCH_HEADER_SIZE))

    @cached_property
    def _table(self) -> BatchTable:
        return np.empty(TABLE_ROWS, BATCH_DTYPE)

    def open(self, view: FileView, position: int, end: int, in_blocks: bool = False) -> None:
        """Begin a file: a batch begins at `position`. With `in_blocks`, the first batches are read as a block."""
        self.view, self.position, self.end, self.cut = view, position, end, None
        self._small_batch = max(self._first_block or SMALL_BATCH, view.least_read)
        self._block_size = self._first_block or (REMOTE_BLOCK if view.least_read else BLOCK)
        if view.least_read or in_blocks:
            self._small = FEW_BATCHES

    def read(self) -> BatchTable | Head | None:
        """Return the headers of the next block of small batches, or the next header, or None at the end."""
        # The positions in a table are relative to `block_at`. UnclearHeadersError: a header is impossible, or a CRC
        # does not match.
        if self.position >= self.end:
            return None
        rows = self._read_block() if self._small >= FEW_BATCHES else None
        found = self._read_one() if rows is None else rows
        if self.view.unreadable:
            # A header may contain filler bytes in place of unreadable bytes. Only a CRC check would detect this.
            raise UnclearHeadersError
        return found

    def _read_block(self) -> BatchTable | None:
        """Read the next block, and check its complete batches. Return None if the next batch is larger than a block."""
        size = min(self._block_size, self.end - self.position)
        if len(self._buffer) < size:
            self._buffer = aligned_buffer(size)
        self.block, self.block_at = self._buffer[:size], self.position
        got = self.view.read_into(self.block, self.position)
        scan = core.scan_batches(self.block, self._table, 0, got, self._check_crc)
        if scan.error is not None and (self._check_crc or not scan.count):
            raise UnclearHeadersError
        if not scan.count:
            self._small = 0
            return None
        if self._first_block:
            self._block_size = min(self._block_size * GROWTH, MAX_HEADERS_READ)
        if scan.position // scan.count > self._small_batch:
            self._small = 0
        self.position += scan.position
        return self._table[: scan.count]

    def _read_one(self) -> Head | None:
        got = self.view.read_into(self._header, self.position)
        # A message of format 0 or 1 can be shorter than the header of a batch.
        head = Head(self.position, self._header[:got].tobytes().ljust(BATCH_HEADER_SIZE, b"\0"))
        if not head.possible:
            raise UnclearHeadersError
        if head.end > self.end:
            self.position, self.cut = self.end, head
            return None
        self._small = self._small + 1 if head.size <= self._small_batch else 0
        self.position = head.end
        return head


class Reached(NamedTuple):
    """Result of `reach`: the position of a batch, and the position and last offset of the previous batch."""

    position: int
    last: int
    before: int  # the found batch if there is no previous batch


def reach(view: FileView, offset: int, position: int, end: int, last: int, gaps: bool = True) -> Reached | None:
    """Search for the first batch at or after `position` that contains `offset` or a later offset."""
    # CRCs are not checked. A batch must begin at `position`, after one whose last offset is `last`. None: a header is
    # damaged, the offsets do not increase, or offsets are missing and `gaps` is False.
    reader, before = HeaderReader(check_crc=False, first_block=HEADERS_READ), position
    reader.open(view, position, end, in_blocks=True)
    try:
        while (found := reader.read()) is not None:
            if isinstance(found, Head):
                starts, firsts, lasts = (np.array([n]) for n in (found.position, found.first_offset, found.last_offset))
            else:
                starts, firsts, lasts = reader.block_at + found["position"], found["base_offset"], last_offsets(found)
            n = int(np.argmax(lasts >= offset)) if (lasts >= offset).any() else len(lasts)
            befores = np.concatenate(([last], lasts))
            wrong = (firsts <= befores[:-1]) | (lasts < firsts)
            if not gaps:
                wrong |= firsts != befores[:-1] + 1
            if wrong[: n + 1].any():
                return None
            last = int(befores[n])
            before = int(starts[n - 1]) if n else before
            if n < len(lasts):
                return Reached(int(starts[n]), last, before)
    except UnclearHeadersError:
        return None
    return Reached(reader.position, last, before) if reader.cut is None else None


def read_head(view: FileView, position: int) -> Head:
    """Read the header of one batch. KafkaFormatError: no batch begins at `position`, or the file ends inside it."""
    head = Head(position, view.read(position, BATCH_HEADER_SIZE))
    if view.is_filler(position, position + len(head.data)):
        raise StructureError("the disk cannot read the batch header at this position", position)
    if head.end > view.size or len(head.data) < MAGIC_END:
        raise TruncatedError("the file ends inside a batch", position)
    if not head.possible:
        raise StructureError("there is no batch at this position, because the size or magic is impossible", position)
    return head


def read_batch(view: FileView, position: int, size: int) -> tuple[bytes, BatchTable]:
    """Read one batch. Return its bytes, and its header as an array of length 1."""
    # UnclearHeadersError: the CRC does not match, or the bytes are not exactly one batch.
    data, table = view.read(position, size), np.empty(1, BATCH_DTYPE)
    scan = core.scan_batches(data, table)
    if scan.error is not None or scan.count != 1 or scan.position != size:
        raise UnclearHeadersError
    return data, table


def header_tables(
    reader: HeaderReader, view: FileView, first_offset: int, next_base: int | None
) -> Iterator[BatchTable]:
    """Yield the headers of all batches in a segment in file order, in tables that are valid until the next one."""
    # Offsets are at least `first_offset`; `next_base` is the base offset of the next segment. UnclearHeadersError: a
    # header is impossible, offsets do not increase, the file ends inside a batch, or the CRC of a small batch does not
    # match. The caller must then check the whole segment with `plan_segment`.
    reader.open(view, 0, view.size, in_blocks=True)
    before = first_offset - 1
    for rows in _tables(reader):
        lasts = last_offsets(rows)
        # Also check wrapper messages, whose base_offset is the last offset of the inner messages.
        increasing = bool((rows["base_offset"] > np.concatenate(([before], lasts[:-1]))).all())
        impossible = (rows["last_offset_delta"] < 0) | (rows["count"] > rows["last_offset_delta"].astype(np.int64) + 1)
        if not increasing or impossible.any() or (next_base is not None and lasts[-1] >= next_base):
            raise UnclearHeadersError
        before = int(lasts[-1])
        yield rows


def _tables(reader: HeaderReader) -> Iterator[BatchTable]:
    heads: list[Head] = []
    while (found := reader.read()) is not None:
        if isinstance(found, Head) and found.magic == MAGIC_V2:
            heads.append(found)
            if len(heads) < ROWS:
                continue
        if heads:
            yield table_of(heads)
            heads.clear()
        if not isinstance(found, Head):
            found["position"] += reader.block_at
            found["payload_position"] += reader.block_at
            yield found
        elif found.magic != MAGIC_V2:
            _, rows = read_batch(reader.view, found.position, found.size)
            rows["position"] += found.position
            rows["payload_position"] += found.position
            yield rows
    if reader.cut is not None:
        raise UnclearHeadersError
    if heads:
        yield table_of(heads)


def table_of(heads: list[Head]) -> BatchTable:
    """Return an array of the headers of batches of format 2, whose positions are file positions."""
    headers = np.frombuffer(b"".join(head.data for head in heads), _HEADER)
    table = np.empty(len(heads), BATCH_DTYPE)
    for name in _FIELDS:
        if name != "length":
            table[name] = headers[name]
    table["position"] = [head.position for head in heads]
    table["size"] = headers["length"] + ENTRY_OVERHEAD
    table["payload_position"] = table["position"] + BATCH_HEADER_SIZE
    table["payload_size"] = table["size"] - BATCH_HEADER_SIZE
    return table

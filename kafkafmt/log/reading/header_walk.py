"""Walk through the batch headers of a segment to find transactional batches and markers.

Large batches are skipped without being read. If a batch is not longer than a transaction marker,
its CRC is checked, because the batch may be a damaged marker. The CRCs of the first and the last
batch of the file are also checked, because the offsets of these batches show whether a segment is
missing before or after the file.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CONTROL_BIT,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    MAGIC_V2,
    MIN_LENGTHS,
    TRANSACTIONAL_BIT,
)
from ...types import BATCH_DTYPE, BatchTable, last_offsets
from ..format.file_view import FileView, aligned_buffer
from .part_builder import TABLE_ROWS

SMALL_BATCH = 8 << 10
"""Size of the largest batch that counts as small, in bytes."""
FEW_BATCHES = 4
"""After this number of consecutive small batches, batches are read in blocks, and all CRCs are checked."""
MARKER_SIZE = 78
"""Size of a batch that ends a transaction, in bytes. A longer batch is not a marker."""
BLOCK = 256 << 10
"""Size of a block, in bytes."""
REMOTE_BLOCK = 4 << 20
"""Size in bytes of a block of a file that is not local. Reading a block takes one request."""
_HEADER = struct.Struct(">qiibIhiqqq")


class UnclearHeadersError(Exception):
    """Raised if batch headers alone are not sufficient, because some batches may be damaged or out of order."""


class TransactionalBatch(NamedTuple):
    """A batch that is part of a transaction, or a control batch."""

    position: int
    """Position of the batch in the file, in bytes."""
    size: int
    """Size of the batch, in bytes."""
    base_offset: int
    producer_id: int
    attributes: int


def read_batch(view: FileView, position: int, size: int) -> tuple[bytes, BatchTable]:
    """Return the bytes of one batch, and a table with its header.

    Raise UnclearHeadersError if the CRC does not match, or if the bytes are not exactly one batch.
    """
    data, table = view.read(position, size), np.empty(1, BATCH_DTYPE)
    scan = core.scan_batches(data, table)
    if scan.error is not None or scan.count != 1 or scan.position != size:
        raise UnclearHeadersError
    return data, table


class HeaderWalk:
    """Reads the batch headers of one file in order.

    Parameters
    ----------
    view : FileView
        The open segment.
    position, end : int
        Range of the file, in bytes. A batch begins at `position`.
    last : int
        Highest offset before `position`. The next batch must have a higher base offset.
    limit : int
        Highest offset that a batch can have.

    Attributes
    ----------
    position : int
        Position of the next batch.
    first : int or None
        Base offset of the first batch. None if no batch has been read.
    last : int
        Last offset of the batches that have been read.
    truncated : bool
        Whether the range ends inside a batch.
    """

    def __init__(self, view: FileView, position: int, end: int, last: int, limit: int) -> None:
        self.view = view
        self.position: int = position
        self.first: int | None = None
        self.last: int = last
        self.truncated: bool = False
        self._end = end
        self._limit = limit
        self._small_batch = max(SMALL_BATCH, view.least_read)
        self._block = BLOCK if not view.least_read else REMOTE_BLOCK
        self._small = FEW_BATCHES if view.least_read else 0
        self._buffer = aligned_buffer(0)

    @cached_property
    def _headers(self) -> BatchTable:
        """The table into which the headers of a block are read."""
        return np.empty(TABLE_ROWS, BATCH_DTYPE)

    def read(self) -> list[TransactionalBatch] | None:
        """Read the next batch header. If the batches are small, read the headers of a block of batches.

        Return the transactional batches and control batches that were found. Return None at the end
        of the range.

        Raises
        ------
        UnclearHeadersError
            A header contains an impossible value, offsets do not increase, or a batch that may be a
            marker is damaged. The error is also raised for a wrapper message, because no CRC covers
            the offset of a wrapper message.
        """
        if self.position >= self._end:
            return None
        if self._small >= FEW_BATCHES:
            found = self._read_block()
            if found is not None:
                return found
        found = self._read_one()
        if self.view.unreadable:
            # The headers may contain filler, which is not detected without a CRC check.
            raise UnclearHeadersError
        return found

    def _read_one(self) -> list[TransactionalBatch] | None:
        head = self.view.read(self.position, BATCH_HEADER_SIZE)
        left = self._end - self.position
        if len(head) < BATCH_HEADER_SIZE:
            head += bytes(BATCH_HEADER_SIZE - len(head))
        base, length, _, magic, _, attributes, delta, _, _, producer_id = _HEADER.unpack_from(head)
        possible = magic in (0, 1, MAGIC_V2) and length >= MIN_LENGTHS[magic]
        size = length + ENTRY_OVERHEAD
        if not possible or base <= self.last:
            raise UnclearHeadersError
        if size > left:
            self.position, self.truncated = self._end, True
            return None
        if magic != MAGIC_V2:
            if head[LEGACY_ATTRIBUTES_AT] & CODEC_MASK:
                raise UnclearHeadersError
            attributes = delta = 0
        last = base + delta
        if delta < 0 or last > self._limit:
            raise UnclearHeadersError
        position = self.position
        self._small = self._small + 1 if size <= self._small_batch else 0
        if size <= MARKER_SIZE or position == 0 or size == left:
            read_batch(self.view, position, size)
        self.position, self.last = position + size, last
        self.first = base if self.first is None else self.first
        if attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
            return [TransactionalBatch(position, size, base, producer_id, attributes)]
        return []

    def _read_block(self) -> list[TransactionalBatch] | None:
        """Read and check the batches that are completely in the next block.

        Return None if the next batch is larger than a block.
        """
        if not len(self._buffer):
            self._buffer = aligned_buffer(self._block)
        block = self._buffer[: min(self._block, self._end - self.position)]
        got = self.view.read_into(block, self.position)
        scan = core.scan_batches(block, self._headers, 0, got)
        if scan.error is not None:
            raise UnclearHeadersError
        if not scan.count:
            self._small = 0
            return None
        rows = self._headers[: scan.count]
        lasts = last_offsets(rows)
        before = np.concatenate(([self.last], lasts[:-1]))
        wrong = (rows["base_offset"] <= before) | (rows["last_offset_delta"] < 0)
        if wrong.any() or lasts[-1] > self._limit or ((rows["magic"] < MAGIC_V2) & (rows["count"] < 0)).any():
            raise UnclearHeadersError
        chosen = rows[(rows["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0]
        columns = ("position", "size", "base_offset", "producer_id", "attributes")
        found = [
            TransactionalBatch(self.position + position, *rest)
            for position, *rest in zip(*(chosen[name].tolist() for name in columns), strict=True)
        ]
        self.position, self.last = self.position + scan.position, int(lasts[-1])
        self.first = int(rows["base_offset"][0]) if self.first is None else self.first
        if scan.position // scan.count > self._small_batch:
            self._small = 0
        return found

"""Read the batch headers of a segment one after another, to find transactional batches and markers.

Only the headers of large batches are read. If a batch is as small as a transaction marker, its CRC
is checked, because it may be a damaged marker. The CRCs of the first and the last batch in the file
are also checked, because their offsets show whether the previous or the next segment is missing.
"""

from __future__ import annotations

import struct
from functools import cached_property, partial
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
from ..format.producers import Marker
from .part_builder import TABLE_ROWS

SMALL_BATCH = 8 << 10
"""Maximum size of a small batch, in bytes."""
FEW_BATCHES = 4
"""Number of consecutive small batches after which whole blocks of batches are read, and all CRCs are checked."""
MARKER_SIZE = 78
"""Size of a transaction marker's batch, in bytes. A larger batch does not contain a marker."""
BLOCK = 256 << 10
"""Number of bytes that are read at once if the batches are small."""
REMOTE_BLOCK = 4 << 20
"""Number of bytes that are read at once from a URL if the batches are small. This takes one request."""
_HEADER = struct.Struct(">qiibIhiqqqhii")


class UnclearHeadersError(Exception):
    """Raised if batches may be damaged or out of order, so that reading only their headers is not sufficient."""


class TransactionalBatch(NamedTuple):
    """A batch that is part of a transaction, or a control batch."""

    position: int
    """Position of the batch in the file, in bytes."""
    size: int
    """Size of the batch, in bytes."""
    base_offset: int
    producer_id: int
    attributes: int
    checked: bool
    """Whether the CRC of the batch was checked."""
    marker: Marker | None
    """The transaction marker in a control batch. None if it was not read."""


def read_batch(view: FileView, position: int, size: int) -> tuple[bytes, BatchTable]:
    """Read one batch. Return its bytes, and its header as an array of length 1.

    If the CRC does not match, or if the bytes are not exactly one batch, raise UnclearHeadersError.
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
        Start and end of the byte range to read. A batch begins at `position`.
    last : int
        Highest offset of the batches before `position`. The base offset of the next batch must be
        higher.
    limit : int
        Highest offset that a batch in the range can have.
    first_returned : int, default 0
        Batches with a lower base offset are read and checked, but `read` does not return them.

    Attributes
    ----------
    position : int
        Position of the next batch.
    first : int or None
        Base offset of the first batch. None if no batch has been read.
    last : int
        Last offset of the batches that have been read.
    truncated : bool
        Whether the byte range ends inside a batch.
    gaps : int
        Number of places where offsets are missing between two batches, or at the start of the file.
    thinned : bool
        Whether a batch has fewer records than offsets, because the log was compacted.
    """

    def __init__(self, view: FileView, position: int, end: int, last: int, limit: int, first_returned: int = 0) -> None:
        self.view = view
        self.position: int = position
        self.first: int | None = None
        self.last: int = last
        self.truncated: bool = False
        self.gaps: int = 0
        self.thinned: bool = False
        self._dense_before = position == 0
        self._end = end
        self._limit = limit
        self._first_returned = first_returned
        self._small_batch = max(SMALL_BATCH, view.least_read)
        self._block = BLOCK if not view.least_read else REMOTE_BLOCK
        self._small = FEW_BATCHES if view.least_read else 0
        self._buffer = aligned_buffer(0)

    @cached_property
    def _headers(self) -> BatchTable:
        """Array for the batch headers in a block."""
        return np.empty(TABLE_ROWS, BATCH_DTYPE)

    def read(self) -> list[TransactionalBatch] | None:
        """Read the next batch header, or a block of batches if the batches are small.

        Return a list of the transactional batches and control batches that this call has read. A data
        batch is omitted if the previous batch of its producer in a block is a data batch too, because
        it then belongs to the same transaction. The list can be empty. At the end of the byte range,
        return None.

        Raises
        ------
        UnclearHeadersError
            A header contains an impossible value, offsets do not increase, or a batch that may be a
            marker is damaged. The error is also raised for wrapper messages, because no CRC covers
            their offsets.
        """
        if self.position >= self._end:
            return None
        if self._small >= FEW_BATCHES:
            found = self._read_block()
            if found is not None:
                return found
        found = self._read_one()
        if self.view.unreadable:
            # A header may contain filler bytes in place of unreadable bytes. Only a CRC check would detect this.
            raise UnclearHeadersError
        return found

    def _read_one(self) -> list[TransactionalBatch] | None:
        head = self.view.read(self.position, BATCH_HEADER_SIZE)
        left = self._end - self.position
        if len(head) < BATCH_HEADER_SIZE:
            head += bytes(BATCH_HEADER_SIZE - len(head))
        base, length, _, magic, _, attributes, delta, _, _, producer_id, _, _, count = _HEADER.unpack_from(head)
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
        checked = size <= MARKER_SIZE or position == 0 or size == left
        if checked:
            read_batch(self.view, position, size)
        self.gaps += self._dense_before and base > self.last + 1
        self.thinned |= magic == MAGIC_V2 and count <= delta
        self._dense_before = True
        self.position, self.last = position + size, last
        self.first = base if self.first is None else self.first
        if attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) and base >= self._first_returned:
            return [TransactionalBatch(position, size, base, producer_id, attributes, checked, None)]
        return []

    def _read_block(self) -> list[TransactionalBatch] | None:
        """Read the next block, and check the batches that are completely in it.

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
        gaps = rows["base_offset"] > before + 1
        self.gaps += int(np.count_nonzero(gaps if self._dense_before else gaps[1:]))
        self.thinned |= bool(((rows["magic"] == MAGIC_V2) & (rows["count"] <= rows["last_offset_delta"])).any())
        self._dense_before = True
        transactional = (rows["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0
        chosen = _that_matter(rows[transactional & (rows["base_offset"] >= self._first_returned)])
        sizes, offsets, *others = (
            chosen[name].tolist() for name in ("size", "base_offset", "producer_id", "attributes")
        )
        markers = map((core.read_markers(block, chosen, Marker) or {}).get, offsets)
        positions = (chosen["position"] + self.position).tolist()
        fields = zip(positions, sizes, offsets, *others, [True] * len(chosen), markers, strict=True)
        # Calling `TransactionalBatch` takes three times as long.
        found = list(map(partial(tuple.__new__, TransactionalBatch), fields))
        self.position, self.last = self.position + scan.position, int(lasts[-1])
        self.first = int(rows["base_offset"][0]) if self.first is None else self.first
        if scan.position // scan.count > self._small_batch:
            self._small = 0
        return found


def _that_matter(rows: BatchTable) -> BatchTable:
    """Omit each data batch that directly follows a data batch of the same producer. `rows` are transactional batches."""
    order = np.argsort(rows["producer_id"], kind="stable")
    producers, data = rows["producer_id"][order], (rows["attributes"][order] & CONTROL_BIT) == 0
    omitted = np.zeros(len(rows), bool)
    omitted[order[1:]] = (producers[1:] == producers[:-1]) & data[1:] & data[:-1]
    chosen: BatchTable = rows.compress(~omitted)
    return chosen

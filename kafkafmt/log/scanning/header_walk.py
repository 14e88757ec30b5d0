"""Read the batch headers of segments one after another, to find transactional batches and markers.

Only the headers of large batches are read. If a batch is as small as a transaction marker, its CRC
is checked, because it may be a damaged marker. The CRCs of the first and the last batch in the file
are also checked, because their offsets show whether the previous or the next segment is missing.
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
from ...types import BATCH_DTYPE, TABLE_ROWS, BatchTable, Buffer, last_offsets, thinned
from ..formats import Marker
from ..storage import FileView, aligned_buffer

SMALL_BATCH = 8 << 10  # maximum size of a small batch, in bytes
FEW_BATCHES = 4
"""Number of consecutive small batches after which whole blocks of batches are read, and all CRCs are checked."""
MARKER_SIZE = 78  # Size of a transaction marker's batch, in bytes. A larger batch does not contain a marker.
BLOCK = 256 << 10  # number of bytes that are read at once if the batches are small
REMOTE_BLOCK = 4 << 20
"""Number of bytes that are read at once from a URL if the batches are small. This takes one request."""
_HEADER = struct.Struct(">qiibIhiqqqhii")
_ROW_FIELDS = ("position", "size", "base_offset", "last_offset_delta", "producer_id", "attributes", "magic")


class UnclearHeadersError(Exception):
    """Raised if batches may be damaged or out of order, so that reading only their headers is not sufficient."""


class TransactionalBatches(NamedTuple):
    """Batches that one call of `HeaderWalk.read` has read. `rows` is valid until the next call."""

    rows: BatchTable  # headers of all these batches, or an empty array if none is transactional or a control batch
    markers: dict[int, Marker]  # the transaction marker of each control batch, by offset
    checked: bool
    """Whether the CRCs were checked. If not, `rows` contains one batch, whose position is a position in the file."""


NO_BATCHES = TransactionalBatches(np.empty(0, BATCH_DTYPE), {}, True)


def read_batch(view: FileView, position: int, size: int) -> tuple[bytes, BatchTable]:
    """Read one batch. Return its bytes, and its header as an array of length 1."""
    # UnclearHeadersError: the CRC does not match, or the bytes are not exactly one batch.
    data, table = view.read(position, size), np.empty(1, BATCH_DTYPE)
    scan = core.scan_batches(data, table)
    if scan.error is not None or scan.count != 1 or scan.position != size:
        raise UnclearHeadersError
    return data, table


class HeaderWalk:
    """Reads the batch headers of consecutive segments in order."""

    # If the last batches of a segment are small, the next segment is read in blocks from the start. `read` does not
    # return batches below `first_returned`, but checks them.

    view: FileView
    position: int
    first: int | None
    last: int
    truncated: bool

    def __init__(self, first_returned: int = 0) -> None:
        self.gaps: int = 0
        self.thinned: bool = False
        self._first_returned = first_returned
        self._continues = False
        """Missing offsets before the next batch are a gap: False where a range begins inside a segment."""
        self._small = 0  # number of consecutive small batches
        self._buffer = aligned_buffer(0)

    @cached_property
    def _headers(self) -> BatchTable:
        return np.empty(TABLE_ROWS, BATCH_DTYPE)

    def open(self, view: FileView, position: int, end: int, last: int, limit: int) -> None:
        """Begin a segment: a batch begins at `position`. The base offsets are above `last`, up to `limit`."""
        self.view = view
        self.position = position
        self.first = None
        self.last = last
        self.truncated = False
        self._continues = position == 0
        self._end = end
        self._limit = limit
        self._small_batch = max(SMALL_BATCH, view.least_read)
        self._block = BLOCK if not view.least_read else REMOTE_BLOCK
        if view.least_read:
            self._small = FEW_BATCHES

    def read(self) -> TransactionalBatches | None:
        """Read the next batch header, or a block of small batches, or return None at the end of the byte range."""
        # UnclearHeadersError: a header is impossible, offsets do not increase, a batch that may be a marker is damaged,
        # or a control batch has no readable marker. Also for wrapper messages, because no CRC covers their offsets.
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

    def _read_one(self) -> TransactionalBatches | None:
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
        returned = bool(attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)) and base >= self._first_returned
        control = returned and bool(attributes & CONTROL_BIT)
        if control and size > SMALL_BATCH:
            raise UnclearHeadersError
        checked = control or size <= MARKER_SIZE or position == 0 or size == left
        if checked:
            data, rows = read_batch(self.view, position, size)
        self.gaps += self._continues and base > self.last + 1
        self.thinned |= magic == MAGIC_V2 and count <= delta
        self._continues = True
        self.position, self.last = position + size, last
        self.first = base if self.first is None else self.first
        if not returned:
            return NO_BATCHES
        if checked:
            return TransactionalBatches(rows, _markers_in(data, rows, attributes), True)
        rows = np.zeros(1, BATCH_DTYPE)
        for name, value in zip(_ROW_FIELDS, (position, size, base, delta, producer_id, attributes, magic), strict=True):
            rows[name] = value
        return TransactionalBatches(rows, {}, False)

    def _read_block(self) -> TransactionalBatches | None:
        """Read the next block, and check its complete batches. Return None if the next batch is larger than a block."""
        if len(self._buffer) < self._block:
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
        found = core.summarize_batches(rows)
        rises = found.first > self.last and found.increasing
        if not rises or found.negative_delta or found.wrappers or found.last > self._limit:
            raise UnclearHeadersError
        if not found.dense or found.first != self.last + 1:
            self._note_gaps(rows)
        self._continues = True
        self.position, self.last = self.position + scan.position, found.last
        self.first = found.first if self.first is None else self.first
        if scan.position // scan.count > self._small_batch:
            self._small = 0
        if not found.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
            return NO_BATCHES
        if found.first < self._first_returned:
            rows = rows[rows["base_offset"] >= self._first_returned]
        return TransactionalBatches(rows, _markers_in(block, rows, found.attributes), True)

    def _note_gaps(self, rows: BatchTable) -> None:
        """Count the gaps before and between the batches in `rows`, and check whether compaction has removed records."""
        gaps = rows["base_offset"] > np.append(self.last, last_offsets(rows)[:-1]) + 1
        self.gaps += int(np.count_nonzero(gaps if self._continues else gaps[1:]))
        self.thinned |= thinned(rows)


def _markers_in(buffer: Buffer, rows: BatchTable, attributes: int) -> dict[int, Marker]:
    """Return the transaction markers in the control batches in `rows`, by offset."""
    # UnclearHeadersError: a marker is missing or not plain (see `core.read_markers`).
    if not attributes & CONTROL_BIT:
        return {}
    markers = core.read_markers(buffer, rows, Marker)
    if markers is None or len(markers) < np.count_nonzero(rows["attributes"] & CONTROL_BIT):
        raise UnclearHeadersError
    return markers

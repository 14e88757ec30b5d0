"""Read the batch headers of segments one after another, to find transactional batches and markers.

Only the headers of large batches are read. If a batch is as small as a transaction marker, its CRC
is checked, because it may be a damaged marker. The CRCs of the first and the last batch in the file
are also checked, because their offsets show whether the previous or the next segment is missing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import CONTROL_BIT, MAGIC_V2, TRANSACTIONAL_BIT
from ...types import BATCH_DTYPE, BatchTable, Buffer, last_offsets, thinned
from ..formats import Marker
from ..storage import FileView
from .batch_head import Head
from .header_reader import SMALL_BATCH, HeaderReader, UnclearHeadersError, read_batch, table_of

MARKER_SIZE = 78  # Size of a transaction marker's batch, in bytes. A larger batch does not contain a marker.


class TransactionalBatches(NamedTuple):
    """Batches that one call of `HeaderWalk.read` has read. `rows` is valid until the next call."""

    rows: BatchTable  # headers of all these batches, or an empty array if none is transactional or a control batch
    markers: dict[int, Marker]  # the transaction marker of each control batch, by offset
    checked: bool
    """Whether the CRCs were checked. If not, `rows` contains one batch, whose position is a position in the file."""


NO_BATCHES = TransactionalBatches(np.empty(0, BATCH_DTYPE), {}, True)


class HeaderWalk:
    """Reads the batch headers of consecutive segments in order."""

    # `read` does not return batches below `first_returned`, but checks them.

    first: int | None
    last: int

    def __init__(self, first_returned: int = 0) -> None:
        self.gaps: int = 0
        self.thinned: bool = False
        self._first_returned = first_returned
        self._continues = False
        """Missing offsets before the next batch are a gap: False where a range begins inside a segment."""
        self._reader = HeaderReader()

    @property
    def truncated(self) -> bool:
        """Whether the segment ends inside a batch."""
        return self._reader.cut is not None

    def open(self, view: FileView, position: int, end: int, last: int, limit: int) -> None:
        """Begin a segment: a batch begins at `position`. The base offsets are above `last`, up to `limit`."""
        self._reader.open(view, position, end)
        self.first = None
        self.last = last
        self._continues = position == 0
        self._limit = limit

    def read(self) -> TransactionalBatches | None:
        """Read the next batch header, or a block of small batches, or return None at the end of the byte range."""
        # UnclearHeadersError: a header is impossible, offsets do not increase, a batch that may be a marker is damaged,
        # or a control batch has no readable marker. Also for wrapper messages, because no CRC covers their offsets.
        found = self._reader.read()
        if found is None:
            if self._reader.cut is not None and self._reader.cut.first_offset <= self.last:
                raise UnclearHeadersError
            return None
        return self._one(found) if isinstance(found, Head) else self._block(found)

    def _one(self, head: Head) -> TransactionalBatches:
        view, base = self._reader.view, head.first_offset
        if base <= self.last or head.message_codec or head.delta < 0 or head.last_offset > self._limit:
            raise UnclearHeadersError
        returned = bool(head.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)) and base >= self._first_returned
        control = returned and bool(head.attributes & CONTROL_BIT)
        if control and head.size > SMALL_BATCH:
            raise UnclearHeadersError
        checked = control or head.size <= MARKER_SIZE or head.position == 0 or head.end == self._reader.end
        if checked:
            data, rows = read_batch(view, head.position, head.size)
        self.gaps += self._continues and base > self.last + 1
        self.thinned |= head.magic == MAGIC_V2 and head.count <= head.delta
        self._advance(base, head.last_offset)
        if not returned:
            return NO_BATCHES
        if checked:
            return TransactionalBatches(rows, _markers_in(data, rows, head.attributes), True)
        return TransactionalBatches(table_of([head]), {}, False)

    def _block(self, rows: BatchTable) -> TransactionalBatches:
        found = core.summarize_batches(rows)
        rises = found.first > self.last and found.increasing
        if not rises or found.negative_delta or found.wrappers or found.last > self._limit:
            raise UnclearHeadersError
        if not found.dense or found.first != self.last + 1:
            self._note_gaps(rows)
        self._advance(found.first, found.last)
        if not found.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
            return NO_BATCHES
        if found.first < self._first_returned:
            rows = rows[rows["base_offset"] >= self._first_returned]
        return TransactionalBatches(rows, _markers_in(self._reader.block, rows, found.attributes), True)

    def _advance(self, first: int, last: int) -> None:
        self._continues, self.last = True, last
        self.first = first if self.first is None else self.first

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

"""Define `Part`: a buffer with consecutive batches of a segment. Small ranges of batches share one buffer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import CONTROL_BIT
from ...errors import KafkaFormatError
from ...types import BATCH_DTYPE, BatchTable, Buffer, last_offset
from ..format.file_view import aligned_buffer
from .events import Events
from .models import Damage
from .part_builder import TABLE_ROWS
from .parts import Run
from .plan import SegmentPlan
from .segment_walker import Walker

SMALL_EXTENT = 1 << 16
GROUP_BYTES = 1 << 20


@dataclass
class Part:
    """Batches of a segment that were read into one buffer. The object is valid until the next `Part` is read.

    Attributes
    ----------
    plan : SegmentPlan
        The plan of the segment, which lists its valid and damaged byte ranges.
    extent : Run
        The range of valid batches to which the batches belong. If they belong to several ranges,
        the last one.
    walker : Walker
        Reader of the segment's file.
    position : int
        File position of the first byte of the buffer.
    buffer, table : bytes-like and array of BATCH_DTYPE
        The buffer, and an array with the headers of the batches in it.
    before : int
        The last offset that precedes the first batch.
    group, group_rows : sequence of Run and of int
        If the batches belong to several ranges of valid batches, `group` contains these ranges.
        `group_rows` contains the row of `table` at which each range begins.
    """

    plan: SegmentPlan
    extent: Run
    walker: Walker
    position: int
    buffer: Buffer
    table: BatchTable
    before: int
    group: Sequence[Run] = ()
    group_rows: Sequence[int] = ()

    def last_offset(self, i: int) -> int:
        """Return the last offset of batch `i`."""
        return last_offset(self.table[i])

    def batch_damage(self, row: Any, error: KafkaFormatError) -> Damage:
        """Create a `Damage` object for a batch whose records cannot be decoded although the CRC matches.

        The offsets that may be missing are computed from the previous and the next batch.
        """
        i = int(np.argmax(self.table["position"] == row["position"]))
        extent, begin, before = self.extent, 0, self.before
        if self.group:
            at = bisect_right(self.group_rows, i) - 1
            begin, extent = self.group_rows[at], self.group[at]
            before = extent.first_offset - 1
        start = self.position + int(row["position"])
        if i > begin:
            before = self.last_offset(i - 1)
        elif start == extent.position:
            before = self._before(extent, before)
        first = before + 1
        following: int | None
        if start + int(row["size"]) < extent.end:
            following = self.walker.first_offset_at(start + int(row["size"]))
        else:
            following = self._after(extent)
        count, span = int(row["count"]), int(row["last_offset_delta"]) + 1
        known = None if not 0 <= count <= span else 0 if int(row["attributes"]) & CONTROL_BIT else count
        last = None if following is None else following - 1
        return Damage(self.plan.segment.name, start, int(row["size"]), first, last, error.code, error.message, known)

    def unreadable_rest(self, error: KafkaFormatError) -> Damage:
        """Create a `Damage` object for batches that cannot be read, because the file changed after it was checked."""
        first = (self.last_offset(len(self.table) - 1) if len(self.table) else self.before) + 1
        message = f"the file changed while it was read: {error.message}"
        length = max(self.extent.end - error.position, 0)
        return Damage(
            self.plan.segment.name, error.position, length, first, self.extent.last_offset, error.code, message
        )

    def _before(self, extent: Run, default: int) -> int:
        """Return the last offset of the valid batch that directly precedes the range `extent` in the file.

        If no valid batch directly precedes `extent`, return `default`.
        """
        extents = self.plan.extents
        at = bisect_left(extents, extent.first_offset, key=lambda e: e.first_offset) - 1
        return extents[at].last_offset if at >= 0 and extents[at].end == extent.position else default

    def _after(self, extent: Run) -> int | None:
        """Return the first offset of the range of batches that follows the range `extent` in offset order.

        If `extent` is the last range of the segment, return the base offset of the next segment.
        """
        extents = self.plan.extents
        at = bisect_right(extents, extent.last_offset, key=lambda e: e.first_offset)
        return extents[at].first_offset if at < len(extents) else self.plan.segment.next_base


class GroupReader:
    """Reads several small ranges of valid batches in one read call if these ranges are close together in the file.

    One read call for several small ranges takes little more time than one read call for a single
    small range. If `ends_at_damage` is True, two ranges are not read in one call if a damaged byte
    range is between them.
    """

    def __init__(self, events: Events, walker: Walker, ends_at_damage: bool) -> None:
        self._plan = events.plan
        self._walker = walker
        self._extents = extents = events.extents
        self._buffer = aligned_buffer(min(GROUP_BYTES, max(walker.view.size, 1)))
        self._rows = np.zeros(TABLE_ROWS, BATCH_DTYPE)
        runs = extents.columns
        self._columns = np.stack((runs.position, runs.end, runs.batches, runs.last), axis=1)
        self._damage_before = np.array(events.damage_before, np.int64) if ends_at_damage else None

    def read(self, k: int) -> Part | None:
        """Read the range of batches with index `k`, and the next ranges that are close to it in the file.

        The result ends before a range that is too large, or whose bytes have changed since they
        were checked. If this is range `k` itself, return None.
        """
        columns = self._columns[k : k + TABLE_ROWS]
        # The ranges are sorted by offset. In the file, a range with higher offsets can be before range `k`.
        position = max(int(columns[0, 0]) - SMALL_EXTENT, 0)
        near = columns[:, 1] - columns[:, 0] <= SMALL_EXTENT
        if not near[0]:
            return None
        got = self._walker.view.read_into(self._buffer, position)
        near &= (columns[:, 0] >= position) & (columns[:, 1] <= position + got)
        if self._damage_before is not None:
            near &= self._damage_before[k : k + len(near)] == self._damage_before[k]
        columns = columns[: len(near) if near.all() else int(np.argmin(near))].copy()
        columns[:, :2] -= position
        n, count = core.scan_extents(self._buffer, self._rows, columns)
        if not n:
            return None
        extents = self._extents[k : k + n]
        rows = (np.cumsum(columns[:n, 2]) - columns[:n, 2]).tolist()
        before = extents[0].first_offset - 1
        return Part(
            self._plan, extents[-1], self._walker, position, self._buffer, self._rows[:count], before, extents, rows
        )

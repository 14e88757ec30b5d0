"""Define `Part`: a buffer with consecutive batches of a segment. Small ranges of batches share one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import CONTROL_BIT, MAGIC_V2, MAX_OFFSET
from ...errors import KafkaFormatError
from ...records.batch_errors import BatchErrors
from ...types import BATCH_DTYPE, TABLE_ROWS, BatchTable, Buffer, IntArray, last_offset, last_offsets
from ..damage import (
    UNKNOWN_COUNT,
    DamageColumns,
    DamagedSpans,
    Events,
    Run,
    RunColumns,
    SegmentPlan,
    Walker,
    undecodable,
)
from ..findings import Damage
from ..storage import GROUP_BYTES, SpanBuffer, window_of

SMALL_EXTENT = 1 << 16


@dataclass
class Part:
    """Batches of a segment that were read into one buffer. The object is valid until the next `Part` is read."""

    # If they belong to several ranges of valid batches, `group` contains these, `group_rows` the rows at which they
    # begin, and `extent` is the last range.

    plan: SegmentPlan
    extent: Run
    walker: Walker
    position: int  # of the first byte of the buffer
    buffer: Buffer
    table: BatchTable
    before: int  # last offset that precedes the first batch
    group: Sequence[Run] = ()
    group_rows: Sequence[int] = ()

    def last_offset(self, i: int) -> int:
        return last_offset(self.table[i])

    def first_offset(self, i: int) -> int:
        """Return the first offset of batch `i`. Only a wrapper message is read for this."""
        row = self.table[i]
        if row["magic"] < MAGIC_V2 and row["count"] < 0:
            return self.walker.first_offset_at(self.position + int(row["position"]))
        return int(row["base_offset"])

    def batches_near(self, start: int, end: int) -> BatchTable:
        """Return the batches that can contain offsets in [start, end), and at most one batch on each side."""
        # The offset of an undecodable wrapper message can be wrong. Therefore, the adjacent batches are included.
        table = self.table
        if not len(table) or (self.before + 1 >= start and self.last_offset(len(table) - 1) < end):
            return table
        last = last_offsets(table)
        low, high = np.searchsorted(last, (start, end) if end <= MAX_OFFSET else (start, MAX_OFFSET)).tolist()
        return table[max(low - 1, 0) : high + 1]

    def damage_of(self, errors: BatchErrors) -> DamagedSpans:
        """Describe the batches whose records cannot be decoded although their CRCs match, in the order of `table`."""
        # The offsets that may be missing are computed from the previous and the next batch.
        found, table = errors.columns, self.table
        by_position = np.argsort(table["position"], kind="stable")
        rows = by_position[np.searchsorted(table["position"], found.position, sorter=by_position)]
        positions = found.position + self.position
        ends = positions + table["size"][rows]
        before, following, known = self._offsets_around(rows, positions, ends)
        count, span = table["count"][rows].astype(np.int64), table["last_offset_delta"][rows].astype(np.int64) + 1
        control = (table["attributes"][rows] & CONTROL_BIT) != 0
        records = np.where((count < 0) | (count > span), UNKNOWN_COUNT, np.where(control, 0, count))
        bads = undecodable(positions, ends, records, found)
        places = (positions, ends - positions, before + 1, following - 1, known)
        columns = DamageColumns(*places, records, bads.whole, np.zeros(len(rows), np.bool_))
        columns.last[~known] = MAX_OFFSET
        order = np.argsort(rows, kind="stable")
        return DamagedSpans(self.plan.segment.name, columns.at(order), bads.at(order))

    def _offsets_around(
        self, rows: IntArray, positions: IntArray, ends: IntArray
    ) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
        """Return the last offset before each of some batches, the first offset after it, and whether that is known."""
        table, runs = self.table, RunColumns.of(self.plan.extents)
        extents, begins = RunColumns.of(self.group or [self.extent]), np.array(self.group_rows or [0], np.int64)
        at = np.searchsorted(begins, rows, "right") - 1
        begin, extents = begins[at], extents.at(at)
        # These values apply to the first batch of a range, or of the buffer.
        before = extents.first - 1 if self.group else np.full(len(rows), self.before)
        previous = np.searchsorted(runs.first, extents.first) - 1
        adjacent = (positions == extents.position) & (previous >= 0)
        adjacent[adjacent] = runs.end[previous[adjacent]] == positions[adjacent]
        before[adjacent] = runs.last[previous[adjacent]]
        inside = rows > begin
        before[inside] = last_offsets(table)[rows[inside] - 1]
        # These values apply to the last batch of a range.
        later = np.searchsorted(runs.first, extents.last, "right")
        next_base = self.plan.segment.next_base
        following = np.append(runs.first, 0 if next_base is None else next_base)[later]
        known = (later < len(runs)) | (next_base is not None)
        inside = ends < extents.end
        following[inside], known[inside] = self._first_offsets(rows[inside] + 1, ends[inside], rows), True
        return before, following, known

    def _first_offsets(self, rows: IntArray, positions: IntArray, undecodable: IntArray) -> IntArray:
        """Return the first offsets of the batches at some file positions (`rows` of `table`, or else in the file)."""
        # `undecodable` contains indexes of batches whose first offset is the offset in the header.
        table, walker = self.table, self.walker
        held = rows < len(table)
        held[held] = table["position"][rows[held]] + self.position == positions[held]
        first = np.zeros(len(rows), np.int64)
        first[held] = table["base_offset"][rows[held]]
        wrappers = np.flatnonzero(held)
        wrappers = wrappers[(table["count"][rows[wrappers]] < 0) & (table["magic"][rows[wrappers]] < MAGIC_V2)]
        wrappers = wrappers[~np.isin(rows[wrappers], undecodable)]
        if len(wrappers):
            wrappers = wrappers[np.argsort(positions[wrappers])]
            first[wrappers] = walker.wrappers.first_offsets(self.position, self.buffer, table[rows[wrappers]])
        for i in np.flatnonzero(~held).tolist():
            first[i] = walker.first_offset_at(int(positions[i]))
        return first

    def unreadable_rest(self, error: KafkaFormatError) -> Damage:
        """Create a `Damage` object for batches that cannot be read, because the file changed after it was checked."""
        first = (self.last_offset(len(self.table) - 1) if len(self.table) else self.before) + 1
        message = f"the file changed while it was read: {error.message}"
        length = max(self.extent.end - error.position, 0)
        return Damage(
            self.plan.segment.name, error.position, length, first, self.extent.last_offset, error.code, message
        )


def _count_first(mask: npt.NDArray[np.bool_]) -> int:
    """Return the number of items before the first item that is False."""
    return len(mask) if mask.all() else int(np.argmin(mask))


class GroupReader:
    """Reads several small ranges of valid batches into one buffer, with other ranges between them in the file."""

    # A `Part` for several small ranges takes little more time than one for a single range. With `ends_at_damage`, no
    # damaged byte range is between two ranges of a `Part`.

    def __init__(self, events: Events, walker: Walker, ends_at_damage: bool) -> None:
        self._events = events
        self._walker = walker
        self._extents = events.extents
        self._ends_at_damage = ends_at_damage

    @cached_property
    def _buffer(self) -> SpanBuffer:
        return SpanBuffer()

    @cached_property
    def _rows(self) -> BatchTable:
        return np.zeros(TABLE_ROWS, BATCH_DTYPE)

    @cached_property
    def _columns(self) -> IntArray:
        return self._extents.columns.as_extents()

    @cached_property
    def _damage_before(self) -> IntArray | None:
        return np.array(self._events.damage_before, np.int64) if self._ends_at_damage else None

    def read(self, k: int) -> Part | None:
        """Read the range of batches with index `k`, and near next ranges, or return None if range `k` does not fit."""
        # It ends before a range that is too large, or whose bytes have changed since they were checked.
        if k == 0 and not self._ends_at_damage and (part := self._read_small_segment()):
            return part
        return self._read_near(k)

    def _read_small_segment(self) -> Part | None:
        """Read all ranges of a small segment, together with the bytes between them."""
        buffer, table, n = self._walker.batches_of_small(self._extents.columns)
        return self._part(0, n, 0, buffer, table) if n else None

    def _read_near(self, k: int) -> Part | None:
        """Read the range of batches with index `k`, and the next ranges. Bytes in large gaps between them are not read."""
        columns = self._columns[k : k + TABLE_ROWS]
        sizes = columns[:, 1] - columns[:, 0]
        if sizes[0] > SMALL_EXTENT:
            return None
        window = window_of(self._walker.view)
        # The ranges are sorted by offset. In the file, a range with higher offsets can be before range `k`.
        lowest = max(int(columns[0, 0]) - window // 2, 0)
        near = (columns[:, 0] >= lowest) & (columns[:, 1] <= lowest + window)
        near &= (sizes <= SMALL_EXTENT) & (np.cumsum(sizes) <= GROUP_BYTES)
        if self._damage_before is not None:
            near &= self._damage_before[k : k + len(near)] == self._damage_before[k]
        columns = columns[: _count_first(near)].copy()
        position = int(columns[:, 0].min())
        columns[:, :2] -= position
        got = self._buffer.fill(self._walker.view, position, columns[:, :2])
        columns = columns[: _count_first(columns[:, 1] <= got)]
        n, count = core.scan_extents(self._buffer.data, self._rows, columns)
        if not n:
            return None
        return self._part(k, n, position, self._buffer.data, self._rows[:count])

    def _part(self, k: int, n: int, position: int, buffer: Buffer, table: BatchTable) -> Part:
        """Return a `Part` for `n` ranges of batches, beginning with range `k`."""
        extents, runs = self._extents[k : k + n], self._extents.columns
        batches, before = runs.batches[k : k + n], runs.first.item(k) - 1
        rows = (np.cumsum(batches) - batches).tolist()
        return Part(self._events.plan, extents[-1], self._walker, position, buffer, table, before, extents, rows)

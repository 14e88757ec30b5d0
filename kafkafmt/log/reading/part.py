"""Define `Part`: a buffer with consecutive batches of a segment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...constants import CONTROL_BIT, MAGIC_V2, MAX_OFFSET
from ...errors import KafkaFormatError
from ...records.batch_errors import BatchErrors
from ...types import BatchTable, Buffer, ByteArray, IntArray, byte_view, last_offset, last_offsets
from ..damage import (
    UNKNOWN_COUNT,
    DamageColumns,
    DamagedSpans,
    Run,
    RunColumns,
    SegmentPlan,
    Walker,
    undecodable,
)
from ..findings import Damage
from ..storage import aligned_buffer

Memory = Callable[[int], ByteArray]
"""Function that returns an array of at least the given number of bytes."""

BUFFER_STEP = 1 << 20
"""The sizes of buffers are multiples of this number, so that a buffer can be used again."""


class PartBuffers:
    """A `Memory` whose buffers are used again. One thread at a time calls it; any thread gives buffers back."""

    def __init__(self) -> None:
        self._free: list[ByteArray] = []
        self._lent: list[ByteArray] = []

    def __call__(self, size: int) -> ByteArray:
        buffer = self._free.pop() if self._free else aligned_buffer(0)
        if len(buffer) < size:
            buffer = aligned_buffer(-(-size // BUFFER_STEP) * BUFFER_STEP)
        self._lent.append(buffer)
        return buffer

    def take(self) -> list[ByteArray]:
        """Return the buffers that were lent since the last call."""
        taken, self._lent = self._lent, []
        return taken

    def give_back(self, buffers: list[ByteArray]) -> None:
        """Allow that the buffers are used again."""
        self._free += buffers


@dataclass
class Part:
    """Batches of a segment that were read into one buffer. The object is valid until the next `Part` is read."""

    # If a `Memory` was given to the reader, the object stays valid. However, its walker is then only valid until the
    # next `Part` is read.

    plan: SegmentPlan
    run: Run
    walker: Walker
    position: int  # of the first byte of the buffer
    buffer: Buffer
    table: BatchTable
    before: int  # last offset that precedes the first batch

    def copied(self, memory: Memory) -> Part:
        """Return a copy with its own memory, which contains only the batches in the table."""
        if not len(self.table):
            return replace(self, buffer=b"")
        positions = self.table["position"].astype(np.int64)
        begin, end = int(positions.min()), int((positions + self.table["size"]).max())
        buffer, table = memory(end - begin)[: end - begin], self.table.copy()
        buffer[:] = np.frombuffer(byte_view(self.buffer)[begin:end], np.uint8)
        table["position"] -= begin
        table["payload_position"] -= begin
        return replace(self, position=self.position + begin, buffer=buffer, table=table)

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
        table, runs = self.table, RunColumns.of(self.plan.runs)
        run, next_base = self.run, self.plan.segment.next_base
        # This value applies to the first batch of the range, or of the buffer.
        previous = int(np.searchsorted(runs.first, run.first_offset)) - 1
        adjoins = previous >= 0 and runs.end[previous] == run.position
        before = np.where(adjoins & (positions == run.position), runs.last[previous] if adjoins else 0, self.before)
        inside = rows > 0
        before[inside] = last_offsets(table)[rows[inside] - 1]
        # This value applies to the last batch of the range.
        later = int(np.searchsorted(runs.first, run.last_offset, "right"))
        known = np.full(len(rows), later < len(runs) or next_base is not None)
        following = np.full(len(rows), runs.first[later] if later < len(runs) else next_base or 0)
        inside = ends < run.end
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
        length = max(self.run.end - error.position, 0)
        return Damage(self.plan.segment.name, error.position, length, first, self.run.last_offset, error.code, message)

"""Remove batches and damaged byte ranges that have already been processed from a segment plan."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...constants import MIN_OFFSET, NO_END
from ...text import offset_range
from ...types import last_offset, last_offsets
from ..format.file_view import FileView
from .compaction import MANY_GAPS, runs_lack_offsets
from .damaged_spans import DamageColumns
from .index_ranges import Stretch, last_offset_in
from .models import Damage
from .part import Part
from .parts import RunColumns
from .plan import SegmentPlan

_LATE = "batches before these batches have higher offsets than {}"
_FOREIGN = "the batches are out of place in the file, so the task that reads {} may not find them"


@dataclass(frozen=True)
class SegmentRemainder:
    """The part of a segment that has not been read yet, as the position and the offset at which it begins.

    Attributes
    ----------
    position : int
        Position after the batches that have been read, in bytes.
    reached : int
        Offset after the last batch that has been read. 0 if no batch has been read.
    """

    position: int = 0
    reached: int = 0

    def after(self, position: int, reached: int) -> SegmentRemainder:
        """Create an object for the rest of the segment. It starts at file position `position` and offset `reached`."""
        return SegmentRemainder(position, reached)

    def of(self, plan: SegmentPlan) -> SegmentPlan:
        """Return a copy of `plan` with only the batches that have not been read yet."""
        extents = []
        for extent in plan.extents:
            if extent.first_offset < self.reached and extent.position < self.position < extent.end:
                extent = replace(extent, position=self.position, first_offset=self.reached, records=None)
            if extent.last_offset >= self.reached:
                extents.append(extent)
        return replace(plan, extents=extents)

    def late(self, plan: SegmentPlan, start: int, end: int) -> list[Damage]:
        """Return a `Damage` object for each unread range of batches with lower offsets than batches that have been read.

        A plan delivers these batches although they are out of place in the file. It is too late to
        deliver them in offset order. Only batches with offsets in [start, end) are returned.
        """
        runs = RunColumns.of(plan.extents)
        late = (runs.position >= self.position) & (runs.last < min(self.reached, end)) & (runs.last >= start)
        return _late(plan, runs.at(late))

    def trimmed(self, part: Part) -> tuple[Part | None, list[Damage]]:
        """Return the unread batches in `part`, and a `Damage` object for each batch with contradictory offsets.

        If no unread batch remains, None is returned instead of the batches. Offsets are
        contradictory if they overlap the offsets of batches that have already been read.
        """
        table = part.table
        keep = table["base_offset"] >= self.reached
        overlaps = ~keep & (last_offsets(table) >= self.reached)
        return _with_rows(part, keep), [_contradiction(part, row, self.reached) for row in table[overlaps]]


@dataclass(frozen=True)
class StretchRemainder:
    """The unread part of a byte range of a segment. Other tasks read the other byte ranges of the segment.

    Without a plan, a task delivers the batches in its byte range. With a plan, a task delivers the batches
    in its offset range, also if they are out of place in the file. No offset is delivered twice, because
    the borders of the byte ranges also divide the offsets.

    Attributes
    ----------
    stretch : Stretch
        The byte range of the segment that this task reads.
    position : int
        Position after the batches that have been read, in bytes. Initially, the start of the byte
        range.
    low, high : int
        Offset range that this task reads; `high` is exclusive. Batches whose last offsets are in this
        range belong to this task.
    reached : int
        Offset after the last batch that has been read. Initially, `low`.
    divided : bool
        Whether another task can deliver the offsets below `low` without a plan. False if a wrapper message
        is at the border. Its header contains only its last offset, so the other task uses a plan.
    compacted : bool
        True if the log is known to be compacted. If False, the batches can still show that it is compacted.
    """

    stretch: Stretch
    position: int
    low: int = MIN_OFFSET
    high: int = NO_END
    reached: int = MIN_OFFSET
    divided: bool = False
    compacted: bool = False

    def after(self, position: int, reached: int) -> StretchRemainder:
        """Create an object for the rest of the byte range. It starts at file position `position` and offset `reached`."""
        return replace(self, position=position, reached=reached)

    @property
    def _positions(self) -> tuple[int, int]:
        """Range of file positions, as start and end. The task reports all damage that begins in it.

        If no other task reads the bytes before or after this task's byte range, these bytes are
        included, because the offset index may be wrong.
        """
        start, end = self.stretch.start, self.stretch.end
        begin = 0 if start.outermost and self.position == start.position else self.position
        return begin, NO_END if end.outermost else end.position

    @property
    def _readable_end(self) -> int:
        """File position at which reading ends. A broker may have appended batches after the end of the segment."""
        end = self.stretch.end
        return NO_END - 1 if end.indexed or end.outermost else end.position

    def of(self, plan: SegmentPlan) -> SegmentPlan:
        """Return a copy of `plan` with only the valid and the damaged byte ranges that this task must still process.

        Valid byte ranges are not divided. Therefore, they can also contain batches that have already been
        read, and batches that belong to other tasks. Damage that begins elsewhere is included if it may
        contain unread offsets of this task. Therefore, several tasks can report the same damage.
        """
        extents = [
            e
            for e in plan.extents
            if e.last_offset >= self.reached and e.first_offset < self.high and e.position < self._readable_end
        ]
        damaged = DamageColumns.of(plan.damaged)
        low, high = self._positions
        inside = (low <= damaged.position) & (damaged.position < high)
        # Other damage can begin in bytes that no task reads, or in bytes that another task reads without a plan.
        elsewhere = (damaged.last >= self.reached) & (damaged.first < self.high) & ~damaged.empty
        elsewhere &= damaged.position < self._readable_end
        return replace(plan, extents=extents, damaged=list(itertools.compress(plan.damaged, inside | elsewhere)))

    def late(self, plan: SegmentPlan, start: int, end: int) -> list[Damage]:
        """Return a `Damage` object for each range of valid batches that possibly no task delivers.

        A plan delivers these batches although they are out of place in the file. There are two kinds:

        - The offsets belong to this task, but it has already delivered higher offsets.
        - This task reads the bytes, but the offsets belong to another task. If all bytes of the other
          task are valid, that task uses no plan, and delivers no batches from other places.

        Only batches with offsets in [start, end) are returned.
        """
        runs = RunColumns.of(plan.extents)
        selected = (runs.last >= start) & (runs.first < end)
        unread = (runs.position >= self.position) | (runs.end <= self.stretch.start.position)
        own = (self.low <= runs.last) & (runs.last < min(self.reached, self.high)) & unread
        low, high = self._positions
        foreign = (low <= runs.position) & (runs.position < high) & ((runs.last < self.low) | (runs.last >= self.high))
        foreign &= selected
        if foreign.any():
            foreign &= self._in_accepted_gap(runs)
        return _late(plan, runs.at(selected & own)) + _late(plan, runs.at(foreign), _FOREIGN)

    def _in_accepted_gap(self, runs: RunColumns) -> npt.NDArray[np.bool_]:
        """Return a mask that is True for each range of batches whose offsets are in a gap that another task may accept.

        Without a plan, a task accepts missing offsets between two adjacent batches only if the log was
        compacted, and only if the batch before the gap and the batch after it are in order. There is an
        exception: a batch at the border between two tasks need not be in order.
        """
        order = np.argsort(runs.position, kind="stable")
        position, end, first, last = (column[order] for column in (runs.position, runs.end, runs.first, runs.last))
        single = runs.batches[order] == 1
        adjacent = np.append(0, end[:-1]) == position
        before = np.append(MIN_OFFSET, last[:-1])
        gaps = adjacent & (before + 1 < first)
        if not (self.compacted or runs_lack_offsets(runs) or np.count_nonzero(gaps[1:]) >= MANY_GAPS):
            return np.zeros(len(runs), bool)
        falls = adjacent[1:] & (first[1:] <= last[:-1])
        lone = np.append(falls, False) & single & ((position != self.stretch.start.position) | (first != self.low))
        gaps &= ~lone
        lone = np.append(False, falls) & single & ((position != self.stretch.end.position) | (first != self.high))
        gaps[1:] &= ~lone[:-1]
        before, after = before[gaps], first[gaps]
        by_offset = np.argsort(before, kind="stable")
        highest = np.maximum.accumulate(np.append(MIN_OFFSET, after[by_offset]))
        accepted: npt.NDArray[np.bool_] = highest[np.searchsorted(before[by_offset], runs.first)] > runs.last
        return accepted

    def _other_task_delivers(self, view: FileView) -> bool:
        """Return whether the task before this task can deliver batches up to the border between them without a plan."""
        start = self.stretch.start
        last = last_offset_in(view, start.before, start.position)
        return last is not None and last < self.low

    def trimmed(self, part: Part) -> tuple[Part | None, list[Damage]]:
        """Return the unread batches in `part`, and a `Damage` object for each batch with contradictory offsets.

        If no unread batch remains, None is returned instead of the batches. Offsets are contradictory if
        they overlap offsets that have already been read, or that another task can read.
        """
        last = last_offsets(part.table)
        keep = (
            (last >= self.reached) & (last < self.high) & (part.table["position"] < self._readable_end - part.position)
        )
        overlaps: list[Damage] = []
        if keep.any() and (self.divided or self.reached > self.low):
            # The batches are in offset order, so only the first one can begin below this offset.
            first = int(np.argmax(keep))
            row = part.table[first]
            unsure = first or part.before + 1 < self.reached
            if (
                unsure
                and part.walker.first_offset_at(int(row["position"]) + part.position) < self.reached
                and (self.reached > self.low or self._other_task_delivers(part.walker.view))
            ):
                keep[first] = False
                overlaps.append(_contradiction(part, row, self.reached))
        return _with_rows(part, keep), overlaps


Remainder: TypeAlias = SegmentRemainder | StretchRemainder


def _with_rows(part: Part, keep: npt.NDArray[np.bool_]) -> Part | None:
    """Return `part` with only the batches for which `keep` is True. If there is no such batch, return None."""
    if keep.all():
        return part
    kept = np.flatnonzero(keep)
    if not len(kept):
        return None
    first = int(kept[0])
    rows = [max(row - first, 0) for row in part.group_rows]
    before = part.last_offset(first - 1) if first else part.before
    return replace(part, table=part.table[kept], before=before, group_rows=rows)


def _late(plan: SegmentPlan, runs: RunColumns, reason: str = _LATE) -> list[Damage]:
    """Return a `Damage` object for each range of valid batches that cannot be delivered in offset order."""
    return [
        Damage(
            plan.segment.name,
            run.position,
            run.end - run.position,
            run.first_offset,
            run.last_offset,
            "contradicting_offsets",
            reason.format(offset_range(run.first_offset, run.last_offset)),
            run.records,
        )
        for run in runs.objects()
    ]


def _contradiction(part: Part, row: np.void, lowest: int) -> Damage:
    """Create a `Damage` object for a batch whose offsets contradict other batches.

    The parameter `row` is the header of the damaged batch, and `lowest` is the first offset that
    may be missing.
    """
    first, last = int(row["base_offset"]), last_offset(row)
    message = f"the batches before or after this batch contradict its {offset_range(first, last)}"
    position, size = part.position + int(row["position"]), int(row["size"])
    name, records = part.plan.segment.name, max(int(row["count"]), 0)
    return Damage(name, position, size, lowest, last, "contradicting_offsets", message, records)

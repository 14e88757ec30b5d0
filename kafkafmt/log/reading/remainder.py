"""Select what a reader must still deliver of a segment that has been planned after reading in one pass has failed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...constants import BATCH_HEADER_SIZE, MIN_OFFSET, NO_END
from ...support.text import offset_range
from ...types import last_offsets
from ..damage import UNKNOWN_COUNT, DamageColumns, Run, RunColumns, Runs, SegmentPlan
from ..findings import Damage
from ..scanning import Border, Head, Share, border_offset, first_offset_at
from ..storage import FileView
from .part import Part


@dataclass(frozen=True)
class Remainder:
    """The batches of a segment that a reader has not delivered yet."""

    # Several tasks can read a segment. The borders of their byte ranges also divide the offsets, so no offset is
    # delivered twice, also if the offset index is wrong. A batch belongs to the task that its last offset belongs to.

    position: int = 0
    end: int = NO_END  # exclusive
    low: int = MIN_OFFSET
    high: int = NO_END  # exclusive
    sure_low: bool = False  # the index is right about the border: the other task may need no plan
    sure_high: bool = False
    file_end: int = NO_END  # of reading: a broker may have appended batches

    @classmethod
    def of_share(cls, share: Share, view: FileView) -> Remainder:
        """Return an object for an unread byte range. Other tasks read the bytes before and after it."""
        start, end = share.start, share.end
        open_end = end.indexed or end.outermost
        rest = cls(
            0 if start.outermost else start.position,
            NO_END if end.outermost else end.position,
            file_end=NO_END if open_end else end.position,
        )
        if start.indexed and not start.outermost:
            low = border_offset(view, start)
            rest = replace(rest, low=low, sure_low=_is_sure(view, start, low))
        if end.indexed and not end.outermost:
            high = border_offset(view, end)
            rest = replace(rest, high=high, sure_high=_is_sure(view, end, high))
        return rest

    def after(self, position: int, reached: int) -> Remainder:
        """Return the rest after the batches up to file position `position`, and up to the offset `reached`."""
        return replace(self, position=position, low=reached, sure_low=True)

    def of(self, plan: SegmentPlan) -> SegmentPlan:
        """Return a copy of `plan` with the unread batches and the damage among them, which several tasks can report."""
        runs, damaged = RunColumns.of(plan.runs), DamageColumns.of(plan.damaged)
        unread = (runs.last >= self.low) & (runs.first < self.high) & (runs.position < self.file_end)
        inside = (damaged.position >= self.position) & (damaged.position < self.end)
        # Other damage can begin where no task reads, or where another task reads without a plan.
        lost = (damaged.last >= self.low) & (damaged.first < self.high) & ~damaged.empty
        found = inside | (lost & (damaged.position < self.file_end))
        runs = runs.at(unread)
        if self.sure_low:  # if a batch begins at `position`, the batches before it have been read
            cut = (runs.position < self.position) & (self.position < runs.end) & (runs.first < self.low)
            runs.position[cut], runs.first[cut], runs.records[cut] = self.position, self.low, UNKNOWN_COUNT
        kept = plan.damaged if found.all() else list(itertools.compress(plan.damaged, found))
        return replace(plan, runs=Runs(runs), damaged=kept)

    def contradicting(self, plan: SegmentPlan, start: int, end: int) -> list[Damage]:
        """Return the batches in the byte range and in [start, end) that possibly no task delivers, as damage."""
        runs = RunColumns.of(plan.runs)
        found = (runs.position >= self.position) & (runs.position < self.end)
        found &= (runs.last < self.low) & self.sure_low | (runs.first >= self.high) & self.sure_high
        found &= (runs.last >= start) & (runs.first < end)
        return [_damage(plan, run) for run in runs.at(found).objects()]

    def trimmed(self, part: Part) -> tuple[Part | None, list[Damage]]:
        """Return the unread batches in `part`, if any, and a batch that begins before them as damage."""
        if (self.low, self.high, self.file_end) == (MIN_OFFSET, NO_END, NO_END):
            return part, []
        last, positions = last_offsets(part.table), part.table["position"] + part.position
        keep = (last >= self.low) & (last < self.high) & (positions < self.file_end)
        lost: list[Damage] = []
        if self.sure_low and keep.any():
            # The batches are in offset order, so only the first one can begin below this offset.
            first = int(np.argmax(keep))
            if part.first_offset(first) < self.low:
                keep[first] = False
                lost = [
                    _damage(part.plan, run) for run in part.walker.runs(part.table[first : first + 1], part.position)
                ]
        return _with_rows(part, keep), lost


def _is_sure(view: FileView, border: Border, offset: int) -> bool:
    """Return whether the batch at `border` begins with `offset`. The header of a wrapper message does not show this."""
    wrapper = Head(border.position, view.read(border.position, BATCH_HEADER_SIZE)).wrapper
    return not wrapper and first_offset_at(view, border) == offset


def _with_rows(part: Part, keep: npt.NDArray[np.bool_]) -> Part | None:
    """Return `part` with only the batches for which `keep` is True. If there is no such batch, return None."""
    if keep.all():
        return part
    kept = np.flatnonzero(keep)
    if not len(kept):
        return None
    first = int(kept[0])
    return replace(part, table=part.table[kept], before=part.last_offset(first - 1) if first else part.before)


def _damage(plan: SegmentPlan, run: Run) -> Damage:
    """Describe valid batches that this reader cannot deliver in order."""
    offsets = offset_range(run.first_offset, run.last_offset)
    message = f"other batches that were read, or the offset index, contradict the {offsets} of these batches"
    size = run.end - run.position
    return Damage(
        plan.segment.name,
        run.position,
        size,
        run.first_offset,
        run.last_offset,
        "contradicting_offsets",
        message,
        run.records,
    )

"""Reduce the plan of a segment to the batches and damaged spans that have not been delivered yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...constants import NO_END
from ...types import last_offset, last_offsets
from .index_ranges import Stretch
from .models import Damage
from .part import Part
from .plan import SegmentPlan


@dataclass(frozen=True)
class SegmentRemainder:
    """The part of a segment that has not been delivered yet. Its batches are selected by their offsets.

    Attributes
    ----------
    position : int
        Position after the batches that were delivered, in bytes.
    reached : int
        The offset after the last batch that was delivered. 0 if no batch was delivered.
    """

    position: int = 0
    reached: int = 0

    def after(self, position: int, reached: int) -> SegmentRemainder:
        """Return the part of the segment that remains after another range of batches has been delivered."""
        return SegmentRemainder(position, reached)

    def of(self, plan: SegmentPlan) -> SegmentPlan:
        """Return a plan of the batches that have not been delivered."""
        extents = []
        for extent in plan.extents:
            if extent.first_offset < self.reached and extent.position < self.position < extent.end:
                extent = replace(extent, position=self.position, first_offset=self.reached, records=None)
            if extent.last_offset >= self.reached:
                extents.append(extent)
        return replace(plan, extents=extents)

    def trimmed(self, part: Part) -> tuple[Part | None, list[Damage]]:
        """Return the batches of a part that remain to be delivered, and the damage in the part.

        The returned part is None if no batch remains. The damage consists of batches whose offsets
        contradict delivered batches.
        """
        table = part.table
        keep = table["base_offset"] >= self.reached
        overlaps = ~keep & (last_offsets(table) >= self.reached)
        return _with_rows(part, keep), [_contradiction(part, row, self.reached) for row in table[overlaps]]


@dataclass(frozen=True)
class StretchRemainder:
    """The part of a stretch that has not been delivered yet. Its batches are selected by their positions.

    Attributes
    ----------
    stretch : Stretch
        The stretch to which reading is restricted.
    position : int
        Position after the batches that were delivered, in bytes. Initially, the start of the
        stretch.
    low, high : int
        The offsets that this task delivers; `high` is exclusive. Other tasks deliver the offsets
        before and after this range.
    """

    stretch: Stretch
    position: int
    low: int = 0
    high: int = NO_END

    def after(self, position: int, reached: int) -> StretchRemainder:
        """Return the bytes that remain to be read after the batches before `position` were delivered."""
        return replace(self, position=position)

    def of(self, plan: SegmentPlan) -> SegmentPlan:
        """Return a plan with the batches and damaged spans that remain to be delivered.

        The extents of the plan may begin before the remaining batches, or end after them.
        """
        low, high = self.position, self.stretch.end.position
        extents = [e for e in plan.extents if e.end > low and e.position < high]
        return replace(plan, extents=extents, damaged=[d for d in plan.damaged if low <= d.position < high])

    def trimmed(self, part: Part) -> tuple[Part | None, list[Damage]]:
        """Return the batches of a part that remain to be delivered, and the damage in the part.

        The part is None if no batch remains. The damage describes the batches whose offsets belong
        to other stretches.
        """
        table = part.table
        position = table["position"] + part.position
        keep = (position >= self.position) & (position < self.stretch.end.position)
        foreign = keep & ((table["base_offset"] < self.low) | (last_offsets(table) > self.high - 1))
        return _with_rows(part, keep & ~foreign), [_contradiction(part, row, self.low) for row in table[foreign]]


Remainder: TypeAlias = SegmentRemainder | StretchRemainder


def _with_rows(part: Part, keep: npt.NDArray[np.bool_]) -> Part | None:
    """Return a part with the batches for which `keep` is True, or None if there are no such batches."""
    if keep.all():
        return part
    kept = np.flatnonzero(keep)
    if not len(kept):
        return None
    first = int(kept[0])
    rows = [max(row - first, 0) for row in part.group_rows]
    before = part.last_offset(first - 1) if first else part.before
    return replace(part, table=part.table[kept], before=before, group_rows=rows)


def _contradiction(part: Part, row: np.void, lowest: int) -> Damage:
    """Return the damage for a batch whose offsets contradict batches that are delivered.

    `lowest` is the lowest offset that may be missing. `row` is the header of the batch.
    """
    first, last = int(row["base_offset"]), last_offset(row)
    message = f"offsets {first} to {last} contradict the batches before or after them"
    position, size = part.position + int(row["position"]), int(row["size"])
    name, records = part.plan.segment.name, max(int(row["count"]), 0)
    return Damage(name, position, size, lowest, last, "contradicting_offsets", message, records)

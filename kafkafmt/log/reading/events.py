"""Select the extents and damaged spans of a segment that overlap a range of offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from ...constants import MAX_OFFSET
from ...types import IntArray
from .models import Damage
from .parts import Run
from .plan import SegmentPlan

Event = TypeVar("Event", Run, Damage)


class Events:
    """The extents and damaged spans of a plan that overlap the offsets [start, end), in offset order.

    Attributes
    ----------
    damage_before : list of int
        The number of damaged spans before each extent, followed by the total number of damaged
        spans. A damaged span with the same offset as an extent counts as before it.
    """

    extents: list[Run]
    damaged: list[Damage]

    def __init__(self, plan: SegmentPlan, start: int, end: int) -> None:
        self.plan = plan
        self.extents, offsets = _select(plan.extents, start, end)
        self.damaged, damage_offsets = _select(plan.damaged, start, end)
        self.damage_before: list[int] = np.searchsorted(damage_offsets, offsets, "right").tolist()
        self.damage_before.append(len(self.damaged))

    def __iter__(self) -> Iterator[Run | Damage]:
        at = 0
        for extent, before in zip(self.extents, self.damage_before, strict=False):
            yield from self.damaged[at:before]
            yield extent
            at = before
        yield from self.damaged[at:]


def _select(events: list[Event], start: int, end: int) -> tuple[list[Event], IntArray]:
    """Return the extents or damaged spans that overlap the offsets [start, end), and their first offsets."""
    first = np.array([e.first_offset or 0 for e in events], np.int64)
    last = np.array([MAX_OFFSET if e.last_offset is None else e.last_offset for e in events], np.int64)
    keep = np.full(len(events), start <= MAX_OFFSET)
    if start <= MAX_OFFSET:
        keep &= np.maximum(first, last) >= start
    if end <= MAX_OFFSET:
        keep &= first < end
    if (first[1:] < first[:-1]).any():
        order = np.argsort(first, kind="stable")
        order = order[keep[order]]
    elif keep.all():
        return events, first
    else:
        order = np.flatnonzero(keep)
    return [events[i] for i in order.tolist()], first[order]

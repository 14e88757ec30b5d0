"""Select the valid and the damaged byte ranges of a segment that overlap a range of offsets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from ...constants import MAX_OFFSET
from ...types import IntArray
from ..findings import Damage
from .damaged_spans import DamageColumns, DamagedSpans
from .parts import Run, RunColumns, Runs
from .plan import SegmentPlan


class Events:
    """Valid and damaged byte ranges of a segment that overlap the offsets [start, end), in offset order."""

    runs: Runs
    damaged: Sequence[Damage]

    def __init__(self, plan: SegmentPlan, start: int, end: int) -> None:
        self.plan = plan
        runs, damaged = RunColumns.of(plan.runs), DamageColumns.of(plan.damaged)
        rows = _selected(runs.first, runs.last, start, end)
        self.runs = Runs(runs) if rows is None else Runs(runs.at(rows))
        self._offsets = damaged.first
        self.damaged, rows = plan.damaged, _selected(damaged.first, damaged.last, start, end)
        if rows is not None:
            self._offsets = damaged.first[rows]
            self.damaged = _at(plan.damaged, rows.tolist())

    @cached_property
    def damage_before(self) -> list[int]:
        """Number of damaged byte ranges before each valid byte range, followed by their total number."""
        counts: list[int] = np.searchsorted(self._offsets, self.runs.columns.first, "right").tolist()
        return [*counts, len(self.damaged)]

    def __iter__(self) -> Iterator[Run | Damage]:
        at = 0
        for run, before in zip(self.runs, self.damage_before, strict=False):
            yield from self.damaged[at:before]
            yield run
            at = before
        yield from self.damaged[at:]


class EventDamage:
    """Base class of callbacks that receive all damage of a segment plan at once, before the batches of the segment."""

    # `PartitionLog.parts` calls `begin` before the batches of a planned segment, and `end` after them. It calls the
    # object itself for each damaged byte range that the plan does not list.

    @abstractmethod
    def __call__(self, damage: Damage) -> None:
        """Process a damaged byte range that the plan does not list, before the batches after it."""

    @abstractmethod
    def begin(self, events: Events) -> None:
        """Process the damage in `events`, before the batches in `events` are yielded."""

    @abstractmethod
    def end(self, file: str) -> None:
        """Process the damage after the last batch of the segment. `file` is the name of the segment."""


def _at(damaged: Sequence[Damage], rows: list[int]) -> Sequence[Damage]:
    """Return the items of `damaged` with the indexes `rows`."""
    if rows and rows == list(range(rows[0], rows[0] + len(rows))):
        return damaged[rows[0] : rows[-1] + 1]
    if isinstance(damaged, DamagedSpans):
        return damaged.at(np.array(rows, np.int64))
    spans = list(damaged)
    return [spans[i] for i in rows]


def _selected(first: IntArray, last: IntArray, start: int, end: int) -> IntArray | None:
    """Return the indexes of the ranges that overlap [start, end), in offset order, or None if this changes nothing."""
    if not len(first):  # usually, nothing is damaged
        return None
    keep = np.full(len(first), start <= MAX_OFFSET)
    if start <= MAX_OFFSET:
        keep &= np.maximum(first, last) >= start
    if end <= MAX_OFFSET:
        keep &= first < end
    if (first[1:] < first[:-1]).any():
        order = np.argsort(first, kind="stable")
        rows: IntArray = order[keep[order]]
        return rows
    return None if keep.all() else np.flatnonzero(keep)

"""Which of several sound batches to believe where their offsets contradict each other.

Base offsets stand outside the CRC, so a sound batch may lie about its place. Of the runs of a segment the heaviest
chain with rising offsets is believed; of equally heavy ones that with the most runs that continue each other without
a gap, less the gaps that neither damage nor a batch left out explains. So the batch that fits neither neighbour goes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import MAX_OFFSET, MAX_RELATIVE_OFFSET
from ...types import IntArray
from .parts import Parts

REACH = 2048
"""How many runs back a run is compared with; more than that in a row are never left out together."""


def in_order(parts: Parts, lower: int, upper: int | None) -> bool:
    """Do the runs rise, and lie within [lower, upper)? The last offset of all has no next one, so no batch ends there."""
    first, last = parts.runs.first, parts.runs.last
    if not len(first):
        return lower - 1 < (MAX_OFFSET if upper is None else upper)
    if int(first[0]) < lower or (last < first).any() or (first[1:] <= last[:-1]).any():
        return False
    return not _adrift(parts, lower).any() and int(last[-1]) < (MAX_OFFSET if upper is None else upper)


def _adrift(parts: Parts, lower: int) -> npt.NDArray[np.bool_]:
    """Which runs are lone batches directly behind damage, further from what precedes that than a segment reaches: nothing confirms them.

    A segment named 0 may be a piece that somebody cut out of another: its name says nothing.
    """
    runs = parts.runs
    before = np.concatenate(([lower - 1], runs.last))[: len(runs)]
    distance = runs.first.view(np.uint64) - before.view(np.uint64)  # int64 can overflow
    far = (runs.first > before) & (distance > MAX_RELATIVE_OFFSET + 1)
    if not lower:
        far[:1] = False
    adrift: npt.NDArray[np.bool_] = far & (runs.batches == 1) & parts.after_bad()
    return adrift


def believable(parts: Parts, lower: int, upper: int | None) -> set[int]:
    """The indexes of the runs among all runs to believe; the others contradict them. Runs must be cut at gaps."""
    runs, end = parts.runs, MAX_OFFSET if upper is None else upper
    index = np.flatnonzero(
        ~_adrift(parts, lower) & (lower <= runs.first) & (runs.first <= runs.last) & (runs.last < end)
    )
    if not len(index):
        return set()
    first, last, batches = runs.first[index], runs.last[index], runs.batches[index]
    spans = np.cumsum(np.concatenate(([0], last - first + 1)))
    bad = np.searchsorted(parts.bad_at, parts.run_at[index])
    start = _bonus(first - lower, spans[:-1], bad != 0)
    score, parent = np.empty(len(index), np.int64), np.empty(len(index), np.int64)
    core.heaviest_chain(first, last, batches << 32, spans, bad, start, parent, score, REACH)
    total = score if upper is None else score + _bonus(upper - 1 - last, spans[-1] - spans[1:], bad != bad[-1])
    best_ends = np.flatnonzero(total == total.max())
    at = int(
        best_ends[np.argmin(last[best_ends])]
    )  # a hurt offset that lies too high is followed by what seems too low
    parents, places = parent.tolist(), index.tolist()
    chain = set()
    while at >= 0:
        chain.add(places[at])
        at = parents[at]
    return chain


def _bonus(gap: IntArray, left_out: IntArray, damaged: npt.NDArray[np.bool_]) -> IntArray:
    """A gap of no offsets counts for a chain, one that nothing explains against it."""
    return np.where(gap == 0, 1, np.where((gap == left_out) | damaged, 0, -1))

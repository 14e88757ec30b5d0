"""Choose which valid batches to accept if their offsets contradict each other.

The CRC does not cover base offsets, so a valid batch can have a wrong base offset. A run consists
of adjacent batches. Among all sequences of runs with increasing offsets, the sequence with the most
batches is accepted. If several sequences have equally many batches, the one with the highest score
is accepted. The score counts the pairs of consecutive runs without a gap between them. Each gap
that neither damage nor an omitted batch explains reduces the score by 1. As a result, a batch that
fits neither the previous nor the next batch is not accepted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import MAX_OFFSET, MAX_RELATIVE_OFFSET
from ...types import IntArray
from .parts import Parts

REACH = 2048
"""Number of preceding runs with which each run is compared. At most REACH - 1 consecutive runs can
be omitted.
"""


def in_order(parts: Parts, lower: int, upper: int | None) -> bool:
    """Return whether the offsets of the runs increase and are within [lower, upper).

    No batch can end at the largest 64-bit offset, because the log end offset must be higher.
    """
    first, last = parts.runs.first, parts.runs.last
    if not len(first):
        return lower - 1 < (MAX_OFFSET if upper is None else upper)
    if int(first[0]) < lower or (last < first).any() or (first[1:] <= last[:-1]).any():
        return False
    # Usually, all base offsets are plausible, and the slower check is not needed.
    near = int(last[-1]) - lower <= MAX_RELATIVE_OFFSET
    return (near or not _adrift(parts, lower).any()) and int(last[-1]) < (MAX_OFFSET if upper is None else upper)


def _adrift(parts: Parts, lower: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the runs with an implausible base offset.

    The base offset of a run is implausible if both conditions are true:

    - The run is a single batch that directly follows damage.
    - The distance in offsets from the previous run exceeds the largest range of offsets of a
      segment.

    If the segment's base offset is 0, the first run is never in the mask, because the file may be
    an excerpt of another segment.
    """
    runs = parts.runs
    before = np.concatenate(([lower - 1], runs.last))[: len(runs)]
    distance = runs.first.view(np.uint64) - before.view(np.uint64)  # the difference can overflow int64
    far = (runs.first > before) & (distance > MAX_RELATIVE_OFFSET + 1)
    if not lower:
        far[:1] = False
    if not far.any():  # usually, no run is far from the previous run
        return far
    adrift: npt.NDArray[np.bool_] = far & (runs.batches == 1) & parts.after_bad()
    return adrift


def believable(parts: Parts, lower: int, upper: int | None) -> set[int]:
    """Return the indexes of the runs to accept. All other runs have offsets that contradict the accepted runs.

    The caller must have split the runs at all gaps in the offsets.
    """
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
    # Choose the lowest end. A single offset that is too high would make all later valid offsets seem too low.
    at = int(best_ends[np.argmin(last[best_ends])])
    parents, places = parent.tolist(), index.tolist()
    chain = set()
    while at >= 0:
        chain.add(places[at])
        at = parents[at]
    return chain


def _bonus(gap: IntArray, left_out: IntArray, damaged: npt.NDArray[np.bool_]) -> IntArray:
    """Return the score of each gap between two runs.

    The score is 1 if no offset is missing, 0 if damage or omitted runs explain the gap, and
    otherwise -1.
    """
    return np.where(gap == 0, 1, np.where((gap == left_out) | damaged, 0, -1))

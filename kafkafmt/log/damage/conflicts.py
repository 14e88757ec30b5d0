"""Choose which valid batches to accept if their offsets contradict each other.

The CRC of a batch does not cover its base offset, so the base offset can be wrong although the CRC
matches. The batches of a segment are divided into ranges of adjacent batches. Of all sequences of
ranges with increasing offsets, the sequence with the most batches is accepted. If several sequences
have the same number of batches, the one with the highest score is accepted. The score is the sum of
the `gap_scores` of consecutive ranges. It favours sequences with few missing offsets.
"""

from __future__ import annotations

from functools import partial
from operator import le, lt

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import MAX_OFFSET, MAX_RELATIVE_OFFSET
from ...types import IntArray
from ..storage import FileView
from .parts import Parts, RunColumns

COMPARED_BYTES = 1 << 20
REACH = 2048
"""Number of preceding ranges of batches with which each range is compared. Therefore, at most REACH
- 1 consecutive ranges can be omitted.
"""


def in_order(parts: Parts, lower: int, upper: int | None) -> bool:
    """Return whether the batches are in increasing offset order, and all their offsets are within [lower, upper).

    The largest 64-bit offset is not allowed, because the log end offset must be higher than all
    batch offsets.
    """
    # Most segments have a single range. For a few ranges, lists are faster than NumPy.
    first, last = parts.runs.first.tolist(), parts.runs.last.tolist()
    if not first:
        return lower - 1 < (MAX_OFFSET if upper is None else upper)
    if first[0] < lower or not all(map(le, first, last)) or not all(map(lt, last, first[1:])):
        return False
    # If the last offset is too far above `lower`, return False, because `_adrift` must check the gaps between batches.
    near: bool = last[-1] - (lower or first[0]) <= MAX_RELATIVE_OFFSET
    return near and last[-1] < (MAX_OFFSET if upper is None else upper)


def _adrift(parts: Parts, lower: int) -> npt.NDArray[np.bool_]:
    """Return a mask that is True for each range of batches with an implausible base offset.

    The base offset of a range of batches is implausible if all of these conditions are met:

    - The range is a single batch.
    - This batch is the last batch of the segment, or damaged bytes directly precede it.
    - Its base offset is so far above the last offset of the previous range that one segment cannot
      contain both offsets. A broker would have written the batch to a new segment.

    Previous ranges with offsets below `lower` are ignored, because their base offsets are wrong.

    If `lower` is 0, the file can be an excerpt of a segment, so its first batch can have any base
    offset. Therefore, the mask is always False for the first range of batches.
    """
    runs = parts.runs
    possible = np.where(runs.last >= lower, np.arange(len(runs)), -1)
    previous = np.maximum.accumulate(np.concatenate(([-1], possible)))[: len(runs)]
    before = np.where(previous < 0, lower - 1, runs.last[previous])
    distance = runs.first.view(np.uint64) - before.view(np.uint64)  # the difference can overflow int64
    far = (runs.first > before) & (distance > MAX_RELATIVE_OFFSET + 1)
    if not lower:
        far[previous < 0] = False
    if not far.any():  # usually, no difference is this large
        return far
    unsure = parts.after_bad()
    unsure[-1:] = True
    adrift: npt.NDArray[np.bool_] = far & (runs.batches == 1) & unsure
    return adrift


def believable(parts: Parts, lower: int, upper: int | None) -> IntArray:
    """Choose ranges of batches whose offsets increase, so that as many batches as possible remain.

    Return the indexes of these ranges, in ascending order. The offsets within each range of batches must be consecutive.
    """
    runs, end = parts.runs, MAX_OFFSET if upper is None else upper
    index = np.flatnonzero(
        ~_adrift(parts, lower) & (lower <= runs.first) & (runs.first <= runs.last) & (runs.last < end)
    )
    if not len(index):
        return index
    first, last, batches = runs.first[index], runs.last[index], runs.batches[index]
    spans = np.cumsum(np.concatenate(([0], last - first + 1)))
    bad = np.searchsorted(parts.bad_at, parts.run_at[index])
    start = gap_scores(first - lower, spans[:-1], bad != 0)
    score, parent = np.empty(len(index), np.int64), np.empty(len(index), np.int64)
    core.heaviest_chain(first, last, batches << 32, spans, bad, start, parent, score, REACH)
    total = score if upper is None else score + gap_scores(upper - 1 - last, spans[-1] - spans[1:], bad != bad[-1])
    best_ends = np.flatnonzero(total == total.max())
    # If several sets are equally good, choose the one with the lowest last offset: wrong offsets are often too high.
    at = int(best_ends[np.argmin(last[best_ends])])
    chosen: IntArray = index[chain_to(at, parent)]
    return chosen


def chain_to(at: int, parent: IntArray) -> list[int]:
    """Return the indexes of the chain that ends with `at`, according to the result of `core.heaviest_chain`."""
    parents, chain = parent.tolist(), []
    while at >= 0:
        chain.append(at)
        at = parents[at]
    return chain[::-1]


def lack_offsets(runs: RunColumns, lower: int, upper: int | None) -> bool:
    """Return whether offsets are missing between, before or after the ranges. An excerpt of a segment begins anywhere."""
    before = np.append(runs.first[:1] if lower == 0 else lower, runs.last + 1)
    after = np.append(runs.first, runs.last[-1:] + 1 if upper is None else upper)
    return bool((before < after).any())


def copies(view: FileView, runs: RunColumns, chosen: IntArray, rejected: IntArray) -> npt.NDArray[np.bool_]:
    """Return a mask that is True for each rejected range that is a byte for byte copy of a chosen one."""
    at = np.searchsorted(runs.first[chosen], runs.first[rejected])
    found = at < len(chosen)
    original = chosen[at[found]]
    copy = rejected[found]
    alike = (runs.first[copy] == runs.first[original]) & (runs.last[copy] == runs.last[original])
    alike &= runs.end[copy] - runs.position[copy] == runs.end[original] - runs.position[original]
    found[found] = alike
    one, other = runs.position[copy[alike]].tolist(), runs.position[original[alike]].tolist()
    sizes = (runs.end - runs.position)[copy[alike]].tolist()
    found[found] = list(map(partial(_equal, view), one, other, sizes))
    return found


def _equal(view: FileView, one: int, other: int, size: int) -> bool:
    steps = ((at, min(COMPARED_BYTES, size - at)) for at in range(0, size, COMPARED_BYTES))
    return all(view.read(one + at, n) == view.read(other + at, n) for at, n in steps)


def gap_scores(gap: IntArray, omitted: IntArray, damaged: npt.NDArray[np.bool_]) -> IntArray:
    """Return a score for each pair of consecutive accepted ranges.

    The score is the first of these values that applies:

    - `2`: no offset is missing between the two ranges.
    - `0`: there is damage between the two ranges, or the batches that are omitted between them have as many
      offsets as are missing.
    - `-1`: there are other omitted batches between the two ranges. They can have overwritten the missing
      batches.
    - `-2`: nothing explains the missing offsets.

    `heaviest_chain` in both cores uses the same scores.

    Parameters
    ----------
    gap : array of int64
        Number of missing offsets between the two ranges.
    omitted : array of int64
        Number of offsets of the omitted batches between the two ranges.
    damaged : array of bool
        Whether there is damage between the two ranges.
    """
    return np.select([gap == 0, (gap == omitted) | damaged, omitted != 0], [2, 0, -1], -2)

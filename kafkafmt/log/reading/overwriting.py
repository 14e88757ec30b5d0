"""Find the copies of batches that explain missing offsets, because one of the two identical batches is at a wrong place.

For example, a disk writes a block to a wrong position and overwrites other batches there.

- If offsets are missing at the place of the copy, the copy may have overwritten the missing batches.
  Other damage at the same place explains the missing offsets too.
- If offsets are missing between two adjacent accepted batches, the accepted batch may have
  overwritten the missing batches. The copy is then the original. Each gap is explained by the nearest
  group of copies that are not at the place of missing offsets.
- If a gap has no such explanation, or offsets are missing inside a batch, the log seems to be
  compacted. Missing offsets are then normal, and no copy explains them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...types import IntArray
from .damaged_spans import NOTHING_OVERWRITTEN, OffsetBounds, Overwritten
from .parts import UNKNOWN_COUNT, Parts, RunColumns


def overwriting_copies(
    parts: Parts,
    chosen: IntArray,
    copies: RunColumns,
    copies_at: IntArray,
    damaged_at: IntArray,
    moved: tuple[IntArray, IntArray],
    lower: int,
    upper: int | None,
) -> tuple[npt.NDArray[np.bool_], Overwritten]:
    """Find the copies that explain missing offsets.

    Parameters
    ----------
    parts : Parts
        Valid and damaged byte ranges of the segment.
    chosen : array of int64
        Indexes of the ranges of valid batches that are read in file order.
    copies : RunColumns
        The copies, in file order.
    copies_at, damaged_at : array of int64
        Indexes of the copies and of the damage among all byte ranges of the segment.
    moved : tuple of two arrays of int64
        First and last offsets of the batches that are delivered although they are out of place.
    lower : int
        Lowest offset of the segment. If it is 0, the file can be an excerpt of a segment, so the gap
        before its first batch is ignored.
    upper : int or None
        Base offset of the next segment, if there is one.

    Returns
    -------
    tuple of (array of bool, Overwritten)
        Whether each copy explains missing offsets, and the missing offsets that are not at the place of
        their copy.
    """
    none = np.zeros(len(copies_at), bool)
    runs, run_at = parts.runs.at(chosen), parts.run_at[chosen]
    if not len(copies_at) or (~runs.dense & (runs.records != UNKNOWN_COUNT)).any():
        return none, NOTHING_OVERWRITTEN
    first, last, known = OffsetBounds(parts, chosen, moved, lower, upper).of(copies_at)
    place = np.searchsorted(run_at, copies_at)
    explained = np.isin(place, np.searchsorted(run_at, damaged_at))
    overwriting: npt.NDArray[np.bool_] = known & (first <= last) & ~explained
    gaps = _gaps_between_adjacent(parts, chosen, lower, upper)
    gaps = gaps.at(~np.isin(gaps.first, moved[0]))
    if not len(gaps.position):
        return overwriting, NOTHING_OVERWRITTEN
    others = np.flatnonzero(known & (first > last))
    _, start, group = np.unique(place[others], return_index=True, return_inverse=True)
    if not len(start):
        return none, NOTHING_OVERWRITTEN
    nearest = _nearest(copies.position[others[start]], gaps.position)
    if len(np.unique(nearest)) < len(nearest):
        return none, NOTHING_OVERWRITTEN
    gap_of = np.full(len(start), -1)
    gap_of[nearest] = np.arange(len(nearest))
    gap = gap_of[group]
    others, gap = others[gap >= 0], gap[gap >= 0]
    overwriting[others] = True
    return overwriting, Overwritten(copies_at[others], gaps.first[gap], gaps.last[gap])


class _Gaps(NamedTuple):
    """Missing offsets between batches: the position of the batch after them, the first and the last missing offset."""

    position: IntArray
    first: IntArray
    last: IntArray

    def at(self, rows: npt.NDArray[np.bool_]) -> _Gaps:
        return _Gaps(*(column[rows] for column in self))


def _gaps_between_adjacent(parts: Parts, chosen: IntArray, lower: int, upper: int | None) -> _Gaps:
    """Return the gaps between accepted batches that no other bytes separate."""
    runs = parts.runs.at(chosen)
    if not len(runs):
        return _Gaps(*np.empty((3, 0), np.int64))
    at = np.concatenate(([-1], parts.run_at[chosen], [len(parts.runs) + len(parts.bads)]))
    first = np.concatenate(([lower or runs.first[0]], runs.last + 1))
    last = np.concatenate((runs.first, [runs.last[-1] + 1 if upper is None else upper])) - 1
    position = np.concatenate((runs.position, runs.end[-1:]))
    return _Gaps(position, first, last).at((np.diff(at) == 1) & (first <= last))


def _nearest(values: IntArray, targets: IntArray) -> IntArray:
    """Return the index of the item of the sorted array `values` that is nearest to each target."""
    after = np.minimum(np.searchsorted(values, targets), len(values) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(targets - values[before] < values[after] - targets, before, after)

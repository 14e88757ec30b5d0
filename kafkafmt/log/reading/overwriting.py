"""Find the copies and the damage that explain missing offsets at another place.

If two batches are identical, one of them is at a wrong place. For example, a disk has written a block to
a wrong position, and has overwritten other batches there. One of the identical batches is accepted. The
other one is called the copy.

- If offsets are missing at the place of the copy, the copy may have overwritten the missing batches. If
  there is other damage at this place, this damage explains the missing offsets instead.
- If offsets are missing between two adjacent accepted batches, one of these batches may have overwritten
  the missing batches. A copy, or the rest of a torn batch, is then at a place where no offset is missing.
  Each gap is explained by the nearest of these places.
- If a gap has no such explanation, or if offsets are missing inside a batch, the log seems to be
  compacted. Missing offsets are then normal, and nothing explains them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...types import IntArray
from .compaction import runs_lack_offsets
from .damaged_spans import NOTHING_OVERWRITTEN, OffsetBounds, Overwritten
from .parts import Parts, RunColumns


def overwriting_copies(
    parts: Parts,
    n_bads: int,
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
    n_bads : int
        Number of damaged byte ranges that are reported as damage.
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
        A mask that is True for each copy that explains missing offsets, and the gaps that are explained by
        copies or damage at another place.
    """
    none = np.zeros(len(copies_at), bool)
    if not len(copies_at) or runs_lack_offsets(parts.runs.at(chosen)):
        return none, NOTHING_OVERWRITTEN
    bounds, run_at = OffsetBounds(parts, chosen, moved, lower, upper), parts.run_at[chosen]
    first, last, known = bounds.of(copies_at)
    explained = np.isin(np.searchsorted(run_at, copies_at), np.searchsorted(run_at, damaged_at))
    empty = known & (first > last)
    bads = _empty(bounds, parts, n_bads)
    at = np.concatenate((copies_at[empty], parts.bad_at[bads]))
    order = np.argsort(at, kind="stable")
    position = np.concatenate((copies.position[empty], parts.bads.position[bads]))
    gaps = _gaps_between_adjacent(parts, chosen, lower, upper)
    gaps = gaps.at(~np.isin(gaps.first, moved[0]))
    overwritten = _explained_by(gaps, run_at, at[order], position[order])
    if overwritten is None:
        return none, NOTHING_OVERWRITTEN
    elsewhere = empty & np.isin(copies_at, overwritten.at)
    return (known & (first <= last) & ~explained) | elsewhere, overwritten


def overwritten_elsewhere(parts: Parts, n_bads: int, lower: int, upper: int | None) -> Overwritten:
    """Return the gaps that damage at another place explains, in a segment whose batches are in offset order.

    For the parameters, see `overwriting_copies`. `parts` must contain a separate range after each gap.
    """
    bads = _empty(OffsetBounds(parts, None, None, lower, upper), parts, n_bads)
    if not len(bads) or runs_lack_offsets(parts.runs):
        return NOTHING_OVERWRITTEN
    gaps = _gaps_between_adjacent(parts, np.arange(len(parts.runs)), lower, upper)
    overwritten = _explained_by(gaps, parts.run_at, parts.bad_at[bads], parts.bads.position[bads])
    return NOTHING_OVERWRITTEN if overwritten is None else overwritten


def _empty(bounds: OffsetBounds, parts: Parts, n_bads: int) -> IntArray:
    """Return the indexes of the first `n_bads` damaged byte ranges at whose place no offset is missing."""
    first, last, known = bounds.of(parts.bad_at[:n_bads])
    return np.flatnonzero(known & (first > last))


def _explained_by(gaps: _Gaps, run_at: IntArray, at: IntArray, position: IntArray) -> Overwritten | None:
    """Assign each gap to the nearest group of byte ranges. Return None if a group would explain several gaps.

    `run_at` and `at` contain the indexes of the accepted batches and of the byte ranges among all byte
    ranges of the segment. Byte ranges between the same two accepted batches are one group.
    """
    if not len(gaps.position):
        return NOTHING_OVERWRITTEN
    _, start, group = np.unique(np.searchsorted(run_at, at), return_index=True, return_inverse=True)
    if not len(start):
        return None
    nearest = _nearest(position[start], gaps.position)
    if len(np.unique(nearest)) < len(nearest):
        return None
    gap_of = np.full(len(start), -1)
    gap_of[nearest] = np.arange(len(nearest))
    gap = gap_of[group]
    rows = np.flatnonzero(gap >= 0)
    return Overwritten(at[rows], gaps.first[gap[rows]], gaps.last[gap[rows]])


class _Gaps(NamedTuple):
    """Gaps: the file position of the batch after each gap, and the first and the last missing offset."""

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

"""Decide what to do with valid batches whose offsets contradict other batches of the segment.

The offsets of two batches contradict each other if they overlap, or if the file contains the higher
offsets first. The first of these rules that applies decides what to do with a contradicting batch:

1. A batch is read if its offsets exactly fill a gap between two accepted batches, alone or together
   with other contradicting batches.
2. An identical copy of another batch is omitted, unless it may have overwritten other batches
   (`overwriting_copies`).
3. Any other batch is reported as damage.

A segment can contain a million such batches, so all of them are handled together, as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...text import offset_range
from ...types import IntArray, distinct
from .batches_of_ranges import batches_of
from .copies import Copies
from .damaged_spans import Overwritten
from .models import Finding
from .overwriting import overwriting_copies
from .part_builder import NO_RUNS, columns_of
from .partition_dir import SegmentFile
from .parts import UNKNOWN_COUNT, Extents, Parts, Run, RunColumns
from .rows import Rows, field_setters, objects_of
from .segment_walker import Walker

_FINDING_SETTERS = field_setters(Finding)
_MOVED = "the batch is out of place in the file; it is delivered where its offsets fit"
_COPY = "the batch is an identical copy of another batch; it is delivered once"


@dataclass
class Placed:
    """Result of `place`: which batches of a segment are read, and which are reported as damage.

    Attributes
    ----------
    extents : sequence of Run
        Ranges of valid batches that are read, sorted by offset.
    findings : sequence of Finding
        A report for each range of batches that is out of place in the file, or is a copy. The
        reports are in file order.
    moved : tuple of two arrays of int64
        First and last offsets of the ranges of batches that are out of place in the file, and are
        nevertheless read.
    contradicting : RunColumns
        Ranges of batches that are reported as damage, in file order.
    copies : array of bool
        Whether each range in `contradicting` is a copy, and one of the identical batches may have
        overwritten other batches.
    contradicting_in : array of int64
        For each range in `contradicting`, the index of the range, or of the original range before
        it was divided, among all ranges of the segment.
    omitted : sequence of Run
        Ranges of valid batches that are not read, because they are copies or contradict other batches.
    overwritten : Overwritten
        Gaps between adjacent batches that are explained by copies at another place of the file.
    """

    extents: Sequence[Run]
    findings: Sequence[Finding]
    moved: tuple[IntArray, IntArray]
    contradicting: RunColumns
    copies: npt.NDArray[np.bool_]
    contradicting_in: IntArray
    omitted: Sequence[Run]
    overwritten: Overwritten


@dataclass
class _Rejected:
    """Ranges of valid batches that are not read in file order.

    Attributes
    ----------
    runs : RunColumns
        The ranges, in file order.
    origin : array of int64
        For each range, the index of the original range among all ranges of the segment. If an
        original range was divided, several items have its index.
    """

    runs: RunColumns
    origin: IntArray

    def at(self, rows: IntArray | npt.NDArray[np.bool_]) -> _Rejected:
        return _Rejected(self.runs.at(rows), self.origin[rows])


def place(segment: SegmentFile, walker: Walker, parts: Parts, n_bads: int, chosen: IntArray, lower: int) -> Placed:
    """Decide which batches of a segment are read, which are skipped, and which are reported as damage.

    `parts` contains all ranges of valid batches, and all damaged byte ranges. `n_bads` is the number of
    damaged byte ranges. `chosen` contains the indexes of the valid ranges that do not contradict each
    other. `lower` is the lowest offset of the segment.
    """
    runs = parts.runs
    remaining = np.ones(len(runs), bool)
    remaining[chosen] = False
    fills, order = _fill_gaps(runs, chosen, np.flatnonzero(remaining), lower)
    remaining[fills] = False
    accepted = runs.at(order)
    rejected, moved = _move(walker, runs, np.flatnonzero(remaining), accepted, lower)
    inserted = rejected.runs.at(moved)
    delivered = _joined(accepted, inserted)
    by_offset = np.argsort(delivered.first, kind="stable")
    delivered = delivered.at(by_offset)
    # A batch is compared only with the accepted batches, and with batches before it that were moved.
    number = np.concatenate((np.full(len(accepted), -1), np.flatnonzero(moved)))[by_offset]
    around = np.searchsorted(delivered.first, rejected.runs.first, "right") - 1
    inside = ~moved & (around >= 0)
    inside[inside] = number[around[inside]] < np.flatnonzero(inside)
    inside[inside] = rejected.runs.last[inside] <= delivered.last[around[inside]]
    copies = Copies(segment, walker, rejected.runs)
    copied = copies.within(inside, delivered, around)
    copied |= copies.in_adjacent_segments(~moved & ~copied)
    out_of_place = (
        np.concatenate((runs.first[fills], inserted.first)),
        np.concatenate((runs.last[fills], inserted.last)),
    )
    lost = ~moved & ~copied
    damaged_at = np.concatenate((parts.bad_at[:n_bads], parts.run_at[rejected.origin[lost]]))
    overwriting = np.zeros(len(copied), bool)
    overwriting[copied], overwritten = overwriting_copies(
        parts,
        n_bads,
        chosen,
        rejected.runs.at(copied),
        parts.run_at[rejected.origin[copied]],
        damaged_at,
        out_of_place,
        lower,
        segment.next_base,
    )
    copied, lost = copied & ~overwriting, lost | overwriting
    contradicting = rejected.at(lost)
    contradicting.runs.records[overwriting[lost]] = UNKNOWN_COUNT
    return Placed(
        Extents(delivered),
        _findings(segment.name, runs, fills, rejected, moved, copied),
        out_of_place,
        contradicting.runs,
        overwriting[lost],
        contradicting.origin,
        Extents(_joined(rejected.runs.at(copied), contradicting.runs)),
        overwritten,
    )


class Placements(Rows[Finding]):
    """A sequence with a `Finding` object for each range of batches that is out of place in the file, or is a copy.

    `copy` is True for each range that is a copy.
    """

    def __init__(self, file: str, runs: RunColumns, copy: npt.NDArray[np.bool_]) -> None:
        self._file = file
        self._runs = runs
        self._copy = copy

    def __len__(self) -> int:
        return len(self._runs)

    def _build(self, start: int, stop: int) -> list[Finding]:
        runs, copy = self._runs.at(slice(start, stop)), self._copy[start:stop].tolist()
        ranges = map(offset_range, runs.first.tolist(), runs.last.tolist())
        reasons = [_COPY if c else _MOVED for c in copy]
        messages = list(map("{} at position {}: {}".format, ranges, runs.position.tolist(), reasons))
        codes = ["duplicate_batch" if c else "batch_out_of_place" for c in copy]
        return objects_of(Finding, _FINDING_SETTERS, [self._file] * len(copy), codes, messages)

    def _sliced(self, start: int, stop: int) -> Placements:
        return Placements(self._file, self._runs.at(slice(start, stop)), self._copy[start:stop])


def _findings(
    file: str,
    runs: RunColumns,
    fills: IntArray,
    rejected: _Rejected,
    moved: npt.NDArray[np.bool_],
    copied: npt.NDArray[np.bool_],
) -> Placements:
    """Return a report for each range that fills a gap, was moved or is a copy. The reports are in file order.

    `fills` contains indexes into `runs`. `moved` and `copied` are masks of the ranges in `rejected`.
    """
    reported = rejected.at(moved | copied)
    order = np.argsort(np.concatenate((fills, reported.origin)), kind="stable")
    copy = np.concatenate((np.zeros(len(fills), bool), copied[moved | copied]))
    return Placements(file, _joined(runs.at(fills), reported.runs).at(order), copy[order])


def _fill_gaps(runs: RunColumns, chosen: IntArray, others: IntArray, lower: int) -> tuple[IntArray, IntArray]:
    """Find rejected ranges of batches whose offsets exactly fill a gap between two accepted ranges.

    One range can fill a gap alone, or several ranges can fill it together. If the offsets of a range
    overlap those of another rejected range, neither this range nor the ranges that fill the same gap are
    used. `_move` handles such ranges.

    `chosen` and `others` contain the indexes of the accepted and the rejected ranges. Return two arrays of
    indexes: the found ranges in file order, and all accepted and found ranges in offset order.
    """
    none = np.empty(0, np.int64)
    if not len(chosen) or not len(others):
        return none, chosen
    first, last = runs.first[others], runs.last[others]
    rejected, accepted = runs.at(others), runs.at(chosen)
    gap = _gaps_for(rejected, accepted, lower)
    at = np.flatnonzero(gap >= 0)
    at = at[np.unique(gap[at], return_index=True)[1]]
    shared = _shared_gaps(rejected, accepted, lower, gap[at])
    at = np.concatenate((at, np.flatnonzero(shared >= 0)))
    rest = np.ones(len(others), bool)
    rest[at] = False
    if rest.any():
        low, high = np.minimum(first, last)[rest], np.maximum(first, last)[rest]
        by_low = np.argsort(low)
        highest = np.concatenate(([-1], np.maximum.accumulate(high[by_low])))
        overlaps = highest[np.searchsorted(low[by_low], last[at], "right")] >= first[at]
        at = at[~overlaps & ~((shared[at] >= 0) & np.isin(shared[at], shared[at[overlaps]]))]
    fills = others[np.sort(at)]
    both = np.concatenate((chosen, fills))
    return fills, both[np.argsort(runs.first[both], kind="stable")]


def _shared_gaps(runs: RunColumns, accepted: RunColumns, lower: int, filled: IntArray) -> IntArray:
    """For each range, return the index of the gap that it fills together with other ranges, or -1 if there is none.

    The offsets of these ranges are consecutive, and no other range is in the gap. `filled` contains the
    gaps that a single range fills. For the indexes of gaps, see `_gaps_for`.
    """
    found = np.full(len(runs), -1)
    gap, start, after = _gaps_at(runs.first, accepted, lower)
    inside = (gap < len(accepted)) & (start <= runs.first) & (runs.first <= runs.last) & (runs.last < after)
    rows = np.flatnonzero(inside & ~np.isin(gap, filled))
    rows = rows[np.argsort(runs.first[rows], kind="stable")]
    if len(rows) < 2:
        return found
    numbers = gap[rows]
    begins = np.append(True, numbers[1:] != numbers[:-1])
    ends = np.append(begins[1:], True)
    before = np.where(begins, start[rows], np.append(0, runs.last[rows][:-1] + 1))
    wrong = (runs.first[rows] != before) | (ends & (runs.last[rows] != after[rows] - 1))
    fits = ~np.isin(numbers, numbers[wrong])
    found[rows[fits]] = numbers[fits]
    return found


def _gaps_at(first: IntArray, accepted: RunColumns, lower: int) -> tuple[IntArray, IntArray, IntArray]:
    """For each offset in `first`, find the gap that can contain this offset.

    Return the index of the gap, the first offset in the gap, and the offset after the gap.
    """
    gap = np.searchsorted(accepted.first, first, "right")
    start = np.concatenate(([lower], accepted.last + 1))[gap]
    return gap, start, accepted.first[np.minimum(gap, len(accepted) - 1)]


def _gaps_for(runs: RunColumns, accepted: RunColumns, lower: int) -> IntArray:
    """Return the index of the gap that the offsets of each range exactly fill, or -1 if there is no such gap.

    Gap `i` is before range `i` of `accepted`, whose ranges are sorted by offset. Gap 0 begins at
    the offset `lower`.
    """
    if not len(accepted):
        return np.full(len(runs), -1)
    gap, start, after = _gaps_at(runs.first, accepted, lower)
    fits = (gap < len(accepted)) & (runs.first == start) & (start <= runs.last) & (runs.last == after - 1)
    return np.where(fits, gap, -1)


def _move(
    walker: Walker, runs: RunColumns, others: IntArray, accepted: RunColumns, lower: int
) -> tuple[_Rejected, npt.NDArray[np.bool_]]:
    """Find more rejected batches that exactly fill a gap, although other batches have some of the same offsets.

    A range of several batches fills a gap as a whole, or is divided into single batches. If several
    ranges or batches fit, the first one in the file is used.

    Return the ranges, and a mask that is True for each range that fills a gap.
    """
    gap = _gaps_for(runs.at(others), accepted, lower)
    whole = (runs.batches[others] == 1) | (gap >= 0)
    rejected = _Rejected(runs.at(others[whole]), others[whole])
    if not whole.all():
        rejected = _merged(rejected, _divided(walker, runs, others[~whole]))
    gap = _gaps_for(rejected.runs, accepted, lower)
    fits = np.flatnonzero(gap >= 0)
    moved = np.zeros(len(gap), bool)
    moved[fits[np.unique(gap[fits], return_index=True)[1]]] = True
    late = ~moved & (rejected.runs.batches > 1)
    if late.any():
        positions = rejected.runs.position[moved]
        rejected = _merged(rejected.at(~late), _divided(walker, runs, rejected.origin[late]))
        moved = np.isin(rejected.runs.position, positions)
    return rejected, moved


def _divided(walker: Walker, runs: RunColumns, others: IntArray) -> _Rejected:
    """Divide ranges of batches into single batches. `others` contains the indexes of the ranges."""
    pieces, origins = [], []
    for found in batches_of(walker, runs.at(others)):
        firsts = walker.wrappers.first_offsets(found.start, found.buffer, found.table)
        single, _, _ = columns_of(found.table, firsts, False, distinct(firsts))
        single.position += found.start
        single.end += found.start
        pieces.append(single)
        origins.append(others[found.ranges])
    return _Rejected(_joined(*pieces), np.concatenate([np.empty(0, np.int64), *origins]))


def _merged(a: _Rejected, b: _Rejected) -> _Rejected:
    """Return the ranges in `a` and `b` in file order."""
    origin = np.concatenate((a.origin, b.origin))
    return _Rejected(_joined(a.runs, b.runs), origin).at(np.argsort(origin, kind="stable"))


def _joined(*runs: RunColumns) -> RunColumns:
    """Concatenate ranges of batches."""
    columns = [vars(r).values() for r in (NO_RUNS, *runs)]
    return RunColumns(*map(np.concatenate, zip(*columns, strict=True)))

"""Decide what to do with valid batches whose offsets contradict other batches of the segment.

The offsets of a batch contradict those of another batch if they overlap, or if the file contains
the higher offsets first. A contradicting batch is read if it contains exactly the offsets that are
missing between two other batches. If it is an identical copy of another batch, it is omitted. In
all other cases, it is reported as damage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...types import IntArray
from .models import Finding
from .neighbours import Neighbours
from .partition_dir import SegmentFile
from .parts import Extents, Run, RunColumns
from .rows import Joined, Rows, field_setters, objects_of
from .segment_walker import Walker

_FINDING_SETTERS = field_setters(Finding)


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
    contradicting : list of (int, Run)
        Ranges of batches that are reported as damage, in file order. The integer is the index of
        the range, or of the original range before it was divided, among all ranges of the segment.
    omitted : list of Run
        Ranges of valid batches that are not read, because they are copies or contradict other batches.
    """

    extents: Sequence[Run]
    findings: Sequence[Finding]
    moved: tuple[IntArray, IntArray]
    contradicting: list[tuple[int, Run]]
    omitted: list[Run]


def place(segment: SegmentFile, walker: Walker, runs: RunColumns, chosen: IntArray, lower: int) -> Placed:
    """Decide which batches of a segment are read, which are skipped, and which are reported as damage.

    `runs` contains all ranges of valid batches. `chosen` contains the indexes of the ranges that do
    not contradict each other. `lower` is the lowest offset of the segment.
    """
    remaining = np.ones(len(runs), bool)
    remaining[chosen] = False
    fills, order = _fill_gaps(runs, chosen, np.flatnonzero(remaining), lower)
    remaining[fills] = False
    moved: list[Run] = []
    contradicting: list[tuple[int, Run]] = []
    found: list[tuple[int, Finding]] = []
    copies: list[Run] = []
    neighbours, around = Neighbours(segment), _Delivered(runs.at(order))
    others = np.flatnonzero(remaining)
    for i, run in zip(others.tolist(), runs.at(others).objects(), strict=True):
        for piece in [run] if run.batches == 1 or around.gap_for(run, lower) else _pieces(walker, run):
            if _repeats(walker, piece, around) or neighbours.hold(walker, piece):
                found.append((i, _duplicate(segment.name, piece)))
                copies.append(piece)
            elif around.gap_for(piece, lower):
                moved.append(piece)
                around.insert(piece)
                found.append((i, OutOfPlace(segment.name, RunColumns.of([piece]))[0]))
            else:
                contradicting.append((i, piece))
    inserted = RunColumns.of(moved)
    offsets = np.concatenate((runs.first[fills], inserted.first)), np.concatenate((runs.last[fills], inserted.last))
    omitted = [*copies, *(piece for _, piece in contradicting)]
    findings = _in_file_order(segment.name, runs, fills, found)
    return Placed(around.extents, findings, offsets, contradicting, omitted)


class OutOfPlace(Rows[Finding]):
    """A sequence with a `Finding` object for each range of batches that is out of place in the file."""

    def __init__(self, file: str, runs: RunColumns) -> None:
        self._file = file
        self._runs = runs

    def __len__(self) -> int:
        return len(self._runs)

    def _build(self, start: int, stop: int) -> list[Finding]:
        runs = self._runs.at(slice(start, stop))
        message = "offsets {} to {} at position {}: the batch is out of place in the file; it is delivered where its offsets fit".format
        messages = list(map(message, runs.first.tolist(), runs.last.tolist(), runs.position.tolist()))
        n = len(messages)
        return objects_of(Finding, _FINDING_SETTERS, [self._file] * n, ["batch_out_of_place"] * n, messages)

    def _sliced(self, start: int, stop: int) -> OutOfPlace:
        return OutOfPlace(self._file, self._runs.at(slice(start, stop)))


def _in_file_order(
    file: str, runs: RunColumns, fills: IntArray, others: list[tuple[int, Finding]]
) -> Sequence[Finding]:
    """Merge reports in file order: one report for each range in `fills`, and the given reports in `others`.

    `fills` is an array of indexes into `runs`, the ranges of valid batches. Each item of `others`
    is a tuple of an index into `runs` and the report about that range.
    """
    parts: list[Sequence[Finding]] = []
    start = 0
    together: list[Finding] = []
    for cut, (_, finding) in zip(np.searchsorted(fills, [i for i, _ in others]).tolist(), others, strict=True):
        if cut > start:
            parts += [together, OutOfPlace(file, runs.at(fills[start:cut]))]
            start, together = cut, []
        together.append(finding)
    return Joined([*parts, together, OutOfPlace(file, runs.at(fills[start:]))])


def _duplicate(file: str, run: Run) -> Finding:
    what = "the batch is an identical copy of another batch; it is delivered once"
    message = f"offsets {run.first_offset} to {run.last_offset} at position {run.position}: {what}"
    return Finding(file, "duplicate_batch", message)


def _fill_gaps(runs: RunColumns, chosen: IntArray, others: IntArray, lower: int) -> tuple[IntArray, IntArray]:
    """Find rejected batches that contain exactly the offsets which are missing between two accepted batches.

    `chosen` and `others` contain the indexes of the accepted and the rejected ranges of batches.
    Return two arrays of indexes: the found ranges in file order, and all accepted and found ranges
    in offset order. If several ranges have the missing offsets, the first one is used. If the
    offsets of a range overlap those of another rejected range, it is not used, because the result
    would depend on their order.
    """
    none = np.empty(0, np.int64)
    if not len(chosen) or not len(others):
        return none, chosen
    first, last = runs.first[others], runs.last[others]
    gap = np.searchsorted(runs.first[chosen], first, "right")
    start = np.concatenate(([lower], runs.last[chosen] + 1))[gap]
    after = runs.first[chosen][np.minimum(gap, len(chosen) - 1)]
    fits = (gap < len(chosen)) & (first == start) & (first <= last) & (last == after - 1)
    at = np.flatnonzero(fits)
    at = at[np.unique(gap[at], return_index=True)[1]]
    rest = np.ones(len(others), bool)
    rest[at] = False
    if rest.any():
        low, high = np.minimum(first, last)[rest], np.maximum(first, last)[rest]
        by_low = np.argsort(low)
        highest = np.concatenate(([-1], np.maximum.accumulate(high[by_low])))
        at = at[highest[np.searchsorted(low[by_low], last[at], "right")] < first[at]]
    fills = others[np.sort(at)]
    both = np.concatenate((chosen, fills))
    return fills, both[np.argsort(runs.first[both], kind="stable")]


def _pieces(walker: Walker, run: Run) -> list[Run]:
    """Divide a range of rejected batches into single batches."""
    if run.batches == 1:
        return [run]
    pieces = []
    for start, _, rows, _ in walker.tables(run.position, run.end):
        for i in range(len(rows)):
            pieces += walker.runs(rows[i : i + 1], start)
    return pieces


class _Delivered:
    """Ranges of the valid batches to read, sorted by offset. Further ranges can be inserted."""

    def __init__(self, runs: RunColumns) -> None:
        self._runs = runs
        self._firsts: list[int] = runs.first.tolist()
        self._lasts: list[int] = runs.last.tolist()
        self._inserted = _Around([])

    @property
    def extents(self) -> Extents:
        """All ranges of batches to read, sorted by offset. They include the ranges that were added with `insert`."""
        inserted = self._inserted.extents
        if not inserted:
            return Extents(self._runs)
        columns = (vars(self._runs).values(), vars(RunColumns.of(inserted)).values())
        runs = RunColumns(*map(np.concatenate, zip(*columns, strict=True)))
        return Extents(runs.at(np.argsort(runs.first, kind="stable")))

    def containing(self, piece: Run) -> Run | None:
        """Return the range of batches that contains the offsets of `piece`, or None if there is none."""
        at = bisect_right(self._firsts, piece.first_offset)
        inserted, _ = self._inserted.before(piece)
        if at and (inserted is None or inserted.first_offset < self._firsts[at - 1]):
            return Extents(self._runs)[at - 1] if piece.last_offset <= self._lasts[at - 1] else None
        return inserted if inserted is not None and piece.last_offset <= inserted.last_offset else None

    def gap_for(self, piece: Run, lower: int) -> bool:
        """Return whether the offsets of `piece` exactly fill the gap between two adjacent ranges of batches."""
        at = bisect_right(self._firsts, piece.first_offset)
        before, after = self._inserted.before(piece)
        start, end = lower, None if after is None else after.first_offset
        if at and (before is None or before.first_offset < self._firsts[at - 1]):
            start = self._lasts[at - 1] + 1
        elif before is not None:
            start = before.last_offset + 1
        if at < len(self._firsts) and (end is None or end > self._firsts[at]):
            end = self._firsts[at]
        return start == piece.first_offset and end == piece.last_offset + 1

    def insert(self, piece: Run) -> None:
        self._inserted.insert(piece)


class _Around:
    """A sorted list of ranges of batches with fast insertion. The sort key is the first offset.

    The ranges are stored in blocks of limited size, because an insertion into one long list would
    take linear time.
    """

    BLOCK = 512
    """Number of ranges in a new block. A block of twice this size is divided."""

    def __init__(self, extents: list[Run]) -> None:
        size = self.BLOCK
        self._blocks = [extents[i : i + size] for i in range(0, len(extents), size)] or [[]]
        self._offsets = [[extent.first_offset for extent in block] for block in self._blocks]
        self._starts = [offsets[0] if offsets else 0 for offsets in self._offsets]

    @property
    def extents(self) -> list[Run]:
        """All ranges of batches, in offset order."""
        return [extent for block in self._blocks for extent in block]

    def _find(self, offset: int) -> tuple[int, int]:
        """Return the place for a range that begins at `offset`: the number of a block, and an index in this block."""
        block = max(bisect_right(self._starts, offset) - 1, 0)
        return block, bisect_right(self._offsets[block], offset)

    def before(self, piece: Run) -> tuple[Run | None, Run | None]:
        """Return the ranges of batches that directly precede and follow `piece` in offset order.

        The first item is None if no range precedes `piece`, and the second item is None if no range
        follows `piece`.
        """
        number, at = self._find(piece.first_offset)
        block = self._blocks[number]
        if at < len(block):
            after: Run | None = block[at]
        else:
            after = self._blocks[number + 1][0] if number + 1 < len(self._blocks) else None
        return (block[at - 1] if at else None), after

    def insert(self, piece: Run) -> None:
        number, at = self._find(piece.first_offset)
        block, offsets = self._blocks[number], self._offsets[number]
        block.insert(at, piece)
        offsets.insert(at, piece.first_offset)
        self._starts[number] = offsets[0]
        if len(block) >= 2 * self.BLOCK:
            half = len(block) // 2
            self._blocks[number : number + 1] = [block[:half], block[half:]]
            self._offsets[number : number + 1] = [offsets[:half], offsets[half:]]
            self._starts.insert(number + 1, offsets[half])


def _repeats(walker: Walker, piece: Run, around: _Delivered) -> bool:
    """Return whether `around` contains an identical copy of the batch that `piece` describes."""
    extent = around.containing(piece)
    if extent is None:
        return False
    size, view = piece.end - piece.position, walker.view
    if extent.batches == 1 and extent.end - extent.position != size:
        return False
    data = view.read(piece.position, size)
    if extent.batches == 1 and view.read(extent.position, size) != data:
        return False
    for start, _, rows, _ in walker.tables(extent.position, extent.end):
        for row in rows[(rows["base_offset"] == piece.first_offset) & (rows["size"] == size)]:
            return view.read(start + int(row["position"]), size) == data
    return False

"""Decide which batches of a segment are delivered, in which order, and what is damaged.

`plan_segment` reads a whole segment, checks every CRC and returns a `SegmentPlan`, which consists
of

- extents: runs of valid batches, in offset order, which all readers deliver;
- damage: spans that cannot be delivered, with the offsets that may be missing;
- findings: problems that do not prevent the delivery of any complete batch.

Damage inside a batch whose CRC matches is found later, when its records are decoded
(`Part.batch_damage`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

import numpy as np

from ...constants import (
    BATCH_HEADER_SIZE,
    ENTRY_OVERHEAD,
    LENGTH_AT,
    MAGIC_END,
    MAX_OFFSET,
)
from ...errors import ChecksumError, TruncatedError
from ...types import IntArray, last_offsets
from ..format.files import FileView
from .batch_head import header_stands
from .conflicts import believable, in_order
from .models import Damage, Finding
from .neighbours import Neighbours
from .partition_dir import SegmentFile
from .parts import Bad, Parts, Run, RunColumns
from .read_limits import DEFAULT_LIMITS, ReadLimits
from .segment_stats import Stats
from .segment_walker import See, Walker

Object = TypeVar("Object")
MIN_ZERO_TAIL = 8
"""Number of zero bytes at the end of a file after which a last batch with a wrong CRC counts as
incomplete. Such zeros are in pages of the file that were never written.
"""


@dataclass
class SegmentPlan:
    """The result of planning a segment: its deliverable batches, its damage and its findings.

    Attributes
    ----------
    segment : SegmentFile
        The segment.
    size : int
        Size of the file when it was planned, in bytes.
    extents : list of Run
        Runs of valid batches, in offset order. There are no bytes between the batches of an extent.
    damaged : list of Damage
        Spans that cannot be delivered.
    findings : list of Finding
        Problems that do not prevent the delivery of any complete batch.
    stats : Stats
        Summary of the batch headers of the segment.
    """

    segment: SegmentFile
    size: int
    extents: list[Run]
    damaged: list[Damage]
    findings: list[Finding]
    stats: Stats = field(default_factory=Stats)

    @property
    def next_offset(self) -> int | None:
        """The offset after the last extent. None if the segment has no valid batch."""
        return self.extents[-1].last_offset + 1 if self.extents else None


def plan_segment(segment: SegmentFile, limits: ReadLimits = DEFAULT_LIMITS, see: See | None = None) -> SegmentPlan:
    """Read a segment, check every CRC, and decide which batches are delivered.

    Parameters
    ----------
    segment : SegmentFile
        The segment.
    limits : ReadLimits, optional
        How the segment is read.
    see : callable, optional
        Called with all valid batches, in file order, while the segment is read.
    """
    lower = segment.base_offset or 0
    with FileView(segment.path, limits.mapped) as view:
        walker = Walker(view, lower, limits.max_batch_bytes, limits.run_bytes)
        parts = walker.walk(see=see)
        stats = walker.stats
        if not in_order(parts, lower, segment.next_base):
            runs = walker.walk(cut_gaps=True).runs
            cut_at = {*runs.first.tolist(), *(runs.last[runs.last < MAX_OFFSET] + 1).tolist()}
            for border in (lower, MAX_OFFSET if segment.next_base is None else segment.next_base):
                for i in np.flatnonzero((runs.first < border) & (border <= runs.last)).tolist():
                    cut_at |= _cuts(walker, runs.position[i], runs.end[i], border)
            first, last, following = runs.first[:-1], runs.last[:-1], runs.first[1:]
            for i in np.flatnonzero((runs.batches[:-1] > 1) & (first < following) & (following <= last)).tolist():
                # the last offset delta of the last batch of a run can be wrong
                cut_at |= _cuts(walker, runs.position[i], runs.end[i], int(following[i]))
            parts = walker.walk(cut_gaps=True, cut_at=cut_at)
            return _resolve(segment, walker, stats, parts, lower, believable(parts, lower, segment.next_base))
        return _resolve(segment, walker, stats, parts, lower, None)


def _cuts(walker: Walker, position: int, end: int, border: int) -> set[int]:
    """Return the offsets at which to split a run, so that one batch of it becomes a separate run.

    The separate run contains the first batch whose last offset is `border` or higher. `position`
    and `end` are the file positions at which the original run begins and ends.
    """
    cuts: set[int] = set()
    for start, _, rows, _ in walker.tables(int(position), int(end)):
        if cuts and len(rows):
            return cuts | {int(rows["base_offset"][0])}
        last = last_offsets(rows)
        for i in np.flatnonzero(last >= border)[:1].tolist():
            (piece,) = walker.runs(rows[i : i + 1], start)
            cuts = {piece.first_offset, piece.last_offset + 1, *rows["base_offset"][i : i + 2].tolist()}
            if i + 1 < len(rows):
                return cuts
    return cuts


def _resolve(
    segment: SegmentFile, walker: Walker, stats: Stats, parts: Parts, lower: int, chain: set[int] | None
) -> SegmentPlan:
    """Make the plan of a segment from its runs of valid batches and its damaged spans.

    `chain` contains the indexes of the runs to accept. If it is None, all runs are accepted.
    """
    findings: list[Finding] = []
    n_bads = _unfinished_tail(segment, walker, parts, lower, findings)
    runs = parts.runs.objects()
    chosen = np.arange(len(runs)) if chain is None else np.array(sorted(chain), np.int64)
    extents = runs if chain is None else [runs[i] for i in chosen.tolist()]
    pieces: list[Run] = []
    pieces_at: list[int] = []
    moved: list[Run] = []
    if chain is not None:
        remaining = np.ones(len(runs), bool)
        remaining[chosen] = False
        fills, order = _fill_gaps(parts.runs, chosen, np.flatnonzero(remaining), lower)
        remaining[fills] = False
        moved = [runs[i] for i in fills.tolist()]
        found = list(zip(fills.tolist(), _out_of_place(segment.name, moved), strict=True))
        neighbours, around = Neighbours(segment), _Around([runs[i] for i in order.tolist()])
        for i in np.flatnonzero(remaining).tolist():
            for piece in [runs[i]] if around.gap_for(runs[i], lower) else _pieces(walker, runs[i]):
                if _repeats(walker, piece, around) or neighbours.hold(walker, piece):
                    found.append((i, _duplicate(segment.name, piece)))
                elif around.gap_for(piece, lower):
                    moved.append(piece)
                    around.insert(piece)
                    found += [(i, finding) for finding in _out_of_place(segment.name, [piece])]
                else:
                    pieces.append(piece)
                    pieces_at.append(int(parts.run_at[i]))
        findings += [finding for _, finding in sorted(found, key=itemgetter(0))]
        extents = around.extents
    moved.sort(key=_FIRST_OFFSET)
    bounds = _Bounds(segment, parts, chosen, moved, lower)
    damaged = _damaged_spans(segment, parts, n_bads, bounds)
    if pieces:
        lost = _contradicting(segment, pieces, *bounds.of(np.array(pieces_at, np.int64)))
        at = [*parts.bad_at[:n_bads].tolist(), *pieces_at]
        both = damaged + lost
        damaged = [both[i] for i in sorted(range(len(at)), key=at.__getitem__)]
    return SegmentPlan(segment, walker.size, extents, damaged, findings, stats)


def _fill_gaps(runs: RunColumns, chosen: IntArray, others: IntArray, lower: int) -> tuple[IntArray, IntArray]:
    """Find rejected runs whose offsets exactly fill a gap between two accepted runs or before the first one.

    `others` contains the indexes of the rejected runs. Return two arrays of indexes: the found runs
    in file order, and the accepted and found runs in offset order. If several runs fit in one gap,
    the first run is used. A run whose offsets overlap those of another rejected run is not used,
    because the result would depend on the order of the two runs.
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


_FIRST_OFFSET: Callable[[Run], int] = attrgetter("first_offset")
_LAST_OFFSET: Callable[[Run], int] = attrgetter("last_offset")


class _Bounds:
    """Computes which offsets may be missing because of damage, from the runs before and after the damage.

    Attributes
    ----------
    chosen : array of int64
        Indexes of the runs that are delivered in file order.
    moved : list of Run
        Runs that are delivered out of file order, sorted by offset.
    """

    def __init__(self, segment: SegmentFile, parts: Parts, chosen: IntArray, moved: list[Run], lower: int) -> None:
        self._at = parts.run_at[chosen]
        self._first, self._last = parts.runs.first[chosen], parts.runs.last[chosen]
        self._moved = moved
        self._lower = lower
        self._upper = None if segment.next_base is None else segment.next_base - 1

    def of(self, at: IntArray) -> tuple[list[int], list[int | None]]:
        """Return the first and the last offset that may be missing because of each damaged part.

        `at` contains the indexes of the damaged parts among all parts.
        """
        i = np.searchsorted(self._at, at)
        n = len(self._at)
        first = [self._lower] * len(at)
        last = [self._upper] * len(at)
        if n:
            before, after = i > 0, i < n
            first = np.where(before, self._last[np.maximum(i, 1) - 1] + 1, self._lower).tolist()
            last = (self._first[np.minimum(i, n - 1)] - 1).tolist()
            for k in np.flatnonzero(~after).tolist():
                last[k] = self._upper
        if self._moved:
            for k in range(len(at)):
                first[k], last[k] = self._without_moved(first[k], last[k])
        return first, last

    def _without_moved(self, first: int, last: int | None) -> tuple[int, int | None]:
        moved = self._moved
        k = bisect_left(moved, first, key=_FIRST_OFFSET)
        while k < len(moved) and moved[k].first_offset == first:
            first, k = moved[k].last_offset + 1, k + 1
        k = 0 if last is None else bisect_right(moved, last, key=_LAST_OFFSET)
        while k and moved[k - 1].last_offset == last:
            last, k = moved[k - 1].first_offset - 1, k - 1
        return first, last


def _damaged_spans(segment: SegmentFile, parts: Parts, n: int, bounds: _Bounds) -> list[Damage]:
    """Return a Damage object for each of the first `n` damaged spans."""
    if not n:
        return []
    bads = parts.bads
    position, end = bads.position[:n], bads.end[:n]
    length = (np.array(end) - np.array(position)).tolist()
    records, codes, messages = bads.counts()[:n], bads.codes()[:n], bads.messages()[:n]
    first, last = bounds.of(parts.bad_at[:n])
    columns = (position, length, first, last, codes, messages, records)
    return _objects(Damage, _DAMAGE_FIELDS, n, [segment.name] * n, *columns)


def _contradicting(segment: SegmentFile, pieces: list[Run], first: list[int], last: list[int | None]) -> list[Damage]:
    """Return a Damage object for each valid batch whose offsets contradict the accepted batches."""
    code, message = "contradicting_offsets", "offsets {} to {} contradict the batches before and after this batch"
    return [
        Damage(
            segment.name,
            p.position,
            p.end - p.position,
            a,
            b,
            code,
            message.format(p.first_offset, p.last_offset),
            p.records,
        )
        for p, a, b in zip(pieces, first, last, strict=True)
    ]


_DAMAGE_FIELDS = [getattr(Damage, name).__set__ for name in Damage.__slots__]
_FINDING_FIELDS = [getattr(Finding, name).__set__ for name in Finding.__slots__]


def _objects(cls: type[Object], set_fields: list[Any], n: int, *columns: Sequence[Any]) -> list[Object]:
    """Return `n` objects of a frozen class, given a column of values for each field.

    Setting the fields directly takes a third of the time that `__init__` takes.
    """
    new: Callable[[type[Object]], Object] = object.__new__
    objects = list(map(new, [cls] * n))
    for set_field, values in zip(set_fields, columns, strict=True):
        deque(map(set_field, objects, values), 0)
    return objects


def _out_of_place(file: str, runs: list[Run]) -> list[Finding]:
    """Return a finding for each run that is delivered out of file order."""
    what = "the batch is out of place in the file; it is delivered where its offsets fit"
    messages = [f"offsets {r.first_offset} to {r.last_offset} at position {r.position}: {what}" for r in runs]
    n = len(runs)
    return _objects(Finding, _FINDING_FIELDS, n, [file] * n, ["batch_out_of_place"] * n, messages)


def _duplicate(file: str, run: Run) -> Finding:
    what = "the batch is an identical copy of another batch; it is delivered once"
    message = f"offsets {run.first_offset} to {run.last_offset} at position {run.position}: {what}"
    return Finding(file, "duplicate_batch", message)


def _pieces(walker: Walker, run: Run) -> list[Run]:
    """Split a rejected run into runs of one batch each, so that every batch is judged separately."""
    if run.batches == 1:
        return [run]
    pieces = []
    for start, _, rows, _ in walker.tables(run.position, run.end):
        for i in range(len(rows)):
            pieces += walker.runs(rows[i : i + 1], start)
    return pieces


class _Around:
    """Keeps extents in offset order, and finds the gaps in their offsets that other runs fill.

    The extents are kept in blocks of limited size. Inserting into a single list would take
    quadratic time if every second batch of a segment is out of place.
    """

    BLOCK = 512
    """Number of extents in a new block. A block of twice that size is split."""

    def __init__(self, extents: list[Run]) -> None:
        size = self.BLOCK
        self._blocks = [extents[i : i + size] for i in range(0, len(extents), size)] or [[]]
        self._offsets = [[extent.first_offset for extent in block] for block in self._blocks]
        self._starts = [offsets[0] if offsets else 0 for offsets in self._offsets]

    @property
    def extents(self) -> list[Run]:
        """All extents, in offset order."""
        return [extent for block in self._blocks for extent in block]

    def _find(self, offset: int) -> tuple[int, int]:
        """Return the index of the block for `offset`, and the index in the block at which to insert `offset`."""
        block = max(bisect_right(self._starts, offset) - 1, 0)
        return block, bisect_right(self._offsets[block], offset)

    def before(self, piece: Run) -> tuple[Run | None, Run | None]:
        """Return the last extent that begins at or before the first offset of `piece`, and the next extent.

        Each of the two extents is None if it does not exist.
        """
        number, at = self._find(piece.first_offset)
        block = self._blocks[number]
        if at < len(block):
            after: Run | None = block[at]
        else:
            after = self._blocks[number + 1][0] if number + 1 < len(self._blocks) else None
        return (block[at - 1] if at else None), after

    def gap_for(self, piece: Run, lower: int) -> bool:
        """Return whether the offsets of the run `piece` exactly fill a gap between extents or before the first one."""
        before, after = self.before(piece)
        start = lower if before is None else before.last_offset + 1
        return start == piece.first_offset and after is not None and after.first_offset == piece.last_offset + 1

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


def _repeats(walker: Walker, piece: Run, around: _Around) -> bool:
    """Return whether an extent contains an identical copy of the batch `piece`."""
    extent, _ = around.before(piece)
    if extent is None or piece.last_offset > extent.last_offset:
        return False
    size = piece.end - piece.position
    for start, _, rows, _ in walker.tables(extent.position, extent.end):
        for row in rows[(rows["base_offset"] == piece.first_offset) & (rows["size"] == size)]:
            return walker.view.read(start + int(row["position"]), size) == walker.view.read(piece.position, size)
    return False


def _unfinished_tail(segment: SegmentFile, walker: Walker, parts: Parts, lower: int, findings: list[Finding]) -> int:
    """Report an incomplete last batch as a finding, and return the number of damaged spans before it.

    If the last batch is complete, return the number of all damaged spans.
    """
    n, runs = len(parts.bads), parts.runs
    if not segment.last:
        return n
    expected = int(runs.last[-1]) + 1 if len(runs) else lower
    start = int(np.searchsorted(parts.bad_at, parts.run_at[-1])) if len(runs) else 0
    for b in range(start, n):
        bad = parts.bad(b)
        if bad.records is None and (why := _tail_kind(walker, bad, expected)):
            length = walker.size - bad.position
            findings.append(
                Finding(segment.name, "unfinished_tail", f"{length} bytes at position {bad.position}: {why}")
            )
            return b
    return n


def _tail_kind(walker: Walker, bad: Bad, expected: int) -> str | None:
    """Return the reason why a damaged span counts as an incomplete last batch, or None if it does not."""
    position = bad.position
    zeros = walker.search.zero_tail()
    if zeros <= position:
        return "zeros to the end of the file"
    head = walker.view.read(position, BATCH_HEADER_SIZE)
    if not header_stands(head, expected):
        return None
    size = (
        int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True) + ENTRY_OVERHEAD
        if len(head) >= MAGIC_END
        else None
    )
    if bad.code == TruncatedError.code:
        return bad.message
    if size is not None and size > walker.size - position:
        return "the file ends inside a batch"
    inside = size is not None and position < zeros < position + size
    if bad.code == ChecksumError.code and inside and walker.size - zeros >= MIN_ZERO_TAIL:
        return "the last batch was not written completely"
    return None

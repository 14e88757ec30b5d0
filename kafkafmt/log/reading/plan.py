"""What of a segment can be delivered, in order, and what cannot: the plan that every reader of a log follows."""

from __future__ import annotations

import itertools
import sys
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field

import numpy as np

from ...constants import (
    BATCH_HEADER_SIZE,
    DEFAULT_MAX_BATCH_BYTES,
    ENTRY_OVERHEAD,
    LENGTH_AT,
    MAGIC_END,
    MAX_OFFSET,
)
from ...errors import KafkaFormatError, TruncatedError
from ...types import last_offsets
from ..format.files import FileView, list_directory
from ..format.names import base_offset_of, file_name
from .conflicts import believable, in_order
from .partition_dir import SegmentFile
from .search import header_stands
from .segment_walker import Bad, Run, See, Stats, Walker

MIN_ZERO_TAIL = 8
"""Zeros at a file's end that make a last batch with a wrong CRC an unfinished one: pages that were never written."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A span of a `.log` that cannot be delivered.

    first_offset, last_offset: the widest range that may be missing; None where that end is open; first = last + 1
    where nothing can be missing. records: how many data records it held, None where that is not known.
    """

    file: str
    position: int
    length: int
    first_offset: int | None
    last_offset: int | None
    error: str
    message: str
    records: int | None = None

    @property
    def lost(self) -> str:
        """What it may have cost, for a message."""
        if self.empty:
            return "no offset is missing"
        first = "unknown" if self.first_offset is None else self.first_offset
        last = "the end" if self.last_offset is None else self.last_offset
        return f"offsets {first} to {last} cannot be read"

    @property
    def empty(self) -> bool:
        return self.first_offset is not None and self.last_offset is not None and self.last_offset < self.first_offset


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth a line that keeps nothing from being delivered."""

    file: str
    error: str
    message: str


@dataclass
class SegmentPlan:
    """extents: runs of sound batches in the order of their offsets, each back to back in the file.

    next_offset: the offset after the last of them, None where there is none. size: the file's size when it was walked.
    """

    segment: SegmentFile
    size: int
    extents: list[Run]
    damaged: list[Damage]
    findings: list[Finding]
    stats: Stats = field(default_factory=Stats)

    @property
    def next_offset(self) -> int | None:
        return self.extents[-1].last_offset + 1 if self.extents else None


def plan_segment(
    segment: SegmentFile,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    run_bytes: int = sys.maxsize,
    mapped: bool = False,
    see: See | None = None,
) -> SegmentPlan:
    """Walk a segment, check every CRC, and decide what is delivered. run_bytes: extents are cut at about that size.

    see: gets every sound batch in the order of the file, before it is known what the plan makes of it.
    """
    lower = segment.base_offset or 0
    with FileView(segment.path, mapped) as view:
        walker = Walker(view, lower, max_batch_bytes, run_bytes)
        parts = list(walker.walk(see=see))
        stats = walker.stats
        if not in_order(parts, lower, segment.next_base):
            runs = [p for p in walker.walk(cut_gaps=True) if isinstance(p, Run)]
            cut_at = {o for r in runs for o in (r.first_offset, r.last_offset + 1)}
            for border in (lower, MAX_OFFSET if segment.next_base is None else segment.next_base):
                for run in runs:
                    cut_at |= _cuts(walker, run, border) if run.first_offset < border <= run.last_offset else set()
            for run, following in itertools.pairwise(runs):
                if run.batches > 1 and run.first_offset < following.first_offset <= run.last_offset:
                    cut_at |= _cuts(
                        walker, run, following.first_offset
                    )  # its last batch can have a wrong last offset delta
            parts = list(walker.walk(cut_gaps=True, cut_at=cut_at))
            return _resolve(segment, walker, stats, parts, lower, believable(parts, lower, segment.next_base))
        return _resolve(segment, walker, stats, parts, lower, None)


def _cuts(walker: Walker, run: Run, border: int) -> set[int]:
    """Where to cut a run so that its batches before an offset, the one that reaches across it, and those behind stand alone."""
    cuts: set[int] = set()
    for start, _, rows, _ in walker.tables(run.position, run.end):
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
    segment: SegmentFile, walker: Walker, stats: Stats, parts: list[Run | Bad], lower: int, chain: set[int] | None
) -> SegmentPlan:
    """Sort the parts into what is delivered, damage and findings. `chain`: the runs to believe, None for all of them."""
    findings: list[Finding] = []
    tail = _unfinished_tail(segment, walker, parts, lower, findings)
    parts = parts[:tail]
    chosen = [i for i, p in enumerate(parts) if isinstance(p, Run) and (chain is None or i in chain)]
    extents = [p for i in chosen if isinstance(p := parts[i], Run)]
    moved: list[Run] = []
    neighbours = Neighbours(segment)
    lost: list[tuple[int, Run | Bad]] = []
    for i, part in enumerate(parts):
        if isinstance(part, Bad):
            lost.append((i, part))
        elif chain is not None and i not in chain:
            for piece in [part] if _fills_gap(part, extents, lower) else _pieces(walker, part):
                if _repeats(walker, piece, extents) or neighbours.hold(walker, piece):
                    findings.append(
                        _finding(segment, "duplicate_batch", piece, "repeats a batch byte for byte; delivered once")
                    )
                elif _fills_gap(piece, extents, lower):
                    moved.append(piece)
                    insort(extents, piece, key=lambda r: r.first_offset)
                    findings.append(
                        _finding(
                            segment, "batch_out_of_place", piece, "lies out of place; delivered where its offsets fit"
                        )
                    )
                else:
                    lost.append((i, piece))
    moved.sort(key=lambda r: r.first_offset)
    damaged = [_damage(segment, parts, chosen, moved, lower, i, part) for i, part in lost]
    return SegmentPlan(segment, walker.size, extents, damaged, findings, stats)


def _finding(segment: SegmentFile, error: str, run: Run, what: str) -> Finding:
    return Finding(
        segment.name, error, f"offsets {run.first_offset} to {run.last_offset} at position {run.position}: {what}"
    )


def _pieces(walker: Walker, run: Run) -> list[Run]:
    """A run that is not believed, batch by batch: each is judged by itself."""
    if run.batches == 1:
        return [run]
    pieces = []
    for start, _, rows, _ in walker.tables(run.position, run.end):
        for i in range(len(rows)):
            pieces += walker.runs(rows[i : i + 1], start)
    return pieces


def _around(piece: Run, extents: list[Run]) -> tuple[Run | None, Run | None]:
    """The extents that begin at or before a piece's first offset, and next after it."""
    at = bisect_right(extents, piece.first_offset, key=lambda e: e.first_offset)
    return (extents[at - 1] if at else None), (extents[at] if at < len(extents) else None)


def _repeats(walker: Walker, piece: Run, extents: list[Run]) -> bool:
    """Is there the same batch, byte for byte, in what is delivered?"""
    extent, _ = _around(piece, extents)
    if extent is None or piece.last_offset > extent.last_offset:
        return False
    size = piece.end - piece.position
    for start, _, rows, _ in walker.tables(extent.position, extent.end):
        for row in rows[(rows["base_offset"] == piece.first_offset) & (rows["size"] == size)]:
            return walker.view.read(start + int(row["position"]), size) == walker.view.read(piece.position, size)
    return False


class Neighbours:
    """The segments before and behind one, asked for batches that lie outside of what its name and theirs leave it."""

    def __init__(self, segment: SegmentFile) -> None:
        self.segment = segment
        self._before: int | None = None
        self._held: dict[int, dict[tuple[int, int], int]] = {}

    def hold(self, walker: Walker, piece: Run) -> bool:
        """Does the neighbour whose offsets these are hold the same batch, byte for byte?"""
        base = self.segment.base_offset
        if base is None or piece.batches != 1:
            return False
        if self.segment.next_base is not None and piece.first_offset >= self.segment.next_base:
            base = self.segment.next_base
        elif piece.last_offset < base:
            if self._before is None:
                _, names = list_directory(self.segment.path.parent)
                self._before = max(
                    (b for n in names if (b := base_offset_of(n)) is not None and b < base), default=base
                )
            base = self._before
        if base == self.segment.base_offset or piece.first_offset < base:
            return False
        size = piece.end - piece.position
        try:
            with FileView(self.segment.path.with_name(file_name(base))) as view:
                if base not in self._held:
                    self._held[base] = _batches(view, base)
                position = self._held[base].get((piece.first_offset, size))
                return position is not None and view.read(position, size) == walker.view.read(piece.position, size)
        except FileNotFoundError:
            return False


def _batches(view: FileView, base: int) -> dict[tuple[int, int], int]:
    """Positions of the sound batches of a file, by first offset and size."""
    walker = Walker(view, base)
    runs = [p for p in walker.walk() if isinstance(p, Run)]
    return {
        (int(row["base_offset"]), int(row["size"])): start + int(row["position"])
        for run in runs
        for start, _, rows, _ in walker.tables(run.position, run.end)
        for row in rows
    }


def _fills_gap(piece: Run, extents: list[Run], lower: int) -> bool:
    """Do its offsets exactly fill a gap between two extents, or before the first?"""
    before, after = _around(piece, extents)
    start = lower if before is None else before.last_offset + 1
    return start == piece.first_offset and after is not None and after.first_offset == piece.last_offset + 1


def _damage(
    segment: SegmentFile,
    parts: list[Run | Bad],
    chosen: list[int],
    moved: list[Run],
    lower: int,
    i: int,
    part: Run | Bad,
) -> Damage:
    """A part that is lost, its offsets told by the parts around it that are delivered."""
    at = bisect_right(chosen, i)
    first, last = lower, segment.next_base - 1 if segment.next_base is not None else None
    if at and isinstance(before := parts[chosen[at - 1]], Run):
        first = before.last_offset + 1
    if at < len(chosen) and isinstance(after := parts[chosen[at]], Run):
        last = after.first_offset - 1
    k = bisect_left(moved, first, key=lambda r: r.first_offset)
    while k < len(moved) and moved[k].first_offset == first:
        first, k = moved[k].last_offset + 1, k + 1
    k = 0 if last is None else bisect_right(moved, last, key=lambda r: r.last_offset)
    while k and moved[k - 1].last_offset == last:
        last, k = moved[k - 1].first_offset - 1, k - 1
    if isinstance(part, Run):
        code, message = (
            "contradicting_offsets",
            f"offsets {part.first_offset} to {part.last_offset} fit neither of the batch's neighbours",
        )
    else:
        code, message = part.error.code, part.error.message
    return Damage(segment.name, part.position, part.end - part.position, first, last, code, message, part.records)


def _unfinished_tail(
    segment: SegmentFile, walker: Walker, parts: list[Run | Bad], lower: int, findings: list[Finding]
) -> int:
    """The number of parts before an unfinished tail, which becomes a finding; all of them where there is none."""
    if not segment.last:
        return len(parts)
    start = len(parts)
    while start and isinstance(parts[start - 1], Bad):
        start -= 1
    expected = next((p.last_offset + 1 for p in reversed(parts[:start]) if isinstance(p, Run)), lower)
    for i in range(start, len(parts)):
        bad = parts[i]
        if (
            isinstance(bad, Bad)
            and bad.records is None
            and (why := _tail_kind(walker, bad.position, bad.error, expected))
        ):
            length = walker.size - bad.position
            findings.append(
                Finding(segment.name, "unfinished_tail", f"{length} bytes at position {bad.position}: {why}")
            )
            return i
    return len(parts)


def _tail_kind(walker: Walker, position: int, error: KafkaFormatError, expected: int) -> str | None:
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
    if isinstance(error, TruncatedError):
        return error.message
    if size is not None and size > walker.size - position:
        return "the file ends inside a batch"
    inside = size is not None and position < zeros < position + size
    if error.code == "corrupt_checksum" and inside and walker.size - zeros >= MIN_ZERO_TAIL:
        return "the last batch was not written to its end"
    return None

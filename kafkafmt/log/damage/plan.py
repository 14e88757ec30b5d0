"""Decide which batches of a segment are read, in which order, and what is damaged.

`plan_segment` reads a whole segment and checks every CRC. It returns a `SegmentPlan`, which
describes the segment in three sequences.

- runs: the ranges of valid batches to read, in offset order;
- damage: the byte ranges that cannot be read, and the offsets that may be missing because of them;
- findings: other problems, which do not affect any complete batch.

If the records of a batch are damaged although its CRC matches, this is detected later, when they
are decoded (`Part.damage_of`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ...constants import BATCH_HEADER_SIZE, DEFAULT_MAX_BATCH_BYTES, MAGIC_END, MAX_OFFSET
from ...errors import ChecksumError, TruncatedError
from ...support.text import offset_range, quantity
from ...types import IntArray, distinct, last_offset, last_offsets
from ..catalog import SegmentFile
from ..findings import Damage, Finding
from ..scanning import Head, Stats, header_continues
from ..storage import FileView, named, occupied, overlapping
from .conflicts import believable, copies, in_order, lack_offsets
from .damaged_spans import OffsetBounds, damaged_spans
from .parts import COPY_PROBLEM, OFFSET_PROBLEM, UNKNOWN_COUNT, Bad, BadColumns, Parts, Run, RunColumns, Runs
from .segment_tables import BUFFER_BYTES, FIRST_READ, Scratch
from .segment_walker import See, Walker
from .unconfirmed import with_unconfirmed

UNREADABLE = "unreadable_sectors"
"""Code that is reported for bytes that the disk cannot read."""
MIN_ZERO_TAIL = 8
"""Minimum number of zeros at the end of a file that indicate pages which were never written. A last
batch with a wrong CRC is then treated as incomplete.
"""


NO_FINDINGS: tuple[Finding, ...] = ()
"""Findings of a segment without problems. Shared, because a list for each segment would slow down garbage collection."""


@dataclass(frozen=True)
class ReadLimits:
    """Settings for reading segments, except for the selection of records.

    Attributes
    ----------
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is reported as
        damage.
    run_bytes : int, optional
        Ranges of adjacent valid batches are divided at about this size, in bytes. By default, they
        are not divided.
    """

    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    run_bytes: int = sys.maxsize


DEFAULT_LIMITS = ReadLimits()


@dataclass
class SegmentPlan:
    """Lists the readable batches of a segment, and describes its damage and other problems.

    Attributes
    ----------
    segment : SegmentFile
        The segment.
    size : int
        Size of the file when the plan was made, in bytes.
    runs : sequence of Run
        Ranges of valid batches, in offset order. There are no other bytes between the batches of
        one range.
    damaged : sequence of Damage
        Byte ranges that cannot be read.
    findings : sequence of Finding
        Problems that do not prevent any complete batch from being read.
    stats : Stats
        Summary of the batch headers in the segment.
    unreadable : sequence of (start, end)
        Byte ranges that the disk cannot read.
    omitted : sequence of Run
        Ranges of valid batches that are not read, because they are copies or contradict other batches.
    """

    segment: SegmentFile
    size: int
    runs: Sequence[Run]
    damaged: Sequence[Damage]
    findings: Sequence[Finding]
    stats: Stats = field(default_factory=Stats)
    unreadable: Sequence[tuple[int, int]] = ()
    omitted: Sequence[Run] = ()

    @property
    def first_offset(self) -> int | None:
        """First offset of the valid batches. None if the segment has no valid batch."""
        offsets = self._offsets
        return None if offsets is None else offsets[0]

    @property
    def next_offset(self) -> int | None:
        """Offset after the last valid batch. None if the segment has no valid batch."""
        offsets = self._offsets
        return None if offsets is None else offsets[1]

    @property
    def _offsets(self) -> tuple[int, int] | None:
        runs = self.runs
        return runs.offsets if isinstance(runs, Runs) else Runs(RunColumns.of(runs)).offsets


def plan_segment(
    segment: SegmentFile, limits: ReadLimits = DEFAULT_LIMITS, see: See | None = None, scratch: Scratch | None = None
) -> SegmentPlan:
    """Read a segment, check every CRC, and decide which batches can be read and what is damaged.

    Parameters
    ----------
    segment : SegmentFile
        The segment.
    limits : ReadLimits, optional
        Limits for reading the segment.
    see : callable, optional
        Called with the valid batches, in file order, while the segment is read.
    scratch : Scratch, optional
        Memory that no other function uses at the same time. By default, memory is allocated.
    """
    with FileView(segment.place, fill_unreadable=True) as view:
        return plan_view(segment, view, limits, see, scratch)


def plan_view(
    segment: SegmentFile,
    view: FileView,
    limits: ReadLimits = DEFAULT_LIMITS,
    see: See | None = None,
    scratch: Scratch | None = None,
) -> SegmentPlan:
    """Return the plan of a segment whose file is open as `view`. See `plan_segment`."""
    lower = segment.base_offset or 0
    # Most of a preallocated segment is a hole. A large read would copy its zeros.
    first_read = FIRST_READ if occupied(view) <= view.size // 2 else BUFFER_BYTES
    walker = Walker(view, lower, limits.max_batch_bytes, limits.run_bytes, first_read, scratch)
    plan = _plan(segment, walker, lower, see)
    return with_unreadable(plan, view.unreadable) if view.unreadable else plan


def _plan(segment: SegmentFile, walker: Walker, lower: int, see: See | None) -> SegmentPlan:
    parts = with_unconfirmed(walker, walker.walk(see=see), lower, segment.next_base, cut_gaps=False)
    stats = walker.stats
    if in_order(parts, lower, segment.next_base):
        return _resolve(segment, walker, stats, parts, lower, None)
    runs = walker.walk(cut_gaps=True).runs
    # Ranges with the same offsets are cut at the same offsets, so one of them can be rejected, or be a copy.
    cuts = [runs.first, runs.last[runs.last < MAX_OFFSET] + 1]
    for border in (lower, MAX_OFFSET if segment.next_base is None else segment.next_base):
        cuts += [
            _around(walker, run, border) for run in runs.at((runs.first < border) & (border <= runs.last)).objects()
        ]
    cut_at = distinct(np.concatenate(cuts))
    parts = with_unconfirmed(walker, walker.walk(cut_gaps=True, cut_at=cut_at), lower, segment.next_base, cut_gaps=True)
    return _resolve(segment, walker, stats, parts, lower, believable(parts, lower, segment.next_base))


def _around(walker: Walker, run: Run, border: int) -> IntArray:
    """Return the offsets at which the batch across `border` begins and ends, or `border` if no batch is across it."""
    for start, buffer, table, _ in walker.tables(run.position, run.end):
        for row in table[last_offsets(table) >= border][:1]:
            first = int(walker.wrappers.first_offsets(start, buffer, row.reshape(1))[0])
            return np.array([first, min(last_offset(row), MAX_OFFSET - 1) + 1])
    return np.array([border])


def with_cause(damage: Damage, spans: list[tuple[int, int]]) -> Damage:
    """Return `damage`, with the code `unreadable_sectors` if the disk cannot read some of the damaged bytes.

    `spans` contains all byte ranges of the file that the disk cannot read.
    """
    inside = overlapping(spans, damage.position, damage.position + damage.length)
    return replace(damage, code=UNREADABLE, message=named(inside)) if inside else damage


def with_unreadable(plan: SegmentPlan, spans: list[tuple[int, int]]) -> SegmentPlan:
    """Add reports about unreadable sectors to a plan, and return the new plan.

    Damage that contains unreadable bytes gets the code `unreadable_sectors`. Other unreadable bytes
    are reported as findings, because all complete batches can be read without them.
    """
    damaged: list[Damage] = []
    covered: set[tuple[int, int]] = set()
    for damage in plan.damaged:
        covered.update(overlapping(spans, damage.position, damage.position + damage.length))
        damaged.append(with_cause(damage, spans))
    found = [Finding(plan.segment.name, UNREADABLE, named([span])) for span in spans if span not in covered]
    return replace(plan, damaged=damaged, findings=[*plan.findings, *found], unreadable=tuple(spans))


def _resolve(
    segment: SegmentFile, walker: Walker, stats: Stats, parts: Parts, lower: int, chosen: IntArray | None
) -> SegmentPlan:
    """Create the plan of a segment from its ranges of valid batches and its damaged byte ranges.

    The array `chosen` contains the indexes of the accepted ranges of valid batches. If `chosen` is
    None, all ranges are accepted.
    """
    n_bads, findings = len(parts.bads), NO_FINDINGS
    if segment.last:
        n_bads, findings = _unfinished_tail(segment, walker, parts, lower)
    runs = parts.runs if chosen is None else parts.runs.at(chosen)
    omitted: Sequence[Run] = ()
    if chosen is None:
        damaged = damaged_spans(segment.name, parts, n_bads, OffsetBounds(parts, None, lower, segment.next_base))
    else:
        rejected = np.setdiff1d(np.arange(len(parts.runs)), chosen)
        omitted = Runs(parts.runs.at(rejected))
        bounds = OffsetBounds(parts, chosen, lower, segment.next_base)
        copied = copies(walker.view, parts.runs, chosen, rejected)
        # If offsets are missing, a copy may have overwritten their batches.
        repeated = copied & (not lack_offsets(runs, lower, segment.next_base))
        bad_parts = _with_contradicting(parts, n_bads, rejected[~repeated], copied[~repeated])
        damaged = damaged_spans(segment.name, bad_parts, len(bad_parts.bads), bounds, runs)
        findings += tuple(_repeated(segment.name, run) for run in parts.runs.at(rejected[repeated]).objects())
    return SegmentPlan(
        segment,
        walker.size,
        Runs(runs),
        damaged,
        findings,
        stats,
        omitted=omitted,
    )


def _repeated(file: str, run: Run) -> Finding:
    what = offset_range(run.first_offset, run.last_offset)
    message = f"{what} at position {run.position}: an identical copy of another batch; it is delivered once"
    return Finding(file, "duplicate_batch", message)


def _with_contradicting(parts: Parts, n_bads: int, rejected: IntArray, copied: npt.NDArray[np.bool_]) -> Parts:
    """Add the rejected ranges of valid batches to the first `n_bads` damaged byte ranges, in file order."""
    runs, bads = parts.runs.at(rejected), BadColumns()
    runs.records[copied] = UNKNOWN_COUNT  # the number of records that the copies have overwritten
    bads.extend(parts.bads.at(np.arange(n_bads)))
    problem = np.where(copied, COPY_PROBLEM, OFFSET_PROBLEM)
    columns = (runs.position, runs.end, problem, runs.first, runs.last, runs.records, runs.batches, runs.batches != 1)
    bads.add_spans(np.stack(columns, axis=1))
    bad_at = np.concatenate((parts.bad_at[:n_bads], parts.run_at[rejected]))
    order = np.argsort(bad_at, kind="stable")
    return Parts(parts.runs, bads.at(order), parts.run_at, bad_at[order])


def _unfinished_tail(segment: SegmentFile, walker: Walker, parts: Parts, lower: int) -> tuple[int, tuple[Finding, ...]]:
    """Return the number of damaged byte ranges before an incomplete last batch of the last segment, and a finding.

    If the last batch is complete, return the number of all damaged byte ranges, and no finding.
    """
    n, runs = len(parts.bads), parts.runs
    expected = int(runs.last[-1]) + 1 if len(runs) else lower
    start = int(np.searchsorted(parts.bad_at, parts.run_at[-1])) if len(runs) else 0
    for b in range(start, n):
        bad = parts.bad(b)
        if walker.view.is_filler(bad.position, walker.size):
            continue
        if bad.records is None and (why := _tail_kind(walker, bad, expected)):
            length = walker.size - bad.position
            message = f"{quantity(length, 'byte')} at position {bad.position}: {why}"
            return b, (Finding(segment.name, "unfinished_tail", message),)
    return n, NO_FINDINGS


def _tail_kind(walker: Walker, bad: Bad, expected: int) -> str | None:
    """Describe an incomplete last batch. If the damaged byte range `bad` is another kind of damage, return None."""
    position = bad.position
    zeros = walker.search.zero_tail()
    if zeros <= position:
        return "zeros to the end of the file"
    head = Head(position, walker.view.read(position, BATCH_HEADER_SIZE))
    if not header_continues(head.data, expected):
        return None
    if bad.code == TruncatedError.code or (len(head.data) >= MAGIC_END and head.end > walker.size):
        if _later_batch_exists(walker, head):
            return None  # the length field is corrupted
        return bad.message if bad.code == TruncatedError.code else "the file ends inside a batch"
    inside = len(head.data) >= MAGIC_END and position < zeros < head.end
    if bad.code == ChecksumError.code and inside and walker.size - zeros >= MIN_ZERO_TAIL:
        return "the last batch was not written completely"
    return None


def _later_batch_exists(walker: Walker, head: Head) -> bool:
    """Return whether a valid batch of the log follows the batch `head`, whose length field exceeds the file.

    A valid batch with the next offset is a batch of the log. A valid batch with a higher offset can
    also be part of a value, if the file ends inside the batch `head`.
    """
    search, higher = walker.search, False
    for offset in search.offsets_of(search.find(head.position + 1, walker.size)):
        if offset == head.next_offset:
            return True
        higher |= offset > head.next_offset
    return higher and not search.is_cut_off(head)

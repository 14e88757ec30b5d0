"""Divide partitions into splits, which Spark tasks read on other machines.

`cut_splits` divides segments at the batch positions in their offset indexes, without reading the
segments. The tasks check the batches. For segments that were already checked, a plan lists the
valid batches, and `make_splits` divides these batches into splits.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ...log import PartitionDir, PartitionLog, SegmentFile
from ...log.damage import Run, SegmentPlan
from ...log.formats import CLEANER_OFFSETS, LOG_STARTS
from ...log.reading import OffsetInterval
from ...log.scanning import Border, Share, border_near, last_border, share_of
from ...log.storage import FileView
from ...log.transactions import Transactions
from .pieces import Piece, plain_bytes
from .same_log import data_size, topic_id_of

SPLIT_BYTES = 64 << 20
"""Approximate size of a split. Smaller ones would be inefficient: Spark needs about 30 ms to run a task."""


@dataclass
class Split:
    """Parts of one partition that a task reads, in offset order."""

    topic: str
    partition: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Size of all parts, in bytes."""
        return sum(p.bytes for p in self.pieces)

    @property
    def first_offset(self) -> int:
        """Lowest offset that this split can contain. It is unique in a partition."""
        return self.pieces[0].first_offset


def cut_splits(
    log: PartitionLog, segments: Iterable[SegmentFile], interval: OffsetInterval, split_bytes: int = SPLIT_BYTES
) -> list[Split]:
    """Divide segments into splits of about `split_bytes` bytes, in offset order, from their offset indexes."""
    # A segment without a usable index is not divided. Each split contains the transactions of its
    # batches if those of the whole log are known. An unknown size raises OSError, for example of a
    # truncated compressed segment: with the size 0, the segment would be skipped.
    directory = log.directory
    topic_id = topic_id_of(directory)
    transactions, interval = _committed_part(log, interval)
    later = _later_bytes(directory) if interval.committed and transactions is None else {}
    splits: list[Split] = []
    left = 0
    for segment in segments:
        data_end = data_size(segment)
        content = data_end if data_end < segment.size else None
        rest = _before_hole(segment, share_of(segment, interval.low, interval.damage_high), data_end)
        if not segment.size:
            _check_exists(log, segment)
        while rest.size:
            if left <= 0:
                splits.append(Split(directory.topic, directory.partition))
                left = split_bytes
            border = border_near(segment, rest.start.position + left) if rest.size > left else None
            if border is None or not _divides(rest, border):
                border = rest.end
            taken = Share(rest.start, border)
            base, last = segment.base_offset or 0, taken.end.upto
            own = None if transactions is None else transactions.within(base, last)
            bytes_after = later.get(segment.name, 0)
            splits[-1].pieces.append(
                Piece(alone(directory, segment), None, interval, own, taken, bytes_after, topic_id, content)
            )
            left -= taken.size
            rest = Share(border, rest.end)
    return splits


def _divides(rest: Share, border: Border) -> bool:
    """Return whether `border` is inside `rest`, and its index entry contradicts neither other entries nor `rest`."""
    start, end = rest.start, rest.end
    return (
        start.position < border.position < end.position
        and border.after < border.upto
        and (not start.indexed or start.upto <= border.after)
        and (not end.indexed or border.upto <= end.after)
    )


def _before_hole(segment: SegmentFile, share: Share, end: int) -> Share:
    """Return `share` without the preallocated space, which begins at the file position `end`."""
    # It is unchanged if the index contains a batch in this space, so that data is missing there, or
    # if all bytes of `share` are zeros.
    if not segment.last or share.end.indexed or end >= share.end.position:
        return share
    last = last_border(segment)
    start = max(share.start.position, 0 if last is None else last.position)
    return replace(share, end=replace(share.end, position=end)) if start < end else share


def _check_exists(log: PartitionLog, segment: SegmentFile) -> None:
    """Raise OSError if a file of size 0 is missing or cannot be read. A removal by retention is only reported."""
    try:
        FileView(segment.place).close()
    except FileNotFoundError:
        log.skip_missing(segment)


def make_splits(
    log: PartitionLog, plans: Iterable[SegmentPlan], interval: OffsetInterval, split_bytes: int = SPLIT_BYTES
) -> list[Split]:
    """Divide the valid batches of segments into splits of about `split_bytes` bytes, in offset order."""
    # A split consists of whole groups of batches. `ReadLimits.run_bytes`, the limit of a group,
    # should be much smaller than `split_bytes`. Each split contains the transactions of its batches
    # if those of the whole log are known.
    directory = log.directory
    topic_id = topic_id_of(directory)
    transactions, interval = _committed_part(log, interval)
    later = _later_bytes(directory) if interval.committed and transactions is None else {}
    splits: list[Split] = []
    left = 0
    for plan in plans:
        wanted = [e for e in plan.runs if e.last_offset >= interval.low and e.first_offset < interval.high]
        while wanted:
            if left <= 0:
                splits.append(Split(directory.topic, directory.partition))
                left = split_bytes
            taken = _take(wanted, left)
            left -= sum(e.end - e.position for e in taken)
            wanted = wanted[len(taken) :]
            part = replace(plan, runs=taken, damaged=[], findings=[])
            first, last = taken[0].first_offset, max(e.last_offset for e in taken)
            own = None if transactions is None else transactions.within(first, last)
            piece = Piece(
                alone(directory, plan.segment), part, interval, own, None, later.get(plan.segment.name, 0), topic_id
            )
            splits[-1].pieces.append(piece)
    return splits


def _committed_part(log: PartitionLog, interval: OffsetInterval) -> tuple[Transactions | None, OffsetInterval]:
    """Return the transactions, or None if unknown or not needed, and `interval` up to the last stable offset."""
    # If `interval` also selects uncommitted records, it is unchanged.
    if not interval.committed:
        return None, interval
    interval = stable_part(log, interval)
    return log.transactions if log.knows_transactions else None, interval


def _later_bytes(directory: PartitionDir) -> dict[str, int]:
    """Map the name of each segment to the total size of the segments after it."""
    sizes = [plain_bytes([segment]) for segment in reversed(directory.segments)]
    totals = itertools.accumulate(sizes, initial=0)
    return {segment.name: total for segment, total in zip(reversed(directory.segments), totals, strict=False)}


def stable_part(log: PartitionLog, interval: OffsetInterval) -> OffsetInterval:
    """Return the part of `interval` below the last stable offset. If uncommitted records are selected, return `interval`."""
    if not interval.committed:
        return interval
    found = log.open_transactions
    return interval.stable(found.last_stable_offset, not found.open)


def may_hold(segment: SegmentFile, interval: OffsetInterval) -> bool:
    """Return whether a segment may contain offsets in `interval`, according to its file name."""
    return (segment.base_offset is None or segment.base_offset < interval.high) and (
        segment.next_base is None or segment.next_base > interval.low
    )


def _take(runs: list[Run], most: int) -> list[Run]:
    """Return groups of batches from the start of the list `runs`, until their total size reaches `most` bytes."""
    size, n = 0, 0
    while n < len(runs) and (n == 0 or size < most):
        size += runs[n].end - runs[n].position
        n += 1
    return runs[:n]


def alone(directory: PartitionDir, segment: SegmentFile) -> PartitionDir:
    """Return `directory` with only `segment`, because a task reads no other one."""
    # The end of the log is not in the copy, because the driver compares it with the checkpoints.
    base = segment.base_offset
    at = 0 if base is None else bisect_left(directory.segments, base, key=lambda s: s.base_offset or 0)
    before = directory.segments[at - 1].base_offset if at else None
    kept = {name: offset for name, offset in directory.checkpoints.items() if name in (LOG_STARTS, CLEANER_OFFSETS)}
    return replace(directory, segments=[segment], problems=[], before=before, checkpoints=kept)

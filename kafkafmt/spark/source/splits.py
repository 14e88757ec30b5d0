"""Divide segments into splits that a task can read on another machine.

Segments are divided at positions that their offset indexes name, without reading them
(`cut_splits`). The tasks check the batches. If a segment has been planned, the valid batches in its
plan are divided instead (`make_splits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...log import Damage, PartitionDir, PartitionLog, SegmentFile
from ...log.reading.index_ranges import Stretch, border_near, stretch_of
from ...log.reading.offset_interval import OffsetInterval
from ...log.reading.parts import Run
from ...log.reading.plan import SegmentPlan
from ...log.reading.read_limits import DEFAULT_LIMITS, ReadLimits
from ...log.reading.transactions import Transactions
from ...records import Chunk
from ...types import RecordColumns
from ..hosts import with_host

SPLIT_BYTES = 64 << 20
"""Approximate size of a split, in bytes. A split contains only whole batches. Smaller splits would
be inefficient, because Spark needs about 30 ms for each task.
"""


@dataclass
class Piece:
    """A stretch of one segment, or groups of consecutive valid batches in it."""

    directory: PartitionDir
    """Copy of the partition directory that lists only this segment."""
    plan: SegmentPlan | None
    """The valid batches. None if the segment has not been planned."""
    interval: OffsetInterval
    """The selected records."""
    transactions: Transactions | None = None
    """The transactions of these batches if only committed records are selected. Otherwise None."""
    stretch: Stretch | None = None
    """The stretch to read if there is no plan."""

    @property
    def segment(self) -> SegmentFile:
        """The segment."""
        return self.directory.segments[0]

    @property
    def extents(self) -> Sequence[Run]:
        """The extents of the plan. Empty if there is no plan."""
        return [] if self.plan is None else self.plan.extents

    @property
    def bytes(self) -> int:
        """Size of the stretch, or total size of the extents of the plan, in bytes."""
        if self.plan is not None:
            return sum(e.end - e.position for e in self.plan.extents)
        return 0 if self.stretch is None else self.stretch.size

    @property
    def first_offset(self) -> int:
        """The lowest offset that the piece can contain.

        This offset is different for each piece of a partition.
        """
        if self.plan is not None and self.plan.extents:
            return max(self.interval.low, self.plan.extents[0].first_offset)
        border = None if self.stretch is None else self.stretch.start
        return max(self.interval.low, border.upto if border and border.indexed else self.segment.base_offset or 0)

    def chunks(
        self,
        columns: RecordColumns,
        *,
        on_damage: Callable[[Damage], None] | None = None,
        limits: ReadLimits = DEFAULT_LIMITS,
        tell: Callable[[str], None] | None = None,
        on_missing: Callable[[SegmentFile], None] | None = None,
        on_end: Callable[[PartitionLog], None] | None = None,
        confirmed_only: bool = False,
    ) -> Iterator[Chunk]:
        """Decode the records of this piece into `columns`, and yield them in offset order.

        Parameters
        ----------
        columns : RecordColumns
        on_damage : callable, optional
            Called with damage inside batches. By default, the damage is raised as an error.
        limits : ReadLimits, optional
            How the segment is read.
        tell : callable, optional
            Called with a message if retention removed the segment file after it was planned.
        on_missing : callable, optional
            Called with the segment if retention removed its file after it was planned.
        on_end : callable, optional
            Called with the log after the last record.
        confirmed_only : bool, default False
            Raise an error if the stretch cannot be read in one pass. By default, the task makes the
            plan of the segment.

        Raises
        ------
        OSError
            The segment file is missing for a reason other than retention, or it is not the file
            that was planned. The message names this host.
        UnconfirmedError
            `confirmed_only` is True, and the stretch cannot be read in one pass.
        """
        log = PartitionLog(self.directory, limits, tell=tell, on_missing=on_missing)
        log.confirmed_only = confirmed_only
        if self.plan is not None:
            log.adopt(self.plan)
        elif self.stretch is not None:
            log.restrict(self.segment, self.stretch)
        if self.transactions is not None:
            log.transactions = self.transactions
        try:
            yield from log.chunks(columns, self.interval, on_damage=on_damage)
        except OSError as error:
            raise with_host(error) from error
        if on_end is not None:
            on_end(log)

    def check(self, limits: ReadLimits) -> None:
        """Raise UnconfirmedError if the stretch cannot be read in one pass. No record is decoded."""
        if self.plan is None:
            log = PartitionLog(self.directory, limits)
            log.confirmed_only = True
            if self.stretch is not None:
                log.restrict(self.segment, self.stretch)
            for _ in log.parts(self.interval.low, self.interval.high, None):
                pass


@dataclass
class Split:
    """Pieces of one partition, in offset order."""

    topic: str
    partition: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Total size of all pieces, in bytes."""
        return sum(p.bytes for p in self.pieces)

    @property
    def first_offset(self) -> int:
        """The lowest offset that the split can contain.

        This offset is different for each split of a partition.
        """
        return self.pieces[0].first_offset


def cut_splits(
    log: PartitionLog, segments: Iterable[SegmentFile], interval: OffsetInterval, split_bytes: int = SPLIT_BYTES
) -> list[Split]:
    """Divide segments into splits of about `split_bytes` bytes, in offset order.

    Only a few KB of the offset indexes are read. A segment without a usable index is not divided.

    Parameters
    ----------
    log : PartitionLog
        The partition. If only committed records are selected, each split contains the transactions
        of its batches.
    segments : iterable of SegmentFile
        Segments of the partition, in ascending order.
    interval : OffsetInterval
        The selected records.
    split_bytes : int
        Size of a split, in bytes.
    """
    directory = log.directory
    transactions, interval = _committed_part(log, interval)
    splits: list[Split] = []
    left = 0
    for segment in segments:
        rest = stretch_of(segment, interval.low, interval.high)
        while rest.size:
            if left <= 0:
                splits.append(Split(directory.topic, directory.partition))
                left = split_bytes
            border = border_near(segment, rest.start.position + left) if rest.size > left else None
            if border is None or not rest.start.position < border.position < rest.end.position:
                border = rest.end
            taken = Stretch(rest.start, border)
            base, last = segment.base_offset or 0, taken.end.upto
            own = None if transactions is None else transactions.within(base, last)
            splits[-1].pieces.append(Piece(alone(directory, segment), None, interval, own, taken))
            left -= taken.size
            rest = Stretch(border, rest.end)
    return splits


def make_splits(
    log: PartitionLog, plans: Iterable[SegmentPlan], interval: OffsetInterval, split_bytes: int = SPLIT_BYTES
) -> list[Split]:
    """Divide the planned segments of a partition into splits of about `split_bytes` bytes.

    The splits are in offset order.

    No split contains damaged bytes. A split ends at the end of an extent (a group of consecutive
    batches). Therefore, the `run_bytes` of the plans, which limits the size of an extent, should be
    much smaller than `split_bytes`.

    Parameters
    ----------
    log : PartitionLog
        The partition. If only committed records are selected, each split contains the transactions
        of its batches.
    plans : iterable of SegmentPlan
    interval : OffsetInterval
        The selected records.
    split_bytes : int
        Size of a split, in bytes.
    """
    directory = log.directory
    transactions, interval = _committed_part(log, interval)
    splits: list[Split] = []
    left = 0
    for plan in plans:
        wanted = [e for e in plan.extents if e.last_offset >= interval.low and e.first_offset < interval.high]
        while wanted:
            if left <= 0:
                splits.append(Split(directory.topic, directory.partition))
                left = split_bytes
            taken = _take(wanted, left)
            left -= sum(e.end - e.position for e in taken)
            wanted = wanted[len(taken) :]
            part = replace(plan, extents=taken, damaged=[], findings=[])
            first, last = taken[0].first_offset, max(e.last_offset for e in taken)
            own = None if transactions is None else transactions.within(first, last)
            splits[-1].pieces.append(Piece(alone(directory, plan.segment), part, interval, own))
    return splits


def _committed_part(log: PartitionLog, interval: OffsetInterval) -> tuple[Transactions | None, OffsetInterval]:
    """Return the transactions of a log, and the interval up to the last stable offset.

    If all records are selected, return None and the whole interval.
    """
    if not interval.committed:
        return None, interval
    return log.transactions, interval.ending_at(log.transactions.last_stable_offset)


def may_hold(segment: SegmentFile, interval: OffsetInterval) -> bool:
    """Return whether a segment, judging by its file name, may contain offsets in `interval`."""
    return (segment.base_offset is None or segment.base_offset < interval.high) and (
        segment.next_base is None or segment.next_base > interval.low
    )


def _take(extents: list[Run], most: int) -> list[Run]:
    """Return extents from the start of the list until their total size reaches `most` bytes.

    At least one extent is returned, unless the list is empty.
    """
    size, n = 0, 0
    while n < len(extents) and (n == 0 or size < most):
        size += extents[n].end - extents[n].position
        n += 1
    return extents[:n]


def alone(directory: PartitionDir, segment: SegmentFile) -> PartitionDir:
    """Return a copy of `directory` with only one segment, because a task needs no other segment."""
    return replace(directory, segments=[segment], problems=[])

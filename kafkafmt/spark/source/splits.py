"""Divide planned segments into splits that a task can read on another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ...log import Damage, PartitionDir, PartitionLog, SegmentFile
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
    """Groups of consecutive valid batches in one segment."""

    directory: PartitionDir
    """Copy of the partition directory that lists only this segment."""
    plan: SegmentPlan
    interval: OffsetInterval
    """The selected records."""
    transactions: Transactions | None = None
    """All transactions of the log if only committed records are selected. Otherwise None."""

    @property
    def bytes(self) -> int:
        """Total size of the extents, in bytes."""
        return sum(e.end - e.position for e in self.plan.extents)

    def chunks(
        self,
        columns: RecordColumns,
        *,
        on_damage: Callable[[Damage], None] | None = None,
        limits: ReadLimits = DEFAULT_LIMITS,
        tell: Callable[[str], None] | None = None,
        on_missing: Callable[[SegmentFile], None] | None = None,
        on_end: Callable[[PartitionLog], None] | None = None,
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

        Raises
        ------
        OSError
            The segment file is missing for a reason other than retention, or it is not the file
            that was planned. The message names this host.
        """
        log = PartitionLog(self.directory, limits, tell=tell, on_missing=on_missing)
        log.adopt(self.plan, self.transactions)
        try:
            yield from log.chunks(columns, self.interval, on_damage=on_damage)
        except OSError as error:
            raise with_host(error) from error
        if on_end is not None:
            on_end(log)


@dataclass
class Split:
    """Pieces of one partition, in offset order."""

    topic: str
    partition: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Total size of the extents in all pieces, in bytes."""
        return sum(p.bytes for p in self.pieces)

    @property
    def first_offset(self) -> int:
        """The lowest offset that the split can contain.

        This offset is different for each split of a partition.
        """
        first = self.pieces[0]
        return max(first.interval.low, first.plan.extents[0].first_offset)


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
        The partition. If only committed records are selected, its transactions are copied into the
        splits.
    plans : iterable of SegmentPlan
    interval : OffsetInterval
        The selected records.
    split_bytes : int
        Size of a split, in bytes.
    """
    directory, transactions = log.directory, log.transactions if interval.committed else None
    if transactions is not None:
        interval = interval.ending_at(transactions.last_stable_offset)
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
            splits[-1].pieces.append(Piece(alone(directory, plan.segment), part, interval, transactions))
    return splits


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

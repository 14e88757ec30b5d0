"""Divide segments into splits that a task can read on another machine.

Segments are divided at positions that their offset indexes name, without reading them
(`cut_splits`). The tasks check the batches. If a segment has been planned, the valid batches in its
plan are divided instead (`make_splits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ...constants import DEFAULT_MAX_BATCH_BYTES, NO_END
from ...log import Damage, PartitionDir, PartitionLog, SegmentFile
from ...log.reading.index_ranges import Stretch, border_near, stretch_of
from ...log.reading.parts import Run
from ...log.reading.plan import SegmentPlan
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
    """A stretch of one segment, or groups of consecutive valid batches in it.

    Only records with offsets in [start, end) are selected.
    """

    directory: PartitionDir
    """Copy of the partition directory that lists only this segment."""
    plan: SegmentPlan | None
    """The valid batches. None if the segment has not been planned."""
    start: int
    end: int
    transactions: Transactions | None = None
    """All transactions of the log if only committed records are selected. Otherwise None."""
    stretch: Stretch | None = None
    """The stretch to read if there is no plan."""

    @property
    def segment(self) -> SegmentFile:
        """The segment."""
        return self.directory.segments[0]

    @property
    def extents(self) -> list[Run]:
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
            return max(self.start, self.plan.extents[0].first_offset)
        border = None if self.stretch is None else self.stretch.start
        return max(self.start, border.upto if border and border.indexed else self.segment.base_offset or 0)

    def chunks(
        self,
        columns: RecordColumns,
        *,
        control: bool = False,
        on_damage: Callable[[Damage], None] | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        tell: Callable[[str], None] | None = None,
        on_missing: Callable[[SegmentFile], None] | None = None,
        on_end: Callable[[PartitionLog], None] | None = None,
        confirmed_only: bool = False,
    ) -> Iterator[Chunk]:
        """Decode the records of this piece into `columns`, and yield them in offset order.

        Parameters
        ----------
        columns : RecordColumns
        control : bool, default False
            Include control records.
        on_damage : callable, optional
            Called with damage inside batches. By default, the damage is raised as an error.
        max_batch_bytes : int
            Largest size of one batch, in bytes after decompression.
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
        log = PartitionLog(self.directory, max_batch_bytes=max_batch_bytes, tell=tell, on_missing=on_missing)
        log.confirmed_only = confirmed_only
        if self.plan is not None:
            log.adopt(self.plan)
        elif self.stretch is not None:
            log.restrict(self.segment, self.stretch)
        if self.transactions is not None:
            log.transactions = self.transactions
        committed = self.transactions is not None
        selection: dict[str, Any] = {
            "start": self.start,
            "end": self.end,
            "below_log_start": True,
            "committed": committed,
        }
        try:
            yield from log.chunks(columns, control=control, on_damage=on_damage, **selection)
        except OSError as error:
            raise with_host(error) from error
        if on_end is not None:
            on_end(log)

    def check(self, max_batch_bytes: int) -> None:
        """Raise UnconfirmedError if the stretch cannot be read in one pass. No record is decoded."""
        if self.plan is None:
            log = PartitionLog(self.directory, max_batch_bytes=max_batch_bytes)
            log.confirmed_only = True
            if self.stretch is not None:
                log.restrict(self.segment, self.stretch)
            for _ in log.parts(self.start, self.end, None):
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
    directory: PartitionDir,
    segments: Iterable[SegmentFile],
    low: int,
    high: int,
    *,
    transactions: Transactions | None = None,
    split_bytes: int = SPLIT_BYTES,
) -> list[Split]:
    """Divide segments into splits of about `split_bytes` bytes, in offset order.

    Only a few KB of the offset indexes are read. A segment without a usable index is not divided.

    Parameters
    ----------
    directory : PartitionDir
    segments : iterable of SegmentFile
        Segments of the partition, in ascending order.
    low, high : int
        Range of offsets; `high` is exclusive.
    transactions : Transactions, optional
        All transactions of the log if only committed records are selected. Otherwise None.
    split_bytes : int
        Size of a split, in bytes.
    """
    if transactions is not None:
        high = min(high, transactions.last_stable_offset)
    splits: list[Split] = []
    left = 0
    for segment in segments:
        rest = stretch_of(segment, low, high)
        while rest.size:
            if left <= 0:
                splits.append(Split(directory.topic, directory.partition))
                left = split_bytes
            border = border_near(segment, rest.start.position + left) if rest.size > left else None
            if border is None or not rest.start.position < border.position < rest.end.position:
                border = rest.end
            taken = Stretch(rest.start, border)
            splits[-1].pieces.append(Piece(alone(directory, segment), None, low, high, transactions, taken))
            left -= taken.size
            rest = Stretch(border, rest.end)
    return splits


def make_splits(
    directory: PartitionDir,
    plans: Iterable[SegmentPlan],
    start: int | None = None,
    end: int | None = None,
    *,
    below_log_start: bool = False,
    transactions: Transactions | None = None,
    split_bytes: int = SPLIT_BYTES,
) -> list[Split]:
    """Divide the planned segments of a partition into splits of about `split_bytes` bytes.

    The splits are in offset order.

    No split contains damaged bytes. A split ends at the end of an extent (a group of consecutive
    batches). Therefore, the `run_bytes` of the plans, which limits the size of an extent, should be
    much smaller than `split_bytes`.

    Parameters
    ----------
    directory : PartitionDir
    plans : iterable of SegmentPlan
    start, end : int, optional
        Range of offsets. By default, the range extends to the start or the end of the log.
    below_log_start : bool, default False
        Include records below the log start offset.
    transactions : Transactions, optional
        All transactions of the log if only committed records are selected. Otherwise None.
    split_bytes : int
        Size of a split, in bytes.
    """
    low, high = offset_range(directory, start, end, below_log_start)
    if transactions is not None:
        high = min(high, transactions.last_stable_offset)
    splits: list[Split] = []
    left = 0
    for plan in plans:
        wanted = [e for e in plan.extents if e.last_offset >= low and e.first_offset < high]
        while wanted:
            if left <= 0:
                splits.append(Split(directory.topic, directory.partition))
                left = split_bytes
            taken = _take(wanted, left)
            left -= sum(e.end - e.position for e in taken)
            wanted = wanted[len(taken) :]
            part = replace(plan, extents=taken, damaged=[], findings=[])
            splits[-1].pieces.append(Piece(alone(directory, plan.segment), part, low, high, transactions))
    return splits


def offset_range(directory: PartitionDir, start: int | None, end: int | None, below_log_start: bool) -> tuple[int, int]:
    """Return the range of selected offsets as (low, high), where `high` is exclusive.

    If `start` is None, the range starts at the start of the log. If `end` is None, it ends at the
    end of the log.
    """
    low = 0 if below_log_start else directory.log_start_offset
    return low if start is None else max(low, start), NO_END if end is None else end


def may_hold(segment: SegmentFile, low: int, high: int) -> bool:
    """Return whether a segment, judging by its file name, may contain offsets in [low, high)."""
    return (segment.base_offset is None or segment.base_offset < high) and (
        segment.next_base is None or segment.next_base > low
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

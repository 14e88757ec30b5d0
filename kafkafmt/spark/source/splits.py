"""Cut planned segments into splits that a task can read on another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ...constants import DEFAULT_MAX_BATCH_BYTES, NO_END
from ...log import Damage, PartitionDir, PartitionLog, SegmentFile
from ...log.reading.parts import Run
from ...log.reading.plan import SegmentPlan
from ...log.reading.transactions import Transactions
from ...records import Chunk
from ...types import RecordColumns
from ..hosts import with_host

SPLIT_BYTES = 64 << 20
"""Bytes of a split, which ends at a batch boundary. Smaller splits would cost more: a task takes
Spark about 30 ms.
"""


@dataclass
class Piece:
    """Extents of one segment, of which the records with offsets in [start, end) are selected."""

    directory: PartitionDir
    """With this one segment only."""
    plan: SegmentPlan
    start: int
    end: int
    transactions: Transactions | None = None
    """Outcomes of all transactions of the log if only committed records are selected, else None."""

    @property
    def bytes(self) -> int:
        """Size of the extents in the file."""
        return sum(e.end - e.position for e in self.plan.extents)

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
    ) -> Iterator[Chunk]:
        """Yield the records of the piece, decoded into `columns`, in the order of offsets.

        Raise an OSError that names this host if the file is missing for a reason other than
        retention, or is not the one that was planned.

        control: include control records.
        on_damage: called with damage inside batches; None to raise it.
        tell: called with a message if retention removed the file after it was planned.
        on_missing: called with the segment in that case.
        on_end: called with the log after the last record.
        """
        log = PartitionLog(self.directory, max_batch_bytes=max_batch_bytes, tell=tell, on_missing=on_missing)
        log.adopt(self.plan, self.transactions)
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


@dataclass
class Split:
    """Pieces of one partition, in the order of offsets."""

    topic: str
    partition: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Size of the extents in the files."""
        return sum(p.bytes for p in self.pieces)

    @property
    def first_offset(self) -> int:
        """The lowest offset that the split can contain.

        It differs between the splits of a partition.
        """
        first = self.pieces[0]
        return max(first.start, first.plan.extents[0].first_offset)


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
    """Return the planned segments of a partition as splits of about `split_bytes`, in offset order.

    start, end: offsets; None for the log's own start and end.
    transactions: those of the whole log if only committed records are selected, else None.

    Damage is in no split. The plans' `run_bytes` should be well below `split_bytes`, because a
    split ends at the end of an extent.
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
    """Return the selected offsets as [low, high). start, end: None for the log's own start and end."""
    low = 0 if below_log_start else directory.log_start_offset
    return low if start is None else max(low, start), NO_END if end is None else end


def may_hold(segment: SegmentFile, low: int, high: int) -> bool:
    """Return whether a segment may contain offsets in [low, high), according to the file names."""
    return (segment.base_offset is None or segment.base_offset < high) and (
        segment.next_base is None or segment.next_base > low
    )


def _take(extents: list[Run], most: int) -> list[Run]:
    """Return the first extents, until they have `most` bytes together; at least one."""
    size, n = 0, 0
    while n < len(extents) and (n == 0 or size < most):
        size += extents[n].end - extents[n].position
        n += 1
    return extents[:n]


def alone(directory: PartitionDir, segment: SegmentFile) -> PartitionDir:
    """Return the directory with only one of its segments, which is all that a task needs."""
    return replace(directory, segments=[segment], problems=[])

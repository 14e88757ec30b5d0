"""The work of a Spark job, cut to size: extents of segments, with all that a task needs to read them by itself."""

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
"""A task's share of a partition, cut at a batch border; a task costs Spark about 30 ms."""


@dataclass
class Piece:
    """Extents of one segment, and the records of them that are meant: offsets in [start, end).

    transactions: what became of the whole log's, where only committed records are meant.
    """

    directory: PartitionDir
    plan: SegmentPlan
    start: int
    end: int
    transactions: Transactions | None = None

    @property
    def bytes(self) -> int:
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
    ) -> Iterator[Chunk]:
        """Yield the records of the piece, decoded into `columns`, in the order of offsets.

        tell, on_missing: called with a message, and with the segment, if retention removed the file after it was planned. Raise an
        OSError that names this host if the file is missing for another reason, or is not the one that was planned.
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


@dataclass
class Split:
    """One task: pieces of one partition in the order of offsets."""

    topic: str
    partition: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(p.bytes for p in self.pieces)

    @property
    def first_offset(self) -> int:
        """The first offset that the split may hold; splits of a partition never share one."""
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
    """A partition's planned segments as splits of about `split_bytes`, in the order of offsets. Damage is not among them.

    transactions: those of the whole log, where only committed records are meant. The plans' extents should have been
    cut with a `run_bytes` well below `split_bytes`.
    """
    low = 0 if below_log_start else directory.log_start_offset
    low = low if start is None else max(low, start)
    high = NO_END if end is None else end
    if transactions is not None:
        high = min(high, transactions.last_stable_offset)
    splits: list[Split] = []
    room = 0
    for plan in plans:
        wanted = [e for e in plan.extents if e.last_offset >= low and e.first_offset < high]
        while wanted:
            if room <= 0:
                splits.append(Split(directory.topic, directory.partition))
                room = split_bytes
            taken = _take(wanted, room)
            room -= sum(e.end - e.position for e in taken)
            wanted = wanted[len(taken) :]
            part = replace(plan, extents=taken, damaged=[], findings=[])
            splits[-1].pieces.append(Piece(alone(directory, plan.segment), part, low, high, transactions))
    return splits


def _take(extents: list[Run], room: int) -> list[Run]:
    """The extents from the first on that fill the room; at least one."""
    size, n = 0, 0
    while n < len(extents) and (n == 0 or size < room):
        size += extents[n].end - extents[n].position
        n += 1
    return extents[:n]


def alone(directory: PartitionDir, segment: SegmentFile) -> PartitionDir:
    """Return the directory with nothing but one segment, which is all that a task needs of it."""
    return replace(directory, segments=[segment], problems=[])

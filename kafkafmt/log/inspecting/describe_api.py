"""Describe partitions from their batch headers: offsets, records, sizes, codecs and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...constants import CODEC_NAMES, DEFAULT_MAX_BATCH_BYTES
from ...support import arguments
from ...support.notebook import UNKNOWN, html_table
from ...support.report import Report
from ...support.text import counted
from ..catalog import PartitionDir, Source, Sources, listed
from ..damage import ReadLimits, SegmentPlan
from ..damage import Run as BatchRun
from ..reading import PartitionLog
from ..verifying import (
    EXIT_DAMAGE,
    EXIT_UNREADABLE,
    Globs,
    Numbers,
    OnMessage,
    Progress,
    Run,
    UnreadablePartition,
    count_from,
    remote_dict,
    unreadable_dict,
)


@dataclass(frozen=True)
class OpenProducer:
    """A producer that has an open transaction, with the first offset of that transaction."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True)
class LeaderEpoch:
    """A leader epoch, with the offset at which it starts."""

    epoch: int
    start_offset: int


@dataclass(frozen=True)
class PartitionSummary:
    """Properties of a partition, computed from its batch headers.

    Attributes
    ----------
    topic, partition, path : str, int, str
        The topic, the partition number and the partition directory.
    state : {"live", "delete", "stray", "future"}
        The state that the directory's name indicates.
    segments, bytes : int
        Number and total size of the `.log` files.
    log_start_offset, next_offset, last_stable_offset : int
        The offsets that a broker would report. `next_offset` is the log end offset.
    open_transactions : tuple of OpenProducer
        The open transactions, sorted by first offset.
    leader_epochs : tuple of LeaderEpoch, or None
        The entries of `leader-epoch-checkpoint`. None if the file is missing, empty or unreadable.
    gaps : int or None
        Number of offsets without a record, counted from the log start offset. Most such offsets are
        the result of compaction. None if the number is unknown because of damage, or because the
        log contains batches of magic 0 or 1.
    compacted : bool
        Whether the checkpoint of Kafka's log cleaner lists the partition.
    records : int or None
        Number of data records from the log start offset onwards. None if the number is unknown
        because of damage or wrapper messages.
    formats : tuple of int
        The magic values of the batches.
    codecs : tuple of str
        The codecs of the batches.
    min_timestamp, max_timestamp : int or None
        Smallest and largest timestamp in a batch header, in milliseconds since 1970-01-01 UTC.
    damaged : int
        Number of damaged byte ranges.
    remote : tuple of (int, int), or None
        First and last offset that are only in remote storage, which is not read.
    """

    topic: str
    partition: int
    path: str
    state: str
    segments: int
    log_start_offset: int
    next_offset: int
    last_stable_offset: int
    open_transactions: tuple[OpenProducer, ...]
    leader_epochs: tuple[LeaderEpoch, ...] | None
    gaps: int | None
    compacted: bool
    records: int | None
    bytes: int
    formats: tuple[int, ...]
    codecs: tuple[str, ...]
    min_timestamp: int | None
    max_timestamp: int | None
    damaged: int
    remote: tuple[int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt ls --format json`` prints for the partition."""
        row = {f.name: getattr(self, f.name) for f in fields(self)}
        row["open_transactions"] = [asdict(t) for t in self.open_transactions]
        row["leader_epochs"] = None if self.leader_epochs is None else [asdict(e) for e in self.leader_epochs]
        row |= {"formats": list(self.formats), "codecs": list(self.codecs)}
        return row | remote_dict(row.pop("remote"))


@dataclass(frozen=True)
class Summary(Report):
    """Properties of the partitions in log directories, as returned by `kafkafmt.describe`.

    Attributes
    ----------
    partitions : tuple of PartitionSummary
        The partitions, sorted by topic, partition and path.
    unreadable : tuple of UnreadablePartition
        Partitions that could not be read.
    messages : tuple of str
        Other messages. They are not part of the JSON output.
    """

    command = "ls"

    partitions: tuple[PartitionSummary, ...]
    unreadable: tuple[UnreadablePartition, ...] = ()
    messages: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt ls``: 3 if a partition is unreadable, 1 if one is damaged, else 0."""
        if self.unreadable:
            return EXIT_UNREADABLE
        return EXIT_DAMAGE if any(p.damaged for p in self.partitions) else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt ls --format json`` prints."""
        rows: dict[str, Any] = {"partitions": [p.to_dict() for p in self.partitions]}
        return rows | unreadable_dict(self.unreadable)

    def _repr_html_(self) -> str:
        names = ("partition", "state", "first offset", "next offset", "records", "bytes", "damaged spans")
        rows = [
            (
                f"{p.topic}-{p.partition}",
                p.state,
                p.log_start_offset,
                p.next_offset,
                UNKNOWN if p.records is None else f"{p.records:,}",
                f"{p.bytes:,}",
                p.damaged,
            )
            for p in self.partitions
        ]
        return html_table(f"{counted(len(rows), 'partition')}, {len(self.unreadable)} unreadable", names, rows)


def describe(
    paths: Sources,
    *more: Source,
    topics: Globs | None = None,
    partitions: Numbers | None = None,
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    progress: Progress | None = None,
    on_message: OnMessage | None = None,
) -> Summary:
    """List the partitions of Kafka logs with their offsets, sizes, formats, codecs and times.

    Parameters
    ----------
    paths, *more, topics, partitions, replicas, max_batch_bytes, progress, on_message
        As in `verify`, but `progress` is called after each segment. `Summary.messages` contains all
        messages.

    Returns
    -------
    Summary
        The description of the partitions, including those in the states "delete", "stray" and
        "future".

    Raises
    ------
    OSError, PartitionNotFoundError, TypeError, ValueError
        As in `verify`.

    Notes
    -----
    Every batch header is read, and every CRC is checked. Records are decoded only in the batch that
    contains the log start offset.
    """
    limits = ReadLimits(arguments.integer("max_batch_bytes", max_batch_bytes, 1))
    run = Run(progress, on_message)
    chosen = run.choose(run.find(listed(paths, more), replicas), topics, partitions, every_state=True)
    run.begin(s.size for d in chosen for s in d.segments)
    rows = []
    for directory in chosen:
        with run.reading(directory):
            rows.append(describe_partition(_opened(directory, limits, run), run.advance))
    return Summary(tuple(rows), tuple(run.unreadable), tuple(run.messages))


def _opened(directory: PartitionDir, limits: ReadLimits, run: Run) -> PartitionLog:
    return PartitionLog(directory, limits, tell=run.tell)


def describe_partition(log: PartitionLog, advance: Callable[[int], None] = lambda _: None) -> PartitionSummary:
    """Return a summary of one partition. Only batch headers are read."""
    log.losses.tell_remote()
    plans = []
    codecs = magics = 0
    for segment in log.segments:
        plan = log.plan(segment)
        plans.append(plan)
        advance(plan.size)
        codecs |= plan.stats.codecs
        magics |= plan.stats.magics
    starts = [p.stats.min_timestamp for p in plans if p.stats.min_timestamp >= 0]
    ends = [p.stats.max_timestamp for p in plans if p.stats.max_timestamp >= 0]
    counts = [_count(log, run) for p in plans for run in p.runs]
    known = [n for n in counts if n is not None]
    epochs = log.leader_epoch_checkpoint
    return PartitionSummary(
        topic=log.topic,
        partition=log.partition,
        path=str(log.directory.path),
        state=log.directory.state,
        segments=len(plans),
        log_start_offset=log.log_start_offset,
        next_offset=log.next_offset,
        last_stable_offset=log.open_transactions.last_stable_offset,
        open_transactions=tuple(
            OpenProducer(p, o) for p, o in sorted(log.open_transactions.open.items(), key=lambda item: item[1])
        ),
        leader_epochs=None if epochs is None else tuple(LeaderEpoch(e, o) for e, o in epochs),
        gaps=_gaps(log, plans),
        compacted=log.directory.cleaned,
        records=sum(known) if len(known) == len(counts) and not any(p.damaged for p in plans) else None,
        bytes=sum(p.size for p in plans),
        formats=tuple(m for m in range(3) if magics >> m & 1),
        codecs=tuple(name for i, name in enumerate(CODEC_NAMES) if codecs >> i & 1),
        min_timestamp=min(starts) if starts else None,
        max_timestamp=max(ends) if ends else None,
        damaged=sum(len(p.damaged) for p in plans),
        remote=log.losses.remote,
    )


def _count(log: PartitionLog, run: BatchRun) -> int | None:
    """Return the number of data records from the log start offset, or None if the batch headers do not contain it."""
    low = log.log_start_offset
    if run.records is None or run.first_offset >= low:
        return run.records
    return 0 if run.last_offset < low else count_from(log, run, low, lambda _: None)[0]


def _gaps(log: PartitionLog, plans: list[SegmentPlan]) -> int | None:
    """Count the offsets without a record, from the log start offset onwards. Return None if the number is unknown."""
    low, known = log.log_start_offset, 0
    for plan in plans:
        if plan.damaged or plan.stats.records is None or any(f.code != "unfinished_tail" for f in plan.findings):
            return None
        if plan.runs and plan.runs[0].first_offset >= low:
            known += plan.stats.records
        else:
            known += sum(sum(count_from(log, e, low, lambda _: None)) for e in plan.runs if e.last_offset >= low)
    return max(log.next_offset - low - known, 0)

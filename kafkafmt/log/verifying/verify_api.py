"""Verify partitions: report damage, other problems, and the number of readable records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from operator import itemgetter

import numpy as np

from ...constants import CONTROL_BIT, DEFAULT_MAX_BATCH_BYTES
from ...records import RecordReader
from ...records.java_reads import refused_by_java
from ...support import arguments
from ...types import BatchTable, RecordColumns
from ..catalog import Discovery, PartitionDir, SegmentFile, Source, Sources, listed
from ..damage import UNKNOWN_COUNT, DamageColumns, ReadLimits, RunColumns, SegmentPlan, by_position
from ..damage import Run as BatchRun
from ..findings import Damage, Finding, Joined, Rows
from ..groups import GROUPS_TOPIC, CommittedOffset, read_group_state
from ..reading import BatchDamage, OffsetInterval, OnDamage, Part, PartitionLog
from ..transactions import Doubts
from .audit import PartitionAudit
from .lost_ranges import OffsetJumps, lost_ranges
from .reports import PartitionReport, VerifyReport
from .run import Globs, Numbers, OnMessage, Progress, Run, error_text, read_in_turn
from .verify_pass import SegmentPass, VerifyPass

COUNTED_ROWS = 16384  # number of records that are decoded before they are counted


def verify(
    paths: Sources,
    *more: Source,
    topics: Globs | None = None,
    partitions: Numbers | None = None,
    shallow: bool = False,
    strict: bool = False,
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    threads: int | None = None,
    progress: Progress | None = None,
    on_message: OnMessage | None = None,
) -> VerifyReport:
    """Check every batch, record, index and checkpoint of Kafka logs, and report lost offsets.

    Parameters
    ----------
    paths : str, os.PathLike, Log, Topic, Partition, or an iterable of these
        Log directories, partition directories or `.log` files. An open log, topic or partition
        is read from its paths, which are listed again.
    *more : str, os.PathLike, Log, Topic or Partition
        More paths.
    topics : str or iterable of str, optional
        Globs that select topics by name. By default all topics, including Kafka's internal topics
        (``__…``).
    partitions : int or iterable of int, optional
        Partition numbers. By default all.
    shallow : bool, default False
        Check batch headers and CRCs only. Nothing is decompressed, no record is decoded, and only
        `.log` files are read.
    strict : bool, default False
        Treat findings as failures (see `VerifyReport.ok`).
    replicas : "longest", optional
        If two paths contain the same partition, check the copy with the higher end offset. By
        default, such a partition is an error.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is treated as
        damage.
    threads : int, optional
        Number of threads that check partitions and segments at the same time. By default one per
        core.
    progress : callable, optional
        Called as ``progress(done, total)``, first with 0 and then after every few thousand batches. Both
        numbers are bytes of `.log` files. The function is called from worker threads, but never from two
        threads at the same time.
    on_message : callable, optional
        Called with each message immediately, from worker threads like `progress`.
        `VerifyReport.messages` contains all messages.

    Returns
    -------
    VerifyReport
        `VerifyReport.to_dict` returns the object that ``kafkafmt verify --format json`` prints. If
        a partition cannot be read, the run continues, and the partition is listed in
        `VerifyReport.unreadable`.

    Raises
    ------
    OSError
        A path does not exist or cannot be read. The subclass `NoLogError` is raised if a path
        contains no Kafka log.
    PartitionNotFoundError
        `topics` or `partitions` are given, and no partition matches. This is a LookupError.
    TypeError, ValueError
        An argument is wrong. `DuplicatePartitionError`, a ValueError, is raised if two paths
        contain the same partition and `replicas` is not given.

    Notes
    -----
    Damage is data that cannot be read, or offsets that are lost, such as those of a missing segment. A
    finding is any other problem, such as a wrong index entry or an incomplete last batch. Nothing is
    written.
    """
    limits = ReadLimits(arguments.integer("max_batch_bytes", max_batch_bytes, 1))
    run = Run(progress, on_message)
    found = run.find(listed(paths, more), replicas)
    chosen = run.choose(found, topics, partitions)
    run.begin(s.size for d in chosen for s in d.segments)

    def check(directory: PartitionDir) -> PartitionReport | None:
        with run.reading(directory):
            log = PartitionLog(directory, limits, tell=run.tell)
            return verify_partition(log, shallow, run)
        return None

    reports = with_readers(run.map(check, chosen, threads), found, run.tell)
    return VerifyReport(tuple(reports), tuple(run.unreadable), strict, tuple(run.messages), shallow)


def with_readers(
    reports: Sequence[PartitionReport], found: Discovery, tell: Callable[[str], None]
) -> list[PartitionReport]:
    """Add to each report of a damaged partition which consumer groups had not read all of its lost offsets."""
    logs = [PartitionLog(d) for d in found.partitions if d.topic == GROUPS_TOPIC and d.readable]
    if not logs or not any(report.lost for report in reports):
        return list(reports)
    try:
        committed = read_group_state(logs, lambda _, __: None).offsets
    except OSError as error:
        tell(f"the committed offsets in {GROUPS_TOPIC} cannot be read: {error_text(error)}")
        return list(reports)

    by_partition: dict[tuple[str, int], list[CommittedOffset]] = {}
    for commit in committed:
        by_partition.setdefault((commit.topic, commit.partition), []).append(commit)

    def unread_by(report: PartitionReport) -> tuple[CommittedOffset, ...]:
        last = report.lost[-1].last_offset
        offsets = by_partition.get((report.topic, report.partition), ())
        return tuple(c for c in offsets if last is None or c.offset <= last)

    return [replace(report, unread_by=unread_by(report)) if report.lost else report for report in reports]


def verify_partition(
    log: PartitionLog, shallow: bool = False, run: Run | None = None, missing: Iterable[Damage] = ()
) -> PartitionReport:
    """Check one partition: with `shallow`, only batches and CRCs, not records or files next to the segments."""
    # The report also contains `missing`, which the log itself does not show.
    low = log.log_start_offset
    log.losses.tell_remote()
    damaged: list[tuple[str, Sequence[Damage]]] = [(lost.file, [lost]) for lost in missing]
    findings: list[Sequence[Finding]] = [list(log.directory.problems)]
    audit = None if shallow else PartitionAudit(log)
    jumps = OffsetJumps(everywhere=bool(damaged))
    advance: Callable[[int], None] = (lambda _: None) if run is None else run.advance
    first_pass = VerifyPass(log, audit, jumps, advance)
    records = 0
    plans: list[SegmentPlan] = []

    def read(segment: SegmentFile) -> tuple[SegmentPass, SegmentPlan]:
        seen = SegmentPass(first_pass, segment)
        return seen, seen.plan()

    with closing(read_in_turn(read, log.segments) if run is None else run.read_ahead(read, log.segments)) as results:
        for segment, result in zip(log.segments, results, strict=True):
            first_pass.begin(segment)
            seen, plan = result()
            plans.append(plan)
            if len(plan.findings):
                findings.append(plan.findings)
            deep = BatchDamage()
            intact, audited = first_pass.is_intact(seen, plan), False
            if plan.first_offset is not None:
                if shallow:
                    records += _count_headers(log, plan, low, deep, seen)
                elif intact:
                    records += seen.records
                else:
                    audited = low <= plan.first_offset
                    again = partial(first_pass.add_again, seen) if audited else None
                    records += _count_records(log, plan, low, deep, seen, again)
            if deep.parts or len(plan.damaged) > 1:
                damaged.append((segment.name, by_position([plan.damaged, *deep.parts])))
            elif len(plan.damaged):
                damaged.append((segment.name, plan.damaged))
            if not intact:
                found = deep if audited else BatchDamage()
                if not audited and first_pass.needs_batches(plan):
                    for part in log.parts(plan.first_offset or 0, plan.next_offset or 0, found):
                        first_pass.add_again(seen, part)
                first_pass.end_again(seen, plan, found.changed)
            if audit:
                audit.close(plan)
                if unusual := seen.unusual.findings():
                    findings.append(unusual)
            advance(plan.size - seen.advanced)
    first_pass.finish()
    others = log.losses.findings() + (audit.findings() if audit else [])
    between, end = log.losses.between(), log.losses.at_end()
    damaged = [(lost.file, [lost]) for lost in between] + damaged + ([] if end is None else [(end.file, [end])])
    isolation = audit.read_committed_findings() if audit else []
    spans = Joined(part for _, part in sorted(damaged, key=itemgetter(0)))
    lost = _lost_records(spans, low)
    return PartitionReport(
        topic=log.topic,
        partition=log.partition,
        path=str(log.directory.path),
        segments=len(log.segments),
        batches=sum(plan.stats.batches for plan in plans),
        records=None if lost is None else records + lost,
        records_recovered=records,
        bytes=sum(plan.size for plan in plans),
        log_start_offset=low,
        next_offset=log.next_offset,
        last_stable_offset=log.transactions.last_stable_offset,
        damaged=spans,
        findings=Joined([*findings, others, DoubtFindings(log.transactions.doubts), isolation]),
        remote=log.losses.remote,
        lost=lost_ranges(DamageColumns.of(spans), low, jumps) if len(spans) else (),
    )


class DoubtFindings(Rows[Finding]):
    """A sequence with a `Finding` object for each transaction whose outcome is unknown."""

    def __init__(self, doubts: Doubts) -> None:
        self._doubts = doubts

    def __len__(self) -> int:
        return len(self._doubts)

    def _build(self, start: int, stop: int) -> list[Finding]:
        message = "{} may hide how the transaction of producer {} that began at offset {} ended".format
        return [
            Finding(d.file, "transaction_in_doubt", message(d.hidden_by, d.producer_id, d.first_offset))
            for d in self._doubts[start:stop]
        ]

    def _sliced(self, start: int, stop: int) -> DoubtFindings:
        return DoubtFindings(self._doubts.at(slice(start, stop)))


def _count_records(
    log: PartitionLog,
    plan: SegmentPlan,
    low: int,
    deep: BatchDamage,
    seen: SegmentPass,
    see: Callable[[Part], None] | None = None,
) -> int:
    """Decode the records of a segment, and return the number of readable data records from offset `low`."""
    # Wrapper messages that `seen` has decompressed are not decompressed again. Unless the check is shallow,
    # `seen.unusual` gets the batches whose records contradict the header.
    counted = 0
    refused = False

    def select(part: Part, table: BatchTable) -> BatchTable:
        nonlocal counted, refused
        refused = refused or len(refused_by_java(part.buffer, table)) > 0
        if see is not None:
            see(part)
        if part.plan.segment.name != plan.segment.name:
            return table
        records, others = seen.count_wrappers(part.position, part.buffer, table)
        counted += records
        return others

    interval = OffsetInterval(max(low, plan.first_offset or 0), plan.next_offset or 0)
    columns = RecordColumns(COUNTED_ROWS, ("offset", "timestamp"))
    total = sum(c.columns.rows for c in log.chunks(columns, interval, on_damage=deep, select=select))
    if seen.deep and (columns.take_unusual() or refused):
        for part in log.parts(interval.low, interval.high, lambda _: None):
            seen.unusual.add(part.position, part.buffer, part.table)
    return total + counted


def _count_headers(log: PartitionLog, plan: SegmentPlan, low: int, deep: BatchDamage, seen: SegmentPass) -> int:
    """Count the data records of a segment from the offset `low` onwards, from the batch headers."""
    # Only the batch that contains `low` is decoded. A segment with wrapper messages is decoded completely, because
    # their headers do not contain the number of records.
    runs = RunColumns.of(plan.runs)
    if (runs.records == UNKNOWN_COUNT).any():
        return _count_records(log, plan, low, deep, seen)
    total = int(runs.records[runs.first >= low].sum())
    for i in np.flatnonzero((runs.first < low) & (runs.last >= low)).tolist():
        total += count_from(log, plan.runs[i], low, deep)[0]
    return total


def count_from(log: PartitionLog, run: BatchRun, low: int, on_damage: OnDamage) -> tuple[int, int]:
    """Return the number of data and of control records in valid batches without wrapper messages, from `low`."""
    counts = [0, 0]
    reader = RecordReader(("offset",), first_offset=low, max_batch_bytes=log.max_batch_bytes)
    for part in log.parts(max(low, run.first_offset), run.last_offset + 1, on_damage):
        control = (part.table["attributes"] & CONTROL_BIT) != 0
        for kind, rows in enumerate((part.table[~control], part.table[control])):
            whole = rows["base_offset"] >= low
            counts[kind] += int(rows["count"][whole].sum())
            counts[kind] += sum(c.columns.rows for c in reader.read(part.buffer, rows[~whole], lambda _, __: None))
    return counts[0], counts[1]


def _lost_records(damaged: Sequence[Damage], low: int) -> int | None:
    """Return the number of data records that were lost, from offset `low` onwards, or None if it is unknown."""
    spans = DamageColumns.of(damaged)
    missing = ~spans.empty & (spans.last >= low)
    first, records = spans.first[missing], spans.records[missing]
    return None if (records == UNKNOWN_COUNT).any() or (first < low).any() else int(records.sum())

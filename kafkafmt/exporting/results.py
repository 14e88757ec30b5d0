"""Build the report of an export from the results of its tasks."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime

from .._backend import backend
from ..log import Discovery, PartitionDir
from ..log.damage import SegmentPlan
from ..log.verifying import UnreadablePartition
from ..support.extras import LIBRARIES, kafkafmt_version, library_versions
from ..support.paths import Location
from .decoded import total_decoded
from .options import ExportOptions
from .report import (
    Codec,
    ExportReport,
    LeftOutPartition,
    PartitionExport,
    PartitionQuarantined,
    PartitionRead,
    PartitionSkipped,
    PartitionWritten,
    Seconds,
    Step,
    TaskSeconds,
    TotalInDoubt,
    TotalQuarantined,
    TotalRead,
    TotalSkipped,
    TotalWritten,
)
from .tasks import BundleResult
from .work import Work


def partition_result(work: Work, plans: Sequence[SegmentPlan]) -> PartitionExport:
    directory, splits, manifests, damaged = work.log.directory, work.splits, work.manifests, work.damaged
    runs = [e for s in splits for p in s.pieces for e in p.runs]
    written = sum(m.rows for m in manifests)
    unreadable = sum(d.records or 0 for m in manifests for d in m.damaged)
    counts = [e.records for e in runs]
    known = [n for n in counts if n is not None]
    # The count is unknown for a wrapper message (v0 or v1), whose header does not contain the number of inner messages.
    stored = sum(known) if len(known) == len(counts) else written + unreadable
    return PartitionExport(
        topic=directory.topic,
        partition=directory.partition,
        path=directory.path,
        topic_id=work.topic_id,
        log_start_offset=directory.log_start_offset,
        next_offset=work.next_offset,
        read=PartitionRead(
            segments=sum(1 for p in plans if p.size),
            batches=sum(e.batches for e in runs),
            records=stored,
            bytes=sum(s.bytes for s in splits),
        ),
        written=PartitionWritten(
            files=len(work.files),
            records=written,
            bytes=sum(size for _, size in work.files),
            first_offset=_least(m.first_offset for m in manifests),
            last_offset=_most(m.last_offset for m in manifests),
            min_timestamp=_least(m.min_timestamp for m in manifests),
            max_timestamp=_most(m.max_timestamp for m in manifests),
            timestamps_out_of_range=sum(m.timestamps_out_of_range for m in manifests),
        ),
        quarantined=PartitionQuarantined(
            spans=len(damaged),
            bytes=sum(d.length for d in damaged),
            records=_total(0 if d.empty else d.records for d in damaged),
            damaged=tuple(damaged),
        ),
        skipped=PartitionSkipped(
            records=max(stored - written - unreadable, 0),
            segments=len(directory.segments) - len(plans),
            findings=tuple(f for p in plans for f in p.findings),
        ),
        in_doubt=tuple(work.doubts),
    )


def make_report(
    options: ExportOptions,
    output: Location,
    run: int,
    partitions: Sequence[PartitionExport],
    left_out: Sequence[LeftOutPartition],
    unreadable: Sequence[UnreadablePartition],
    messages: Sequence[str],
    files: int,
    results: Sequence[BundleResult],
    started: datetime,
    seconds: tuple[float, float, float],
    steps: Sequence[Step],
) -> ExportReport:
    """Build the report of an export."""
    # `files` are Parquet files; `seconds` are for planning, exporting and committing.
    reads, writes = [p.read for p in partitions], [p.written for p in partitions]
    quarantined, skipped = [p.quarantined for p in partitions], [p.skipped for p in partitions]
    doubts = sum(len(p.in_doubt) for p in partitions)
    decoded = total_decoded(list(options.decode), (r.decoded for r in results)) if options.decode else None
    return ExportReport(
        started=started,
        finished=datetime.now(UTC),
        output=output,
        run=run,
        read=TotalRead(
            partitions=len(partitions),
            segments=sum(r.segments for r in reads),
            batches=sum(r.batches for r in reads),
            records=sum(r.records for r in reads),
            bytes=sum(r.bytes for r in reads),
        ),
        written=TotalWritten(
            files=files,
            records=sum(w.records for w in writes),
            bytes=sum(w.bytes for w in writes),
            timestamps_out_of_range=sum(w.timestamps_out_of_range for w in writes),
        ),
        quarantined=TotalQuarantined(
            spans=sum(q.spans for q in quarantined),
            bytes=sum(q.bytes for q in quarantined),
            records=_total(q.records for q in quarantined),
        ),
        skipped=TotalSkipped(
            records=sum(s.records for s in skipped),
            segments=sum(s.segments for s in skipped),
            partitions=tuple(left_out),
            messages=tuple(messages),
        ),
        in_doubt=TotalInDoubt(doubts),
        partitions=tuple(partitions),
        unreadable=tuple(unreadable),
        codec=Codec(options.compression, options.compression_level),
        seconds=_seconds(*seconds, sum(w.records for w in writes), results),
        steps=tuple(steps),
        worker_memory=max((r.worker_memory for r in results), default=0),
        options=options,
        versions={
            "kafkafmt": kafkafmt_version(),
            "core": backend,
            "python": platform.python_version(),
            **library_versions(LIBRARIES),
        },
        decoded=decoded,
    )


def left_out(found: Discovery, chosen: Iterable[PartitionDir]) -> list[LeftOutPartition]:
    taken = {id(p) for p in chosen}
    rows = []
    for p in found.partitions:
        if id(p) not in taken:
            live = p.readable
            why = f"not live: {p.state}" if not live else "one of Kafka's own topics" if p.internal else "not selected"
            rows.append(LeftOutPartition(p.topic, p.partition, p.path, why))
    return rows


def _seconds(
    planning: float, exporting: float, committing: float, records: int, results: Sequence[BundleResult]
) -> Seconds:
    total = planning + exporting + committing
    spent = {f.name: sum(getattr(r.seconds, f.name) for r in results) for f in fields(TaskSeconds)}
    return Seconds(
        planning=round(planning, 3),
        exporting=round(exporting, 3),
        committing=round(committing, 3),
        total=round(total, 3),
        rows_per_second=round(records / total) if total else None,
        in_tasks=TaskSeconds(**{name: round(seconds, 3) for name, seconds in spent.items()}),
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of the numbers, or None if any of them is None."""
    known = list(numbers)
    return None if None in known else sum(n or 0 for n in known)


def _least(numbers: Iterable[int | None]) -> int | None:
    return min((n for n in numbers if n is not None), default=None)


def _most(numbers: Iterable[int | None]) -> int | None:
    return max((n for n in numbers if n is not None), default=None)

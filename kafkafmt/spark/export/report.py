"""report.json: what an export read, wrote, quarantined and skipped, partition by partition."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from ... import __version__, backend
from ...log import Damage, Discovery, PartitionDir
from ...log.reading.plan import SegmentPlan
from ...log.reading.selection import OffsetBound
from ...log.reading.transactions import Doubt
from ..source.splits import Split
from .parquet import Manifest
from .timing import SHARES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .job import Export

LIBRARIES = ("numpy", "pyarrow", "pyspark", "lz4", "zstandard", "python-snappy", "isal")


@dataclass
class PartitionResult:
    """What came of one partition.

    range: the offsets meant, [from, to). doubts: the transactions that read_committed leaves out because their outcome is not known.
    """

    directory: PartitionDir
    plans: list[SegmentPlan]
    splits: list[Split]
    manifests: list[Manifest]
    range: tuple[int, int]
    damaged: list[Damage] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """The partition's entry in the report."""
        extents = [e for s in self.splits for p in s.pieces for e in p.plan.extents]
        written = sum(m.rows for m in self.manifests)
        unreadable = sum(d.records or 0 for m in self.manifests for d in m.damaged)
        counts = [e.records for e in extents]
        known = [n for n in counts if n is not None]  # wrapper messages of formats 0 and 1 do not say
        stored = sum(known) if len(known) == len(counts) else written + unreadable
        findings = [f for p in self.plans for f in p.findings]
        return {
            "topic": self.directory.topic,
            "partition": self.directory.partition,
            "path": str(self.directory.path),
            "log_start_offset": self.directory.log_start_offset,
            "read": {
                "segments": sum(1 for p in self.plans if p.size),
                "batches": sum(e.batches for e in extents),
                "records": stored,
                "bytes": sum(s.bytes for s in self.splits),
            },
            "written": {
                "files": sum(1 for m in self.manifests if m.file),
                "records": written,
                "bytes": sum(m.bytes_written for m in self.manifests),
                "first_offset": _least(m.first_offset for m in self.manifests),
                "last_offset": _most(m.last_offset for m in self.manifests),
                "min_timestamp": _least(m.min_timestamp for m in self.manifests),
                "max_timestamp": _most(m.max_timestamp for m in self.manifests),
                "timestamps_out_of_range": sum(m.timestamps_out_of_range for m in self.manifests),
            },
            "quarantined": {
                "spans": len(self.damaged),
                "bytes": sum(d.length for d in self.damaged),
                "records": _lost(self.damaged),
                "damaged": [{k: v for k, v in asdict(d).items() if k != "records"} for d in self.damaged],
            },
            "skipped": {
                "records": max(stored - written - unreadable, 0),
                "segments": len(self.directory.segments) - len(self.plans),
                "findings": [asdict(f) for f in findings],
            },
            "in_doubt": [asdict(d) | {"message": d.message} for d in self.doubts],
        }


def make_report(
    export: Export,
    results: list[PartitionResult],
    manifests: list[Manifest],
    spark: SparkSession,
    started: datetime,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """The whole report. Skipped records are those of the batches read that the selection leaves out."""
    options = export.options
    rows = [r.row() for r in results]
    total = sum(seconds.values())
    records = sum(r["written"]["records"] for r in rows)
    tasks = {name: round(sum(m.seconds.get(name, 0.0) for m in manifests), 3) for name in SHARES}
    quarantined = _sum(rows, "quarantined", ("spans", "bytes"))
    return {
        "ok": not any(r.damaged or r.doubts for r in results),
        "started": started.isoformat(timespec="milliseconds"),
        "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "output": str(export.staging.output),
        "read": {"partitions": len(rows)} | _sum(rows, "read", ("segments", "batches", "records", "bytes")),
        "written": _sum(rows, "written", ("files", "records", "bytes", "timestamps_out_of_range")),
        "quarantined": quarantined | {"records": _total(r["quarantined"]["records"] for r in rows)},
        "skipped": _sum(rows, "skipped", ("records", "segments"))
        | {"partitions": left_out(export.found, export.chosen), "messages": export.messages},
        "in_doubt": {"transactions": sum(len(r.doubts) for r in results)},
        "partitions": rows,
        "codec": {"name": options.compression, "level": options.level},
        "seconds": {k: round(v, 3) for k, v in seconds.items()}
        | {"total": round(total, 3), "rows_per_second": round(records / total) if total else None, "in_tasks": tasks},
        "worker_memory": max((m.worker_memory for m in manifests), default=0),
        "options": {
            "paths": [str(p) for p in options.paths],
            "offsets": {"from": _bound(options.offsets.start), "to": _bound(options.offsets.end)},
            "below_log_start": options.below_log_start,
            "isolation": "read_committed" if options.committed else "read_uncommitted",
            "on_error": options.on_error,
            "overwrite": options.overwrite,
            "max_batch_bytes": options.max_batch_bytes,
            "master": spark.sparkContext.master,
        }
        | options.shown,
        "versions": {"kafkafmt": __version__, "core": backend, "python": platform.python_version()} | _libraries(),
    }


def left_out(found: Discovery, chosen: list[PartitionDir]) -> list[dict[str, Any]]:
    """The partitions that were found and are not in the export, each with the reason."""
    taken = {id(p) for p in chosen}
    rows = []
    for p in found.partitions:
        if id(p) not in taken:
            live = p.readable
            why = f"not live: {p.state}" if not live else "one of Kafka's own topics" if p.internal else "not selected"
            rows.append({"topic": p.topic, "partition": p.partition, "path": str(p.path), "reason": why})
    return rows


def _libraries() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def _bound(bound: OffsetBound | None) -> dict[str, Any] | None:
    return None if bound is None else {"kind": bound.kind, "n": bound.n}


def _sum(rows: list[dict[str, Any]], part: str, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: sum(r[part][name] for r in rows) for name in names}


def _lost(damaged: list[Damage]) -> int | None:
    """Records known to be lost; None where a span leaves that open."""
    return _total(0 if d.empty else d.records for d in damaged)


def _total(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(n or 0 for n in known)


def _least(numbers: Iterable[int | None]) -> int | None:
    return min((n for n in numbers if n is not None), default=None)


def _most(numbers: Iterable[int | None]) -> int | None:
    return max((n for n in numbers if n is not None), default=None)

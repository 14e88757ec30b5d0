"""The report on a partition: what is damaged, what is merely worth knowing, what can be delivered."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from .._backend import core
from ..constants import CONTROL_BIT
from ..records import RecordReader
from ..types import BATCH_DTYPE
from .audit import PartitionAudit
from .directory import SegmentFile
from .files import FileView
from .partition import OnDamage, Part, PartitionLog
from .plan import Damage, Finding, SegmentPlan
from .sweep import Sweep
from .walk import Run

_FILE_AND_POSITION: Callable[[Damage], tuple[str, int]] = attrgetter("file", "position")


def verify_partition(log: PartitionLog, shallow: bool = False, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
    """One partition's entry of the verify report, as the README gives it.

    Checks every batch and, unless `shallow`, every record and every file beside the segments. progress: called with the
    bytes of each segment once done.
    """
    low = log.log_start_offset
    damaged: list[Damage] = []
    findings = [Finding(*problem) for problem in log.directory.problems]
    audit = None if shallow else PartitionAudit(log)
    sweep = Sweep(log, audit)
    records = 0
    for segment in log.segments:
        if audit:
            audit.open(segment)
        sweep.begin(segment)
        plan = log.plan(segment, sweep.see)
        findings += plan.findings
        damaged += plan.damaged
        deep: list[Damage] = []
        stands, audited = sweep.stands(plan), False
        if plan.extents:
            if shallow:
                records += _count_headers(log, plan, low, deep)
            elif stands:
                records += sweep.records
            elif audit is not None and low <= plan.extents[0].first_offset:
                audited = True
                records += _count_records(log, plan, low, deep, partial(_audit, audit, segment))
            else:
                records += _count_records(log, plan, low, deep)
        planned = set(map(id, plan.damaged))
        damaged += [d for d in deep if id(d) not in planned]
        if audit:
            if plan.extents and not stands and not audited:
                for part in log.parts(plan.extents[0].first_offset, plan.extents[-1].last_offset + 1, lambda _: None, grouped=True):
                    _audit(audit, segment, part)
            audit.close(plan)
        if progress is not None:
            progress(plan.size)
    sweep.finish()
    findings += _segment_gaps(log) + (audit.findings() if audit else [])
    for doubt in log.transactions.doubts:
        whose = f"the transaction of producer {doubt.producer_id} from offset {doubt.first_offset} on"
        message = f"{doubt.hidden_by} may hide how {whose} ended"
        findings.append(Finding(doubt.file, "transaction_in_doubt", message))
    findings += audit.read_committed_findings() if audit else []
    damaged.sort(key=_FILE_AND_POSITION)
    lost = _lost_records(damaged, low)
    return {
        "topic": log.topic,
        "partition": log.partition,
        "path": str(log.directory.path),
        "segments": len(log.segments),
        "batches": sum(log.plan(s).stats.batches for s in log.segments),
        "records": None if lost is None else records + lost,
        "records_recovered": records,
        "bytes": sum(log.plan(s).size for s in log.segments),
        "log_start_offset": low,
        "next_offset": log.next_offset,
        "last_stable_offset": log.transactions.last_stable_offset,
        "damaged": [_shown(d) for d in damaged],
        "findings": [{"file": f.file, "error": f.error, "message": f.message} for f in findings],
    }


def add_damage(entry: dict[str, Any], log: PartitionLog, damaged: list[Damage]) -> None:
    """Add damage that was found later to a partition's entry. The records in it count as lost."""
    if not damaged:
        return
    known = [Damage(**d) for d in entry["damaged"]] + damaged
    entry["damaged"] = [_shown(d) for d in sorted(known, key=_FILE_AND_POSITION)]
    for d in damaged:
        with FileView(log.directory.path / d.file) as view:
            batch = view.read(d.position, d.length)
        table = np.empty(1, BATCH_DTYPE)
        if core.scan_batches(batch, table).count:
            reader = RecordReader(("offset",), first_offset=log.log_start_offset, max_batch_bytes=log.max_batch_bytes)
            entry["records_recovered"] -= sum(c.columns.rows for c in reader.read(batch, table, lambda _, __: None))


def _shown(damage: Damage) -> dict[str, Any]:
    d = damage
    return {
        "file": d.file,
        "position": d.position,
        "length": d.length,
        "first_offset": d.first_offset,
        "last_offset": d.last_offset,
        "error": d.error,
        "message": d.message,
    }


def verify_report(partitions: list[dict[str, Any]], strict: bool = False) -> dict[str, Any]:
    """The whole report: `ok` is no damage, and with `strict` no finding either."""
    ok = not any(p["damaged"] or (strict and p["findings"]) for p in partitions)
    return {"ok": ok, "partitions": partitions}


def _audit(audit: PartitionAudit, segment: SegmentFile, part: Part) -> None:
    audit.add(segment, part.position, part.buffer, part.table)


def _count_records(
    log: PartitionLog, plan: SegmentPlan, low: int, deep: list[Damage], see: Callable[[Part], None] | None = None
) -> int:
    """Data records of a segment that can be delivered from `low` on, every one of them decoded."""
    start, end = max(low, plan.extents[0].first_offset), plan.extents[-1].last_offset + 1
    return sum(c.columns.rows for c in log.chunks(start=start, end=end, below_log_start=True, on_damage=deep.append, see=see))


def _count_headers(log: PartitionLog, plan: SegmentPlan, low: int, deep: list[Damage]) -> int:
    """Return the number of data records of a segment from `low` on, according to the headers.

    Only the batch that contains `low` is decoded, or, if a segment contains wrapper messages, whose headers give no number, all of it.
    """
    if any(extent.records is None for extent in plan.extents):
        return _count_records(log, plan, low, deep)
    total = 0
    for extent in plan.extents:
        if extent.first_offset >= low:
            total += extent.records or 0
        elif extent.last_offset >= low:
            total += count_from(log, extent, low, deep.append)[0]
    return total


def count_from(log: PartitionLog, extent: Run, low: int, on_damage: OnDamage) -> tuple[int, int]:
    """Data records and control records of an extent without wrapper messages from an offset on that lies in it.

    By the headers' word; only the batch that the offset lies in is decoded.
    """
    counts = [0, 0]
    reader = RecordReader(("offset",), first_offset=low, max_batch_bytes=log.max_batch_bytes)
    for part in log.parts(max(low, extent.first_offset), extent.last_offset + 1, on_damage):
        control = (part.table["attributes"] & CONTROL_BIT) != 0
        for kind, rows in enumerate((part.table[~control], part.table[control])):
            whole = rows["base_offset"] >= low
            counts[kind] += int(rows["count"][whole].sum())
            counts[kind] += sum(c.columns.rows for c in reader.read(part.buffer, rows[~whole], lambda _, __: None))
    return counts[0], counts[1]


def _lost_records(damaged: list[Damage], low: int) -> int | None:
    """Data records known to be lost from the log start on; None where a span leaves that open."""
    lost = 0
    for d in damaged:
        if d.empty or (d.last_offset is not None and d.last_offset < low):
            continue
        if d.records is None or d.first_offset is None or d.first_offset < low:
            return None
        lost += d.records
    return lost


def _segment_gaps(log: PartitionLog) -> list[Finding]:
    """Offsets missing between two segments, unless the log was compacted, or damage explains them.

    Only between neighbours: of single `.log` files named as PATHs others may stand between. A segment of which nothing is delivered
    ends where the one before it did.
    """
    if log.compacted:
        return []
    findings = []
    end: int | None = None
    for segment, following in itertools.pairwise(log.segments):
        plan, behind, base = log.plan(segment), log.plan(following), following.base_offset
        if plan.next_offset is not None or segment.size == 0:
            end = plan.next_offset if plan.next_offset is not None else segment.base_offset
        if base is None or base != segment.next_base or any(d.last_offset is None for d in plan.damaged):
            end = None
        elif any(d.last_offset == base - 1 for d in plan.damaged):
            end = base
        begins = base
        if behind.extents and not behind.damaged:
            begins = behind.extents[0].first_offset
        if end is not None and begins is not None and end < begins:
            findings.append(Finding(following.name, "segment_gap", f"offsets {end} to {begins - 1} are in no segment"))
    return findings

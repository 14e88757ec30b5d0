"""`kafkafmt ls`: what is there."""

from __future__ import annotations

from typing import Any

import click

from ..constants import CODEC_NAMES
from ..log import PartitionDir, PartitionLog
from ..log.auditing.verify import count_from
from ..log.reading.plan import SegmentPlan
from ..log.reading.segment_walker import Run
from ..text import encode_json
from .common import (
    EXIT_DAMAGE,
    EXIT_UNREADABLE,
    Unreadable,
    choice_options,
    choose,
    find,
    format_option,
    moment,
    paths_argument,
    progress_bar,
    replicas_option,
    show_table,
    tell,
)

SPARE = ("format", "epoch", "segments", "codecs", "gaps", "times (UTC)")
"""Columns that a narrow terminal can do without, the first one first."""


@click.command(epilog="Example: kafkafmt ls /var/lib/kafka/data -t 'orders*'")
@paths_argument
@choice_options
@replicas_option
@format_option
def ls(
    paths: tuple[str, ...], topics: tuple[str, ...], numbers: list[int], replicas: str | None, output_format: str
) -> int:
    """Partitions with their state, segments, offsets, records, bytes, formats, codecs and time range.

    gaps: offsets that no record has, most often after compaction. stable: the last stable offset, where transactions are open.
    epoch: the last leader epoch. Every batch header is read, so damage shows here too; `kafkafmt verify` tells where. If a partition
    cannot be read, a message names it, the others are listed, and the exit code is 3.
    """
    states = choose(find(paths, replicas), topics, numbers, every_state=True)
    rows, unreadable = [], Unreadable()
    with progress_bar(sum(s.size for p in states for s in p.segments), "reading headers") as bar:
        for directory in states:
            with unreadable.noting(directory):
                rows.append(_describe(directory))
            bar.update(bar.task_ids[0], advance=sum(s.size for s in directory.segments))
    if output_format == "json":
        click.echo(
            encode_json({"partitions": rows} | ({"unreadable": unreadable.partitions} if unreadable.partitions else {}))
        )
    else:
        _show(rows)
    if unreadable.partitions:
        return EXIT_UNREADABLE
    return EXIT_DAMAGE if any(r["damaged"] for r in rows) else 0


def _describe(directory: PartitionDir) -> dict[str, Any]:
    log = PartitionLog(directory, tell=tell)
    plans = [log.plan(s) for s in log.segments]
    codecs = magics = 0
    for plan in plans:
        codecs |= plan.stats.codecs
        magics |= plan.stats.magics
    starts = [p.stats.min_timestamp for p in plans if p.stats.min_timestamp >= 0]
    ends = [p.stats.max_timestamp for p in plans if p.stats.max_timestamp >= 0]
    low = log.log_start_offset
    counts = [_count(log, extent) for p in plans for extent in p.extents]
    known = [n for n in counts if n is not None]
    open_ = [
        {"producer_id": p, "first_offset": o}
        for p, o in sorted(log.transactions.open.items(), key=lambda item: item[1])
    ]
    epochs = log.leader_epoch_checkpoint
    return {
        "topic": log.topic,
        "partition": log.partition,
        "path": str(directory.path),
        "state": directory.state,
        "segments": len(plans),
        "log_start_offset": low,
        "next_offset": log.next_offset,
        "last_stable_offset": log.transactions.last_stable_offset,
        "open_transactions": open_,
        "leader_epochs": None if epochs is None else [{"epoch": e, "start_offset": o} for e, o in epochs],
        "gaps": _gaps(log, plans),
        "compacted": directory.cleaned,
        "records": sum(known) if len(known) == len(counts) and not any(p.damaged for p in plans) else None,
        "bytes": sum(p.size for p in plans),
        "formats": [m for m in range(3) if magics >> m & 1],
        "codecs": [name for i, name in enumerate(CODEC_NAMES) if codecs >> i & 1],
        "min_timestamp": min(starts) if starts else None,
        "max_timestamp": max(ends) if ends else None,
        "damaged": sum(len(p.damaged) for p in plans),
    }


def _count(log: PartitionLog, extent: Run) -> int | None:
    """Data records from the log start on; None where wrapper messages do not say."""
    low = log.log_start_offset
    if extent.records is None or extent.first_offset >= low:
        return extent.records
    return 0 if extent.last_offset < low else count_from(log, extent, low, lambda _: None)[0]


def _gaps(log: PartitionLog, plans: list[SegmentPlan]) -> int | None:
    """How many offsets from the log start to its end no record has; None where damage or old formats leave it unknown."""
    low, known = log.log_start_offset, 0
    for plan in plans:
        if plan.damaged or plan.stats.records is None or any(f.error != "unfinished_tail" for f in plan.findings):
            return None
        if plan.extents and plan.extents[0].first_offset >= low:
            known += plan.stats.records
        else:
            known += sum(sum(count_from(log, e, low, lambda _: None)) for e in plan.extents if e.last_offset >= low)
    return max(log.next_offset - low - known, 0)


def _show(rows: list[dict[str, Any]]) -> None:
    numbers = ("segments", "first", "next", "stable", "records", "gaps", "bytes", "epoch")
    lines = []
    for r in rows:
        lines.append(
            (
                f"{r['topic']}-{r['partition']}",
                r["state"] + (f", {r['damaged']} damaged" if r["damaged"] else ""),
                f"{r['segments']}",
                f"{r['log_start_offset']}",
                f"{r['next_offset']}",
                f"{r['last_stable_offset']}" if r["open_transactions"] else "",
                "?" if r["records"] is None else f"{r['records']:,}",
                f"{r['gaps']:,}" if r["gaps"] else "",
                f"{r['bytes']:,}",
                f"{r['leader_epochs'][-1]['epoch']}" if r["leader_epochs"] else "",
                ",".join(map(str, r["formats"])),
                ",".join(r["codecs"]),
                _times(r["min_timestamp"], r["max_timestamp"]),
            )
        )
    show_table(("partition", "state", *numbers, "format", "codecs", "times (UTC)"), lines, numbers, SPARE)


def _times(first: int | None, last: int | None) -> str:
    """Return the first and the last time, the day once if both are on it. The first is `-` if no batch has one."""
    if last is None:
        return ""
    start, end = ("-" if ms is None else moment(ms).partition(".")[0] for ms in (first, last))
    day = start[:11] if "T" in start else ""  # else a number, where the calendar does not reach
    return f"{start} to {end.removeprefix(day)}"

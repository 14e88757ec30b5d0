"""Merge the replicas of a partition. Each range of offsets is copied from a replica that is intact there."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..reading.discovery import discover
from ..reading.models import Damage
from ..reading.partition import PartitionLog
from ..reading.ranges import reach
from ..reading.read_limits import ReadLimits
from .merge_choice import choose
from .merge_copy import MergedDirectory, SourceRange, diverged_ranges, source_ranges
from .merge_replica import ranked, read_replica
from .open_transactions import OpenTransaction, find_open_transactions
from .reports import PartitionReport
from .run import Run
from .salvage_copy import salvage_partition
from .salvage_source import Bounds
from .salvaged import Salvaged
from .verify import verify_partition

MERGED = ".replicas"
"""Name of the directory in which the merged partitions are written before they are copied."""


@dataclass(frozen=True)
class Merged:
    """The merged copy of a partition, and the offset ranges that were copied, lost or not used.

    Attributes
    ----------
    made : Salvaged
        The copy, as written by `salvage_partition`.
    lost : tuple of Damage
        The ranges of offsets that are valid in no replica.
    transactions : tuple of OpenTransaction
        The open transactions in the copy.
    sources : tuple of SourceRange
        The replica that each range of offsets was copied from.
    diverged : tuple of SourceRange
        The ranges of offsets at the ends of replicas that were not copied, because they contradict
        the leader.
    """

    made: Salvaged
    lost: tuple[Damage, ...]
    transactions: tuple[OpenTransaction, ...]
    sources: tuple[SourceRange, ...]
    diverged: tuple[SourceRange, ...]


def replicas_of(logs: Iterable[PartitionLog]) -> list[list[PartitionLog]]:
    """Group logs by partition: return one list of replicas for each partition."""
    groups: dict[tuple[str, int], list[PartitionLog]] = {}
    for log in logs:
        groups.setdefault(log.directory.key, []).append(log)
    return list(groups.values())


def merge_partition(
    logs: Sequence[PartitionLog], output: Path, stop_at_first: bool, bounds: Bounds, run: Run, abort_open: bool
) -> Merged | None:
    """Merge the replicas of one partition into a new directory below `output`.

    A replica that cannot be read is reported, and the other replicas are merged. If no replica can
    be read, return None.

    Parameters
    ----------
    logs : sequence of PartitionLog
        The replicas.
    output : Path
        The log directory to write to. It must exist.
    stop_at_first : bool
        Copy only the batches before the first offset that is valid in no replica.
    bounds : Bounds
        The directories to which symbolic links may lead. Other links are not followed.
    run : Run
        Receives the progress and the messages.
    abort_open : bool
        Append an abort marker for each transaction that is open at the end of the copy.

    Raises
    ------
    OSError
        The copy cannot be written, a replica has changed, or the replicas have different topic ids.
    """
    found = []
    for log in logs:
        with run.reading(log.directory):
            report = verify_partition(log, progress=run.advance)
            found.append(read_replica(log, report.damaged))
    if not found:
        return None
    replicas = ranked(found)
    chosen = choose(replicas, logs[0].max_batch_bytes)
    folder = output / MERGED / f"{logs[0].topic}-{logs[0].partition}"
    merged = MergedDirectory(replicas, chosen, folder, run.advance)
    try:
        merged.write()
        log = PartitionLog(merged.directory, logs[0].limits, tell=run.tell)
        made = salvage_partition(log, merged.lost, output, stop_at_first, bounds, abort_open)
        transactions = [
            replace(t, cause="damage") if t.cause == "open" and _may_be_lost(t, merged.lost) else t
            for t in find_open_transactions(log, merged.lost, made)
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Merged(
        made,
        tuple(merged.lost),
        tuple(transactions),
        source_ranges(replicas, chosen[chosen["last"] < made.copied_end]),
        diverged_ranges(replicas),
    )


def _may_be_lost(transaction: OpenTransaction, lost: Sequence[Damage]) -> bool:
    return any(d.last_offset is None or d.last_offset >= transaction.first_offset for d in lost)


def merged_reports(output: Path, target: Path, merged: Sequence[Merged], limits: ReadLimits) -> list[PartitionReport]:
    """Verify the merged partitions in `output`. Return their reports, which list lost offsets as damage.

    The reports contain paths in `target`. The caller later renames the directory `output` to
    `target`.
    """
    directories = {d.key: d for d in discover([output]).partitions} if merged else {}
    reports = []
    for m in merged:
        log = PartitionLog(directories[m.made.topic, m.made.partition], limits)
        report = verify_partition(log)
        lost = tuple(_placed(damage, log) for damage in m.lost)
        damaged = tuple(sorted([*report.damaged, *lost], key=lambda d: (d.file, d.position)))
        records = None if lost else report.records
        path = str(target / m.made.path.name)
        reports.append(replace(report, path=path, damaged=damaged, records=records))
    return reports


def _placed(damage: Damage, log: PartitionLog) -> Damage:
    """Return a copy of `damage` in which the file and the position refer to the merged log."""
    offset = damage.first_offset or 0
    segment = log.segments[log.first_segment(offset)]
    with log.view(segment) as view:
        found = reach(view, offset, 0, view.size, (segment.base_offset or 0) - 1)
        return replace(damage, file=segment.name, position=view.size if found is None else found.position)

"""Merge the replicas of a partition. Each range of offsets is copied from a replica that is intact there."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...constants import MAX_OFFSET
from ...types import last_offsets
from ..damage import ReadLimits, Walker
from ..findings import Damage
from ..reading import PartitionLog, discover
from ..verifying import PartitionReport, Run, verify_partition
from .merge_choice import choose
from .merge_copy import MergedDirectory, SourceRange, diverged_ranges, source_ranges
from .merge_replica import ranked, read_replica
from .open_transactions import OpenTransaction, find_open_transactions
from .salvage_copy import salvage_partition
from .salvage_rebuilt import needs_rebuilding
from .salvage_source import Bounds
from .salvaged import Salvaged

MERGED = ".replicas"  # name of the directory in which the merged partitions are written before they are copied


@dataclass(frozen=True)
class Merged:
    """The merged copy of a partition, and the offset ranges that were copied, lost or not used."""

    made: Salvaged  # as written by `salvage_partition`
    lost: tuple[Damage, ...]  # offset ranges that are valid in no replica
    transactions: tuple[OpenTransaction, ...]  # open in the copy
    sources: tuple[SourceRange, ...]  # the replica that each offset range was copied from
    diverged: tuple[SourceRange, ...]  # ends of replicas that were not copied, because they contradict the leader


def replicas_of(logs: Iterable[PartitionLog]) -> list[list[PartitionLog]]:
    """Group logs by partition: return one list of replicas for each partition."""
    groups: dict[tuple[str, int], list[PartitionLog]] = {}
    for log in logs:
        groups.setdefault(log.directory.key, []).append(log)
    return list(groups.values())


def merge_partition(
    logs: Sequence[PartitionLog], output: Path, stop_at_first: bool, bounds: Bounds, run: Run, abort_open: bool
) -> Merged | None:
    """Merge the replicas of one partition into a new directory below `output`."""
    # A replica that cannot be read is reported. If none can be read, return None. OSError: the copy cannot be written,
    # a replica has changed, or the topic ids differ.
    found, rebuild = [], False
    for log in logs:
        with run.reading(log.directory):
            report = verify_partition(log, run=run)
            rebuild = rebuild or needs_rebuilding(report)
            found.append(read_replica(log, report.damaged))
    if not found:
        return None
    replicas = ranked(found)
    chosen = choose(replicas)
    folder = output / MERGED / f"{logs[0].topic}-{logs[0].partition}"
    merged = MergedDirectory(replicas, chosen, folder, run.advance)
    try:
        merged.write()
        log = PartitionLog(merged.directory, logs[0].limits, tell=run.tell)
        made = salvage_partition(log, merged.lost, output, stop_at_first, bounds, abort_open, rebuild)
        highest = max((MAX_OFFSET if d.last_offset is None else d.last_offset for d in merged.lost), default=-1)
        transactions = [
            replace(t, cause="damage") if t.cause == "open" and t.first_offset <= highest else t
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


def merged_reports(output: Path, target: Path, merged: Sequence[Merged], limits: ReadLimits) -> list[PartitionReport]:
    """Verify the merged partitions in `output`, and report lost offsets as damage."""
    # The reports contain paths in `target`, because the caller later renames `output` to it.
    directories = {d.key: d for d in discover([output]).partitions} if merged else {}
    reports = []
    for m in merged:
        log = PartitionLog(directories[m.made.topic, m.made.partition], limits)
        report = verify_partition(log, missing=_placed(m.lost, log))
        reports.append(replace(report, path=str(target / m.made.path.name)))
    return reports


def _placed(lost: Sequence[Damage], log: PartitionLog) -> list[Damage]:
    """Return copies of `lost` in which the files and the positions refer to the merged log."""
    # The position is that of the first batch with the lost offset or a later one, or else the end of the file.
    ordered = sorted(lost, key=lambda damage: damage.first_offset or 0)
    placed: list[Damage] = []
    for i, items in itertools.groupby(ordered, lambda damage: log.first_segment(damage.first_offset or 0)):
        segment, group = log.segments[i], list(items)
        offsets = np.array([damage.first_offset or 0 for damage in group], np.int64)
        with log.view(segment) as view:
            positions = np.full(len(group), view.size)
            found = 0
            walker = Walker(view, segment.base_offset or 0, log.max_batch_bytes)
            for start, _, table, _ in walker.tables(0, view.size):
                lasts = last_offsets(table)
                end = found + int(np.searchsorted(offsets[found:], lasts[-1], "right")) if len(lasts) else found
                positions[found:end] = start + table["position"][np.searchsorted(lasts, offsets[found:end])]
                found = end
                if found == len(group):
                    break
        placed += [
            Damage(segment.name, position, d.length, d.first_offset, d.last_offset, d.code, d.message, d.records)
            for d, position in zip(group, positions.tolist(), strict=True)
        ]
    return placed

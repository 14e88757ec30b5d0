"""Create the job of an export from keyword arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kafkafmt.cli.offset_range import parse_offsets
from kafkafmt.exporting.job import Export
from kafkafmt.exporting.options import ExportOptions
from kafkafmt.log import discover
from kafkafmt.log.catalog.selection import select_partitions
from kafkafmt.log.reading.record_selection import OffsetBound, Selection


def job_of(
    paths: Sequence[Path],
    offsets: str | tuple[OffsetBound | None, OffsetBound | None] = ":",
    tell: Callable[[str], None] | None = None,
    **options: Any,
) -> Export:
    """Return the job of an export.

    `options` are arguments of `ExportOptions`, and the arguments `isolation` and `below_log_start` of
    `Selection`.
    """
    bounds = parse_offsets(offsets) if isinstance(offsets, str) else offsets
    selected = {name: options.pop(name) for name in ("isolation", "below_log_start") if name in options}
    options["selection"] = Selection(*bounds, **selected)
    settings = ExportOptions(tuple(map(str, paths)), **options)
    found = discover(paths, settings.replicas)
    chosen = select_partitions(found.partitions, settings.topics, settings.partitions, settings.internal)
    return Export(found, chosen, settings, tell)

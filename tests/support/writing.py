"""Build records for the log writer, and check the logs that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from reports import verify_partition
from selecting import interval

from kafkafmt.log import PartitionLog, discover
from kafkafmt.view.selection_arguments import SelectionArguments

FIRST = 1_700_000_000_000
"""Timestamp of the first record, in milliseconds."""


def some(n: int, at: int = FIRST, size: int = 30) -> list[tuple[bytes, bytes, int]]:
    """Return `n` records with timestamps 1 ms apart."""
    return [(b"k%d" % i, b"v" * size, at + i) for i in range(n)]


def offsets(path: Path, **given: Unpack[SelectionArguments]) -> list[int]:
    """Return the offsets of the selected records in the only partition of a directory."""
    log = PartitionLog(discover([path]).partitions[0])
    return [r.offset for r in log.records(interval(log, **given))]


def problems(path: Path) -> list[Any]:
    """Return all damage and all findings in a directory."""
    found = []
    for directory in discover([path]).partitions:
        report = verify_partition(PartitionLog(directory))
        found += report["damaged"] + report["findings"]
    return found

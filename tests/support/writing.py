"""Build records for the writer, and check the logs that it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports import verify_partition

from kafkafmt.log import PartitionLog, discover

FIRST = 1_700_000_000_000
"""The timestamp of the first record."""


def some(n: int, at: int = FIRST, size: int = 30) -> list[tuple[bytes, bytes, int]]:
    """Return `n` records, with timestamps one millisecond apart."""
    return [(b"k%d" % i, b"v" * size, at + i) for i in range(n)]


def offsets(path: Path, **selection: Any) -> list[int]:
    """Return the offsets of the only partition of a directory."""
    return [r.offset for r in PartitionLog(discover([path]).partitions[0]).records(**selection)]


def problems(path: Path) -> list[Any]:
    """Return all damage and findings of the partitions of a directory."""
    found = []
    for directory in discover([path]).partitions:
        report = verify_partition(PartitionLog(directory))
        found += report["damaged"] + report["findings"]
    return found

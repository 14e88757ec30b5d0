"""How many of a log's oldest segments retention lets go (Kafka: UnifiedLog.deleteRetentionMsBreachedSegments and its like).

By time, from the first on until one holds a record that is younger; by size, as long as what is left is not too small then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..format import files
from ..format.index_entries import read_time_index
from .recovery import path_of


def too_old(folder: Path, bases: Sequence[int], now: int, retention_ms: int, active_largest: int) -> int:
    """By time, -1 for no limit. bases: of the segments, the active one last; active_largest: its largest timestamp."""
    n = 0
    while 0 <= retention_ms and n < len(bases):
        path = path_of(folder, bases[n])
        largest = active_largest if n + 1 == len(bases) else _largest_timestamp(path, bases[n])
        if largest < 0:  # its records have none: what counts is when it was written
            largest = path.stat().st_mtime_ns // 1_000_000
        if now - largest <= retention_ms:
            break
        n += 1
    return n


def _largest_timestamp(path: Path, base: int) -> int:
    times, _ = read_time_index(files.read_bytes(path.with_suffix(".timeindex")) or b"", base)
    return int(times[-1]) if len(times) else -1


def too_many(folder: Path, bases: Sequence[int], retention_bytes: int) -> int:
    """By size, -1 for no limit."""
    if retention_bytes < 0:
        return 0
    sizes = [files.file_size(path_of(folder, base)) or 0 for base in bases]
    excess, n = sum(sizes) - retention_bytes, 0
    while n < len(sizes) and excess - sizes[n] >= 0 and (sizes[n] or n + 1 < len(sizes)):
        excess -= sizes[n]
        n += 1
    return n

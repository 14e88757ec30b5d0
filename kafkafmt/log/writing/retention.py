"""Count the oldest segments of a log that retention by time or by size would delete.

Kafka's counterparts are ``UnifiedLog.deleteRetentionMsBreachedSegments`` and
``deleteRetentionSizeBreachedSegments``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..formats import read_time_index
from ..storage import file_size, read_bytes
from .active import path_of


def too_old(folder: Path, bases: Sequence[int], now: int, retention_ms: int, active_largest: int) -> int:
    """Count the oldest segments whose largest timestamp is more than `retention_ms` before `now`."""
    # Counting stops at the first segment that is not too old. `retention_ms` is -1 without a limit; `active_largest` is
    # -1 if no record of the active segment has a timestamp.
    n = 0
    while 0 <= retention_ms and n < len(bases):
        path = path_of(folder, bases[n])
        largest = active_largest if n + 1 == len(bases) else _largest_timestamp(path, bases[n])
        # If no record has a timestamp, the modification time of the file is used.
        if largest < 0:
            largest = path.stat().st_mtime_ns // 1_000_000
        if now - largest <= retention_ms:
            break
        n += 1
    return n


def _largest_timestamp(path: Path, base: int) -> int:
    times, _ = read_time_index(read_bytes(path.with_suffix(".timeindex")) or b"", base)
    return int(times[-1]) if len(times) else -1


def too_many(folder: Path, bases: Sequence[int], retention_bytes: int) -> int:
    """Count the oldest segments that can be deleted if at least `retention_bytes` (-1: no limit) must remain."""
    if retention_bytes < 0:
        return 0
    sizes = [file_size(path_of(folder, base)) or 0 for base in bases]
    excess, n = sum(sizes) - retention_bytes, 0
    while n < len(sizes) and excess - sizes[n] >= 0 and (sizes[n] or n + 1 < len(sizes)):
        excess -= sizes[n]
        n += 1
    return n

"""Detect when a live broker changes the log start offset of a partition, by DeleteRecords or by truncating the log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Lock

from ..errors import StructureError
from ..log.formats import LOG_STARTS, read_offset_checkpoint
from ..log.storage import Stamp, read_text, stamp_of
from ..support.paths import Location, UrlPath
from .tail import settled

CHECK_SECONDS = 1.0
"""Least number of seconds between two checks of the same checkpoint."""


@dataclass
class _Checkpoint:
    """The content of a checkpoint, the time of the latest check, and the state of the file at that time."""

    checked: float = float("-inf")
    stamp: Stamp | None = None
    offsets: dict[tuple[str, int], int] | None = None


class LogStarts:
    """The log start offsets in the checkpoints of the served directories. Threads may share the object."""

    def __init__(self) -> None:
        self._known: dict[Location, _Checkpoint] = {}
        self._lock = Lock()

    def find(self, root: Location, key: tuple[str, int]) -> int | None:
        """Return the log start offset in the checkpoint, or None if it was never read or is not local."""
        # A broker omits partitions whose log start offset is the base offset of the first segment.
        # For these, the result is 0.
        if isinstance(root, UrlPath):
            return None
        with self._lock:
            known = self._known.setdefault(root, _Checkpoint())
            now = time.monotonic()
            if now - known.checked >= CHECK_SECONDS:
                known.checked = now
                try:
                    stamp = stamp_of(root / LOG_STARTS)
                    if stamp is not None and stamp != known.stamp:
                        known.offsets = read_offset_checkpoint(read_text(root / LOG_STARTS) or "", LOG_STARTS)
                        # The next change of the file may get the same modification time.
                        known.stamp = stamp if settled(stamp[2]) else None
                except (OSError, StructureError):
                    pass  # If the checkpoint is missing or damaged, keep the offsets that were read before.
            return None if known.offsets is None else known.offsets.get(key, 0)

"""Keep the listings of partition directories, so that an unchanged directory is not listed again.

A directory changes its modification time if a file is created, removed or renamed in it, but not if
a file grows. So an unchanged directory has the same segments, and only the last one may have grown.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from typing import NamedTuple

from ...paths import Location, UrlPath
from .partition_dir import PartitionDir, SegmentFile

SETTLED_NS = 2_000_000_000
"""Age of a modification, in ns, from which a later one has another time. Some file systems store the
time in steps of up to 2 s.
"""
MAX_AGE = 300.0
"""Time in seconds after which a directory is listed again in any case, because the clock of a file
server may differ from the clock of this host.
"""

State = tuple[int, ...]


class _Listing(NamedTuple):
    state: State
    expires: float
    partition: PartitionDir


class Listings:
    """Keeps the listings of local partition directories."""

    def __init__(self) -> None:
        self._known: dict[Location, _Listing] = {}

    def find(self, path: Location) -> PartitionDir | None:
        """Return the partition in a directory if the directory has not changed since it was listed.

        The size of its last segment is determined again.
        """
        known = self._known.get(path)
        if known is None or known.expires < time.monotonic() or self.state_of(path) != known.state:
            self._known.pop(path, None)
            return None
        segments = known.partition.segments
        if segments:
            last = segments[-1]
            segments = [*segments[:-1], SegmentFile(last.folder, last.name, last.next_base, last.last)]
        return replace(known.partition, segments=segments, problems=list(known.partition.problems))

    def state_of(self, path: Location) -> State | None:
        """Return values that change if a file is created, removed or renamed in a directory.

        Return None if the directory is not local, or cannot be read, or was changed so recently
        that the next change may have the same time.
        """
        if isinstance(path, UrlPath):
            return None
        try:
            status = os.stat(path)
        except OSError:
            return None
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < SETTLED_NS:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns

    def add(self, path: Location, state: State | None, partition: PartitionDir) -> None:
        """Keep a listing. `state` is the state of the directory before it was listed."""
        if state is not None:
            # at different times, so that a log directory is not listed as a whole
            expires = time.monotonic() + MAX_AGE * random.uniform(1, 2)
            self._known[path] = _Listing(state, expires, partition)


class NoListings(Listings):
    """Keeps no listing, for callers that list each directory once. No system call is made."""

    def find(self, path: Location) -> PartitionDir | None:
        """Return None."""
        return None

    def state_of(self, path: Location) -> State | None:
        """Return None."""
        return None

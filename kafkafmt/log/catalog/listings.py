"""Cache the file lists of partition directories, so that an unchanged directory is not listed again.

The modification time of a directory changes if a file is created, removed or renamed in it, but not
if a file grows. If it is unchanged, only the last segment can have grown.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from typing import NamedTuple

from ...support.paths import Location, UrlPath
from .partition_dir import PartitionDir, SegmentFile

SETTLED_NS = 2_000_000_000
"""A list is cached only if the last change is as old: file times can have a resolution of 2 s."""
MAX_AGE = 300.0  # lifetime of a cached list, in seconds, because the clock of a file server can differ

State = tuple[int, ...]


class _Listing(NamedTuple):
    state: State
    expires: float
    partition: PartitionDir


class Listings:
    """Cache for the file lists of local partition directories."""

    def __init__(self) -> None:
        self._known: dict[Location, _Listing] = {}

    def find(self, path: Location) -> PartitionDir | None:
        """Return the cached partition, or None if its directory has changed since it was listed."""
        # The size of the last segment is not cached, because its file can grow.
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
        """Return the identity and modification times of a directory, or None: its file list must not be cached."""
        # If the state changes, a file was created, removed or renamed. None: the directory is not local, or unreadable,
        # or changed so recently that another change may get the same modification time.
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
        """Cache the file list of a directory, unless `state` is None."""
        # `state` is the result of `state_of` from before the directory was listed.
        if state is not None:
            # Each cache entry gets a random lifetime, so that the file lists of all partitions do not expire together.
            expires = time.monotonic() + MAX_AGE * random.uniform(1, 2)
            self._known[path] = _Listing(state, expires, partition)

"""Cache the listings of partition directories, so that an unchanged directory is not listed again.

The modification time of a directory changes if a file is created, removed or renamed in it, but not
if a file grows. If the modification time is unchanged, the directory contains the same segments, and
only the last segment may have grown.
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
"""A listing is cached only if the last change of the directory is at least this old, in ns.

Some file systems store times in steps of up to 2 s. Two changes within one step have the same time.
"""
MAX_AGE = 300.0
"""Minimum lifetime of a cached listing, in seconds.

Listings expire because the clock of a file server can differ from the clock of this host.
"""

State = tuple[int, ...]


class _Listing(NamedTuple):
    state: State
    expires: float
    partition: PartitionDir


class Listings:
    """Caches the listings of local partition directories."""

    def __init__(self) -> None:
        self._known: dict[Location, _Listing] = {}

    def find(self, path: Location) -> PartitionDir | None:
        """Return the cached partition if its directory has not changed since it was listed, else None.

        The cached size of the last segment is discarded, because its file can grow.
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
        """Return a tuple that differs between two calls if a file was created, removed or renamed in between.

        `path` is the directory that contains the files.

        Return None in these cases:

        - The directory is not local.
        - The directory cannot be read.
        - The directory was changed so recently that the next change may have the same modification
          time.
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
        """Cache a listing, unless `state` is None.

        The caller must call `state_of` before it lists the directory, and pass the result as `state`.
        """
        if state is not None:
            # A random lifetime prevents all listings of a log directory from expiring at once.
            expires = time.monotonic() + MAX_AGE * random.uniform(1, 2)
            self._known[path] = _Listing(state, expires, partition)


class NoListings(Listings):
    """Disables the cache, for callers that list each directory only once."""

    def find(self, path: Location) -> PartitionDir | None:
        """Return None."""
        return None

    def state_of(self, path: Location) -> State | None:
        """Return None."""
        return None

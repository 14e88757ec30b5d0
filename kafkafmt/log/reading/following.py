"""Follow several partitions, including partitions that are created later."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from ..._backend import core
from ...support.paths import Location, input_path
from ..catalog import PartitionDir, matching
from ..storage import is_file, real_path
from .follow import Follower
from .segment_reader import OnDamage

POLL = 0.2  # interval in seconds at which the last segment of each partition is checked
RESCAN = 3.0  # seconds between two listings, which find new partitions and changes that times and sizes do not show


class Followers:
    """Delivers records of several partitions continuously, as soon as a broker appends them."""

    # `make` creates the Follower of a partition; its bool is True if the partition existed when following started.
    # `rescan` returns all partitions to follow; without it, new partitions are not followed.

    def __init__(
        self,
        chosen: Iterable[PartitionDir],
        make: Callable[[PartitionDir, bool], Follower],
        rescan: Callable[[], Iterable[PartitionDir]] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._make = make
        self._rescan = rescan
        self._tell = tell
        self._scanned = time.monotonic()
        self._followers = {d.key: make(d, True) for d in chosen}

    def __len__(self) -> int:
        return len(self._followers)

    def check(self) -> Iterator[Follower]:
        """Check every existing partition once for new batches. Yield its `Follower` after its check."""
        rescan = time.monotonic() - self._scanned > RESCAN
        if rescan:
            self._scanned = time.monotonic()
            self._add_new()
        for key in sorted(self._followers):
            follower = self._followers[key]
            follower.check(rescan)
            yield follower
            if follower.gone:
                del self._followers[key]

    def _add_new(self) -> None:
        for directory in self._rescan() if self._rescan is not None else ():
            if directory.key not in self._followers:
                self._tell(f"{directory.topic}-{directory.partition}: new partition, followed from its start")
                self._followers[directory.key] = self._make(directory, False)

    def records(
        self,
        on_damage: Callable[[Follower], OnDamage | None],
        poll: float = POLL,
        idle_timeout: float | None = None,
    ) -> Iterator[tuple[Follower, core.Record]]:
        """Yield records, with the partition's Follower, when they are appended. Check every `poll` seconds."""
        # Without a callback from `on_damage`, damage raises DamagedLogError. Stop after `idle_timeout` seconds without
        # a new record, or when no partition remains and none can be added.
        last = time.monotonic()
        while True:
            for follower in self.check():
                for record in follower.records(on_damage(follower)):
                    yield follower, record
                    last = time.monotonic()
            if idle_timeout is not None and time.monotonic() - last >= idle_timeout:
                return
            if not self._followers and self._rescan is None:
                return
            time.sleep(poll)


def paths_to_follow(directory: PartitionDir, paths: Iterable[str | os.PathLike[str]]) -> list[Location]:
    """Return the paths with which `discover` finds a partition again: the named `.log` files, or its directory."""
    given = [place for path in paths for place in matching(input_path(path))]
    folder = real_path(directory.path)
    named = [p for p in given if is_file(p) and real_path(p.parent) == folder]
    return named or [directory.path]

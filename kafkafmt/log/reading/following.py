"""Follow several partitions, including partitions that are created later."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from ..._backend import core
from ...support.paths import Location, input_path
from ..catalog import PartitionDir, matching
from ..storage import is_file, real_path
from .damage_callbacks import OnDamage
from .follow import Follower

POLL = 0.2
"""Interval in seconds at which the last segment of each partition is checked."""
RESCAN = 3.0
"""Interval in seconds at which all directories are listed again.

Listing the directories finds new partitions, and changes that do not affect the times and sizes of
files.
"""


class Followers:
    """Delivers records of several partitions continuously, as soon as a broker appends them.

    Parameters
    ----------
    chosen : iterable of PartitionDir
        The partitions that exist when following starts.
    make : callable
        Function that creates the Follower of a partition. Its arguments are a PartitionDir, and a
        bool that is True if the partition existed when following started.
    rescan : callable, optional
        Function that returns all partitions to follow at the time of the call. By default, new
        partitions are not followed.
    tell : callable
        Called with a message about each new partition.
    """

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
        """Check every partition once for new batches. Yield the `Follower` object of each partition after its check.

        If a partition no longer exists, it is not checked again.
        """
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
        """Yield records when they are appended. Each item is a pair: the partition's Follower, and the record.

        Parameters
        ----------
        on_damage : callable
            Function that returns the damage callback for a Follower. If the function returns None,
            damage in that partition raises DamagedLogError.
        poll : float, default 0.2
            Interval between two checks, in seconds.
        idle_timeout : float, optional
            Stop after this many seconds without a new record. By default, stop only when all
            partitions have been deleted and no partition can be added.
        """
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
    """Return the paths that must be passed to `discover` to find a partition again.

    If the user named single `.log` files of the partition, return their paths. Otherwise, return
    the path of the partition directory.
    """
    given = [place for path in paths for place in matching(input_path(path))]
    folder = real_path(directory.path)
    named = [p for p in given if is_file(p) and real_path(p.parent) == folder]
    return named or [directory.path]

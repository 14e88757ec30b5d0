"""`kafkafmt cat -f`: goes on with what is appended, in the partitions chosen and in those that come."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ..log import PartitionDir
from ..log.reading.follow import Follower
from .common import tell

POLL = 0.2
RESCAN = 3.0
"""Seconds between looks at the files, and at the directories: for new partitions, and for what times and sizes do not show."""


def follow_partitions(
    chosen: list[PartitionDir],
    rescan: Callable[[], list[PartitionDir]],
    make: Callable[[PartitionDir, bool], Follower],
    write: Callable[[Follower], bool],
) -> None:
    """Until `write`, which takes what a follower has, says that it is enough. make: a follower, of one that was there at first or not.

    BrokenPipeError once nobody reads what is written.
    """
    wait = _waiter(sys.stdout.fileno())
    followers = {d.key: make(d, True) for d in chosen}
    scanned = time.monotonic()
    while True:
        closely = time.monotonic() - scanned > RESCAN
        if closely:
            scanned = time.monotonic()
            for d in rescan():
                if d.key not in followers:
                    tell(f"{d.topic}-{d.partition}: new, followed from its start")
                    followers[d.key] = make(d, False)
        for key in sorted(followers):
            followers[key].look(closely)
            if not write(followers[key]):
                return
            if followers[key].gone:
                del followers[key]
        sys.stdout.flush()
        wait(POLL)


def _waiter(handle: int) -> Callable[[float], None]:
    """Waits for seconds; of a pipe or socket only while its other end is there, else BrokenPipeError."""
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return time.sleep
    poll = select.poll()
    poll.register(handle, 0)  # POLLERR and POLLHUP are told unasked

    def wait(seconds: float) -> None:
        if poll.poll(seconds * 1000):
            raise BrokenPipeError

    return wait


def places(directory: PartitionDir, paths: tuple[str, ...]) -> list[Path]:
    """What to discover a partition by again: its directory, or the single files of it that were named."""
    named = [p for p in map(Path, paths) if p.is_file() and p.parent.resolve() == directory.path.resolve()]
    return named or [directory.path]

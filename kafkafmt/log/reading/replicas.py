"""Find the partitions under paths, and choose which replica is read if several paths contain the same partition."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ...support.paths import Location, UrlPath
from ...support.text import shown
from ..catalog import Discovery, Listings, PartitionDir, find_partitions
from ..damage import BatchFinder
from .partition import PartitionLog


class DuplicatePartitionError(ValueError):
    """Raised if two of the given paths contain the same partition.

    Attributes
    ----------
    topic : str
        Name of the topic.
    partition : int
        Number of the partition.
    paths : tuple of Path or UrlPath
        The directories that contain the partition.
    """

    topic: str
    partition: int
    paths: tuple[Location, ...]

    def __init__(self, topic: str, partition: int, paths: tuple[Location, ...]) -> None:
        self.topic, self.partition, self.paths = topic, partition, paths
        super().__init__(
            f'{self.problem}; open only one of the two directories, pass replicas="longest", or merge both with '
            'kafkafmt.salvage(..., replicas="merge")'
        )

    @property
    def problem(self) -> str:
        """Description of the problem that does not depend on the user interface (Python, command line or Spark)."""
        return f"{self.topic}-{self.partition} is in both {' and '.join(map(str, self.paths))}"

    def __reduce__(self) -> Any:
        return type(self), (self.topic, self.partition, self.paths)


def in_order(found: list[PartitionDir]) -> list[PartitionDir]:
    """Sort partition directories by topic, partition, state ("live" first) and path."""
    return sorted(found, key=lambda p: (p.topic, p.partition, p.state != "live", str(p.path)))


def choose_replicas(found: list[PartitionDir], replicas: str | None, messages: list[str]) -> list[PartitionDir]:
    """Return the partition directories to read, ordered by topic, partition and path."""
    # Of several readable directories of a partition, "longest" selects the one with the highest end offset; without
    # `replicas`, DuplicatePartitionError is raised. Directories that are only listed, such as deleted partitions, are
    # always returned.
    kept: list[PartitionDir] = []
    chosen: dict[tuple[str, int], int] = {}  # indexes in `kept`
    for p in in_order(found):
        if not p.readable:
            kept.append(p)
            continue
        at = chosen.setdefault(p.key, len(kept))
        if at == len(kept):
            kept.append(p)
            continue
        other = kept[at]
        if replicas is None:
            raise DuplicatePartitionError(p.topic, p.partition, (other.path, p.path))
        winner, loser = (p, other) if PartitionLog(p).next_offset > PartitionLog(other).next_offset else (other, p)
        messages.append(f"{p.topic}-{p.partition}: {winner.path} is read, but its replica {loser.path} is not")
        kept[at] = winner
    return kept


def discover(
    paths: Iterable[str | os.PathLike[str] | UrlPath],
    replicas: str | None = None,
    listings: Listings | None = None,
    *,
    every_replica: bool = False,
) -> Discovery:
    """Find all partitions under the given paths.

    Parameters
    ----------
    paths : iterable of str, os.PathLike or UrlPath
        `.log` files, partition directories and log directories.
    replicas : "longest", optional
        If two directories contain the same partition, return only the copy with the higher end
        offset. By default, this case raises an error.
    listings : Listings, optional
        Cache of directory listings. A local partition directory is listed again only if it has
        changed since an earlier call.
    every_replica : bool, default False
        If several directories contain the same partition, return all of them. `replicas` is then
        ignored.

    Returns
    -------
    Discovery
        The partitions, and messages about files that are not read.

    Raises
    ------
    OSError
        A path cannot be read. If a path contains no log, the error is a `NoLogError`.
    ValueError
        A path is not valid (see `input_path`), or `replicas` is wrong. If two directories contain
        the same partition, the error is a `DuplicatePartitionError`.
    """
    if replicas not in (None, "longest"):
        raise ValueError(f"replicas is {shown(replicas)}; it must be 'longest' or None")
    messages: list[str] = []
    found = find_partitions(paths, listings, messages, BatchFinder)
    chosen = in_order(found) if every_replica else choose_replicas(found, replicas, messages)
    return Discovery(chosen, list(dict.fromkeys(messages)))

"""Describe a partition directory and its segments, as they were listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

INTERNAL_PREFIX = "__"
"""The names of Kafka's internal topics begin with this prefix."""


@dataclass(frozen=True)
class SegmentFile:
    """A `.log` file, as it was listed.

    Attributes
    ----------
    path : Path
        Path of the file.
    base_offset : int or None
        Base offset in its name. None if the name is not a base offset.
    next_base : int or None
        Base offset of the next segment; None for the last one.
    last : bool
        Whether it is the last segment of its partition.
    size : int
        Size of the file, in bytes.
    """

    path: Path
    base_offset: int | None
    next_base: int | None
    last: bool
    size: int

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name


@dataclass
class PartitionDir:
    """A partition directory, as it was listed.

    Attributes
    ----------
    topic, partition : str and int
        Topic and number, from the directory's name.
    path : Path
        Path of the directory.
    state : str
        "live", "delete", "stray" or "future", from the directory's name.
    segments : list of SegmentFile
        The segments, in ascending order.
    log_start : int
        Log start offset in the checkpoint next to the directory. 0 if there is none.
    cleaned : bool
        Whether the cleaner's checkpoint contains the partition, so compaction explains gaps in its
        offsets.
    named : bool
        Whether the directory, or a file in it, was itself one of the paths.
    problems : list of (str, str, str)
        File, error code and message of invalid checkpoints, and of `.log` files that are no
        segments.
    checkpoints : dict of int
        Offset of the partition in each offset checkpoint, by the checkpoint's name.
    error : OSError or None
        Why the directory cannot be listed. `PartitionLog` raises it.
    ignored : frozenset of str
        Names of files in the directory that salvage must not use.
    inode : int or None
        Inode of the directory when it was listed.
    """

    topic: str
    partition: int
    path: Path
    state: str
    segments: list[SegmentFile]
    log_start: int = 0
    cleaned: bool = False
    named: bool = False
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)
    error: OSError | None = None
    ignored: frozenset[str] = frozenset()
    inode: int | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Topic and number of the partition."""
        return self.topic, self.partition

    @property
    def log_start_offset(self) -> int:
        """First offset that a broker shows: the higher one of the checkpoint and the first
        segment's base offset.
        """
        first = self.segments[0].base_offset if self.segments else None
        return max(self.log_start, first or 0)

    @property
    def readable(self) -> bool:
        """Whether readers include the partition: it is live, or was itself opened by its path."""
        return self.state == "live" or self.named

    @property
    def internal(self) -> bool:
        """Whether the topic is one of Kafka's internal topics."""
        return self.topic.startswith(INTERNAL_PREFIX)

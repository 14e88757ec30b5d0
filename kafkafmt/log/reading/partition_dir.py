"""Describe a partition directory and its segments, as they were listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

INTERNAL_PREFIX = "__"
"""The names of Kafka's internal topics begin with this prefix."""


@dataclass(frozen=True)
class SegmentFile:
    """A `.log` file. base_offset is what its name says, None where the name is not a base offset."""

    path: Path
    base_offset: int | None
    next_base: int | None
    last: bool
    size: int

    @property
    def name(self) -> str:
        return self.path.name


@dataclass
class PartitionDir:
    """A partition as it lies on disk.

    state: live, delete, stray or future. log_start: from the checkpoint beside the directory, 0 where there is none.
    cleaned: the cleaner's checkpoint knows it, so gaps in its offsets are compaction's. named: it was itself a PATH.
    checkpoints: what each of the offset checkpoints says of it, by their names. inode: of the directory, when it was listed.
    ignored: names of files in the directory that salvage must not use.
    problems: (file, error word, message) of checkpoints that cannot be believed and of `.log` files that are no segments.
    error: why the directory cannot be listed; `PartitionLog` raises it.
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
        return self.topic, self.partition

    @property
    def log_start_offset(self) -> int:
        """max(checkpoint, first segment's base offset), the first offset that a broker would show."""
        first = self.segments[0].base_offset if self.segments else None
        return max(self.log_start, first or 0)

    @property
    def readable(self) -> bool:
        """Whether readers include the partition: it is live, or was itself opened by its path."""
        return self.state == "live" or self.named

    @property
    def internal(self) -> bool:
        return self.topic.startswith(INTERNAL_PREFIX)

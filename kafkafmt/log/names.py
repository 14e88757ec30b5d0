"""What names on disk mean: partition directories, segment files (Kafka: LocalLog, LogFileUtils)."""

from __future__ import annotations

import re
from typing import NamedTuple

STATES = ("live", "delete", "stray", "future")
_MOVED = re.compile(r"^(\S+)-(\S+)\.(\S+)-(delete|stray|future)$")
_SEGMENT = re.compile(r"^(\d{20})\.log$")


class PartitionName(NamedTuple):
    """topic, partition; state is live, delete, stray or future; parsed is False where the whole name is the topic."""

    topic: str
    partition: int
    state: str
    parsed: bool


def parse_partition_name(name: str) -> PartitionName:
    """Topic and partition of a directory, split at the last dash; of `-delete`, `-stray` and `-future` ones without the id."""
    state = "live"
    moved = _MOVED.match(name)
    stem = name
    if moved:
        state = moved[4]
        stem = name[: name.rindex(".")]
    topic, dash, number = stem.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        return PartitionName(name, 0, "live", False)
    return PartitionName(topic, int(number), state, True)


def base_offset_of(file_name: str) -> int | None:
    """The base offset that a segment's `.log` file is named by; None for any other name."""
    match = _SEGMENT.match(file_name)
    return int(match[1]) if match and int(match[1]) < 2**63 else None

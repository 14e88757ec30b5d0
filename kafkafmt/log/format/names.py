"""What names on disk mean: partition directories, segment files (Kafka: LocalLog, LogFileUtils)."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...constants import MAX_OFFSET

_MOVED = re.compile(r"(.+)-(delete|stray|future)\Z", re.DOTALL)
_PARTITION = re.compile(r"(.+)-([0-9]{1,19})\Z", re.DOTALL)
_OFFSET = re.compile(r"([0-9]{20})(\.log|\.snapshot|\.txnindex)\Z")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
MAX_PARTITION = 2**31 - 1


class PartitionName(NamedTuple):
    """topic, partition; state is live, delete, stray or future; parsed is False where the whole name is the topic."""

    topic: str
    partition: int
    state: str
    parsed: bool


def parse_partition_name(name: str) -> PartitionName:
    """Topic and partition of a directory, split at the last dash; of `-delete`, `-stray` and `-future` ones without the id."""
    moved = _MOVED.match(name)
    state = moved[2] if moved else "live"
    for stem in (moved[1].rpartition(".")[0], moved[1]) if moved else (name,):
        parts = _PARTITION.match(stem)
        if parts and int(parts[2]) <= MAX_PARTITION:
            return PartitionName(parts[1], int(parts[2]), state, True)
    return PartitionName(name, 0, state, False)


def base_offset_of(file_name: str) -> int | None:
    """The base offset that a segment's `.log` file is named by; None for any other name."""
    return _offset_of(file_name, ".log")


def snapshot_offset_of(file_name: str) -> int | None:
    """The offset up to which a producer snapshot knows the log; None for any other name."""
    return _offset_of(file_name, ".snapshot")


def index_base_of(file_name: str) -> int | None:
    """The base offset that a transaction index is named by; None for any other name."""
    return _offset_of(file_name, ".txnindex")


def _offset_of(file_name: str, suffix: str) -> int | None:
    match = _OFFSET.match(file_name)
    return int(match[1]) if match and match[2] == suffix and int(match[1]) <= MAX_OFFSET else None


def is_topic_name(name: str) -> bool:
    """Return whether a broker accepts the name for a topic (Kafka: `Topic.validate`)."""
    return _TOPIC.match(name) is not None and name not in (".", "..")


def can_be_checkpointed(topic: str, partition: int) -> bool:
    """Return whether a checkpoint line can name the partition: a reader splits lines at white space and parses an int32."""
    return is_topic_name(topic) and 0 <= partition <= MAX_PARTITION

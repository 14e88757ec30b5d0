"""Parse and build the names of partition directories and segment files.

Kafka's counterparts are ``LocalLog`` and ``LogFileUtils``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ...constants import MAX_OFFSET

_MOVED = re.compile(r"(.+)-(delete|stray|future)\Z", re.DOTALL)
_PARTITION = re.compile(r"(.+)-([0-9]{1,19})\Z", re.DOTALL)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
MAX_PARTITION = 2**31 - 1
PACKED_FORMATS = {".gz": "gzip", ".zst": "zstd"}  # suffixes of compressed segments
_PACKED = tuple(PACKED_FORMATS)
_PACKED_NAME = re.compile(r"(?:\A|/)([0-9]{20}\.log)(\.gz|\.zst)\Z")
_SUFFIXES = (".log", *PACKED_FORMATS)
OFFSET_DIGITS = 20  # number of digits of the offset in a file name


class PartitionName(NamedTuple):
    """The parts of a partition directory's name: topic, partition number and state."""

    topic: str
    partition: int
    state: str  # state of the partition: "live", "delete", "stray" or "future"
    parsed: bool  # Whether the name has the form `topic-partition`. If False, `topic` is the whole name.


def parse_partition_name(name: str) -> PartitionName:
    """Parse the name of a partition directory, such as `orders-0`. The last dash separates topic and partition."""
    # A broker can rename it to `topic-partition.<id>-delete`, `-stray` or `-future`: this suffix is the state.
    moved = _MOVED.match(name)
    state = moved[2] if moved else "live"
    for stem in (moved[1].rpartition(".")[0], moved[1]) if moved else (name,):
        parts = _PARTITION.match(stem)
        if parts and int(parts[2]) <= MAX_PARTITION:
            return PartitionName(parts[1], int(parts[2]), state, True)
    return PartitionName(name, 0, state, False)


def base_offset_of(file_name: str) -> int | None:
    """Return the base offset in the name of a `.log` file. If the name has another form, return None."""
    return _offset_of(file_name, ".log")


def segment_name_of(name: str) -> str | None:
    """Remove `.gz` or `.zst` from the name or path of a compressed segment, or return None for another name."""
    found = _PACKED_NAME.search(name) if name.endswith(_PACKED) else None
    return found[1] if found else None


def base_of(name: str) -> int | None:
    """Return the base offset in the name of a plain or compressed segment, or None for another name."""
    return base_offset_of(segment_name_of(name) or name)


def bases_in(names: Iterable[str]) -> list[tuple[int, str]]:
    """Return the base offset and the name of each plain or compressed segment in a list of file names."""
    return [
        (base, n)
        for n in names
        if n.endswith(_SUFFIXES) and (base := base_offset_of(n) if n.endswith(".log") else base_of(n)) is not None
    ]


def is_log_name(name: str) -> bool:
    """Return whether a file name ends with `.log` or is the name of a compressed segment."""
    return name.endswith(".log") or segment_name_of(name) is not None


def snapshot_offset_of(file_name: str) -> int | None:
    """Return the offset in the name of a producer snapshot, or None for another name."""
    return _offset_of(file_name, ".snapshot")


def offsets_in(file_names: Iterable[str], suffix: str) -> dict[int, str]:
    """Return the names that consist of an offset and `suffix`, such as ".log", by offset."""
    return {
        offset: name
        for name in file_names
        if name.endswith(suffix) and (offset := _offset_of(name, suffix)) is not None
    }


def file_name(offset: int, suffix: str = ".log") -> str:
    """Return the name of a segment file or producer snapshot: `OFFSET_DIGITS` digits and a suffix."""
    return str(offset).zfill(OFFSET_DIGITS) + suffix  # faster than a format specification or a cache


def _offset_of(file_name: str, suffix: str) -> int | None:
    if file_name[OFFSET_DIGITS:] != suffix:
        return None
    digits = file_name[:OFFSET_DIGITS]
    if not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return offset if offset <= MAX_OFFSET else None


def is_topic_name(name: str) -> bool:
    """Return whether a broker accepts `name` as a topic name (Kafka: ``Topic.validate``)."""
    return _TOPIC.match(name) is not None and name not in (".", "..")


def can_be_checkpointed(topic: str, partition: int) -> bool:
    """Return whether an offset checkpoint can contain an entry for a partition."""
    # Brokers split each line at whitespace, and parse the partition number as an int32.
    return is_topic_name(topic) and 0 <= partition <= MAX_PARTITION

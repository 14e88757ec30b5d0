"""The small text files of a log directory (Kafka: OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile).

A checkpoint: a line with the version, 0; a line with the number of entries; an entry a line. A file of 0 bytes has no
entries. Whatever else is wrong raises StructureError with the line's number: a broker would not believe it either.
"""

from __future__ import annotations

import re

from ..constants import MAX_OFFSET
from ..errors import StructureError

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}\Z")


def _entries(text: str, parts: int, name: str) -> list[list[str]]:
    if not text:
        return []
    lines = text.splitlines()
    if lines[0].strip() != "0":
        raise StructureError(f"{name}: version {lines[0][:40]!r} is not 0")
    if len(lines) < 2:
        raise StructureError(f"{name}: line 2, the number of entries, is missing")
    count = _number(lines[1].strip(), name, 2)
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise StructureError(f"{name}: {len(entries)} entries where line 2 says {count}")
    for number, entry in enumerate(entries, 3):
        if len(entry) != parts:
            raise StructureError(f"{name}: line {number} has {len(entry)} parts, not {parts}")
    return entries


def _number(text: str, name: str, line: int) -> int:
    """A number as Java's `Long.parseLong` takes it, ASCII digits only."""
    number = int(text) if _NUMBER.match(text) else MAX_OFFSET + 1
    if not -MAX_OFFSET - 1 <= number <= MAX_OFFSET:
        raise StructureError(f"{name}: line {line}: {text[:40]!r} is not a number of 64 bits")
    return number


def read_offset_checkpoint(text: str, name: str) -> dict[tuple[str, int], int]:
    """`topic partition offset` lines: recovery point, replication (high watermark), log start, cleaner."""
    return {
        (topic, _number(partition, name, line)): _number(offset, name, line)
        for line, (topic, partition, offset) in enumerate(_entries(text, 3, name), 3)
    }


def read_leader_epochs(text: str, name: str = "leader-epoch-checkpoint") -> list[tuple[int, int]]:
    """`epoch start-offset` lines."""
    epochs = [(_number(a, name, line), _number(b, name, line)) for line, (a, b) in enumerate(_entries(text, 2, name), 3)]
    for line, (epoch, offset) in enumerate(epochs, 3):
        if epoch < 0 or offset < 0:
            raise StructureError(f"{name}: line {line}: negative epoch or offset")
    return epochs


def read_partition_metadata(text: str, name: str = "partition.metadata") -> dict[str, str]:
    """`version: 0` and `topic_id: …`."""
    values = {}
    for number, line in enumerate(text.splitlines(), 1):
        key, colon, value = line.partition(":")
        if not colon:
            raise StructureError(f"{name}: line {number} is not a key and a value")
        values[key.strip()] = value.strip()
    if not values.get("version", "").isdigit() or not values.get("topic_id"):
        raise StructureError(f"{name}: version or topic_id is missing")
    return values

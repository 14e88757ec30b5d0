"""The small text files of a log directory (Kafka: OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile).

A checkpoint: a line with the version, 0; a line with the number of entries; an entry a line. A file of 0 bytes has no
entries. Whatever else is wrong raises StructureError with the line's number: a broker would not believe it either.
"""

from __future__ import annotations

from ..errors import StructureError


def _entries(text: str, parts: int, name: str) -> list[list[str]]:
    if not text.strip("\0\n\r\t "):
        return []
    lines = text.splitlines()
    if lines[0].strip() != "0":
        raise StructureError(f"{name}: version {lines[0][:40]!r} is not 0")
    if len(lines) < 2 or not lines[1].strip().isdigit():
        raise StructureError(f"{name}: line 2 is not the number of entries")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != int(lines[1]):
        raise StructureError(f"{name}: {len(entries)} entries where line 2 says {int(lines[1])}")
    for number, entry in enumerate(entries, 3):
        if len(entry) != parts:
            raise StructureError(f"{name}: line {number} has {len(entry)} parts, not {parts}")
    return entries


def _number(text: str, name: str, line: int) -> int:
    try:
        return int(text)
    except ValueError:
        raise StructureError(f"{name}: line {line}: {text[:40]!r} is not a number") from None


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

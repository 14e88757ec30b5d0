"""Write metadata logs and snapshots from metadata records, for tests.

log = MetadataLog(tmp_path)
log.append(record("TopicRecord", name="orders", topic_id=uuid(1)))
log.snapshot(end_offset=1, records=[...])
state = kafkafmt.metadata(tmp_path)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from building import CONTROL, batch
from building import record as build_record

from kafkafmt._backend import core
from kafkafmt.internal_topics import decode
from kafkafmt.messages import layout_of

START = 1_700_000_000_000
"""Timestamp of offset 0, in milliseconds. Each record is one second later than the previous one."""
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(2, 7)
NUMBERS = {name: heading.number for name, (heading, _) in decode._classes("cluster_metadata").items()}


def uuid(number: int) -> UUID:
    """Return a UUID that is not reserved by Kafka."""
    return UUID(int=(1 << 100) + number)


def message_class(name: str) -> Any:
    """Return the class of a metadata record."""
    return decode._classes("cluster_metadata")[name][1]


def record(kind: str, /, **fields: Any) -> bytes:
    """Return a metadata record in its newest version. Dicts become nested structures."""
    made = message_class(kind)
    return framed(kind, made(**{key: _nested(made, key, value) for key, value in fields.items()}), made.VERSIONS.last)


def _nested(made: Any, field: str, value: Any) -> Any:
    (schema,) = [f for f in made.SCHEMA.fields if f.name == field]
    if schema.struct is None:
        return value
    return [made.STRUCTS[schema.type](**item) for item in value]


def framed(name: str, message: Any, version: int) -> bytes:
    """Return a message with the frame of a metadata record: frame version, type and version as varints."""
    number = NUMBERS[name]
    assert number is not None
    head = b"".join(unsigned_varint(n) for n in (1, number, version))
    return head + b"".join(core.write_messages([layout_of(type(message), version)], [message]))


def unsigned_varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def compact(text: str) -> bytes:
    """Return a compact string of a flexible message."""
    return unsigned_varint(len(text.encode()) + 1) + text.encode()


def control(kind: int, value: bytes) -> bytes:
    """Return a control record with offset delta 0."""
    return build_record(0, 0, struct.pack(">hh", 0, kind), value)


def leader_change(leader: int, voters: Iterable[int], version: int = 0) -> bytes:
    """Return the control record that a new leader writes. In version 1, voters have directory ids."""
    ids = list(voters)
    listed = b"".join(struct.pack(">i", v) + (uuid(v).bytes if version else b"") + b"\0" for v in ids)
    array = unsigned_varint(len(ids) + 1) + listed
    return control(LEADER_CHANGE, struct.pack(">hi", version, leader) + array + b"\x01" + b"\0")


def kraft_version(level: int) -> bytes:
    return control(KRAFT_VERSION, struct.pack(">hh", 0, level) + b"\0")


def voters(*ids: int) -> bytes:
    """Return a voters record, with one listener per voter."""
    listed = b"".join(
        struct.pack(">i", v)
        + uuid(v).bytes
        + unsigned_varint(2)
        + compact("CONTROLLER")
        + compact(f"host-{v}")
        + struct.pack(">H", 9093)
        + b"\0"
        + struct.pack(">hh", 0, 1)
        + b"\0\0"
        for v in ids
    )
    return control(KRAFT_VOTERS, struct.pack(">h", 0) + unsigned_varint(len(ids) + 1) + listed + b"\0")


class MetadataLog:
    """The metadata log in the log directory `folder`. Each record becomes a batch of its own.

    Attributes
    ----------
    path : Path
        The partition directory.
    next_offset : int
        Offset of the next record.
    """

    def __init__(self, folder: Path, start: int = 0, first_timestamp: int = START) -> None:
        self.first_timestamp = first_timestamp
        self.path = folder / "__cluster_metadata-0"
        self.path.mkdir(parents=True)
        self.next_offset = start
        self.log = self.path / f"{start:020}.log"
        self.log.touch()

    def append(self, *values: bytes, epoch: int = 1) -> None:
        """Append metadata records."""
        for value in values:
            self._write(batch([build_record(0, 0, None, value)], leader_epoch=epoch, **self._place()))

    def append_control(self, *records: bytes, epoch: int = 1) -> None:
        """Append control records, as `leader_change` and the others return them."""
        for made in records:
            self._write(batch([made], flags=CONTROL, leader_epoch=epoch, **self._place()))

    def _place(self) -> dict[str, Any]:
        return {"base_offset": self.next_offset, "base_timestamp": self.first_timestamp + 1000 * self.next_offset}

    def _write(self, data: bytes) -> None:
        with self.log.open("ab") as file:
            file.write(data)
        self.next_offset += 1

    def snapshot(
        self, end_offset: int, records: Iterable[bytes] = (), controls: Iterable[bytes] = (), epoch: int = 1
    ) -> Path:
        """Write a snapshot with a header and a footer."""
        header = control(SNAPSHOT_HEADER, struct.pack(">hq", 0, START + 1000 * (end_offset - 1)) + b"\0")
        parts = [(header, CONTROL), *((c, CONTROL) for c in controls)]
        parts += [(build_record(0, 0, None, value), 0) for value in records]
        parts.append((control(SNAPSHOT_FOOTER, struct.pack(">h", 0) + b"\0"), CONTROL))
        path = self.path / f"{end_offset:020}-{epoch:010}.checkpoint"
        path.write_bytes(b"".join(batch([made], base_offset=i, flags=flags) for i, (made, flags) in enumerate(parts)))
        return path


def decoded(value: bytes) -> Any:
    """Return the message in a metadata record."""
    return decode.read_metadata_record(value)[0]

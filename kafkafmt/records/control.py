"""Control records: their types, and what their keys and values say; transaction markers, built.

A key is int16 version, int16 type. A value is that of its type's schema (Kafka: EndTxnMarker, LeaderChangeMessage,
SnapshotHeaderRecord and so on), all of which begin with an int16 version; beyond transaction markers they are of Kafka's
flexible encoding, with tagged fields at the end of each struct. Versions above those known are read as these, as in Kafka.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._backend import core
from ..constants import CONTROL_ABORT, CONTROL_COMMIT
from ..errors import KafkaFormatError, StructureError
from ..types import Buffer
from .builder import BatchBuilder
from .reader import RecordReader

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)
TYPE_NAMES = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")
UNKNOWN = "UNKNOWN"
"""The name of a type that Kafka does not know; consumers pass over such records."""
_KEY = struct.Struct(">hh")
_END_TXN = struct.Struct(">hi")


class ControlRecord(NamedTuple):
    """What a control record says.

    type, name: Kafka's number and name for it. version: the key's. value: its fields by the names that Kafka's JSON has
    (kafka-dump-log prints the same); None for an unknown type.
    """

    type: int
    name: str
    version: int
    value: dict[str, Any] | None


def decode_control_record(key: Buffer | None, value: Buffer | None) -> ControlRecord:
    """A control record's key and value, decoded. StructureError where they are not what their type asks for."""
    version, type_ = _version_and_type(key)
    if not 0 <= type_ < len(TYPE_NAMES):
        return ControlRecord(type_, UNKNOWN, version, None)
    name = TYPE_NAMES[type_]
    fields = _Fields(_bytes(value, "value"))
    try:
        decoded = _VALUES[type_](fields)
    except (KafkaFormatError, struct.error, UnicodeDecodeError) as error:
        raise StructureError(f"value of a control record of type {name} does not decode: {error}", fields.at) from None
    return ControlRecord(type_, name, version, decoded)


def marker_type(reader: RecordReader, buffer: Buffer, row: np.ndarray) -> int | None:
    """The type of a control batch's first record, None where there is none. `row`: a table of that one batch."""
    for source, columns in reader.read(buffer, row):
        (key,) = core.make_values(source, columns.key_position, columns.key_length, 1)
        return _version_and_type(key)[1]
    return None


def _version_and_type(key: Buffer | None) -> tuple[int, int]:
    raw = _bytes(key, "key")
    if len(raw) < _KEY.size:
        raise StructureError(f"key of a control record has {len(raw)} bytes, fewer than 4")
    version, type_ = _KEY.unpack_from(raw)
    if version < 0:
        raise StructureError(f"key of a control record has version {version}")
    return version, type_


def build_marker(
    type_: int,
    producer_id: int,
    producer_epoch: int,
    *,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    timestamp: int = -1,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that ends a transaction: `type_` is COMMIT or ABORT."""
    if type_ not in (CONTROL_ABORT, CONTROL_COMMIT):
        raise ValueError(f"a transaction ends with ABORT (0) or COMMIT (1), not {type_}")
    builder = BatchBuilder(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )
    builder.append(_KEY.pack(0, type_), _END_TXN.pack(0, coordinator_epoch), timestamp)
    return builder.finish()


def _bytes(data: Buffer | None, name: str) -> bytes:
    if data is None:
        raise StructureError(f"{name} of a control record is null")
    raw: Any = data
    return bytes(raw)


class _Fields:
    """A value's fields, read one after the other; every read knows the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            raise StructureError(f"{n} bytes are needed, {len(self.data) - self.at} are left", self.at)
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form: str) -> int:
        number: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return number

    def uvarint(self) -> int:
        number: int
        number, self.at = core.read_unsigned_varint(self.data, self.at)
        return number

    def length(self) -> int:
        """That of a compact string or array, which is not more than the bytes that are left."""
        n = self.uvarint() - 1
        if not 0 <= n <= len(self.data) - self.at:
            raise StructureError(f"a length of {n} where {len(self.data) - self.at} bytes are left", self.at)
        return n

    def string(self) -> str:
        return self.take(self.length()).decode()

    def uuid(self) -> str:
        return base64.urlsafe_b64encode(self.take(16)).rstrip(b"=").decode()

    def array(self, element: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
        return [self.struct(element) for _ in range(self.length())]

    def struct(self, fields: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A struct and its tagged fields, of which none is known."""
        decoded = fields()
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())
        return decoded


def _end_txn(fields: _Fields) -> dict[str, Any]:
    return {"version": fields.number(">h"), "coordinatorEpoch": fields.number(">i")}


def _leader_change(fields: _Fields) -> dict[str, Any]:
    def voter() -> dict[str, Any]:
        return {"voterId": fields.number(">i")}

    def body() -> dict[str, Any]:
        return {
            "version": fields.number(">h"),
            "leaderId": fields.number(">i"),
            "voters": fields.array(voter),
            "grantingVoters": fields.array(voter),
        }

    return fields.struct(body)


def _snapshot_header(fields: _Fields) -> dict[str, Any]:
    return fields.struct(lambda: {"version": fields.number(">h"), "lastContainedLogTimestamp": fields.number(">q")})


def _snapshot_footer(fields: _Fields) -> dict[str, Any]:
    return fields.struct(lambda: {"version": fields.number(">h")})


def _kraft_version(fields: _Fields) -> dict[str, Any]:
    return fields.struct(lambda: {"version": fields.number(">h"), "kRaftVersion": fields.number(">h")})


def _kraft_voters(fields: _Fields) -> dict[str, Any]:
    def endpoint() -> dict[str, Any]:
        return {"name": fields.string(), "host": fields.string(), "port": fields.number(">H")}

    def feature() -> dict[str, Any]:
        return {"minSupportedVersion": fields.number(">h"), "maxSupportedVersion": fields.number(">h")}

    def voter() -> dict[str, Any]:
        return {
            "voterId": fields.number(">i"),
            "voterDirectoryId": fields.uuid(),
            "endpoints": fields.array(endpoint),
            "kRaftVersionFeature": fields.struct(feature),
        }

    return fields.struct(lambda: {"version": fields.number(">h"), "voters": fields.array(voter)})


_VALUES: tuple[Callable[[_Fields], dict[str, Any]], ...] = (
    _end_txn,
    _end_txn,
    _leader_change,
    _snapshot_header,
    _snapshot_footer,
    _kraft_version,
    _kraft_voters,
)

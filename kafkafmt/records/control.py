"""Control records: their types, and what their keys and values say; transaction markers, built.

A key is int16 version, int16 type. A value is that of its type's schema, all of which begin with an int16 version. Versions
above those known are read as these, as in Kafka.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .._backend import core
from ..arguments import fitting
from ..constants import CONTROL_ABORT, CONTROL_COMMIT
from ..errors import KafkaFormatError, StructureError
from ..messages import SchemaMessage, layout_of, make_class, to_json
from ..messages.schema import parse_messages
from ..types import Buffer, view_of
from .builder import BatchBuilder
from .reader import RecordReader

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)
TYPE_NAMES = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")
UNKNOWN = "UNKNOWN"
"""The name of a type that Kafka does not know; consumers pass over such records."""
SCHEMAS = """
EndTxnMarker, version 0
    Version           int16  0+
    CoordinatorEpoch  int32  0+

LeaderChangeMessage, version 0, flexible 0+
    Version         int16    0+
    LeaderId        int32    0+
    Voters          []Voter  0+
        VoterId     int32    0+
    GrantingVoters  []Voter  0+

SnapshotHeaderRecord, version 0, flexible 0+
    Version                    int16  0+
    LastContainedLogTimestamp  int64  0+

SnapshotFooterRecord, version 0, flexible 0+
    Version  int16  0+

KRaftVersionRecord, version 0, flexible 0+
    Version       int16  0+
    KRaftVersion  int16  0+

VotersRecord, version 0, flexible 0+
    Version                      int16                0+
    Voters                       []Voter              0+
        VoterId                  int32                0+
        VoterDirectoryId         uuid                 0+
        Endpoints                []Endpoint           0+
            Name                 string               0+
            Host                 string               0+
            Port                 uint16               0+
        KRaftVersionFeature      KRaftVersionFeature  0+
            MinSupportedVersion  int16                0+
            MaxSupportedVersion  int16                0+
"""
_VALUES = ("EndTxnMarker", "EndTxnMarker", "LeaderChangeMessage", "SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord",
           "VotersRecord")  # fmt: skip
"""What the value of each type is."""
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
    try:
        decoded, _ = layout_of(_classes()[_VALUES[type_]], 0).read(_bytes(value, "value"))
    except KafkaFormatError as error:
        raise StructureError(
            f"value of a control record of type {name} does not decode: {error.message}", error.position
        ) from None
    return ControlRecord(type_, name, version, to_json(decoded, 0))


@cache
def _classes() -> dict[str, type[SchemaMessage]]:
    return {
        h.name: make_class(struct, h.versions, h.flexible, SchemaMessage, __name__)
        for h, struct in parse_messages(SCHEMAS)
    }


def marker_type(reader: RecordReader, buffer: Buffer, row: np.ndarray) -> int | None:
    """The type of a control batch's first record, None where there is none. `row`: a table of that one batch."""
    for source, columns in reader.read(buffer, row):
        assert columns.key_position is not None
        assert columns.key_length is not None
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
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    timestamp: int = -1,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that ends a producer's transaction: it is committed, or else aborted."""
    builder = BatchBuilder(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )
    value = _END_TXN.pack(0, fitting("coordinator_epoch", coordinator_epoch, 32))
    builder.append(_KEY.pack(0, CONTROL_COMMIT if commit else CONTROL_ABORT), value, timestamp)
    return builder.finish()


def _bytes(data: Buffer | None, name: str) -> bytes:
    if data is None:
        raise StructureError(f"{name} of a control record is null")
    return bytes(view_of(data))

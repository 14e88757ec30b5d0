"""Decode control records, and build transaction markers.

The key of a control record consists of an int16 version and an int16 type. The type determines the
schema of the value, which always starts with an int16 version. Data with a newer version than the
highest known version is parsed as the highest known version, as in Kafka.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .._backend import core
from ..constants import CONTROL_ABORT, CONTROL_COMMIT, CRC_START
from ..errors import KafkaFormatError, StructureError
from ..messages import SchemaMessage, layout_of, make_class, to_json
from ..messages.schema import parse_messages
from ..support.arguments import fitting
from ..support.text import quantity
from ..types import BatchTable, Buffer, IntArray, view_of
from .builder import BatchBuilder
from .reader import RecordReader

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)
TYPE_NAMES = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")
UNKNOWN = "UNKNOWN"
"""Name for control record types that Kafka does not define. Consumers skip such records."""
SCHEMAS = """
EndTxnMarker, version 0
    Version           int16  0+
    CoordinatorEpoch  int32  0+

LeaderChangeMessage, versions 0-1, flexible 0+
    Version               int16    0+
    LeaderId              int32    0+
    Voters                []Voter  0+
        VoterId           int32    0+
        VoterDirectoryId  uuid     1+
    GrantingVoters        []Voter  0+

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
"""Names of the schemas of control record values, indexed by the number of the control record type."""
_KEY = struct.Struct(">hh")
_END_TXN = struct.Struct(">hi")


class ControlRecord(NamedTuple):
    """A decoded control record."""

    type: int
    """Number of the control record type."""
    name: str
    """Kafka's name of the type, such as "COMMIT"; "UNKNOWN" if Kafka does not define the type."""
    version: int
    """Version number in the key of the record."""
    value: dict[str, Any] | None
    """Fields of the value, with the names that kafka-dump-log uses in its JSON output.

    If the control record type is unknown, the attribute is None.
    """


def decode_control_record(key: Buffer | None, value: Buffer | None) -> ControlRecord:
    """Decode the key and value of a control record.

    Parameters
    ----------
    key, value : bytes-like or None
        Key and value of the record.

    Returns
    -------
    ControlRecord
        The type of the record, and its fields.

    Raises
    ------
    StructureError
        The key or value is null, too short, or does not match the schema of its type.

    Notes
    -----
    Kafka's counterparts are ``ControlRecordType`` and ``ControlRecordUtils``. An unknown type is
    not an error, because consumers skip such records.

    Examples
    --------
    >>> marker = kafkafmt.records.build_marker(5, 0, commit=True)
    >>> (record,) = kafkafmt.read_records(marker, control=True)
    >>> kafkafmt.records.decode_control_record(record.key, record.value).name
    'COMMIT'
    """
    version, type_ = _version_and_type(key)
    if not 0 <= type_ < len(TYPE_NAMES):
        return ControlRecord(type_, UNKNOWN, version, None)
    name = TYPE_NAMES[type_]
    made, raw = _classes()[_VALUES[type_]], _bytes(value, "value")
    value_version = min(max(int.from_bytes(raw[:2], "big", signed=True), 0), made.VERSIONS.last)
    try:
        decoded, _ = layout_of(made, value_version).read(raw)
    except KafkaFormatError as error:
        raise StructureError(
            f"the value of a control record of type {name} cannot be decoded: {error.message}", error.position
        ) from None
    return ControlRecord(type_, name, version, to_json(decoded, value_version))


@cache
def _classes() -> dict[str, type[SchemaMessage]]:
    return {
        h.name: make_class(struct, h.versions, h.flexible, SchemaMessage, __name__)
        for h, struct in parse_messages(SCHEMAS)
    }


def marker_type(reader: RecordReader, buffer: Buffer, row: BatchTable) -> int | None:
    """Return the type of the control batch in the one-row table `row`, or None if it has no record."""
    for source, columns in reader.read(buffer, row):
        assert columns.key_position is not None
        assert columns.key_length is not None
        (key,) = core.make_values(source, columns.key_position, columns.key_length, 1)
        return _version_and_type(key)[1]
    return None


def _version_and_type(key: Buffer | None) -> tuple[int, int]:
    raw = _bytes(key, "key")
    if len(raw) < _KEY.size:
        raise StructureError(f"the key of a control record has {quantity(len(raw), 'byte')}, fewer than 4")
    version, type_ = _KEY.unpack_from(raw)
    if version < 0:
        raise StructureError(f"the key of a control record has version {version}, which is negative")
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
    """Build the control batch that ends a producer's transaction.

    Parameters
    ----------
    producer_id, producer_epoch : int
        Producer id and producer epoch of the transaction.
    commit : bool
        True builds a commit marker, False an abort marker.
    coordinator_epoch : int, default 0
        Epoch of the transaction coordinator.
    base_offset : int, default 0
        Offset of the marker.
    timestamp : int, default -1
        Timestamp of the marker in ms since 1970-01-01 UTC; -1 means none.
    leader_epoch : int, default -1
        Partition leader epoch of the batch.

    Returns
    -------
    bytes
        The batch, with one control record.

    Raises
    ------
    InvalidError
        `producer_id`, `producer_epoch` or `timestamp` is negative.
    TypeError, OverflowError
        An argument is not an integer, or does not fit into its field.

    Notes
    -----
    Kafka's counterparts are ``EndTransactionMarker`` and
    ``MemoryRecords.withEndTransactionMarker``.
    """
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


_MARKERS = np.dtype(
    [
        ("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"), ("attributes", ">i2"),
        ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"), ("max_timestamp", ">i8"), ("producer_id", ">i8"),
        ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("count", ">i4"), ("record", "V5"), ("version", ">i2"), ("kind", ">i2"),
        ("rest", "V8"),
    ]
)  # fmt: skip
"""The bytes of a transaction marker with the coordinator epoch 0."""


def build_markers(
    producer_id: IntArray,
    producer_epoch: IntArray,
    commit: IntArray,
    base_offset: IntArray,
    timestamp: IntArray,
    leader_epoch: IntArray,
) -> list[bytes]:
    """Build many transaction markers like `build_marker`. The fields must be valid."""
    # For each marker, each array contains an item with the value of the parameter of
    # `build_marker`.
    if not len(producer_id):
        return []
    made = np.repeat(np.frombuffer(build_marker(0, 0, commit=False, timestamp=0), _MARKERS), len(producer_id))
    made["producer_id"], made["producer_epoch"], made["kind"] = producer_id, producer_epoch, commit
    made["base_offset"], made["leader_epoch"] = base_offset, leader_epoch
    made["base_timestamp"] = made["max_timestamp"] = timestamp
    data, size = made.tobytes(), _MARKERS.itemsize
    made["crc"] = [core.crc32c(data, 0, at + CRC_START, at + size) for at in range(0, len(data), size)]
    data = made.tobytes()
    return [data[at : at + size] for at in range(0, len(data), size)]


def _bytes(data: Buffer | None, name: str) -> bytes:
    if data is None:
        raise StructureError(f"the {name} of a control record is null")
    return bytes(view_of(data))

"""Decode records of Kafka's internal topics with the schemas in `schemas/`.

- A record of a coordinator has a key and a value. The key starts with the record type as an int16.
  The value starts with a version as an int16. A record without a value is a tombstone.
- A metadata record (`__cluster_metadata` and `__remote_log_metadata`) has no key. Its value starts with
  the frame version (1), the record type and the version, each as an unsigned varint.

The text output has the format of ``kafka-dump-log`` of Kafka 4.4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from .._backend import core
from ..errors import KafkaFormatError, StructureError, TruncatedError, UnsupportedError
from ..messages import SchemaMessage, layout_of, make_class, to_json
from ..messages.as_json import uuid_text
from ..messages.schema import Heading, parse_messages
from ..support.text import quantity

TOPICS = {
    "__consumer_offsets": "consumer_offsets",
    "__transaction_state": "transaction_state",
    "__share_group_state": "share_group_state",
}
"""Topics to which coordinators write, and the names of the schema files for their records (without suffix)."""
FRAME_VERSION = 1
TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""Names of transaction states, by the value of the field ``TransactionStatus``."""
SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
"""Names of the states of segments and partitions in remote storage, by their values."""
_CONTROL_CHARACTER = re.compile(r"\\u00[01][0-9a-f]")


class CoordinatorRecord(NamedTuple):
    """A decoded record of a topic to which a coordinator writes."""

    type: int
    """Record type."""
    key: Any
    """The fields of the key, a `SchemaMessage`."""
    version: int
    """Version of the value; -1 for a tombstone."""
    value: Any
    """The fields of the value, a `SchemaMessage`; None for a tombstone."""


class UnknownTypeError(UnsupportedError):
    """Raised if a record has a type that the schemas do not define."""

    def __init__(self, type_id: int) -> None:
        super().__init__(f"record type {type_id} is unknown")
        self.type = type_id


@cache
def _classes(file: str) -> dict[str, tuple[Heading, type[SchemaMessage]]]:
    text = files(__package__).joinpath("schemas", f"{file}.txt").read_text(encoding="utf-8")
    parsed = parse_messages(text)
    return {h.name: (h, make_class(struct, h.versions, h.flexible, SchemaMessage, __package__)) for h, struct in parsed}


@cache
def _pairs(topic: str) -> dict[int | None, tuple[type[SchemaMessage], type[SchemaMessage]]]:
    """Return the classes of the key and the value for each record type of a topic."""
    known = _classes(TOPICS[topic])
    keys = [(heading.number, name, made) for name, (heading, made) in known.items() if name.endswith("Key")]
    return {number: (made, known[name.removesuffix("Key") + "Value"][1]) for number, name, made in keys}


@cache
def _metadata(file: str = "cluster_metadata") -> dict[int | None, type[SchemaMessage]]:
    return {heading.number: made for heading, made in _classes(file).values()}


def _int16(data: bytes) -> int:
    if len(data) < 2:
        raise TruncatedError(f"an int16 needs 2 bytes, but only {len(data)} remain", 0)
    return int.from_bytes(data[:2], "big", signed=True)


def read_coordinator_record(topic: str, key: bytes, value: bytes | None) -> CoordinatorRecord:
    """Decode a record of `__consumer_offsets`, `__transaction_state` or `__share_group_state`."""
    # `value` is None for a tombstone. UnknownTypeError: the schemas do not define the record type.
    type_id = _int16(key)
    if type_id not in _pairs(topic):
        raise UnknownTypeError(type_id)
    key_class, value_class = _pairs(topic)[type_id]
    read_key, _ = layout_of(key_class, 0).read(key, 2)
    if value is None:
        return CoordinatorRecord(type_id, read_key, -1, None)
    version = _int16(value)
    read_value, _ = layout_of(value_class, version).read(value, 2)
    return CoordinatorRecord(type_id, read_key, version, read_value)


def read_metadata_record(value: bytes, topic: str = "cluster_metadata") -> tuple[SchemaMessage, int]:
    """Decode a value of `__cluster_metadata` or `__remote_log_metadata`. Return the record and its version."""
    # `topic` has no underscores at its start. UnknownTypeError: the schemas do not define the
    # record type.
    numbers, at = [], 0
    for _ in range(3):
        number, at = core.read_unsigned_varint(value, at)
        numbers.append(number)
    frame, type_id, version = numbers
    if frame != FRAME_VERSION:
        raise UnsupportedError(f"frame version {frame} is not supported; the only supported version is {FRAME_VERSION}")
    known = _metadata(topic)
    if type_id not in known:
        raise UnknownTypeError(type_id)
    message, end = layout_of(known[type_id], version).read(value, at)
    if end != len(value):
        left = len(value) - end
        raise StructureError(f"the value has {quantity(left, 'byte')} after the fields", end)
    return message, version


def read_member(data: bytes, what: str) -> tuple[SchemaMessage, int] | None:
    """Decode a group member's "Subscription" or "Assignment". Return it and the version used, or None."""
    # As in Kafka's clients, an unknown version is decoded as the highest known one.
    made = _classes("consumer_protocol")[f"ConsumerProtocol{what}"][1]
    try:
        version = min(_int16(data), made.VERSIONS.last)
        return layout_of(made, version).read(data, 2)[0], version
    except KafkaFormatError:
        return None


def coordinator_texts(topic: str, offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    """Format the key and the value of a coordinator record as ``kafka-dump-log`` prints them."""
    if key is None:
        return f"Error at offset {offset}, skipping. The key is missing", None
    try:
        record = read_coordinator_record(topic, key, value)
    except UnknownTypeError as error:
        return f"Unknown record type {error.type} at offset {offset}, skipping.", None
    except KafkaFormatError as error:
        return f"Error at offset {offset}, skipping. {error.message}", None
    shown = json_text({"type": str(record.type), "data": to_json(record.key, 0)})
    if record.value is None:
        return shown, "<DELETE>"
    return shown, json_text({"version": str(record.version), "data": _value_json(record)})


def _value_json(record: CoordinatorRecord) -> dict[str, Any]:
    """Convert the value of a coordinator record to JSON types."""
    # If possible, subscriptions and assignments of group members are also decoded. The state of a
    # transaction is converted to its name.
    data = to_json(record.value, record.version)
    if (status := data.get("transactionStatus")) is not None and 0 <= status < len(TRANSACTION_STATES):
        data["transactionStatus"] = TRANSACTION_STATES[status]
    if getattr(record.value, "protocol_type", None) == "consumer":
        for shown, member in zip(data["members"], record.value.members, strict=True):
            for name, raw in (("subscription", member.subscription), ("assignment", member.assignment)):
                if found := read_member(raw, name.title()):
                    shown[name] = to_json(*found)
    return data


def metadata_text(offset: int, value: bytes | None) -> str:
    """Format the value of a metadata record as ``kafka-dump-log`` prints it."""
    try:
        message, version = read_metadata_record(value or b"")
    except KafkaFormatError as error:
        return f"Error at {offset}, skipping. {error.message}"
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(message).__name__).upper()
    data = to_json(message, version)
    if not isinstance(data.get("value"), float):
        return json_text({"type": name, "version": version, "data": data})
    # Python and Java format floats differently. Only the field `value` of quota records is a float.
    number = java_double(data["value"])
    data["value"] = None
    return json_text({"type": name, "version": version, "data": data}).replace('"value":null', f'"value":{number}', 1)


def remote_log_text(offset: int, value: bytes | None) -> str:
    """Format the value of a record of `__remote_log_metadata` as ``kafka-dump-log`` prints it."""
    try:
        message, _ = read_metadata_record(value or b"", "remote_log_metadata")
    except KafkaFormatError as error:
        return f"Error at offset {offset}, skipping. {error.message}"
    return f"{type(message).__name__}{{{', '.join(f'{name}={text}' for name, text in _remote_fields(message))}}}"


def _remote_fields(m: Any) -> Iterator[tuple[str, object]]:
    """Yield the fields that ``toString`` of Kafka's class prints, and their texts."""
    kind = type(m).__name__
    if kind == "RemotePartitionDeleteMetadata":
        yield "topicPartition", _partition_text(m.topic_id_partition)
        yield "state", _named(PARTITION_STATES, m.remote_partition_delete_state)
    elif kind == "RemoteLogSegmentMetadataSnapshot":
        yield "segmentId", uuid_text(m.segment_id)
    else:
        segment = m.remote_log_segment_id
        partition, segment_id = _partition_text(segment.topic_id_partition), uuid_text(segment.id)
        yield "remoteLogSegmentId", f"RemoteLogSegmentId{{topicIdPartition={partition}, id={segment_id}}}"
    if hasattr(m, "start_offset"):
        yield "startOffset", m.start_offset
        yield "endOffset", m.end_offset
        if kind == "RemoteLogSegmentMetadata":
            yield "brokerId", m.broker_id
        yield "maxTimestampMs", m.max_timestamp_ms
        if kind == "RemoteLogSegmentMetadata":
            yield "eventTimestampMs", m.event_timestamp_ms
        epochs = sorted({e.leader_epoch: e.offset for e in m.segment_leader_epochs}.items())
        yield "segmentLeaderEpochs", f"{{{', '.join(f'{epoch}={start}' for epoch, start in epochs)}}}"
        yield "segmentSizeInBytes", m.segment_size_in_bytes
    if hasattr(m, "custom_metadata"):
        custom = m.custom_metadata
        text = "Optional.empty" if custom is None else f"Optional[CustomMetadata{{{len(custom)} bytes}}]"
        yield "customMetadata", text
        yield "state", _named(SEGMENT_STATES, m.remote_log_segment_state)
    if hasattr(m, "txn_index_empty"):
        yield "txnIdxEmpty", str(m.txn_index_empty).lower()
    else:
        yield "eventTimestampMs", m.event_timestamp_ms
        yield "brokerId", m.broker_id


def _partition_text(partition: Any) -> str:
    return f"{uuid_text(partition.id)}:{partition.name}-{partition.partition}"


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)


def java_double(value: float) -> str:
    """Format a finite float as Java's ``Double.toString`` does, such as ``1.0E7``."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    power = len(digits) + exponent - 1  # decimal exponent of the first digit
    minus = "-" if sign else ""
    if not text:
        return f"{minus}0.0"
    if 0 <= power < 7:
        return f"{minus}{text[: power + 1]:0<{power + 1}}.{text[power + 1 :] or '0'}"
    if -3 <= power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{power}"


def json_text(value: Any) -> str:
    """Serialize a value as JSON. As in Jackson, control characters are escaped with uppercase hex digits."""
    return _CONTROL_CHARACTER.sub(lambda m: "\\u" + m[0][2:].upper(), _ENCODER.encode(value))


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

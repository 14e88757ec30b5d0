"""Records of Kafka's internal topics, decoded.

A coordinator's record has an int16 record type and the key's fields as key, an int16 version and the value's fields as
value; no value is a tombstone. A metadata record has no key; its value is a frame version (1), record type and version,
each an unsigned varint, and the fields. The JSON is that of Kafka's kafka-dump-log.
"""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import Any, NamedTuple

from ..errors import KafkaFormatError, StructureError, UnsupportedError
from . import metadata, offsets, states
from .schema import Message, Source, parse

TOPICS = {
    "__consumer_offsets": offsets.SCHEMAS,
    "__transaction_state": states.TRANSACTION_SCHEMAS,
    "__share_group_state": states.SHARE_SCHEMAS,
}
METADATA_TOPIC = "__cluster_metadata"
FRAME_VERSION = 1
CONTROL_ESCAPE = re.compile(r"\\u00[01][0-9a-f]")


class CoordinatorRecord(NamedTuple):
    """A key and what it stands for; value is None for a tombstone."""

    type: int
    key: dict[str, Any]
    version: int
    value: dict[str, Any] | None


class UnknownTypeError(UnsupportedError):
    """A record type that no schema here describes."""

    def __init__(self, type_id: int) -> None:
        super().__init__(f"unknown record type {type_id}")
        self.type = type_id


@cache
def _pairs(topic: str) -> dict[int, tuple[Message, Message]]:
    messages = parse(TOPICS[topic])
    keys = [m for name, m in messages.items() if name.endswith("Key")]
    return {m.id: (m, messages[m.name.removesuffix("Key") + "Value"]) for m in keys}


def read_coordinator_record(topic: str, key: bytes, value: bytes | None) -> CoordinatorRecord:
    """A record of `__consumer_offsets`, `__transaction_state` or `__share_group_state`."""
    source = Source(key)
    type_id = source.number("int16")
    if type_id not in _pairs(topic):
        raise UnknownTypeError(type_id)
    key_message, value_message = _pairs(topic)[type_id]
    fields = key_message.read(source, 0)
    if value is None:
        return CoordinatorRecord(type_id, fields, -1, None)
    source = Source(value)
    version = source.number("int16")
    return CoordinatorRecord(type_id, fields, version, value_message.read(source, version))


def read_metadata_record(value: bytes) -> tuple[str, int, dict[str, Any]]:
    """Name, version and fields of a record of `__cluster_metadata`."""
    source = Source(value)
    frame, type_id, version = source.uvarint(), source.uvarint(), source.uvarint()
    if frame != FRAME_VERSION:
        raise UnsupportedError(f"frame version {frame} is not {FRAME_VERSION}")
    message = next((m for m in parse(metadata.SCHEMAS).values() if m.id == type_id), None)
    if message is None:
        raise UnknownTypeError(type_id)
    fields = message.read(source, version)
    if source.at != source.end:
        raise StructureError(f"{source.end - source.at} bytes are left over behind the fields", source.at)
    return message.name, version, fields


def read_members(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The members of a GroupMetadataValue; of a consumer group with subscription and assignment read, where they can be."""
    members: list[dict[str, Any]] = value["members"]
    if value["protocolType"] != "consumer":
        return members
    messages = parse(offsets.MEMBER_SCHEMAS)
    kinds = {"subscription": messages["ConsumerProtocolSubscription"], "assignment": messages["ConsumerProtocolAssignment"]}
    return [{name: _embedded(kinds[name], v) if name in kinds else v for name, v in m.items()} for m in members]


def _embedded(message: Message, data: bytes) -> Any:
    """What stands behind an int16 version; a version that is not known yet is read as the last that is, as Kafka's clients do."""
    try:
        source = Source(data)
        return message.read(source, min(source.number("int16"), message.last))
    except KafkaFormatError:
        return data


def coordinator_texts(topic: str, offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    """Key and value as kafka-dump-log's decoders print them."""
    if key is None:
        return f"Error at offset {offset}, skipping. The key is missing", None
    try:
        record = read_coordinator_record(topic, key, value)
    except UnknownTypeError as error:
        return f"Unknown record type {error.type} at offset {offset}, skipping.", None
    except KafkaFormatError as error:
        return f"Error at offset {offset}, skipping. {error.message}", None
    shown = to_json({"type": str(record.type), "data": record.key})
    if record.value is None:
        return shown, "<DELETE>"
    data = record.value
    if "members" in data:
        data = data | {"members": read_members(data)}
    return shown, to_json({"version": str(record.version), "data": data})


def metadata_text(offset: int, value: bytes | None) -> str:
    """The same of a metadata record's value."""
    try:
        name, version, fields = read_metadata_record(value or b"")
    except KafkaFormatError as error:
        return f"Error at {offset}, skipping. {error.message}"
    return to_json({"type": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper(), "version": version, "data": fields})


def to_json(value: Any) -> str:
    """JSON as Jackson writes it: bytes in base64, control characters with capital hex digits."""
    return CONTROL_ESCAPE.sub(lambda m: "\\u" + m[0][2:].upper(), _ENCODER.encode(value))


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=lambda data: base64.b64encode(data).decode())

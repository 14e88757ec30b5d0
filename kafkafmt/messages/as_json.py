"""Convert messages to JSON types, as Kafka's generated ``…JsonConverter`` classes do.

- Fields are in schema order and have Kafka's names.
- Fields that the version does not have are omitted. Tagged fields with their default value and
  unknown tagged fields are also omitted.
- Bytes are encoded in base64. UUIDs are encoded in URL-safe base64 without padding.
- Record data is replaced with its size in bytes, under the name ``…SizeInBytes``.
"""

from __future__ import annotations

import base64
import math
from typing import Any
from uuid import UUID

from ..types import byte_view
from .classes import RecordBytes, SchemaMessage
from .schema import Field


def to_json(message: SchemaMessage, version: int) -> dict[str, Any]:
    """Convert the fields of a message to JSON types, by Kafka's names. Floats that are not finite become strings."""
    converted: dict[str, Any] = {}
    for f in message.SCHEMA.fields:
        if version not in f.versions:
            continue
        value = getattr(message, f.name)
        if f.tag is not None and value == message.default(f.name):
            continue
        if f.type == "records" and value is not None:
            converted[f"{f.json_name}SizeInBytes"] = size_of_records(value)
        elif f.array and value is not None:
            converted[f.json_name] = [_value(f, element, version) for element in value]
        else:
            converted[f.json_name] = _value(f, value, version)
    return converted


def uuid_text(value: UUID) -> str:
    """Format a UUID as URL-safe base64 without padding, as Kafka's ``Uuid.toString`` does."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def size_of_records(value: RecordBytes) -> int:
    """Return the size of record data in bytes. Record data is a buffer or a list of buffers."""
    return sum(byte_view(part).nbytes for part in (value if isinstance(value, list | tuple) else [value]))


def _value(f: Field, value: Any, version: int) -> Any:
    """Convert the value of a field, or one element of an array field, to a JSON type."""
    if isinstance(value, SchemaMessage):
        return to_json(value, version)
    if isinstance(value, UUID):
        return uuid_text(value)
    if f.type == "bytes" and value is not None:
        return base64.b64encode(value).decode()
    if f.type == "float64" and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

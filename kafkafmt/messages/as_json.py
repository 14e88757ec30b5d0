"""Messages as JSON, just as Kafka's own `…JsonConverter` classes write them.

Fields in the order of the schema under Kafka's names; those that the version does not have, and tagged ones at their
default, are left out; bytes are base64, ids the same without padding and safe for URLs; of record data only the size
appears, as `…SizeInBytes`. Tagged fields that the schema does not know do not appear.
"""

from __future__ import annotations

import base64
import math
from typing import Any
from uuid import UUID

from .classes import Message
from .schema import Field


def to_json(message: Message, version: int) -> dict[str, Any]:
    """A message in a version as plain dictionaries, lists and values."""
    found: dict[str, Any] = {}
    for f in message.SCHEMA.fields:
        if version not in f.versions:
            continue
        value = getattr(message, f.name)
        if f.tag is not None and value == message.default(f.name):
            continue
        if f.type == "records" and value is not None:
            found[f"{f.json_name}SizeInBytes"] = size_of_records(value)
        elif f.array and value is not None:
            found[f.json_name] = [_value(f, element, version) for element in value]
        else:
            found[f.json_name] = _value(f, value, version)
    return found


def uuid_text(value: UUID) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def size_of_records(value: Any) -> int:
    return sum(memoryview(part).nbytes for part in (value if isinstance(value, list | tuple) else [value]))


def _value(f: Field, value: Any, version: int) -> Any:
    if isinstance(value, Message):
        return to_json(value, version)
    if isinstance(value, UUID):
        return uuid_text(value)
    if f.type == "bytes" and value is not None:
        return base64.b64encode(value).decode()
    if f.type == "float64" and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

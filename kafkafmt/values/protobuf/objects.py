"""Decode single Protobuf values into Python objects for JSON, by the schema of the writer.

This is the readable specification of the format. `cat --decode` and the columns with JSON text use it.
Bytes are base64 text, and timestamps are ISO 8601. Fields have their names in the schema.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from ..errors import ValueFault
from ..texts import clock_text, day_text, duration_text, json_float
from .descriptors import END_GROUP, FIXED32, FIXED64, GROUP, LENGTH, VARINT, Message, ProtoField
from .schema import ANY, DURATION, FIELD_MASK, LIST_VALUE, STRUCT, TIMESTAMP, VALUE, WRAPPERS

DEEPEST = 64
UNKNOWN_VALUE = -1
"""Member of an entry of a map whose value a closed enum does not know."""
SMALLEST_SECONDS, LARGEST_SECONDS = -9223372036854, 9223372036853
"""Range of the seconds that fit into microseconds of 64 bits."""
_FIXED = {
    "fixed32": "<I", "sfixed32": "<i", "float": "<f", "fixed64": "<Q", "sfixed64": "<q", "double": "<d",
}  # fmt: skip

Values = dict[int, Any]
"""The fields of a message by their numbers. Repeated fields are lists."""


def protobuf_to_json(message: Message, body: memoryview, start: int = 0) -> Any:
    """Return the value of a body, which begins at `start`, as an object for JSON.

    ValueFault: it is not a value of the message.
    """
    reader = _Reader(body, checked=True)
    reader.position = start
    values: Values = {}
    reader.message(message, values, len(body), 0, start, 0)
    return _object(message, values)


def message_text(field: ProtoField, content: memoryview) -> str | None:
    """Return the JSON text of an item whose content the core has checked. None: it is null.

    The contents of several messages that are merged follow each other.
    """
    reader = _Reader(content, checked=False)
    if field.message is not None:
        values: Values = {}
        while reader.position < len(content):
            reader.message(field.message, values, len(content), field.number if field.type == "group" else 0, 0, 0)
        value = _object(field.message, values)
    elif field.wire == LENGTH:
        value = _scalar(field, bytes(content))
    elif len(content):
        value = _scalar(field, reader.number(field.wire, len(content)))
    else:
        value = _default(field)
    return None if value is None else json.dumps(value, ensure_ascii=False)


def whole_text(field: ProtoField, content: memoryview) -> str:
    """Return the JSON text of a repeated field. The content consists of its occurrences, which the core has checked."""
    values: Values = {}
    _Reader(content, checked=False).message(Message("", [field]), values, len(content), 0, 0, 0)
    return json.dumps(_member(field, values), ensure_ascii=False)


class _Reader:
    """Reads the fields of messages. Later parts of a message are merged into the values of the earlier ones."""

    def __init__(self, body: memoryview, checked: bool) -> None:
        self._body = body
        self._checked = checked
        self.position = 0
        self._at = 0
        """Start of the field that is being read."""

    def message(self, message: Message, values: Values, end: int, group: int, opened: int, depth: int) -> None:
        """Read a message up to `end`, or up to the end of a group."""
        if depth > DEEPEST:
            raise self._fault("too_deep")
        fields = {field.number: field for field in message.fields}
        while self.position < end:
            start = self._at = self.position
            number, wire = self._tag(end)
            if wire == END_GROUP:
                if number != group:
                    raise self._fault("bad_index")
                return
            field = fields.get(number)
            if field is None or not (wire == field.wire or (wire == LENGTH and field.packs)):
                self._skip(number, wire, end, depth)
            elif wire == field.wire:
                self._field(message, field, values, end, start, depth)
            else:
                last = self._length(end)
                while self.position < last:
                    self._field(message, field, values, last, start, depth)
        if group:
            self._at = opened
            raise self._fault("truncated")

    def _field(self, owner: Message, field: ProtoField, values: Values, end: int, start: int, depth: int) -> None:
        value: Any
        if field.message is not None:
            inner = None if field.repeated else values.get(field.number)
            value = {} if inner is None else inner
            last = self._length(end) if field.wire == LENGTH else end
            self.message(field.message, value, last, field.number if field.wire == GROUP else 0, start, depth + 1)
            if self._checked:
                self._check_time(field.message, value, start)
        elif field.wire == LENGTH:
            last = self._length(end)
            value = bytes(self._body[self.position : last])
            self.position = last
            if field.type == "string":
                try:
                    value.decode()
                except UnicodeDecodeError:
                    raise self._fault("bad_utf8") from None
        else:
            value = self.number(field.wire, end)
            if field.enum is not None and field.enum.closed and _int32(value) not in field.enum.symbols:
                if owner.is_map_entry:
                    values[UNKNOWN_VALUE] = True
                return
        if field.oneof is not None:
            for other in owner.fields:
                if other.oneof == field.oneof and other is not field:
                    values.pop(other.number, None)
        if field.repeated:
            if not (field.is_map and UNKNOWN_VALUE in value):  # otherwise, the whole entry is an unknown field
                values.setdefault(field.number, []).append(value)
        else:
            values[field.number] = value

    def _check_time(self, message: Message, values: Values, start: int) -> None:
        if message.name not in (TIMESTAMP, DURATION):
            return
        seconds, nanos = _time(values)
        lowest = 0 if message.name == TIMESTAMP else -999_999_999
        mixed = message.name == DURATION and ((seconds > 0 > nanos) or (seconds < 0 < nanos))
        if not (SMALLEST_SECONDS <= seconds <= LARGEST_SECONDS and lowest <= nanos <= 999_999_999) or mixed:
            self._at = start
            raise self._fault("bad_number")

    def _fault(self, code: str) -> ValueFault:
        return ValueFault(code, self._at)

    def _tag(self, end: int) -> tuple[int, int]:
        tag = self._varint(end, 5, "bad_index")
        if tag >= 1 << 32 or not tag >> 3 or tag & 7 > FIXED32:
            raise self._fault("bad_index")
        return tag >> 3, tag & 7

    def _skip(self, number: int, wire: int, end: int, depth: int) -> None:
        if wire == LENGTH:
            self.position = self._length(end)
        elif wire == GROUP:
            if depth == DEEPEST:
                raise self._fault("too_deep")
            inner, kind = self._tag(end)
            while kind != END_GROUP:
                self._skip(inner, kind, end, depth + 1)
                inner, kind = self._tag(end)
            if inner != number:
                raise self._fault("bad_index")
        else:
            self.number(wire, end)

    def number(self, wire: int, end: int) -> int | bytes:
        """Read a varint, or the bytes of a fixed number."""
        if wire == VARINT:
            return self._varint(end, 10, "bad_number") & 0xFFFFFFFFFFFFFFFF
        size = 8 if wire == FIXED64 else 4
        if size > end - self.position:
            raise self._fault("truncated")
        self.position += size
        return bytes(self._body[self.position - size : self.position])

    def _varint(self, end: int, most: int, too_long: str) -> int:
        number = 0
        for i in range(most):
            if self.position >= end:
                raise self._fault("truncated")
            byte = self._body[self.position]
            self.position += 1
            number |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return number
        raise self._fault(too_long)

    def _length(self, end: int) -> int:
        """Read a length. Return the position after the bytes that follow it."""
        length = self._varint(end, 5, "bad_length")
        if length > end - self.position:
            raise self._fault("truncated")
        return self.position + length


def _time(values: Values) -> tuple[int, int]:
    return _int64(values.get(1, 0)), _int32(values.get(2, 0))


def _int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _scalar(field: ProtoField, raw: Any) -> Any:
    """Return an object for JSON from a varint or from bytes."""
    kind = field.type
    if kind == "string":
        return raw.decode()
    if kind == "bytes":
        return base64.b64encode(raw).decode()
    if kind in _FIXED:
        number = struct.unpack(_FIXED[kind], raw)[0]
        return json_float(number, 9 if kind == "float" else 17) if kind in ("float", "double") else number
    if kind == "bool":
        return bool(raw)
    if kind == "sint64":
        return (raw >> 1) ^ -(raw & 1)
    if kind == "sint32":
        raw &= 0xFFFFFFFF
        return (raw >> 1) ^ -(raw & 1)
    if kind in ("uint32", "uint64"):
        return raw & 0xFFFFFFFF if kind == "uint32" else raw
    if kind == "int64":
        return _int64(raw)
    number = _int32(raw)
    return field.enum.symbols.get(number, number) if field.enum is not None else number


def _default(field: ProtoField) -> Any:
    if field.message is not None:
        return _object(field.message, {})
    if field.enum is not None:
        return field.enum.symbols[field.enum.default]
    if field.type in ("string", "bytes"):
        return ""
    if field.type == "bool":
        return False
    return 0.0 if field.type in ("float", "double") else 0


def _member(field: ProtoField, values: Values) -> Any:
    """Return the value of a field."""
    found = values.get(field.number)
    if field.is_map:
        assert field.message is not None
        key, value = field.message.fields
        pairs = [(_member(key, entry), _member(value, entry)) for entry in found or ()]
        return {_key(name): item for name, item in pairs}
    if field.repeated:
        return [_item(field, item) for item in found or ()]
    if found is None:
        return None if field.nullable else _default(field)
    return _item(field, found)


def _key(key: Any) -> str:
    return json.dumps(key) if isinstance(key, bool | int) else str(key)


def _item(field: ProtoField, value: Any) -> Any:
    return _scalar(field, value) if field.message is None else _object(field.message, value)


def _object(message: Message, values: Values) -> Any:
    name = message.name
    if name == TIMESTAMP:
        seconds, nanos = _time(values)
        days, rest = divmod(seconds * 10**9 + nanos, 86400 * 10**9)
        digits = 9 if nanos % 1000 else 6
        return f"{day_text(days)}T{clock_text(rest // 10 ** (9 - digits), 10**digits, digits)}Z"
    if name == DURATION:
        return duration_text(*_time(values))
    if name == FIELD_MASK:
        text = ""
        for path in values.get(1, ()):
            text = f"{text},{path.decode()}" if text else path.decode()
        return text
    if name in WRAPPERS:
        return _member(message.fields[0], values)
    if name == ANY:
        url, content = (_member(field, values) for field in message.fields)
        return {"@type": url, "value": content}
    if name == STRUCT:
        return _member(message.fields[0], values)
    if name == LIST_VALUE:
        return _member(message.fields[0], values)
    if name == VALUE:
        chosen = next(
            (field for field in message.fields if field.number in values and field.name != "null_value"), None
        )
        return None if chosen is None else _item(chosen, values[chosen.number])
    return {field.name: _member(field, values) for field in message.fields}

"""Decode single Avro values into Python objects for JSON, by the schema of the writer.

This is the readable specification of the format. `cat --decode` and the columns with JSON text use it.
Bytes are base64 text, decimals and UUIDs are text, and dates and times are ISO 8601.
"""

from __future__ import annotations

import base64
import json
import struct
import uuid
from decimal import Decimal
from typing import Any

from ..errors import ValueFault
from ..texts import clock_text, day_text, json_float
from ..types import Array, Enum, Fixed, Logical, Map, Record, Simple, Union, ValueType, branch_name
from .schema import takes_bytes

DEEPEST = 64
EMPTY_ITEMS = 4096
NO_LIMIT = 1 << 62
DAY_MILLIS = 86_400_000


def avro_to_json(type_: ValueType, body: memoryview, empty_items: int = EMPTY_ITEMS) -> Any:
    """Return the value of a body as an object for JSON. ValueFault: it is not a value of the type.

    `empty_items` is the number of items without bytes that it can have, in addition to its size.
    """
    reader = _Reader(body, empty_items)
    value = reader.value(type_, 0)
    if reader.position != len(body):
        raise ValueFault("trailing_bytes", reader.position)
    return value


def avro_text(type_: ValueType, body: memoryview) -> str | None:
    """Return the JSON text of a value that the core has checked. None: the value is null."""
    value = avro_to_json(type_, body, NO_LIMIT)
    return None if value is None else json.dumps(value, ensure_ascii=False)


class _Reader:
    def __init__(self, body: memoryview, empty_items: int) -> None:
        self._body = body
        self.position = 0
        self._item = 0
        """Start of the item that is being read. The branch of a union of null and another type belongs to the item."""
        self._budget = len(body) + empty_items

    def value(self, type_: ValueType, depth: int) -> Any:
        self._item = self.position
        return self._value(type_, depth)

    def _value(self, type_: ValueType, depth: int) -> Any:
        # The cores allow DEEPEST recursive records and DEEPEST arrays and maps, around types as deep as schemas can be.
        if depth > 3 * DEEPEST:
            raise self._fault("too_deep")
        if isinstance(type_, Union):
            branch = self._long()
            if not 0 <= branch < len(type_.branches):
                raise self._fault("bad_index")
            chosen = type_.branches[branch]
            if len(type_.branches) == 2 and type_.null >= 0:
                return self._value(chosen, depth)
            value = self.value(chosen, depth)
            several = len(type_.others) > 1 and chosen.kind != "null"
            return {branch_name(chosen): value} if several else value
        if isinstance(type_, Record):
            return {field.name: self.value(field.type, depth + 1) for field in type_.fields}
        if isinstance(type_, Array):
            return [self.value(type_.items, depth + 1) for _ in self._items(type_.items)]
        if isinstance(type_, Map):
            return {self._key(): self.value(type_.values, depth + 1) for _ in self._items(Simple("string"))}
        if isinstance(type_, Enum):
            number = self._int()
            if not 0 <= number < len(type_.symbols):
                raise self._fault("bad_index")
            return type_.symbols[number]
        if isinstance(type_, Fixed):
            return _binary(self._bytes(type_.size), type_.logical, self._item)
        if type_.kind == "boolean":
            byte = self._bytes(1)[0]
            if byte > 1:
                raise self._fault("bad_number")
            return bool(byte)
        if type_.kind == "int" or type_.kind == "long":
            return number_to_json(self._int() if type_.kind == "int" else self._long(), type_.logical, self._item)
        if type_.kind == "float":
            return json_float(struct.unpack("<f", self._bytes(4))[0], 9)
        if type_.kind == "double":
            return json_float(struct.unpack("<d", self._bytes(8))[0], 17)
        if type_.kind == "string":
            return self._text()
        if type_.kind == "bytes":
            return _binary(self._bytes(self._length()), type_.logical, self._item)
        return None

    def _fault(self, code: str) -> ValueFault:
        return ValueFault(code, self._item)

    def _items(self, type_: ValueType) -> Any:
        """Yield once for each item of an array or map."""
        while True:
            items = self._long()
            if not items:
                return
            if items < 0:
                items = -items
                if items == 2**63:
                    raise self._fault("bad_length")
                self._length()
            if takes_bytes(type_):
                if items > len(self._body) - self.position:
                    raise self._fault("truncated")
            elif items > self._budget:
                raise self._fault("too_large")
            else:
                self._budget -= items
            yield from range(items)
            self._item = self.position

    def _long(self) -> int:
        bits = shift = 0
        while True:
            byte = self._bytes(1)[0]
            if shift == 63 and byte > 1:
                raise self._fault("bad_number")
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (bits >> 1) ^ -(bits & 1)
            shift += 7

    def _int(self) -> int:
        number = self._long()
        if not -(2**31) <= number < 2**31:
            raise self._fault("bad_number")
        return number

    def _length(self) -> int:
        length = self._long()
        if length < 0:
            raise self._fault("bad_length")
        if length > len(self._body) - self.position:
            raise self._fault("truncated")
        return length

    def _bytes(self, size: int) -> bytes:
        if size > len(self._body) - self.position:
            raise self._fault("truncated")
        self.position += size
        return bytes(self._body[self.position - size : self.position])

    def _key(self) -> str:
        self._item = self.position
        return self._text()

    def _text(self) -> str:
        try:
            return self._bytes(self._length()).decode()
        except UnicodeDecodeError:
            raise self._fault("bad_utf8") from None


def _binary(raw: bytes, logical: Logical | None, start: int) -> Any:
    if logical is None:
        return base64.b64encode(raw).decode()
    if logical.name == "decimal":
        number = int.from_bytes(raw, "big", signed=True)
        if abs(number) >= 10**logical.precision:
            raise ValueFault("bad_number", start)
        return format(Decimal((number < 0, tuple(map(int, str(abs(number)))), -logical.scale)), "f")
    if logical.name == "uuid":
        return str(uuid.UUID(bytes=raw))
    months, days, millis = struct.unpack("<3I", raw)
    return {"months": months, "days": days, "milliseconds": millis}


def number_to_json(number: int, logical: Logical | None, start: int) -> Any:
    if logical is None:
        return number
    name = logical.name
    if name == "date":
        return day_text(number)
    unit, digits = {"millis": (1000, 3), "micros": (10**6, 6), "nanos": (10**9, 9)}[name.rpartition("-")[2]]
    if name.startswith("time-"):
        if not 0 <= number < 86400 * unit:
            raise ValueFault("bad_number", start)
        return clock_text(number, unit, digits)
    days, rest = divmod(number, 86400 * unit)
    return f"{day_text(days)}T{clock_text(rest, unit, digits)}" + ("" if name.startswith("local-") else "Z")

"""A strict and simple reader of Avro values, with which the tests compare the decoders.

It shares no code with the package. It knows the schema only as JSON. An error has the position of the
item that is wrong. The branch of a union of null and one other type belongs to its item.
"""

from __future__ import annotations

import base64
import struct
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

EMPTY_ITEMS = 4096
NUMBERS = ("int", "long", "float", "double")
DAY = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
UNITS = {"millis": (10**3, 3), "micros": (10**6, 6), "nanos": (10**9, 9)}


class StrictError(Exception):
    def __init__(self, code: str, position: int) -> None:
        super().__init__(f"{code} at byte {position}")
        self.code, self.position = code, position


class Branch(NamedTuple):
    """A value of a union."""

    number: int
    value: Any


class StrictAvro:
    """A schema, given as JSON, and its values."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._named: dict[str, Any] = {}
        self._collect(schema)
        self._body, self._at, self._budget = b"", 0, 0

    def _collect(self, type_: Any) -> None:
        if isinstance(type_, list):
            for branch in type_:
                self._collect(branch)
        elif isinstance(type_, dict):
            if "name" in type_:
                self._named[type_["name"]] = type_
            for part in ("items", "values", "type"):
                if part in type_:
                    self._collect(type_[part])
            for field in type_.get("fields", ()):
                self._collect(field["type"])

    def resolved(self, type_: Any) -> Any:
        """Return a type as a list (union) or as an object."""
        if isinstance(type_, str):
            return self._named.get(type_, {"type": type_})
        if isinstance(type_, dict) and not isinstance(type_["type"], str):
            return self.resolved(type_["type"])
        return type_

    def read(self, body: bytes) -> Any:
        """Return the value of a body. Values of logical types are those of the type below."""
        self._body, self._at, self._budget = body, 0, len(body) + EMPTY_ITEMS
        value = self._value(self.schema)
        if self._at != len(body):
            raise StrictError("trailing_bytes", self._at)
        return value

    def _value(self, type_: Any, start: int | None = None) -> Any:
        t = self.resolved(type_)
        start = self._at if start is None else start
        if isinstance(t, list):
            number = self._varint(start)
            if number not in range(len(t)):
                raise StrictError("bad_index", start)
            nullable = len(t) == 2 and any(self.kind(b) == "null" for b in t)
            return Branch(number, self._value(t[number], start if nullable else None))
        kind, logical = t["type"], self.logical(t)
        if kind == "record":
            return {field["name"]: self._value(field["type"]) for field in t["fields"]}
        if kind == "array":
            return [self._value(t["items"]) for _ in self._blocks(t["items"], start)]
        if kind == "map":
            return [(self._text(self._at), self._value(t["values"])) for _ in self._blocks("string", start)]
        if kind == "enum":
            number = self._int(start)
            if number not in range(len(t["symbols"])):
                raise StrictError("bad_index", start)
            return t["symbols"][number]
        if kind == "null":
            return None
        if kind == "boolean":
            byte = self._take(1, start)[0]
            if byte not in (0, 1):
                raise StrictError("bad_number", start)
            return byte == 1
        if kind in ("int", "long"):
            value = self._int(start) if kind == "int" else self._varint(start)
            if logical in DAY and value not in range(DAY[logical]):
                raise StrictError("bad_number", start)
            return value
        if kind in ("float", "double"):
            return struct.unpack("<f" if kind == "float" else "<d", self._take(4 if kind == "float" else 8, start))[0]
        if kind == "string":
            return self._text(start)
        raw = self._take(t["size"] if kind == "fixed" else self._length(start), start)
        if logical == "decimal" and abs(int.from_bytes(raw, "big", signed=True)) >= 10 ** t["precision"]:
            raise StrictError("bad_number", start)
        return raw

    def _blocks(self, items: Any, start: int) -> Any:
        while True:
            count = self._varint(start)
            if count == 0:
                return
            if count == -(2**63):
                raise StrictError("bad_length", start)
            if count < 0:
                self._length(start)
            if self.has_bytes(items):
                if abs(count) > len(self._body) - self._at:
                    raise StrictError("truncated", start)
            else:
                self._budget -= abs(count)
                if self._budget < 0:
                    raise StrictError("too_large", start)
            for _ in range(abs(count)):
                yield
            start = self._at

    def _take(self, size: int, start: int) -> bytes:
        if size > len(self._body) - self._at:
            raise StrictError("truncated", start)
        self._at += size
        return self._body[self._at - size : self._at]

    def _varint(self, start: int) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._take(1, start)[0]
            number |= (byte & 127) << shift
            if byte < 128:
                break
        else:
            raise StrictError("bad_number", start)
        if number >= 2**64:
            raise StrictError("bad_number", start)
        return number // 2 if number % 2 == 0 else -(number // 2) - 1

    def _int(self, start: int) -> int:
        number = self._varint(start)
        if not -(2**31) <= number < 2**31:
            raise StrictError("bad_number", start)
        return number

    def _length(self, start: int) -> int:
        length = self._varint(start)
        if length < 0:
            raise StrictError("bad_length", start)
        if length > len(self._body) - self._at:
            raise StrictError("truncated", start)
        return length

    def _text(self, start: int) -> str:
        raw = self._take(self._length(start), start)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise StrictError("bad_utf8", start) from None

    def kind(self, type_: Any) -> str:
        t = self.resolved(type_)
        return "union" if isinstance(t, list) else str(t["type"])

    def logical(self, type_: Any) -> str | None:
        t = self.resolved(type_)
        return None if isinstance(t, list) else t.get("logicalType")

    def label(self, type_: Any) -> str:
        """Return the name of a branch."""
        t = self.resolved(type_)
        return str(t.get("name", t["type"])).rpartition(".")[2]

    def has_bytes(self, type_: Any, inside: tuple[str, ...] = ()) -> bool:
        t = self.resolved(type_)
        if isinstance(t, list):
            return True
        if t["type"] == "record":
            return t["name"] in inside or any(self.has_bytes(f["type"], (*inside, t["name"])) for f in t["fields"])
        return bool(t["type"] != "null" and t.get("size") != 0)

    def plain(self, type_: Any, value: Any) -> Any:
        """Return a value without `Branch`, and with maps as dicts, as fastavro returns it."""
        t = self.resolved(type_)
        if isinstance(t, list):
            return self.plain(t[value.number], value.value)
        if t["type"] == "record":
            return {f["name"]: self.plain(f["type"], value[f["name"]]) for f in t["fields"]}
        if t["type"] == "array":
            return [self.plain(t["items"], item) for item in value]
        if t["type"] == "map":
            return {key: self.plain(t["values"], item) for key, item in value}
        return value

    def json(self, type_: Any, value: Any) -> Any:
        """Return a value as an object for JSON."""
        t = self.resolved(type_)
        if isinstance(t, list):
            found = self.json(t[value.number], value.value)
            several = len([b for b in t if self.kind(b) != "null"]) > 1
            return {self.label(t[value.number]): found} if several and self.kind(t[value.number]) != "null" else found
        kind, logical = t["type"], self.logical(t)
        if kind == "record":
            return {f["name"]: self.json(f["type"], value[f["name"]]) for f in t["fields"]}
        if kind == "array":
            return [self.json(t["items"], item) for item in value]
        if kind == "map":
            return {key: self.json(t["values"], item) for key, item in value}
        if kind in ("float", "double"):
            if value != value or value in (float("inf"), float("-inf")):
                return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
            return value if kind == "double" else float(f"{value:.9g}")
        if logical == "decimal":
            return f"{_decimal(value, t):f}"
        if logical == "uuid":
            return value if kind == "string" else str(uuid.UUID(bytes=value))
        if logical == "duration":
            return dict(zip(("months", "days", "milliseconds"), struct.unpack("<III", value), strict=True))
        if logical == "date":
            return _with_sign(str(np.datetime64(value, "D")))
        if logical is not None and kind in ("int", "long"):
            name, _, unit = logical.rpartition("-")
            second, digits = UNITS[unit]
            days, rest = divmod(value, 86_400 * second)
            clock = f"{np.datetime64(rest // second, 's').astype(str)[11:]}.{rest % second:0{digits}}"
            day = _with_sign(str(np.datetime64(days, "D")))
            return clock if name == "time" else f"{day}T{clock}" + ("Z" if name == "timestamp" else "")
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value

    def column(self, type_: Any, value: Any, inside: tuple[str, ...] = ()) -> Any:
        """Return a value as the columns of the schema have it. Times are integers, and maps are lists of pairs."""
        t = self.resolved(type_)
        if isinstance(t, list):
            chosen = t[value.number]
            if self.kind(chosen) == "null":
                return None
            groups = self.groups(t)
            found = self.column(chosen, value.value, inside)
            if not any(type(b) is dict and b.get("logicalType") for b in (chosen,)) and self.kind(chosen) in NUMBERS:
                wide = next(name for name, members in groups.items() if self.label(chosen) in members)
                found = float(found) if wide in ("float", "double") else found
            if len(groups) == 1:
                return found
            return {name: found if self.label(chosen) in members else None for name, members in groups.items()}
        kind = t["type"]
        if kind == "record":
            if t["name"] in inside:
                return JsonText(self.json(t, value))
            return {f["name"]: self.column(f["type"], value[f["name"]], (*inside, t["name"])) for f in t["fields"]}
        if kind == "array":
            return [self.column(t["items"], item, inside) for item in value]
        if kind == "map":
            return [(key, self.column(t["values"], item, inside)) for key, item in value]
        if self.logical(t) == "decimal":
            return _decimal(value, t)
        if self.logical(t) == "uuid" and kind == "fixed":
            return str(uuid.UUID(bytes=value))
        return value

    def groups(self, union: list[Any]) -> dict[str, list[str]]:
        """Return the members of a struct for a union, with the branches that each holds."""
        plain = [b for b in union if self.kind(b) in NUMBERS and self.logical(b) is None]
        kinds = [self.kind(b) for b in plain]
        wide = kinds[0] if len(kinds) == 1 else "double" if {"float", "double"} & set(kinds) else "long"
        found: dict[str, list[str]] = {}
        for branch in union:
            if branch in plain:
                found.setdefault(wide, []).append(self.label(branch))
            elif self.kind(branch) != "null":
                found[self.label(branch)] = [self.label(branch)]
        return found


class JsonText(NamedTuple):
    """A value that a column has as JSON text."""

    value: Any


def _with_sign(text: str) -> str:
    """Return a date with a year as ISO 8601 writes it: years outside 0 to 9999 have a sign and five digits or more."""
    year, month, day = text.rsplit("-", 2)
    number = int(year)
    return f"{number:04}-{month}-{day}" if 0 <= number <= 9999 else f"{number:+06}-{month}-{day}"


def _decimal(raw: bytes, type_: Any) -> Decimal:
    number = int.from_bytes(raw, "big", signed=True)
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -type_.get("scale", 0)))

"""Parse Avro schemas (Avro specification 1.12).

An unknown or wrong logical type is ignored, as the specification requires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...support.text import shown
from ..errors import InvalidSchemaError
from ..types import (
    DEEPEST,
    MISSING,
    MOST_DECIMAL_DIGITS,
    MOST_TYPES,
    Array,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Named,
    Record,
    Simple,
    Union,
    ValueType,
    branch_name,
)

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_LOGICAL = {
    "int": {"date", "time-millis"},
    "long": {
        "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis",
        "local-timestamp-micros", "local-timestamp-nanos",
    },
    "string": {"uuid"},
}  # fmt: skip


def parse_avro(text: str, references: Sequence[str] = ()) -> ValueType:
    """Parse a schema. `references` are the texts of the schemas whose types it may use, in the order of their use."""
    parser = _Parser()
    try:
        for reference in references:
            parser.parse(json.loads(reference), "", 0)
        return parser.parse(json.loads(text), "", 0)
    except (RecursionError, ValueError) as error:
        if isinstance(error, InvalidSchemaError):
            raise
        raise InvalidSchemaError(f"the schema is not JSON: {error}") from None


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Named] = {}
        self._open: list[Record] = []
        self._extents: dict[int, tuple[int, int]] = {}
        """Number of types, and of levels, in each complete type by its id."""

    def parse(self, raw: Any, namespace: str, depth: int) -> ValueType:
        type_ = self._parse(raw, namespace, depth)
        if id(type_) not in self._extents and not (isinstance(type_, Record) and type_ in self._open):
            parts = [self._extents.get(id(part), (1, 1)) for part in _parts(type_)]
            size, levels = 1 + sum(n for n, _ in parts), 1 + max((n for _, n in parts), default=0)
            if size > MOST_TYPES:
                raise InvalidSchemaError(f"the schema has more than {MOST_TYPES} types")
            if levels > DEEPEST + 1:
                raise InvalidSchemaError(f"the schema is nested more than {DEEPEST} levels deep")
            self._extents[id(type_)] = size, levels
        return type_

    def _parse(self, raw: Any, namespace: str, depth: int) -> ValueType:
        if depth > DEEPEST:
            raise InvalidSchemaError(f"the schema is nested more than {DEEPEST} levels deep")
        if isinstance(raw, str):
            return self._by_name(raw, namespace)
        if isinstance(raw, list):
            return self._union(raw, namespace, depth)
        if not isinstance(raw, dict) or "type" not in raw:
            raise InvalidSchemaError(f"{shown(raw)} is not a type")
        kind = raw["type"]
        if not isinstance(kind, str):
            return self.parse(kind, namespace, depth + 1)
        if kind in PRIMITIVES:
            return Simple(kind, _logical(raw, kind))
        if kind == "array":
            return Array(self.parse(_member(raw, "items"), namespace, depth + 1))
        if kind == "map":
            return Map(self.parse(_member(raw, "values"), namespace, depth + 1))
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(raw, kind, namespace, depth)
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> ValueType:
        if name in PRIMITIVES:
            return Simple(name)
        for full in (name,) if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self._named:
                return self._named[full]
        raise InvalidSchemaError(f"the type {shown(name)} is not defined")

    def _union(self, raw: list[Any], namespace: str, depth: int) -> Union:
        branches = [self.parse(branch, namespace, depth + 1) for branch in raw]
        if any(isinstance(b, Union) for b in branches):
            raise InvalidSchemaError("a union contains a union")
        names = [branch_name(b, full=True) for b in branches]
        if len(set(names)) < len(names):
            raise InvalidSchemaError(f"a union contains two branches of the same type: {', '.join(names)}")
        return Union(branches)

    def _define(self, raw: dict[str, Any], kind: str, namespace: str, depth: int) -> Named:
        name = _member(raw, "name", str)
        inner = raw.get("namespace", namespace)
        if "." in name:
            inner = name.rpartition(".")[0]
        full = name if "." in name or not inner else f"{inner}.{name}"
        aliases = tuple(a if "." in a or not inner else f"{inner}.{a}" for a in _texts(raw, "aliases"))
        if full in self._named:
            raise InvalidSchemaError(f"the type {full} is defined twice")
        if kind == "fixed":
            size = _member(raw, "size", int)
            if not 0 <= size < 2**31:
                raise InvalidSchemaError(f"the size of {full} is {size}")
            self._named[full] = fixed = Fixed(full, size, _logical(raw, kind, size), aliases)
            return fixed
        if kind == "enum":
            symbols = _texts(raw, "symbols")
            if len(set(symbols)) < len(symbols):
                raise InvalidSchemaError(f"the enum {full} has two equal symbols")
            default = raw.get("default")
            if default is not None and default not in symbols:
                raise InvalidSchemaError(f"the default of the enum {full} is {shown(default)}, which is not a symbol")
            self._named[full] = enum = Enum(full, symbols, default, aliases)
            return enum
        self._named[full] = record = Record(full, aliases=aliases)
        self._open.append(record)
        names = set()
        for entry in _member(raw, "fields", list):
            if not isinstance(entry, dict):
                raise InvalidSchemaError(f"a field of {full} is {shown(entry)}, not an object")
            label = _member(entry, "name", str)
            if label in names:
                raise InvalidSchemaError(f"the record {full} has two fields {shown(label)}")
            names.add(label)
            type_ = self.parse(_member(entry, "type"), inner, depth + 1)
            record.fields.append(Field(label, type_, entry.get("default", MISSING), _texts(entry, "aliases")))
        self._open.pop()
        return record


def _parts(type_: ValueType) -> list[ValueType]:
    """Return the types of which a type consists."""
    if isinstance(type_, Record):
        return [field.type for field in type_.fields]
    if isinstance(type_, Union):
        return type_.branches
    return [type_.items] if isinstance(type_, Array) else [type_.values] if isinstance(type_, Map) else []


def _member(raw: Mapping[str, Any], name: str, kind: type = object) -> Any:
    value = raw.get(name, MISSING)
    if value is MISSING or not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidSchemaError(f"{shown(dict(raw))} has no valid {name}")
    return _unicode(value) if isinstance(value, str) else value


def _texts(raw: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = raw.get(name, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InvalidSchemaError(f"{name} is {shown(value)}, not a list of strings")
    return tuple(map(_unicode, value))


def _unicode(text: str) -> str:
    """Check that a name can be the name of a column. JSON can contain lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSchemaError(f"{shown(text)} is not valid Unicode") from None
    return text


def _logical(raw: Mapping[str, Any], kind: str, size: int = 0) -> Logical | None:
    """Return the logical type of a type, or None if it has none that is valid."""
    name = raw.get("logicalType")
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = raw.get("precision"), raw.get("scale", 0)
        if type(precision) is int and type(scale) is int and 0 <= scale <= precision:
            # The numbers of a wide fixed type have more digits than a decimal can have.
            fits = kind == "bytes" or (
                size > 0 and 10 ** min(precision, MOST_DECIMAL_DIGITS) <= 2 ** (8 * min(size, 40) - 1)
            )
            if 1 <= precision <= MOST_DECIMAL_DIGITS and fits:
                return Logical("decimal", precision, scale)
        return None
    if not isinstance(name, str):
        return None
    if kind == "fixed":
        return Logical(name) if (name, size) in (("uuid", 16), ("duration", 12)) else None
    return Logical(name) if name in _LOGICAL.get(kind, ()) else None


def takes_bytes(type_: ValueType) -> int:
    """Return 1 if each value of a type has at least one byte, and 0 otherwise."""
    if isinstance(type_, Record):
        return int(is_recursive(type_) or any(takes_bytes(f.type) for f in type_.fields))
    return int(type_.kind != "null" and not (isinstance(type_, Fixed) and not type_.size))


def is_recursive(record: Record) -> bool:
    """Return whether a record contains itself."""
    seen: set[int] = set()
    pending: list[ValueType] = [f.type for f in record.fields]
    while pending:
        type_ = pending.pop()
        if type_ is record:
            return True
        if id(type_) in seen:
            continue
        seen.add(id(type_))
        if isinstance(type_, Record):
            pending += [f.type for f in type_.fields]
        elif isinstance(type_, Union):
            pending += type_.branches
        elif isinstance(type_, Array):
            pending.append(type_.items)
        elif isinstance(type_, Map):
            pending.append(type_.values)
    return False

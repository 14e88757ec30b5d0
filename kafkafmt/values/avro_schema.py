"""Parse Avro schemas (Avro specification 1.12), and merge several versions into one.

Types refer to each other directly, so a recursive type is a cycle. An unknown or wrong logical type
is ignored, as the specification requires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..support.text import shown

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
JSON_TEXT = "json"
"""Kind of a type of ours: a value that is stored as JSON text, because no column type holds all its values."""
MOST_DECIMAL_DIGITS = 76
DEEPEST = 64
MOST_TYPES = 100_000
"""Largest size of a schema, in types. A named type counts wherever it is used."""
MISSING: Any = object()
"""Default of a field without a default."""


class AvroSchemaError(ValueError):
    """The text of an Avro schema does not follow the specification."""


@dataclass(frozen=True)
class Logical:
    """A logical type. `precision` and `scale` are those of a decimal."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(eq=False)
class Simple:
    """A primitive type, or `JSON_TEXT`. `record` is the short name of the record that is stored as JSON text."""

    kind: str
    logical: Logical | None = None
    record: str = ""


@dataclass(eq=False)
class Fixed:
    name: str
    size: int
    logical: Logical | None = None
    aliases: tuple[str, ...] = ()
    kind = "fixed"


@dataclass(eq=False)
class Enum:
    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()
    kind = "enum"


@dataclass(eq=False)
class Field:
    name: str
    type: AvroType
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    default_type: AvroType | None = None  # type of the default, if it is not `type`


@dataclass(eq=False)
class Record:
    name: str
    fields: list[Field] = field(default_factory=list)
    aliases: tuple[str, ...] = ()
    kind = "record"


@dataclass(eq=False)
class Array:
    items: AvroType
    kind = "array"


@dataclass(eq=False)
class Map:
    values: AvroType
    kind = "map"


@dataclass(eq=False)
class Union:
    branches: list[AvroType]
    kind = "union"

    @property
    def null(self) -> int:
        """Index of the null branch, or -1."""
        return next((i for i, b in enumerate(self.branches) if b.kind == "null"), -1)

    @property
    def others(self) -> list[AvroType]:
        """The branches without null."""
        return [b for b in self.branches if b.kind != "null"]


Named: TypeAlias = "Fixed | Enum | Record"
AvroType: TypeAlias = "Simple | Fixed | Enum | Record | Array | Map | Union"

_LOGICAL = {
    "int": {"date", "time-millis"},
    "long": {
        "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis",
        "local-timestamp-micros", "local-timestamp-nanos",
    },
    "string": {"uuid"},
}  # fmt: skip


def parse_avro(text: str, references: Sequence[str] = ()) -> AvroType:
    """Parse a schema. `references` are the texts of the schemas whose types it may use, in the order of their use."""
    parser = _Parser()
    try:
        for reference in references:
            parser.parse(json.loads(reference), "", 0)
        return parser.parse(json.loads(text), "", 0)
    except (RecursionError, ValueError) as error:
        if isinstance(error, AvroSchemaError):
            raise
        raise AvroSchemaError(f"the schema is not JSON: {error}") from None


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Named] = {}
        self._open: list[Record] = []
        self._extents: dict[int, tuple[int, int]] = {}
        """Number of types, and of levels, in each complete type by its id."""

    def parse(self, raw: Any, namespace: str, depth: int) -> AvroType:
        type_ = self._parse(raw, namespace, depth)
        if id(type_) not in self._extents and not (isinstance(type_, Record) and type_ in self._open):
            parts = [self._extents.get(id(part), (1, 1)) for part in _parts(type_)]
            size, levels = 1 + sum(n for n, _ in parts), 1 + max((n for _, n in parts), default=0)
            if size > MOST_TYPES:
                raise AvroSchemaError(f"the schema has more than {MOST_TYPES} types")
            if levels > DEEPEST + 1:
                raise AvroSchemaError(f"the schema is nested more than {DEEPEST} levels deep")
            self._extents[id(type_)] = size, levels
        return type_

    def _parse(self, raw: Any, namespace: str, depth: int) -> AvroType:
        if depth > DEEPEST:
            raise AvroSchemaError(f"the schema is nested more than {DEEPEST} levels deep")
        if isinstance(raw, str):
            return self._by_name(raw, namespace)
        if isinstance(raw, list):
            return self._union(raw, namespace, depth)
        if not isinstance(raw, dict) or "type" not in raw:
            raise AvroSchemaError(f"{shown(raw)} is not a type")
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

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return Simple(name)
        for full in (name,) if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full in self._named:
                return self._named[full]
        raise AvroSchemaError(f"the type {shown(name)} is not defined")

    def _union(self, raw: list[Any], namespace: str, depth: int) -> Union:
        branches = [self.parse(branch, namespace, depth + 1) for branch in raw]
        if any(isinstance(b, Union) for b in branches):
            raise AvroSchemaError("a union contains a union")
        names = [branch_name(b, full=True) for b in branches]
        if len(set(names)) < len(names):
            raise AvroSchemaError(f"a union contains two branches of the same type: {', '.join(names)}")
        return Union(branches)

    def _define(self, raw: dict[str, Any], kind: str, namespace: str, depth: int) -> Named:
        name = _member(raw, "name", str)
        inner = raw.get("namespace", namespace)
        if "." in name:
            inner = name.rpartition(".")[0]
        full = name if "." in name or not inner else f"{inner}.{name}"
        aliases = tuple(a if "." in a or not inner else f"{inner}.{a}" for a in _texts(raw, "aliases"))
        if full in self._named:
            raise AvroSchemaError(f"the type {full} is defined twice")
        if kind == "fixed":
            size = _member(raw, "size", int)
            if not 0 <= size < 2**31:
                raise AvroSchemaError(f"the size of {full} is {size}")
            self._named[full] = fixed = Fixed(full, size, _logical(raw, kind, size), aliases)
            return fixed
        if kind == "enum":
            symbols = _texts(raw, "symbols")
            if len(set(symbols)) < len(symbols):
                raise AvroSchemaError(f"the enum {full} has two equal symbols")
            default = raw.get("default")
            if default is not None and default not in symbols:
                raise AvroSchemaError(f"the default of the enum {full} is {shown(default)}, which is not a symbol")
            self._named[full] = enum = Enum(full, symbols, default, aliases)
            return enum
        self._named[full] = record = Record(full, aliases=aliases)
        self._open.append(record)
        names = set()
        for entry in _member(raw, "fields", list):
            if not isinstance(entry, dict):
                raise AvroSchemaError(f"a field of {full} is {shown(entry)}, not an object")
            label = _member(entry, "name", str)
            if label in names:
                raise AvroSchemaError(f"the record {full} has two fields {shown(label)}")
            names.add(label)
            type_ = self.parse(_member(entry, "type"), inner, depth + 1)
            record.fields.append(Field(label, type_, entry.get("default", MISSING), _texts(entry, "aliases")))
        self._open.pop()
        return record


def _parts(type_: AvroType) -> list[AvroType]:
    """Return the types of which a type consists."""
    if isinstance(type_, Record):
        return [field.type for field in type_.fields]
    if isinstance(type_, Union):
        return type_.branches
    return [type_.items] if isinstance(type_, Array) else [type_.values] if isinstance(type_, Map) else []


def _member(raw: Mapping[str, Any], name: str, kind: type = object) -> Any:
    value = raw.get(name, MISSING)
    if value is MISSING or not isinstance(value, kind) or isinstance(value, bool):
        raise AvroSchemaError(f"{shown(dict(raw))} has no valid {name}")
    return _unicode(value) if isinstance(value, str) else value


def _texts(raw: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = raw.get(name, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise AvroSchemaError(f"{name} is {shown(value)}, not a list of strings")
    return tuple(map(_unicode, value))


def _unicode(text: str) -> str:
    """Check that a name can be the name of a column. JSON can contain lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise AvroSchemaError(f"{shown(text)} is not valid Unicode") from None
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


def branch_name(type_: AvroType, full: bool = False) -> str:
    """Return the name of a branch of a union: the type, or the name of a named type."""
    if isinstance(type_, Fixed | Enum | Record):
        return type_.name if full else type_.name.rpartition(".")[2]
    return (type_.record if isinstance(type_, Simple) else "") or type_.kind

"""Define the types of decoded values, into which the schemas of all formats are translated.

Types refer to each other directly, so a recursive type is a cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

JSON_TEXT = "json"
"""Kind of a type of ours: a value that is stored as JSON text, because no column type holds all its values."""
MOST_DECIMAL_DIGITS = 76
DEEPEST = 64
MOST_TYPES = 100_000
"""Largest size of a schema, in types. A named type counts wherever it is used."""
MOST_COLUMNS = 10_000
"""Largest number of columns of a key or value."""


class _Missing:
    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
"""Default of a field without a default."""


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
    open: bool = False  # values can have numbers without a symbol; the columns contain the numbers as texts
    kind = "enum"


@dataclass(eq=False)
class Field:
    name: str
    type: ValueType
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    default_type: ValueType | None = None  # type of the default, if it is not `type`
    number: int | None = None  # Protobuf: identifies the field in all versions, also under other names


@dataclass(eq=False)
class Record:
    name: str
    fields: list[Field] = field(default_factory=list)
    aliases: tuple[str, ...] = ()
    kind = "record"


@dataclass(eq=False)
class Array:
    items: ValueType
    kind = "array"


@dataclass(eq=False)
class Map:
    values: ValueType
    keys: ValueType = field(default_factory=lambda: Simple("string"))
    kind = "map"


@dataclass(eq=False)
class Union:
    branches: list[ValueType]
    kind = "union"

    @property
    def null(self) -> int:
        """Index of the null branch, or -1."""
        return next((i for i, b in enumerate(self.branches) if b.kind == "null"), -1)

    @property
    def others(self) -> list[ValueType]:
        """The branches without null."""
        return [b for b in self.branches if b.kind != "null"]


Named: TypeAlias = "Fixed | Enum | Record"
ValueType: TypeAlias = "Simple | Fixed | Enum | Record | Array | Map | Union"


def branch_name(type_: ValueType, full: bool = False) -> str:
    """Return the name of a branch of a union: the type, or the name of a named type."""
    if isinstance(type_, Fixed | Enum | Record):
        return type_.name if full else type_.name.rpartition(".")[2]
    return (type_.record if isinstance(type_, Simple) else "") or type_.kind

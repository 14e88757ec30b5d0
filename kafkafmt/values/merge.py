"""Merge the versions of a schema into one type that holds the values of all versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .errors import TooManyColumnsError
from .types import (
    JSON_TEXT,
    MOST_COLUMNS,
    MOST_TYPES,
    Array,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Record,
    Simple,
    Union,
    ValueType,
    branch_name,
)

MOST_NAMES = 256
"""Largest number of different records around a type."""
WIDER = {
    ("int", "long"): "long",
    ("int", "float"): "double",  # float holds only 24 bits of an int
    ("int", "double"): "double",
    ("long", "float"): "double",
    ("long", "double"): "double",
    ("float", "double"): "double",
    ("string", "bytes"): "bytes",
    ("int", "uint"): "long",
    ("uint", "long"): "long",
    ("uint", "ulong"): "ulong",
    ("uint", "float"): "double",
    ("uint", "double"): "double",
    ("ulong", "float"): "double",
    ("ulong", "double"): "double",
}
"""The wider of two types. The values of long that double does not hold are rounded, as by Avro's promotion."""


def merge_types(versions: Sequence[ValueType]) -> ValueType:
    """Return a type for the values of all versions. Fields are merged by name, with the widest type."""
    return _merge(list(versions), (), iter(range(MOST_TYPES)))


def _merge(types: list[ValueType], inside: tuple[str, ...], left: Iterator[int]) -> ValueType:
    """Merge types. `inside` are the names of the records around them: a record inside itself becomes JSON text."""
    # Records that contain each other in many ways would need very many columns.
    if next(left, None) is None or len(inside) > MOST_NAMES:
        raise TooManyColumnsError(f"the schema needs too many columns; the limit is {MOST_COLUMNS}")
    nullable = any(t.kind == "null" or (isinstance(t, Union) and t.null >= 0) for t in types)
    several = any(isinstance(t, Union) and len(t.others) > 1 for t in types)
    groups: list[list[ValueType]] = []
    for type_ in types:
        for branch in type_.others if isinstance(type_, Union) else [type_]:
            if branch.kind == "null":
                continue
            together = next((g for g in groups if _same_group(g[0], branch, several)), None)
            if together is None:
                groups.append([branch])
            else:
                together.append(branch)
    merged = [_one(group, inside, left) for group in groups]
    # The versions have types without a common one, or a struct would have two members of the same name.
    if len(groups) > 1 and (not several or len({branch_name(t) for t in merged}) < len(merged)):
        return Union([Simple("null"), Simple(JSON_TEXT)]) if nullable else Simple(JSON_TEXT)
    if not merged:
        return Simple("null")
    if nullable:
        return Union([Simple("null"), *merged])
    return merged[0] if len(merged) == 1 else Union(merged)


def _same_group(a: ValueType, b: ValueType, in_union: bool) -> bool:
    """Return whether one column holds the values of both types. In a union, named types need the same name."""
    if isinstance(a, Simple) and isinstance(b, Simple):
        if a.logical != b.logical:
            return _decimals(a, b)
        if in_union and {a.kind, b.kind} == {"string", "bytes"}:
            return False
        return a.kind == b.kind or (a.kind, b.kind) in WIDER or (b.kind, a.kind) in WIDER
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        alike = a.size == b.size and a.logical == b.logical
        return _decimals(a, b) or (alike and (not in_union or branch_name(a) == branch_name(b)))
    if isinstance(a, Fixed | Simple) and isinstance(b, Fixed | Simple):
        return _decimals(a, b) or (a.logical == b.logical == Logical("uuid"))
    if isinstance(a, Map) and isinstance(b, Map) and a.keys.kind != b.keys.kind:
        return False
    if isinstance(a, Enum) and isinstance(b, Enum) and a.open != b.open:
        return False
    return a.kind == b.kind and (not in_union or branch_name(a) == branch_name(b))


def _decimals(a: Simple | Fixed, b: Simple | Fixed) -> bool:
    return bool(
        a.logical and b.logical and a.logical.name == b.logical.name == "decimal" and a.logical.scale == b.logical.scale
    )


def _one(group: list[ValueType], inside: tuple[str, ...], left: Iterator[int]) -> ValueType:
    first = group[0]
    if isinstance(first, Record):
        records = [t for t in group if isinstance(t, Record)]
        names = {t.name for t in records}
        if names & set(inside):
            return Simple(JSON_TEXT, record=branch_name(first))
        return _record(records, (*inside, *names), left)
    if isinstance(first, Array):
        return Array(_merge([t.items for t in group if isinstance(t, Array)], inside, left))
    if isinstance(first, Map):
        return Map(_merge([t.values for t in group if isinstance(t, Map)], inside, left), first.keys)
    if isinstance(first, Enum):
        symbols = {symbol: None for t in group if isinstance(t, Enum) for symbol in t.symbols}
        last = group[-1]
        return Enum(first.name, tuple(symbols), last.default if isinstance(last, Enum) else None, open=first.open)
    decimals = [t.logical for t in group if isinstance(t, Simple | Fixed) and t.logical and t.logical.name == "decimal"]
    if decimals and len(group) > 1:
        return Simple("bytes", max(decimals, key=lambda d: d.precision))
    if isinstance(first, Fixed):
        return first
    assert isinstance(first, Simple)
    kind = first.kind
    for other in group[1:]:
        kind = WIDER.get((kind, other.kind)) or WIDER.get((other.kind, kind)) or kind
    return Simple(kind, first.logical)


def _record(records: list[Record], inside: tuple[str, ...], left: Iterator[int]) -> Record:
    """Merge records by the names of their fields. A field that a later version renamed keeps its column.

    The later version then has an alias, or the number of the field.
    """
    columns: dict[str, list[Field]] = {}
    renamed: dict[str | int | None, str] = {}  # name of the column for each alias and number
    for record in reversed(records):  # the latest version decides the names
        own = {field.name for field in record.fields}
        for field in record.fields:
            name = field.name
            if name not in columns:
                later = renamed.get(name) or renamed.get(field.number, name)
                name = name if later in own else later
            columns.setdefault(name, []).append(field)
            if field.number is not None:
                renamed.setdefault(field.number, name)
            for alias in field.aliases:
                renamed.setdefault(alias, name)
    order: dict[str, int] = {}
    for record in records:
        for field in record.fields:
            order.setdefault(field.name, len(order))
    names = sorted(columns, key=lambda n: order[n])
    fields = []
    for name in names:
        found = columns[name]
        aliases = {f.name for f in found} | {a for f in found for a in f.aliases}
        type_ = _merge([f.type for f in reversed(found)], inside, left)
        latest = found[0]
        fields.append(Field(name, type_, latest.default, tuple(sorted(aliases - {name})), latest.type, latest.number))
    return Record(records[-1].name, fields, tuple({r.name for r in records}))

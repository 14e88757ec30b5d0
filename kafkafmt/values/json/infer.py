"""Infer a type from JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import ValueFault
from ..types import JSON_TEXT, MOST_COLUMNS, Array, Field, Map, Record, Simple, ValueType
from .objects import NumberText, json_to_object

MOST_MEMBERS = 1000
"""Largest number of different members of an object with columns for them."""


def infer_type(values: Iterable[bytes]) -> ValueType:
    """Return a type for JSON values. Values that are not valid JSON are ignored.

    Places with values of several kinds, or only with null, are JSON text. Objects with more than MOST_MEMBERS different
    members at one place are a map if all members have one type, and JSON text otherwise. An object that
    needs more than MOST_COLUMNS columns is JSON text.
    """
    seen = _Seen("")
    for value in values:
        try:
            seen.add(json_to_object(memoryview(value)))
        except ValueFault:
            continue
    return seen.type()[0]


class _Seen:
    """What was seen at one place: the kinds of values, and what is in arrays and objects. `path` is its name."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kinds: set[str] = set()
        self._items: _Seen | None = None
        self._members: dict[str, _Seen] = {}
        self._others: _Seen | None = None
        """What was seen in all members, if there are too many."""

    def add(self, value: Any) -> None:
        if value is None:
            return
        if isinstance(value, dict):
            self._kinds.add("object")
            for name, member in value.items():
                self._member(name).add(member)
        elif isinstance(value, list):
            self._kinds.add("array")
            self._items = self._items or _Seen(f"{self._path}/[]")
            for item in value:
                self._items.add(item)
        elif isinstance(value, bool):
            self._kinds.add("boolean")
        elif isinstance(value, int):
            self._kinds.add("long" if -(2**63) <= value < 2**63 else "double")
        else:
            self._kinds.add("double" if isinstance(value, float | NumberText) else "string")

    def _member(self, name: str) -> _Seen:
        if self._others is not None:
            return self._others
        if name not in self._members:
            if len(self._members) == MOST_MEMBERS:
                self._others = _Seen(f"{self._path}/*")
                for member in self._members.values():
                    self._others.include(member)
                self._members = {}
                return self._others
            self._members[name] = _Seen(f"{self._path}/{name}")
        return self._members[name]

    def include(self, other: _Seen) -> None:
        """Add all that was seen at another place."""
        self._kinds |= other._kinds
        if other._items is not None:
            self._items = self._items or _Seen(f"{self._path}/[]")
            self._items.include(other._items)
        for name, member in other._members.items():
            self._member(name).include(member)
        if other._others is not None:
            if self._others is None:
                self._others = _Seen(f"{self._path}/*")
                for member in self._members.values():
                    self._others.include(member)
                self._members = {}
            self._others.include(other._others)

    def type(self) -> tuple[ValueType, int]:
        """Return the type, and the number of its columns."""
        kinds = self._kinds
        if kinds == {"long", "double"}:
            return Simple("double"), 1
        if len(kinds) != 1:
            return Simple(JSON_TEXT), 1  # later values of places that were always null can have any type
        kind = next(iter(kinds))
        if kind == "array":
            items, count = self._items.type() if self._items else (Simple(JSON_TEXT), 1)
            return Array(items), count + 1
        if kind != "object":
            return Simple(kind), 1
        if self._others is not None:
            values, count = self._others.type()
            return (Simple(JSON_TEXT), 1) if values.kind == JSON_TEXT else (Map(values), count + 3)
        fields, total = [], 1
        for name, member in self._members.items():
            type_, count = member.type()
            fields.append(Field(name, type_))
            total += count
        # A struct without members cannot be stored in Parquet.
        return (Record(self._path, fields), total) if fields and total <= MOST_COLUMNS else (Simple(JSON_TEXT), 1)

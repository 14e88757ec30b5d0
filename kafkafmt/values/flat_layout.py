"""Arrange the columns of decoded records in the flat layout: the fields of the value are at the top."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, TypeVar

import pyarrow as pa

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

OWN, OF_KEY = "kafka_", "key_"
"""Prefixes of the columns that are not fields, and of the fields of the key."""


class FlatLayout:
    """The flat columns for a nested schema.

    Attributes
    ----------
    schema : pyarrow.Schema
        The flat columns.
    fields : tuple of str
        The names of those that contain fields of keys and values.
    """

    def __init__(self, nested: pa.Schema, sides: Collection[str]) -> None:
        self._sides = frozenset(sides)
        columns = [(name, field, origin) for column in nested for name, field, origin in self._columns(column)]
        known: dict[str, str] = {}
        for name, _, origin in columns:
            other = known.setdefault(name.lower(), origin)
            if other != origin:
                raise ValueError(
                    f'{other} and {origin} would both be the column {name}; choose columns, or layout="nested"'
                )
        self.schema: pa.Schema = pa.schema([pa.field(name, field.type) for name, field, _ in columns])
        self.fields: tuple[str, ...] = tuple(n for n, _, origin in columns if origin.partition(".")[0] in self._sides)

    def _columns(self, column: pa.Field) -> Iterator[tuple[str, pa.Field, str]]:
        """Yield the name, the type and the origin of each flat column of a nested one."""
        if column.name not in self._sides:
            yield OWN + column.name, column, f"the column {column.name}"
        elif pa.types.is_struct(column.type):
            prefix = OF_KEY if column.name == "key" else ""
            for field in column.type:
                yield prefix + field.name, field, f"{column.name}.{field.name}"
        else:
            yield column.name, column, column.name

    def needed(self, nested: pa.Schema, names: Collection[str]) -> list[str]:
        """Return the nested columns to which flat ones belong."""
        return [column.name for column in nested if any(name in names for name, _, _ in self._columns(column))]

    def arrange(self, rows: Rows) -> Rows:
        """Return the flat columns of nested ones."""
        arrays: list[Any] = []
        for column, array in zip(rows.schema, rows.columns, strict=True):
            is_split = column.name in self._sides and pa.types.is_struct(column.type)
            arrays += array.flatten() if is_split else [array]
        return type(rows).from_arrays(arrays, schema=self.schema)

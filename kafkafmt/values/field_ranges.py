"""Count the nulls of decoded fields, and find their smallest and largest values."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .avro.objects import number_to_json
from .texts import duration_text, json_float
from .types import JSON_TEXT, Fixed, Simple
from .value_columns import LIST, STRUCT, Column


class FieldRanges:
    """The nulls and the range of each field below a column that is not in an array or map."""

    def __init__(self, root: Column, name: str) -> None:
        self._fields = list(_fields(root, name))
        self.nulls: dict[str, int] = dict.fromkeys((name for name, _ in self._fields), 0)
        self._ranges: dict[str, tuple[Any, Any]] = {}

    def add(self, array: pa.Array) -> None:
        """Add the decoded values of some records. The others are null."""
        present = array if not array.null_count else array.drop_null()
        for (name, column), leaf in zip(self._fields, _leaves(present, self._fields[0][1]), strict=True):
            self.nulls[name] += leaf.null_count
            found = None if column.kind in (STRUCT, LIST) or column.type.kind == JSON_TEXT else _range(leaf)
            if found is not None:
                low, high = self._ranges.get(name, found)
                self._ranges[name] = min(low, found[0]), max(high, found[1])

    def rows(self) -> Iterator[tuple[str, int, Any, Any]]:
        """Yield the name, the nulls and the range of each field. A field without values has the range None to None."""
        for name, column in self._fields:
            low, high = self._ranges.get(name, (None, None))
            yield name, self.nulls[name], _json(column, low), _json(column, high)


def _fields(column: Column, name: str) -> Iterator[tuple[str, Column]]:
    yield name, column
    if column.kind == STRUCT:
        for part, child in column.children:
            yield from _fields(child, f"{name}.{part}")


def _leaves(array: pa.Array, column: Column) -> Iterator[pa.Array]:
    """Yield an array and the members of its structs, in the order of `_fields`."""
    yield array
    if column.kind == STRUCT:
        for member, (_, child) in zip(array.flatten(), column.children, strict=True):
            yield from _leaves(member, child)


def _range(array: pa.Array) -> tuple[Any, Any] | None:
    """Return the smallest and the largest value of an array, or None. Dates and times are integers."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    elif pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
    found = pc.min_max(array)
    low, high = found["min"].as_py(), found["max"].as_py()
    return None if low is None or low != low else (low, high)  # NaN, if all are NaN


def _json(column: Column, value: Any) -> Any:
    """Return a value in the form of `cat --decode`."""
    logical = column.type.logical if isinstance(column.type, Simple | Fixed) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return json_float(value, 17)
    if isinstance(value, int) and not isinstance(value, bool) and logical is not None:
        is_duration = logical.name == "duration-micros"
        return duration_text(0, value * 1000) if is_duration else number_to_json(value, logical, 0)
    return value if value is None or isinstance(value, int | str) else str(value)

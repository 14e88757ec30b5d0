"""Define the columns of decoded values: their tree, their Arrow types, and their Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ..constants import VALUE_COLUMNS
from ..types import ByteArray
from .errors import TooManyColumnsError
from .types import (
    JSON_TEXT,
    MOST_COLUMNS,
    MOST_DECIMAL_DIGITS,
    Array,
    Enum,
    Fixed,
    Logical,
    Map,
    Record,
    Simple,
    Union,
    ValueType,
    branch_name,
)

NULLS, BITS, FIXED, BINARY, LIST, STRUCT = range(len(VALUE_COLUMNS))
NO_SYMBOL = 1 << 32
"""Bit that marks a number without a symbol in the column of an open enum. Smaller items are indexes of symbols."""
MOST_FIXED_BYTES = 1 << 16
"""Largest size of a fixed type. Each row of its column needs as many bytes, even if it is null."""
DECIMAL_LIMITS = np.frombuffer(
    b"".join((10**n).to_bytes(32, "little") for n in range(MOST_DECIMAL_DIGITS + 1)), np.uint8
)
"""10 to the power of 0 to 76, as little-endian numbers of 256 bits."""

Fields: TypeAlias = "Mapping[str, Fields] | None"
"""The chosen fields of a record, and the chosen fields in each. None: all."""
Buffers: TypeAlias = "tuple[int, int, ByteArray | None, ByteArray | None, ByteArray | None, int]"
"""A finished column: rows, nulls, validity, offsets, data, and the size of the data in bytes."""


class Captures:
    """The values that are stored as JSON text. A program refers to a kind of them by the number that `add` returns."""

    def __init__(self) -> None:
        self._texts: list[Callable[[memoryview], str | None]] = []

    def add(self, text: Callable[[memoryview], str | None]) -> int:
        """Add a function that returns the JSON text of a value. Return its number."""
        self._texts.append(text)
        return len(self._texts) - 1

    def add_text(self) -> int:
        """Return the number of the function for values that are JSON text already."""
        return self._texts.index(_same_text) if _same_text in self._texts else self.add(_same_text)

    def to_json(self, captured: pa.Array) -> pa.Array:
        """Convert captured values, each of which begins with the number of its function, to JSON text."""
        if self._texts == [_same_text]:
            return _without_numbers(captured)

        def text(value: bytes | None) -> str | None:
            if value is None:
                return None
            return self._texts[int(np.frombuffer(value[:4], np.uint32)[0])](memoryview(value)[4:])

        return pa.array([text(value) for value in captured.to_pylist()], pa.string())


def _same_text(value: memoryview) -> str:
    return str(value, "utf-8")


def _without_numbers(captured: pa.Array) -> pa.Array:
    """Remove the first four bytes of each value. The others are UTF-8, which the core has checked."""
    validity, ends, data = captured.buffers()
    offsets = np.frombuffer(ends, np.int32, len(captured) + 1)
    present = np.asarray(captured.is_valid())
    kept = np.ones(offsets[-1], bool)
    kept[offsets[:-1][present][:, None] + np.arange(4)] = False
    texts = np.frombuffer(data, np.uint8, offsets[-1])[kept]
    offsets = offsets - 4 * np.append(0, np.cumsum(present)).astype(np.int32)
    parts = [validity, pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), len(captured), parts, captured.null_count)


@dataclass(eq=False)
class Column:
    """A node of the tree of columns. Its index is its position in depth-first order."""

    type: ValueType  # without null
    kind: int
    arrow: pa.DataType
    width: int = 0
    precision: int = 0
    children: list[tuple[str, Column]] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    is_union: bool = False  # a struct with a member for each branch
    index: int = 0
    last: int = 0
    rest: Column | None = None
    """Of the first column: the column with the JSON text of members without a column. None: they are skipped."""

    def walk(self) -> Iterator[Column]:
        """Yield the column and all columns below it, in depth-first order."""
        yield self
        for _, child in self.children:
            yield from child.walk()

    def add_rest(self) -> Column:
        """Add a column for members without a column. It comes after all others, and can have fewer rows."""
        self.rest = Column(Simple("string"), BINARY, pa.string(), index=self.last, last=self.last + 1)
        return self.rest


def columns_of(type_: ValueType, fields: Fields = None) -> Column:
    """Return the columns for a type that is not recursive. With `fields`, only these fields have columns."""
    root = _column(type_, fields)
    columns = list(root.walk())
    if len(columns) > MOST_COLUMNS:
        raise TooManyColumnsError(f"the schema needs {len(columns)} columns; the limit is {MOST_COLUMNS}")
    for index, column in enumerate(columns):
        column.index = index
    for column in reversed(columns):
        column.last = column.children[-1][1].last if column.children else column.index + 1
    return root


_SIMPLE = {
    "boolean": (BITS, 0, pa.bool_()),
    "int": (FIXED, 4, pa.int32()),
    "long": (FIXED, 8, pa.int64()),
    "uint": (FIXED, 4, pa.uint32()),
    "ulong": (FIXED, 8, pa.uint64()),
    "float": (FIXED, 4, pa.float32()),
    "double": (FIXED, 8, pa.float64()),
    "bytes": (BINARY, 0, pa.binary()),
    "string": (BINARY, 0, pa.string()),
    "null": (NULLS, 0, pa.null()),
    JSON_TEXT: (BINARY, 0, pa.binary()),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "duration-micros": pa.duration("us"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


def _column(type_: ValueType, fields: Fields = None) -> Column:
    if isinstance(type_, Union):
        others = type_.others
        if len(others) == 1:
            return _column(others[0], fields)
        if not others:
            return Column(Simple("null"), NULLS, pa.null())
        children = [(branch_name(b), _column(b)) for b in others]
        return Column(type_, STRUCT, _struct(children), children=children, is_union=True)
    if isinstance(type_, Record):
        chosen = [f for f in type_.fields if fields is None or f.name in fields]
        children = [(f.name, _column(f.type, None if fields is None else fields[f.name])) for f in chosen]
        return Column(type_, STRUCT, _struct(children), children=children)
    if isinstance(type_, Array):
        item = _column(type_.items, fields)
        return Column(type_, LIST, pa.list_(finished_type(item)), children=[("item", item)])
    if isinstance(type_, Map):
        members = [("key", _column(type_.keys)), ("value", _column(type_.values, fields))]
        entries = Column(type_, STRUCT, _struct(members), children=members)
        arrow = pa.map_(members[0][1].arrow, finished_type(members[1][1]))
        return Column(type_, LIST, arrow, children=[("entries", entries)])
    if isinstance(type_, Enum):
        dictionary = pa.dictionary(pa.int32(), pa.string())
        return Column(type_, FIXED, dictionary, 8 if type_.open else 4, symbols=type_.symbols)
    logical: Logical | None = type_.logical
    if logical is not None and logical.name == "decimal":
        small = logical.precision <= 38
        arrow = (pa.decimal128 if small else pa.decimal256)(logical.precision, logical.scale)
        return Column(type_, FIXED, arrow, 16 if small else 32, logical.precision)
    if isinstance(type_, Fixed):
        if logical == Logical("uuid"):
            return Column(type_, BINARY, pa.string())
        if type_.size > MOST_FIXED_BYTES:
            raise ValueError(
                f"values of the fixed type {type_.name} have {type_.size} bytes; the limit is {MOST_FIXED_BYTES} "
                "bytes; choose columns without it"
            )
        return Column(type_, FIXED, pa.binary(type_.size), type_.size)
    kind, width, arrow = _SIMPLE[type_.kind]
    return Column(type_, kind, _LOGICAL.get(logical.name, arrow) if logical else arrow, width)


def finished_type(column: Column) -> pa.DataType:
    """Return the type of the finished column."""
    return pa.string() if column.type.kind == JSON_TEXT else column.arrow


def _struct(children: Sequence[tuple[str, Column]]) -> pa.DataType:
    return pa.struct([pa.field(name, finished_type(child)) for name, child in children])


def build_array(root: Column, buffers: Sequence[Buffers], captures: Captures) -> pa.Array:
    """Return the Arrow array of a column tree."""
    return _Assembly(buffers, captures).array(root)


def build_rest(rest: Column, buffers: Sequence[Buffers], rows: int) -> pa.Array:
    """Return the Arrow array of the column that `Column.add_rest` added."""
    array = _Assembly(buffers, Captures()).array(rest)
    return (
        pa.concat_arrays([array, pa.nulls(rows - len(array), pa.string())])
        if len(array)
        else pa.nulls(rows, pa.string())
    )


class _Assembly:
    def __init__(self, buffers: Sequence[Buffers], captures: Captures) -> None:
        self._buffers = buffers
        self._captures = captures

    def array(self, column: Column) -> pa.Array:
        rows, nulls, validity, offsets, data, filled = self._buffers[column.index]
        if column.kind == NULLS:
            return pa.nulls(rows)
        bits = _buffer(validity, (rows + 7) // 8) if nulls else None
        if column.kind == STRUCT:
            children = [self.array(child) for _, child in column.children]
            return pa.Array.from_buffers(column.arrow, rows, [bits], nulls, children=children)
        if column.kind == LIST:
            return self._list(column, rows, nulls, [bits, _buffer(offsets, 4 * (rows + 1))])
        if column.kind == BINARY:
            parts = [bits, _buffer(offsets, 4 * (rows + 1)), _buffer(data, filled)]
            array = pa.Array.from_buffers(column.arrow, rows, parts, nulls)
            return self._captures.to_json(array) if column.type.kind == JSON_TEXT else array
        if column.kind == BITS:
            return pa.Array.from_buffers(column.arrow, rows, [bits, _buffer(data, (rows + 7) // 8)], nulls)
        content = _buffer(data, rows * column.width)
        if column.type.kind == "enum":
            symbols: Sequence[str] = column.symbols
            if column.width == 8:
                symbols, content = _with_numbers(symbols, np.frombuffer(content, np.int64))
            indexes = pa.Array.from_buffers(pa.int32(), rows, [bits, content], nulls)
            return pa.DictionaryArray.from_arrays(indexes, pa.array(symbols, pa.string()), safe=False)
        return pa.Array.from_buffers(column.arrow, rows, [bits, content], nulls)

    def _list(self, column: Column, rows: int, nulls: int, parts: list[Any]) -> pa.Array:
        child = column.children[0][1]
        if column.type.kind == "array":
            return pa.Array.from_buffers(column.arrow, rows, parts, nulls, children=[self.array(child)])
        members = [self.array(c) for _, c in child.children]
        fields = [pa.field("key", members[0].type, False), pa.field("value", members[1].type)]
        entries = pa.StructArray.from_arrays(members, fields=fields)
        count, replaced, validity, *_ = self._buffers[child.index]
        if replaced:  # the map contains a later entry with the same key
            assert validity is not None
            kept = np.unpackbits(validity, count=count, bitorder="little").astype(bool)
            before = np.concatenate([[0], np.cumsum(kept)])
            parts[1] = pa.py_buffer(before[np.frombuffer(parts[1], np.int32)].astype(np.int32))
            entries = entries.filter(pa.array(kept))
        return pa.Array.from_buffers(column.arrow, rows, parts, nulls, children=[entries])


def _with_numbers(symbols: Sequence[str], items: Any) -> tuple[list[str], pa.Buffer]:
    """Return the symbols of an open enum and the indexes of its items. Each number without a symbol becomes one."""
    numbers = np.unique(items[items >= NO_SYMBOL])
    indexes = items.astype(np.int32)
    if len(numbers):
        others = items >= NO_SYMBOL
        indexes[others] = len(symbols) + np.searchsorted(numbers, items[others])
    return [*symbols, *map(str, (numbers & 0xFFFFFFFF).astype(np.uint32).view(np.int32))], pa.py_buffer(indexes)


def _buffer(array: ByteArray | None, used: int) -> pa.Buffer:
    """Return the used part of an array as an Arrow buffer. A small part is copied, so that it does not keep the array."""
    assert array is not None
    if used < len(array) // 2:
        return pa.py_buffer(array[:used].copy())
    return pa.py_buffer(array).slice(0, used)

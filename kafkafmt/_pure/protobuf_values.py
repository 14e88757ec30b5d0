"""Decode Protobuf values into columns, by the programs of values/protobuf/program.py.

A value is first read as a tree, in which parts of a message are merged, and then added to the columns.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, NamedTuple

import numpy as np

from ..constants import (
    PROTOBUF_ABSENT,
    PROTOBUF_CELLS,
    PROTOBUF_ENTRY,
    PROTOBUF_INLINE,
    PROTOBUF_NUMBERS,
    PROTOBUF_OPS,
    PROTOBUF_PACKS,
    PROTOBUF_REPEATED,
    PROTOBUF_WHOLE,
)
from .value_columns import BINARY, BITS, DEPTH, FIXED, Column, Fault, ValueProgram, put_bytes, put_null

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)
MOST_INDEXES = 64
TYPE_SIZE = 8
MESSAGES = ("message", "timestamp", "duration")
NO_SYMBOL = 1 << 32


class _Field(NamedTuple):
    number: int
    op: str
    wire: int
    flags: int
    absent: str
    column: int
    element: int
    type: int
    argument: int
    oneof: int

    @property
    def is_repeated(self) -> bool:
        return bool(self.flags & PROTOBUF_REPEATED)


class _Type(NamedTuple):
    fields: dict[int, _Field]
    fills: list[_Field]
    cells: int
    columns: dict[int, int]
    """Columns of the fields by their numbers."""


class _Code:
    """The fields and types of a program."""

    def __init__(self, program: ValueProgram) -> None:
        tables = self.tables = program.tables
        self.fields = [
            _Field(f[0], PROTOBUF_OPS[f[1]], f[2], f[3], PROTOBUF_ABSENT[f[4]], *f[7:12]) for f in program.code
        ]
        self.root = self.fields[tables[0]]
        self.maps = tables[tables[3] + 1 : tables[3] + 1 + tables[tables[3]]]
        self._types: dict[int, _Type] = {}

    def type(self, index: int) -> _Type:
        if index not in self._types:
            start = self.tables[4] + TYPE_SIZE * index
            first, count, _, _, fills, fill_count, _, cells = self.tables[start : start + TYPE_SIZE]
            fields = {f.number: f for f in self.fields[first : first + count]}
            filled = [self.fields[i] for i in self.tables[fills + 1 : fills + 2 * fill_count : 2]]
            self._types[index] = _Type(fields, filled, cells, {n: f.column for n, f in fields.items()})
        return self._types[index]

    def symbol(self, table: int, number: int) -> int | None:
        """Return the index of the symbol of a number, -2 if the column does not have it, or None if it is unknown."""
        dense, others = self.tables[table : table + 2]
        start = table + 4
        if 0 <= number < dense:
            return self.tables[start + number]
        numbers = self.tables[start + dense : start + dense + others]
        if number not in numbers:
            return None
        return self.tables[start + dense + others + numbers.index(number)]


class _Tree(dict[int, Any]):
    """The fields of a message by their numbers: what their columns get, trees, or lists of these."""

    def __init__(self, type_: _Type | None = None) -> None:
        self.columns = {} if type_ is None else type_.columns


class _Time:
    def __init__(self) -> None:
        self.seconds = self.nanos = 0


class ProtobufRun:
    """One value, which a program decodes."""

    def __init__(self, columns: list[Column], program: ValueProgram, body: memoryview) -> None:
        if program.parsed is None:
            program.parsed = _Code(program)
        self._code: _Code = program.parsed
        self._columns = columns
        self._body, self._position = body, 0
        self._budget = PROTOBUF_CELLS
        self.at = 0
        self._has_unknown_value = False
        self.unknown = 0
        """Number of fields that the schema does not contain."""

    def decode(self) -> None:
        code, root, end = self._code, self._code.root, len(self._body)
        if code.tables[1]:
            self._follow_indexes()
        start = self._position
        holder = _Tree()
        inner = code.fields[root.type] if root.op == "capture" else root
        self._content(inner, holder, end, 0, start, 0)
        rows = {index: len(self._columns[index].items) for index in code.maps}
        if root.op == "capture":
            self._add_item(root, bytes(self._body[start:end]))
        else:
            self._add_item(root, holder[root.number])
        for index, first in rows.items():
            self._replace_entries(index, first)

    def _follow_indexes(self) -> None:
        tables = self._code.tables
        faults = []
        for tree, zigzag in ((1, True), (2, True), (1, False)):
            self._position = 0
            try:
                state = self._state(tables[tree], zigzag)
            except Fault as fault:
                faults.append(fault)
                continue
            if not state:
                raise Fault("no_branch")
            return
        raise faults[0]

    def _state(self, node: int, zigzag: bool) -> int:
        tables = self._code.tables
        count = self._index(zigzag)
        if not 0 <= count <= MOST_INDEXES:
            raise Fault("bad_index")
        for index in [self._index(zigzag) for _ in range(count)] or [0]:
            if not 0 <= index < tables[node + 1]:
                raise Fault("bad_index")
            node = tables[node + 2 + index]
            if node < 0:
                raise Fault("bad_index")
        return tables[node]

    def _index(self, zigzag: bool) -> int:
        number = 0
        for i in range(5):
            if self._position == len(self._body):
                raise Fault("truncated")
            byte = self._body[self._position]
            self._position += 1
            number |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1) if zigzag else number
        return -1

    # Reading

    def _message(self, type_: _Type, tree: Any, end: int, group: int, opened: int, depth: int) -> None:
        self._budget -= type_.cells
        if self._budget < 0:
            raise Fault("too_large")
        while self._position < end:
            start = self.at = self._position
            number, wire = self._tag(end)
            if wire == END_GROUP:
                if number != group:
                    raise Fault("bad_index")
                return
            field = type_.fields.get(number)
            packed = field is not None and wire == LENGTH != field.wire and bool(field.flags & PROTOBUF_PACKS)
            if field is None or not (packed or wire == field.wire):
                self.unknown += 1
                self._skip(number, wire, end, depth)
            elif field.op == "skip":
                self._skip(number, wire, end, depth)
                self._clear_oneof(field, tree)
            elif field.flags & PROTOBUF_WHOLE:
                self._items(self._code.fields[field.type], _Tree(), packed, end, start, depth)
                tree[number] = tree.get(number, b"") + bytes(self._body[start : self._position])
            else:
                self._items(field, tree, packed, end, start, depth)
        if group:
            self.at = opened
            raise Fault("truncated")

    def _items(self, field: _Field, tree: Any, packed: bool, end: int, start: int, depth: int) -> None:
        if not packed:
            self._item(field, tree, end, start, depth)
            return
        last = self._length(end)
        while self._position < last:
            self._item(field, tree, last, start, depth)

    def _item(self, field: _Field, tree: Any, end: int, start: int, depth: int) -> None:
        if field.op in MESSAGES:
            group = field.number if field.wire == GROUP else 0
            last = end if group else self._length(end)
            self._content(field, tree, last, group, start, depth + 1)
            return
        if field.op == "capture":
            self._capture(field, tree, end, start, depth)
            return
        value = self._value(field, end)
        if value is not None:
            if isinstance(tree, _Time):
                setattr(tree, field.op, value)
            elif field.op == "path":
                tree[field.number] = tree[field.number] + b"," + value if tree.get(field.number) else value
            else:
                self._clear_oneof(field, tree)
                _store(field, tree, value)

    def _content(self, field: _Field, tree: Any, end: int, group: int, opened: int, depth: int) -> None:
        if depth > DEPTH:
            raise Fault("too_deep")
        self._clear_oneof(field, tree)
        earlier = None if field.is_repeated or field.element < 0 else tree.get(field.number)
        inner: Any
        if field.op == "message":
            type_ = self._code.type(field.type)
            inner = _Tree(type_) if earlier is None else earlier
            self._message(type_, inner, end, group, opened, depth)
            if not self._has_unknown_value:
                _store(field, tree, inner)
            self._has_unknown_value = False  # then the whole entry of a map is an unknown field
            return
        inner = _Time()
        if earlier is not None:  # the columns contain microseconds
            micros = int.from_bytes(earlier, "little", signed=True)
            sign = -1 if field.op == "duration" and micros < 0 else 1
            seconds, rest = divmod(sign * micros, 10**6)
            inner.seconds, inner.nanos = sign * seconds, sign * rest * 1000
        self._message(self._code.type(field.type), inner, end, group, opened, depth)
        self.at = opened
        seconds, nanos = inner.seconds, inner.nanos
        if not -9223372036854 <= seconds <= 9223372036853 or abs(nanos) > 999_999_999:
            raise Fault("bad_number")
        if nanos < 0 if field.op == "timestamp" else seconds * nanos < 0:
            raise Fault("bad_number")
        micros = seconds * 10**6 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))
        _store(field, tree, micros.to_bytes(8, "little", signed=True))

    def _capture(self, field: _Field, tree: Any, end: int, start: int, depth: int) -> None:
        inner, begin, before = self._code.fields[field.type], self._position, self.unknown
        if inner.wire == LENGTH:
            self._length(end)
            content, self._position = self._position, begin
        else:
            content = begin
        self._item(inner, _Tree(), end, start, depth)
        if inner.op == "enum" and self.unknown > before:
            return
        self._clear_oneof(field, tree)
        raw = bytes(self._body[content : self._position])
        if inner.op in MESSAGES and not field.is_repeated:
            raw = tree.get(field.number, b"") + raw
        _store(field, tree, raw)

    def _value(self, field: _Field, end: int) -> Any:
        """Read what the column of a scalar gets. None: the number of a closed enum is unknown."""
        op = field.op
        if op in ("text", "bytes", "path"):
            last = self._length(end)
            raw = bytes(self._body[self._position : last])
            if op != "bytes":
                try:
                    raw.decode()
                except UnicodeDecodeError:
                    raise Fault("bad_utf8") from None
            self._position = last
            return raw
        if op in ("fixed32", "fixed64"):
            return self._raw(4 if op == "fixed32" else 8, end)
        if op == "wider":
            return self._widened(field, end)
        number = self._varint(end, 10, "bad_number") % 2**64
        if op == "bool":
            return bool(number)
        if op == "enum":
            number = _signed(number, 32)
            index = self._code.symbol(field.argument, number)
            if index is None and self._code.tables[field.argument + 2]:
                self.unknown += 1
                self._has_unknown_value |= bool(field.flags & PROTOBUF_ENTRY)
                return None
            return _symbol(index, number)
        if op in ("seconds", "nanos"):
            return _signed(number, 64 if op == "seconds" else 32)
        bits = 32 if op.endswith("32") else 64
        number %= 2**bits
        if op.startswith("zigzag"):
            number = ((number >> 1) ^ -(number & 1)) % 2**bits
        return number.to_bytes(bits // 8, "little")

    def _widened(self, field: _Field, end: int) -> bytes:
        kind, to_double = PROTOBUF_NUMBERS[field.argument // 2], field.argument % 2
        value: Any
        if field.wire == VARINT:
            number = self._varint(end, 10, "bad_number") % 2 ** (32 if kind.endswith("32") else 64)
            if kind.startswith("sint"):
                value = (number >> 1) ^ -(number & 1)
            else:
                value = number if kind.startswith("u") else _signed(number, int(kind[-2:]))
        else:
            raw = self._raw(8 if field.wire == FIXED64 else 4, end)
            codes = {"fixed32": "<I", "sfixed32": "<i", "fixed64": "<Q", "sfixed64": "<q", "float": "<f"}
            value = np.frombuffer(raw, np.float32)[0] if kind == "float" else struct.unpack(codes[kind], raw)[0]
        return np.float64(value).tobytes() if to_double else (value % 2**64).to_bytes(8, "little")

    def _clear_oneof(self, field: _Field, tree: Any) -> None:
        if field.oneof >= 0:
            count = self._code.tables[field.oneof]
            members = self._code.tables[field.oneof + 1 : field.oneof + 1 + count]
            for number in [n for n in tree if n != field.number and tree.columns.get(n) in members]:
                del tree[number]

    def _tag(self, end: int) -> tuple[int, int]:
        tag = self._varint(end, 5, "bad_index")
        number, wire = tag >> 3, tag & 7
        if tag >= 2**32 or number == 0 or wire > FIXED32:
            raise Fault("bad_index")
        return number, wire

    def _skip(self, number: int, wire: int, end: int, depth: int) -> None:
        if wire == VARINT:
            self._varint(end, 10, "bad_number")
        elif wire == LENGTH:
            self._position = self._length(end)
        elif wire == GROUP:
            if depth == DEPTH:
                raise Fault("too_deep")
            while True:
                inner, kind = self._tag(end)
                if kind == END_GROUP:
                    if inner != number:
                        raise Fault("bad_index")
                    return
                self._skip(inner, kind, end, depth + 1)
        else:
            self._raw(8 if wire == FIXED64 else 4, end)

    def _varint(self, end: int, most: int, fault: str) -> int:
        number = count = 0
        while True:
            if count == most:
                raise Fault(fault)
            byte = self._raw(1, end)[0]
            number |= (byte & 0x7F) << 7 * count
            if byte < 0x80:
                return number
            count += 1

    def _length(self, end: int) -> int:
        """Read a length. Return the position after the bytes that follow it."""
        length = self._varint(end, 5, "bad_length")
        if length > end - self._position:
            raise Fault("truncated")
        return self._position + length

    def _raw(self, size: int, end: int) -> bytes:
        if size > end - self._position:
            raise Fault("truncated")
        self._position += size
        return bytes(self._body[self._position - size : self._position])

    # Adding to columns

    def _add_message(self, type_: _Type, tree: _Tree) -> None:
        for field in type_.fills:
            self._add_field(field, tree.get(field.number) if field.number else None)

    def _add_field(self, field: _Field, value: Any) -> None:
        column = self._columns[field.column]
        if field.is_repeated and not field.flags & PROTOBUF_WHOLE:
            for item in value or ():
                self._add_item(field, item)
            column.items.append((len(self._columns[field.column + 1].items), True))
        elif value is not None:
            self._add_item(field, value)
        elif field.absent == "null":
            put_null(self._columns, field.column)
        elif field.absent == "message":
            self._add_item(field, _Tree() if field.op == "message" else bytes(8))
        elif field.absent == "text":
            self._add_item(field, b"")
        elif field.absent == "enum":
            default = self._code.tables[field.argument + 3]
            self._add_item(field, _symbol(self._code.symbol(field.argument, default), default))
        elif column.kind == BINARY:
            put_bytes(column, b"")
        elif column.kind in (FIXED, BITS):
            column.items.append(False if column.kind == BITS else bytes(column.width))
        else:
            column.items.append((column.items[-1][0] if column.items else 0, True))

    def _add_item(self, field: _Field, value: Any) -> None:
        column = self._columns[field.element]
        if field.op == "message":
            if not field.flags & PROTOBUF_INLINE:
                column.items.append(())
            self._add_message(self._code.type(field.type), value)
        elif field.op == "capture":
            put_bytes(column, field.argument.to_bytes(4, sys.byteorder) + value)
        elif column.kind == BINARY:
            put_bytes(column, value)
        else:
            column.items.append(value)

    def _replace_entries(self, index: int, first: int) -> None:
        """Make the entries of maps null whose key a later entry has."""
        rows, entries, keys = (self._columns[index + i].items for i in range(3))
        for row in range(first, len(rows)):
            seen: set[Any] = set()
            for entry in reversed(range(rows[row - 1][0] if row else 0, rows[row][0])):
                if keys[entry] in seen:
                    entries[entry] = None
                seen.add(keys[entry])


def _store(field: _Field, tree: Any, value: Any) -> None:
    if field.is_repeated:
        tree.setdefault(field.number, []).append(value)
    else:
        tree[field.number] = value


def _symbol(index: int | None, number: int) -> bytes:
    item = index if index is not None and index >= 0 else NO_SYMBOL + number % NO_SYMBOL
    return item.to_bytes(8, "little")


def _signed(number: int, bits: int) -> int:
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

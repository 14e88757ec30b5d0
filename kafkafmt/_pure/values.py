"""Decode values into Arrow's layout, by the programs of values/avro_program.py."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import numpy as np

from ..constants import VALUE_COLUMNS, VALUE_FAULTS, VALUE_OPS
from ..types import Buffer, ByteArray, IntArray, LengthArray
from .varint import view_of

NULLS, BITS, FIXED, BINARY, LIST, STRUCT = range(len(VALUE_COLUMNS))
FAULTS = {name: number for number, name in enumerate(VALUE_FAULTS)}
DEPTH, EMPTY_ITEMS = 64, 4096
ID_PREFIX, NO_VALUE, UNKNOWN_PROGRAM = 5, -1, -2
DAY = {"time_millis": 86_400_000, "time_micros": 86_400_000_000}
READERS = {"int": "int", "time_millis": "int", "long": "long", "time_micros": "long"}
_FLOATS = {"float": "<f", "double": "<d"}


class ValueProgram:
    def __init__(self, code: Any, tables: Any, constants: Any) -> None:
        self.code = [(VALUE_OPS[c], *rest) for c, *rest in code.tolist()]
        self.tables: list[int] = tables.tolist()
        self.constants = memoryview(constants)


class _Fault(Exception):
    def __init__(self, name: str) -> None:
        self.number = FAULTS[name]


class _Column:
    """The items of a column: numbers, bytes, the ends of lists, or nothing for structs. None: null."""

    def __init__(self, kind: int, width: int, last: int, precision: int) -> None:
        self.kind, self.width, self.last, self.precision = kind, width, last, precision
        self.items: list[Any] = []
        self.filled = 0


class ColumnBuilder:
    def __init__(
        self,
        kinds: Sequence[int],
        widths: Sequence[int],
        lasts: Sequence[int],
        precisions: Sequence[int],
        limits: ByteArray,
        take: Callable[[int], ByteArray],
    ) -> None:
        self._columns = list(map(_Column, kinds, widths, lasts, precisions))

    @property
    def rows(self) -> int:
        return len(self._columns[0].items)

    def decode(
        self,
        programs: list[ValueProgram],
        which: LengthArray,
        source: Buffer,
        positions: IntArray,
        lengths: LengthArray,
        faults: IntArray,
    ) -> int:
        view, faulty = view_of(source), 0
        for row, (number, position, length) in enumerate(
            zip(which.tolist(), positions[: len(which)].tolist(), lengths[: len(which)].tolist(), strict=True)
        ):
            before = self.rows
            if number < 0:
                self._null(0)
                continue
            if number >= len(programs) or position < 0 or length < 0 or length > len(view) - position:
                raise ValueError(f"span {row} is outside the buffer, or its program does not exist")
            run = _Run(self._columns, programs[number], view[position : position + length])
            try:
                run.decode()
            except _Fault as fault:
                self._cut(0, before)
                self._null(0)
                faults[faulty] = row, fault.number, run.at
                faulty += 1
        return faulty

    def finish(self) -> list[tuple[int, int, ByteArray | None, ByteArray | None, ByteArray | None, int]]:
        found = [_finished(column) for column in self._columns]
        for column in self._columns:
            column.items, column.filled = [], 0
        return found

    def _null(self, index: int) -> None:
        put_null(self._columns, index)

    def _cut(self, index: int, rows: int) -> None:
        column = self._columns[index]
        if column.kind == BINARY:
            column.filled -= sum(len(item) for item in column.items[rows:] if item is not None)
        del column.items[rows:]
        if column.kind == LIST:
            self._cut(index + 1, next((end for end, _ in reversed(column.items)), 0))
        elif column.kind == STRUCT:
            for child in children(self._columns, index):
                self._cut(child, rows)


def children(columns: list[_Column], index: int) -> list[int]:
    found, child = [], index + 1
    while child < columns[index].last:
        found.append(child)
        child = columns[child].last
    return found


def put_null(columns: list[_Column], index: int) -> None:
    column = columns[index]
    if column.kind == LIST:
        column.items.append((column.items[-1][0] if column.items else 0, False))
        return
    column.items.append(None)
    if column.kind == STRUCT:
        for child in children(columns, index):
            put_null(columns, child)


class _Run:
    """One value, which a program decodes."""

    def __init__(self, columns: list[_Column], program: ValueProgram, body: memoryview) -> None:
        self._columns, self._program = columns, program
        self._body, self._position = body, 0
        self._budget = len(body) + EMPTY_ITEMS
        self.at = 0

    def decode(self) -> None:
        code, tables, columns = self._program.code, self._program.tables, self._columns
        loops: list[list[int]] = []
        calls: list[int] = []
        saved: tuple[memoryview, int] | None = None
        captured, o = 0, -1
        while True:
            o += 1
            name, null, index, jump, argument = code[o]
            column = columns[index] if index >= 0 else None
            self.at = self._position if saved is None else saved[1]
            if null >= 0:
                branch = self._long()
                if not 0 <= branch <= 1:
                    raise _Fault("bad_index")
                if branch == null:
                    if column is not None:
                        put_null(columns, index)
                    o = jump - 1
                    continue
            if name == "end":
                if self._position != len(self._body):
                    raise _Fault("trailing_bytes")
                return
            if name == "record":
                assert column is not None
                column.items.append(())
            elif name == "null":
                if column is not None:
                    put_null(columns, index)
            elif name == "jump":
                o = jump - 1
            elif name == "union":
                branch = self._long()
                if not 0 <= branch < tables[argument]:
                    raise _Fault("bad_index")
                if tables[argument + 1 + branch] < 0:
                    raise _Fault("no_branch")
                o = tables[argument + 1 + branch] - 1
            elif name == "array":
                items = self._block(argument)
                if items:
                    if len(loops) == DEPTH:
                        raise _Fault("too_deep")
                    loops.append([items, o, index])
                    continue
                if column is not None:
                    column.items.append((column.items[-1][0] if column.items else 0, True))
                o = jump - 1
            elif name == "loop":
                loop = loops[-1]
                loop[0] -= 1
                if not loop[0]:
                    loop[0] = self._block(code[loop[1]][4])
                if loop[0]:
                    o = loop[1]
                    continue
                if loop[2] >= 0:
                    columns[loop[2]].items.append((len(columns[loop[2] + 1].items), True))
                loops.pop()
            elif name == "call":
                if len(calls) == DEPTH:
                    raise _Fault("too_deep")
                calls.append(o)
                o = jump - 1
            elif name == "return":
                o = calls.pop()
            elif name == "capture":
                captured = self._position
            elif name == "captured":
                self.at = captured
                raw = argument.to_bytes(4, sys.byteorder) + bytes(self._body[captured : self._position])
                self._put_bytes(column, raw)
            elif name == "default":
                saved = self._body, self._position
                self._body, self._position = self._program.constants, argument
            elif name == "defaulted":
                assert saved is not None
                (self._body, self._position), saved = saved, None
            else:
                self._leaf(name, column, argument)

    def _leaf(self, name: str, column: _Column | None, argument: int) -> None:
        value: Any
        if name in READERS:
            value = self._int() if READERS[name] == "int" else self._long()
            if name in DAY and not 0 <= value < DAY[name]:
                raise _Fault("bad_number")
        elif name == "boolean":
            value = self._raw(1)[0]
            if value > 1:
                raise _Fault("bad_number")
        elif name in _FLOATS:
            value = self._raw(struct.calcsize(_FLOATS[name]))
        elif name == "float_to_double":
            value = np.float64(np.frombuffer(self._raw(4), np.float32)[0]).tobytes()
        elif name == "int_to_long":
            value = self._int()
        elif name in ("int_to_float", "long_to_float"):
            number = self._int() if name == "int_to_float" else self._long()
            value = np.array(number, np.int64).astype(np.float32).tobytes()  # rounded once, not by double first
        elif name in ("int_to_double", "long_to_double"):
            value = np.float64(self._int() if name == "int_to_double" else self._long()).tobytes()
        elif name in ("text", "bytes"):
            value = self._raw(self._length())
            if name == "text" and (column is not None or argument):
                try:
                    value.decode()
                except UnicodeDecodeError:
                    raise _Fault("bad_utf8") from None
        elif name == "fixed_bytes":
            value = self._raw(argument)
        elif name in ("decimal", "fixed_decimal"):
            size, precision = argument, 0
            if column is None:
                precision, size = self._program.tables[argument : argument + 2]
            elif name == "decimal":
                size = -1
            number = int.from_bytes(self._raw(self._length() if size < 0 else size), "big", signed=True)
            if abs(number) >= 10 ** (precision if column is None else column.precision):
                raise _Fault("bad_number")
            value = b"" if column is None else number.to_bytes(column.width, "little", signed=True)
        elif name == "uuid":
            value = str(UUID(bytes=self._raw(16))).encode()
        else:
            assert name == "enum"
            number = self._int()
            if not 0 <= number < self._program.tables[argument]:
                raise _Fault("bad_index")
            value = self._program.tables[argument + 1 + number]
            if column is not None and value < 0:
                raise _Fault("no_symbol")
        if column is None:
            return
        if column.kind == BINARY:
            self._put_bytes(column, value)
        elif column.kind == FIXED:
            column.items.append(
                value if isinstance(value, bytes) else value.to_bytes(column.width, "little", signed=True)
            )
        else:
            column.items.append(value)

    def _put_bytes(self, column: _Column | None, raw: bytes) -> None:
        assert column is not None
        if column.filled + len(raw) > 2**31 - 17:
            raise _Fault("too_large")
        column.items.append(raw)
        column.filled += len(raw)

    def _raw(self, size: int) -> bytes:
        if size > len(self._body) - self._position:
            raise _Fault("truncated")
        self._position += size
        return bytes(self._body[self._position - size : self._position])

    def _long(self) -> int:
        bits = shift = 0
        while True:
            byte = self._raw(1)[0]
            if shift == 63 and byte > 1:
                raise _Fault("bad_number")
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (bits >> 1) ^ -(bits & 1)
            shift += 7

    def _int(self) -> int:
        number = self._long()
        if not -(2**31) <= number < 2**31:
            raise _Fault("bad_number")
        return number

    def _length(self) -> int:
        length = self._long()
        if length < 0:
            raise _Fault("bad_length")
        if length > len(self._body) - self._position:
            raise _Fault("truncated")
        return length

    def _block(self, takes_bytes: int) -> int:
        """Read the number of items of the next block of an array or map."""
        items = self._long()
        if items < 0:
            items = -items
            if items == 2**63:
                raise _Fault("bad_length")
            self._length()
        if takes_bytes:
            if items > len(self._body) - self._position:
                raise _Fault("truncated")
        elif items > self._budget:
            raise _Fault("too_large")
        else:
            self._budget -= items
        return items


def _finished(column: _Column) -> tuple[int, int, ByteArray | None, ByteArray | None, ByteArray | None, int]:
    items, rows = column.items, len(column.items)
    if column.kind == NULLS:
        return rows, rows, None, None, None, 0
    present = np.array([item[1] if column.kind == LIST else item is not None for item in items], bool)
    validity, nulls = np.packbits(present, bitorder="little"), rows - int(present.sum())
    offsets = data = None
    if column.kind == LIST:
        offsets = np.array([0, *(end for end, _ in items)], np.int32).view(np.uint8)
    elif column.kind == BINARY:
        lengths = np.array([0, *(len(item or b"") for item in items)], np.int64)
        offsets = np.cumsum(lengths).astype(np.int32).view(np.uint8)
        data = np.frombuffer(b"".join(item or b"" for item in items), np.uint8)
    elif column.kind == FIXED:
        data = np.frombuffer(b"".join(bytes(column.width) if item is None else item for item in items), np.uint8)
    elif column.kind == BITS:
        data = np.packbits(np.array([bool(item) for item in items], bool), bitorder="little")
    return rows, nulls, validity, offsets, data, column.filled


def choose_programs(
    source: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    known: LengthArray,
    which: LengthArray,
    bodies: IntArray,
    sizes: LengthArray,
) -> int:
    view, unknown = view_of(source), 0
    for row, (position, length) in enumerate(zip(positions.tolist(), lengths.tolist(), strict=True)):
        bodies[row], sizes[row], which[row] = position, 0, NO_VALUE
        if length < 0:
            continue
        if position < 0 or length > len(view) - position:
            raise ValueError(f"span {row} is outside the buffer")
        which[row] = UNKNOWN_PROGRAM
        if length >= ID_PREFIX and view[position] == 0:
            schema_id = int.from_bytes(view[position + 1 : position + ID_PREFIX], "big")
            bodies[row], sizes[row] = position + ID_PREFIX, length - ID_PREFIX
            if schema_id < len(known):
                which[row] = known[schema_id]
        unknown += which[row] == UNKNOWN_PROGRAM
    return int(unknown)

"""Decode Avro values into columns, by the programs of values/avro/program.py."""

from __future__ import annotations

import struct
import sys
from typing import Any
from uuid import UUID

import numpy as np

from ..constants import VALUE_OPS
from .value_columns import BINARY, DEPTH, FIXED, Column, Fault, ValueProgram, put_bytes, put_null

EMPTY_ITEMS = 4096
DAY = {"time_millis": 86_400_000, "time_micros": 86_400_000_000}
READERS = {"int": "int", "time_millis": "int", "long": "long", "time_micros": "long"}
_FLOATS = {"float": "<f", "double": "<d"}


class AvroRun:
    """One value, which a program decodes."""

    def __init__(self, columns: list[Column], program: ValueProgram, body: memoryview) -> None:
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
            number, null, index, jump, argument = code[o]
            name = VALUE_OPS[number]
            column = columns[index] if index >= 0 else None
            self.at = self._position if saved is None else saved[1]
            if null >= 0:
                branch = self._long()
                if not 0 <= branch <= 1:
                    raise Fault("bad_index")
                if branch == null:
                    if column is not None:
                        put_null(columns, index)
                    o = jump - 1
                    continue
            if name == "end":
                if self._position != len(self._body):
                    raise Fault("trailing_bytes")
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
                    raise Fault("bad_index")
                if tables[argument + 1 + branch] < 0:
                    raise Fault("no_branch")
                o = tables[argument + 1 + branch] - 1
            elif name == "array":
                items = self._block(argument)
                if items:
                    if len(loops) == DEPTH:
                        raise Fault("too_deep")
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
                    raise Fault("too_deep")
                calls.append(o)
                o = jump - 1
            elif name == "return":
                o = calls.pop()
            elif name == "capture":
                captured = self._position
            elif name == "captured":
                self.at = captured
                raw = argument.to_bytes(4, sys.byteorder) + bytes(self._body[captured : self._position])
                assert column is not None
                put_bytes(column, raw)
            elif name == "default":
                saved = self._body, self._position
                self._body, self._position = self._program.constants, argument
            elif name == "defaulted":
                assert saved is not None
                (self._body, self._position), saved = saved, None
            else:
                self._leaf(name, column, argument)

    def _leaf(self, name: str, column: Column | None, argument: int) -> None:
        value: Any
        if name in READERS:
            value = self._int() if READERS[name] == "int" else self._long()
            if name in DAY and not 0 <= value < DAY[name]:
                raise Fault("bad_number")
        elif name == "boolean":
            value = self._raw(1)[0]
            if value > 1:
                raise Fault("bad_number")
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
                    raise Fault("bad_utf8") from None
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
                raise Fault("bad_number")
            value = b"" if column is None else number.to_bytes(column.width, "little", signed=True)
        elif name == "rest_text":
            value = self._raw(len(self._body))
            try:
                value.decode()
            except UnicodeDecodeError:
                raise Fault("bad_utf8") from None
        elif name == "big_endian":
            if len(self._body) < argument:
                self.at = len(self._body)
            value = int.from_bytes(self._raw(argument), "big", signed=True)
        elif name == "uuid":
            value = str(UUID(bytes=self._raw(16))).encode()
        else:
            assert name == "enum"
            number = self._int()
            if not 0 <= number < self._program.tables[argument]:
                raise Fault("bad_index")
            value = self._program.tables[argument + 1 + number]
            if column is not None and value < 0:
                raise Fault("no_symbol")
        if column is None:
            return
        if column.kind == BINARY:
            put_bytes(column, value)
        elif column.kind == FIXED:
            column.items.append(
                value if isinstance(value, bytes) else value.to_bytes(column.width, "little", signed=True)
            )
        else:
            column.items.append(value)

    def _raw(self, size: int) -> bytes:
        if size > len(self._body) - self._position:
            raise Fault("truncated")
        self._position += size
        return bytes(self._body[self._position - size : self._position])

    def _long(self) -> int:
        bits = shift = 0
        while True:
            byte = self._raw(1)[0]
            if shift == 63 and byte > 1:
                raise Fault("bad_number")
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (bits >> 1) ^ -(bits & 1)
            shift += 7

    def _int(self) -> int:
        number = self._long()
        if not -(2**31) <= number < 2**31:
            raise Fault("bad_number")
        return number

    def _length(self) -> int:
        length = self._long()
        if length < 0:
            raise Fault("bad_length")
        if length > len(self._body) - self._position:
            raise Fault("truncated")
        return length

    def _block(self, takes_bytes: int) -> int:
        """Read the number of items of the next block of an array or map."""
        items = self._long()
        if items < 0:
            items = -items
            if items == 2**63:
                raise Fault("bad_length")
            self._length()
        if takes_bytes:
            if items > len(self._body) - self._position:
                raise Fault("truncated")
        elif items > self._budget:
            raise Fault("too_large")
        else:
            self._budget -= items
        return items

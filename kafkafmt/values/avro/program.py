"""Compile the program that decodes the values of an Avro schema into columns.

The core runs programs (`core.ValueProgram`). An instruction has five fields:

- `code`: index of its name in VALUE_OPS.
- `null_branch`: index of the null branch, if the value is in a union of null and one other branch.
  The instruction then reads the branch first. If it is null, the program continues at `jump`.
- `column`: index of the column that gets the value. -1: the value is skipped. A text is then only
  checked if `argument` is 1, and `argument` of a decimal is the index of its precision and its size.
- `jump`, `argument`: depend on the instruction.

The rules of schema resolution of the Avro specification are applied here, so the core knows nothing
about the type that a reader expects. A value for which there is no branch or no symbol is an error
of its record.
"""

from __future__ import annotations

import json
import struct
from functools import partial
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import VALUE_FORMATS, VALUE_OPS
from ..errors import UnresolvableError
from ..types import (
    JSON_TEXT,
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Record,
    Simple,
    Union,
    ValueType,
    branch_name,
)
from ..value_columns import Captures, Column
from .objects import avro_text
from .schema import is_recursive, takes_bytes

FORMAT = VALUE_FORMATS.index("avro")
CODES = {name: code for code, name in enumerate(VALUE_OPS)}
INSTRUCTION = np.dtype([("code", "i2"), ("null_branch", "i2"), ("column", "i4"), ("jump", "i4"), ("argument", "i4")])
PROMOTIONS = {
    ("int", "long"): "int_to_long",
    ("int", "float"): "int_to_float",
    ("int", "double"): "int_to_double",
    ("long", "float"): "long_to_float",
    ("long", "double"): "long_to_double",
    ("float", "double"): "float_to_double",
    ("string", "bytes"): "bytes",
    ("bytes", "string"): "text",
}
"""Instruction for each promotion of the specification: the type of the writer, and the type of the column."""
_PLAIN = {"boolean", "int", "long", "float", "double", "bytes", "string"}


def compile_avro(writer: ValueType, root: Column, captures: Captures, fill_defaults: bool = False) -> core.ValueProgram:
    """Compile a program for the values of `writer`. `fill_defaults`: a field that it lacks gets its default."""
    return _Compiler(captures, fill_defaults).program(writer, root)


def program_of_all(root: Column, size: int) -> core.ValueProgram:
    """Return a program that reads a whole value: a big-endian number of `size` bytes, or a text if that is 0."""
    name = "big_endian" if size else "rest_text"
    code = np.array([(CODES[name], -1, root.index, 1, size), (CODES["end"], -1, -1, 2, 0)], INSTRUCTION)
    return core.ValueProgram(FORMAT, code, np.empty(0, np.int32), np.empty(0, np.uint8))


class _Compiler:
    def __init__(self, captures: Captures, fill_defaults: bool) -> None:
        self._captures = captures
        self._fill_defaults = fill_defaults
        self._code: list[list[int]] = []
        self._tables: list[int] = []
        self._constants = bytearray()
        self._calls: dict[tuple[int, bool], list[int]] = {}
        """Instructions that call the subroutine of a record, by the id of the record and `checked`."""
        self._pending: list[tuple[Record, bool]] = []

    def program(self, writer: ValueType, root: Column) -> core.ValueProgram:
        self._value(writer, root)
        self._emit("end")
        starts = {}
        while self._pending:
            record, checked = self._pending.pop()
            starts[id(record), checked] = len(self._code)
            for field in record.fields:
                self._skip(field.type, checked)
            self._emit("return")
        for key, calls in self._calls.items():
            for call in calls:
                self._code[call][3] = starts[key]
        code = np.array([tuple(i) for i in self._code], INSTRUCTION)
        return core.ValueProgram(
            FORMAT, code, np.array(self._tables, np.int32), np.frombuffer(bytes(self._constants), np.uint8)
        )

    def _emit(self, name: str, column: int = -1, null: int = -1, argument: int = 0) -> int:
        """Append an instruction. Return its index. Its jump is the next instruction."""
        self._code.append([CODES[name], null, column, len(self._code) + 1, argument])
        return len(self._code) - 1

    def _ends_here(self, instruction: int) -> None:
        self._code[instruction][3] = len(self._code)

    def _value(self, writer: ValueType, column: Column, null: int = -1) -> None:
        """Emit the instructions that read a value into a column."""
        if isinstance(writer, Union):
            self._union(writer, column)
        elif column.type.kind == JSON_TEXT:
            self._capture(writer, column, null)
        elif column.is_union:
            self._branch(writer, column, null)
        else:
            self._same(writer, column, null)

    def _union(self, writer: Union, column: Column) -> None:
        if len(writer.branches) == 2 and writer.null >= 0 and self._try(writer.others[0], column, writer.null):
            return
        if column.type.kind == JSON_TEXT:
            self._capture(writer, column, -1)
            return
        ends = []
        table = self._table(writer)
        self._emit("union", argument=table)
        for number, branch in enumerate(writer.branches):
            start = len(self._code)
            if branch.kind == "null":
                self._emit("null", column.index)
            elif not self._try(branch, column):  # only values of this branch cannot be read
                continue
            self._tables[table + 1 + number] = start
            ends.append(self._emit("jump"))
        for end in ends:
            self._ends_here(end)

    def _try(self, branch: ValueType, column: Column, null: int = -1) -> bool:
        """Emit the instructions for the values of a branch, or none if they cannot be read."""
        start = len(self._code)
        try:
            self._value(branch, column, null)
        except UnresolvableError:
            del self._code[start:]
            for calls in self._calls.values():
                calls[:] = [call for call in calls if call < start]
            return False
        return True

    def _table(self, writer: Union) -> int:
        table = len(self._tables)
        self._tables += [len(writer.branches)] + [-1] * len(writer.branches)
        return table

    def _branch(self, writer: ValueType, column: Column, null: int) -> None:
        """Read a value into the member of a struct for its branch."""
        chosen = next((c for n, c in column.children if _matches(writer, c, exact=True)), None)
        chosen = chosen or next((c for n, c in column.children if _matches(writer, c, exact=False)), None)
        if chosen is None:
            raise UnresolvableError(f"no branch of the union holds {branch_name(writer)}")
        start = self._emit("record", column.index, null)
        for _, child in column.children:
            if child is chosen:
                self._value(writer, child)
            else:
                self._emit("null", child.index)
        self._ends_here(start)

    def _same(self, writer: ValueType, column: Column, null: int) -> None:
        reader = column.type
        if isinstance(writer, Record) and isinstance(reader, Record):
            self._record(writer, reader, column, null)
        elif isinstance(writer, Array) and isinstance(reader, Array):
            start = self._emit("array", column.index, null, takes_bytes(writer.items))
            self._value(writer.items, column.children[0][1])
            self._emit("loop", column.index)
            self._ends_here(start)
        elif isinstance(writer, Map) and isinstance(reader, Map):
            start = self._emit("array", column.index, null, 1)
            entries = column.children[0][1]
            self._emit("record", entries.index)
            self._value(Simple("string"), entries.children[0][1])
            self._value(writer.values, entries.children[1][1])
            self._emit("loop", column.index)
            self._ends_here(start)
        elif isinstance(writer, Enum) and isinstance(reader, Enum) and not reader.open:
            numbers = {symbol: n for n, symbol in enumerate(reader.symbols)}
            other = -1 if reader.default is None else numbers.get(reader.default, -1)
            self._emit("enum", column.index, null, self._symbols([numbers.get(s, other) for s in writer.symbols]))
        else:
            name, argument = _leaf(writer, column)
            self._emit(name, column.index, null, argument)

    def _symbols(self, numbers: list[int]) -> int:
        self._tables += [len(numbers), *numbers]
        return len(self._tables) - len(numbers) - 1

    def _record(self, writer: Record, reader: Record, column: Column, null: int) -> None:
        start = self._emit("record", column.index, null)
        left = {field.name: child for field, (_, child) in zip(_chosen(reader, column), column.children, strict=True)}
        written = {field.name for field in writer.fields}  # a field with the exact name has priority over an alias
        targets = {a: field.name for field in reader.fields if field.name not in written for a in field.aliases}
        targets |= {field.name: field.name for field in reader.fields}
        for field in writer.fields:
            child = left.pop(targets.get(field.name, ""), None)
            if child is None:
                self._skip(field.type, checked=False)
            else:
                self._value(field.type, child)
        for field in _chosen(reader, column):
            if field.name in left:
                self._missing(field, left[field.name], reader)
        self._ends_here(start)

    def _missing(self, field: Field, column: Column, reader: Record) -> None:
        """Fill the column of a field that the writer does not have."""
        if not self._fill_defaults:
            self._emit("null", column.index)
            return
        if field.default is MISSING:
            raise UnresolvableError(f"the field {field.name} of {reader.name} has no default")
        type_ = field.default_type or field.type
        self._emit("default", argument=len(self._constants))
        encode_default(type_, field.default, self._constants)
        self._value(type_, column)
        self._emit("defaulted")

    def _capture(self, writer: ValueType, column: Column, null: int) -> None:
        """Store the bytes of a value, from which JSON text is made later."""
        start = self._emit("capture", column.index, null)
        self._skip(writer, checked=True)
        self._emit("captured", column.index, argument=self._captures.add(partial(avro_text, writer)))
        self._ends_here(start)

    def _skip(self, writer: ValueType, checked: bool, null: int = -1) -> None:
        """Emit the instructions that read a value and do not store it. `checked`: it must be valid in all respects."""
        if isinstance(writer, Union):
            if len(writer.branches) == 2 and writer.null >= 0:
                self._skip(writer.others[0], checked, writer.null)
                return
            table = self._table(writer)
            self._emit("union", argument=table)
            ends = []
            for number, branch in enumerate(writer.branches):
                self._tables[table + 1 + number] = len(self._code)
                self._skip(branch, checked)
                ends.append(self._emit("jump"))
            for end in ends:
                self._ends_here(end)
        elif isinstance(writer, Record):
            if null < 0 and not is_recursive(writer):
                for field in writer.fields:
                    self._skip(field.type, checked)
            else:
                self._call(writer, checked, null)
        elif isinstance(writer, Array | Map):
            items = writer.items if isinstance(writer, Array) else writer.values
            is_map = isinstance(writer, Map)
            start = self._emit("array", -1, null, 1 if is_map else takes_bytes(items))
            if is_map:
                self._emit("text", argument=checked)
            self._skip(items, checked)
            self._emit("loop")
            self._ends_here(start)
        elif isinstance(writer, Enum):
            self._emit("enum", -1, null, self._symbols([0] * len(writer.symbols)))
        elif checked and writer.logical is not None and writer.logical.name == "decimal":
            self._tables += [writer.logical.precision, writer.size if isinstance(writer, Fixed) else -1]
            self._emit("decimal", -1, null, len(self._tables) - 2)
        elif isinstance(writer, Fixed):
            self._emit("fixed_bytes", -1, null, writer.size)
        elif checked and writer.logical is not None and writer.logical.name.startswith("time-"):
            self._emit(writer.logical.name.replace("-", "_"), -1, null)
        elif writer.kind == "string":
            self._emit("text", -1, null, checked)
        else:
            self._emit(writer.kind, -1, null)

    def _call(self, writer: Record, checked: bool, null: int) -> None:
        """Emit a call of the subroutine that skips a record."""
        key = id(writer), checked
        if key not in self._calls:
            self._calls[key] = []
            self._pending.append((writer, checked))
        if null < 0:
            self._calls[key].append(self._emit("call"))
            return
        table = self._table(Union([Simple("null"), writer]))
        self._emit("union", argument=table)
        self._tables[table + 2 - null] = len(self._code)
        self._calls[key].append(self._emit("call"))
        self._tables[table + 1 + null] = len(self._code)


def _chosen(reader: Record, column: Column) -> list[Field]:
    names = {name for name, _ in column.children}
    return [field for field in reader.fields if field.name in names]


def _leaf(writer: ValueType, column: Column) -> tuple[str, int]:
    """Return the instruction that reads a value without parts into a column, and its argument."""
    reader = column.type
    logical = getattr(reader, "logical", None)
    if logical is not None and logical.name == "decimal":
        mine = getattr(writer, "logical", None)
        if (
            mine is not None
            and mine.name == "decimal"
            and mine.scale == logical.scale
            and mine.precision <= logical.precision
        ):
            return ("fixed_decimal", writer.size) if isinstance(writer, Fixed) else ("decimal", 0)
    elif isinstance(writer, Fixed):
        if logical is not None and logical.name == "uuid" and writer.size == 16:
            return "uuid", 0
        if isinstance(reader, Fixed) and reader.size == writer.size:
            return "fixed_bytes", writer.size
    elif isinstance(writer, Simple) and isinstance(reader, Simple | Fixed):
        if writer.kind == "null" and reader.kind == "null":
            return "null", 0
        if logical is not None and writer.logical not in (None, logical):  # for example another unit of time
            raise UnresolvableError(f"values of type {writer.logical.name} cannot be read as {logical.name}")
        if logical is not None and logical.name == "uuid" and writer.kind == "string":
            return "text", 0
        if isinstance(reader, Simple) and writer.kind == reader.kind and writer.kind in _PLAIN:
            if logical is not None and logical.name in ("time-millis", "time-micros"):
                return logical.name.replace("-", "_"), 0
            return {"string": "text"}.get(writer.kind, writer.kind), 0
        promotion = PROMOTIONS.get((writer.kind, reader.kind))
        if promotion is not None:
            return promotion, 0
    raise UnresolvableError(f"values of type {branch_name(writer)} cannot be read as {branch_name(reader)}")


def _matches(writer: ValueType, column: Column, exact: bool) -> bool:
    """Return whether a branch holds the values of a type: first by an equal type, and then by promotion."""
    reader = column.type
    if isinstance(reader, Simple) and reader.record:
        return isinstance(writer, Record) and branch_name(writer) == reader.record
    if exact:
        if isinstance(writer, Record | Enum | Fixed) and isinstance(reader, Record | Enum | Fixed):
            return branch_name(writer) == branch_name(reader)
        return writer.kind == reader.kind and getattr(writer, "logical", None) == getattr(reader, "logical", None)
    if writer.kind == reader.kind and writer.kind in ("record", "array", "map", "enum"):
        return True
    try:
        _leaf(writer, column)
    except UnresolvableError:
        return False
    return True


def encode_default(type_: ValueType, value: Any, out: bytearray) -> None:
    """Append the Avro encoding of a default, which a schema contains as JSON."""
    try:
        _encode(type_, value, out)
    except (OverflowError, RecursionError, ValueError) as error:
        shown = json.dumps(value)[:80]
        raise UnresolvableError(f"the default {shown} is not a value of {branch_name(type_)}: {error}") from None


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}
"""Types of the defaults of each type. The others are strings."""


def _encode(type_: ValueType, value: Any, out: bytearray) -> None:
    if isinstance(type_, Union):
        _encode_branch(type_, value, out)
        return
    if type(value) not in _JSON_TYPES.get(type_.kind, (str,)):
        raise ValueError(f"{json.dumps(value)[:80]} is not a {type_.kind}")
    if isinstance(type_, Record):
        for field in type_.fields:
            if field.name not in value and field.default is MISSING:
                raise ValueError(f"there is no {field.name}")
            _encode(field.type, value.get(field.name, field.default), out)
    elif isinstance(type_, Array | Map):
        if value:
            out += _varint(len(value))
        for item in value:
            if isinstance(type_, Map):
                raw = item.encode()
                out += _varint(len(raw)) + raw
                _encode(type_.values, value[item], out)
            else:
                _encode(type_.items, item, out)
        out += _varint(0)
    elif isinstance(type_, Enum):
        if value not in type_.symbols:
            raise ValueError(f"{json.dumps(value)[:80]} is not a symbol")
        out += _varint(type_.symbols.index(value))
    elif isinstance(type_, Fixed):
        raw = value.encode("latin-1")
        if len(raw) != type_.size:
            raise ValueError(f"it has {len(raw)} bytes")
        out += raw
    elif type_.kind == "boolean":
        out.append(value)
    elif type_.kind in ("int", "long"):
        out += _varint(value, 32 if type_.kind == "int" else 64)
    elif type_.kind in ("float", "double"):
        out += struct.pack("<f" if type_.kind == "float" else "<d", value)
    elif type_.kind in ("string", "bytes"):
        raw = value.encode("utf-8" if type_.kind == "string" else "latin-1")
        out += _varint(len(raw)) + raw


def _encode_branch(union: Union, value: Any, out: bytearray) -> None:
    """Append a default for the first branch that has this value. Before Avro 1.12, this was always the first branch."""
    reasons: list[Exception] = []
    for number, branch in enumerate(union.branches):
        encoded = bytearray(_varint(number))
        try:
            _encode(branch, value, encoded)
        except (OverflowError, ValueError) as error:
            reasons.append(error)
        else:
            out += encoded
            return
    raise reasons[0] if reasons else ValueError("the union is empty")


def _varint(number: int, bits: int = 64) -> bytes:
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise OverflowError(f"it does not fit into {bits} bits")
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])

"""Compile the program that decodes the values of a Protobuf message into columns.

The core runs programs (`core.ValueProgram`). Their code is an array of fields (FIELD), and their tables
begin with six numbers:

- the index of the field that has the whole value;
- the positions of two trees of messages, by which the message indexes before a body are followed: the
  indexes of the second one count the entries of maps if those of the first one do not. 0: there are no
  indexes before a body. A node of a tree has 1 if it is the message of the columns and 0 otherwise, the
  number of its nested messages, and the position of the node of each, or -1 for the entry of a map;
- the position of the columns of maps, with their number before them;
- the position of the types of messages (TYPE);
- 1 if the first message is that of the columns.

A message in several places has a type for each of its columns, and one for values that are only
checked. The fields of a type are sorted by their numbers, and the index of a field with a small number
is in a table. Fields with the number 0 are those that the writer lacks. `fills` are the columns that
get something if their fields are absent, each with its field. The `plain_fills` first ones are no lists.
The bit of a field is its index in the fills. The core collects the bits of the fields that occur.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import (
    PROTOBUF_ABSENT,
    PROTOBUF_ENTRY,
    PROTOBUF_INLINE,
    PROTOBUF_NUMBERS,
    PROTOBUF_OPS,
    PROTOBUF_PACKS,
    PROTOBUF_PLAIN,
    PROTOBUF_REPEATED,
    PROTOBUF_WHOLE,
    VALUE_FORMATS,
)
from ..errors import UnresolvableError
from ..types import JSON_TEXT, Array, Enum, Field, Map, Record, Simple, Union, branch_name
from ..value_columns import Captures, Column
from .descriptors import LENGTH, Message, ProtoEnum, ProtoField, ProtoFile
from .objects import message_text, whole_text
from .schema import DURATION, FIELD_MASK, KINDS, TIMESTAMP, WRAPPERS

FORMAT = VALUE_FORMATS.index("protobuf")
FIELD = np.dtype(
    [
        ("number", "i4"), ("op", "u1"), ("wire", "u1"), ("flags", "u1"), ("absent", "u1"), ("tag", "u2"),
        ("mask", "u2"), ("column", "i4"), ("element", "i4"), ("type", "i4"), ("argument", "i4"), ("oneof", "i4"),
        ("bit", "i4"),
    ]
)  # fmt: skip
TYPE = ("first", "count", "dense", "dense_count", "fills", "fill_count", "plain_fills", "cells")
DENSE = 64
"""Fields with smaller numbers are found in a table."""
OPS = {name: code for code, name in enumerate(PROTOBUF_OPS)}
ABSENT = {name: code for code, name in enumerate(PROTOBUF_ABSENT)}
HEAD = 6
NO_BIT = 63
"""Bit of the fields whose column does not always have a row after they occurred."""
_SAME = {
    **dict.fromkeys(("int32", "uint32"), "varint32"),
    **dict.fromkeys(("int64", "uint64"), "varint64"),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), "fixed64"),
    "sint32": "zigzag32",
    "sint64": "zigzag64",
    "bool": "bool",
    "string": "text",
    "bytes": "bytes",
    "enum": "enum",
}
"""What is done with the values of each type if the column has the same type."""
WIDER = {
    ("int", "long"), ("uint", "long"), ("uint", "ulong"), ("int", "double"), ("uint", "double"), ("long", "double"),
    ("ulong", "double"), ("float", "double"),
}  # fmt: skip


def compile_protobuf(
    file: ProtoFile, message: Message, root: Column, captures: Captures, fill_defaults: bool, with_indexes: bool
) -> core.ValueProgram:
    """Compile a program for the values of a message. `with_indexes`: message indexes precede each body."""
    return _Compiler(captures, fill_defaults).program(file, message, root, with_indexes)


class _Compiler:
    def __init__(self, captures: Captures, fill_defaults: bool) -> None:
        self._captures = captures
        self._fill_defaults = fill_defaults
        self._fields: list[dict[str, int]] = []
        self._tables = [0] * HEAD
        self._types: list[dict[str, int]] = []
        self._checked: dict[int, int] = {}
        """Types of messages that are only checked, by the id of the message."""
        self._pending: list[tuple[int, Message]] = []
        self._enums: dict[Any, int] = {}
        self._maps: list[int] = []

    def program(self, file: ProtoFile, message: Message, root: Column, with_indexes: bool) -> core.ValueProgram:
        self._tables[0] = self._add(self._field(ProtoField(1, "", "message", message=message), root))
        while self._pending:
            index, checked = self._pending.pop()
            fields = [self._check(f) for f in checked.fields]
            if checked.is_map_entry:
                fields = [{**f, "flags": f["flags"] | PROTOBUF_ENTRY} for f in fields]
            self._set_fields(index, fields, [], 1)
        if with_indexes:
            for place, count_entries in ((1, file.counts_map_entries), (2, not file.counts_map_entries)):
                self._tables[place] = self._tree(file.messages, message, None, count_entries)
            self._tables[5] = int(file.messages[0] is message)
        self._tables[3] = self._table([len(self._maps), *self._maps])
        self._tables[4] = self._table([type_[name] for type_ in self._types for name in TYPE])
        code = np.array([tuple(f[name] for name in FIELD.names or ()) for f in self._fields], FIELD)
        return core.ValueProgram(FORMAT, code, np.array(self._tables, np.int32), np.empty(0, np.uint8))

    def _table(self, numbers: list[int]) -> int:
        self._tables += numbers
        return len(self._tables) - len(numbers)

    def _add(self, field: dict[str, int]) -> int:
        self._fields.append(field)
        return len(self._fields) - 1

    def _tree(self, messages: list[Message], wanted: Message, own: Message | None, count_entries: bool) -> int:
        """Add a node for a message, or for the file. Return its position."""
        children = [m for m in messages if count_entries or not m.is_map_entry]
        nodes = [-1 if m.is_map_entry else self._tree(m.nested, wanted, m, count_entries) for m in children]
        return self._table([int(own is wanted), len(nodes), *nodes])

    def _new_type(self) -> int:
        self._types.append({})
        return len(self._types) - 1

    def _set_fields(self, index: int, fields: list[dict[str, int]], missing: list[dict[str, int]], cells: int) -> None:
        fields = sorted(map(_marked, fields), key=lambda f: f["number"])
        first = len(self._fields)
        self._fields += [*fields, dict(_FIELD)]  # the last one is never expected
        numbers = {f["number"]: first + i for i, f in enumerate(fields) if f["number"] < DENSE}
        dense = [numbers.get(n, -1) for n in range(max(numbers, default=-1) + 1)]
        self._fields += map(dict, missing)
        filled = [(f["absent"] == ABSENT["list"], f["column"], first + i) for i, f in enumerate(self._fields[first:])]
        filled = sorted(f for f in filled if f[1] >= 0)
        for bit, (is_list, _, i) in enumerate(filled[:NO_BIT]):
            field = self._fields[i]
            if not is_list and field["op"] != OPS["capture"] and not self._is_closed(field):
                field["bit"] = bit
        self._types[index] = {
            "first": first,
            "count": len(fields),
            "dense": self._table(dense),
            "dense_count": len(dense),
            "fills": self._table([number for _, column, index in filled for number in (column, index)]),
            "fill_count": len(filled),
            "plain_fills": sum(not is_list for is_list, _, _ in filled),
            "cells": cells,
        }

    def _type_of(self, writer: Message, column: Column) -> int:
        """Return the type of a message whose fields have columns."""
        reader = column.type
        assert isinstance(reader, Record)
        index = self._new_type()
        left = dict(column.children)
        targets = _targets(writer, reader)
        children = {f.number: left.pop(targets.get(f.number, ""), None) for f in writer.fields}
        oneofs: dict[str, list[Column | None]] = {}
        for field in writer.fields:
            if field.oneof is not None:
                oneofs.setdefault(field.oneof, []).append(children[field.number])
        tables = {}
        for name, members in oneofs.items():
            chosen = [child.index for child in members if child is not None]
            if chosen and len(members) > 1:
                tables[name] = self._table([len(chosen), *chosen])
        fields = []
        for field in writer.fields:
            child = children[field.number]
            if child is not None:
                compiled = self._field(field, child)
            elif field.enum is not None and field.enum.closed and field.oneof is not None:
                compiled = self._check(field)  # a number that the enum does not know is not a member of the oneof
            else:
                compiled = _described(field, "skip")
            compiled["oneof"] = tables.get(field.oneof or "", -1)
            fields.append(compiled)
        missing = [self._missing(f, left[f.name]) for f in reader.fields if f.name in left]
        self._set_fields(index, fields, missing, column.last - column.index)
        return index

    def _missing(self, field: Field, column: Column) -> dict[str, int]:
        """Return a field that the writer does not have."""
        zero = self._fill_defaults and not (isinstance(field.type, Union) or column.type.kind in (JSON_TEXT, "record"))
        absent = ABSENT["zero" if zero else "null"]
        return {**_FIELD, "column": column.index, "element": column.index, "absent": absent}

    def _field(self, field: ProtoField, column: Column) -> dict[str, int]:
        """Return the program of a field with a column."""
        reader = column.type
        if reader.kind == JSON_TEXT and field.repeated:
            return self._whole(field, column)
        if not field.repeated:
            compiled = self._item(field, column)
            compiled["column"] = column.index
            if field.nullable:
                compiled["absent"] = ABSENT["null"]
            elif compiled["op"] == OPS["enum"]:
                compiled["absent"] = ABSENT["enum"]
            elif compiled["op"] == OPS["capture"]:
                compiled["absent"] = ABSENT["text"]
            else:
                compiled["absent"] = ABSENT["zero" if field.message is None else "message"]
            return compiled
        item = column.children[0][1] if column.children else None
        if item is None or field.is_map != isinstance(reader, Map) or not isinstance(reader, Array | Map):
            raise UnresolvableError(f"the field {field.name} cannot be read as {branch_name(reader)}")
        if field.is_map:
            compiled = self._map(field, item)
            self._maps.append(column.index)
        else:
            compiled = self._item(field, item)
        compiled["column"] = column.index
        compiled["flags"] |= PROTOBUF_REPEATED
        compiled["absent"] = ABSENT["list"]
        return compiled

    def _map(self, field: ProtoField, entries: Column) -> dict[str, int]:
        assert field.message is not None
        index = self._new_type()
        members = [self._field(f, c) for f, (_, c) in zip(field.message.fields, entries.children, strict=True)]
        members = [{**f, "flags": f["flags"] | PROTOBUF_ENTRY} for f in members]
        for member in members:
            if member["op"] == OPS["capture"]:
                self._fields[member["type"]]["flags"] |= PROTOBUF_ENTRY
        self._set_fields(index, members, [], entries.last - entries.index)
        return {**_described(field, "message"), "element": entries.index, "type": index}

    def _item(self, field: ProtoField, column: Column) -> dict[str, int]:
        """Return the program of an item of a field."""
        reader, message = column.type, field.message
        described = {**_described(field, "capture"), "element": column.index}
        if reader.kind == JSON_TEXT:
            text = partial(message_text, field)
            checked = {**self._check(field), "flags": 0}
            return {**described, "type": self._add(checked), "argument": self._captures.add(text)}
        if message is not None:
            return {**described, **self._message(message, column)}
        if field.enum is not None and isinstance(reader, Enum) and reader.open:
            return {**described, "op": OPS["enum"], "argument": self._symbols(field.enum, reader.symbols)}
        kind = KINDS.get(field.type, "")
        if isinstance(reader, Simple) and reader.logical is None and field.enum is None:
            if reader.kind == kind:
                return {**described, "op": OPS[_SAME[field.type]]}
            if {kind, reader.kind} == {"string", "bytes"}:
                return {**described, "op": OPS["text" if reader.kind == "string" else "bytes"]}
            if (kind, reader.kind) in WIDER:
                argument = 2 * PROTOBUF_NUMBERS.index(field.type) + (reader.kind == "double")
                return {**described, "op": OPS["wider"], "argument": argument}
        raise UnresolvableError(f"the {field.type} {field.name} cannot be read as {branch_name(reader)}")

    def _message(self, message: Message, column: Column) -> dict[str, int]:
        """Return what differs between the program of a message field and that of another field."""
        reader, name = column.type, message.name
        logical = getattr(reader, "logical", None)
        found = {"op": OPS["message"], "flags": PROTOBUF_INLINE}
        if name in (TIMESTAMP, DURATION):
            op = "timestamp" if name == TIMESTAMP else "duration"
            if logical is not None and logical.name == f"{op}-micros":
                return {"op": OPS[op], "type": self._time_type(message)}
        elif name == FIELD_MASK:
            if reader.kind == "string" and logical is None:
                path = {**_described(message.fields[0], "path"), "flags": 0}
                return {**found, "type": self._inline_type({**path, "element": column.index}, column)}
        elif name in WRAPPERS:
            if isinstance(reader, Simple) and logical is None:
                return {**found, "type": self._inline_type(self._item(message.fields[0], column), column)}
        elif isinstance(reader, Record):
            return {"op": OPS["message"], "type": self._type_of(message, column)}
        raise UnresolvableError(f"the message {name} cannot be read as {branch_name(reader)}")

    def _inline_type(self, field: dict[str, int], column: Column) -> int:
        """Return the type of a message whose only field has the column of the message."""
        index = self._new_type()
        self._set_fields(index, [{**field, "column": column.index, "absent": ABSENT["zero"]}], [], 1)
        return index

    def _time_type(self, message: Message) -> int:
        """Return the type of a Timestamp or a Duration."""
        if id(message) not in self._checked:
            index = self._checked[id(message)] = self._new_type()
            names = ("seconds", "nanos")
            fields = [_described(f, op) for f, op in zip(message.fields, names, strict=True)]
            self._set_fields(index, fields, [], 1)
        return self._checked[id(message)]

    def _check(self, field: ProtoField) -> dict[str, int]:
        """Return the program of a field that is only checked."""
        if field.message is None:
            described = _described(field, _SAME[field.type])
            if field.enum is not None:
                described["argument"] = self._symbols(field.enum, ())
            return described
        name = field.message.name
        if name in (TIMESTAMP, DURATION):
            op = "timestamp" if name == TIMESTAMP else "duration"
            return {**_described(field, op), "type": self._time_type(field.message)}
        if id(field.message) not in self._checked:
            self._checked[id(field.message)] = self._new_type()
            self._pending.append((self._checked[id(field.message)], field.message))
        return {**_described(field, "message"), "type": self._checked[id(field.message)]}

    def _whole(self, field: ProtoField, column: Column) -> dict[str, int]:
        """Return the program of a repeated field that is stored as one JSON text."""
        described = _described(field, "capture")
        return {
            **described,
            "flags": described["flags"] | PROTOBUF_WHOLE,
            "column": column.index,
            "element": column.index,
            "type": self._add(self._check(field)),
            "argument": self._captures.add(partial(whole_text, field)),
            "absent": ABSENT["text"],
        }

    def _is_closed(self, field: dict[str, int]) -> bool:
        return field["op"] == OPS["enum"] and self._tables[field["argument"] + 2] == 1

    def _symbols(self, enum: ProtoEnum, symbols: tuple[str, ...]) -> int:
        """Add a table of an enum. Return its position."""
        key = id(enum), symbols
        if key not in self._enums:
            indexes = {symbol: i for i, symbol in enumerate(symbols)}
            numbers = {number: indexes.get(name, -2) for number, name in enum.symbols.items()}
            dense = 0
            while dense in numbers:
                dense += 1
            others = sorted(number for number in numbers if not 0 <= number < dense)
            head = [dense, len(others), int(enum.closed), enum.default]
            found = [numbers[n] for n in range(dense)] + others + [numbers[n] for n in others]
            self._enums[key] = self._table(head + found)
        return self._enums[key]


_FIELD = {
    "number": 0, "op": 0, "wire": LENGTH, "flags": 0, "absent": 0, "tag": 1, "mask": 0, "column": -1, "element": -1,
    "type": -1, "argument": 0, "oneof": -1, "bit": 63,
}  # fmt: skip
"""A field that the writer lacks."""


def _described(field: ProtoField, op: str) -> dict[str, int]:
    flags = PROTOBUF_PACKS if field.packs else 0
    return {**_FIELD, "number": field.number, "op": OPS[op], "wire": field.wire, "flags": flags}


def _marked(field: dict[str, int]) -> dict[str, int]:
    """Return a field with the flag PROTOBUF_PLAIN if it has a column, and is neither in a oneof nor one JSON text."""
    is_plain = field["element"] >= 0 and field["oneof"] < 0 and not field["flags"] & PROTOBUF_WHOLE
    tag = field["number"] << 3 | field["wire"]
    if not is_plain or tag >= 1 << 14:
        return {**field, "flags": field["flags"] | PROTOBUF_PLAIN * is_plain}
    mask, raw = (0xFF, tag) if tag < 0x80 else (0xFFFF, tag & 0x7F | 0x80 | tag >> 7 << 8)
    return {**field, "flags": field["flags"] | PROTOBUF_PLAIN, "tag": raw, "mask": mask}


def _targets(writer: Message, reader: Record) -> dict[int, str]:
    """Return the names of the fields of the reader by the numbers of the fields of the writer."""
    written = {field.name for field in writer.fields}
    names = {field.name: field.name for field in reader.fields}
    others = [field for field in reader.fields if field.name not in written]
    aliases = {alias: field.name for field in others for alias in field.aliases}
    numbers = {field.number: field.name for field in others if field.number is not None}
    found: dict[int, str] = {}
    for field in writer.fields:
        name = names.get(field.name) or aliases.get(field.name) or numbers.get(field.number)
        if name is not None:
            found[field.number] = name
    return found

"""Decode JSON values into columns, by the nodes of values/json/program.py."""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ..constants import JSON_NODES
from .value_columns import DEPTH, Column, Fault, ValueProgram, cut, put_bytes, put_null

SPACES = b" \n\r\t"
NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
ESCAPES = {b'"': b'"', b"\\": b"\\", b"/": b"/", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
UNIT = re.compile(rb"[0-9a-fA-F]{4}")
KIND_OF = {ord("{"): "object", ord("["): "array", ord('"'): "string", ord("t"): "boolean", ord("f"): "boolean"}
KIND_OF |= dict.fromkeys(b"-0123456789", "number")
TAKEN = {
    "boolean": "boolean", "long": "number", "double": "number", "string": "string", "array": "array", "map": "object",
    "record": "object",
}  # fmt: skip
"""Kind of the values that each column takes."""


class Node(NamedTuple):
    kind: str
    column: int
    argument: int
    children: int
    members: dict[bytes, int]
    labels: list[bytes]


_nodes: WeakKeyDictionary[ValueProgram, list[Node]] = WeakKeyDictionary()


def nodes_of(program: ValueProgram) -> list[Node]:
    if program not in _nodes:
        found = []
        for kind, column, argument, children, count, *_ in program.code:
            inner = program.code[children : children + count]
            names = [bytes(program.constants[node[8] : node[8] + node[9]]) for node in inner]
            labels = [bytes(program.constants[node[11] : node[11] + node[12]]) for node in inner]
            members = {name: children + number for number, name in enumerate(names)}
            found.append(Node(JSON_NODES[kind], column, argument, children, members, labels))
        _nodes[program] = found
    return _nodes[program]


class Rest:
    """The members of an object or array that have no column: names and values as JSON, or what is inside."""

    def __init__(self) -> None:
        self.members: list[tuple[bytes, bytes | Rest]] = []

    def json(self) -> bytes:
        parts = [name + b":" + (value if isinstance(value, bytes) else value.json()) for name, value in self.members]
        return b"{" + b",".join(parts) + b"}"


class JsonRun:
    """One value, which a program decodes."""

    def __init__(self, columns: list[Column], program: ValueProgram, body: memoryview) -> None:
        self._columns, self._nodes, self._body = columns, nodes_of(program), bytes(body)
        self._position = 0
        self.at = 0

    def decode(self) -> None:
        row = len(self._columns[0].items)
        self._space()
        found = self._value(self._nodes[0], 0)
        self._space()
        self.at = self._position
        if self._position < len(self._body):
            raise Fault("trailing_bytes")
        if found is not None and found.members:
            rest = self._columns[self._nodes[0].argument]
            rest.items += [None] * (row - len(rest.items))
            put_bytes(rest, found.json())

    def _fault(self, code: str, at: int) -> Fault:
        self.at = at
        return Fault(code)

    def _space(self) -> None:
        while self._position < len(self._body) and self._body[self._position] in SPACES:
            self._position += 1

    def _peek(self) -> int:
        if self._position >= len(self._body):
            raise self._fault("truncated", len(self._body))
        return self._body[self._position]

    def _expect(self, characters: bytes) -> int:
        """Read one of the characters, and the space around it."""
        self._space()
        found = self._peek()
        if found not in characters:
            raise self._fault("bad_json", self._position)
        self._position += 1
        return found

    def _value(self, node: Node, depth: int) -> Rest | None:
        """Read a value into its column. Return what has no column."""
        start, first = self._position, self._peek()
        if first == ord("n"):
            self._word(b"null")
            put_null(self._columns, node.column)
            return None
        column = self._columns[node.column]
        if node.kind == "json":
            self._skip(depth)
            self.at = start
            put_bytes(column, node.argument.to_bytes(4, sys.byteorder) + self._body[start : self._position])
            return None
        if first not in KIND_OF:
            raise self._fault("bad_json", start)
        if TAKEN.get(node.kind) != KIND_OF[first]:
            raise self._fault("no_branch", start)
        if node.kind == "boolean":
            column.items.append(self._word(b"true" if first == ord("t") else b"false") == b"true")
        elif node.kind == "string":
            text = self._string()
            self.at = start
            put_bytes(column, text)
        elif node.kind in ("long", "double"):
            text = self._number()
            try:
                column.items.append(_long(text) if node.kind == "long" else _double(text))
            except OverflowError:
                raise self._fault("bad_number", start) from None
        elif node.kind == "record":
            return self._record(node, column, depth)
        else:
            return self._list(node, column, depth)
        return None

    def _record(self, node: Node, column: Column, depth: int) -> Rest | None:
        row = len(column.items)
        column.items.append(())
        found: Rest | None = None
        inside: dict[int, tuple[bytes, bytes | Rest]] = {}
        for name, raw in self._entries(depth, named=True):
            number = node.members.get(name)
            member = None if number is None else self._nodes[number]
            start = self._position
            if number is None or member is None or member.column < 0:
                self._skip(depth + 1)
                if member is None and self._nodes[0].argument >= 0:
                    found = found or Rest()
                    found.members.append((raw, self._body[start : self._position]))
                continue
            cut(self._columns, member.column, row)  # the last of several members with one name counts
            if found is not None and number in inside:
                found.members.remove(inside.pop(number))
            inner = self._value(member, depth + 1)
            if inner is not None:
                found = found or Rest()
                inside[number] = node.labels[number - node.children], inner
                found.members.append(inside[number])
        for number in node.members.values():
            index = self._nodes[number].column
            if index >= 0 and len(self._columns[index].items) == row:
                put_null(self._columns, index)
        return found

    def _list(self, node: Node, column: Column, depth: int) -> Rest | None:
        item, found = self._nodes[node.children], None
        is_map, items = node.kind == "map", self._columns[node.column + 1]
        for number, (name, raw) in enumerate(self._entries(depth, is_map)):
            if is_map:
                items.items.append(())
                put_bytes(self._columns[node.column + 2], name)
            inner = self._value(item, depth + 1)
            if inner is not None:
                found = found or Rest()
                found.members.append((raw if is_map else b'"%d"' % number, inner))
        column.items.append((len(items.items), True))
        return found

    def _entries(self, depth: int, named: bool) -> Iterator[tuple[bytes, bytes]]:
        """Read an object or array. Yield before each value: its name, and its name as JSON."""
        if depth == DEPTH:
            raise self._fault("too_deep", self._position)
        closing = b"}" if named else b"]"
        self._position += 1
        self._space()
        if self._body.startswith(closing, self._position):
            self._position += 1
            return
        while True:
            name, start = b"", self._position
            if named:
                if self._peek() != ord('"'):
                    raise self._fault("bad_json", start)
                name = self._string()
            raw = self._body[start : self._position]
            if named:
                self._expect(b":")
                self._space()
            yield name, raw
            if self._expect(b"," + closing) == closing[0]:
                return
            self._space()

    def _skip(self, depth: int) -> None:
        """Check a value."""
        kind = KIND_OF.get(self._peek())
        if kind in ("object", "array"):
            for _ in self._entries(depth, kind == "object"):
                self._skip(depth + 1)
        elif kind == "string":
            self._string()
        elif kind == "number":
            self._number()
        else:
            word = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}.get(self._peek())
            if word is None:
                raise self._fault("bad_json", self._position)
            self._word(word)

    def _word(self, word: bytes) -> bytes:
        found = self._body[self._position : self._position + len(word)]
        if found != word:
            raise self._fault("truncated" if word.startswith(found) else "bad_json", self._position)
        self._position += len(word)
        return word

    def _number(self) -> bytes:
        body, start = self._body, self._position
        match = NUMBER.match(body, start)
        after = match.end() if match else start + 1  # only a minus sign
        incomplete = match is None
        if match and not match[2]:
            if body[after : after + 1] in (b"e", b"E"):
                incomplete = True
                after += 2 if body[after + 1 : after + 2] in (b"+", b"-") else 1
            elif body[after : after + 1] == b"." and not match[1]:
                incomplete = True
                after += 1
        if incomplete:
            raise self._fault("truncated" if after >= len(body) else "bad_json", start)
        self._position = after
        return body[start:after]

    def _string(self) -> bytes:
        """Read a string. Return its text as UTF-8."""
        body, start = self._body, self._position
        at = start + 1
        while True:
            match = PLAIN.match(body, at)
            assert match is not None
            at = match.end()
            if body.startswith(b'"', at):
                break
            if at < len(body) and body[at] != ord("\\"):
                raise self._fault("bad_json", start)
            at += 2
            if at > len(body):
                raise self._fault("truncated", start)
        self._position = at + 1
        try:
            text = _unescaped(body[start + 1 : at])
            text.decode()
        except UnicodeDecodeError:
            raise self._fault("bad_utf8", start) from None
        except Fault:
            self.at = start
            raise
        return text


def _unescaped(raw: bytes) -> bytes:
    out, at = bytearray(), 0
    while (found := raw.find(b"\\", at)) >= 0:
        out += raw[at:found]
        letter, at = raw[found + 1 : found + 2], found + 2
        if letter != b"u":
            if letter not in ESCAPES:
                raise Fault("bad_json")
            out += ESCAPES[letter]
            continue
        code, at = _unit(raw, at), at + 4
        if 0xD800 <= code < 0xE000:
            if code >= 0xDC00 or raw[at : at + 2] != b"\\u" or len(raw) - at < 6:
                raise Fault("bad_utf8")
            low, at = _unit(raw, at + 2), at + 6
            if not 0xDC00 <= low < 0xE000:
                raise Fault("bad_utf8")
            code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
        out += chr(code).encode()
    return bytes(out + raw[at:])


def _unit(raw: bytes, at: int) -> int:
    match = UNIT.match(raw, at)
    if match is None:
        raise Fault("bad_json")
    return int(match[0], 16)


def _long(text: bytes) -> bytes:
    """Return a number as int64. OverflowError: it has a fraction or is out of range."""
    mantissa, _, power = text.lower().lstrip(b"-").partition(b"e")
    whole, _, fraction = mantissa.partition(b".")
    digits = (whole + fraction).lstrip(b"0")
    significant = digits.rstrip(b"0")
    power_digits = power.lstrip(b"+-").lstrip(b"0")
    exponent = int(power_digits[:18] or b"0") * (-1 if power.startswith(b"-") else 1)
    exponent += len(digits) - len(significant) - len(fraction)
    if not significant:
        return bytes(8)
    if exponent < 0 or exponent + len(significant) > 19:
        raise OverflowError
    number = int(significant) * 10**exponent
    return int(-number if text.startswith(b"-") else number).to_bytes(8, "little", signed=True)


def _double(text: bytes) -> bytes:
    number = float(text)
    if math.isinf(number):
        raise OverflowError
    return struct.pack("<d", number)

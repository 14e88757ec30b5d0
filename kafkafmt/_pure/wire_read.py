"""Create the readers for the fields of a layout.

A reader is a function that returns the value of a field and the position after the field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from threading import local
from typing import Any, Protocol
from uuid import UUID

from ..constants import (
    MAX_OBJECTS,
    MAX_STRING,
    MAX_VARINT_BYTES,
    TOO_MANY_OBJECTS,
    WIRE_FLOAT64,
    WIRE_INT8,
    WIRE_INT16,
    WIRE_INT32,
    WIRE_INT64,
    WIRE_RECORDS,
    WIRE_STRING,
    WIRE_UINT16,
    WIRE_UINT32,
)
from ..errors import StructureError, TooLargeError, TruncatedError
from ..support.text import decode_header_key as decode_text
from ..support.text import quantity
from .varint import raw_varint

Read = Callable[[memoryview, int, int], tuple[Any, int]]


class Readable(Protocol):
    """Interface of an object that can read a structure, such as a `Layout`."""

    def read_from(self, view: memoryview, p: int, end: int) -> tuple[Any, int]: ...


NUMBERS = {
    WIRE_INT8: struct.Struct(">b"),
    WIRE_INT16: struct.Struct(">h"),
    WIRE_UINT16: struct.Struct(">H"),
    WIRE_INT32: struct.Struct(">i"),
    WIRE_UINT32: struct.Struct(">I"),
    WIRE_INT64: struct.Struct(">q"),
    WIRE_FLOAT64: struct.Struct(">d"),
}


def short(name: str, need: int, left: int, position: int) -> TruncatedError:
    return TruncatedError(f"{name}: {quantity(need, 'byte')} expected, but the data ends after {left}", position)


def get_uvarint(name: str, view: memoryview, p: int, end: int) -> tuple[int, int]:
    try:
        return raw_varint(view, p, end, MAX_VARINT_BYTES)
    except IndexError:
        if end - p >= MAX_VARINT_BYTES:
            raise StructureError(f"{name}: the varint has more than {MAX_VARINT_BYTES} bytes", p) from None
        raise TruncatedError(f"{name}: the input ends inside a varint", p) from None


def number_reader(name: str, kind: int) -> Read:
    size, unpack = NUMBERS[kind].size, NUMBERS[kind].unpack_from

    def read(view: memoryview, p: int, end: int) -> tuple[Any, int]:
        if size > end - p:
            raise short(name, size, end - p, p)
        return unpack(view, p)[0], p + size

    return read


def bool_reader(name: str) -> Read:
    def read(view: memoryview, p: int, end: int) -> tuple[bool, int]:
        if p >= end:
            raise short(name, 1, 0, p)
        return view[p] != 0, p + 1

    return read


def uuid_reader(name: str) -> Read:
    def read(view: memoryview, p: int, end: int) -> tuple[UUID, int]:
        if end - p < 16:
            raise short(name, 16, end - p, p)
        return UUID(bytes=bytes(view[p : p + 16])), p + 16

    return read


def length_reader(name: str, width: int, compact: bool, nullable: bool) -> Read:
    """Create a reader for a length or count: int16, int32, or if `compact`, a varint of it plus 1. Null is -1."""
    number = number_reader(name, WIRE_INT16 if width == 2 else WIRE_INT32)

    def read(view: memoryview, p: int, end: int) -> tuple[int, int]:
        length, after = get_uvarint(name, view, p, end) if compact else number(view, p, end)
        if compact:
            length -= 1
        if length < 0:
            if not nullable:
                raise StructureError(f"{name} is null, which this version does not allow", p)
            return -1, after
        return length, after

    return read


def span_reader(name: str, kind: int, compact: bool, nullable: bool) -> Read:
    """Create a reader for a string, bytes or record data. The encoded form is a length, followed by that many bytes."""
    length_of = length_reader(name, 2 if kind == WIRE_STRING else 4, compact, nullable)

    def read(view: memoryview, start: int, end: int) -> tuple[Any, int]:
        length, p = length_of(view, start, end)
        if length < 0:
            return None, p
        if kind == WIRE_STRING and length > MAX_STRING:
            raise StructureError(f"{name}: the string has {length} bytes; the limit is {MAX_STRING}", start)
        if length > end - p:
            raise short(name, length, end - p, p)
        part = view[p : p + length]
        return part if kind == WIRE_RECORDS else decode_text(bytes(part)) if kind == WIRE_STRING else bytes(
            part
        ), p + length

    return read


def struct_reader(name: str, layout: Readable, nullable: bool, tagged: bool) -> Read:
    """Create a reader for a structure."""
    # Before a nullable structure, one byte indicates whether it is null. In a tagged field, 0 means
    # null. In all other fields, a negative value means null.

    def read(view: memoryview, p: int, end: int) -> tuple[Any, int]:
        if not nullable:
            return layout.read_from(view, p, end)
        if p >= end:
            raise short(name, 1, 0, p)
        null = view[p] == 0 if tagged else view[p] > 0x7F
        return (None, p + 1) if null else layout.read_from(view, p + 1, end)

    return read


class Budget(local):
    """Limits the number of objects that a message can contain. Each thread counts the objects of its own message."""

    left = limit = MAX_OBJECTS

    def take(self, name: str, count: int, start: int) -> None:
        """Subtract `count` from the number of objects that the message may still create, or raise TooLargeError."""
        self.left -= count
        if self.left < 0:
            raise TooLargeError(TOO_MANY_OBJECTS.format(name=name, limit=self.limit), start)


BUDGET = Budget()


def array_reader(name: str, element: Read, smallest: int, compact: bool, nullable: bool, numbers: bool) -> Read:
    """Create a reader for an array. `smallest` is the smallest encoded size of an element, in bytes."""
    count_of = length_reader(name, 4, compact, nullable)

    def read(view: memoryview, start: int, end: int) -> tuple[Any, int]:
        count, p = count_of(view, start, end)
        if count < 0:
            return None, p
        if count > (end - p) // smallest:
            raise TruncatedError(
                f"{name}: the remaining {quantity(end - p, 'byte')} cannot contain {quantity(count, 'element')}", start
            )
        BUDGET.take(name, 1 if numbers else 1 + count, start)
        values = []
        for _ in range(count):
            value, p = element(view, p, end)
            values.append(value)
        return values, p

    return read

"""Create the writers for the fields of a layout.

A writer is a function that appends the encoded field to an `Output`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import index
from typing import Any, Protocol
from uuid import UUID

from ..constants import MAX_STRING, WIRE_FLOAT64
from ..support.text import shown
from .varint import view_of
from .wire_read import NUMBERS

MAX_FRAME = 2**31 - 1


class Output:
    """Collects encoded data: complete buffers in `parts`, and bytes that are not yet part of a buffer in `tail`."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.tail = bytearray()
        self.size = 0

    def add(self, buffer: memoryview) -> None:
        """Append a buffer without copying it."""
        if buffer.nbytes:
            self.close_tail()
            self.parts.append(buffer)
            self.size += buffer.nbytes

    def close_tail(self) -> None:
        if self.tail:
            self.parts.append(bytes(self.tail))
            self.size += len(self.tail)
            self.tail = bytearray()


Write = Callable[[Output, Any], None]


class Writable(Protocol):
    """Interface of an object that can write a structure, such as a `Layout`."""

    def write_to(self, out: Output, message: Any) -> None: ...


def put_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def number_writer(name: str, kind: int) -> Write:
    pack = NUMBERS[kind].pack

    def write(out: Output, value: Any) -> None:
        try:
            out.tail += pack(index(value))
        except TypeError:
            raise TypeError(f"{name} must be an integer, not {shown(value)}") from None
        except struct.error:
            raise ValueError(f"{name}: {shown(value)} is out of range") from None

    def write_float(out: Output, value: Any) -> None:
        try:
            out.tail += pack(value)
        except struct.error:
            raise TypeError(f"{name} must be a number, not {shown(value)}") from None

    return write_float if kind == WIRE_FLOAT64 else write


def write_bool(out: Output, value: Any) -> None:
    out.tail.append(1 if value else 0)


def uuid_writer(name: str) -> Write:
    def write(out: Output, value: Any) -> None:
        if not isinstance(value, UUID):
            raise TypeError(f"{name} must be a uuid.UUID, not {shown(value)}")
        out.tail += value.bytes

    return write


def length_writer(name: str, width: int, compact: bool, nullable: bool) -> Write:
    """Create a writer for a length or a count. The writer encodes None as null."""

    def write(out: Output, length: int | None) -> None:
        if length is None and not nullable:
            raise ValueError(f"{name} cannot be None in this version")
        if length is not None and length > MAX_FRAME:
            raise ValueError(f"{name} is too long")
        if compact:
            put_uvarint(out.tail, 0 if length is None else length + 1)
        else:
            out.tail += (-1 if length is None else length).to_bytes(width, "big", signed=True)

    return write


def string_writer(name: str, compact: bool, nullable: bool) -> Write:
    put_length = length_writer(name, 2, compact, nullable)

    def write(out: Output, value: Any) -> None:
        if value is None:
            put_length(out, None)
            return
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, not {shown(value)}")
        raw = value.encode()
        if len(raw) > MAX_STRING:
            raise ValueError(f"{name}: the string has {len(raw)} bytes; the limit is {MAX_STRING}")
        put_length(out, len(raw))
        out.tail += raw

    return write


def bytes_writer(name: str, compact: bool, nullable: bool) -> Write:
    put_length = length_writer(name, 4, compact, nullable)

    def write(out: Output, value: Any) -> None:
        try:
            view = None if value is None else view_of(value)
        except TypeError:
            raise TypeError(f"{name} must be bytes, not {shown(value)}") from None
        put_length(out, None if view is None else view.nbytes)
        if view is not None:
            out.tail += view

    return write


def records_writer(name: str, compact: bool, nullable: bool) -> Write:
    """Create a function that writes record data. The data is a buffer or a list of buffers, and is not copied."""
    put_length = length_writer(name, 4, compact, nullable)

    def write(out: Output, value: Any) -> None:
        if value is None:
            put_length(out, None)
            return
        try:
            views = [view_of(b) for b in (value if isinstance(value, list | tuple) else [value])]
        except TypeError:
            raise TypeError(f"{name} must be bytes or a list of bytes, not {shown(value)}") from None
        put_length(out, sum(view.nbytes for view in views))
        for view in views:
            out.add(view)

    return write


def struct_writer(layout: Writable, nullable: bool, tagged: bool) -> Write:
    def write(out: Output, value: Any) -> None:
        if nullable:
            out.tail.append(1 if value is not None else 0 if tagged else 0xFF)
            if value is None:
                return
        layout.write_to(out, value)

    return write


def array_writer(name: str, element: Write, compact: bool, nullable: bool) -> Write:
    put_count = length_writer(name, 4, compact, nullable)

    def write(out: Output, values: Any) -> None:
        if values is not None and not isinstance(values, list | tuple):
            raise TypeError(f"{name} must be a list, not {shown(values)}")
        put_count(out, None if values is None else len(values))
        for value in values or ():
            element(out, value)

    return write

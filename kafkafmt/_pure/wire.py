"""Read and write wire protocol messages. A `Layout` describes the fields of a message.

A layout describes one version of one structure. When the layout is created, a reader function and a
writer function are chosen for each field.

In flexible versions (KIP-482), a length is encoded as an unsigned varint of the length plus one, so
that 0 means null. In these versions, every structure ends with its tagged fields.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..constants import MAX_OBJECTS, WIRE_BOOL, WIRE_BYTES, WIRE_RECORDS, WIRE_STRING, WIRE_STRUCT, WIRE_UUID
from ..errors import StructureError, TruncatedError
from ..support.text import quantity, shown
from ..types import Buffer
from .varint import check_range, view_of
from .wire_read import (
    BUDGET,
    NUMBERS,
    Read,
    array_reader,
    bool_reader,
    get_uvarint,
    number_reader,
    short,
    span_reader,
    struct_reader,
    uuid_reader,
)
from .wire_write import (
    MAX_FRAME,
    Output,
    Write,
    array_writer,
    bytes_writer,
    number_writer,
    put_uvarint,
    records_writer,
    string_writer,
    struct_writer,
    uuid_writer,
    write_bool,
)


def smallest_size(kind: int, compact: bool, layout: Layout | None, nullable: bool) -> int:
    """Return the smallest encoded size of a value of this kind, in bytes."""
    if kind == WIRE_STRUCT:
        assert layout is not None
        return 1 if nullable else layout.smallest
    if kind in NUMBERS:
        return NUMBERS[kind].size
    if kind in (WIRE_STRING, WIRE_BYTES, WIRE_RECORDS):
        return 1 if compact else 2 if kind == WIRE_STRING else 4
    return 16 if kind == WIRE_UUID else 1


def _holds_records(field: tuple[Any, ...]) -> bool:
    _, kind, _, _, _, layout, _ = field
    return kind == WIRE_RECORDS or (layout is not None and layout.holds_records)


class Layout:
    """Reads and writes one version of a structure of the wire protocol. See `_core.pyi`."""

    def __init__(
        self,
        message_type: type,
        version: int,
        fields: Sequence[tuple[Any, ...]],
        tagged: Sequence[tuple[int, tuple[Any, ...]]] = (),
        absent: Sequence[tuple[str, Any, bool]] = (),
        flexible: bool = False,
    ) -> None:
        self.type: Any = message_type
        self.version = version
        self.flexible = flexible
        self.smallest = int(flexible)
        self.absent = absent
        self.fields = [self._functions(f) for f in fields]
        self.smallest = max(1, self.smallest + sum(smallest for *_, smallest in self.fields))
        self.holds_records = any(_holds_records(f) for f in fields)
        for _, field in tagged:
            if _holds_records(field):
                raise ValueError(f"{field[0]}: record data cannot be tagged")
        self.tagged = {tag: (*self._functions(f, True)[:3], f[6]) for tag, f in sorted(tagged)}

    def _functions(self, field: tuple[Any, ...], tagged: bool = False) -> tuple[str, Read, Write, int]:
        """Return the name, reader, writer and smallest encoded size of a field."""
        name, kind, array, nullable, compact, layout, _ = field
        where = f"{self.type.__name__}.{name}"
        may_be_null = nullable and not array
        read: Read
        write: Write
        if kind == WIRE_STRUCT:
            read, write = struct_reader(where, layout, may_be_null, tagged), struct_writer(layout, may_be_null, tagged)
        elif kind in NUMBERS:
            read, write = number_reader(where, kind), number_writer(where, kind)
        elif kind == WIRE_BOOL:
            read, write = bool_reader(where), write_bool
        elif kind == WIRE_UUID:
            read, write = uuid_reader(where), uuid_writer(where)
        else:
            writer = {WIRE_STRING: string_writer, WIRE_BYTES: bytes_writer, WIRE_RECORDS: records_writer}[kind]
            read, write = span_reader(where, kind, compact, may_be_null), writer(where, compact, may_be_null)
        smallest = smallest_size(kind, compact, layout, may_be_null)
        if array:
            read = array_reader(where, read, smallest, compact, nullable, kind <= WIRE_UUID)
            write = array_writer(where, write, compact, nullable)
            smallest = 1 if compact else 4
        return name, read, write, smallest

    def read(
        self, buffer: Buffer, start: int = 0, end: int | None = None, max_objects: int | None = None
    ) -> tuple[Any, int]:
        view = view_of(buffer)
        BUDGET.limit = BUDGET.left = MAX_OBJECTS if max_objects is None else max_objects
        return self.read_from(view, start, check_range(view, start, end))

    def read_from(self, view: memoryview, p: int, end: int) -> tuple[Any, int]:
        message = self.type.__new__(self.type)
        for name, read, _, _ in self.fields:
            value, p = read(view, p, end)
            setattr(message, name, value)
        for name, default, _ in self.absent:
            setattr(message, name, default() if isinstance(default, type) else default)
        unknown: list[tuple[int, bytes]] = []
        if self.flexible:
            for name, _, _, default in self.tagged.values():
                setattr(message, name, default() if isinstance(default, type) else default)
            p = self._read_tagged(message, unknown, view, p, end)
        message.unknown_tagged_fields = tuple(unknown)
        return message, p

    def _read_tagged(self, message: Any, unknown: list[tuple[int, bytes]], view: memoryview, p: int, end: int) -> int:
        where = f"{self.type.__name__}'s tagged fields"
        start, last = p, -1
        count, p = get_uvarint(where, view, p, end)
        if count > (end - p) // 2:
            raise TruncatedError(
                f"{where}: the remaining {quantity(end - p, 'byte')} cannot contain {quantity(count, 'field')}", start
            )
        BUDGET.take(where, count, start)
        for _ in range(count):
            start = p
            tag, p = get_uvarint(where, view, p, end)
            size, p = get_uvarint(where, view, p, end)
            if tag <= last:
                raise StructureError(f"{where}: tag {tag} follows tag {last}, but tags must increase", start)
            if tag > MAX_FRAME:
                raise StructureError(f"{where}: {tag} is not a valid tag", start)
            if size > end - p:
                raise short(where, size, end - p, p)
            last = tag
            if tag in self.tagged:
                name, read, _, _ = self.tagged[tag]
                value, after = read(view, p, p + size)
                if after != p + size:
                    raise StructureError(
                        f"{self.type.__name__}.{name}: the tagged field has {quantity(p + size - after, 'byte')} after its value",
                        after,
                    )
                setattr(message, name, value)
            else:
                unknown.append((tag, bytes(view[p : p + size])))
            p += size
        return p

    def write_to(self, out: Output, message: Any) -> None:
        if not isinstance(message, self.type):
            raise TypeError(f"expected an object of type {self.type.__qualname__}, not {shown(message)}")
        for name, default, ignorable in self.absent:
            if not ignorable and getattr(message, name) != (default() if isinstance(default, type) else default):
                raise ValueError(f"{self.type.__name__}.{name} does not exist in version {self.version}")
        for name, _, write, _ in self.fields:
            write(out, getattr(message, name))
        if self.flexible:
            self._write_tagged(out, message)
        elif message.unknown_tagged_fields:
            raise ValueError(f"{self.type.__name__}: version {self.version} has no tagged fields")

    def _write_tagged(self, out: Output, message: Any) -> None:
        present: list[tuple[int, bytes]] = []
        for tag, (name, _, write, default) in self.tagged.items():
            value = getattr(message, name)
            if value != (default() if isinstance(default, type) else default):
                inside = Output()
                write(inside, value)
                present.append((tag, bytes(inside.tail)))
        for tag, value in message.unknown_tagged_fields or ():
            if not 0 <= tag <= MAX_FRAME:
                raise ValueError(f"{self.type.__name__}: {tag} is not a valid tag")
            present.append((tag, bytes(view_of(value))))
        present.sort(key=lambda pair: pair[0])
        if any(a[0] == b[0] for a, b in itertools.pairwise(present)):
            raise ValueError(f"{self.type.__name__}: two tagged fields have the same tag")
        put_uvarint(out.tail, len(present))
        for tag, value in present:
            put_uvarint(out.tail, tag)
            put_uvarint(out.tail, len(value))
            out.tail += value


def write_messages(layouts: Sequence[Layout], messages: Sequence[Any], framed: bool = False) -> list[Any]:
    out = Output()
    if framed:
        out.tail += bytes(4)
    for layout, message in zip(layouts, messages, strict=True):
        layout.write_to(out, message)
    out.close_tail()
    if framed:
        if out.size - 4 > MAX_FRAME:
            raise ValueError(f"the frame would have {out.size - 4} bytes; the limit is {MAX_FRAME}")
        out.parts[0] = (out.size - 4).to_bytes(4, "big") + out.parts[0][4:]
    return out.parts

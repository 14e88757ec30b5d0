"""Messages of the wire protocol, read and written field by field as a `Layout` says.

A layout is one structure in one version. Every field has a reader, which gives its value and the position behind it,
and a writer, which adds to an `Output`; both are functions chosen once, when the layout is made. Flexible versions
write lengths as unsigned varints plus one (0 is null) and end every structure with its tagged fields.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from operator import index
from typing import Any
from uuid import UUID

from ..constants import (
    MAX_STRING,
    MAX_VARINT_BYTES,
    WIRE_BOOL,
    WIRE_BYTES,
    WIRE_FLOAT64,
    WIRE_INT8,
    WIRE_INT16,
    WIRE_INT32,
    WIRE_INT64,
    WIRE_RECORDS,
    WIRE_STRING,
    WIRE_STRUCT,
    WIRE_UINT16,
    WIRE_UINT32,
    WIRE_UUID,
)
from ..errors import StructureError, TruncatedError
from ..text import decode_header_key as decode_text
from ..types import Buffer
from .varint import check_range, raw_varint, view_of

Read = Callable[[memoryview, int, int], tuple[Any, int]]
Write = Callable[["Output", Any], None]

NUMBERS = {
    WIRE_INT8: struct.Struct(">b"),
    WIRE_INT16: struct.Struct(">h"),
    WIRE_UINT16: struct.Struct(">H"),
    WIRE_INT32: struct.Struct(">i"),
    WIRE_UINT32: struct.Struct(">I"),
    WIRE_INT64: struct.Struct(">q"),
    WIRE_FLOAT64: struct.Struct(">d"),
}
MAX_FRAME = 2**31 - 1


class Output:
    """What has been written: whole buffers, and the bytes behind the last of them."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.tail = bytearray()
        self.size = 0

    def add(self, buffer: memoryview) -> None:
        """A buffer as it is, not copied."""
        if buffer.nbytes:
            self.close_tail()
            self.parts.append(buffer)
            self.size += buffer.nbytes

    def close_tail(self) -> None:
        if self.tail:
            self.parts.append(bytes(self.tail))
            self.size += len(self.tail)
            self.tail = bytearray()


def short(name: str, need: int, left: int, position: int) -> TruncatedError:
    return TruncatedError(f"{name}: {need} bytes are needed, {left} are left", position)


def get_uvarint(name: str, view: memoryview, p: int, end: int) -> tuple[int, int]:
    try:
        return raw_varint(view, p, end, MAX_VARINT_BYTES)
    except IndexError:
        if end - p >= MAX_VARINT_BYTES:
            raise StructureError(f"{name}: varint of more than {MAX_VARINT_BYTES} bytes", p) from None
        raise TruncatedError(f"{name}: the input ends inside a varint", p) from None


def put_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


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
    """Reads a length or count: an int16 or int32, or a varint; -1 for null."""
    number = number_reader(name, WIRE_INT16 if width == 2 else WIRE_INT32)

    def read(view: memoryview, p: int, end: int) -> tuple[int, int]:
        length, after = get_uvarint(name, view, p, end) if compact else number(view, p, end)
        if compact:
            length -= 1
        if length < 0:
            if not nullable:
                raise StructureError(f"{name} is null, which it must not be in this version", p)
            return -1, after
        return length, after

    return read


def span_reader(name: str, kind: int, compact: bool, nullable: bool) -> Read:
    """Strings, bytes, record data: a length and so many bytes."""
    length_of = length_reader(name, 2 if kind == WIRE_STRING else 4, compact, nullable)

    def read(view: memoryview, start: int, end: int) -> tuple[Any, int]:
        length, p = length_of(view, start, end)
        if length < 0:
            return None, p
        if kind == WIRE_STRING and length > MAX_STRING:
            raise StructureError(f"{name}: a string of {length} bytes, more than {MAX_STRING}", start)
        if length > end - p:
            raise short(name, length, end - p, p)
        part = view[p : p + length]
        return part if kind == WIRE_RECORDS else decode_text(bytes(part)) if kind == WIRE_STRING else bytes(part), p + length

    return read


def struct_reader(name: str, layout: Layout, nullable: bool) -> Read:
    """A structure; where it may be null, a byte before it says whether it is (below 0)."""

    def read(view: memoryview, p: int, end: int) -> tuple[Any, int]:
        if not nullable:
            return layout.read_from(view, p, end)
        if p >= end:
            raise short(name, 1, 0, p)
        return (None, p + 1) if view[p] > 0x7F else layout.read_from(view, p + 1, end)

    return read


def array_reader(name: str, element: Read, smallest: int, compact: bool, nullable: bool) -> Read:
    """A count and its elements, of at least `smallest` bytes each."""
    count_of = length_reader(name, 4, compact, nullable)

    def read(view: memoryview, start: int, end: int) -> tuple[Any, int]:
        count, p = count_of(view, start, end)
        if count < 0:
            return None, p
        if count > (end - p) // smallest:
            raise TruncatedError(f"{name}: {count} elements do not fit the {end - p} bytes that are left", start)
        values = []
        for _ in range(count):
            value, p = element(view, p, end)
            values.append(value)
        return values, p

    return read


def number_writer(name: str, kind: int) -> Write:
    pack = NUMBERS[kind].pack

    def write(out: Output, value: Any) -> None:
        try:
            out.tail += pack(index(value))
        except TypeError:
            raise TypeError(f"{name}: an integer is needed, not {value!r}") from None
        except struct.error:
            raise ValueError(f"{name}: {value!r} is out of range") from None

    def write_float(out: Output, value: Any) -> None:
        try:
            out.tail += pack(value)
        except struct.error:
            raise TypeError(f"{name}: a number is needed, not {value!r}") from None

    return write_float if kind == WIRE_FLOAT64 else write


def write_bool(out: Output, value: Any) -> None:
    out.tail.append(1 if value else 0)


def uuid_writer(name: str) -> Write:
    def write(out: Output, value: Any) -> None:
        if not isinstance(value, UUID):
            raise TypeError(f"{name}: a uuid.UUID is needed, not {value!r}")
        out.tail += value.bytes

    return write


def length_writer(name: str, width: int, compact: bool, nullable: bool) -> Write:
    """Writes a length or count, None for null."""

    def write(out: Output, length: int | None) -> None:
        if length is None and not nullable:
            raise ValueError(f"{name} must not be None in this version")
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
            raise TypeError(f"{name}: a str is needed, not {value!r}")
        raw = value.encode()
        if len(raw) > MAX_STRING:
            raise ValueError(f"{name}: a string of {len(raw)} bytes, more than {MAX_STRING}")
        put_length(out, len(raw))
        out.tail += raw

    return write


def bytes_writer(name: str, compact: bool, nullable: bool) -> Write:
    put_length = length_writer(name, 4, compact, nullable)

    def write(out: Output, value: Any) -> None:
        try:
            view = None if value is None else view_of(value)
        except TypeError:
            raise TypeError(f"{name}: bytes are needed, not {value!r}") from None
        put_length(out, None if view is None else view.nbytes)
        if view is not None:
            out.tail += view

    return write


def records_writer(name: str, compact: bool, nullable: bool) -> Write:
    """Record data: a buffer or several (a batch each, say), not copied."""
    put_length = length_writer(name, 4, compact, nullable)

    def write(out: Output, value: Any) -> None:
        if value is None:
            put_length(out, None)
            return
        try:
            views = [view_of(b) for b in (value if isinstance(value, list | tuple) else [value])]
        except TypeError:
            raise TypeError(f"{name}: bytes, or a list of them, are needed, not {value!r}") from None
        put_length(out, sum(view.nbytes for view in views))
        for view in views:
            out.add(view)

    return write


def struct_writer(layout: Layout, nullable: bool) -> Write:
    def write(out: Output, value: Any) -> None:
        if nullable:
            out.tail.append(0xFF if value is None else 1)
            if value is None:
                return
        layout.write_to(out, value)

    return write


def array_writer(name: str, element: Write, compact: bool, nullable: bool) -> Write:
    put_count = length_writer(name, 4, compact, nullable)

    def write(out: Output, values: Any) -> None:
        if values is not None and not isinstance(values, list | tuple):
            raise TypeError(f"{name}: a list is needed, not {values!r}")
        put_count(out, None if values is None else len(values))
        for value in values or ():
            element(out, value)

    return write


def smallest_size(kind: int, compact: bool, layout: Layout | None, nullable: bool) -> int:
    """The fewest bytes that a value of this kind takes."""
    if kind == WIRE_STRUCT:
        assert layout is not None
        return 1 if nullable else layout.smallest
    if kind in NUMBERS:
        return NUMBERS[kind].size
    if kind in (WIRE_STRING, WIRE_BYTES, WIRE_RECORDS):
        return 1 if compact else 2 if kind == WIRE_STRING else 4
    return 16 if kind == WIRE_UUID else 1


class Layout:
    """See `_core.pyi`."""

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
        self.tagged = {tag: (*self._functions(f)[:3], f[6]) for tag, f in sorted(tagged)}

    def _functions(self, field: tuple[Any, ...]) -> tuple[str, Read, Write, int]:
        """Name, reader, writer and smallest size of a field."""
        name, kind, array, nullable, compact, layout, _ = field
        where = f"{self.type.__name__}.{name}"
        may_be_null = nullable and not array
        read: Read
        write: Write
        if kind == WIRE_STRUCT:
            read, write = struct_reader(where, layout, may_be_null), struct_writer(layout, may_be_null)
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
            read = array_reader(where, read, smallest, compact, nullable)
            write = array_writer(where, write, compact, nullable)
            smallest = 1 if compact else 4
        return name, read, write, smallest

    def read(self, buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[Any, int]:
        view = view_of(buffer)
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
            raise TruncatedError(f"{where}: {count} of them do not fit the {end - p} bytes that are left", start)
        for _ in range(count):
            start = p
            tag, p = get_uvarint(where, view, p, end)
            size, p = get_uvarint(where, view, p, end)
            if tag <= last:
                raise StructureError(f"{where}: tag {tag} follows tag {last}", start)
            if size > end - p:
                raise short(where, size, end - p, p)
            last = tag
            if tag in self.tagged:
                name, read, _, _ = self.tagged[tag]
                value, after = read(view, p, p + size)
                if after != p + size:
                    raise StructureError(f"{self.type.__name__}.{name}: {p + size - after} bytes are left over", after)
                setattr(message, name, value)
            else:
                unknown.append((tag, bytes(view[p : p + size])))
            p += size
        return p

    def write_to(self, out: Output, message: Any) -> None:
        if not isinstance(message, self.type):
            raise TypeError(f"a {self.type.__qualname__} is needed, not {message!r}")
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
        for tag, value in message.unknown_tagged_fields:
            if not 0 <= tag <= MAX_FRAME:
                raise ValueError(f"{self.type.__name__}: {tag} cannot be a tag")
            present.append((tag, bytes(view_of(value))))
        present.sort(key=lambda pair: pair[0])
        if any(a[0] == b[0] for a, b in itertools.pairwise(present)):
            raise ValueError(f"{self.type.__name__}: two tagged fields have one tag")
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
            raise ValueError(f"a frame of {out.size - 4} bytes, more than {MAX_FRAME}")
        out.parts[0] = (out.size - 4).to_bytes(4, "big") + out.parts[0][4:]
    return out.parts

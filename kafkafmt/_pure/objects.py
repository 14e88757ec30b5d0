"""Columns into Python objects: Record, and single values."""

from __future__ import annotations

from typing import Any

from ..text import decode_header_key
from ..types import Buffer, IntArray, LengthArray, RecordColumns
from .gather import need
from .varint import natural, view_of

Value = bytes | memoryview | None


class Record:
    """One record of a partition; fields are read-only by convention.

    offset, timestamp (ms), timestamp_type (0 CreateTime, 1 LogAppendTime, -1 none), key and value (bytes, a
    memoryview where views were asked for, or None), headers (a tuple of (str, bytes or None), in their order).
    """

    __slots__ = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")  # noqa: RUF023, in the order of the fields

    def __init__(
        self,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: Value = None,
        value: Value = None,
        headers: tuple[tuple[str, Value], ...] = (),
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = headers

    def _fields(self) -> tuple[Any, ...]:
        return self.offset, self.timestamp, self.timestamp_type, self.key, self.value, self.headers

    def __repr__(self) -> str:
        return "Record(" + ", ".join(f"{n}={v!r}" for n, v in zip(self.__slots__, self._fields(), strict=True)) + ")"

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Record) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __reduce__(self) -> tuple[type[Record], tuple[Any, ...]]:
        return Record, self._fields()


def span(view: memoryview, position: int, length: int, as_view: bool) -> Value:
    """The bytes of a span, or None for a null."""
    if length < 0:
        return None
    if position < 0 or length > len(view) - position:
        raise ValueError(f"a span of {length} bytes at {position} does not lie in the buffer")
    part = view[position : position + length]
    return part if as_view else bytes(part)


def make_values(buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, views: bool = False) -> list[Value]:
    view = view_of(buffer).toreadonly()
    need(positions, natural(count))
    need(lengths, count)
    return [span(view, p, n, views) for p, n in zip(positions[:count].tolist(), lengths[:count].tolist(), strict=True)]


def make_records(buffer: Buffer, columns: RecordColumns, start: int = 0, stop: int | None = None, views: bool = False) -> list[Record]:
    view = view_of(buffer).toreadonly()
    first, last = natural(start), columns.rows if stop is None else natural(stop)
    if last < first or last > columns.rows:
        raise ValueError(f"rows {first} to {last} are not among the {columns.rows} decoded")

    def numbers(array: Any) -> list[int]:
        return [-1] * (last - first) if array is None else array[first:last].tolist()

    def values(positions: Any, lengths: Any) -> list[Value]:
        if lengths is None:
            return [None] * (last - first)
        return make_values(view, positions[first:last], lengths[first:last], last - first, views)

    def headers_of(row: int, a: int, n: int) -> tuple[tuple[str, Value], ...]:
        if a < 0 or n > columns.headers - a:
            raise ValueError(f"row {row}: its headers are not among the {columns.headers} decoded")
        c: Any = columns
        names = make_values(view, c.header_key_position[a : a + n], c.header_key_length[a : a + n], n)
        contents = make_values(view, c.header_value_position[a : a + n], c.header_value_length[a : a + n], n, views)
        if None in names:
            raise ValueError(f"row {row}: a header key is null")
        return tuple((decode_header_key(bytes(k)), v) for k, v in zip(names, contents, strict=True) if k is not None)

    def headers() -> list[tuple[tuple[str, Value], ...]]:
        if columns.header_count is None:
            return [()] * (last - first)
        places = zip(range(first, last), numbers(columns.header_start), numbers(columns.header_count), strict=True)
        return [headers_of(row, a, n) if n > 0 else () for row, a, n in places]

    return [
        Record(*fields)
        for fields in zip(
            numbers(columns.offset),
            numbers(columns.timestamp),
            numbers(columns.timestamp_type),
            values(columns.key_position, columns.key_length),
            values(columns.value_position, columns.value_length),
            headers(),
            strict=True,
        )
    ]

"""Create Python objects from columns: `Record` objects and single values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime as Datetime
from itertools import repeat
from threading import RLock
from typing import Any

import numpy as np

from ..support.text import decode_header_key, quantity
from ..support.times import to_datetime
from ..types import Buffer, IntArray, LengthArray, RecordColumns
from .gather import need
from .varint import natural, view_of

Value = bytes | memoryview | None


class Record:
    """One record of a partition.

    Records are hashable. Two records are equal if all their fields except topic and partition are
    equal. Fields are read-only by convention.

    Parameters
    ----------
    offset : int, default 0
    timestamp : int, default -1
        Timestamp in milliseconds since 1970-01-01 UTC; -1 if there is none.
    timestamp_type : int, default 0
        0 for CreateTime, 1 for LogAppendTime, -1 for none (magic 0).
    key, value : bytes, memoryview or None
        The key and value are read-only memoryviews if views were requested, and None if they are
        null.
    headers : tuple of (str, bytes or memoryview or None)
        Keys and values of the headers, in the order in which they are stored.
    topic, partition : str and int, or None
        Where the record was read; None if it was read from a buffer.

    Notes
    -----
    If a field was not read, its value is -1, None or ().
    """

    __slots__ = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "topic", "partition")  # noqa: RUF023, in the order of the fields

    def __init__(
        self,
        offset: int = 0,
        timestamp: int = -1,
        timestamp_type: int = 0,
        key: Value = None,
        value: Value = None,
        headers: tuple[tuple[str, Value], ...] = (),
        topic: str | None = None,
        partition: int | None = None,
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = headers
        self.topic = topic
        self.partition = partition

    @property
    def datetime(self) -> Datetime | None:
        """Timestamp as a datetime in UTC; None if the timestamp is -1 or outside the years 1 to 9999."""
        return to_datetime(self.timestamp)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name. ``Record(**fields)`` creates an equal record."""
        names = ("topic", "partition", *self.__slots__[:-2])
        return {name: getattr(self, name) for name in names}

    def _fields(self) -> tuple[Any, ...]:
        return self.offset, self.timestamp, self.timestamp_type, self.key, self.value, self.headers

    def __repr__(self) -> str:
        shown = self.__slots__[: 6 if self.topic is None and self.partition is None else 8]
        return "Record(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in shown) + ")"

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Record) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __reduce__(self) -> tuple[type[Record], tuple[Any, ...]]:
        return Record, (*self._fields(), self.topic, self.partition)


def spans(view: memoryview, positions: Any, lengths: Any, views: bool) -> list[Value]:
    """Return values of a buffer as bytes or memoryviews, and nulls as None."""
    # NumPy checks all spans together, because a call for each value would take most of the time.
    nulls = lengths < 0
    outside = (~nulls & ((positions < 0) | (lengths > len(view) - positions))).nonzero()[0]
    if len(outside):
        at = outside[0]
        raise ValueError(f"a span of {quantity(lengths[at], 'byte')} at {positions[at]} is outside the buffer")
    if nulls.all():
        return [None] * len(lengths)
    # Slicing bytes is faster than slicing a memoryview.
    source: Any = view.obj if not views and type(view.obj) is bytes and len(view.obj) == len(view) else view
    found: list[Any] = [
        source[p:end] for p, end in zip(positions.tolist(), (positions + lengths).tolist(), strict=True)
    ]
    if source is view and not views:
        found = [part.tobytes() for part in found]
    for at in nulls.nonzero()[0].tolist():
        found[at] = None
    return found


def make_values(
    buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, views: bool = False
) -> list[Value]:
    view = view_of(buffer).toreadonly()
    need(positions, natural(count))
    need(lengths, count)
    return spans(view, positions[:count], lengths[:count], views)


def header_tuples(
    view: memoryview, columns: RecordColumns, first: int, last: int, views: bool
) -> list[tuple[tuple[str, Value], ...]]:
    """Return the headers of the records in the rows [first, last)."""
    c: Any = columns
    starts, counts = c.header_start[first:last], np.maximum(c.header_count[first:last], 0)
    outside = ((counts > 0) & ((starts < 0) | (counts > columns.headers - starts))).nonzero()[0]
    if len(outside):
        raise ValueError(f"the headers of row {first + outside[0]} are not among the {columns.headers} decoded headers")
    ends = np.cumsum(counts)
    at = np.arange(int(counts.sum())) + np.repeat(starts - ends + counts, counts)
    names = spans(view, c.header_key_position[at], c.header_key_length[at], False)
    contents = spans(view, c.header_value_position[at], c.header_value_length[at], views)
    if None in names:
        raise ValueError(f"row {first + np.searchsorted(ends, names.index(None), 'right')}: a header key is null")
    pairs = list(zip(map(decode_header_key, names), contents, strict=True))  # type: ignore[arg-type]
    return [tuple(pairs[end - n : end]) if n else () for end, n in zip(ends.tolist(), counts.tolist(), strict=True)]


def make_records(
    buffer: Buffer,
    columns: RecordColumns,
    start: int = 0,
    stop: int | None = None,
    views: bool = False,
    topic: str | None = None,
    partition: int | None = None,
) -> list[Record]:
    view = view_of(buffer).toreadonly()
    first, last = natural(start), columns.rows if stop is None else natural(stop)
    if last < first or last > columns.rows:
        raise ValueError(f"rows {first} to {last} are not among the {columns.rows} decoded rows")
    rows = last - first

    def numbers(array: Any) -> Iterable[int]:
        return repeat(-1, rows) if array is None else array[first:last].tolist()

    def values(positions: Any, lengths: Any) -> Iterable[Value]:
        return repeat(None, rows) if lengths is None else spans(view, positions[first:last], lengths[first:last], views)

    headers: Iterable[Any] = (
        repeat((), rows) if columns.header_count is None else header_tuples(view, columns, first, last, views)
    )
    return list(
        map(
            Record,
            numbers(columns.offset),
            numbers(columns.timestamp),
            numbers(columns.timestamp_type),
            values(columns.key_position, columns.key_length),
            values(columns.value_position, columns.value_length),
            headers,
            repeat(topic, rows),
            repeat(partition, rows),
        )
    )


class RecordIterator:
    def __init__(self, lists: Iterable[list[Record]]) -> None:
        self._lists: Iterator[list[Record]] | None = iter(lists)
        self._lock = RLock()
        self._records: Iterator[Record] = iter(())
        self._busy = False

    def __iter__(self) -> RecordIterator:
        return self

    def __next__(self) -> Record:
        with self._lock:
            while True:
                for record in self._records:
                    return record
                if self._lists is None:
                    raise StopIteration
                if self._busy:
                    raise RuntimeError("the iterator was called recursively, by code that produces its next item")
                self._busy = True
                try:
                    self._records = iter(next(self._lists))
                except BaseException:
                    self._lists = None
                    raise
                finally:
                    self._busy = False

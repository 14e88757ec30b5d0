"""Convert records, given as Python objects or as columns, to tuples with fixed types, which are then encoded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

from ..types import Buffer, HeaderSpans, Spans
from .objects import Record
from .varint import view_of

Headers = Iterable[tuple[str | Buffer, Buffer | None]] | None

KEPT_OFFSET, NEXT_OFFSET = 1, 2
"""How a record gets its offset: a `Record` keeps its own, or it gets the next one."""


class Fields(NamedTuple):
    """The fields of a record to encode."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Sequence[tuple[bytes, bytes | None]]
    offset: int | None


def plain_bytes(o: Any, name: str) -> bytes | None:
    if o is None or type(o) is bytes:
        return o
    try:
        return bytes(memoryview(o))
    except TypeError:
        raise TypeError(f"{name} must be bytes-like or None, not {type(o).__name__}") from None


def checked_int64(n: Any, name: str) -> int:
    """Return `n` as an int. OverflowError: it does not fit into 64 bits."""
    try:
        number = index(n)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(n).__name__}") from None
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{name} {number} does not fit into 64 bits")
    return number


def header_key(key: Any) -> bytes:
    plain = key.encode() if isinstance(key, str) else plain_bytes(key, "header key")
    if plain is None:
        raise TypeError("header key must be str or bytes-like, not None")
    return plain


def to_fields(key: Any, value: Any, timestamp: Any, headers: Any, offset: Any) -> Fields:
    if isinstance(headers, dict):
        headers = headers.items()
    return Fields(
        plain_bytes(key, "key"),
        plain_bytes(value, "value"),
        checked_int64(timestamp, "timestamp"),
        [(header_key(k), plain_bytes(v, "header value")) for k, v in headers or ()],
        None if offset is None else checked_int64(offset, "offset"),
    )


def offset_of(record: Record) -> int | None:
    """Return the offset of a Record. Return None if the offset is -1, which stands for a missing offset."""
    return None if record.offset == -1 else record.offset


def offset_origin(record: Any) -> int:
    """Return which offset a record gets: KEPT_OFFSET, NEXT_OFFSET (it has none), or 0 (it is no record)."""
    if type(record) is tuple:
        return NEXT_OFFSET if len(record) < 5 or record[4] is None else 0
    if type(record) is Record:
        return NEXT_OFFSET if record.offset == -1 else KEPT_OFFSET
    return 0


def need_rows(array: Any, rows: int) -> None:
    if array is not None and len(array) < rows:
        raise ValueError(f"an array of at least {rows} items is needed; this one has {len(array)}")


def span_of(view: memoryview, spans: Spans, i: int) -> bytes | None:
    """Return the bytes of value `i`, or None for null. IndexError: they are not inside the buffer."""
    position, length = int(spans.positions[i]), int(spans.lengths[i])
    if length < 0:
        return None
    if position < 0 or length > len(view) - position:
        raise IndexError
    return bytes(view[position : position + length])


class Column:
    """A column of values, stored as positions and lengths in a buffer. Without `spans`, all values are null."""

    def __init__(self, spans: Spans | None, rows: int) -> None:
        self.spans = spans
        if spans is not None:
            self.view = view_of(spans.buffer)
            need_rows(spans.positions, rows)
            need_rows(spans.lengths, rows)

    def __getitem__(self, i: int) -> bytes | None:
        return None if self.spans is None else span_of(self.view, self.spans, i)


def header_pairs(headers: HeaderSpans | None, i: int) -> list[tuple[bytes | None, bytes | None]]:
    """Return the headers of row `i`, up to the first whose key is null. IndexError: a span or index is out of range."""
    if headers is None:
        return []
    first, count = int(headers.starts[i]), int(headers.counts[i])
    total = min(len(headers.keys.lengths), len(headers.values.lengths))
    if count and (count < 0 or first < 0 or count > total - first):
        raise IndexError
    keys, values = view_of(headers.keys.buffer), view_of(headers.values.buffer)
    pairs: list[tuple[bytes | None, bytes | None]] = []
    for h in range(first, first + count):
        pairs.append((span_of(keys, headers.keys, h), span_of(values, headers.values, h)))
        if pairs[-1][0] is None:  # As in the native core, headers after a null key are ignored.
            break
    return pairs

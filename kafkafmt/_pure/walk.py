"""Decode one batch of magic 2, record by record, into the positions and lengths of its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..constants import (
    FAULT_BATCH_REST,
    FAULT_HEADER_COUNT,
    FAULT_HEADER_KEY,
    FAULT_HEADER_VALUE,
    FAULT_KEY,
    FAULT_LENGTH,
    FAULT_OFFSET,
    FAULT_RECORD_END,
    FAULT_RECORD_REST,
    FAULT_TIMESTAMP,
    FAULT_VALUE,
    FAULTS,
    LOG_APPEND_TIME_BIT,
    MAX_OFFSET,
    MAX_VARINT_BYTES,
    MAX_VARLONG_BYTES,
    TOO_MANY_HEADERS,
)
from ..errors import StructureError, TooLargeError
from .varint import raw_varint


class Row(NamedTuple):
    """A record with the positions and lengths of its key and value. `next` is the position of the next record."""

    offset: int
    timestamp: int
    key: tuple[int, int]
    value: tuple[int, int]
    headers: list[tuple[int, int, int, int]]
    delta: int
    next: int


def as_int64(n: int) -> int:
    """Wrap `n` around to 64 bits, as Java's arithmetic does."""
    return (n + 2**63) % 2**64 - 2**63


def fault(code: int, position: int, base_offset: int) -> StructureError:
    return StructureError(FAULTS[code], position, base_offset)


def varint(data: Any, p: int, end: int) -> tuple[int, int]:
    """Read a zigzag varint. Varints of one byte, which are the most common, are read without a loop."""
    byte = data[p] if p < end else 0x80
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), p + 1
    raw, p = raw_varint(data, p, end, MAX_VARINT_BYTES)
    return (raw >> 1) ^ -(raw & 1), p


def span(data: Any, p: int, end: int) -> tuple[tuple[int, int], int]:
    """Read a length, and return the span of that many bytes (negative: null) and the position after it."""
    length, p = varint(data, p, end)
    if length > end - p:
        raise IndexError
    return ((p, length), p + length) if length >= 0 else ((p, -1), p)


def read_record(data: Any, start: int, end: int, batch: Any, max_headers: int) -> Row:
    base_offset = batch.base_offset
    code = FAULT_LENGTH
    try:
        length, p = varint(data, start, end)
        code = FAULT_RECORD_END
        if length < 0 or length > end - p:
            raise IndexError
        stop = p + length
        code = FAULT_TIMESTAMP
        raw, p = raw_varint(data, p + 1, stop, MAX_VARLONG_BYTES)  # Skip the attributes, which are unused.
        timestamp = batch.timestamp(raw)
        code = FAULT_OFFSET
        delta, p = varint(data, p, stop)
        code = FAULT_KEY
        key, p = span(data, p, stop)
        code = FAULT_VALUE
        value, p = span(data, p, stop)
        code = FAULT_HEADER_COUNT
        count, p = varint(data, p, stop)
        if not 0 <= count <= stop - p:
            raise IndexError
        if count > max_headers:
            raise TooLargeError(TOO_MANY_HEADERS.format(count=count, limit=max_headers), start, base_offset)
        headers: list[tuple[int, int, int, int]] = []
        for _ in range(count):
            code = FAULT_HEADER_KEY
            name, p = span(data, p, stop)
            if name[1] < 0:
                raise IndexError
            code = FAULT_HEADER_VALUE
            content, p = span(data, p, stop)
            headers.append(name + content)
        code = FAULT_RECORD_REST
        if p != stop:
            raise IndexError
    except IndexError:
        raise fault(code, start, base_offset) from None
    return Row(as_int64(base_offset + delta), timestamp, key, value, headers, delta, stop)


def read_plain(data: Any, start: int, end: int, batch: Any) -> Row | None:
    """Read a record without headers whose varints have one or two bytes, as in most records, or return None."""
    # For all other records, the caller calls `read_record`, which reports faults. The code that
    # reads varints is inlined, because function calls would take most of the time.
    p = start
    if end - start < PLAIN_SIZE:  # PLAIN_SIZE bytes are read without bounds checks
        return None
    byte = data[p]
    p += 1
    if byte >= 0x80:
        byte += (data[p] << 7) - 0x80
        p += 1
    if byte & 1 or byte >= 0x4000:
        return None
    stop = p + (byte >> 1)
    if stop > end:
        return None
    raw = data[p + 1]
    p += 2
    if raw >= 0x80:
        raw += (data[p] << 7) - 0x80
        p += 1
        if raw >= 0x4000:
            return None
    delta = data[p]
    p += 1
    if delta >= 0x80:
        delta += (data[p] << 7) - 0x80
        p += 1
    if delta & 1 or delta >= 0x4000:
        return None
    delta >>= 1
    length = data[p]
    p += 1
    if length >= 0x80:
        length += (data[p] << 7) - 0x80
        p += 1
        if length >= 0x4000:
            return None
    if length & 1:
        if length > 1:
            return None
        key = (p, -1)
    else:
        key = (p, length >> 1)
        p += length >> 1
    if p >= stop:
        return None
    length = data[p]
    p += 1
    if length >= 0x80:
        length += (data[p] << 7) - 0x80
        p += 1
        if length >= 0x4000:
            return None
    if length & 1:
        if length > 1:
            return None
        value = (p, -1)
    else:
        value = (p, length >> 1)
        p += length >> 1
    if p + 1 != stop or data[p]:
        return None
    timestamp = batch.max_timestamp if batch.timestamp_type else batch.base_timestamp + ((raw >> 1) ^ -(raw & 1))
    return new_row(Row, (batch.base_offset + delta, timestamp, key, value, NO_HEADERS, delta, stop))


PLAIN_SIZE = 16
"""Largest size of a plain record's varints. If so many bytes are left, they are read without bounds checks."""
NO_HEADERS: list[tuple[int, int, int, int]] = []
new_row: Callable[[type[Row], tuple[Any, ...]], Row] = tuple.__new__


class Batch:
    """A batch header as Python integers, with values that are derived from the header."""

    def __init__(self, row: Any) -> None:
        self.magic = int(row["magic"])
        self.position = int(row["position"])
        self.base_offset = int(row["base_offset"])
        self.base_timestamp = int(row["base_timestamp"])
        self.max_timestamp = int(row["max_timestamp"])
        self.last_offset_delta = int(row["last_offset_delta"])
        self.count = int(row["count"])
        self.payload_position = int(row["payload_position"])
        self.payload_end = self.payload_position + int(row["payload_size"])
        # If True, adding small deltas to offsets and timestamps cannot overflow 64 bits.
        self.never_wraps = abs(self.base_offset) < MAX_OFFSET // 2 and abs(self.base_timestamp) < MAX_OFFSET // 2
        self.timestamp_type = 1 if int(row["attributes"]) & LOG_APPEND_TIME_BIT else 0

    def timestamp(self, raw: int) -> int:
        """Return a record's timestamp from its raw delta; with LogAppendTime, the maximum timestamp of the batch."""
        if self.timestamp_type:
            return self.max_timestamp
        return as_int64(self.base_timestamp + ((raw >> 1) ^ -(raw & 1)))

    def rows(self, data: Any, record: int, position: int, max_headers: int) -> Iterator[Row]:
        """Yield the records of the batch from number `record` on, which begins at `position`."""
        # Bytes after the last are an error.
        end = self.payload_end
        plain = self.never_wraps
        for _ in range(record, self.count):
            row = None
            if plain:
                try:
                    row = read_plain(data, position, end, self)
                except IndexError:  # The buffer ends inside a faulty record.
                    pass
            if row is None:
                # Stop calling `read_plain`: if it cannot read one record, it cannot read most of the others.
                plain = False
                row = read_record(data, position, end, self, max_headers)
            position = row.next
            yield row
        if position != self.payload_end:
            raise fault(FAULT_BATCH_REST, position, self.base_offset)

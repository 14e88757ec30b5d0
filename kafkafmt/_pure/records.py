"""The deep walk: the records of many batches into the caller's columns.

A batch is given out whole or, where it alone fills the columns, in parts after a first walk has found it sound: so
no record of a damaged batch is ever given out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..constants import (
    FAULT_BATCH_REST,
    FAULT_COUNT,
    FAULT_HEADER_COUNT,
    FAULT_HEADER_KEY,
    FAULT_HEADER_VALUE,
    FAULT_KEY,
    FAULT_LENGTH,
    FAULT_OFFSET,
    FAULT_OFFSET_ORDER,
    FAULT_RECORD_END,
    FAULT_RECORD_REST,
    FAULT_TIMESTAMP,
    FAULT_VALUE,
    FAULTS,
    LOG_APPEND_TIME_BIT,
    MAGIC_V2,
    MAX_MILLIS,
    MAX_OFFSET,
    MAX_VARINT_BYTES,
    MAX_VARLONG_BYTES,
    MICROS_BEYOND,
    MICROS_NONE,
    MIN_OFFSET,
    MIN_RECORD_SIZE,
    TIMESTAMP_TYPE_NONE,
)
from ..errors import KafkaFormatError, StructureError, UnsupportedError
from ..types import BatchTable, Buffer, IntArray, RecordColumns
from .legacy import MessageSet
from .varint import raw_varint, view_of


class Row(NamedTuple):
    """One record as spans: what a row of the columns holds, and where the next record begins."""

    offset: int
    timestamp: int
    key: tuple[int, int]
    value: tuple[int, int]
    headers: list[tuple[int, int, int, int]]
    delta: int
    next: int


def as_int64(n: int) -> int:
    """What Java's 64-bit arithmetic would hold."""
    return (n + 2**63) % 2**64 - 2**63


def fault(code: int, position: int, base_offset: int) -> StructureError:
    return StructureError(FAULTS[code], position, base_offset)


def varint(data: Any, p: int, end: int) -> tuple[int, int]:
    """A zigzag varint; the short ones, which nearly all are, without a loop."""
    byte = data[p] if p < end else 0x80
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), p + 1
    raw, p = raw_varint(data, p, end, MAX_VARINT_BYTES)
    return (raw >> 1) ^ -(raw & 1), p


def span(data: Any, p: int, end: int) -> tuple[tuple[int, int], int]:
    """A length, negative for null, and that many bytes: as a span, and the position behind them."""
    length, p = varint(data, p, end)
    if length > end - p:
        raise IndexError
    return ((p, length), p + length) if length >= 0 else ((p, -1), p)


def read_record(data: Any, start: int, end: int, batch: Any, last_delta: int, names: frozenset[str]) -> Row:
    """The record at `start` of a payload that ends at `end`. Columns behind the last one wanted are skipped, not decoded."""
    base_offset = batch.base_offset
    code = FAULT_LENGTH
    try:
        length, p = varint(data, start, end)
        code = FAULT_RECORD_END
        if length < 0 or length > end - p:
            raise IndexError
        stop = p + length
        code = FAULT_TIMESTAMP
        raw, p = raw_varint(data, p + 1, stop, MAX_VARLONG_BYTES)  # behind the attributes, which are unused
        timestamp = batch.timestamp(raw)
        code = FAULT_OFFSET
        delta, p = varint(data, p, stop)
        code = FAULT_OFFSET_ORDER
        if not last_delta < delta <= batch.last_offset_delta:
            raise IndexError
        key = value = (0, -1)
        headers: list[tuple[int, int, int, int]] = []
        if names:
            code = FAULT_KEY
            key, p = span(data, p, stop)
            if names != KEY_ONLY:
                code = FAULT_VALUE
                value, p = span(data, p, stop)
            if "headers" in names:
                code = FAULT_HEADER_COUNT
                count, p = varint(data, p, stop)
                if not 0 <= count <= stop - p:
                    raise IndexError
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


def read_plain(data: Any, start: int, end: int, batch: Any, last_delta: int, headers: bool) -> Row | None:
    """The same for the records that nearly all are: of varints of one or two bytes, and without headers where these are wanted.

    None for any other, and wherever there is a fault: `read_record` says what it is. Written out, since calls are what costs.
    """
    p = start
    if end - start < PLAIN_SIZE:  # the last record of a batch, if it is short
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
    if not last_delta < delta <= batch.last_offset_delta:
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
    if p > stop or (headers and (p + 1 != stop or data[p])):
        return None
    timestamp = batch.max_timestamp if batch.timestamp_type else batch.base_timestamp + ((raw >> 1) ^ -(raw & 1))
    return new_row(Row, (batch.base_offset + delta, timestamp, key, value, NO_HEADERS, delta, stop))


PLAIN_SIZE = 16
"""Bytes that the varints of a plain record take at most, and the ones looked at before they are judged."""
NO_HEADERS: list[tuple[int, int, int, int]] = []
new_row: Callable[[type[Row], tuple[Any, ...]], Row] = tuple.__new__
KEY_ONLY = frozenset({"key"})
KEY_AND_VALUE = frozenset({"key", "value"})
BODY = frozenset({"key", "value", "headers"})


class Batch:
    """A row of the table of batches as Python integers, and what follows from it."""

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
        # 64 bits are not left by any record whose deltas are small
        self.never_wraps = abs(self.base_offset) < MAX_OFFSET // 2 and abs(self.base_timestamp) < MAX_OFFSET // 2
        self.timestamp_type = 1 if int(row["attributes"]) & LOG_APPEND_TIME_BIT else 0

    def timestamp(self, raw: int) -> int:
        """A record's timestamp from the bits of its delta; with LogAppendTime the batch's for every record."""
        if self.timestamp_type:
            return self.max_timestamp
        return as_int64(self.base_timestamp + ((raw >> 1) ^ -(raw & 1)))

    def rows(self, data: Any, names: frozenset[str], record: int, position: int, last_delta: int) -> Iterator[Row]:
        """Every record from the cursor on; an error where one, or what follows the last, is not as it should be."""
        end = self.payload_end
        plain = self.never_wraps and (names == BODY or names == KEY_AND_VALUE)
        headers = "headers" in names
        for _ in range(record, self.count):
            row = None
            if plain:
                try:
                    row = read_plain(data, position, end, self, last_delta, headers)
                except IndexError:  # the buffer ends inside a record at fault
                    pass
            if row is None:
                plain = False  # what one record is not, the others of its batch rarely are
                row = read_record(data, position, end, self, last_delta, names)
            position, last_delta = row.next, row.delta
            yield row
        if position != self.payload_end:
            raise fault(FAULT_BATCH_REST, position, self.base_offset)


class Output:
    """Rows on their way into the columns: collected in lists, stored by slices."""

    def __init__(self, view: memoryview, columns: RecordColumns, timestamp_type: int) -> None:
        self.view = view
        self.columns = columns
        self.timestamp_type = timestamp_type
        self.rows: list[Row] = []
        self.headers = 0
        self.copies = columns.key_offsets is not None or columns.value_offsets is not None
        self.key_room = data_room(columns.key_offsets, columns.key_data, columns.rows)
        self.value_room = data_room(columns.value_offsets, columns.value_data, columns.rows)

    def room(self) -> int:
        return self.columns.capacity - self.columns.rows - len(self.rows)

    def header_room(self) -> int:
        return self.columns.header_capacity - self.columns.headers - self.headers

    def take_data(self, key_length: int, value_length: int) -> bool:
        """Reserve room for the copies of a key and a value; False where there is none."""
        if key_length > self.key_room or value_length > self.value_room:
            return False
        self.key_room -= max(key_length, 0)
        self.value_room -= max(value_length, 0)
        return True

    def store(self) -> None:
        c, a, b = self.columns, self.columns.rows, self.columns.rows + len(self.rows)
        if a == b:
            return

        def put(array: Any, values: Sequence[int], at: int = a) -> None:
            if array is not None:
                array[at : at + len(values)] = values

        def put_spans(name: str, spans: Sequence[tuple[int, int]]) -> None:
            if getattr(c, f"{name}_length") is not None:
                getattr(c, f"{name}_position")[a:b] = [p for p, _ in spans]
                getattr(c, f"{name}_length")[a:b] = [n for _, n in spans]
            if getattr(c, f"{name}_offsets") is not None:
                self.copy(name, spans)

        put(c.offset, [r[0] for r in self.rows])  # by number: by name takes twice as long
        put(c.timestamp, [r[1] for r in self.rows])
        if c.timestamp_type is not None:
            c.timestamp_type[a:b] = self.timestamp_type
        if c.timestamp_micros is not None:
            put(c.timestamp_micros, self.micros())
        put_spans("key", [r[2] for r in self.rows])
        put_spans("value", [r[3] for r in self.rows])
        if c.header_count is not None:
            headers = [r.headers for r in self.rows]
            counts = [len(h) for h in headers]
            put(c.header_count, counts)
            put(c.header_start, list(c.headers + np.cumsum([0, *counts])[:-1]))
            each = [h for part in headers for h in part]
            for k, array in enumerate((c.header_key_position, c.header_key_length, c.header_value_position, c.header_value_length)):
                put(array, [h[k] for h in each], c.headers)
        c.rows, c.headers = b, c.headers + self.headers

    def micros(self) -> list[int]:
        """The timestamps in microseconds, or what stands for none and for those beyond."""
        if self.timestamp_type == TIMESTAMP_TYPE_NONE:
            self.columns.odd_times = True
            return [MICROS_NONE] * len(self.rows)
        micros = [r[1] * 1000 if -MAX_MILLIS <= r[1] <= MAX_MILLIS else MICROS_BEYOND for r in self.rows]
        if MICROS_BEYOND in micros:
            self.columns.odd_times = True
        return micros

    def copy(self, name: str, spans: Sequence[tuple[int, int]]) -> None:
        """The spans' bytes behind those of the rows before."""
        first = self.columns.rows
        offsets, data, validity = (getattr(self.columns, f"{name}_{part}") for part in ("offsets", "data", "validity"))
        copied = b"".join([self.view[p : p + n] for p, n in spans if n > 0])
        start = int(offsets[first])
        data[start : start + len(copied)] = np.frombuffer(copied, np.uint8)
        offsets[first + 1 : first + 1 + len(spans)] = start + np.cumsum([max(n, 0) for _, n in spans])
        for row, (_, n) in enumerate(spans, first):
            if n < 0:
                validity[row // 8] &= ~(1 << row % 8) & 0xFF


def data_room(offsets: Any, data: Any, rows: int) -> int:
    """Bytes that the copies of keys or values have left; without end where spans are wanted."""
    if offsets is None:
        return MAX_OFFSET
    room, filled = min(len(data), 2**31 - 1), int(offsets[rows])
    if not 0 <= filled <= room:
        raise ValueError("the data filled so far do not lie within their room")
    return room - filled


def give_messages(view: memoryview, messages: MessageSet, columns: RecordColumns, first_offset: int, end_offset: int) -> bool:
    """A set of format 0 or 1 into the columns, whole unless it alone fills them; False where the columns are full."""
    cursor = columns.cursor
    count, add = messages.check(view)
    record, position = int(cursor[1]), int(cursor[2])
    if record == 0:
        position = cursor[2] = messages.start
        if count > columns.capacity - columns.rows and columns.rows:
            return False
    output = Output(view, columns, messages.timestamp_type)
    while position < messages.end and output.room():
        message = messages.read(view, position)
        offset = as_int64(message.offset + add)
        if first_offset <= offset < end_offset:
            if not output.take_data(message.key[1], message.value[1]):
                if cursor[1] == 0 and columns.rows:
                    return False  # the set goes out whole, next time
                break
            output.rows.append(Row(offset, message.timestamp, message.key, message.value, [], 0, message.next))
        record, position = record + 1, message.next
    output.store()
    full = position < messages.end
    cursor[:3] = (cursor[0], record, position) if full else (cursor[0] + 1, 0, position)
    return not full


def check_table(size: int, batches: BatchTable, cursor: IntArray) -> None:
    """Payloads that do not lie in the buffer, or a cursor that does not lie in its batch, are the caller's mistake."""
    at, record, position = (int(n) for n in cursor[:3])
    starts, lengths = (batches[name][max(at, 0) :] for name in ("payload_position", "payload_size"))
    outside = np.flatnonzero((starts < 0) | (lengths < 0) | (starts > size) | (lengths > size - starts))
    if len(outside):
        raise ValueError(f"row {max(at, 0) + outside[0]} of the table: its payload does not lie in the buffer")
    if at < 0 or record < 0:
        raise ValueError("the cursor does not lie in the table of batches")
    if at < len(batches) and record:
        batch = Batch(batches[at])
        if (batch.magic == MAGIC_V2 and record > batch.count) or not batch.payload_position <= position <= batch.payload_end:
            raise ValueError("the cursor does not lie in the table of batches")


def decode_records(
    buffer: Buffer, batches: BatchTable, columns: RecordColumns, first_offset: int = MIN_OFFSET, end_offset: int = MAX_OFFSET
) -> KafkaFormatError | None:
    view = view_of(buffer)
    cursor = columns.cursor
    names = BODY.intersection(columns.names)
    if not 0 <= columns.rows <= columns.capacity or not 0 <= columns.headers <= columns.header_capacity:
        raise ValueError("rows and headers filled so far do not lie within the capacity")
    check_table(len(view), batches, cursor)
    while cursor[0] < len(batches):
        if 0 <= batches[int(cursor[0])]["magic"] < MAGIC_V2:
            try:
                done = give_messages(view, MessageSet(batches[int(cursor[0])]), columns, first_offset, end_offset)
            except StructureError as error:
                return StructureError(error.message, error.position, error.base_offset)
            if not done and columns.rows:
                return None
            if not done:
                columns.grow_data()
            continue
        batch = Batch(batches[int(cursor[0])])
        record, position, last_delta = (int(n) for n in cursor[1:])
        parts = record > 0
        if not parts:
            if batch.magic != MAGIC_V2:
                return UnsupportedError(f"magic {batch.magic} is not supported", batch.position, batch.base_offset)
            if not 0 <= batch.count <= (batch.payload_end - batch.payload_position) // MIN_RECORD_SIZE:
                return fault(FAULT_COUNT, batch.payload_position, batch.base_offset)
            position, last_delta = batch.payload_position, -1
            if batch.count > columns.capacity - columns.rows and columns.rows:
                return None
        output = Output(view, columns, batch.timestamp_type)
        full, no_data_room, add = False, False, output.rows.append
        try:
            room = output.room()
            for row in batch.rows(view, names, record, position, last_delta):
                offset, _, _, _, headers, delta, following = row
                wanted = first_offset <= offset < end_offset
                if room == 0 or (wanted and headers and len(headers) > output.header_room()):
                    full = True
                    break
                if wanted:
                    if output.copies and not output.take_data(row.key[1], row.value[1]):
                        full = no_data_room = True
                        break
                    add(row)
                    output.headers += len(headers)
                    room -= 1
                record, position, last_delta = record + 1, following, delta
            if full and not parts:
                if columns.rows:
                    return None  # the batch goes out next time, into empty columns
                for _ in batch.rows(view, names, record, position, last_delta):
                    pass
        except StructureError as error:  # made anew, since the one raised holds our frames, and with them the buffer
            return StructureError(error.message, error.position, error.base_offset)
        output.store()
        if full:
            cursor[1:] = record, position, last_delta
            if columns.rows:
                return None
            if no_data_room:
                columns.grow_data()
            else:
                columns.grow_headers(max(2 * columns.header_capacity, 16))
        else:
            cursor[:] = cursor[0] + 1, 0, position, last_delta
    return None


def decode_run(
    buffer: Buffer,
    columns: RecordColumns,
    start: int = 0,
    end: int | None = None,
    first_offset: int = MIN_OFFSET,
    end_offset: int = MAX_OFFSET,
    check_crc: bool = True,
) -> int:
    """Takes no batch: a table of many and one call for all of it are no slower here."""
    columns.full = False
    return start

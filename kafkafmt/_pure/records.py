"""Decode the records of many batches into the caller's columns.

Records are written to the columns only after their complete batch has been checked. Therefore, no
records of a corrupted batch are returned. If a batch has more records than the columns have rows,
several calls write the records of this batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..constants import (
    FAULT_COUNT,
    FAULTS,
    MAGIC_V2,
    MAX_MILLIS,
    MAX_OFFSET,
    MICROS_BEYOND,
    MICROS_NONE,
    MIN_OFFSET,
    MIN_RECORD_SIZE,
    TIMESTAMP_TYPE_NONE,
)
from ..errors import KafkaFormatError, StructureError, TooLargeError, UnsupportedError
from ..types import BatchTable, Buffer, IntArray, RecordColumns
from .legacy import MessageSet
from .varint import natural, view_of
from .walk import Batch, Row, as_int64, fault


class Output:
    """Collects decoded records in lists, and then copies them into the columns."""

    def __init__(self, view: memoryview, columns: RecordColumns, timestamp_type: int, max_timestamp: int) -> None:
        self.view = view
        self.columns = columns
        self.timestamp_type = timestamp_type
        self.timestamp_types: list[int] = []  # of each row, if they can differ
        self.max_timestamp = max_timestamp
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
        """Reserve space for copies of a key and a value. Return False if they do not fit."""
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

        put(c.offset, [r[0] for r in self.rows])  # access by name would take twice the time of access by index
        if c.timestamp is not None:
            times = [r[1] for r in self.rows]
            put(c.timestamp, times)
            c.late_times |= max(times) > self.max_timestamp
        if c.timestamp_type is not None:
            c.timestamp_type[a:b] = self.timestamp_types or self.timestamp_type
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
            for k, array in enumerate(
                (c.header_key_position, c.header_key_length, c.header_value_position, c.header_value_length)
            ):
                put(array, [h[k] for h in each], c.headers)
        c.rows, c.headers = b, c.headers + self.headers

    def micros(self) -> list[int]:
        """Return the timestamps in microseconds: MICROS_NONE if missing, MICROS_BEYOND if int64 cannot hold it."""
        micros = [r[1] * 1000 if -MAX_MILLIS <= r[1] <= MAX_MILLIS else MICROS_BEYOND for r in self.rows]
        for i, timestamp_type in enumerate(self.timestamp_types):
            if timestamp_type == TIMESTAMP_TYPE_NONE:
                micros[i] = MICROS_NONE
        if MICROS_BEYOND in micros or MICROS_NONE in micros:
            self.columns.odd_times = True
        return micros

    def copy(self, name: str, spans: Sequence[tuple[int, int]]) -> None:
        """Copy the values at `spans` into column `name`, after the values of earlier rows."""
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
    """Return the number of bytes that still fit into the data array of a column."""
    # A column of positions and lengths has no limit: the result is MAX_OFFSET.
    if offsets is None:
        return MAX_OFFSET
    room, filled = min(len(data), 2**31 - 1), int(offsets[rows])
    if not 0 <= filled <= room:
        raise ValueError("the data filled so far exceeds the data array")
    return room - filled


def give_messages(
    view: memoryview, messages: MessageSet, columns: RecordColumns, first_offset: int, last_offset: int
) -> bool:
    """Decode a message set, beginning at the cursor. Return False if the columns are full."""
    # If the set does not fit into the unused rows, write nothing. If `columns` is empty and still
    # too small, several calls write the set.
    cursor = columns.cursor
    count, add = messages.check(view)
    record, position = int(cursor[1]), int(cursor[2])
    if record == 0:
        position = cursor[2] = messages.start
        if count > columns.capacity - columns.rows and columns.rows:
            return False
    output = Output(view, columns, messages.timestamp_type, messages.max_timestamp)
    for message in messages.messages(view, position):
        if not output.room():
            break
        offset = as_int64(message.offset + add)
        if first_offset <= offset <= last_offset:
            if not output.take_data(message.key[1], message.value[1]):
                if cursor[1] == 0 and columns.rows:
                    return False  # The message set does not fit. The caller decodes it again into empty columns.
                break
            output.rows.append(Row(offset, message.timestamp, message.key, message.value, [], 0, message.next))
            output.timestamp_types.append(message.timestamp_type)
        record, position = record + 1, message.next
    output.store()
    full = record < count
    cursor[:3] = (cursor[0], record, position) if full else (cursor[0] + 1, 0, position)
    return not full


def check_table(size: int, batches: BatchTable, cursor: IntArray) -> None:
    """Raise ValueError if a payload is outside the buffer or the cursor is outside its batch."""
    at, record, position = (int(n) for n in cursor[:3])
    starts, lengths = (batches[name][max(at, 0) :] for name in ("payload_position", "payload_size"))
    outside = np.flatnonzero((starts < 0) | (lengths < 0) | (starts > size) | (lengths > size - starts))
    if len(outside):
        raise ValueError(f"the payload of row {max(at, 0) + outside[0]} of the table is outside the buffer")
    if at < 0 or record < 0:
        raise ValueError("the cursor is outside the table of batches")
    if at < len(batches) and record:
        batch = Batch(batches[at])
        if (
            batch.magic == MAGIC_V2 and record > batch.count
        ) or not batch.payload_position <= position <= batch.payload_end:
            raise ValueError("the cursor is outside the table of batches")


def decode_records(
    buffer: Buffer,
    batches: BatchTable,
    columns: RecordColumns,
    first_offset: int = MIN_OFFSET,
    end_offset: int | None = None,
) -> KafkaFormatError | None:
    view = view_of(buffer)
    cursor = columns.cursor
    last_offset = MAX_OFFSET if end_offset is None else end_offset - 1
    max_headers = min(natural(columns.max_headers), 2**31 - 1)
    with_headers = columns.header_count is not None
    if not 0 <= columns.rows <= columns.capacity or not 0 <= columns.headers <= columns.header_capacity:
        raise ValueError("columns.rows or columns.headers exceeds the capacity")
    check_table(len(view), batches, cursor)
    while cursor[0] < len(batches):
        if 0 <= batches[int(cursor[0])]["magic"] < MAGIC_V2:
            try:
                done = give_messages(view, MessageSet(batches[int(cursor[0])]), columns, first_offset, last_offset)
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
        output = Output(view, columns, batch.timestamp_type, batch.max_timestamp)
        full, no_data_room, odd, add = False, False, False, output.rows.append
        try:
            room = output.room()
            for row in batch.rows(view, record, position, max_headers):
                offset, _, _, _, headers, delta, following = row
                wanted = first_offset <= offset <= last_offset
                stored = len(headers) if wanted and with_headers else 0
                if room == 0 or stored > output.header_room():
                    full = True
                    break
                if wanted:
                    if output.copies and not output.take_data(row.key[1], row.value[1]):
                        full = no_data_room = True
                        break
                    add(row)
                    output.headers += stored
                    room -= 1
                odd |= not last_delta < delta <= batch.last_offset_delta
                record, position, last_delta = record + 1, following, delta
            if full and not parts:
                if columns.rows:
                    return None  # The batch does not fit. The caller decodes it again into empty columns.
                for _ in batch.rows(view, record, position, max_headers):
                    pass
        except (StructureError, TooLargeError) as error:
            # Return a copy of the error, because the traceback of the raised error would keep the buffer alive.
            return type(error)(error.message, error.position, error.base_offset)
        output.store()
        columns.odd_offsets |= odd
        if full:
            cursor[1:] = record, position, last_delta
            if columns.rows:
                return None
            if no_data_room:
                columns.grow_data()
            else:
                columns.grow_headers(min(max(2 * columns.header_capacity, 16), max(max_headers, 16)))
        else:
            cursor[:] = cursor[0] + 1, 0, position, last_delta
    return None


def decode_valid_records(
    buffer: Buffer,
    batches: BatchTable,
    columns: RecordColumns,
    faults: IntArray,
    first_offset: int = MIN_OFFSET,
    end_offset: int | None = None,
) -> tuple[int, KafkaFormatError | None]:
    count, cursor = 0, columns.cursor
    while True:
        error = decode_records(buffer, batches, columns, first_offset, end_offset)
        if not isinstance(error, StructureError) or count == len(faults):
            return count, error
        faults[count] = cursor[0], FAULTS.index(error.message), error.position
        count += 1
        cursor[:] = cursor[0] + 1, 0, 0, 0


def decode_plain_batches(
    buffer: Buffer,
    columns: RecordColumns,
    start: int = 0,
    end: int | None = None,
    first_offset: int = MIN_OFFSET,
    end_offset: int | None = None,
    check_crc: bool = True,
) -> int:
    """Do nothing, and return `start`: only the native core decodes plain batches faster in this way."""
    columns.full = False
    return start

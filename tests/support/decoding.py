"""Call functions of a core with bytes, and convert their results to plain Python values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kafkafmt import Record
from kafkafmt.errors import KafkaFormatError
from kafkafmt.types import BATCH_DTYPE, COLUMNS, BatchTable, Buffer, CopiedColumns, RecordColumns

MIN, MAX = -(2**63), 2**63 - 1

Row = tuple[Any, ...]
"""Offset, timestamp, timestamp type, key span, value span and header spans of a row. An item is
None if its column is missing.
"""
Fields = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Offset, timestamp, timestamp type, key, value and headers of a record."""

ErrorFields = tuple[str, int, int | None, int | None, str]
"""Class name, position, base offset, resume position and message of an error."""

T = TypeVar("T")


class Step(NamedTuple):
    """The result of one call of `decode_records`."""

    rows: list[Row]
    error: KafkaFormatError | None
    cursor: tuple[int, ...]


def required(column: T | None) -> T:
    """Return a column that is not None, because it was requested."""
    assert column is not None
    return column


def scan(
    core: ModuleType,
    data: Buffer,
    rows: int = 64,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
) -> tuple[BatchTable, Any]:
    """Return the rows that `scan_batches` fills, and the result of the call."""
    table = np.zeros(rows, BATCH_DTYPE)
    result = core.scan_batches(data, table, start, end, check_crc)
    return table[: result.count], result


def rows_of(columns: RecordColumns) -> list[Row]:
    """Return each row as a tuple: offset, timestamp, type, key span, value span and header spans.

    An item is None if its column was not requested.
    """
    n = columns.rows

    def column(*arrays: npt.NDArray[Any] | None) -> list[Any]:
        parts = [array[:n].tolist() for array in arrays if array is not None]
        if not parts:
            return [None] * n
        return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))

    headers = column(None)
    if columns.header_start is not None and columns.header_count is not None:
        spans = [
            getattr(columns, f"header_{part}")
            for part in ("key_position", "key_length", "value_position", "value_length")
        ]
        pairs = list(zip(*(array[: columns.headers].tolist() for array in spans), strict=True))
        places = zip(columns.header_start[:n].tolist(), columns.header_count[:n].tolist(), strict=True)
        headers = [pairs[a : a + count] for a, count in places]
    return list(
        zip(
            column(columns.offset),
            column(columns.timestamp),
            column(columns.timestamp_type),
            copies_of(columns, "key") or column(columns.key_position, columns.key_length),
            copies_of(columns, "value") or column(columns.value_position, columns.value_length),
            headers,
            strict=True,
        )
    )


def copies_of(columns: RecordColumns, name: str) -> list[bytes | None] | None:
    """Return the keys or values of CopiedColumns. Check that the validity bits after the last row are set."""
    offsets, data, validity = (getattr(columns, f"{name}_{part}") for part in ("offsets", "data", "validity"))
    if offsets is None:
        return None
    bits = np.unpackbits(validity, bitorder="little")
    assert bits[columns.rows :].all()
    ends, raw = offsets[: columns.rows + 1].tolist(), data.tobytes()
    assert ends[0] == 0
    return [raw[a:b] if valid else None for a, b, valid in zip(ends, ends[1:], bits[: columns.rows], strict=False)]


def decode_steps(
    core: ModuleType,
    data: Buffer,
    table: BatchTable,
    names: Sequence[str] = COLUMNS,
    capacity: int = 64,
    header_capacity: int = 0,
    first: int = MIN,
    end: int | None = None,
    room: int | None = None,
) -> Iterator[Step]:
    """Yield the rows, the error and the cursor after each call of decode_records, until its end or error.

    `room` is the capacity for copied keys and values, in bytes. By default, the columns contain
    spans.
    """
    columns = (
        RecordColumns(capacity, names, header_capacity)
        if room is None
        else CopiedColumns(capacity, names, header_capacity, room)
    )
    while True:
        error = core.decode_records(data, table, columns, first, end)
        batch, record, position, delta = columns.cursor.tolist()
        yield Step(rows_of(columns), error, (batch, record, *((position, delta) if record else ())))
        if error is not None or batch >= len(table):
            return
        assert columns.rows, "decode_records decoded no row"
        columns.clear()


def decode(
    core: ModuleType, data: Buffer, table: BatchTable | None = None, **options: Any
) -> tuple[list[Row], KafkaFormatError | None]:
    """Return all rows, and an error or None."""
    if table is None:
        table, _ = scan(core, data)
    rows: list[Row] = []
    error = None
    for part, failure, _ in decode_steps(core, data, table, **options):
        rows += part
        error = failure
    return rows, error


def records(
    core: ModuleType,
    data: Buffer,
    table: BatchTable | None = None,
    capacity: int = 64,
    names: Sequence[str] = COLUMNS,
    **options: Any,
) -> list[Fields]:
    """Return all records as tuples of their fields, or raise the error."""
    if table is None:
        table, _ = scan(core, data)
    columns = RecordColumns(capacity, names)
    out: list[Fields] = []
    while columns.cursor[0] < len(table):
        error = core.decode_records(data, table, columns, **options)
        if error is not None:
            raise error
        out += [fields(r) for r in core.make_records(data, columns)]
        columns.clear()
    return out


def fields(record: Record[bytes]) -> Fields:
    return record.offset, record.timestamp, record.timestamp_type, record.key, record.value, record.headers


def what(error: KafkaFormatError | None) -> ErrorFields | None:
    """Return the properties of an error that must be equal on both cores."""
    if error is None:
        return None
    return type(error).__name__, error.position, error.base_offset, error.resume, str(error)

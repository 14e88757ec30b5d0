"""Check `decode_plain_batches`, the fast path for uncompressed batches, and timestamps in microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import building as build
import numpy as np
import pytest
from decoding import MAX, MIN, ErrorFields, required, rows_of, what
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import streams, valid_batch

from kafkafmt import _core, _pure
from kafkafmt.constants import MAX_MILLIS, MICROS_BEYOND, MICROS_NONE
from kafkafmt.errors import KafkaFormatError
from kafkafmt.records import RecordReader, iter_tables, read_chunks
from kafkafmt.records.reader import Chunk
from kafkafmt.types import BATCH_DTYPE, COLUMNS, CopiedColumns, RecordColumns

SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
EXAMPLES = pytest.mark.parametrize("examples", [75, pytest.param(300, marks=pytest.mark.slow)])
others = st.sampled_from(
    [
        b"",
        b"\0" * 70,
        build.message(1, b"k", b"v", offset=3, timestamp=5),
        build.batch([(0, 0, b"k", b"v", ())], codec=1),
        build.mutate(build.simple_batch([b"v" * 9]), 70, b"\xee"),
    ]
)
PLENTY = 2000
"""Header capacity that is sufficient for all inputs."""
SLACK = 160
"""Number of bytes after a batch, in the buffer and in the columns, that copies in steps of fixed size need."""
mixed = st.lists(st.one_of(streams, valid_batch(), others), max_size=5).map(b"".join)
names = st.lists(st.sampled_from((*COLUMNS, "timestamp_micros")), unique=True, min_size=1)


Case = tuple[bytes, list[str], int, int, int | None, int, int | None]
"""Data, column names, capacity, header capacity, capacity for copies, first offset and end offset."""


def new_columns(names: list[str], capacity: int, headers: int, room: int | None) -> RecordColumns:
    return RecordColumns(capacity, names, headers) if room is None else CopiedColumns(capacity, names, headers, room)


def micros_of(columns: RecordColumns) -> list[int] | None:
    return None if columns.timestamp_micros is None else columns.timestamp_micros[: columns.rows].tolist()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    bounds = st.one_of(st.just(MIN), st.integers(0, 1100), st.integers(MIN, MAX))
    sizes = st.one_of(st.integers(1, 12), st.just(200)), st.one_of(st.integers(1, 6), st.just(PLENTY))
    room = st.one_of(st.none(), st.integers(1, 3000), st.just(100_000))
    ends = st.one_of(st.none(), st.just(MAX), bounds)
    return draw(mixed), draw(names), draw(sizes[0]), draw(sizes[1]), draw(room), draw(bounds), draw(ends)


def plain_row(data: bytes, position: int, first: int, end: int | None, check_crc: bool = True) -> np.void | None:
    """Return the header of a batch that the fast path can decode, or None for other batches."""
    table = np.zeros(1, BATCH_DTYPE)
    if _pure.scan_batches(data, table, position, None, check_crc).count == 0:
        return None
    row = table[0]
    last_offset = int(row["base_offset"]) + int(row["last_offset_delta"])
    if row["magic"] != 2 or row["attributes"] & 0x27 or row["last_offset_delta"] < 0:
        return None
    return row if first <= row["base_offset"] <= last_offset < (2**63 if end is None else end) else None


def too_large(data: bytes, position: int, columns: RecordColumns, first: int, end: int | None) -> bool:
    """Return whether a header states more records or bytes than fit into the columns."""
    row = plain_row(data, position, first, end, check_crc=False)
    if row is None:
        return False
    offsets = {name: getattr(columns, f"{name}_offsets") for name in getattr(columns, "rooms", ())}
    rooms = [len(getattr(columns, f"{name}_data")) - int(ends[columns.rows]) for name, ends in offsets.items()]
    too_many: bool = row["count"] > columns.capacity - columns.rows
    return too_many or any(row["payload_size"] + SLACK > room for room in rooms)


def lacks_slack(data: bytes, position: int, columns: RecordColumns) -> bool:
    """Return whether a copy in steps of fixed size would read beyond the buffer."""
    row = plain_row(data, position, MIN, None)
    assert row is not None
    end = int(row["payload_position"] + row["payload_size"])
    return bool(getattr(columns, "rooms", ())) and len(data) - end < SLACK


def takes(data: bytes, position: int, names: list[str], first: int, end: int | None) -> bool:
    """Return whether the fast path must decode a batch, given sufficient capacity."""
    if plain_row(data, position, first, end) is None:
        return False
    table = np.zeros(1, BATCH_DTYPE)
    _pure.scan_batches(data, table, position)
    columns = RecordColumns(200, names, PLENTY)
    return _pure.decode_records(data, table, columns) is None and not columns.odd_offsets


@EXAMPLES
def test_fast_path_equals_scan_and_decode(examples: int) -> None:
    settings(SETTINGS, max_examples=examples)(given(cases())(check_fast_path))()


def check_fast_path(case: Case) -> None:
    data, names, capacity, headers, room, first, end = case
    columns = new_columns(names, capacity, headers, room)
    position = _core.decode_plain_batches(data, columns, 0, None, first, end)
    table = np.concatenate([np.zeros(0, BATCH_DTYPE), *(t.copy() for t in iter_tables(data[:position]))])
    expected = new_columns(names, max(capacity, 1), headers, room)
    assert _pure.decode_records(data, table, expected, first, end) is None
    assert expected.cursor[0] == len(table)
    assert (rows_of(columns), micros_of(columns)) == (rows_of(expected), micros_of(expected))
    assert columns.odd_times or not expected.odd_times  # a batch that did not fit may have set `odd_times`
    assert columns.cursor.tolist() == [0, 0, 0, 0]
    if columns.full:  # the batch header contains the number of rows, but not the number of record headers
        few_headers = "headers" in names and headers < PLENTY
        assert too_large(data, position, columns, first, end) or few_headers or takes(data, position, names, first, end)
    else:
        assert not takes(data, position, names, first, end) or lacks_slack(data, position, columns)


def read(chunks: Iterator[Chunk]) -> tuple[list[tuple[Any, ...]], ErrorFields | None]:
    """Return the fields of each record, with keys, values and headers as bytes, and the error."""
    rows: list[tuple[Any, ...]] = []
    try:
        for source, columns in chunks:
            data = bytes(source)

            def part(position: int, length: int, data: bytes = data) -> bytes | None:
                return None if length < 0 else data[position : position + length]

            rows += [
                (*row[:3], part(*row[3]), part(*row[4]), [(part(*h[:2]), part(*h[2:])) for h in row[5]])
                for row in rows_of(columns)
            ]
    except KafkaFormatError as error:
        return rows, what(error)
    return rows, None


@EXAMPLES
def test_reader_returns_the_same_rows_without_the_fast_path(examples: int) -> None:
    inputs = given(mixed, st.sampled_from([3, 200]), st.sampled_from([(None, None), (5, 900)]))
    settings(SETTINGS, max_examples=examples)(inputs(check_reader))()


def check_reader(data: bytes, capacity: int, bounds: tuple[int | None, int | None]) -> None:
    start, end = bounds
    low = MIN if start is None else start

    def by_tables() -> Iterator[Chunk]:
        reader = RecordReader(capacity=capacity, first_offset=low, end_offset=end, selected=(low, end))
        for table in iter_tables(data):
            yield from reader.read(data, table)

    assert read(read_chunks(data, capacity=capacity, control=True, start=start, end=end)) == read(by_tables())


TIMES = [0, 1, -1, MAX_MILLIS, -MAX_MILLIS, MAX_MILLIS + 1, -MAX_MILLIS - 1, MIN, MAX]


def test_timestamps_are_converted_to_microseconds(core: ModuleType) -> None:
    data = build.batch([(i, t, b"k", b"v", ()) for i, t in enumerate(TIMES)], base_timestamp=0)
    table = np.zeros(9, BATCH_DTYPE)
    count = core.scan_batches(data, table).count
    columns = RecordColumns(16, ("timestamp_micros",))
    assert core.decode_records(data, table[:count], columns) is None
    assert required(columns.timestamp_micros)[: columns.rows].tolist() == [
        1000 * t if abs(t) <= MAX_MILLIS else MICROS_BEYOND for t in TIMES
    ]
    assert columns.odd_times


@pytest.mark.parametrize(("magic", "expected"), [(0, MICROS_NONE), (1, 7000)])
def test_timestamps_of_messages_are_converted_to_microseconds(core: ModuleType, magic: int, expected: int) -> None:
    data = build.message(magic, b"k", b"v", offset=3, timestamp=7)
    table = np.zeros(1, BATCH_DTYPE)
    assert core.scan_batches(data, table).count == 1
    columns = RecordColumns(4, ("timestamp_micros",))
    assert core.decode_records(data, table, columns) is None
    assert required(columns.timestamp_micros)[:1].tolist() == [expected]
    assert columns.odd_times == (magic == 0)

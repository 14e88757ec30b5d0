"""The short cut of the native core takes just what the two steps would give, and stops where it has to; timestamps in microseconds."""

import building as build
import numpy as np
import pytest
from decoding import MAX, MIN, rows_of, what
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import streams, valid_batch

from kafkafmt import _core, _pure
from kafkafmt.constants import MAX_MILLIS, MICROS_BEYOND, MICROS_NONE
from kafkafmt.errors import KafkaFormatError
from kafkafmt.records import RecordReader, iter_tables, read_chunks
from kafkafmt.types import BATCH_DTYPE, COLUMNS, CopiedColumns, RecordColumns

SETTINGS = settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
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
"""Room for all headers of any of these inputs."""
SLACK = 160
"""What the core wants to be there behind a batch, in the buffer and in the columns, to copy in whole steps."""
mixed = st.lists(st.one_of(streams, valid_batch(), others), max_size=5).map(b"".join)
names = st.lists(st.sampled_from((*COLUMNS, "timestamp_micros")), unique=True, min_size=1)


def new_columns(names, capacity, headers, room):
    return RecordColumns(capacity, names, headers) if room is None else CopiedColumns(capacity, names, headers, room)


def micros_of(columns):
    return None if columns.timestamp_micros is None else columns.timestamp_micros[: columns.rows].tolist()


@st.composite
def cases(draw):
    bounds = st.one_of(st.just(MIN), st.integers(0, 1100), st.integers(MIN, MAX))
    sizes = st.one_of(st.integers(1, 12), st.just(200)), st.one_of(st.integers(1, 6), st.just(PLENTY))
    room = st.one_of(st.none(), st.integers(1, 3000), st.just(100_000))
    ends = st.one_of(st.none(), st.just(MAX), bounds)
    return draw(mixed), draw(names), draw(sizes[0]), draw(sizes[1]), draw(room), draw(bounds), draw(ends)


def plain_row(data, position, first, end, check_crc=True):
    """The header of a batch for the short cut; None for any other."""
    table = np.zeros(1, BATCH_DTYPE)
    if _pure.scan_batches(data, table, position, None, check_crc).count == 0:
        return None
    row = table[0]
    last_offset = int(row["base_offset"]) + int(row["last_offset_delta"])
    if row["magic"] != 2 or row["attributes"] & 0x27 or row["last_offset_delta"] < 0:
        return None
    return row if first <= row["base_offset"] <= last_offset < (2**63 if end is None else end) else None


def too_large(data, position, columns, first, end):
    """Whether a header claims more than the columns have room for."""
    row = plain_row(data, position, first, end, check_crc=False)
    if row is None:
        return False
    offsets = {name: getattr(columns, f"{name}_offsets") for name in getattr(columns, "rooms", ())}
    rooms = [len(getattr(columns, f"{name}_data")) - int(ends[columns.rows]) for name, ends in offsets.items()]
    return row["count"] > columns.capacity - columns.rows or any(row["payload_size"] + SLACK > room for room in rooms)


def lacks_slack(data, position, columns):
    """Whether copies in whole steps would read beyond the buffer."""
    row = plain_row(data, position, MIN, None)
    return (
        bool(getattr(columns, "rooms", ())) and len(data) - int(row["payload_position"] + row["payload_size"]) < SLACK
    )


def takes(data, position, names, first, end):
    """Whether a batch is one for the short cut, room aside."""
    if plain_row(data, position, first, end) is None:
        return False
    table = np.zeros(1, BATCH_DTYPE)
    _pure.scan_batches(data, table, position)
    return _pure.decode_records(data, table, RecordColumns(200, names, PLENTY)) is None


@SETTINGS
@given(cases())
def test_what_is_taken(case):
    data, names, capacity, headers, room, first, end = case
    columns = new_columns(names, capacity, headers, room)
    position = _core.decode_plain_batches(data, columns, 0, None, first, end)
    table = np.concatenate([np.zeros(0, BATCH_DTYPE), *(t.copy() for t in iter_tables(data[:position]))])
    expected = new_columns(names, max(capacity, 1), headers, room)
    assert _pure.decode_records(data, table, expected, first, end) is None
    assert expected.cursor[0] == len(table)
    assert (rows_of(columns), micros_of(columns)) == (rows_of(expected), micros_of(expected))
    assert columns.odd_times or not expected.odd_times  # a batch that did not fit may have set it
    assert columns.cursor.tolist() == [0, 0, 0, 0]
    if (
        columns.full
    ):  # by what the batch's header says; headers of records are counted in the walk only, up to what is at fault there
        few_headers = "headers" in names and headers < PLENTY
        assert too_large(data, position, columns, first, end) or few_headers or takes(data, position, names, first, end)
    else:
        assert not takes(data, position, names, first, end) or lacks_slack(data, position, columns)


def read(chunks):
    rows = []
    try:
        for _, columns in chunks:
            rows += [row[:3] + tuple(map(tuple, row[5])) for row in rows_of(columns)]
    except KafkaFormatError as error:
        return rows, what(error)
    return rows, None


@SETTINGS
@given(mixed, st.sampled_from([3, 200]), st.sampled_from([(None, None), (5, 900)]))
def test_readers_give_the_same_with_and_without_it(data, capacity, bounds):
    start, end = bounds

    def by_tables():
        reader = RecordReader(capacity=capacity, first_offset=MIN if start is None else start, end_offset=end)
        for table in iter_tables(data):
            yield from reader.read(data, table)

    assert read(read_chunks(data, capacity=capacity, control=True, start=start, end=end)) == read(by_tables())


TIMES = [0, 1, -1, MAX_MILLIS, -MAX_MILLIS, MAX_MILLIS + 1, -MAX_MILLIS - 1, MIN, MAX]


def test_microseconds(core):
    data = build.batch([(i, t, b"k", b"v", ()) for i, t in enumerate(TIMES)], base_timestamp=0)
    table = np.zeros(9, BATCH_DTYPE)
    count = core.scan_batches(data, table).count
    columns = RecordColumns(16, ("timestamp_micros",))
    assert core.decode_records(data, table[:count], columns) is None
    assert columns.timestamp_micros[: columns.rows].tolist() == [
        1000 * t if abs(t) <= MAX_MILLIS else MICROS_BEYOND for t in TIMES
    ]
    assert columns.odd_times


@pytest.mark.parametrize(("magic", "expected"), [(0, MICROS_NONE), (1, 7000)])
def test_microseconds_of_messages(core, magic, expected):
    data = build.message(magic, b"k", b"v", offset=3, timestamp=7)
    table = np.zeros(1, BATCH_DTYPE)
    assert core.scan_batches(data, table).count == 1
    columns = RecordColumns(4, ("timestamp_micros",))
    assert core.decode_records(data, table, columns) is None
    assert columns.timestamp_micros[:1].tolist() == [expected]
    assert columns.odd_times == (magic == 0)

"""Check that offset 2**63 - 1 is read from buffers, rejected by writers, and damage in a log."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import building
import numpy as np
import pytest
from building import batch, message, record, simple_batch

import kafkafmt
from kafkafmt import build_batch, build_batches, check_batches, iter_batches, read_records
from kafkafmt.records import BatchBuilder, RecordReader, assign_offsets, build_columns, columns_of
from kafkafmt.records.reader import iter_tables
from kafkafmt.types import RecordColumns

LAST = 2**63 - 1


def wrapper(magic: int, offset: int, inner: bytes) -> bytes:
    return message(magic, None, gzip.compress(inner), offset=offset, attributes=building.GZIP)


BUFFERS = {
    "format 2": simple_batch([b"a", b"b"], LAST - 1),
    "format 2, alone": simple_batch([b"b"], LAST),
    "format 2, compressed": simple_batch([b"a", b"b"], LAST - 1, codec=building.ZSTD),
    "format 2, with a gap": batch([record(0, value=b"a"), record(9, value=b"b")], base_offset=LAST - 9),
    "format 1": message(1, None, b"a", offset=LAST - 1) + message(1, None, b"b", offset=LAST),
    "format 0": message(0, None, b"b", offset=LAST),
    "format 1, compressed": wrapper(1, LAST, message(1, None, b"a", offset=0) + message(1, None, b"b", offset=1)),
    "format 0, compressed": wrapper(
        0, LAST, message(0, None, b"a", offset=LAST - 1) + message(0, None, b"b", offset=LAST)
    ),
}


@pytest.fixture(params=BUFFERS)
def data(request: pytest.FixtureRequest) -> bytes:
    return BUFFERS[request.param]


@pytest.mark.parametrize(
    "bounds", [{}, {"start": 5}, {"start": LAST}, {"end": LAST + 1}, {"end": 2**70}, {"start": LAST, "end": 2**63}]
)
def test_last_offset_is_delivered_by_read_records(package: ModuleType, data: bytes, bounds: dict[str, Any]) -> None:
    records = list(read_records(data, **bounds))
    assert (records[-1].offset, records[-1].value) == (LAST, b"b")
    for columns in (("offset",), ("offset", "value", "timestamp")):
        assert [r.offset for r in read_records(data, columns=columns, **bounds)][-1] == LAST
    assert [r.offset for r in read_records(data, aborted=[], **bounds)][-1] == LAST


@pytest.mark.parametrize(
    "bounds", [{"end": LAST}, {"start": LAST + 1}, {"start": 2**70}, {"start": 2**70, "end": 2**70}]
)
def test_last_offset_is_omitted_if_the_end_is_not_after_it(
    package: ModuleType, data: bytes, bounds: dict[str, Any]
) -> None:
    assert LAST not in [r.offset for r in read_records(data, **bounds)]


def test_last_offset_is_in_the_columns_of_every_reader(package: ModuleType, data: bytes) -> None:
    for capacity in (1, 100):
        for end in (None, 2**63, 2**80):
            found: list[int] = []
            for table in iter_tables(data):
                for chunk in RecordReader(RecordColumns(capacity), end_offset=end).read(data, table.copy()):
                    assert chunk.columns.offset is not None
                    found += chunk.columns.offset[: chunk.columns.rows].tolist()
            assert found[-1] == LAST


def test_last_offset_is_decoded_by_both_entry_points(core: ModuleType) -> None:
    data = BUFFERS["format 2"]
    columns = RecordColumns(10)
    core.decode_plain_batches(data, columns)
    table = next(iter_tables(data)).copy()
    if not columns.rows:
        assert core.decode_records(data, table, columns) is None
    assert columns.offset is not None
    assert columns.offset[: columns.rows].tolist() == [LAST - 1, LAST]
    for first, end in ((LAST, LAST), (-(2**63), -(2**63)), (LAST, -(2**63))):
        columns = RecordColumns(10)
        assert core.decode_records(data, table, columns, first, end) is None
        assert core.decode_plain_batches(data, columns, 0, None, first, end) == 0
        assert columns.rows == 0


def test_last_offset_is_that_of_the_batch(package: ModuleType, data: bytes) -> None:
    batches = list(iter_batches(data))
    assert batches[-1].last_offset == LAST
    assert LAST - 9 <= batches[0].base_offset <= LAST
    assert list(batches[-1].records())[-1].offset == LAST


def test_wrapper_without_messages_has_no_base_offset(package: ModuleType) -> None:
    (empty,) = iter_batches(wrapper(1, 7, b""))
    with pytest.raises(kafkafmt.StructureError, match="empty"):
        empty.base_offset  # noqa: B018


def test_check_batches_reports_the_last_offset(package: ModuleType, data: bytes) -> None:
    found = check_batches(data)
    assert [p.code for p in found.problems] == ["offset_range"]
    assert str(LAST) in found.problems[0].message
    assert found.records == len(list(read_records(data)))


def test_offsets_beyond_the_last_are_an_error(package: ModuleType) -> None:
    """With a corrupted base offset, the offsets of later records would exceed 64 bits."""
    data = simple_batch([b"a", b"b"], LAST)
    for start in (None, 5):
        with pytest.raises(kafkafmt.StructureError, match=f"offsets {LAST} to {LAST + 1}"):
            list(read_records(data, start=start))
    assert [p.code for p in check_batches(data).problems] == ["offset_range"]


@pytest.mark.parametrize(
    "options", [{}, {"codec": "lz4"}, {"magic": 1}, {"magic": 0}, {"timestamp_type": "LogAppendTime"}]
)
@pytest.mark.parametrize("origin", ["client", "coordinator"])
def test_last_offset_is_replaced_by_validation(
    package: ModuleType, data: bytes, options: dict[str, Any], origin: str
) -> None:
    before = bytearray(data)
    try:
        result = kafkafmt.records.validate_and_assign_offsets(before, 10, after_max_ms=2**62, origin=origin, **options)
    except kafkafmt.KafkaFormatError:
        assert before == data
        return
    assert result.count == len(list(read_records(data)))
    assert (result.first_offset, next(read_records(result.records)).offset) == (10, 10)


@pytest.mark.parametrize("next_offset", [LAST, LAST + 1, 2**70])
@pytest.mark.parametrize(
    "make", [lambda: build_batch([(None, b"a", 5)]), lambda: message(1, None, b"a"), lambda: simple_batch([b"a"] * 3)]
)
def test_assignment_beyond_64_bits_is_an_overflow_error(
    package: ModuleType, next_offset: int, make: Callable[[], bytes]
) -> None:
    data = bytearray(make())
    before = bytes(data)
    every_options: list[dict[str, Any]] = [{}, {"codec": "gzip"}, {"magic": 0}]
    for options in every_options:
        with pytest.raises(OverflowError, match="64 bits"):
            kafkafmt.records.validate_and_assign_offsets(data, next_offset, after_max_ms=2**62, **options)
    with pytest.raises(OverflowError, match="64 bits"):
        assign_offsets(data, next_offset)
    assert data == before


def test_last_offset_is_rejected_by_builders(package: ModuleType) -> None:
    for magic in (0, 1, 2):
        with pytest.raises(kafkafmt.InvalidError, match="offset"):
            build_batch([(None, b"a", -1, (), LAST)], magic=magic)


RECORDS = [(b"k", b"v")] * 7
APPEND: dict[str, Callable[[BatchBuilder], object]] = {
    "append": lambda builder: [builder.append(*r) for r in RECORDS],
    "append with timestamps": lambda builder: [builder.append(*r, 5) for r in RECORDS],
    "extend": lambda builder: builder.extend(RECORDS),
    "extend with timestamps": lambda builder: builder.extend([(*r, 5) for r in RECORDS]),
    "append_columns": lambda builder: builder.append_columns(columns_of(key=[k for k, _ in RECORDS])),
    "append_columns with timestamps": lambda builder: builder.append_columns(
        columns_of(key=[k for k, _ in RECORDS], timestamp=5)
    ),
    "append_many": lambda builder: builder.append_many(columns_of(key=[k for k, _ in RECORDS])),
}


@pytest.mark.parametrize("append", APPEND)
@pytest.mark.parametrize("options", [{}, {"codec": "gzip"}, {"magic": 1}, {"magic": 1, "codec": "gzip"}], ids=str)
def test_builder_rejects_records_after_the_last_offset(
    package: ModuleType, append: str, options: dict[str, Any]
) -> None:
    builder = BatchBuilder(base_offset=LAST - 2, **options)
    with pytest.raises(kafkafmt.InvalidError, match=f"offset {LAST} is rejected") as caught:
        APPEND[append](builder)
    assert caught.value.code == "offset_order"
    assert (builder.count, builder.next_offset) == (2, LAST)
    assert [r.offset for r in read_records(builder.finish())] == [LAST - 2, LAST - 1]


@pytest.mark.parametrize("build", [build_batch, lambda records, **o: list(build_batches(records, **o)),
                                   lambda records, **o: list(build_columns(columns_of(key=[k for k, _ in records]), **o))])  # fmt: skip
def test_building_beyond_the_last_offset_is_an_invalid_error(package: ModuleType, build: Callable[..., object]) -> None:
    for first in (LAST - 2, LAST - 1, LAST):
        with pytest.raises(kafkafmt.InvalidError, match="rejected"):
            build(RECORDS, base_offset=first)


@pytest.mark.parametrize("name", [0, LAST - 5])
@pytest.mark.parametrize("start", [None, 0, LAST - 1, LAST])
def test_last_offset_is_reported_as_damage_in_a_log(
    package: ModuleType, tmp_path: Path, data: bytes, name: int, start: int | None
) -> None:
    (tmp_path / "t-0").mkdir()
    first = simple_batch([b"x"], max(name - 20, 0) if name else 0)
    (tmp_path / "t-0" / f"{max(name - 20, 0) if name else 0:020}.log").write_bytes(first + data)
    partition = kafkafmt.open(tmp_path)["t", 0]
    with pytest.raises(kafkafmt.DamagedLogError):
        list(partition.records(start=start))
    found = [r.offset for r in partition.records(start=start, on_error="skip")]
    assert LAST in found or partition.damaged
    assert any(d.last_offset is None or d.last_offset >= LAST - 1 for d in partition.damaged)
    assert not list(partition.records(start=2**63, on_error="skip"))
    table = partition.to_arrow(start=start, on_error="skip")
    assert np.array_equal(table["offset"].to_numpy(), found)

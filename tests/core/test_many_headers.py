"""Check the limit for the number of headers. It limits the memory that a record needs."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from types import ModuleType
from typing import Any

import building
import pytest
from building import batch, record, varint
from decoding import scan

import kafkafmt
from kafkafmt import TooLargeError, build_batch, check_batches, read_records
from kafkafmt.constants import MANY_HEADERS
from kafkafmt.types import RecordColumns

SMALL = 1 << 20
"""A max_batch_bytes for which the limit of headers is below MANY_HEADERS."""


def with_headers(count: int, delta: int = 0, header: bytes = b"\0\0") -> bytes:
    body = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(-1) + varint(count) + header * count
    return varint(len(body)) + body


def batch_of(*counts: int, codec: int = building.NONE) -> bytes:
    records = [with_headers(n, i) for i, n in enumerate(counts)]
    return batch(
        records, codec=codec, last_offset_delta=len(counts) - 1, count=len(counts), base_timestamp=5, max_timestamp=5
    )


@pytest.mark.parametrize("codec", [building.NONE, building.ZSTD])
def test_record_with_more_headers_than_the_limit_is_too_large(package: ModuleType, codec: int) -> None:
    good, bad = batch_of(1), batch_of(2, MANY_HEADERS + 1, codec=codec)
    found: list[Any] = []
    with pytest.raises(
        TooLargeError, match=f"{MANY_HEADERS + 1} headers, more than the limit of {MANY_HEADERS}"
    ) as caught:
        found.extend(read_records(good + bad, max_batch_bytes=SMALL))
    assert len(found) == 1
    assert (caught.value.code, caught.value.base_offset, caught.value.resume) == ("too_large", 0, len(good + bad))
    checked = check_batches(good + bad, max_batch_bytes=SMALL)
    assert [(p.code, p.position) for p in checked.problems if p.code != "offset_order"] == [("too_large", len(good))]
    with pytest.raises(TooLargeError):
        kafkafmt.records.validate_and_assign_offsets(bad, 0, max_batch_bytes=SMALL, after_max_ms=2**62)
    with pytest.raises(TooLargeError):
        kafkafmt.records.convert(bad, 1, codec="gzip", max_batch_bytes=SMALL)
    with pytest.raises(TooLargeError):
        kafkafmt.to_arrow(bad, max_batch_bytes=SMALL)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Lower the number of headers that each record may have, because the pure-Python core is slow."""
    monkeypatch.setattr("kafkafmt.records.reader.MANY_HEADERS", 9000)
    return 9000


def test_record_with_as_many_headers_as_the_limit_is_read(package: ModuleType, few: int) -> None:
    data = batch_of(few, 3, few)
    assert [len(r.headers) for r in read_records(data, max_batch_bytes=SMALL)] == [few, 3, few]
    assert kafkafmt.to_arrow(data, max_batch_bytes=SMALL)["headers"].combine_chunks().value_lengths().to_pylist() == [
        few, 3, few
    ]  # fmt: skip
    assert kafkafmt.records.validate_and_assign_offsets(data, 7, max_batch_bytes=SMALL, after_max_ms=2**62).count == 3
    assert check_batches(data, max_batch_bytes=SMALL).ok


def test_limit_grows_with_max_batch_bytes(package: ModuleType, few: int) -> None:
    data = batch_of(few + 5)
    assert [len(r.headers) for r in read_records(data)] == [few + 5]
    assert len(next(read_records(data, max_batch_bytes=128 * (few + 5))).headers) == few + 5
    with pytest.raises(TooLargeError):
        list(read_records(data, max_batch_bytes=128 * (few + 5) - 1))


def test_record_with_100000_headers_is_written_and_read(package: ModuleType) -> None:
    headers = tuple((f"name-{i}", b"%d" % i) for i in range(100_000))
    assert next(read_records(build_batch([(None, b"v", 5, headers)], codec="lz4"))).headers == headers


def test_limit_is_observed_if_headers_are_not_requested(package: ModuleType) -> None:
    data = batch_of(MANY_HEADERS + 1)
    with pytest.raises(TooLargeError, match="131073 headers"):
        list(read_records(data, columns=("offset", "key"), max_batch_bytes=SMALL))


@pytest.mark.parametrize("limit", [0, 1, 5])
@pytest.mark.parametrize("capacity", [1, 2, 50])
@pytest.mark.parametrize("header_capacity", [1, 16])
def test_both_cores_observe_the_limit_of_the_columns(
    core: ModuleType, limit: int, capacity: int, header_capacity: int
) -> None:
    counts = [0, 1, limit, limit + 1, 0]
    if limit == 0:
        counts = [0, 0, 0, 1, 0]
    data = batch_of(0, 0) + batch_of(*counts)
    table, columns = scan(core, data)[0], RecordColumns(capacity, header_capacity=header_capacity)
    columns.max_headers = limit
    rows, error = 0, None
    while error is None and columns.cursor[0] < len(table):
        error = core.decode_records(data, table, columns)
        rows += columns.rows
        columns.clear()
    assert isinstance(error, TooLargeError)
    assert f"{max(counts)} headers, more than the limit of {limit}" in error.message
    assert (rows, columns.cursor[:2].tolist()) == (2, [1, 0])
    assert data[error.position : error.position + 1] == with_headers(max(counts), 3)[:1]


def test_header_bomb_in_a_log_is_damage(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    bomb = batch([with_headers(3_000_000)], base_offset=1, codec=building.ZSTD, count=1)
    data = batch([record(0)]) + bomb + batch([record(0)], base_offset=2)
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(data)
    partition = kafkafmt.open(tmp_path)["t", 0]
    tracemalloc.start()
    try:
        assert [r.offset for r in partition.records(on_error="skip")] == [0, 2]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [(d.code, d.first_offset, d.last_offset) for d in partition.damaged] == [("too_large", 1, 1)]
    assert peak < 8 * 3_000_000 * 2  # bytes of the decompressed records

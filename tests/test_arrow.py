"""Check Arrow tables and streams: types, nulls, batch sizes, and libraries that read Arrow streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest
from building import batch, record
from golden_cases import CASES, LEGACY, Case

import kafkafmt
from kafkafmt.arrow import builder as arrow


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., kafkafmt.Partition]:
    def make(*batches: bytes) -> kafkafmt.Partition:
        path = tmp_path / "orders-3"
        path.mkdir()
        (path / f"{0:020}.log").write_bytes(b"".join(batches))
        return kafkafmt.open(path)["orders", 3]

    return make


def test_schema_is_that_of_sparks_kafka_source(write: Callable[..., kafkafmt.Partition]) -> None:
    table = write(batch([record(0)])).to_arrow()
    assert table.schema.names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    types = [str(t) for t in table.schema.types]
    assert types[:7] == ["binary", "binary", "string", "int32", "int64", "timestamp[us, tz=UTC]", "int32"]
    assert types[7] == "list<element: struct<key: string, value: binary>>"


def test_nulls_empty_values_and_headers_are_kept(write: Callable[..., kafkafmt.Partition]) -> None:
    rows = [
        record(0, 5, None, b"", [(b"a", b"1"), (b"a", None), (b"", b"")]),
        record(1, -7, b"", None),
        record(2, 0, b"k", b"v", [(b"b", b"")]),
    ]
    table = write(batch(rows, base_timestamp=1000)).to_arrow([*arrow.SCHEMA.names, "timestampMillis"])
    table.validate(full=True)
    assert table["key"].to_pylist() == [None, b"", b"k"]
    assert table["value"].to_pylist() == [b"", None, b"v"]
    assert table["topic"].to_pylist() == ["orders"] * 3
    assert table["partition"].to_pylist() == [3] * 3
    assert table["timestampMillis"].to_pylist() == [1005, 993, 1000]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [1005000, 993000, 1000000]
    assert table["headers"].to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}],
        None,
        [{"key": "b", "value": b""}],
    ]


def test_timestamp_that_microseconds_cannot_hold_is_null(write: Callable[..., kafkafmt.Partition]) -> None:
    late, early = (
        batch([record(0), record(1, -1)], base_timestamp=2**63 - 1),
        batch([record(0)], base_offset=2, base_timestamp=-1),
    )
    table = write(late, early).to_arrow(["timestamp", "timestampMillis"])
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [None, None, -1000]
    assert table["timestampMillis"].to_pylist() == [2**63 - 1, 2**63 - 2, -1]


def test_arrays_grow_if_later_records_are_larger(write: Callable[..., kafkafmt.Partition]) -> None:
    """The first rows determine the sizes of the arrays.

    There are many more rows after them, with longer keys and headers.
    """
    rows: list[Any] = [(None, b"x" * 2000, [])] * 300 + [(b"", None, [])] * 30_000 + [(b"k" * 90, b"", [])] * 20_000
    rows += [(b"k", b"v", [(b"h", b"y" * (i % 50))] * (i % 3)) for i in range(20_000)] + [(None, None, [])] * 200
    parts = [rows[i : i + 100] for i in range(0, len(rows), 100)]
    table = write(
        *(
            batch([record(i, i, *row) for i, row in enumerate(part)], base_offset=100 * at)
            for at, part in enumerate(parts)
        )
    ).to_arrow()
    table.validate(full=True)
    assert table["offset"].to_pylist() == list(range(len(rows)))
    assert table["key"].to_pylist() == [key for key, _, _ in rows]
    assert table["value"].to_pylist() == [value for _, value, _ in rows]
    headers = [[(h["key"].encode(), h["value"]) for h in row or ()] for row in table["headers"].to_pylist()]
    assert headers == [h for *_, h in rows]


def test_log_append_time_is_the_timestamp(write: Callable[..., kafkafmt.Partition]) -> None:
    stamped = batch([record(0, 1), record(1, 2)], flags=0x08, base_timestamp=10, max_timestamp=99)
    table = write(stamped).to_arrow(["timestampType", "timestampMillis"])
    assert table.to_pydict() == {"timestampType": [1, 1], "timestampMillis": [99, 99]}


def test_header_keys_are_decoded_as_in_java(write: Callable[..., kafkafmt.Partition]) -> None:
    table = write(
        batch([record(0, 0, None, None, [(b"ok", b""), (b"\xed\xa0\x80", b""), (b"\xff\xc3", b"")])])
    ).to_arrow(["headers"])
    table.validate(full=True)
    assert [h["key"] for h in table["headers"][0].as_py()] == ["ok", "\ufffd", "\ufffd\ufffd"]


@pytest.mark.parametrize("columns", [["offset"], ["topic"], ["value", "key"], ["partition", "headers"], ["timestamp"]])
def test_columns_have_the_requested_order(write: Callable[..., kafkafmt.Partition], columns: list[str]) -> None:
    partition = write(batch([record(i, i, b"k", b"v", [(b"h", b"x")]) for i in range(4)]))
    assert partition.to_arrow(columns).equals(partition.to_arrow().select(columns))


def test_missing_column_is_an_error(write: Callable[..., kafkafmt.Partition]) -> None:
    with pytest.raises(ValueError, match="there is no column 'valu'"):
        write(batch([record(0)])).to_arrow(["valu"])


@pytest.mark.parametrize(("size", "count"), [(10, 60_000), (1000, 20_000), (3_000_000, 9)])
def test_arrow_batches_have_some_megabytes(write: Callable[..., kafkafmt.Partition], size: int, count: int) -> None:
    per_batch = max(1, 100_000 // (size + 10))
    partition = write(
        *(
            batch([record(i, i, None, b"x" * size) for i in range(min(per_batch, count - base))], base_offset=base)
            for base in range(0, count, per_batch)
        )
    )
    batches = list(partition.to_batches())
    assert sum(b.num_rows for b in batches) == count
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(count))
    for b in batches[:-1]:
        assert 4 << 20 <= b.nbytes <= 16 << 20
        assert b.column("value").nbytes <= 9 << 20


@pytest.mark.parametrize("case", CASES + LEGACY, ids=str)
def test_columns_equal_records(case: Case) -> None:
    for partition in kafkafmt.open(*case.roots).partitions:
        table = partition.to_arrow([*arrow.SCHEMA.names, "timestampMillis"], on_error="skip")
        table.validate(full=True)
        records = list(partition.records(on_error="skip"))
        assert table["offset"].to_pylist() == [r.offset for r in records]
        assert table["timestampMillis"].to_pylist() == [r.timestamp for r in records]
        assert table["timestampType"].to_pylist() == [r.timestamp_type for r in records]
        assert table["key"].to_pylist() == [r.key for r in records]
        assert table["value"].to_pylist() == [r.value for r in records]
        assert [tuple((h["key"], h["value"]) for h in row or ()) for row in table["headers"].to_pylist()] == [
            r.headers for r in records
        ]


def test_libraries_that_accept_arrow_streams_read_a_partition(write: Callable[..., kafkafmt.Partition]) -> None:
    partition = write(
        *(
            batch([record(i, i, b"k", b"v%d" % i, [(b"h", b"x")]) for i in range(10)], base_offset=b * 10)
            for b in range(5)
        )
    )
    assert polars.DataFrame(partition).shape == (50, 8)
    series = polars.from_arrow(partition)
    assert isinstance(series, polars.Series)
    assert series.struct.unnest().shape == (50, 8)
    if hasattr(pandas.DataFrame, "from_arrow"):  # since pandas 3, which PySpark does not support yet
        assert pandas.DataFrame.from_arrow(partition).shape == (50, 8)
    relation = duckdb.sql('select count(*), max("offset") from partition')
    assert relation is not None
    assert relation.fetchall() == [(50, 49)]
    assert pa.table(partition).num_rows == 50
    assert pa.RecordBatchReader.from_stream(partition).read_all().num_rows == 50


def test_selection_of_offsets_and_times_is_read(write: Callable[..., kafkafmt.Partition]) -> None:
    partition = write(
        *(batch([record(i, i * 10) for i in range(10)], base_offset=b * 10, base_timestamp=b * 100) for b in range(5))
    )

    def offsets(**selection: Any) -> list[int]:
        found: list[int] = partition.to_arrow(["offset"], **selection)["offset"].to_pylist()
        assert found == [r.offset for r in partition.records(**selection)]
        return found

    assert offsets(start=13, end=17) == [13, 14, 15, 16]
    assert offsets(start=-3) == [47, 48, 49]
    assert offsets(end=-48) == [0, 1]
    assert offsets(start_time=455) == [46, 47, 48, 49]
    assert offsets(start=0, end_time=25) == [0, 1, 2]
    assert offsets(start=100) == []
    with pytest.raises(ValueError, match="both"):
        partition.to_arrow(start=1, start_time=2)
    with pytest.raises(ValueError, match="on_error"):
        partition.to_arrow(on_error="ignore")  # type: ignore[arg-type]


def test_open_log_lists_its_partitions() -> None:
    from golden_cases import case

    log = kafkafmt.open(*case("jbod").roots)
    assert "dots.in.the.name" in log.topics
    assert ("dots.in.the.name", 0) in log
    assert ("dots.in.the.name", 9) not in log
    assert len(log) == len(log.partitions)
    assert {p.state for p in log.not_live} == {"delete", "future", "stray"}
    with pytest.raises(KeyError, match="partitions are 0 to 2"):
        log["dots.in.the.name", 9]
    with pytest.raises(KeyError, match="there is no topic nothing"):
        log["nothing", 0]

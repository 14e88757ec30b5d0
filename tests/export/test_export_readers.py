"""The export of real logs, read back with no more than its path, is what the Java consumer returned."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exporting import in_micros, read_with_pyarrow, rows_of, wanted
from golden_cases import CASES, case, same_rows

HEALTHY = [c for c in CASES if not c.torn]


def read_with_spark(folder):
    from kafkafmt.spark.session import make_session

    return make_session("local[2]", "tests").read.parquet(str(folder)).toArrow()


def read_with_pandas(folder):
    import pandas

    return pa.Table.from_pandas(pandas.read_parquet(folder))


def read_with_polars(folder):
    import polars

    return polars.read_parquet(folder).to_arrow()


def read_with_duckdb(folder):
    import duckdb

    return duckdb.sql(f"SELECT * FROM '{folder}/**/*.parquet'").to_arrow_table()


READERS = {
    "spark": read_with_spark,
    "pyarrow": read_with_pyarrow,
    "pandas": read_with_pandas,
    "polars": read_with_polars,
    "duckdb": read_with_duckdb,
}
EIGHT = {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory, spark):
    """`codecs`: every codec, nulls, odd headers, extreme timestamps; several splits a partition."""
    from kafkafmt.log import discover
    from kafkafmt.spark.export import ExportOptions
    from kafkafmt.spark.export.job import Export

    out = tmp_path_factory.mktemp("readers") / "out"
    roots = tuple(case("codecs").roots)
    found = discover(roots)
    Export(found, found.partitions, ExportOptions(roots, out)).run(spark)
    return out


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_sees_the_consumers_records(exported, reader):
    table = READERS[reader](exported / "data")
    assert set(table.column_names) == EIGHT
    same_rows(rows_of(table), wanted(case("codecs")))


@pytest.mark.parametrize("golden", HEALTHY, ids=str)
def test_every_golden_case(golden, run_export):
    report, out = run_export(golden.roots, internal=golden.internal)
    assert report["ok"]
    got = rows_of(read_with_pyarrow(out / "data"))
    assert report["written"]["records"] == len(got)
    same_rows(
        {at: row for at, row in got.items() if at[0] != "__cluster_metadata"}, wanted(golden)
    )  # no consumer can read that one
    assert pq.read_table(out / "quarantine").num_rows == 0


@pytest.mark.parametrize("golden", [c for c in HEALTHY if c.transactional and c.name != "internal"], ids=str)
def test_read_committed(golden, run_export):
    report, out = run_export(golden.roots, isolation="read_committed", split_bytes=2000)
    got = rows_of(read_with_pyarrow(out / "data"))
    assert report["written"]["records"] == len(got)
    same_rows(got, in_micros(golden.expected(committed=True)))


def test_sparks_schema_is_that_of_its_kafka_source(exported, spark):
    types = dict(spark.read.parquet(str(exported / "data")).dtypes)
    assert types == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "headers": "array<struct<key:string,value:binary>>",
    }


def test_what_a_file_is_like(exported):
    files = sorted(exported.glob("data/*/*/*.parquet"))
    assert files
    for path in files:
        topic, partition = path.parts[-3].removeprefix("topic="), path.parts[-2].removeprefix("partition=")
        with pq.ParquetFile(path) as file:
            offsets = file.read(["offset"])["offset"].to_pylist()
            assert offsets == sorted(set(offsets))
            assert path.name == f"{offsets[0]:020d}.parquet"
            assert file.metadata.metadata[b"topic"].decode() == topic
            assert file.metadata.metadata[b"partition"].decode() == partition
            for g in range(file.metadata.num_row_groups):
                columns = {
                    c.path_in_schema: c
                    for c in (file.metadata.row_group(g).column(i) for i in range(file.metadata.num_columns))
                }
                assert {n for n, c in columns.items() if c.statistics is not None} <= {"offset", "timestamp"}
                assert columns["offset"].statistics.has_min_max
                assert "DELTA_BINARY_PACKED" in columns["offset"].encodings
                assert {c.compression for c in columns.values()} == {"ZSTD"}


def test_an_export_without_a_record_has_the_schema(run_export, spark):
    report, out = run_export(case("segments").roots, offsets="999999999:")
    assert report["ok"]
    assert report["written"]["records"] == 0
    assert len(list(out.glob("data/**/*.parquet"))) == 1
    for name, read in READERS.items():
        table = read(out / "data")
        assert table.num_rows == 0, name
        assert set(table.column_names) == EIGHT, name
    assert dict(spark.read.parquet(str(out / "data")).dtypes)["partition"] == "int"

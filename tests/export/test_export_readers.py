"""Test that exported golden logs contain the records of the Java consumer.

The readers get only the path of the export, and no schema.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from exporting import READERS, RunExport, expected_rows, in_micros, read_with_pyarrow, rows_of
from golden_cases import CASES, Case, case, same_rows
from pyspark.sql import SparkSession

UNDAMAGED = [c for c in CASES if not c.torn]


COLUMNS = {"key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Export `codecs` in several splits per partition.

    This golden log has all codecs, nulls, unusual headers and extreme timestamps.
    """
    from kafkafmt.exporting import ExportOptions
    from kafkafmt.exporting.job import Export
    from kafkafmt.exporting.spark_jobs import SparkEngine
    from kafkafmt.log import discover

    out = tmp_path_factory.mktemp("readers") / "out"
    roots = tuple(case("codecs").roots)
    found = discover(roots)
    Export(found, found.partitions, ExportOptions(roots, out)).run(SparkEngine(spark))
    return out


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_returns_the_consumers_records(exported: Path, reader: str) -> None:
    table = READERS[reader](exported / "data")
    assert set(table.column_names) == COLUMNS
    same_rows(rows_of(table), expected_rows(case("codecs")))


@pytest.mark.parametrize("golden", UNDAMAGED, ids=str)
def test_export_of_every_golden_log_equals_the_consumer(golden: Case, run_export: RunExport) -> None:
    report, out = run_export(golden.roots, internal=golden.internal)
    assert report["ok"]
    actual = rows_of(read_with_pyarrow(out / "data"))
    assert report["written"]["records"] == len(actual)
    # No consumer can read that topic.
    same_rows({at: row for at, row in actual.items() if at[0] != "__cluster_metadata"}, expected_rows(golden))
    assert pq.read_table(out / "quarantine").num_rows == 0


@pytest.mark.parametrize("golden", [c for c in UNDAMAGED if c.transactional and c.name != "internal"], ids=str)
def test_export_at_read_committed_equals_the_consumer(golden: Case, run_export: RunExport) -> None:
    report, out = run_export(golden.roots, isolation="read_committed", split_bytes=2000)
    actual = rows_of(read_with_pyarrow(out / "data"))
    assert report["written"]["records"] == len(actual)
    same_rows(actual, in_micros(golden.expected(committed=True)))


def test_schema_in_spark_equals_that_of_its_kafka_source(exported: Path, spark: SparkSession) -> None:
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


def test_files_have_their_names_metadata_and_encodings(exported: Path) -> None:
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


def test_export_without_records_has_the_schema(run_export: RunExport, spark: SparkSession) -> None:
    report, out = run_export(case("segments").roots, offsets="999999999:")
    assert report["ok"]
    assert report["written"]["records"] == 0
    assert len(list(out.glob("data/**/*.parquet"))) == 1
    for name, read in READERS.items():
        table = read(out / "data")
        assert table.num_rows == 0, name
        assert set(table.column_names) == COLUMNS, name
    assert dict(spark.read.parquet(str(out / "data")).dtypes)["partition"] == "int"

"""Test what kafkafmt is for, on a real Spark: read, write, `mapInArrow`, and the export to Parquet.

`make test` runs these tests. The other tests that start Java are slow, and `make test-slow` runs them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from exporting import expected_rows, read_with_pyarrow, rows_of
from golden_cases import case, same_rows
from pyspark.sql import DataFrame, SparkSession
from source_rows import COLUMNS, rows

import kafkafmt
from kafkafmt.spark import register
from kafkafmt.spark.functions import read_paths
from kafkafmt.spark.schema import ddl_of
from kafkafmt.spark.session import make_session

CODECS = case("codecs")


@pytest.fixture(scope="module")
def session() -> SparkSession:
    session = make_session("local[2]", "kafkafmt mission", **{"spark.sql.shuffle.partitions": "1"})
    register(session)
    return session


def read(session: SparkSession, path: Path) -> DataFrame:
    return session.read.format("kafkafmt").schema(ddl_of(COLUMNS)).load(str(path))


def test_spark_reads_and_writes_what_the_consumer_returned(session: SparkSession, tmp_path: Path) -> None:
    frame = read(session, CODECS.roots[0])
    same_rows(rows(frame.toArrow()), CODECS.expected())
    frame.select("topic", "partition", "key", "value").write.format("kafkafmt").mode("append").save(
        str(tmp_path / "log")
    )
    assert kafkafmt.verify(tmp_path / "log").ok
    written, expected = rows(read(session, tmp_path / "log").toArrow()), CODECS.expected()
    assert sorted(map(str, (row[2:4] for row in written.values()))) == sorted(
        map(str, (r[2:4] for r in expected.values()))
    )


def test_map_in_arrow_reads_paths_in_a_column(session: SparkSession) -> None:
    paths = session.createDataFrame([(str(CODECS.roots[0]),)], "path string")
    function = read_paths(columns=COLUMNS)
    same_rows(rows(paths.mapInArrow(function, function.schema).toArrow()), CODECS.expected())


def test_export_on_spark_contains_what_the_consumer_returned(session: SparkSession, tmp_path: Path) -> None:
    log = case("transactions")
    report = kafkafmt.export(log.roots, tmp_path / "out", engine="spark")
    assert report.ok
    same_rows(rows_of(read_with_pyarrow(tmp_path / "out" / "data")), expected_rows(log))

"""Test SQL tables and views on log directories, for all statements of Spark that create them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

import kafkafmt
from kafkafmt.spark.option_text import OptionError
from kafkafmt.spark.schema import STANDARD
from kafkafmt.spark.source.data_source import KafkaLogSource


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a log directory with two topics. Its name contains a space and a percent sign."""
    made = tmp_path / "my log%20"
    with kafkafmt.LogDirectory(made) as directory:
        for topic, count in (("orders", 10), ("other", 5)):
            directory.writer(topic).append([(None, b"%d" % i, 1_700_000_000_000) for i in range(count)])
    return made


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Any:
    """Return the name of a table for a test, and drop the table at the end."""
    name = f"t_{tmp_path.name}".replace("-", "_")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


STATEMENTS = {
    "options": "CREATE TABLE {t} USING kafkafmt OPTIONS (path '{p}', subscribe 'orders', minPartitions '2', groupIdPrefix 'x')",
    "location": "CREATE TABLE {t} USING kafkafmt OPTIONS (subscribe 'orders') LOCATION '{p}'",
    "url": "CREATE TABLE {t} USING kafkafmt OPTIONS (subscribe 'orders') LOCATION 'file://{p}'",
    "properties": "CREATE TABLE {t} USING kafkafmt OPTIONS (path '{p}', subscribe 'orders') COMMENT 'hi' TBLPROPERTIES ('a.b'='c')",
}


@pytest.mark.parametrize("kind", STATEMENTS)
def test_table_reads_its_log(spark: SparkSession, path: Path, table: str, kind: str) -> None:
    spark.sql(STATEMENTS[kind].format(t=table, p=path))
    (row,) = spark.sql(f"SELECT count(*) n, max(offset) last FROM {table} WHERE topic = 'orders'").collect()
    assert (row.n, row.last) == (10, 9)
    assert spark.table(table).count() == 10
    assert spark.read.option("startingOffsets", '{"orders": {"0": 7}}').table(table).count() == 3


def test_catalog_creates_a_table(spark: SparkSession, path: Path, table: str) -> None:
    assert spark.catalog.createTable(table, path=str(path), source="kafkafmt", subscribe="other").count() == 5
    assert spark.table(table).count() == 5


def test_table_is_read_as_a_stream(spark: SparkSession, path: Path, table: str, tmp_path: Path) -> None:
    spark.sql(
        f"CREATE TABLE {table} USING kafkafmt OPTIONS (path '{path}', subscribe 'orders', startingOffsets 'earliest')"
    )
    writer = (
        spark.readStream.table(table).writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
    )
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(120)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 10


def test_temporary_view_reads_its_log(spark: SparkSession, path: Path) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v_logs USING kafkafmt OPTIONS (path '{path}', subscribe 'orders')")
    assert spark.sql("SELECT * FROM v_logs").count() == 10


def test_table_cannot_be_inserted_into(spark: SparkSession, path: Path, table: str) -> None:
    """Spark passes the source of the rows to the data source, but not the table to which they are written."""
    spark.sql(f"CREATE TABLE {table} USING kafkafmt OPTIONS (path '{path}', subscribe 'orders')")
    with pytest.raises(Exception, match=r"no path was given; .* INSERT INTO and toTable cannot be used"):
        spark.table(table).write.mode("append").insertInto(table)
    assert spark.table(table).count() == 10


def test_tables_are_never_mixed_up(spark: SparkSession, path: Path, table: str, tmp_path: Path) -> None:
    """The columns contain the options of their table, also in queries on the table."""
    other, copy = tmp_path / "other", f"{table}_copy"
    with kafkafmt.LogDirectory(other) as directory:
        directory.writer("orders").append([(None, b"1", 1)])
    spark.sql(f"CREATE TABLE {table} USING kafkafmt OPTIONS (path '{path}', subscribe 'orders')")
    try:
        spark.sql(f"CREATE TABLE {copy} USING kafkafmt OPTIONS (path '{other}')")
        with pytest.raises(Exception, match="no path"):
            spark.sql(f"INSERT INTO {copy} SELECT * FROM {table}")
        assert (spark.table(table).count(), spark.table(copy).count()) == (10, 1)
        spark.sql(f"DROP TABLE {copy}")
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in spark.table(table).schema)
        spark.sql(f"CREATE TABLE {copy} ({columns}) USING kafkafmt OPTIONS (path '{other}')")
        with pytest.raises(Exception, match="no path"):
            spark.table(copy).count()
        spark.sql(f"DROP TABLE {copy}")
        writer = spark.table(table).write.format("kafkafmt").option("path", str(other)).mode("append")
        as_select = f"CREATE TABLE {copy} USING kafkafmt OPTIONS (path '{other}') AS SELECT * FROM {table}"
        for write in (writer.save, lambda: writer.saveAsTable(copy), lambda: spark.sql(as_select)):
            with pytest.raises(Exception, match=r"the columns contain the options of the SQL table|no path"):
                write()
            assert not spark.catalog.tableExists(copy)
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {copy}")
    assert spark.read.format("kafkafmt").schema(spark.table(table).schema).load(str(other)).count() == 1
    assert spark.table(table).count() == 10


def test_wrong_option_of_a_table_is_refused_when_it_is_created(spark: SparkSession, path: Path, table: str) -> None:
    with pytest.raises(Exception, match="did you mean subscribe"):
        spark.sql(f"CREATE TABLE {table} USING kafkafmt OPTIONS (path '{path}', subscribes 'orders')")
    with pytest.raises(Exception, match="no path"):
        spark.sql(f"CREATE TABLE {table} USING kafkafmt OPTIONS (subscribe 'orders')")
    with pytest.raises(Exception, match="two slashes after its scheme"):
        spark.sql(f"CREATE TABLE {table} USING kafkafmt OPTIONS (path 's3:/bucket/x')")


def test_table_without_our_columns_is_refused_with_a_remedy(spark: SparkSession, path: Path, table: str) -> None:
    frame = (
        spark.sql("SELECT 'v' value, 'orders' topic").write.format("kafkafmt").option("path", str(path)).mode("append")
    )
    frame.saveAsTable(table)
    assert len(list(kafkafmt.open(path)["orders", 0])) == 11
    with pytest.raises(Exception, match=r"no path was given; .* by CREATE TABLE .* not by saveAsTable"):
        spark.table(table).count()


def test_property_that_spark_adds_is_only_accepted_for_tables(path: Path) -> None:
    with pytest.raises(OptionError, match="unknown option owner"):
        KafkaLogSource(CaseInsensitiveDict({"path": str(path), "owner": "me", "subscribe": "orders"}))
    added = {"owner": "me", "provider": "kafkafmt", "external": "true"}
    source = KafkaLogSource(CaseInsensitiveDict({"location": str(path), **added}))
    assert source.schema().fieldNames() == list(STANDARD)
    assert source.parsed.paths == (str(path),)

"""Test why the data source does not push filters down: Spark passes the filters of one query to another.

If a test fails, this error is corrected in the installed Spark, and `pushFilters` can be implemented.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import StructType

from kafkafmt.spark.source.data_source import KafkaLogReader

ENABLED = "spark.sql.python.filterPushdown.enabled"


class Numbers(DataSource):
    """The numbers 0 to 9. Filters of the form `n = …` are pushed down."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "n int"

    def reader(self, schema: StructType) -> DataSourceReader:
        return NumbersReader()


class NumbersReader(DataSourceReader):
    def __init__(self) -> None:
        self.pushed: list[Any] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for one in filters:
            if isinstance(one, EqualTo):
                self.pushed.append(one.value)
            else:
                yield one

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(tuple(self.pushed))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return ((n,) for n in range(10) if all(n == value for value in partition.value))


@pytest.fixture
def numbers(spark: SparkSession) -> Iterator[Any]:
    """Return a function that loads the numbers in a session with filter pushdown."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    before = spark.conf.get(ENABLED)
    spark.conf.set(ENABLED, "true")
    spark.dataSource.register(Numbers)
    yield lambda: spark.read.format("numbers").load()
    spark.conf.set(ENABLED, before or "false")


def test_filter_of_one_query_reaches_the_next_one(numbers: Any) -> None:
    frame = numbers()
    assert frame.filter("n = 3").count() == 1
    assert frame.count() == 1  # should be 10


def test_filters_of_a_union_reach_each_other(numbers: Any) -> None:
    frame = numbers()
    both = frame.filter("n = 1").union(frame.filter("n = 2"))
    assert [row.n for row in both.collect()] == [2, 2]  # should be 1 and 2


def test_data_source_pushes_no_filters() -> None:
    """Spark refuses a source that defines `pushFilters` unless the user has enabled filter pushdown."""
    assert KafkaLogReader.pushFilters is DataSourceReader.pushFilters

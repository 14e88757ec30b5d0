"""Test `kafkafmt.spark.read`, which converts its arguments to options of the data source."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from golden_cases import case
from pyspark.sql import SparkSession
from source_rows import plan

import kafkafmt.spark

SEGMENTS = case("segments")
TOPIC = "segments-time"


def test_columns_and_topics_select_what_is_read(spark: SparkSession) -> None:
    frame = kafkafmt.spark.read(spark, SEGMENTS.roots, columns=["offset", "value"], topics=TOPIC)
    assert frame.columns == ["offset", "value"]
    assert sorted(row.offset for row in frame.collect()) == sorted(
        at[2] for at in SEGMENTS.expected() if at[0] == TOPIC
    )


def test_open_topic_can_be_passed_as_paths(spark: SparkSession) -> None:
    log = kafkafmt.open(*SEGMENTS.roots)
    frame = kafkafmt.spark.read(spark, log[TOPIC], columns=["offset"])
    assert frame.count() == sum(at[0] == TOPIC for at in SEGMENTS.expected())


def test_default_columns_are_those_of_sparks_kafka_source(spark: SparkSession) -> None:
    frame = kafkafmt.spark.read(spark, SEGMENTS.roots[0])
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_times_are_milliseconds_or_datetimes(spark: SparkSession) -> None:
    times = sorted(row[0] for at, row in SEGMENTS.expected().items() if at[0] == TOPIC)
    middle = times[len(times) // 2]
    counts = [
        kafkafmt.spark.read(spark, SEGMENTS.roots, topics=[TOPIC], columns=["offset"], start_time=time).count()
        for time in (middle, datetime.fromtimestamp(middle / 1000, UTC))
    ]
    assert counts[0] == counts[1] == sum(time >= middle for time in times)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["nothing"]}, "nothing"),
        ({"columns": []}, "name at least one column"),
        ({"isolation": "none"}, "isolation is 'none'"),
        ({"mode": "fast"}, "mode is 'fast'"),
        ({"start_time": datetime(2026, 1, 1)}, "start_time is .* has no time zone"),
        ({"min_partitions": 0}, "min_partitions is 0"),
        ({"options": {"startingOffset": "earliest"}}, "unknown option startingOffset; did you mean startingOffsets"),
    ],
)
def test_wrong_arguments_are_errors(spark: SparkSession, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kafkafmt.spark.read(spark, SEGMENTS.roots, **arguments)


def test_tasks_have_at_most_the_given_number_of_offsets() -> None:
    reader, partitions = plan(SEGMENTS.partition_dir(TOPIC, 0), columns=("offset",), maxRecordsPerPartition=30)
    found = [[o for b in reader.read(p) for o in b.column("offset").to_pylist()] for p in partitions]
    assert max(map(len, found)) == 30
    assert [offset for offsets in found for offset in offsets] == list(range(200))

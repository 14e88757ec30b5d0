"""Read served logs with Spark's own Kafka source, and compare every column with our own reader."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import java_tools
import pytest
import spark_kafka
from golden_cases import BY_NAME, CASES, LEGACY, Case
from spark_kafka import Row

import kafkafmt
from kafkafmt import LogDirectory
from kafkafmt.typing import Isolation

Start = Callable[..., kafkafmt.server.Server]
Call = Callable[..., Any]
NAMES = (
    "kafka-4.3.1/segments",
    "kafka-4.3.1/compacted",
    "kafka-4.3.1/transactions",
    "kafka-4.3.1/torn",
    "kafka-3.9.2/log-append-time",
    "legacy/0.8.2.2-segments",
    "legacy/0.10.2.2-mixed",
)
TRANSACTIONS = BY_NAME["kafka-4.3.1/transactions"]
FIRST = 1_767_225_600_000

pytestmark = [
    pytest.mark.full,  # Spark and its first queries take half a minute
    pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning"),
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[Call]:
    """Return a function that calls a function of `spark_kafka` in the process of Spark."""
    paths = java_tools.classpath(spark_kafka.CONNECTOR).split(os.pathsep)
    jars = [path for path in paths if any(name in Path(path).name for name in spark_kafka.NEEDED)]
    with ProcessPoolExecutor(1, get_context("spawn"), spark_kafka.connect, (jars,)) as process:
        yield lambda function, *args: process.submit(function, *args).result(120)
        process.submit(spark_kafka.disconnect).result(60)


def options(server: kafkafmt.server.Server, topic: str = "", **others: object) -> dict[str, object]:
    """Return the options of a query that reads one topic, or all topics."""
    chosen = {"subscribe": topic} if topic else {"subscribePattern": ".*"}
    return {"kafka.bootstrap.servers": server.address, "startingOffsets": "earliest"} | chosen | others


def rows(log: kafkafmt.Log, isolation: Isolation = "read_uncommitted") -> list[Row]:
    return sorted(
        (
            p.topic,
            p.partition,
            r.offset,
            -1 if r.timestamp is None else r.timestamp,
            max(int(r.timestamp_type), 0),  # format 2 cannot express that format 0 has no timestamp type
            r.key,
            r.value,
            tuple(r.headers),
        )
        for p in log.partitions
        for r in p.records(on_error="skip", isolation=isolation)
    )


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    """Return a log directory with a topic of three partitions, headers, null keys and null values."""
    with LogDirectory(tmp_path / "data", segment_bytes=20_000) as directory:
        for number in range(3):
            append(directory, number, 0, 500 + number)
    return tmp_path / "data"


def append(directory: LogDirectory, number: int, start: int, end: int) -> None:
    """Append records to the partition `number` of the topic "t". Their timestamps are 1 s apart."""
    with directory.writer("t", number) as writer:
        for first in range(start, end, 20):
            records = [
                (
                    b"k%d" % i if i % 3 else None,
                    os.urandom(i % 300) if i % 7 else None,
                    FIRST + i * 1000,
                    [("n", b"%d" % number), ("null", None)] if i % 2 else [],
                )
                for i in range(first, min(first + 20, end))
            ]
            writer.append(records, codec="zstd")


@pytest.mark.parametrize("case", [case for case in [*CASES, *LEGACY] if str(case) in NAMES], ids=str)
def test_batch_reads_every_record(case: Case, spark: Call, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in case.roots])
    assert spark(spark_kafka.read, options(started(log))) == rows(log)


def test_batch_reads_only_committed_records(spark: Call, started: Start) -> None:
    log = kafkafmt.open([str(root) for root in TRANSACTIONS.roots])
    level = {"kafka.isolation.level": "read_committed"}
    got = spark(spark_kafka.read, options(started(log), **level))
    assert got == rows(log, "read_committed")
    assert len(got) < len(rows(log))


def test_batch_reads_ranges_of_offsets(spark: Call, started: Start, generated: Path) -> None:
    first = json.dumps({"t": {"0": 17, "1": -2, "2": 480}})
    last = json.dumps({"t": {"0": 33, "1": 45, "2": -1}})
    ranges = [(17, 33), (0, 45), (480, 502)]
    got = spark(spark_kafka.read, options(started(generated), "t", startingOffsets=first, endingOffsets=last))
    expected = [row for row in rows(kafkafmt.open(generated)) if row[2] in range(*ranges[row[1]])]
    assert got == expected


def test_batch_reads_ranges_of_time(spark: Call, started: Start, generated: Path) -> None:
    times = {"startingTimestamp": FIRST + 99_500, "endingTimestamp": FIRST + 203_000}
    got = spark(spark_kafka.read, options(started(generated), "t", **times))
    assert got == [row for row in rows(kafkafmt.open(generated)) if 100 <= row[2] < 203]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_stream_reads_what_is_available(isolation: Isolation, spark: Call, started: Start, tmp_path: Path) -> None:
    log = kafkafmt.open([str(root) for root in TRANSACTIONS.roots])
    level = {"kafka.isolation.level": isolation}
    batches = spark(spark_kafka.read_available, options(started(log), **level), str(tmp_path / "checkpoint"))
    assert sorted(row for batch in batches for row in batch) == rows(log, isolation)


def test_stream_limits_micro_batches(spark: Call, started: Start, generated: Path, tmp_path: Path) -> None:
    server = started(generated)
    limited = options(server, "t", maxOffsetsPerTrigger=400)
    batches = spark(spark_kafka.read_available, limited, str(tmp_path / "checkpoint"))
    assert [len(batch) <= 400 for batch in batches] == [True] * 4
    assert sorted(row for batch in batches for row in batch) == rows(kafkafmt.open(generated))
    with LogDirectory(generated) as directory:
        append(directory, 1, 501, 600)
    more = spark(spark_kafka.read_available, limited, str(tmp_path / "checkpoint"))  # continues at its checkpoint
    assert sorted(row for batch in [*batches, *more] for row in batch) == rows(kafkafmt.open(generated))


def test_stream_follows_a_growing_log(spark: Call, started: Start, generated: Path, tmp_path: Path) -> None:
    server = started(generated)
    spark(spark_kafka.start, options(server, "t"), str(tmp_path / "checkpoint"))
    try:
        for end in (600, 700, 701):
            expected = rows(kafkafmt.open(generated))
            batches = spark(spark_kafka.receive, len(expected))
            assert sorted(row for batch in batches for row in batch) == expected
            with LogDirectory(generated, segment_bytes=20_000) as directory:
                append(directory, end % 3, int(max(r[2] for r in expected if r[1] == end % 3)) + 1, end)
        assert len(batches) == 3
    finally:
        spark(spark_kafka.stop)

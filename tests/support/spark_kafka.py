"""Read topics with Spark's own Kafka source, in a separate process.

The JVM of a process has one class path. The other tests use Spark without the Kafka source, so this
module is called in a process that loads its JAR files. Call `connect` first.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafkafmt.spark.session import make_session

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The Kafka source of Spark 4.2. It also runs on Spark 4.3, for which Maven did not contain one yet."""
NEEDED = ("kafka", "commons-pool2")
"""Parts of the names of the JAR files that Spark itself does not contain."""
COLUMNS = ("topic", "partition", "offset", "unix_millis(timestamp)", "timestampType", "key", "value", "headers")
TIMEOUT = 30.0

Options = Mapping[str, object]
Row = tuple[str, int, int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

_session: Any = None
_query: Any = None
_batches: list[list[Row]] = []


def connect(jars: Sequence[str]) -> None:
    """Start Spark with the given JAR files."""
    global _session
    _session = make_session(
        "local[2]",
        "Spark's Kafka source",
        **{
            "spark.jars": ",".join(jars),
            "spark.driver.memory": "1g",
            "spark.sql.session.timeZone": "UTC",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        },
    )


def disconnect() -> None:
    _session.stop()


def read(options: Options) -> list[Row]:
    """Run a batch query, and return its rows in the order of topics, partitions and offsets."""
    return _rows(_loaded(_session.read, options))


def read_available(options: Options, checkpoint: str) -> list[list[Row]]:
    """Run a stream with Trigger.AvailableNow, and return the rows of each micro-batch."""
    start(options, checkpoint, availableNow=True)
    _query.awaitTermination(TIMEOUT)
    return _stop()


def start(options: Options, checkpoint: str, **trigger: Any) -> None:
    """Start a stream. By default, a micro-batch begins as soon as there is data."""
    global _query
    _batches.clear()
    writer = _loaded(_session.readStream, options).writeStream.option("checkpointLocation", checkpoint)
    if trigger:
        writer = writer.trigger(**trigger)
    _query = writer.foreachBatch(lambda frame, _: _batches.append(_rows(frame))).start()


def receive(count: int) -> list[list[Row]]:
    """Wait until the stream has received `count` rows, and return the rows of each micro-batch."""
    deadline = time.monotonic() + TIMEOUT
    while sum(map(len, _batches)) < count and time.monotonic() < deadline and _query.exception() is None:
        time.sleep(0.05)
    if _query.exception() is not None:
        raise RuntimeError(str(_query.exception()))
    return [list(batch) for batch in _batches]


def _stop() -> list[list[Row]]:
    _query.stop()
    return receive(0)


def stop() -> None:
    """Stop the stream that `start` has started."""
    _stop()


def _loaded(reader: Any, options: Options) -> Any:
    return reader.format("kafka").options(includeHeaders="true", **options).load().selectExpr(*COLUMNS)


def _rows(frame: Any) -> list[Row]:
    return sorted(
        (
            (
                *row[:5],
                *(None if data is None else bytes(data) for data in row[5:7]),
                tuple((h["key"], None if h["value"] is None else bytes(h["value"])) for h in row[7] or ()),
            )
            for row in frame.collect()
        ),
        key=lambda row: row[:3],
    )

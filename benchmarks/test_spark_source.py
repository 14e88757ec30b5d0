"""Measure whether the data source is limited by decoding or by the transfer from Python to the JVM.

The first records of a topic are written to Spark's noop sink, with all columns. They come from our
data source, or from a source that yields existing Arrow record batches of the same rows. Both run
in turn in one session. Our time includes planning, which checks all CRCs of the segments.
Therefore, a topic is read completely, or has small segments.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import report
import topics
from conftest import put
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import kafkafmt
from kafkafmt.spark.schema import WITH_HEADERS, struct_of
from kafkafmt.spark.session import make_session

ROUNDS = 7


class ReadyMade(DataSource):
    """A data source that loads one Arrow record batch from a file, and yields it repeatedly.

    The speed of this data source is the limit of the transfer to the JVM.
    """

    @classmethod
    def name(cls) -> str:
        return "ready_made"

    def schema(self) -> Any:
        return struct_of(WITH_HEADERS)

    def reader(self, schema: Any) -> DataSourceReader:
        return ReadyMadeReader(self.options["file"], json.loads(self.options["rows"]))


class ReadyMadeReader(DataSourceReader):
    """A reader that plans one task for each element of `rows`, which is the task's number of rows."""

    def __init__(self, file: str, rows: list[int]) -> None:
        self.file, self.rows = file, rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(rows) for rows in self.rows]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        [batch] = pa.ipc.open_file(pa.memory_map(self.file)).read_all().combine_chunks().to_batches()
        left = partition.value
        while left > 0:
            yield batch.slice(0, left) if left < len(batch) else batch
            left -= len(batch)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    session = make_session("local[2]", "kafkafmt benchmark", **{"spark.driver.memory": "1g"})
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # the workers cannot import this file
    session.dataSource.register(ReadyMade)
    yield session
    session.stop()


@pytest.mark.parametrize(
    ("name", "records"), [("none-64m", 4_000_000), ("headers", topics.TOPICS["headers"].count(1 << 30))]
)
@pytest.mark.benchmark(group="the data source, all columns to the noop sink")
def test_noop_sink(
    benchmark: Any, spark: Any, topic: Callable[[str], Path], name: str, records: int, tmp_path: Path
) -> None:
    path, file = str(topic(name)), str(tmp_path / "ready.arrow")
    batch = next(kafkafmt.open(path)[name, 0].to_batches())
    with pa.ipc.new_file(file, batch.schema) as writer:
        writer.write(batch)

    def source() -> Any:
        return (
            spark.read.format("kafkafmt")
            .options(includeHeaders="true", endingOffsets=json.dumps({name: {"0": records}}))
            .load(path)
        )

    tasks = source().rdd.getNumPartitions()
    rows = [records // tasks + (i < records % tasks) for i in range(tasks)]

    def ready() -> Any:
        return spark.read.format("ready_made").options(file=file, rows=json.dumps(rows)).load()

    def sink_of(frame: Callable[[], Any]) -> Callable[[], None]:
        return lambda: frame().write.format("noop").mode("overwrite").save()

    ours, peer = sink_of(source), sink_of(ready)
    ours(), peer()
    seconds: list[float] = []

    def turn() -> None:
        started = time.perf_counter()
        peer()
        seconds.append(time.perf_counter() - started)

    benchmark.pedantic(ours, setup=turn, rounds=ROUNDS, iterations=1)
    our_times = benchmark.stats.stats.data
    low, ratio, high = report.quartiles([b / a for a, b in zip(our_times, seconds, strict=True)])
    ns = [report.quartiles(times)[1] / records * 1e9 for times in (our_times, seconds)]
    case = f"{name}, {tasks} tasks"
    put(
        benchmark,
        report.Row(benchmark.group, case, ns[0], "ready batches", ns[1], "ns/record", ratio, low, high),
    )

"""Run random queries on Spark, inject faults into their tasks, and compare the results with `cat` and `verify`.

    flaky_queries.py '{"master": …, "seeds": [first, stop], "kinds": […], "faults": […], "conf": {…}}'

The kinds of queries are "source", "stream", "functions" and "export". The script injects a fault into
a random third of the tasks. The fault occurs at a random item, in the first attempt or in the first
two attempts of the task. There are three kinds of faults:

- "error": the task raises an error.
- "crash": the process of the task is killed.
- "slow": the task waits, so that Spark starts a second attempt on another host.

PYTHONPATH must contain the folders tests and tests/support. For each seed and each kind of query, the
script prints a line of JSON: the number of queries, the number of faults, and the traceback if a
result is wrong.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeVar

import pyarrow as pa
from damaged_logs import cat, write_mixed_directory
from export_jobs import job_of
from exporting import assert_no_leftovers
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType
from random_exports import check_export, in_order, options_of

import kafkafmt
from kafkafmt.exporting.bundles import Bundle
from kafkafmt.exporting.local_engine import LocalEngine
from kafkafmt.exporting.spark_jobs import SparkEngine
from kafkafmt.exporting.tasks import BundleResult, TaskSettings, write_bundle
from kafkafmt.spark.functions import decode_batches, decode_partition, read_paths
from kafkafmt.spark.schema import ddl_of
from kafkafmt.spark.session import make_session
from kafkafmt.spark.source.data_source import KafkaLogReader, KafkaLogSource
from kafkafmt.spark.source.stream import KafkaLogStreamReader
from kafkafmt.typing import OnError

T = TypeVar("T")
Row = dict[str, Any]
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestampMillis", "timestampType", "headers")
BLOB = tuple(name for name in COLUMNS if name not in ("topic", "partition"))


class Faults:
    """Injects faults into the tasks of one query, and creates a file in the directory `notes` for each fault."""

    def __init__(self, seed: str, kinds: list[str], notes: str) -> None:
        self.seed, self.kinds, self.notes = seed, kinds, notes

    def within(self, items: Iterable[T], first: int = 0) -> Iterator[T]:
        """Yield `items`. In the first attempts of some tasks, inject a fault after a random number of items."""
        context = TaskContext.get()
        assert context is not None
        chance = Random(f"{self.seed}-{context.stageId()}-{context.partitionId()}")
        attempts, place = chance.choice((0, 0, 0, 0, 1, 2)), chance.choice((0, 0, 1, 2, 5, 1000))
        kind = chance.choice(self.kinds)
        number = -1
        for number, item in enumerate(items):
            if number == place and context.attemptNumber() < attempts:
                self._happen(kind, context)
            yield item
        if number < place and context.attemptNumber() < attempts:
            self._happen(kind, context)

    def _happen(self, kind: str, context: TaskContext) -> None:
        name = f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}-{kind}"
        with open(os.path.join(self.notes, name), "a"):
            pass
        if kind == "slow":
            time.sleep(15)
        elif kind == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            raise RuntimeError("a fault")


class FlakyReader(KafkaLogReader):
    faults: Faults

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.faults.within(super().read(partition))


class FlakyStream(KafkaLogStreamReader):
    faults: Faults

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.faults.within(super().read(partition))


def register(spark: SparkSession, faults: Faults) -> None:
    """Register the data source "flaky": the data source of kafkafmt, with faults in its tasks."""

    class FlakySource(KafkaLogSource):
        @classmethod
        def name(cls) -> str:
            return "flaky"

        def reader(self, schema: StructType) -> DataSourceReader:
            made: Any = super().reader(schema)
            found = FlakyReader(made.options, made.names)
            found.faults = faults
            return found

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            made: Any = super().streamReader(schema)
            found = FlakyStream(made.options, made.names)
            found.faults = faults
            return found

    spark.dataSource.register(FlakySource)


def keys_of(root: Path) -> list[tuple[str, int]]:
    """Return the topic and partition of each partition directory."""
    return sorted(p.key for p in kafkafmt.log.discover([root]).partitions)


def source_options(chance: Random, root: Path) -> tuple[dict[str, str], list[str]]:
    """Return random options of the data source, and the options of `cat` that select the same records."""
    options, arguments, keys = {"path": str(root), "failOnDataLoss": "false"}, list[str](), keys_of(root)
    if chance.random() < 0.5:
        options["kafka.isolation.level"] = "read_committed"
        arguments += ["--isolation", "read_committed"]
    if chance.random() < 0.3:
        options["belowLogStart"] = "true"
        arguments.append("--below-log-start")
    if chance.random() < 0.4:
        options["assign"] = json.dumps({t: [p for s, p in keys if s == t] for t, _ in keys})
        arguments.append("--internal")
    else:
        keys = [key for key in keys if not key[0].startswith("__")]
    low, high = sorted((chance.randrange(250), chance.randrange(250)))
    if chance.random() < 0.25 and keys:
        for side, offset in (("starting", low), ("ending", high)):
            options[f"{side}Offsets"] = json.dumps({t: {str(p): offset for s, p in keys if s == t} for t, _ in keys})
        arguments.append(f"--offsets={low}:{high}")
    if chance.random() < 0.6:
        options["splitBytes"] = str(chance.choice((1, 500, 500, 5_000, 5_000, 50_000, 50_000, 50_000)))
    if chance.random() < 0.3:
        options["minPartitions"] = str(chance.choice((2, 7)))
    if chance.random() < 0.3:
        options["maxRecordsPerPartition"] = str(chance.choice((20, 200)))
    return options, arguments


def check_source(spark: SparkSession, chance: Random, root: Path, faults: Faults) -> int:
    """Compare the rows of two batch queries with `cat`."""
    options, arguments = source_options(chance, root)
    expected, code = cat([root, *arguments])
    names = sorted({"offset", "topic", "partition", *chance.sample(COLUMNS, 4)})
    frame = spark.read.format("flaky").schema(ddl_of(names)).options(**options)
    for mode in ("PERMISSIVE", "FAILFAST"):
        try:
            rows = frame.option("mode", mode).load().toArrow().to_pylist()
        except PySparkException:
            if (mode, code) != ("FAILFAST", 1):
                raise
            continue
        assert (mode, code) != ("FAILFAST", 1)
        assert in_order(rows, names) == in_order(expected, names), (mode, options)
    return 2


def check_stream(spark: SparkSession, chance: Random, root: Path, faults: Faults) -> int:
    """Read a log in two runs of a stream. Compare the rows with `cat`."""
    options, arguments = source_options(chance, root)
    while "endingOffsets" in options:
        options, arguments = source_options(chance, root)
    if chance.random() < 0.7:
        options["maxOffsetsPerTrigger"] = str(chance.choice((60, 300)))
    found: dict[int, list[Row]] = {}

    def keep(frame: Any, number: int) -> None:
        found[number] = frame.toArrow().to_pylist()

    checkpoint = root.with_name("checkpoint")
    for number in range(2):
        reader = spark.readStream.format("flaky").schema(ddl_of(COLUMNS)).options(**options)
        writer = reader.option("startingOffsets", "earliest").load().writeStream
        query = writer.option("checkpointLocation", str(checkpoint)).foreachBatch(keep)
        query.trigger(availableNow=True).start().awaitTermination()
        if number == 0 and chance.random() < 0.5:
            last = max((p for p in (checkpoint / "commits").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
            for path in (last, last.with_name(f".{last.name}.crc")):
                path.unlink(missing_ok=True)  # the second run then repeats the last micro-batch
    rows = [row for batch in found.values() for row in batch]
    expected, _ = cat([root, *arguments])
    assert in_order(rows, list(COLUMNS)) == in_order(expected, list(COLUMNS)), options
    return 2


def check_functions(spark: SparkSession, chance: Random, root: Path, faults: Faults) -> int:
    """Compare the results of functions for mapInArrow and mapPartitions with `cat`, and with calls outside Spark."""
    paths = [str(p) for p in sorted(root.iterdir()) if p.is_dir() and list(p.glob("*.log"))]
    expected, damaged = list[Row](), 0
    for path in paths:
        rows, code = cat([path])
        expected += rows
        damaged += code
    slices = chance.randrange(1, 6)
    frame = spark.createDataFrame([(p, n) for n, p in enumerate(paths)], "path string, n int").repartition(slices)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(chance.choice((1, 2, 10_000))))
    ways: tuple[OnError | Literal["column"], ...] = ("skip", "column", "fail")
    for on_error in chance.sample(ways, 2):
        read = read_paths(columns=COLUMNS, keep={"n": "int"}, on_error=on_error)
        try:
            rows = frame.mapInArrow(flaky(read, faults), read.schema).toArrow().to_pylist()
        except PySparkException:
            assert (on_error, damaged > 0) == ("fail", True)
            continue
        assert on_error != "fail" or not damaged
        places = {(row["topic"], row["partition"], row["n"]) for row in rows if row["offset"] is not None}
        assert len(places) == len({n for *_, n in places})
        assert {row["n"] for row in rows} <= set(range(len(paths)))
        records = [row for row in rows if row["offset"] is not None]
        assert in_order(records, list(COLUMNS)) == in_order(expected, list(COLUMNS)), on_error
        assert on_error != "column" or len(rows) - len(records) == errors_of(paths)
    tuples = decode_partition(tuples=True, on_error="skip")
    rdd = spark.sparkContext.parallelize(paths, slices)
    found = [tuple(r) for r in rdd.mapPartitions(flaky(tuples, faults)).collect()]
    alone = [tuple(r) for r in tuples(paths)]
    assert sorted(map(repr, found)) == sorted(map(repr, alone))
    assert sorted((r[2], r[3], r[4], r[1]) for r in alone if r[1]) == sorted(
        (e["topic"], e["partition"], e["offset"], e["value"]) for e in expected if e["value"]
    )
    blobs = [(p.read_bytes(), n) for n, p in enumerate(sorted(root.glob("*/*.log")))]
    frame = spark.createDataFrame(blobs, "records binary, n int").repartition(slices)
    for on_error in chance.sample(ways[:2], 1):
        decode = decode_batches(columns=BLOB, keep={"n": "int"}, on_error=on_error)
        rows = frame.mapInArrow(flaky(decode, faults), decode.schema).toArrow().to_pylist()
        batch = pa.RecordBatch.from_pydict(
            {"records": [b for b, _ in blobs], "n": pa.array([n for _, n in blobs], pa.int32())}
        )
        wanted = [row for b in decode([batch]) for row in b.to_pylist()]
        names = sorted(wanted[0]) if wanted else []
        assert in_order(rows, names) == in_order(wanted, names)
    return 4


def errors_of(paths: list[str]) -> int:
    """Return the number of damaged byte ranges whose offsets are not below the log start offset."""
    found = 0
    for path in paths:
        for p in kafkafmt.verify(path).to_dict()["partitions"]:
            found += sum(
                d["last_offset"] is None or max(d["last_offset"], d["first_offset"] or 0) >= p["log_start_offset"]
                for d in p["damaged"]
            )
    return found


def flaky(function: Callable[[Iterable[Any]], Iterator[T]], faults: Faults) -> Callable[[Iterable[Any]], Iterator[T]]:
    return lambda items: faults.within(function(items))


def check_exports(spark: SparkSession, chance: Random, root: Path, faults: Faults) -> int:
    """Inject faults into the tasks of an export, and compare the output with `cat` and with the local engine."""

    def write(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        (result,) = faults.within(write_bundle(bundle, settings) for _ in range(1))
        return result

    options, arguments = options_of(chance)
    expected, code = cat([root, *arguments])
    reports = []
    for engine, tasks, function in (
        ("spark", SparkEngine(spark), write),
        ("local", LocalEngine(2), write_bundle),
    ):
        job = job_of([root], output=root.with_name(engine), engine=engine, **options)
        report = job.run(tasks, None, function).to_dict()
        reports.append(check_export(report, Path(job.options.output), expected, code))
        assert_no_leftovers(Path(job.options.output))
    assert reports[0] == reports[1]
    return 1


CHECKS = {"source": check_source, "stream": check_stream, "functions": check_functions, "export": check_exports}


def main(request: dict[str, Any]) -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    conf = {"spark.python.daemon.module": "preloaded_daemon", "spark.sql.shuffle.partitions": "2"}
    conf["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    spark = make_session(request["master"], "flaky", **conf, **request.get("conf", {}))
    for seed in range(*request["seeds"]):
        for kind in request["kinds"]:
            folder = Path(tempfile.mkdtemp(prefix="kafkafmt-flaky-"))
            chance, problem, queries = Random(f"{seed}-{kind}"), None, 0
            (folder / "notes").mkdir()
            faults = Faults(f"{seed}", request["faults"], str(folder / "notes"))
            try:
                write_mixed_directory(folder / "log", chance)
                register(spark, faults)
                queries = CHECKS[kind](spark, chance, folder / "log", faults)
            except kafkafmt.log.NoLogError:
                pass
            except BaseException:
                problem = traceback.format_exc()
            notes = len(list((folder / "notes").iterdir()))
            print(
                json.dumps({"seed": seed, "kind": kind, "queries": queries, "faults": notes, "problem": problem}),
                flush=True,
            )
            if not request.get("keep") or problem is None:
                shutil.rmtree(folder, ignore_errors=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

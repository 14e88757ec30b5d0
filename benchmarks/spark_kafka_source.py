"""Compare the data source and the export with Spark's own Kafka source, in turns in one Spark session.

    python benchmarks/spark_kafka_source.py [--size 256M] [--rounds 5] [--without-kafka] [--save]

A real broker writes the topic, and Spark's Kafka source reads it from the broker while the data
source reads the same files. Both have two cores. The topic has one partition, so `minPartitions`
gives the Kafka source as many tasks as the data source has. `--without-kafka` measures only
kafkafmt, and needs neither a running broker nor the JAR files of the Kafka source.

All four jobs run once before the measurement. All times are wall-clock times.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(Path(__file__).resolve().parent), *(str(ROOT / "tests" / name) for name in ("broker", "support"))]

import java_tools  # noqa: E402
import report  # noqa: E402
import spark_kafka  # noqa: E402
import topics  # noqa: E402
from kafka_broker import FAST_JVM, Broker  # noqa: E402

import kafkafmt  # noqa: E402
from kafkafmt.spark.session import make_session  # noqa: E402

TOPIC = "none"
PAIRS = {
    "`noop` sink": ("Kafka source to noop", "data source to noop"),
    "Parquet (zstd)": ("Kafka source to Parquet", "export to Parquet"),
}


def jars() -> str:
    """Return the JAR files of Spark's Kafka source, separated by commas."""
    paths = java_tools.classpath(spark_kafka.CONNECTOR).split(os.pathsep)
    return ",".join(path for path in paths if any(name in Path(path).name for name in spark_kafka.NEEDED))


@contextmanager
def running(size: int) -> Iterator[str]:
    """Run the broker that has the topic, and yield its address."""
    with Broker(topics.folder(size), jvm=FAST_JVM) as broker:
        yield broker.bootstrap


def jobs(spark: Any, path: Path, out: Path, address: str | None) -> dict[str, Callable[[], Any]]:
    """Return a function for each job that is measured."""
    ours = spark.read.format("kafkafmt").load(str(path))
    tasks = ours.rdd.getNumPartitions()
    found: dict[str, Callable[[], Any]] = {
        "data source to noop": lambda: ours.write.format("noop").mode("overwrite").save(),
        "export to Parquet": lambda: kafkafmt.export(path, out / "ours", engine="spark", overwrite=True),
    }
    if address is not None:
        options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
        kafka = spark.read.format("kafka").options(includeHeaders="true", minPartitions=str(tasks), **options).load()
        parquet = kafka.write.option("compression", "zstd").mode("overwrite")
        found["Kafka source to noop"] = lambda: kafka.write.format("noop").mode("overwrite").save()
        found["Kafka source to Parquet"] = lambda: parquet.parquet(str(out / "kafka"))
    return found


def measure(found: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Run all jobs in turns, and return their times in seconds."""
    times: dict[str, list[float]] = {name: [] for name in found}
    for number in range(rounds + 1):
        for name, run in found.items():
            start = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - start)
    return times


def main() -> None:
    """Measure all jobs, and print their speeds and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--size", type=topics.size_of, default=256 << 20, help="bytes of records, 256M by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--save", action="store_true", help="save the ratios in results.json and RESULTS.md")
    given = parser.parse_args()
    path = topics.ensure(TOPIC, size=given.size)[TOPIC]
    records = topics.TOPICS[TOPIC].count(given.size)
    out = Path(tempfile.mkdtemp())
    try:
        settings = {} if given.without_kafka else {"spark.jars": jars()}
        spark = make_session("local[2]", "benchmark", **settings)
        if given.without_kafka:
            times = measure(jobs(spark, path, out, None), given.rounds)
        else:
            with running(given.size) as address:
                times = measure(jobs(spark, path, out, address), given.rounds)
        spark.stop()
    finally:
        shutil.rmtree(out)
    for name, seconds in times.items():
        low, high = min(seconds), max(seconds)
        speed = records / 1e6 / statistics.median(seconds)
        print(f"{name}: {speed:.2f} M rows/s, {statistics.median(seconds):.2f} s ({low:.2f} to {high:.2f})")
    for case, (peer, ours) in PAIRS.items():
        if peer in times:
            low, ratio, high = report.quartiles([a / b for a, b in zip(times[peer], times[ours], strict=True)])
            print(f"{peer} / {ours}: {ratio:.2f} ({low:.2f} to {high:.2f})")
            speeds = [records / 1e6 / statistics.median(times[name]) for name in (ours, peer)]
            figures = (speeds[0], "Spark's Kafka source", speeds[1], "M rows/s", ratio, low, high)
            report.ROWS.append(report.Row("export", case, *figures))
    if given.save:
        report.save(report.ROWS)


if __name__ == "__main__":
    main()

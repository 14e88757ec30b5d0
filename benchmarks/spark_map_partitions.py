"""Measure a function for `mapPartitions` on both cores, in turns, and what the transfer of Record objects costs.

    python benchmarks/spark_map_partitions.py [--rounds 5]

The records are those of the documentation's example data: JSON values of about 50 bytes, keys and one
header, without compression. One Spark worker runs the function `records_by_key` of
`examples/map_partitions.py`. Its time is CPU time of the worker, without the start of Spark. The times
of jobs are wall-clock times.
"""

from __future__ import annotations

import argparse
import runpy
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from operator import add
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from example_data import order  # noqa: E402

import kafkafmt  # noqa: E402
from kafkafmt.spark import decode_partition, make_session, read_paths  # noqa: E402

records_by_key = runpy.run_path(str(ROOT / "examples" / "map_partitions.py"))["records_by_key"]
PARTITIONS, RECORDS, PER_BATCH = 4, 126_000, 500


def write(folder: Path) -> list[str]:
    """Write the records. Return the paths of the partitions."""
    warnings.simplefilter("ignore", kafkafmt.StrayPartitionWarning)
    with kafkafmt.LogDirectory(folder) as directory:
        for partition in range(PARTITIONS):
            writer = directory.writer("orders", partition)
            for first in range(0, RECORDS, PER_BATCH):
                writer.append([order(partition, n) for n in range(first, first + PER_BATCH)])
    return [str(partition.path) for partition in kafkafmt.open(folder)["orders"].partitions]


def timed(paths: Iterable[str]) -> Iterator[tuple[str, float, list[tuple[bytes | None, int]]]]:
    start = time.process_time()
    found = sorted(records_by_key(paths))
    yield kafkafmt.backend, time.process_time() - start, found


def wall(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    spark = make_session("local[1]")
    context: Any = spark.sparkContext
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder))
        rdd = context.parallelize(paths, 1)
        results = []
        for number in range(rounds + 1):
            for core in ("native", "pure"):
                context.environment["KAFKAFMT_BACKEND"] = core  # starts another worker
                ((backend, taken, found),) = rdd.mapPartitions(timed).collect()
                assert backend == core
                results.append(found)
                if number:  # the first round warms up
                    seconds.setdefault(f"records_by_key, {core} core, CPU", []).append(taken)
        assert all(found == results[0] for found in results)
        context.environment["KAFKAFMT_BACKEND"] = "native"
        records = rdd.mapPartitions(decode_partition())
        read = read_paths(columns=["key"])
        rows = spark.createDataFrame([(path,) for path in paths], "path string").coalesce(1)
        jobs: dict[str, Callable[[], object]] = {
            "job: records_by_key, reduceByKey": lambda: rdd.mapPartitions(records_by_key).reduceByKey(add).collect(),
            "job: decode_partition, groupBy": lambda: records.groupBy(lambda r: r.key).mapValues(len).collect(),
            "job: decode_partition, collect": lambda: records.collect(),
            "job: read_paths, groupBy": lambda: rows.mapInArrow(read, read.schema).groupBy("key").count().collect(),
        }
        for number in range(rounds + 1):
            for name, job in jobs.items():
                taken = wall(job)
                if number:
                    seconds.setdefault(name, []).append(taken)
    spark.stop()
    total = PARTITIONS * RECORDS
    print(f"{total:,} records")
    for name, times in seconds.items():
        middle = statistics.median(times)
        print(f"{name:<40} {middle:6.2f} s ({min(times):.2f} to {max(times):.2f}), {total / middle:11,.0f} records/s")


main()

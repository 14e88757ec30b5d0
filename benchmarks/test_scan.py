"""Measure, in wall-clock time, whether a second thread makes `Log.scan` faster.

In each round, eight partitions of 24 MiB (before compression) are read into the eight default
columns. One and two threads take turns, so that other processes affect both. The ratio cannot
exceed the number of CPUs. Python's GIL and the consumer, which is one thread, reduce it. Other
benchmarks measure CPU time, which threads do not reduce.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import conftest
import inputs
import pytest
import report

import kafkafmt

PARTITIONS = 8
ROUNDS = 7


@pytest.fixture
def log(tmp_path: Path) -> Callable[[str], kafkafmt.Log]:
    """Return log(codec), which opens eight partitions that contain the same batches."""

    def make(codec: str) -> kafkafmt.Log:
        source = inputs.path("c", codec)
        for number in range(PARTITIONS):
            directory = tmp_path / codec / f"t-{number}"
            directory.mkdir(parents=True)
            (directory / f"{0:020}.log").symlink_to(source)
        return kafkafmt.open(tmp_path / codec)

    return make


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.benchmark(group="Log.scan: a second thread", timer=time.perf_counter)
def test_two_threads(benchmark: Any, log: Callable[[str], kafkafmt.Log], codec: str, ordered: bool) -> None:
    """Read the partitions with one thread and with two threads, in turn."""
    paths = [str(p.log.directory.path) for p in log(codec)]

    def read(threads: int) -> int:  # the log is opened each time, because it caches its plans
        return sum(b.num_rows for b in kafkafmt.open(paths).scan(threads=threads, ordered=ordered))

    records = read(2)
    assert read(1) == records
    times: list[float] = []

    def turn() -> None:
        started = time.perf_counter()
        read(1)
        times.append(time.perf_counter() - started)

    benchmark.pedantic(read, args=(2,), setup=turn, rounds=ROUNDS, iterations=1)
    our_times = benchmark.stats.stats.data
    low, ratio, high = report.quartiles([one / two for two, one in zip(our_times, times, strict=True)])
    ns = [report.quartiles(seconds)[1] / records * 1e9 for seconds in (our_times, times)]
    case = f"{codec}, {'ordered' if ordered else 'unordered'}"
    conftest.put(
        benchmark, report.Row(benchmark.group, case, ns[0], "one thread", ns[1], "ns/record", ratio, low, high)
    )

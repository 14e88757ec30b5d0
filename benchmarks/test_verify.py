"""Measure `verify --shallow` on one core and on two, compared with the speed of memory.

The topic is uncompressed and in the page cache. The peer is one thread that sums an array much
larger than the caches. It reads each byte once. CPU time is measured for one core, and wall-clock
time for two.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report
from conftest import put

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.verifying.verify_api import verify_partition

ROUNDS = 7
PLAIN = 512 << 20


def verify(directory: Path) -> int:
    """Verify one partition, and return its size in bytes."""
    (found,) = discover([directory]).partitions
    result = verify_partition(PartitionLog(found), shallow=True)
    assert not result.damaged
    return result.bytes


def sum_up(array: Any) -> int:
    assert array.sum() == len(array)
    return int(array.nbytes)


def measure(
    benchmark: Any,
    case: str,
    ours: Callable[[], int],
    plain: Callable[[], int],
    clock: Callable[[], float],
) -> None:
    size, plain_size = ours(), plain()
    speeds: list[float] = []

    def turn() -> None:
        started = clock()
        plain()
        speeds.append(plain_size / (clock() - started) / 1e9)

    benchmark.pedantic(ours, setup=turn, rounds=ROUNDS, iterations=1)
    own = [size / seconds / 1e9 for seconds in benchmark.stats.stats.data]
    low, share, high = report.quartiles([a / b for a, b in zip(own, speeds, strict=True)])
    middle = report.quartiles(own)[1]
    peer = report.quartiles(speeds)[1]
    put(
        benchmark,
        report.Row(benchmark.group, case, middle, "memory read", peer, "GB/s", share, low, high),
    )


@pytest.mark.benchmark(group="verify --shallow", timer=time.process_time)
def test_one_core(benchmark: Any, topic: Callable[[str], Path]) -> None:
    directory, array = topic("none"), np.ones(PLAIN // 8, np.int64)
    measure(benchmark, "one partition, one core", lambda: verify(directory), lambda: sum_up(array), time.process_time)


@pytest.mark.benchmark(group="verify --shallow")
def test_two_cores(benchmark: Any, topic: Callable[[str], Path]) -> None:
    directories, arrays = [topic("none"), topic("none-64m")], [np.ones(PLAIN // 8, np.int64) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        measure(
            benchmark,
            "two partitions, two threads",
            lambda: sum(pool.map(verify, directories)),
            lambda: sum(pool.map(sum_up, arrays)),
            time.perf_counter,
        )

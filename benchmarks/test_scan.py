"""Measure, in wall-clock time, whether a second thread makes `Log.to_reader` faster.

In each round, eight segments of 24 MiB (before compression) are read into the eight default
columns: eight partitions with one segment each, or one partition with indexes. One and two threads
take turns, so that other processes affect both. Other benchmarks measure CPU time, which threads do
not reduce.

The ratio cannot exceed the number of CPUs. Only decompressing large batches is limited by the CPU.
Reading uncompressed batches is limited by the memory bandwidth, which the threads share. Within a
partition, one thread at a time reads and checks the batches.
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
from kafkafmt import records
from kafkafmt.log.formats.producers import marker_reader
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.writing.index_builder import State, read_through

SEGMENTS = 8
ROUNDS = 7


@pytest.fixture
def log(tmp_path: Path) -> Callable[[str, str], kafkafmt.Log]:
    """Return log(letter, codec), which opens eight partitions that contain the same batches."""

    def make(letter: str, codec: str) -> kafkafmt.Log:
        source = inputs.path(letter, codec)
        for number in range(SEGMENTS):
            directory = tmp_path / codec / f"t-{number}"
            directory.mkdir(parents=True)
            (directory / f"{0:020}.log").symlink_to(source)
        return kafkafmt.open(tmp_path / codec)

    return make


@pytest.fixture
def partition(tmp_path: Path) -> Callable[[str, str], kafkafmt.Log]:
    """Return partition(letter, codec), which opens one partition that contains the same batches eight times."""

    def make(letter: str, codec: str) -> kafkafmt.Log:
        data, offset = bytearray(inputs.path(letter, codec).read_bytes()), 0
        folder = tmp_path / f"{codec}-0"
        folder.mkdir()
        for _ in range(SEGMENTS):
            following, path = records.assign_offsets(data, offset), folder / f"{offset:020}.log"
            path.write_bytes(data)
            with FileView(path) as view:
                indexes = read_through(view, offset, State(marker_reader(1 << 27))).indexes
            for suffix, entries in zip((".index", ".timeindex"), indexes.take(), strict=True):
                path.with_suffix(suffix).write_bytes(entries)
            offset = following
        return kafkafmt.open(folder)

    return make


@pytest.mark.parametrize("layout", ["8 partitions", "8 partitions, unordered", "1 partition"])
@pytest.mark.parametrize(
    ("letter", "codec"),
    [("c", "none"), ("c", "lz4"), ("c", "snappy"), ("c", "zstd"), ("b", "zstd"), ("b", "gzip")],
    ids=["none, 16 KiB", "lz4, 16 KiB", "snappy, 16 KiB", "zstd, 16 KiB", "zstd, 1 MiB", "gzip, 1 MiB"],
)
@pytest.mark.benchmark(group="Log.to_reader: a second thread", timer=time.perf_counter)
def test_two_threads(
    benchmark: Any,
    log: Callable[[str, str], kafkafmt.Log],
    partition: Callable[[str, str], kafkafmt.Log],
    letter: str,
    codec: str,
    layout: str,
) -> None:
    """Read the partitions with one thread and with two threads, in turn."""
    opened = (partition if layout == "1 partition" else log)(letter, codec)
    paths, ordered = [str(p.log.directory.path) for p in opened], "unordered" not in layout

    def read(threads: int) -> int:  # the log is opened each time, because it caches its plans
        return sum(b.num_rows for b in kafkafmt.open(paths).to_reader(threads=threads, ordered=ordered))

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
    case = f"{codec}, batches of {inputs.INPUTS[letter].batch >> 10} KiB, {layout}"
    conftest.put(
        benchmark, report.Row(benchmark.group, case, ns[0], "one thread", ns[1], "ns/record", ratio, low, high)
    )

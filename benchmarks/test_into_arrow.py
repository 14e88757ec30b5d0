"""Measure reading into Arrow, for a consumer that frees each Arrow record batch before the next one.

Columns, Arrow from memory and Arrow from files take turns in one process. All of them read the same
records. "Copies alone" copies a block of 256 KiB from the cache, as often as the size of the keys and values
requires, into two buffers of the size of an Arrow record batch. A minor page fault means that a page of memory was fresh. The consumer of "Arrow, with
pauses" waits 100 ms after each Arrow record batch; only the time of kafkafmt is measured. `-s`
prints the figures.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import inputs
import pytest
import readers
import report

import kafkafmt
from kafkafmt import records
from kafkafmt.arrow import builder as arrow
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.formats.producers import marker_reader
from kafkafmt.log.storage.file_view import FileView, aligned_buffer
from kafkafmt.log.writing.index_builder import State, read_through
from kafkafmt.view import Partition

FOUR = ("key", "value", "offset", "timestamp")
SEGMENTS = 8
ROUNDS = 7
PAUSE = 0.1
KEY_AND_VALUE = 110
BLOCK, BATCH_BYTES = 256 << 10, 8 << 20
RATIOS = (
    ("Arrow from memory", "columns"),
    ("Arrow from memory, with pauses", "columns"),
    ("copies alone", "columns"),
    ("Arrow from files", "Arrow from memory"),
    ("columns from files", "columns"),
    ("read() of the files", "columns"),
)


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Return a partition with segments of 24 MiB, with the indexes that a broker would write."""
    folder, offset = tmp_path / "t-0", 0
    folder.mkdir()
    for _ in range(SEGMENTS):
        data, path = bytearray(inputs.make("a")), folder / f"{offset:020}.log"
        following = records.assign_offsets(data, offset)
        path.write_bytes(data)
        with FileView(path) as view:
            indexes = read_through(view, offset, State(marker_reader(1 << 27))).indexes
        offset = following
        for suffix, entries in zip((".index", ".timeindex"), indexes.take(), strict=True):
            path.with_suffix(suffix).write_bytes(entries)
    return kafkafmt.open(folder)["t", 0]


def consumed(batches: Iterator[Any], pause: float) -> tuple[int, float]:
    """Read Arrow record batches, and free each one before the next. Return the rows and the CPU time in seconds."""
    rows, seconds, size = 0, 0.0, -1
    while size:
        start = time.process_time()
        batch = next(batches, None)
        size = 0 if batch is None else batch.num_rows
        del batch
        seconds += time.process_time() - start
        rows += size
        if pause:
            time.sleep(pause)
    return rows, seconds


@pytest.mark.benchmark(group="into Arrow, batches freed")
def test_into_arrow(benchmark: Any, partition: Partition) -> None:
    folder = partition.log.directory.path
    paths = sorted(folder.glob("*.log"))
    segments = [path.read_bytes() for path in paths]
    buffer = aligned_buffer(4 << 20)

    def columns() -> tuple[int, float]:
        start = time.process_time()
        return sum(readers.reader(data, FOUR)() for data in segments), time.process_time() - start

    def columns_from_files() -> tuple[int, float]:
        start = time.process_time()
        log = PartitionLog(discover([folder]).partitions[0])
        return sum(chunk.columns.rows for chunk in log.chunks(FOUR)), time.process_time() - start

    def read_only() -> tuple[int, float]:
        start = time.process_time()
        for path in paths:
            with FileView(path) as view:
                for position in range(0, view.size, len(buffer)):
                    view.read_into(buffer[: view.size - position], position)
        return rows, time.process_time() - start

    def copies_alone() -> tuple[int, float]:
        block, targets, position = (
            memoryview(segments[0])[:BLOCK],
            [memoryview(bytearray(BATCH_BYTES)), memoryview(bytearray(BATCH_BYTES))],
            0,
        )
        start = time.process_time()
        for _ in range(rows * KEY_AND_VALUE // BLOCK):
            if position + BLOCK > BATCH_BYTES:
                targets.reverse()
                position = 0
            targets[0][position : position + BLOCK] = block
            position += BLOCK
        return rows, time.process_time() - start

    def from_memory() -> Iterator[Any]:
        builder = arrow.ArrowBuilder("t", 0, arrow.schema_of(FOUR))
        chunks = (chunk for data in segments for chunk in readers.chunks(data, builder.columns))
        return arrow.record_batches(chunks, builder)

    kinds: dict[str, Callable[[], tuple[int, float]]] = {
        "columns": columns,
        "Arrow from memory": lambda: consumed(from_memory(), 0),
        "Arrow from memory, with pauses": lambda: consumed(from_memory(), PAUSE),
        "Arrow from files": lambda: consumed(partition.to_batches(FOUR, threads=1), 0),
        "copies alone": copies_alone,
        "columns from files": columns_from_files,
        "read() of the files": read_only,
    }
    rows = columns()[0]
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    faults: dict[str, list[float]] = {kind: [] for kind in kinds}

    def turn() -> None:
        for kind, read in kinds.items():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            count, seconds = read()
            assert count == rows
            times[kind].append(seconds / rows * 1e9)
            faults[kind].append((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / rows)

    turn()
    for figures in (*times.values(), *faults.values()):
        figures.clear()
    benchmark.pedantic(turn, rounds=ROUNDS, iterations=1)
    for kind in kinds:
        low, median, high = report.quartiles(times[kind])
        print(
            f"\n{kind}: {median:.1f} ns ({low:.1f} to {high:.1f}), {statistics.median(faults[kind]):.4f} faults a record",
            end="",
        )
    for ours, peer in RATIOS:
        low, ratio, high = report.quartiles([a / b for a, b in zip(times[ours], times[peer], strict=True)])
        print(f"\n{ours} / {peer}: {ratio:.2f} ({low:.2f} to {high:.2f})", end="")
        benchmark.extra_info[f"{ours} / {peer}"] = ratio

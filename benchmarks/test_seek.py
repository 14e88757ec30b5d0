"""Measure whether a lookup takes equally long in logs of 1 GiB, 32 GiB and 1 TiB.

The logs are sparse and have complete indexes. Each log is searched by offset and by time, at the
same fractions of the log. The numbers of bytes and reads per lookup must be equal.

Time is measured in an open log, after each lookup was done once. The first lookup reads the largest
timestamp of each segment, as a broker does at startup. `-s` prints all figures, including those of
first lookups.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
import report

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.reading.lookups import find_offset, find_timestamp

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from sparse_logs import SparseLog

SEGMENTS = (1, 32, 1024)
FRACTIONS = [0.03 + i / 16 for i in range(16)]
ROUNDS = 30


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[PartitionLog, list[tuple[int, int]]]]:
    found = {}
    for segments in SEGMENTS:
        sparse = SparseLog(tmp_path_factory.mktemp("sparse") / "t-0", segments, FRACTIONS)
        found[segments] = PartitionLog(discover([sparse.directory]).partitions[0]), sparse.questions
    return found


@pytest.mark.benchmark(group="seek")
@pytest.mark.parametrize("kind", ["offset", "time"])
def test_lookup_costs_the_same_in_any_log(
    benchmark: Any, logs: dict[int, tuple[PartitionLog, list[tuple[int, int]]]], kind: str
) -> None:
    counts: dict[int, list[tuple[int, int]]] = {}
    first: dict[int, str] = {}
    times: dict[int, list[float]] = {s: [] for s in SEGMENTS}

    def lookup(log: PartitionLog, question: tuple[int, int]) -> int:
        place = find_offset(log, question[0]) if kind == "offset" else find_timestamp(log, question[1])
        assert place is not None
        return place.offset

    for segments, (log, questions) in logs.items():
        before, started = log.reads, time.perf_counter()
        for question in questions:
            assert lookup(log, question) == question[0]
        first[segments] = f"{log.reads - before} reads, {(time.perf_counter() - started) * 1e3:.1f} ms"
        counts[segments] = []
        for question in questions:
            bytes_before, reads_before = log.bytes_read, log.reads
            lookup(log, question)
            counts[segments].append((log.bytes_read - bytes_before, log.reads - reads_before))

    def turn() -> None:
        for segments, (log, questions) in logs.items():
            started = time.perf_counter()
            for question in questions:
                lookup(log, question)
            times[segments].append((time.perf_counter() - started) / len(questions) * 1e6)

    benchmark.pedantic(turn, rounds=ROUNDS, iterations=1)
    for segments in SEGMENTS:
        low, middle, high = report.quartiles(times[segments])
        least, most = min(counts[segments]), max(counts[segments])
        print(
            f"\n{kind}, {segments} GiB: {middle:.0f} µs ({low:.0f}–{high:.0f}), {least} to {most} bytes and reads",
            end="",
        )
        print(f"; all questions for the first time: {first[segments]}")
    assert counts[1] == counts[32] == counts[1024]

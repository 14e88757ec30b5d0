"""Does a lookup cost the same in a log of 1 GiB, 32 GiB and 1 TiB?

Sparse logs with whole indexes; the same questions, at the same fractions of each, by offset and by time. What is counted: bytes and reads a
question, which must be the same; and the time of a lookup in a log that is open, whose questions were asked once before (the largest
timestamp of each segment is looked up once, as a broker does at its start: those reads are told beside). `-s` prints the figures.
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
ASKED = [0.03 + i / 16 for i in range(16)]
LOOKUPS = {"offset": find_offset, "time": find_timestamp}
ROUNDS = 30


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[PartitionLog, list[tuple[int, int]]]]:
    found = {}
    for segments in SEGMENTS:
        sparse = SparseLog(tmp_path_factory.mktemp("sparse") / "t-0", segments, ASKED)
        found[segments] = PartitionLog(discover([sparse.directory]).partitions[0]), sparse.questions
    return found


@pytest.mark.benchmark(group="seek")
@pytest.mark.parametrize("kind", LOOKUPS)
def test_a_lookup_costs_the_same_in_any_log(benchmark: Any, logs: dict[int, Any], kind: str) -> None:
    look, counts, first, took = LOOKUPS[kind], {}, {}, {s: [] for s in SEGMENTS}
    for segments, (log, questions) in logs.items():
        before, started = log.reads, time.perf_counter()
        for question in questions:
            assert look(log, question[kind == "time"]).offset == question[0]
        first[segments] = f"{log.reads - before} reads, {(time.perf_counter() - started) * 1e3:.1f} ms"
        counts[segments] = []
        for question in questions:
            before = log.bytes_read, log.reads
            look(log, question[kind == "time"])
            counts[segments].append((log.bytes_read - before[0], log.reads - before[1]))

    def turn() -> None:
        for segments, (log, questions) in logs.items():
            started = time.perf_counter()
            for question in questions:
                look(log, question[kind == "time"])
            took[segments].append((time.perf_counter() - started) / len(questions) * 1e6)

    benchmark.pedantic(turn, rounds=ROUNDS, iterations=1)
    for segments in SEGMENTS:
        low, middle, high = report.quartiles(took[segments])
        least, most = min(counts[segments]), max(counts[segments])
        print(
            f"\n{kind}, {segments} GiB: {middle:.0f} µs ({low:.0f}–{high:.0f}), {least} to {most} bytes and reads",
            end="",
        )
        print(f"; all questions for the first time: {first[segments]}")
    assert counts[1] == counts[32] == counts[1024]

"""Measure whole commands, from the start of the process to its end, in wall-clock time.

The topic has 4.8 million records of 100 bytes, one every 18 ms of a day, in batches of 16 KiB,
uncompressed, in the page cache. One hour of the topic has 200,000 records.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import report
from conftest import put

import kafkafmt

FIRST = 1_767_225_600_000  # 2026-01-01
DAY = 24 * 3600 * 1000
ROWS_PER_DAY = 4_800_000
MADE_ROWS = 1_000_000
ROUNDS = 5


def table(rows: int) -> Any:
    pa = pytest.importorskip("pyarrow")
    keys = pa.array([f"user-{i * 7919 % 100_000}" for i in range(rows)])
    values = pa.array([f"{i:>80}" for i in range(rows)])
    times = pa.array([FIRST + i * DAY // rows for i in range(rows)], pa.int64())
    return pa.table({"key": keys, "value": values, "timestamp": times})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("commands") / "log"
    kafkafmt.make(table(ROWS_PER_DAY), path, topic="users", partitions=2)
    return path


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    parquet.write_table(table(MADE_ROWS), path)
    return path


def compare(benchmark: Any, case: str, arguments: list[str], outputs: Iterator[Path], name: str, peer: str) -> None:
    """Measure a command of kafkafmt and another program in turn.

    Each run of the command gets the next path of `outputs` as its last argument. The ratio is the
    time of the other program divided by ours.
    """
    seconds: list[float] = []

    def ours() -> None:
        command = [sys.executable, "-m", "kafkafmt", *arguments, str(next(outputs))]
        subprocess.run(command, check=True, capture_output=True)

    def turn() -> None:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", peer], check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)

    ours()
    benchmark.pedantic(ours, setup=turn, rounds=ROUNDS, iterations=1)
    own = benchmark.stats.stats.data
    low, ratio, high = report.quartiles([b / a for a, b in zip(own, seconds, strict=True)])
    figures = report.quartiles(own)[1], name, report.quartiles(seconds)[1]
    put(benchmark, report.Row(benchmark.group, case, *figures, "s", ratio, low, high))


@pytest.mark.benchmark(group="commands")
def test_export_one_hour(benchmark: Any, log: Path, tmp_path: Path) -> None:
    hour = "@2026-01-01T07:00Z:@2026-01-01T08:00Z"
    arguments = ["export", str(log), "-o", hour, "--engine", "local", "-O"]
    outputs = (tmp_path / f"{n}.parquet" for n in itertools.count())
    peer = "import pyarrow.parquet"
    compare(benchmark, "export of one hour, --engine local", arguments, outputs, f"python -c '{peer}'", peer)


@pytest.mark.benchmark(group="commands")
def test_make_a_million_rows(benchmark: Any, rows: Path, tmp_path: Path) -> None:
    arguments = ["make", "--from", str(rows), "--topic", "users", "--partitions", "12", "--output"]
    outputs = (tmp_path / f"log-{n}" for n in itertools.count())
    peer = f"import pyarrow.parquet; pyarrow.parquet.read_table({str(rows)!r})"
    compare(benchmark, "make of 1 million rows", arguments, outputs, "pyarrow reads the same file", peer)

"""Measure `kafkafmt.rewrite` compared with `kafkafmt.salvage`, and `kafkafmt.make` compared with pyarrow's writer.

The log has a million records of 100 bytes with 100,000 keys, in batches of 16 KiB, uncompressed, in
the page cache. fsync is disabled. Both commands verify the log first, and use one thread. Their CPU
time is measured.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import report
from conftest import put

import kafkafmt

ROWS = 1_000_000
KEYS = 100_000
FIRST = 1_767_225_600_000
ROUNDS = 5
CHANGES: dict[str, dict[str, Any]] = {
    "no record matches": {"drop_keys": ["nobody"]},
    "one key of 100,000": {"drop_keys": ["user-5"]},
    "half of the records, by time": {"before_time": FIRST + ROWS // 2},
    "compaction": {"compact": True},
    "zstd:3": {"codec": "zstd", "level": 3},
}


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def rows() -> Any:
    pa = pytest.importorskip("pyarrow")
    keys = pa.array([f"user-{i * 7919 % KEYS}" for i in range(ROWS)])
    values = pa.array([f"{i:>80}" for i in range(ROWS)])
    return pa.table({"key": keys, "value": values, "timestamp": pa.array(range(FIRST, FIRST + ROWS), pa.int64())})


@pytest.fixture(scope="module")
def log(rows: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rewriting") / "log"
    kafkafmt.make(rows, path, topic="users")
    return path


def compare(
    benchmark: Any, case: str, amount: float, unit: str, ours: Callable[[], Any], name: str, peer: Callable[[], Any]
) -> None:
    """Measure both functions in turn. `amount` is what each call processes, in units."""
    seconds: list[float] = []

    def turn() -> None:
        started = time.process_time()
        peer()
        seconds.append(time.process_time() - started)

    ours()
    benchmark.pedantic(ours, setup=turn, rounds=ROUNDS, iterations=1)
    own, other = ([amount / s for s in found] for found in (benchmark.stats.stats.data, seconds))
    low, share, high = report.quartiles([a / b for a, b in zip(own, other, strict=True)])
    speeds = report.quartiles(own)[1], report.quartiles(other)[1]
    put(benchmark, report.Row(benchmark.group, case, speeds[0], name, speeds[1], unit, share, low, high))


@pytest.mark.benchmark(group="rewriting", timer=time.process_time)
@pytest.mark.parametrize("case", CHANGES)
def test_rewrite(benchmark: Any, case: str, log: Path, tmp_path: Path) -> None:
    def ours() -> None:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        kafkafmt.rewrite(log, tmp_path / "out", threads=1, **CHANGES[case])

    def salvage() -> None:
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        kafkafmt.salvage(log, tmp_path / "copy", threads=1)

    size = sum(f.stat().st_size for f in log.glob("*/*.log")) / 1e6
    compare(benchmark, case, size, "MB/s", ours, "salvage", salvage)


@pytest.mark.benchmark(group="making a log", timer=time.process_time)
@pytest.mark.parametrize("partitions", [1, 12])
def test_make(benchmark: Any, partitions: int, rows: Any, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    source = tmp_path / "rows.parquet"
    parquet.write_table(rows, source)

    def ours() -> None:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        kafkafmt.make(source, tmp_path / "out", topic="users", partitions=partitions)

    def copy() -> None:
        parquet.write_table(parquet.read_table(source), tmp_path / "copy.parquet")

    name = "pyarrow: read and write Parquet"
    compare(benchmark, f"{partitions} partitions, from Parquet", ROWS / 1e6, "M rows/s", ours, name, copy)

"""Measure writing of a log, compared with writing the same bytes to one file.

Recovery after a crash, verifying and salvaging are compared with reading or copying the log. The
log has 512 MiB of uncompressed batches of 16 KiB (140 records of 100 bytes), in the page cache.
fsync is disabled on both sides, so that the disk has no effect. The CPU time of one thread is
measured.
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
from kafkafmt.log import Damage, PartitionLog, discover
from kafkafmt.log.repairing.salvage_api import salvage_partition
from kafkafmt.log.verifying.verify_api import verify_partition

SIZE = 512 << 20
RECORDS = [(b"key%07d" % i, os.urandom(100), 1_700_000_000_000 + i) for i in range(140)]
BATCH = kafkafmt.build_batch(RECORDS)
COUNT = SIZE // len(BATCH)
ROUNDS = 5


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def compare(benchmark: Any, case: str, ours: Callable[[], int], name: str, peer: Callable[[], int]) -> None:
    """Measure both functions in turn, in GB per second."""
    speeds: list[float] = []

    def turn() -> None:
        started = time.process_time()
        size = peer()
        speeds.append(size / (time.process_time() - started) / 1e9)

    size = ours()
    benchmark.pedantic(ours, setup=turn, rounds=ROUNDS, iterations=1)
    own = [size / seconds / 1e9 for seconds in benchmark.stats.stats.data]
    low, share, high = report.quartiles([a / b for a, b in zip(own, speeds, strict=True)])
    row = (
        benchmark.group,
        case,
        report.quartiles(own)[1],
        name,
        report.quartiles(speeds)[1],
        "GB/s",
        share,
        low,
        high,
    )
    put(benchmark, report.Row(*row))


def write_plain(path: Path, data: bytes, count: int) -> int:
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(data)
    return len(data) * count


@pytest.mark.benchmark(group="writing a log", timer=time.process_time)
@pytest.mark.parametrize("batches_per_call", [1, 64])
def test_append(benchmark: Any, tmp_path: Path, batches_per_call: int) -> None:
    data, count = BATCH * batches_per_call, COUNT // batches_per_call

    def ours() -> int:
        shutil.rmtree(tmp_path / "log", ignore_errors=True)
        with kafkafmt.LogDirectory(tmp_path / "log", segment_bytes=128 << 20) as directory:
            writer = directory.writer("t")
            for _ in range(count):
                writer.append_batches(data)
        return len(data) * count

    compare(
        benchmark,
        f"{batches_per_call} encoded batches of 16 KiB a call",
        ours,
        "write()",
        lambda: write_plain(tmp_path / "plain", data, count),
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with kafkafmt.LogDirectory(tmp_path / "log", segment_bytes=128 << 20) as directory:
        writer = directory.writer("t")
        for _ in range(COUNT // 64):
            writer.append_batches(BATCH * 64)
    return tmp_path / "log"


def read_plain(log: Path) -> int:
    buffer, size = bytearray(4 << 20), 0
    for path in log.glob("t-0/*.log"):
        with path.open("rb", buffering=0) as file:
            while n := file.readinto(buffer):
                size += n
    return size


@pytest.mark.benchmark(group="writing a log", timer=time.process_time)
def test_recovery_after_a_crash(benchmark: Any, log: Path) -> None:
    size = read_plain(log)

    def ours() -> int:
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (log / name).unlink(missing_ok=True)
        with kafkafmt.LogDirectory(log) as directory:
            directory.writer("t")
        return size

    compare(benchmark, "recovery of every segment", ours, "read()", lambda: read_plain(log))


@pytest.mark.benchmark(group="verify, every record and index", timer=time.process_time)
def test_verify(benchmark: Any, log: Path) -> None:
    size = read_plain(log)

    def ours() -> int:
        assert not verify_partition(PartitionLog(discover([log]).partitions[0])).findings
        return size

    compare(benchmark, "uncompressed, 100 B records", ours, "read()", lambda: read_plain(log))


@pytest.mark.benchmark(group="salvage", timer=time.process_time)
def test_salvage(benchmark: Any, log: Path, tmp_path: Path) -> None:
    """Only copying is measured, after verifying."""
    size = read_plain(log)

    def copy() -> int:
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(log, tmp_path / "copy")
        return size

    def ours() -> int:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        (tmp_path / "out").mkdir()
        lost: list[Damage] = []
        salvage_partition(PartitionLog(discover([log]).partitions[0]), lost, tmp_path / "out")
        return size

    compare(benchmark, "an intact log copied, its indexes rebuilt, read back", ours, "shutil.copytree", copy)

"""Measure how fast damaged segments are verified, read and salvaged.

Each kind of damage is measured in batches of 1 KiB at three sizes. The table shows whether the time
grows in proportion to the size. The goal is 50 MB/s on one core for each kind. `-s` prints the figures.
"""

from __future__ import annotations

import random
import shutil
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkafmt
from kafkafmt.log import PartitionDir, PartitionLog, discover
from kafkafmt.log.auditing.verify import verify_partition

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from building import mutate, simple_batch

MB = 1_000_000
SIZES = (1 * MB, 8 * MB, 32 * MB)
BATCH_BYTES = 1024
VALUES = [random.Random(i).randbytes(BATCH_BYTES - 71) for i in range(16)]


def valid_batch(i: int) -> bytes:
    return simple_batch([VALUES[i % 16]], i)


def corrupted_batch(i: int) -> bytes:
    return mutate(valid_batch(i), 66, b"\xff\xfe\xfd")


def without_length(i: int) -> bytes:
    return mutate(corrupted_batch(i), 8, struct.pack(">i", 2 * BATCH_BYTES - 9))


def fake_header(i: int, count: int) -> bytes:
    """Return a header of format 2 whose batch claims to end with the file."""
    return struct.pack(">qiibIhiqqqhii", i, (count - i) * 61 - 12, 0, 2, 0x12345678, 0, 0, 0, 0, -1, -1, -1, 1)


KINDS: dict[str, Callable[[int], bytes]] = {
    "no damage": lambda size: b"".join(map(valid_batch, range(size // BATCH_BYTES))),
    "every batch": lambda size: b"".join(map(corrupted_batch, range(size // BATCH_BYTES))),
    "two of three batches": lambda size: b"".join(
        corrupted_batch(i) if i % 3 else valid_batch(i) for i in range(size // BATCH_BYTES)
    ),
    "two of three, lengths too": lambda size: b"".join(
        without_length(i) if i % 3 else valid_batch(i) for i in range(size // BATCH_BYTES)
    ),
    "neighbour pairs": lambda size: b"".join(
        corrupted_batch(i) if i % 64 < 2 else valid_batch(i) for i in range(size // BATCH_BYTES)
    ),
    "zeroed sectors": lambda size: b"".join(
        bytes(BATCH_BYTES) if i % 64 == 1 else valid_batch(i) for i in range(size // BATCH_BYTES)
    ),
    "headers up to the end": lambda size: b"".join(fake_header(i, size // 61) for i in range(size // 61)),
    "zigzag offsets": lambda size: b"".join(valid_batch(i ^ 1) for i in range(size // BATCH_BYTES)),
    "random bytes": lambda size: random.Random(size).randbytes(size),
}


def seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.benchmark(group="damage")
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_segment(benchmark: Any, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    figures = []
    for size in SIZES:
        (folder / f"{0:020}.log").write_bytes(KINDS[kind](size))
        directory = discover([folder]).partitions[0]

        def verify(directory: PartitionDir = directory) -> object:
            return verify_partition(PartitionLog(directory))

        def read(directory: PartitionDir = directory) -> int:
            return sum(c.columns.rows for c in PartitionLog(directory).chunks(on_damage=lambda _: None))

        def salvage(folder: Path = folder) -> None:
            shutil.rmtree(tmp_path / "salvaged", ignore_errors=True)
            kafkafmt.salvage(folder, tmp_path / "salvaged")

        figures.append(tuple(size / MB / seconds(work) for work in (verify, read, salvage)))
    shown = ", ".join(f"{s // MB} MB: {v:.0f} {r:.0f} {c:.0f}" for s, (v, r, c) in zip(SIZES, figures, strict=True))
    print(f"\n{kind:28} MB/s verified, read, salvaged, at {shown}")
    benchmark.extra_info["MB/s"] = figures
    benchmark.pedantic(verify, rounds=3)

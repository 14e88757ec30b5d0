"""Measure how fast damaged segments are verified, read and salvaged.

Each kind of damage is measured with batches of 108, 300 and 1024 bytes, and with segments of three
sizes. Another benchmark measures partitions with 500, 2000 and 8000 segments of 16 KiB, valid or
damaged. The figures show whether the time is proportional to the size. The goal is 50 MB/s on one
core for each kind of damage. `-s` prints the figures.

Salvage writes into a directory in memory, if there is one. On ext4, creating a file takes up to ten
times as long if many files were deleted in the last minutes, because ext4 does not use their inodes
again immediately.
"""

from __future__ import annotations

import itertools
import random
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import kafkafmt
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.auditing.verify import verify_partition

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from building import mutate, simple_batch

MB = 1_000_000
SIZES = (1 * MB, 8 * MB, 32 * MB)
BATCH_BYTES = (108, 300, 1024)
SEGMENTS = (500, 2000, 8000)
SEGMENT_BATCHES = 16
VALUES = {size: [random.Random(i).randbytes(size - 71) for i in range(16)] for size in BATCH_BYTES}


def valid(i: int, size: int) -> bytes:
    return simple_batch([VALUES[size][i % 16]], i)


def corrupted(i: int, size: int) -> bytes:
    return mutate(valid(i, size), 66, b"\xff\xfe\xfd")


def without_length(i: int, size: int) -> bytes:
    batch = corrupted(i, size)
    return mutate(batch, 8, struct.pack(">i", 2 * len(batch) - 9))


def fake_header(i: int, count: int) -> bytes:
    """Return a header of format 2 with a length that ends at the end of the file."""
    return struct.pack(">qiibIhiqqqhii", i, (count - i) * 61 - 12, 0, 2, 0x12345678, 0, 0, 0, 0, -1, -1, -1, 1)


KINDS: dict[str, Callable[[int, int], bytes]] = {
    "no damage": valid,
    "every batch": corrupted,
    "two of three batches": lambda i, size: corrupted(i, size) if i % 3 else valid(i, size),
    "two of three, lengths too": lambda i, size: without_length(i, size) if i % 3 else valid(i, size),
    "neighbour pairs": lambda i, size: corrupted(i, size) if i % 64 < 2 else valid(i, size),
    "zeroed sectors": lambda i, size: bytes(size) if i % 64 == 1 else valid(i, size),
    "zigzag offsets": lambda i, size: valid(i ^ 1, size),
}
"""For each kind of damage, a function that returns the batch with a given index and size."""
WHOLE_FILES: dict[str, Callable[[int], bytes]] = {
    "headers up to the end": lambda size: b"".join(fake_header(i, size // 61) for i in range(size // 61)),
    "random bytes": lambda size: random.Random(size).randbytes(size),
}


def seconds(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def measure(folder: Path, size: int, repeats: int = 3) -> tuple[float, float, float]:
    """Return the speed at which a partition is verified, read and salvaged, in MB/s."""
    directory = discover([folder]).partitions[0]
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="kafkafmt-", dir=memory if memory.is_dir() else None))
    numbers = itertools.count()

    def verify() -> object:
        return verify_partition(PartitionLog(directory))

    def read() -> int:
        return sum(c.columns.rows for c in PartitionLog(directory).chunks(on_damage=lambda _: None))

    def salvage() -> None:
        kafkafmt.salvage(folder, root / str(next(numbers)))

    try:
        v, r, s = (size / MB / seconds(work, repeats) for work in (verify, read, salvage))
    finally:
        shutil.rmtree(root)
    return v, r, s


def show(benchmark: pytest.FixtureRequest, name: str, figures: dict[str, tuple[float, float, float]]) -> None:
    shown = ", ".join(f"{at}: {v:.0f} {r:.0f} {s:.0f}" for at, (v, r, s) in figures.items())
    print(f"\n{name:40} MB/s verified, read, salvaged, at {shown}")
    benchmark.extra_info["MB/s"] = figures  # type: ignore[attr-defined]


def file_of(kind: str, batch: int, size: int) -> bytes:
    """Return about `size` bytes of a segment with one kind of damage and one batch size."""
    return b"".join(KINDS[kind](i, batch) for i in range(size // batch))


FILES: dict[str, Callable[[int], bytes]] = {
    **{f"{kind}, {batch} bytes": partial(file_of, kind, batch) for kind in KINDS for batch in BATCH_BYTES},
    **WHOLE_FILES,
}
"""For each benchmark, a function that returns the content of a file of about a given size."""


@pytest.mark.benchmark(group="damage")
@pytest.mark.parametrize("kind", FILES)
def test_damaged_segment(benchmark: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    figures = {}
    for size in SIZES:
        (folder / f"{0:020}.log").write_bytes(FILES[kind](size))
        figures[f"{size // MB} MB"] = measure(folder, size)
    show(benchmark, kind, figures)
    log = PartitionLog(discover([folder]).partitions[0])
    benchmark.pedantic(lambda: verify_partition(log), rounds=3)  # type: ignore[attr-defined]


@pytest.mark.benchmark(group="damage")
@pytest.mark.parametrize("damaged", [False, True], ids=["valid", "damaged"])
def test_many_small_segments(benchmark: pytest.FixtureRequest, tmp_path: Path, damaged: bool) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    figures, size, written = {}, 0, 0
    for count in SEGMENTS:
        for first in range(written * SEGMENT_BATCHES, count * SEGMENT_BATCHES, SEGMENT_BATCHES):
            batches = [valid(i, 1024) for i in range(first, first + SEGMENT_BATCHES)]
            if damaged:
                batches[5] = corrupted(first + 5, 1024)
            size += (folder / f"{first:020}.log").write_bytes(b"".join(batches))
        written = count
        figures[f"{count} segments"] = measure(folder, size)
    show(benchmark, f"{'damaged' if damaged else 'valid'} segments of 16 KiB", figures)
    log = PartitionLog(discover([folder]).partitions[0])
    benchmark.pedantic(lambda: verify_partition(log), rounds=1)  # type: ignore[attr-defined]

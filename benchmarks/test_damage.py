"""Measure how fast damaged segments are verified, read and salvaged.

Each kind of damage that `damaged_logs.py` defines is measured with segments of two sizes. Another benchmark
measures partitions with 500, 2000 and 8000 segments of 16 KiB, valid or damaged. A third benchmark
measures segments of 16 KiB that have indexes and producer snapshots. Its partitions have either no
producer ids or five transactional producers. For comparison, it measures a loop that only reads the
files of the source and creates the files of the copy. The figures show whether the time is
proportional to the size. `-s` prints the figures as rows of a table.

If `/dev/shm` exists, salvage writes to it, so the copies are in memory. On ext4, creating a file takes
up to ten times as long if many files were deleted in the last minutes, because ext4 does not use
their inodes again immediately.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from damaged_logs import FILES, corrupted, valid

import kafkafmt
from kafkafmt.log import LogDirectory, PartitionLog, discover
from kafkafmt.log.verifying.verify_api import verify_partition

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from building import mutate

MB = 1_000_000
SIZES = (2 * MB, 16 * MB)
SEGMENTS = (500, 2000, 8000)
SEGMENT_BATCHES = 16
SEGMENT_BYTES = 16384
QUESTIONS = ("verify", "read", "read_committed", "salvage")

Speeds = tuple[float, ...]
"""The speed of each of QUESTIONS, in MB/s."""


def seconds(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def measure(folder: Path, size: int, repeats: int = 3) -> Speeds:
    """Return the speeds for a partition. `size` is the total size of its segments, in bytes."""
    directory = discover([folder]).partitions[0]
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="kafkafmt-", dir=memory if memory.is_dir() else None))
    numbers = itertools.count()

    def verify() -> object:
        return verify_partition(PartitionLog(directory))

    def read() -> int:
        return sum(c.columns.rows for c in PartitionLog(directory).chunks(on_damage=lambda _: None))

    def read_committed() -> object:
        partition = kafkafmt.open(folder.parent)["t", 0]
        return partition.to_arrow(isolation="read_committed", on_error="skip")

    def salvage() -> None:
        kafkafmt.salvage(folder, root / str(next(numbers)), threads=1)

    try:
        return tuple(size / MB / seconds(work, repeats) for work in (verify, read, read_committed, salvage))
    finally:
        shutil.rmtree(root)


def show(benchmark: pytest.FixtureRequest, name: str, figures: dict[str, Speeds]) -> None:
    for at, speeds in figures.items():
        print(f"\n| {name} | {at} | {' | '.join(f'{speed:.0f}' for speed in speeds)} |", end="")
    benchmark.extra_info["MB/s"] = {at: dict(zip(QUESTIONS, speeds, strict=True)) for at, speeds in figures.items()}  # type: ignore[attr-defined]


@pytest.mark.benchmark(group="damage")
@pytest.mark.parametrize("kind", FILES)
def test_damaged_segment(benchmark: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    figures = {}
    for size in SIZES:
        written = (folder / f"{0:020}.log").write_bytes(FILES[kind](size))
        figures[f"{size // MB} MB"] = measure(folder, written)
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
                batches[5] = corrupted(batches[5])
            size += (folder / f"{first:020}.log").write_bytes(b"".join(batches))
        written = count
        figures[f"{count} segments"] = measure(folder, size)
    show(benchmark, f"{'damaged' if damaged else 'valid'} segments of 16 KiB", figures)
    log = PartitionLog(discover([folder]).partitions[0])
    benchmark.pedantic(lambda: verify_partition(log), rounds=1)  # type: ignore[attr-defined]


def write_segments(root: Path, count: int, producers: int) -> None:
    """Write a partition with `count` segments, indexes and producer snapshots into a new log directory.

    If `producers` is 0, no batch has a producer id. Otherwise, most batches are transactional. A marker
    follows about every tenth transactional batch.
    """
    chance, now = random.Random(7), time.time_ns() // 10**6
    sequences = dict.fromkeys(range(producers), 0)
    began: set[int] = set()
    warnings.simplefilter("ignore", kafkafmt.StrayPartitionWarning)
    with LogDirectory(root, segment_bytes=SEGMENT_BYTES) as directory:
        writer = directory.writer("t")
        while len(writer.segments) < count:
            n, now = chance.randrange(4, 12), now + chance.randrange(50)
            records = [(b"key%d" % i, chance.randbytes(chance.randrange(60, 160)), now + i) for i in range(n)]
            producer = chance.randrange(producers + 1)
            if producer == producers:
                writer.append(records)
                continue
            base = sequences[producer]
            writer.append(records, producer_id=producer, producer_epoch=0, base_sequence=base, transactional=True)
            sequences[producer] += n
            began.add(producer)
            if chance.random() < 0.1:
                writer.end_transaction(producer, 0, commit=chance.random() < 0.8)
                began.discard(producer)
        for producer in began:
            writer.end_transaction(producer, 0, commit=True)


def corrupt_segments(folder: Path) -> None:
    """Change the last bytes of one batch in each segment of a partition."""
    for file in folder.glob("*.log"):
        data, ends = file.read_bytes(), [0]
        while ends[-1] < len(data):
            ends.append(ends[-1] + 12 + int.from_bytes(data[ends[-1] + 8 : ends[-1] + 12], "big"))
        end = ends[max(len(ends) // 3, 1)]
        file.write_bytes(mutate(data, end - 3, bytes(b ^ 255 for b in data[end - 3 : end])))


def bare_copy(folder: Path, root: Path, repeats: int = 3) -> float:
    """Return the speed, in MB/s, of a loop that only reads the files of a partition and creates the files of a copy."""
    copy = Path(kafkafmt.salvage(folder, root / "salvaged").partitions[0].path)
    files = [(name, (copy / name).read_bytes(), (folder / name).exists()) for name in os.listdir(copy)]
    size, numbers = sum(f.stat().st_size for f in folder.glob("*.log")), itertools.count()

    def run() -> None:
        target = root / f"bare-{next(numbers)}"
        target.mkdir()
        for name, data, exists in files:
            if exists:
                handle = os.open(f"{folder}/{name}", os.O_RDONLY)
                os.read(handle, os.fstat(handle).st_size)
                os.close(handle)
            handle = os.open(f"{target}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(handle, data)
            os.close(handle)

    return size / MB / seconds(run, repeats)


@pytest.mark.benchmark(group="damage")
@pytest.mark.parametrize("damaged", [False, True], ids=["valid", "damaged"])
@pytest.mark.parametrize("producers", [0, 5], ids=["indexed", "transactional"])
def test_small_segments_with_all_files(
    benchmark: pytest.FixtureRequest, tmp_path: Path, producers: int, damaged: bool
) -> None:
    figures = {}
    for count in SEGMENTS:
        folder = tmp_path / str(count) / "t-0"
        write_segments(folder.parent, count, producers)
        if damaged:
            corrupt_segments(folder)
        figures[f"{count} segments"] = measure(folder, sum(f.stat().st_size for f in folder.glob("*.log")))
    name = f"{'damaged' if damaged else 'valid'} {'transactional' if producers else 'indexed'} segments"
    show(benchmark, name, figures)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as root:
        print(f"{'a loop with only the system calls':40} MB/s: {bare_copy(folder, Path(root)):.0f}")
    log = PartitionLog(discover([folder]).partitions[0])
    benchmark.pedantic(lambda: verify_partition(log), rounds=1)  # type: ignore[attr-defined]

"""Measure `stats`, `diff` and `metadata`, compared with reading the same files in a simpler way.

- `stats` of headers is compared with `verify --shallow`, and `stats --deep` with `verify`.
- `diff` of equal segments is compared with `filecmp.cmp`. `diff` of segments with different boundaries is
  compared with `verify --shallow` of both copies.
- `metadata` is compared with iterating the records of the metadata log, without decoding them.

The log has two partitions with a million records of 100 bytes, in batches of 16 KiB, uncompressed, in
the page cache. The metadata log has 20,000 topics. All functions use one thread. CPU time is measured.
"""

from __future__ import annotations

import filecmp
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import report
from conftest import put

import kafkafmt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from metadata_logs import MetadataLog, record, uuid

ROWS = 1_000_000
KEYS = 100_000
TOPICS = 20_000
FIRST = 1_767_225_600_000
ROUNDS = 5
SEGMENT = 48 << 20


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pa = pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("questions") / "log"
    keys = pa.array([f"user-{i * 7919 % KEYS}" for i in range(ROWS)])
    values = pa.array([f"{i:>80}" for i in range(ROWS)])
    table = pa.table({"key": keys, "value": values, "timestamp": pa.array(range(FIRST, FIRST + ROWS), pa.int64())})
    kafkafmt.make(table, path, topic="users", partitions=2)
    return path


@pytest.fixture(scope="module")
def copies(log: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return copies of the log: one with equal segments, and one with smaller segments."""
    found = {name: tmp_path_factory.mktemp("copies") / name for name in ("equal segments", "other segment boundaries")}
    for name, path in found.items():
        with kafkafmt.LogDirectory(path) as directory:
            for partition in kafkafmt.open(log):
                size = (SEGMENT >> 2) if name.startswith("other") else 1 << 30
                writer = directory.writer("users", partition.partition, segment_bytes=size)
                for file in sorted((log / f"users-{partition.partition}").glob("*.log")):
                    data = file.read_bytes()
                    for batch in kafkafmt.iter_batches(data):
                        writer.append_batches(data[batch.position : batch.position + batch.size], assign_offsets=False)
    return found


@pytest.fixture(scope="module")
def metadata_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("metadata") / "log"
    log = MetadataLog(path, first_timestamp=FIRST)
    place = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "replicas": [1], "isr": [1]}
    for i in range(TOPICS):
        topic = record("TopicRecord", name=f"topic-{i}", topic_id=uuid(i))
        log.append(
            topic, record("PartitionRecord", topic_id=uuid(i), partition_id=0, directories=[uuid(1)], **place)
        )  # fmt: skip
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


def log_bytes(path: Path) -> int:
    return sum(f.stat().st_size for f in path.glob("*/*.log"))


@pytest.mark.benchmark(group="stats", timer=time.process_time)
@pytest.mark.parametrize("deep", [False, True], ids=["headers", "deep"])
def test_stats(benchmark: Any, deep: bool, log: Path) -> None:
    def ours() -> None:
        assert kafkafmt.stats(log, deep=deep, threads=1).topics[0].content.records == ROWS

    def verify() -> None:
        kafkafmt.verify(log, shallow=not deep, threads=1)

    if deep:
        compare(benchmark, "every record", ROWS / 1e6, "M records/s", ours, "verify", verify)
    else:
        compare(benchmark, "headers only", log_bytes(log) / 1e9, "GB/s", ours, "verify --shallow", verify)


@pytest.mark.benchmark(group="diff", timer=time.process_time)
@pytest.mark.parametrize("case", ["equal segments", "other segment boundaries"])
def test_diff(benchmark: Any, case: str, log: Path, copies: dict[str, Path]) -> None:
    copy = copies[case]

    def ours() -> None:
        found = kafkafmt.diff(log, copy, records_only=True, threads=1)
        assert all(p.equal for p in found.partitions)

    def cmp() -> None:
        filecmp.clear_cache()  # otherwise, filecmp returns the result of the previous round
        for file in log.glob("*/*.log"):
            assert filecmp.cmp(file, copy / file.parent.name / file.name, shallow=False)

    def verify() -> None:
        for path in (log, copy):
            kafkafmt.verify(path, shallow=True, threads=1)

    peer = ("filecmp.cmp", cmp) if case.startswith("equal") else ("verify --shallow of both", verify)
    compare(benchmark, case, log_bytes(log) / 1e9, "GB/s", ours, *peer)


@pytest.mark.benchmark(group="metadata", timer=time.process_time)
def test_metadata(benchmark: Any, metadata_log: Path) -> None:
    def ours() -> None:
        assert len(kafkafmt.metadata(metadata_log).topics) == TOPICS

    def iterate() -> None:
        assert sum(1 for _ in kafkafmt.open(metadata_log)["__cluster_metadata", 0]) >= 2 * TOPICS

    name = "iterating the records"
    compare(benchmark, "20,000 topics", 2 * TOPICS / 1e6, "M records/s", ours, name, iterate)

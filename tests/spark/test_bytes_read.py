"""Count the bytes that a query reads on the driver and in tasks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from counting import count_bytes
from source_rows import plan

from kafkafmt import LogDirectory, build_batch
from kafkafmt.arrow.builder import ArrowBuilder, schema_of
from kafkafmt.log import Discovery, discover
from kafkafmt.spark.source import pieces as task_pieces

RECORDS = 40
SEGMENT_BYTES = 8 << 20
START = 1_700_000_000_000


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with two partitions of 24 MB. Segments have 8 MB, and records are 1 ms apart."""
    root = tmp_path_factory.mktemp("log")
    values = [bytes([i]) * 400 for i in range(RECORDS)]
    with LogDirectory(root, segment_bytes=SEGMENT_BYTES) as directory:
        for partition in (0, 1):
            writer = directory.writer("t", partition)
            for first in range(0, 60_000, RECORDS):
                records = [(b"key", value, START + first + i) for i, value in enumerate(values)]
                writer.append_batches(build_batch(records))
    return root


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list with one item, the number of bytes read from files."""
    return count_bytes(monkeypatch)


def log_bytes(root: Path) -> int:
    """Return the total size of all segments."""
    return sum(path.stat().st_size for path in root.glob("t-*/*.log"))


def query(root: Path, read: list[int], **options: object) -> tuple[int, int, int]:
    """Return the rows of a query, and the numbers of bytes read on the driver and in tasks."""
    reader, partitions = plan(root, columns=("offset", "value"), **options)
    planned = read[0]
    rows = sum(b.num_rows for p in partitions for b in reader.read(p))
    return rows, planned, read[0] - planned


def test_full_scan_reads_each_byte_once(topic: Path, read: list[int]) -> None:
    size = log_bytes(topic)
    rows, planned, in_tasks = query(topic, read, splitBytes="4m")
    assert rows == 120_000
    assert size <= in_tasks <= 1.02 * size
    assert planned <= 16 * 8192  # some blocks of the indexes


def test_only_the_ends_of_the_logs_are_read_to_plan_whole_segments(topic: Path, read: list[int]) -> None:
    """The driver compares the ends of the two logs with the recovery points."""
    assert query(topic, read)[1] <= 2 * 65536


def test_range_of_offsets_is_read_with_an_index_interval_at_each_end(topic: Path, read: list[int]) -> None:
    bounds = {
        "startingOffsets": '{"t": {"0": 30000, "1": 30000}}',
        "endingOffsets": '{"t": {"0": 30600, "1": 30600}}',
    }
    rows, planned, in_tasks = query(topic, read, **bounds)
    assert rows == 1200
    assert in_tasks <= 1200 * 450 + 2 * (4 * 20_000 + 30_000)
    assert planned <= 100_000


def test_range_of_times_is_read_without_the_rest_of_the_log(topic: Path, read: list[int]) -> None:
    rows, planned, in_tasks = query(topic, read, startingTimestamp=START + 20_000, endingTimestamp=START + 22_000)
    assert rows == 4000
    assert in_tasks <= 4000 * 450 + 2 * (4 * 20_000 + 30_000)
    assert planned <= 0.02 * log_bytes(topic)


def test_first_rows_are_delivered_after_a_few_megabytes(topic: Path, read: list[int]) -> None:
    reader, partitions = plan(topic, columns=("offset", "value"))
    batches = reader.read(partitions[0])
    assert next(iter(batches)).num_rows >= 10
    assert read[0] <= 10 << 20


COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture(scope="module")
def transactional(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with one partition of 47 MB: 600 transactions of 5 batches, every third is aborted."""
    root = tmp_path_factory.mktemp("transactional")
    records = [(b"key", bytes([i]) * 380, START + i) for i in range(RECORDS)]
    with LogDirectory(root, segment_bytes=SEGMENT_BYTES) as directory:
        writer = directory.writer("t", 0)
        for i in range(3000):
            sequence = i * RECORDS
            writer.append(records, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
            if i % 5 == 4:
                writer.end_transaction(7, 0, commit=i % 15 != 14)
    return root


def test_committed_records_are_read_once_and_planned_from_a_snapshot(transactional: Path, read: list[int]) -> None:
    size = log_bytes(transactional)
    rows, planned, in_tasks = query(transactional, read, splitBytes="4m", **COMMITTED)
    assert rows == 80_000
    assert in_tasks <= 1.03 * size  # of it 0.02 are for the small splits
    assert planned <= 0.02 * size


def test_range_of_committed_records_is_read_without_the_rest_of_the_log(transactional: Path, read: list[int]) -> None:
    bounds = {"startingOffsets": '{"t": {"0": 30000}}', "endingOffsets": '{"t": {"0": 30600}}'}
    rows, planned, in_tasks = query(transactional, read, **bounds, **COMMITTED)
    assert 300 <= rows <= 600
    assert planned + in_tasks <= 600 * 450 + 2 * (4 * 20_000 + 30_000)


def without_snapshots(root: Path) -> None:
    """Remove the producer snapshots and the first segment, so that transactions are found only by reading the whole log."""
    for file in [*root.glob("t-0/*.snapshot"), *root.glob(f"t-0/{0:020}.*")]:
        file.unlink()


def test_tasks_carry_only_the_transactions_of_their_batches(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=20_000, index_interval_bytes=1000) as directory:
        writer = directory.writer("t", 0)
        for i in range(500):
            record = [(b"k", b"v" * 100, START)]
            writer.append(record, producer_id=7, producer_epoch=0, base_sequence=i, transactional=True)
            writer.end_transaction(7, 0, commit=False)
    _, partitions = plan(tmp_path, splitBytes="20k", **COMMITTED)
    assert {piece.transactions for p in partitions for split in p.task.splits for piece in split.pieces} == {None}

    without_snapshots(tmp_path)
    _, partitions = plan(tmp_path, splitBytes="20k", **COMMITTED)
    pieces = [piece for p in partitions for split in p.task.splits for piece in split.pieces]
    carried = [sum(map(len, piece.transactions.aborted.values())) for piece in pieces if piece.transactions]
    assert len(carried) > 4
    assert sum(carried) >= 400
    assert max(carried) < 100  # those of one segment


def count_listings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list that gets the path of each partition directory that a task lists."""
    listed: list[Path] = []

    def counted(paths: list[Path]) -> Discovery:
        listed.extend(paths)
        return discover(paths)

    monkeypatch.setattr(task_pieces, "discover", counted)
    return listed


def small_segments(root: Path) -> None:
    """Write 60 segments, each with two transactions. Every second transaction is aborted."""
    with LogDirectory(root, segment_bytes=800) as directory:
        writer = directory.writer("t", 0)
        for i in range(120):
            record = [(b"k", b"v" * 200, START)]
            writer.append(record, producer_id=7, producer_epoch=0, base_sequence=i, transactional=True)
            writer.end_transaction(7, 0, commit=i % 2 == 0)


def test_task_lists_a_partition_once_for_all_its_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_segments(tmp_path)
    listed = count_listings(monkeypatch)
    reader, partitions = plan(tmp_path, columns=("offset",), **COMMITTED)
    assert [len(split.pieces) > 50 for p in partitions for split in p.task.splits] == [True]
    assert sum(b.num_rows for b in reader.read(partitions[0])) == 60
    assert len(listed) == 1


def test_task_lists_again_if_retention_removes_a_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_segments(tmp_path)
    _, partitions = plan(tmp_path, columns=("offset",), **COMMITTED)
    first, second, *others = partitions[0].task.splits[0].pieces
    shared, told = task_pieces.WholePartitions(), list[str]()

    def rows(pieces: Iterable[task_pieces.Piece]) -> int:
        columns = ArrowBuilder("t", 0, schema_of(["timestampType"])).columns
        for piece in pieces:
            for _ in piece.chunks(columns, tell=told.append, partitions=shared):
                pass
        return columns.rows

    assert rows([first]) == 1
    first.segment.path.unlink()
    second.segment.path.unlink()
    listed = count_listings(monkeypatch)
    assert rows([second, *others]) == 58
    assert len(listed) == 1
    assert len(told) == 1
    assert "deleted by retention" in told[0]


def test_task_reads_a_whole_partition_at_most_once(
    tmp_path: Path, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments(tmp_path)
    reader, partitions = plan(tmp_path, columns=("offset",), **COMMITTED)
    for log in sorted(tmp_path.glob("t-0/*.log"))[:-1]:
        data = bytearray(log.read_bytes())
        data[-1] ^= 1  # damage the last marker of each segment
        log.write_bytes(data)
    read[0], listed = 0, count_listings(monkeypatch)
    assert sum(b.num_rows for b in reader.read(partitions[0])) < 120
    assert len(listed) <= 2
    assert read[0] <= 12 * log_bytes(tmp_path)

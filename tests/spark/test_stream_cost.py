"""Count what a micro-batch of a stream costs, and check that a change of a log is never overlooked."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from counting import count_bytes, count_system_calls
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kafkafmt import LogDirectory, LogWriter, build_batch
from kafkafmt.log import discover
from kafkafmt.log.catalog import listings
from kafkafmt.log.catalog.listings import Listings
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.source import stream_ends
from kafkafmt.spark.source.data_source import KafkaLogSource
from kafkafmt.spark.source.stream import KafkaLogStreamReader

ALL = ReadAllAvailable()
SEGMENT_BYTES = 64 << 10
RECORDS = 10
START = 1_700_000_000_000
APPENDED = 20
"""Number of batches in a measured micro-batch."""


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat all changes as old, so that a test does not wait for 2 s."""
    monkeypatch.setattr(listings, "SETTLED_NS", 0)
    monkeypatch.setattr(stream_ends, "SETTLED_NS", 0)


def append(root: Path, partition: int, batches: int) -> None:
    with LogDirectory(root, segment_bytes=SEGMENT_BYTES) as directory:
        writer = directory.writer("t", partition)
        for _ in range(batches):
            append_batch(writer)


def append_batch(writer: LogWriter) -> None:
    writer.append_batches(build_batch([(b"key", bytes([i]) * 100, START) for i in range(RECORDS)]))


def reader(root: Path, **options: str) -> KafkaLogStreamReader:
    given = CaseInsensitiveDict({"path": str(root), "startingOffsets": "earliest", **options})
    made = KafkaLogSource(given).streamReader(struct_of(["offset"]))
    assert isinstance(made, KafkaLogStreamReader)
    return made


def offsets(
    stream: KafkaLogStreamReader, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
) -> list[int]:
    found = [row["offset"] for p in stream.partitions(start, end) for b in stream.read(p) for row in b.to_pylist()]
    return sorted(found)


def measured(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], int, int, Counter[str], int]:
    """Read a log as a stream, and append to it.

    Return the system calls and the bytes read by the driver for the micro-batch with the appended
    records, the bytes read by its tasks, and the system calls and bytes of an idle trigger.
    """
    stream = reader(root)
    begin = stream.latestOffset(stream.initialOffset(), ALL)
    with LogDirectory(root, segment_bytes=SEGMENT_BYTES) as directory:
        writer, before = directory.writer("t", 0), len(list(root.glob("t-0/*.log")))
        while len(list(root.glob("t-0/*.log"))) == before:  # until a new segment begins
            append_batch(writer)
        end = stream.latestOffset(begin, ALL)
        for _ in range(APPENDED):
            append_batch(writer)
        with monkeypatch.context() as patch:
            calls, read = count_system_calls(patch), count_bytes(patch)
            last = stream.latestOffset(end, ALL)
            partitions = stream.partitions(end, last)
            on_driver, driver_calls = read[0], calls.copy()
            rows = sum(b.num_rows for p in partitions for b in stream.read(p))
            in_tasks = read[0] - on_driver
            assert rows == APPENDED * RECORDS
            calls.clear()
            read[0] = 0
            assert stream.latestOffset(last, ALL) == last
            return driver_calls, on_driver, in_tasks, calls.copy(), read[0]


def test_cost_of_a_trigger_does_not_depend_on_the_number_of_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for batches in (100, 2400):
        root = tmp_path / str(batches)
        for partition in range(3):
            append(root, partition, batches)
        found.append(measured(root, monkeypatch))
        segments = len(list(root.glob("t-0/*.log")))
    assert segments > 40
    few, many = found
    assert many[0] == few[0], "system calls of the driver"
    assert many[0]["scandir"] == 1, "only the log directory is listed"
    new = APPENDED * RECORDS * 125
    assert many[1] <= 40_000, "bytes read by the driver: some blocks of indexes, and up to an index interval"
    assert many[2] <= new + 2 * (4096 + 2000) + 20_000, "bytes read by tasks"
    assert many[3] == few[3]
    assert many[3]["scandir"] == 1
    assert many[3]["open"] <= 6, "four checkpoints"
    assert (few[4], many[4]) == (0, 0)


def test_micro_batch_is_not_read_on_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, 0, 10)
    stream = reader(tmp_path)
    begin = stream.latestOffset(stream.initialOffset(), ALL)
    append(tmp_path, 0, 2000)
    size = sum(p.stat().st_size for p in tmp_path.glob("t-0/*.log"))
    read = count_bytes(monkeypatch)
    end = stream.latestOffset(begin, ALL)
    partitions = stream.partitions(begin, end)
    assert read[0] <= 0.02 * size
    assert sum(b.num_rows for p in partitions for b in stream.read(p)) == 2000 * RECORDS
    assert read[0] <= 1.04 * size


def test_appended_transactions_are_not_read_on_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver reads the headers of all batches, the markers, and a few whole batches."""
    stream = reader(tmp_path, **{"kafka.isolation.level": "read_committed"})
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", 0)

        def transactions(number: int, commit: bool) -> None:
            for _ in range(number):
                writer.append(
                    [(None, b"x" * 50_000)],
                    producer_id=1,
                    producer_epoch=0,
                    base_sequence=next(sequences),
                    transactional=True,
                )
                if commit:
                    writer.end_transaction(1, 0, commit=True)

        sequences = count()
        transactions(3, commit=True)
        begin = stream.latestOffset(stream.initialOffset(), ALL)
        transactions(200, commit=True)
        transactions(1, commit=False)
        new = sum(p.stat().st_size for p in tmp_path.glob("t-0/*.log"))
        read = count_bytes(monkeypatch)
        end = stream.latestOffset(begin, ALL)
        partitions = stream.partitions(begin, end)
        assert end == {"t": {"0": 406}}
        assert read[0] <= 0.03 * new
    assert sum(b.num_rows for p in partitions for b in stream.read(p)) == 200


def test_every_change_of_a_log_is_found(tmp_path: Path) -> None:
    append(tmp_path, 0, 100)
    stream = reader(tmp_path, failOnDataLoss="false")
    begin = stream.latestOffset(stream.initialOffset(), ALL)
    total = 100 * RECORDS
    for batches in (1, 30, 1, 200, 1):  # in the last segment, and in new segments
        append(tmp_path, 0, batches)
        total += batches * RECORDS
        end = stream.latestOffset(begin, ALL)
        assert end == {"t": {"0": total}}
        assert offsets(stream, begin, end) == list(range(begin["t"]["0"], total))
        begin = end
    append(tmp_path, 5, 1)  # a new partition
    end = stream.latestOffset(begin, ALL)
    assert end == {"t": {"0": total, "5": RECORDS}}
    shutil.copytree(tmp_path / "t-5", tmp_path / "u-0")
    assert stream.latestOffset(end, ALL) == end | {"u": {"0": RECORDS}}
    shutil.rmtree(tmp_path / "u-0")
    shutil.rmtree(tmp_path / "t-5")
    segments = sorted((tmp_path / "t-0").glob("*.log"))
    segments[0].unlink()
    logs = stream._logs({}, lambda _: None)
    assert [log.log_start_offset for log in logs.values()] == [int(segments[1].stem)]
    os.truncate(segments[-1], 0)
    logs = stream._logs({}, lambda _: None)
    assert stream._log_ends.find(logs["t", 0], total) < total
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {total - 1}\n")
    assert stream._logs({}, lambda _: None)["t", 0].log_start_offset == total - 1


def test_recently_changed_directory_is_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next change may have the same modification time."""
    monkeypatch.setattr(listings, "SETTLED_NS", 3600 * 10**9)
    append(tmp_path, 0, 1)
    kept = Listings()
    for named in (tmp_path, tmp_path / "t-0"):
        for _ in range(2):
            assert len(discover([named], listings=kept).partitions) == 1
    assert kept._known == {}
    monkeypatch.setattr(listings, "SETTLED_NS", 0)
    discover([tmp_path], listings=kept)
    assert len(kept._known) == 1


def test_listing_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, 0, 1)
    monkeypatch.setattr(listings, "MAX_AGE", -1.0)
    kept = Listings()
    for _ in range(2):
        calls = count_system_calls(monkeypatch)
        discover([tmp_path / "t-0"], listings=kept)
        assert calls["scandir"] == 1
    monkeypatch.setattr(listings, "MAX_AGE", 100.0)
    discover([tmp_path / "t-0"], listings=kept)
    calls = count_system_calls(monkeypatch)
    assert discover([tmp_path / "t-0"], listings=kept).partitions == discover([tmp_path / "t-0"]).partitions
    assert calls["scandir"] == 1

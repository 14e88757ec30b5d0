"""Test the log writer: files, rolling, truncation, retention, transactions and locks."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from building import TRANSACTIONAL, batch, control_batch, message, record, repair_crc, simple_batch, split
from golden_cases import case
from reports import verify_partition
from writing import FIRST, offsets, problems, some

import kafkafmt
from kafkafmt.errors import ChecksumError, InvalidError, TooLargeError, TruncatedError
from kafkafmt.log import LogDirectory, LogWriter, PartitionLog, discover
from kafkafmt.log.formats.checkpoints import read_offset_checkpoint
from kafkafmt.log.formats.snapshots import read_snapshot
from kafkafmt.log.writing.settings import LogSettingsOptions

# ---------------------------------------------------------------- files equal to a broker's

BROKERS = [  # golden case, topic, partition, settings of the topic
    ("transactions", "tx", 0, {"segment_bytes": 4000, "index_interval_bytes": 300}),
    ("transactions", "tx", 1, {"segment_bytes": 4000, "index_interval_bytes": 300}),
    ("transactions", "tx", 2, {"segment_bytes": 4000, "index_interval_bytes": 300}),
    ("segments", "segments-size", 0, {"segment_bytes": 8192, "index_interval_bytes": 512}),
    ("segments", "segments-index-full", 0, {"segment_index_bytes": 96, "index_interval_bytes": 1}),
    ("segments", "segments-time", 0, {"segment_ms": 60_000, "index_interval_bytes": 100}),
    ("idempotent", "idempotent", 0, {"segment_bytes": 3000, "index_interval_bytes": 200}),
    ("unclean", "unclean-lz4", 0, {"segment_bytes": 32768, "index_interval_bytes": 256}),
]


@pytest.mark.parametrize(
    ("name", "topic", "partition", "settings"), BROKERS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_files_from_the_same_batches_equal_the_brokers(
    name: str, topic: str, partition: int, settings: LogSettingsOptions, tmp_path: Path
) -> None:
    """Segments, index entries, aborted transactions and producer states have the broker's bytes."""
    theirs = case(f"kafka-4.3.1/{name}").partition_dir(topic, partition)
    logs = sorted(theirs.glob("*.log"))
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer(topic, partition, **settings)
        for one in (b for log in logs for b in split(log.read_bytes())):
            writer.append_batches(one, assign_offsets=False)
        assert writer.last_stable_offset == case(f"kafka-4.3.1/{name}").offsets().get((topic, partition), {}).get(
            "lastStableOffset", writer.next_offset
        )
    ours = tmp_path / theirs.name
    assert sorted(p.name for p in ours.glob("*.log")) == [p.name for p in logs]
    for file in (f for f in theirs.iterdir() if f.name != "partition.metadata"):
        written = ours / file.name
        if file.suffix == ".snapshot":
            assert sorted(read_snapshot(written.read_bytes())) == sorted(read_snapshot(file.read_bytes()))
        elif file.suffix in (".index", ".timeindex"):
            made, theirs_trimmed = written.read_bytes(), file.read_bytes().rstrip(b"\0")
            closing = (
                12
                if file.suffix == ".timeindex" and name in ("transactions", "unclean") and file.stem == logs[-1].stem
                else 0
            )
            assert (
                made.rstrip(b"\0") == theirs_trimmed or made[: len(made) - closing].rstrip(b"\0") == theirs_trimmed
            ), file
        else:
            assert written.read_bytes() == file.read_bytes(), file
    assert problems(tmp_path) == []


# ---------------------------------------------------------------- appending


def test_appended_records_are_read_back(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", 3)
        assert writer.append(some(5)) == (0, 4)
        assert writer.append(some(7, FIRST + 100), codec="zstd") == (5, 11)
        assert writer.append([]) == (12, 11)
        assert writer.append([(None, None, -1, [("h", None)]), (None, b"x", -1, (), 20)]) == (12, 20)
        assert offsets(tmp_path / "t-3") == [*range(13), 20]  # the log is read while it is open for writing
    log = kafkafmt.open(tmp_path)["t", 3]
    found = list(log.records())
    assert [(r.key, r.value, r.timestamp) for r in found[:5]] == some(5)
    assert found[-2].headers == (("h", None),)
    assert problems(tmp_path) == []


def test_large_iterable_is_appended_in_several_batches(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", segment_bytes=1 << 20)
        assert writer.append((None, b"x" * 1000, FIRST + i) for i in range(5000)) == (0, 4999)
        assert len(writer.segments) == 5
    assert offsets(tmp_path) == list(range(5000))


@pytest.mark.parametrize(
    ("epoch", "error", "message"),
    [
        (1.5, TypeError, "leader_epoch must be a whole number, not 1.5"),
        ("5", TypeError, "leader_epoch must be a whole number, not '5'"),
        (-5, ValueError, "leader_epoch is -5; it must be at least -1"),
        (2**31, ValueError, "leader_epoch is 2147483648; it must be at most 2147483647"),
    ],
)
def test_wrong_leader_epoch_is_refused_when_a_partition_is_opened(
    epoch: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with LogDirectory(tmp_path) as directory:
        with pytest.raises(error, match=message):
            directory.writer("t", leader_epoch=epoch)
        assert not (tmp_path / "t-0").exists()


def test_encoded_batches_get_offsets_and_epoch(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", leader_epoch=4)
        data = simple_batch([b"a", b"b"], base_offset=77) + simple_batch([b"c"], codec=3, leader_epoch=9)
        assert writer.append_batches(data) == (0, 2)
        assert writer.append_batches(memoryview(data)) == (3, 5)
        assert writer.leader_epochs == [(4, 0)]
    assert [r.value for r in kafkafmt.open(tmp_path)["t", 0]] == [b"a", b"b", b"c"] * 2
    with LogDirectory(tmp_path) as directory:
        with pytest.raises(ValueError, match="below 4, the latest leader epoch of the log"):
            directory.writer("t", leader_epoch=3)
        writer = directory.writer("t")
        writer.append(some(1))
        assert writer.leader_epochs == [(4, 0)]
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", leader_epoch=6)
        writer.append(some(1))
        assert writer.leader_epochs == [(4, 0), (6, 7)]
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n4 0\n6 7\n"
    assert problems(tmp_path) == []


VALID_BATCH = simple_batch([b"a", b"b"], base_offset=10)


@pytest.mark.parametrize(
    ("data", "assign", "error"),
    [
        (VALID_BATCH[:-1], True, TruncatedError),
        (VALID_BATCH + b"\0", True, TruncatedError),
        (VALID_BATCH[:-1] + b"?", True, ChecksumError),
        (message(0, None, simple_batch([b"a"]), attributes=1), True, InvalidError),
        (VALID_BATCH + VALID_BATCH, False, InvalidError),
        (simple_batch([b"a"], base_offset=3), False, InvalidError),
        (repair_crc(VALID_BATCH[:23] + b"\xff\xff\xff\xff" + VALID_BATCH[27:]), True, InvalidError),
        (simple_batch([b"a" * 5000], base_offset=10), True, TooLargeError),
    ],
)
def test_rejected_batches_change_no_file(data: bytes, assign: bool, error: type[Exception], tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=4000) as directory:
        writer = directory.writer("t")
        writer.append(some(5))
        before = {p.name: p.read_bytes() for p in (tmp_path / "t-0").iterdir()}
        with pytest.raises(error):
            writer.append_batches(data, assign_offsets=assign)
        assert {p.name: p.read_bytes() for p in (tmp_path / "t-0").iterdir()} == before
        assert writer.append_batches(VALID_BATCH, assign_offsets=False).last_offset == 11


def test_messages_of_old_formats_get_offsets(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        data = message(0, b"k", b"zero") + message(1, b"k", b"one", timestamp=FIRST) + simple_batch([b"two", b"three"])
        assert writer.append_batches(data) == (0, 3)
        assert writer.append_batches(data) == (4, 7)
    assert [r.value for r in kafkafmt.open(tmp_path)["t", 0]] == [b"zero", b"one", b"two", b"three"] * 2
    assert problems(tmp_path) == []


def test_transactions_commit_abort_and_hide_their_records(tmp_path: Path) -> None:
    """The transactions of two producers overlap.

    A consumer receives only the committed records, and the files have no findings.
    """
    with LogDirectory(tmp_path, segment_bytes=1000, index_interval_bytes=100) as directory:
        writer = directory.writer("t")
        for i in range(6):
            for producer in (1, 2):
                writer.append(some(3), producer_id=producer, producer_epoch=0, base_sequence=3 * i, transactional=True)
        assert writer.last_stable_offset == 0
        with pytest.raises(InvalidError, match="open transaction"):
            writer.append(some(1), producer_id=1, producer_epoch=0, base_sequence=99)
        writer.end_transaction(1, 0, commit=False)
        assert writer.last_stable_offset == 3
        writer.end_transaction(2, 0, commit=True)
        assert writer.last_stable_offset == writer.next_offset == 38
        writer.append(some(2), producer_id=1, producer_epoch=0, base_sequence=18, transactional=True)
        assert len(writer.segments) > 2
    assert problems(tmp_path) == []
    committed = offsets(tmp_path, isolation="read_committed")
    assert committed == [o for o in range(36) if o % 6 >= 3]
    with LogDirectory(tmp_path) as directory:
        assert directory.clean
        assert directory.writer("t").last_stable_offset == 38
    data = batch([record()], flags=TRANSACTIONAL, producer_id=9, producer_epoch=0, base_sequence=0)
    plain = batch([record()], producer_id=9, producer_epoch=0, base_sequence=1)
    with LogDirectory(tmp_path / "other") as directory:
        writer = directory.writer("t")
        with pytest.raises(InvalidError, match="open transaction"):
            writer.append_batches(data + plain)
        writer.append_batches(data + control_batch(1, producer_id=9) + plain)


# ---------------------------------------------------------------- segments


def test_segment_rolls_by_the_clock_if_records_have_no_timestamps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [FIRST]
    monkeypatch.setattr("kafkafmt.log.writing.local_log.now_millis", lambda: clock[0])
    with LogDirectory(tmp_path, segment_ms=1000) as directory:
        writer = directory.writer("t")
        for _ in range(4):
            writer.append([(None, b"x")])
            clock[0] += 400
        assert writer.segments == [0, 3]


def test_segments_do_not_depend_on_how_many_batches_an_append_has(tmp_path: Path) -> None:
    batches = [simple_batch([b"x" * (i * 37 % 200)] * (i % 4 + 1), base_timestamp=FIRST + 50 * i) for i in range(300)]
    settings: LogSettingsOptions = {
        "index_interval_bytes": 700,
        "segment_index_bytes": 96,
        "segment_bytes": 9000,
        "segment_ms": 3000,
    }
    files = []
    for n in (1, 7, 300):
        with LogDirectory(tmp_path / str(n), **settings) as directory:
            writer = directory.writer("t")
            for i in range(0, 300, n):
                writer.append_batches(b"".join(batches[i : i + n]))
        files.append({p.name: p.read_bytes() for p in (tmp_path / str(n) / "t-0").iterdir()})
    assert files[0] == files[1] == files[2]
    assert len([name for name in files[0] if name.endswith(".log")]) > 8


def test_segment_rolls_if_the_index_cannot_hold_the_offset(tmp_path: Path) -> None:
    distant = [simple_batch([b"a"], base_offset=o) for o in (0, 2**31 - 1, 2**31, 2**33)]
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        writer.append_batches(b"".join(distant), assign_offsets=False)
        assert writer.segments == [0, 2**31, 2**33]
    assert [found["error"] for found in problems(tmp_path)] == ["offset_gap"]


@pytest.mark.parametrize("magic", [0, 1])
def test_segment_starts_at_or_before_the_first_message_of_a_wrapper(tmp_path: Path, magic: int) -> None:
    with LogDirectory(tmp_path, segment_bytes=250) as directory:
        writer = directory.writer("t")
        for first in range(0, 40, 10):
            rows = [(b"k", b"v%d" % n, -1 if magic == 0 else n) for n in range(first, first + 10)]
            data = kafkafmt.build_batch(rows, magic=magic, codec="gzip", base_offset=first)
            writer.append_batches(data, assign_offsets=False)
        assert writer.segments == [0, 10, 20, 30]
    assert [r.value for r in kafkafmt.open(tmp_path)["t", 0]] == [b"v%d" % n for n in range(40)]
    assert problems(tmp_path) == []


@pytest.mark.parametrize("offset", [0, 1, 19, 20, 55, 60, 61, 99])
def test_truncation_removes_whole_batches_and_their_state(tmp_path: Path, offset: int) -> None:
    """Whole batches are removed. Producer states and leader epochs are truncated too."""
    with LogDirectory(tmp_path, segment_bytes=1500, index_interval_bytes=200) as directory:
        writer = directory.writer("t")
        for i in range(20):
            writer.append(some(5), producer_id=1, producer_epoch=0, base_sequence=5 * i)
        assert len(writer.segments) > 3
        assert writer.truncate_to(100) == 100
        assert writer.truncate_to(offset) == offset // 5 * 5
        assert problems(tmp_path) == []
        assert offsets(tmp_path / "t-0") == list(range(offset // 5 * 5))
        writer.append(some(5), producer_id=1, producer_epoch=0, base_sequence=offset // 5 * 5)
    assert problems(tmp_path) == []
    assert offsets(tmp_path) == list(range(offset // 5 * 5 + 5))


def test_truncation_below_the_first_segment_starts_an_empty_log(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=500) as directory:
        writer = directory.writer("t")
        for _ in range(10):
            writer.append(some(5))
        writer.delete_before(27)
        assert writer.truncate_to(11) == 11
        assert writer.segments == [11]
        assert writer.append(some(1)) == (11, 11)
    assert offsets(tmp_path) == [11]
    assert problems(tmp_path) == []


def test_delete_before_moves_the_log_start(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=800) as directory:
        writer = directory.writer("t")
        for _ in range(10):
            writer.append(some(10))
        for start in (0, 25, 25, 93, 100):
            writer.delete_before(start)
            assert writer.log_start_offset == start
            assert offsets(tmp_path) == list(range(start, 100))
            assert writer.segments[0] <= start
            assert problems(tmp_path) == []
        with pytest.raises(ValueError, match="offset is 101; it must be at most"):
            writer.delete_before(101)
    assert read_offset_checkpoint((tmp_path / "log-start-offset-checkpoint").read_text(), "") == {("t", 0): 100}
    with LogDirectory(tmp_path) as directory:
        assert directory.writer("t").log_start_offset == 100


def test_batch_larger_than_the_limit_of_readers_survives_recovery(tmp_path: Path) -> None:
    """The size limit of readers does not apply to the writer, so recovery keeps the batch."""
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        writer.append([(None, bytes(129 << 20), FIRST)])
        writer.append(some(3))
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        assert (writer.cut, writer.next_offset) == ([], 4)
        assert writer.truncate_to(2) == 1


def test_log_start_in_tiered_storage_is_kept(tmp_path: Path) -> None:
    """If the log start offset increased, a broker would delete the tiered segments before it."""
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    with LogDirectory(tmp_path, segment_bytes=800) as directory:
        writer = directory.writer("t")
        for _ in range(10):
            writer.append(some(10))
        writer.delete_before(50)
        first = writer.segments[0]
    for start, later in ((7, {("t", 0): 7}), (first, {})):
        checkpoint.write_text(f"0\n1\nt 0 {start}\n")
        with LogDirectory(tmp_path, segment_bytes=800) as directory:
            assert directory.writer("t").log_start_offset == first
        assert read_offset_checkpoint(checkpoint.read_text(), "") == later


def test_abort_open_transactions_writes_their_markers(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        assert writer.abort_open_transactions() == []
        for producer_id in (9, 4):
            writer.append(some(2), producer_id=producer_id, producer_epoch=5, base_sequence=0, transactional=True)
        writer.end_transaction(4, 5, commit=True, coordinator_epoch=8)
        writer.append(some(2), producer_id=4, producer_epoch=5, base_sequence=2, transactional=True)
        writer.append(some(1))
        assert [(p.producer_id, p.txn_first_offset) for p in writer.open_transactions] == [(9, 0), (4, 5)]
        ended = writer.abort_open_transactions()
        assert [(p.producer_id, p.txn_first_offset, p.coordinator_epoch, marker) for p, marker in ended] == [
            (9, 0, -1, 8),
            (4, 5, 8, 9),
        ]
        assert writer.open_transactions == []
        assert writer.last_stable_offset == writer.next_offset == 10
    assert offsets(tmp_path, isolation="read_committed") == [2, 3, 7]
    assert problems(tmp_path) == []


def test_retention_deletes_segments_by_size_and_time(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=800, retention_ms=-1, retention_bytes=1500) as directory:
        writer = directory.writer("t")
        for i in range(10):
            writer.append(some(10, FIRST + 1000 * i))
        segments = writer.segments
        gone = writer.enforce_retention(FIRST)
        kept = [p.stat().st_size for p in sorted((tmp_path / "t-0").glob("*.log"))]
        assert gone == segments[: len(gone)]
        assert sum(kept) >= 1500 > sum(kept[1:])
        assert writer.log_start_offset == writer.segments[0] == offsets(tmp_path)[0]
    assert problems(tmp_path) == []
    with LogDirectory(tmp_path, retention_ms=1500) as directory:
        writer = directory.writer("t")
        assert writer.enforce_retention(FIRST + 7000) == []
        writer.enforce_retention(FIRST + 10_400)
        assert offsets(tmp_path)[0] == writer.segments[0] >= 80
        writer.enforce_retention(FIRST + 100_000)  # all segments are deleted, and a new one is created
        assert (writer.segments, writer.next_offset, writer.log_start_offset) == ([100], 100, 100)
        assert writer.append(some(1)) == (100, 100)
        assert writer.enforce_retention(FIRST) == []
    assert problems(tmp_path) == []


# ---------------------------------------------------------------- directories, locks, flushing


def test_second_writer_is_refused(tmp_path: Path) -> None:
    program = f"import kafkafmt; kafkafmt.LogDirectory({str(tmp_path)!r})"
    with LogDirectory(tmp_path) as directory:
        directory.writer("t")
        with pytest.raises(BlockingIOError):
            LogDirectory(tmp_path)
        with pytest.raises(ValueError, match="already has an open writer"):
            directory.writer("t")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)  # the lock is still held
        assert "BlockingIOError" in done.stderr
    subprocess.run([sys.executable, "-c", program], check=True)
    LogDirectory(tmp_path).close()


NO_NAMES = [("", 0), ("a b", 0), ("..", 0), ("a/b", 0), ("é", 0), ("x" * 250, 0), ("t", -1), ("t", 2**31)]


@pytest.mark.parametrize(("topic", "partition"), NO_NAMES)
def test_topic_name_that_no_broker_accepts_raises(tmp_path: Path, topic: str, partition: int) -> None:
    with LogDirectory(tmp_path) as directory, pytest.raises(ValueError):
        directory.writer(topic, partition)


@pytest.mark.parametrize(
    "settings", [{"segment_bytes": 0}, {"segment_bytes": 2**31}, {"flush_messages": 0}, {"retention_ms": -2}]
)
def test_setting_out_of_range_or_unknown_raises(tmp_path: Path, settings: LogSettingsOptions) -> None:
    with pytest.raises(ValueError):
        LogDirectory(tmp_path, **settings)
    with pytest.raises(TypeError):
        LogDirectory(tmp_path, segment_size=1)  # type: ignore[call-arg]


def test_clean_shutdown_file_exists_only_while_closed_cleanly(tmp_path: Path) -> None:
    marker = tmp_path / ".kafka_cleanshutdown"
    with LogDirectory(tmp_path) as directory:
        assert not directory.clean
        directory.writer("a").append(some(3))
        directory.writer("b").append(some(4))
        assert not marker.exists()
    assert marker.exists()
    assert read_offset_checkpoint((tmp_path / "recovery-point-offset-checkpoint").read_text(), "") == {
        ("a", 0): 3,
        ("b", 0): 4,
    }
    with LogDirectory(tmp_path) as directory:
        assert directory.clean
    assert marker.exists()
    marker.unlink()  # like after a crash
    with LogDirectory(tmp_path) as directory:
        directory.writer("a")
    assert not marker.exists(), "partition b was never opened"
    with LogDirectory(tmp_path) as directory:
        directory.writer("a")
        directory.writer("b")
    assert marker.exists()


def test_closed_writer_and_directory_raise(tmp_path: Path) -> None:
    directory = LogDirectory(tmp_path)
    writer: LogWriter = directory.writer("t")
    writer.close()
    writer.close()
    for call in (
        lambda: writer.append(some(1)),
        writer.flush,
        lambda: writer.truncate_to(0),
        lambda: writer.delete_before(0),
    ):
        with pytest.raises(ValueError, match="is closed"):
            call()
    unread = iter(some(1))
    empty: list[tuple[bytes, bytes]] = []
    for records in (empty, unread):
        with pytest.raises(ValueError, match="is closed"):
            writer.append(records)
    assert len(list(unread)) == 1
    reopened = directory.writer("t")
    reopened.append(some(2))
    directory.close()
    directory.close()
    assert reopened.closed
    with pytest.raises(ValueError, match="is closed"):
        directory.writer("t")
    assert offsets(tmp_path) == [0, 1]


def test_topic_id_is_written_and_checked(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        directory.writer("t", topic_id="8-l9S5ZsQ9WDZC2owgiTAA").close()
        assert (tmp_path / "t-0" / "partition.metadata").read_text() == "version: 0\ntopic_id: 8-l9S5ZsQ9WDZC2owgiTAA"
        with pytest.raises(ValueError, match="has topic id"):
            directory.writer("t", topic_id="AAAAAAAAQ9WDZC2owgiTAA")
        with pytest.raises(kafkafmt.StructureError):
            directory.writer("u", topic_id="short")


def test_flush_happens_after_the_set_messages_or_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    clock = [FIRST]
    monkeypatch.setattr("kafkafmt.log.writing.local_log._ticks", lambda: clock[0])
    monkeypatch.setattr("kafkafmt.log.writing.active.ActiveSegment.flush", lambda self: flushed.append(self.size))
    with LogDirectory(tmp_path, flush_messages=5) as directory:
        writer = directory.writer("a")
        for n in (2, 2, 1, 4, 6):
            writer.append(some(n))
            flushed.append(None)
        assert [i for i, f in enumerate(flushed) if f is not None] == [2, 5]
        assert writer.recovery_point == 15
    flushed.clear()
    with LogDirectory(tmp_path, flush_ms=100) as directory:
        writer = directory.writer("b")
        for step in (0, 50, 60, 10, 100):
            clock[0] += step
            writer.append(some(1))
            flushed.append(None)
        assert [i for i, f in enumerate(flushed) if f is not None] == [2, 5]
        writer.append(some(1))
        assert (writer.recovery_point, writer.next_offset) == (5, 6)
        writer.flush()
        assert writer.recovery_point == 6


def test_expired_producers_are_removed_from_the_snapshot(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, retention_ms=-1) as directory:
        writer = directory.writer("t")
        writer.append(some(1), producer_id=1, producer_epoch=0, base_sequence=0)
        writer.append(some(1), producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
        writer.append(some(1, FIRST + 25 * 3600 * 1000), producer_id=3, producer_epoch=0, base_sequence=0)
        writer.enforce_retention(FIRST + 26 * 3600 * 1000)
    assert sorted(p.producer_id for p in read_snapshot((tmp_path / "t-0" / f"{3:020}.snapshot").read_bytes())) == [2, 3]


def test_concurrent_readers_see_complete_batches_in_order(tmp_path: Path) -> None:
    """A reader that opens the log always finds a whole number of batches, never fewer than before.

    Indexes and checkpoints are correct for these batches.
    """
    done = threading.Event()
    seen: list[int] = []
    wrong: list[Any] = []

    def read() -> None:
        while not done.is_set() or not seen:
            log = PartitionLog(discover([tmp_path / "t-0"]).partitions[0])
            found = [(r.offset, r.value) for r in log.records(on_damage=wrong.append)]
            if [o for o, _ in found] != list(range(len(found))) or len(found) % 5 or len(found) < max(seen, default=0):
                wrong.append(len(found))
            seen.append(len(found))
            entry = verify_partition(PartitionLog(discover([tmp_path / "t-0"]).partitions[0]))
            wrong.extend(entry["damaged"] + [f for f in entry["findings"] if f["error"] != "unfinished_tail"])

    with LogDirectory(tmp_path, segment_bytes=20_000) as directory:
        writer = directory.writer("t")
        writer.append(some(5))
        reader = threading.Thread(target=read)
        reader.start()
        i = 0
        while i < 400 or (len(set(seen)) < 4 and reader.is_alive()):  # the reader may be slow or start late
            writer.append(some(5, FIRST + i, size=i % 90), codec=("none", "zstd")[i % 2])
            i += 1
        done.set()
        reader.join()
    assert wrong == []
    assert len(set(seen)) > 3

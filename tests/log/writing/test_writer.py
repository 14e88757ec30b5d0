"""The writer: the brokers' own files again from their batches, rolling, truncating, retention, transactions, locks."""

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
from selecting import interval

import kafkafmt
from kafkafmt.errors import ChecksumError, InvalidError, TooLargeError, TruncatedError
from kafkafmt.log import LogDirectory, LogWriter, PartitionLog, discover
from kafkafmt.log.format.checkpoints import read_offset_checkpoint
from kafkafmt.log.format.snapshots import read_snapshot

FIRST = 1_700_000_000_000


def offsets(path: Path, **given: Any) -> list[int]:
    log = PartitionLog(discover([path]).partitions[0])
    return [r.offset for r in log.records(interval(log, **given))]


def complaints(path: Path) -> list[Any]:
    found = []
    for directory in discover([path]).partitions:
        report = verify_partition(PartitionLog(directory))
        found += report["damaged"] + report["findings"]
    return found


def some(n: int, at: int = FIRST, size: int = 30) -> list[tuple[Any, ...]]:
    return [(b"k%d" % i, b"v" * size, at + i) for i in range(n)]


# ---------------------------------------------------------------- the same files as a broker

BROKERS = [  # case, topic, partition, settings that it was written with
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
def test_the_same_files_as_the_broker_from_the_same_batches(
    name: str, topic: str, partition: int, settings: dict[str, int], tmp_path: Path
) -> None:
    """Where it rolled, what it indexed, which transactions it knew, what it remembered of producers: byte for byte."""
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
        twin = ours / file.name
        if file.suffix == ".snapshot":
            assert sorted(read_snapshot(twin.read_bytes())) == sorted(read_snapshot(file.read_bytes()))
        elif file.suffix in (".index", ".timeindex"):
            made, theirs_trimmed = twin.read_bytes(), file.read_bytes().rstrip(b"\0")
            closing = (
                12
                if file.suffix == ".timeindex" and name in ("transactions", "unclean") and file.stem == logs[-1].stem
                else 0
            )
            assert (
                made.rstrip(b"\0") == theirs_trimmed or made[: len(made) - closing].rstrip(b"\0") == theirs_trimmed
            ), file
        else:
            assert twin.read_bytes() == file.read_bytes(), file
    assert complaints(tmp_path) == []


# ---------------------------------------------------------------- appending


def test_records_in_records_out(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", 3)
        assert writer.append(some(5)) == (0, 4)
        assert writer.append(some(7, FIRST + 100), codec="zstd") == (5, 11)
        assert writer.append([]) == (12, 11)
        assert writer.append([(None, None, -1, [("h", None)]), (None, b"x", -1, (), 20)]) == (12, 20)
        assert offsets(tmp_path / "t-3") == [*range(13), 20]  # read while it is written
    log = kafkafmt.open(tmp_path)["t", 3]
    found = list(log.records())
    assert [(r.key, r.value, r.timestamp) for r in found[:5]] == some(5)
    assert found[-2].headers == (("h", None),)
    assert complaints(tmp_path) == []


def test_a_large_iterable_goes_through_in_pieces(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", segment_bytes=1 << 20)
        assert writer.append((None, b"x" * 1000, FIRST + i) for i in range(5000)) == (0, 4999)
        assert len(writer.segments) == 5
    assert offsets(tmp_path) == list(range(5000))


def test_encoded_batches_get_offsets_and_epoch(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", leader_epoch=4)
        data = simple_batch([b"a", b"b"], base_offset=77) + simple_batch([b"c"], codec=3, leader_epoch=9)
        assert writer.append_batches(data) == (0, 2)
        assert writer.append_batches(memoryview(data)) == (3, 5)
        assert writer.leader_epochs == [(4, 0)]
    assert [r.value for r in kafkafmt.open(tmp_path)["t", 0]] == [b"a", b"b", b"c"] * 2
    with LogDirectory(tmp_path) as directory:
        with pytest.raises(ValueError, match="below the log's latest"):
            directory.writer("t", leader_epoch=3)
        writer = directory.writer("t")
        writer.append(some(1))
        assert writer.leader_epochs == [(4, 0)]
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", leader_epoch=6)
        writer.append(some(1))
        assert writer.leader_epochs == [(4, 0), (6, 7)]
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n4 0\n6 7\n"
    assert complaints(tmp_path) == []


SOUND = simple_batch([b"a", b"b"], base_offset=10)


@pytest.mark.parametrize(
    ("data", "assign", "error"),
    [
        (SOUND[:-1], True, TruncatedError),
        (SOUND + b"\0", True, TruncatedError),
        (SOUND[:-1] + b"?", True, ChecksumError),
        (message(0, None, simple_batch([b"a"]), attributes=1), True, InvalidError),
        (SOUND + SOUND, False, InvalidError),
        (simple_batch([b"a"], base_offset=3), False, InvalidError),
        (repair_crc(SOUND[:23] + b"\xff\xff\xff\xff" + SOUND[27:]), True, InvalidError),
        (simple_batch([b"a" * 5000], base_offset=10), True, TooLargeError),
    ],
)
def test_what_cannot_be_appended_changes_nothing(
    data: bytes, assign: bool, error: type[Exception], tmp_path: Path
) -> None:
    with LogDirectory(tmp_path, segment_bytes=4000) as directory:
        writer = directory.writer("t")
        writer.append(some(5))
        before = {p.name: p.read_bytes() for p in (tmp_path / "t-0").iterdir()}
        with pytest.raises(error):
            writer.append_batches(data, assign_offsets=assign)
        assert {p.name: p.read_bytes() for p in (tmp_path / "t-0").iterdir()} == before
        assert writer.append_batches(SOUND, assign_offsets=False).last_offset == 11


def test_messages_of_old_formats_get_offsets_too(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        data = message(0, b"k", b"zero") + message(1, b"k", b"one", timestamp=FIRST) + simple_batch([b"two", b"three"])
        assert writer.append_batches(data) == (0, 3)
        assert writer.append_batches(data) == (4, 7)
    assert [r.value for r in kafkafmt.open(tmp_path)["t", 0]] == [b"zero", b"one", b"two", b"three"] * 2
    assert complaints(tmp_path) == []


def test_transactions(tmp_path: Path) -> None:
    """Two producers, interleaved; what a consumer sees, and what a broker wants to find beside it."""
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
    assert complaints(tmp_path) == []
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


def test_rolling_by_time_without_timestamps_goes_by_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [FIRST]
    monkeypatch.setattr("kafkafmt.log.writing.writer.now_millis", lambda: clock[0])
    with LogDirectory(tmp_path, segment_ms=1000) as directory:
        writer = directory.writer("t")
        for _ in range(4):
            writer.append([(None, b"x")])
            clock[0] += 400
        assert writer.segments == [0, 3]


def test_segments_are_the_same_however_many_batches_come_at_a_time(tmp_path: Path) -> None:
    batches = [simple_batch([b"x" * (i * 37 % 200)] * (i % 4 + 1), base_timestamp=FIRST + 50 * i) for i in range(300)]
    settings = {"index_interval_bytes": 700, "segment_index_bytes": 96, "segment_bytes": 9000, "segment_ms": 3000}
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
    far = [simple_batch([b"a"], base_offset=o) for o in (0, 2**31 - 1, 2**31, 2**33)]
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        writer.append_batches(b"".join(far), assign_offsets=False)
        assert writer.segments == [0, 2**31, 2**33]
    assert complaints(tmp_path) == []


@pytest.mark.parametrize("offset", [0, 1, 19, 20, 55, 60, 61, 99])
def test_truncating(tmp_path: Path, offset: int) -> None:
    """A batch goes whole; what was known of producers and epochs goes back with it."""
    with LogDirectory(tmp_path, segment_bytes=1500, index_interval_bytes=200) as directory:
        writer = directory.writer("t")
        for i in range(20):
            writer.append(some(5), producer_id=1, producer_epoch=0, base_sequence=5 * i)
        assert len(writer.segments) > 3
        assert writer.truncate_to(100) == 100
        assert writer.truncate_to(offset) == offset // 5 * 5
        assert complaints(tmp_path) == []
        assert offsets(tmp_path / "t-0") == list(range(offset // 5 * 5))
        writer.append(some(5), producer_id=1, producer_epoch=0, base_sequence=offset // 5 * 5)
    assert complaints(tmp_path) == []
    assert offsets(tmp_path) == list(range(offset // 5 * 5 + 5))


def test_truncating_below_the_first_segment_starts_an_empty_log(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=500) as directory:
        writer = directory.writer("t")
        for _ in range(10):
            writer.append(some(5))
        writer.delete_before(27)
        assert writer.truncate_to(11) == 11
        assert writer.segments == [11]
        assert writer.append(some(1)) == (11, 11)
    assert offsets(tmp_path) == [11]
    assert complaints(tmp_path) == []


def test_deleting_records(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=800) as directory:
        writer = directory.writer("t")
        for _ in range(10):
            writer.append(some(10))
        for start in (0, 25, 25, 93, 100):
            writer.delete_before(start)
            assert writer.log_start_offset == start
            assert offsets(tmp_path) == list(range(start, 100))
            assert writer.segments[0] <= start
            assert complaints(tmp_path) == []
        with pytest.raises(ValueError, match="the log ends at"):
            writer.delete_before(101)
    assert read_offset_checkpoint((tmp_path / "log-start-offset-checkpoint").read_text(), "") == {("t", 0): 100}
    with LogDirectory(tmp_path) as directory:
        assert directory.writer("t").log_start_offset == 100


def test_a_batch_larger_than_what_readers_take_is_not_cut_off(tmp_path: Path) -> None:
    """Nobody has asked for a limit here; after a crash it is as sound as any other."""
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
    """A broker would take one moved up as leave to delete what lies there."""
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


def test_open_transactions_are_ended(tmp_path: Path) -> None:
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
    assert complaints(tmp_path) == []


def test_retention_by_size_and_time(tmp_path: Path) -> None:
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
    assert complaints(tmp_path) == []
    with LogDirectory(tmp_path, retention_ms=1500) as directory:
        writer = directory.writer("t")
        assert writer.enforce_retention(FIRST + 7000) == []
        writer.enforce_retention(FIRST + 10_400)
        assert offsets(tmp_path)[0] == writer.segments[0] >= 80
        writer.enforce_retention(FIRST + 100_000)  # all of it: a new segment takes over
        assert (writer.segments, writer.next_offset, writer.log_start_offset) == ([100], 100, 100)
        assert writer.append(some(1)) == (100, 100)
        assert writer.enforce_retention(FIRST) == []
    assert complaints(tmp_path) == []


# ---------------------------------------------------------------- directories, locks, flushing


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    program = f"import kafkafmt; kafkafmt.LogDirectory({str(tmp_path)!r})"
    with LogDirectory(tmp_path) as directory:
        directory.writer("t")
        with pytest.raises(BlockingIOError):
            LogDirectory(tmp_path)
        with pytest.raises(ValueError, match="already has an open writer"):
            directory.writer("t")
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True
        )  # and the lock still holds
        assert "BlockingIOError" in done.stderr
    subprocess.run([sys.executable, "-c", program], check=True)
    LogDirectory(tmp_path).close()


NO_NAMES = [("", 0), ("a b", 0), ("..", 0), ("a/b", 0), ("é", 0), ("x" * 250, 0), ("t", -1), ("t", 2**31)]


@pytest.mark.parametrize(("topic", "partition"), NO_NAMES)
def test_names_that_no_topic_has(tmp_path: Path, topic: str, partition: int) -> None:
    with LogDirectory(tmp_path) as directory, pytest.raises(ValueError):
        directory.writer(topic, partition)


@pytest.mark.parametrize(
    "settings", [{"segment_bytes": 0}, {"segment_bytes": 2**31}, {"flush_messages": 0}, {"retention_ms": -2}]
)
def test_settings_that_cannot_be(tmp_path: Path, settings: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        LogDirectory(tmp_path, **settings)
    with pytest.raises(TypeError):
        LogDirectory(tmp_path, segment_size=1)


def test_a_clean_end_is_known_from_the_next_start(tmp_path: Path) -> None:
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
    marker.unlink()  # as after a crash
    with LogDirectory(tmp_path) as directory:
        directory.writer("a")
    assert not marker.exists(), "b was never looked at"
    with LogDirectory(tmp_path) as directory:
        directory.writer("a")
        directory.writer("b")
    assert marker.exists()


def test_closed_is_closed(tmp_path: Path) -> None:
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
    again = directory.writer("t")
    again.append(some(2))
    directory.close()
    directory.close()
    assert again.closed
    with pytest.raises(ValueError, match="is closed"):
        directory.writer("t")
    assert offsets(tmp_path) == [0, 1]


def test_the_topics_id(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        directory.writer("t", topic_id="8-l9S5ZsQ9WDZC2owgiTAA").close()
        assert (tmp_path / "t-0" / "partition.metadata").read_text() == "version: 0\ntopic_id: 8-l9S5ZsQ9WDZC2owgiTAA"
        with pytest.raises(ValueError, match="has topic id"):
            directory.writer("t", topic_id="AAAAAAAAQ9WDZC2owgiTAA")
        with pytest.raises(kafkafmt.StructureError):
            directory.writer("u", topic_id="short")


def test_when_it_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    clock = [FIRST]
    monkeypatch.setattr("kafkafmt.log.writing.writer._ticks", lambda: clock[0])
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


def test_producers_that_are_long_gone_are_forgotten(tmp_path: Path) -> None:
    with LogDirectory(tmp_path, retention_ms=-1) as directory:
        writer = directory.writer("t")
        writer.append(some(1), producer_id=1, producer_epoch=0, base_sequence=0)
        writer.append(some(1), producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
        writer.append(some(1, FIRST + 25 * 3600 * 1000), producer_id=3, producer_epoch=0, base_sequence=0)
        writer.enforce_retention(FIRST + 26 * 3600 * 1000)
    assert sorted(p.producer_id for p in read_snapshot((tmp_path / "t-0" / f"{3:020}.snapshot").read_bytes())) == [2, 3]


def test_concurrent_readers_see_complete_batches_in_order(tmp_path: Path) -> None:
    """A reader that opens the log again and again while it grows and rolls: each time a beginning of it, never a shorter one,
    and with nothing beside it that would be wrong."""
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
        while i < 400 or (len(set(seen)) < 4 and reader.is_alive()):  # the reader may be slow, or come late
            writer.append(some(5, FIRST + i, size=i % 90), codec=("none", "zstd")[i % 2])
            i += 1
        done.set()
        reader.join()
    assert wrong == []
    assert len(set(seen)) > 3

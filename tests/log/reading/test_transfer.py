"""Test sending of batches, the largest timestamp, and the end offsets of leader epochs."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path

import pytest
from building import simple_batch, split
from golden_cases import CASES, Case, case

import kafkafmt
from kafkafmt.errors import StructureError
from kafkafmt.log import discover

PARTS = [simple_batch([b"%d" % o * 30 for o in range(i * 5, i * 5 + 5)], base_offset=i * 5) for i in range(20)]


@pytest.fixture
def log(tmp_path: Path) -> kafkafmt.Partition:
    """Return a partition with twenty batches of five records in two segments. Only the second has an index."""
    with kafkafmt.LogDirectory(tmp_path, segment_bytes=sum(map(len, PARTS[:8])), index_interval_bytes=300) as directory:
        directory.writer("t").append_batches(b"".join(PARTS))
    (tmp_path / "t-0" / f"{0:020}.index").unlink()
    return kafkafmt.open(tmp_path)["t", 0]


def sent(log: kafkafmt.Partition, out: Path, *args: object, **options: object) -> tuple[bytes, int]:
    with out.open("wb") as file:
        done = log.send(file, *args, **options)  # type: ignore[arg-type]
    data = out.read_bytes()
    assert done.bytes == len(data)
    return data, done.next_offset


@pytest.mark.parametrize("start", [None, 0, 3, 5, 38, 39, 40, 62, 99])
def test_send_starts_with_the_batch_that_contains_the_offset(
    log: kafkafmt.Partition, tmp_path: Path, start: int | None
) -> None:
    assert sent(log, tmp_path / "out", start) == (b"".join(PARTS[(start or 0) // 5 :]), 100)


def test_send_from_the_end_sends_nothing(log: kafkafmt.Partition, tmp_path: Path) -> None:
    assert sent(log, tmp_path / "out", 100) == (b"", 100)
    assert sent(log, tmp_path / "out", 10**9) == (b"", 10**9)


@pytest.mark.parametrize("start", [0, 17, 40])
@pytest.mark.parametrize("limit", [1, 500, 1000, 1001, 3000, 10**6])
def test_send_stops_at_the_limit(log: kafkafmt.Partition, tmp_path: Path, start: int, limit: int) -> None:
    """Only complete batches are sent, but at least one.

    With `whole_batches=False`, the data ends at the limit, as in a fetch response.
    """
    rest = PARTS[start // 5 :]
    n = max(1, max(k for k in range(len(rest) + 1) if sum(map(len, rest[:k])) <= limit))
    assert sent(log, tmp_path / "out", start, limit) == (b"".join(rest[:n]), (start // 5 + n) * 5)
    cut, following = sent(log, tmp_path / "out", start, limit, whole_batches=False)
    assert following == (start // 5 + n) * 5
    assert cut == b"".join(rest)[: max(limit, len(rest[0]))]


def test_repeated_sends_deliver_everything(log: kafkafmt.Partition, tmp_path: Path) -> None:
    at, parts = 0, []
    while at < 100:
        data, at = sent(log, tmp_path / "out", at, 700)
        parts.append(data)
    assert b"".join(parts) == b"".join(PARTS)


def test_send_writes_to_sockets_pipes_and_appended_files(log: kafkafmt.Partition, tmp_path: Path) -> None:
    whole = b"".join(PARTS)
    ours, theirs = socket.socketpair()

    def send_to_socket() -> None:
        log.send(ours)
        ours.shutdown(socket.SHUT_WR)

    with ours, theirs:
        thread = threading.Thread(target=send_to_socket)
        thread.start()
        got = b"".join(iter(lambda: theirs.recv(1000), b""))
        thread.join()
    assert got == whole
    reading, writing = os.pipe()

    def send_to_pipe() -> None:
        log.send(writing)
        os.close(writing)

    thread = threading.Thread(target=send_to_pipe)
    thread.start()
    with open(reading, "rb") as pipe:
        assert pipe.read() == whole
    thread.join()
    with (tmp_path / "out").open("ab") as file:
        file.write(b"before")
        file.flush()
        log.send(file)
    assert (tmp_path / "out").read_bytes() == b"before" + whole


def test_unfinished_tail_is_not_sent(log: kafkafmt.Partition, tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    for tail in (PARTS[0][:70], bytes(500), b"\xff" * 100):
        copy = shutil.copytree(folder, tmp_path / "copy" / "t-0")
        with max(copy.glob("*.log")).open("ab") as file:
            file.write(tail)
        assert sent(kafkafmt.open(copy)["t", 0], tmp_path / "out") == (b"".join(PARTS), 100)
        with min(copy.glob("*.log")).open("ab") as file:
            file.write(bytes(500))
        with pytest.raises(StructureError):
            sent(kafkafmt.open(copy)["t", 0], tmp_path / "out")
        shutil.rmtree(copy)


@pytest.mark.parametrize("name", ["codecs", "compacted", "transactions"])
def test_golden_segments_are_sent_byte_for_byte(name: str, tmp_path: Path) -> None:
    for directory in discover(case(f"kafka-4.3.1/{name}").roots).partitions:
        log = kafkafmt.open(directory.path)[directory.topic, directory.partition]
        whole = b"".join(s.path.read_bytes() for s in directory.segments)
        data, following = sent(log, tmp_path / "out")
        assert data == whole[len(whole) - len(data) :]
        assert all(batch in whole for batch in split(data))
        assert following == log.next_offset


def test_negative_start_counts_from_the_end(log: kafkafmt.Partition, tmp_path: Path) -> None:
    """A negative start counts back from the end. The batch that contains this offset is sent completely."""
    assert sent(log, tmp_path / "out", -7) == sent(log, tmp_path / "out", 93) == (b"".join(PARTS[18:]), 100)


@pytest.mark.parametrize("golden", [c for c in CASES if not c.torn and c.name not in ("jbod", "tiered")], ids=str)
def test_largest_timestamp_equals_the_admin_clients(golden: Case) -> None:
    """Kafka's Admin client returned the expected values."""
    for (topic, partition), answer in golden.offsets().items():
        theirs = answer.get("maxTimestamp")
        folder = golden.roots[0] / f"{topic}-{partition}"
        if theirs is None or topic.startswith("__") or not folder.exists():
            continue
        found = kafkafmt.open(folder)[topic, partition].max_timestamp
        if golden.name in ("compacted", "delete-records") and (found is None or theirs["offset"] < 0):
            continue  # removed or hidden records
        assert found == (None if theirs["offset"] < 0 else (theirs["offset"], theirs["timestamp"])), (topic, partition)


def test_leader_epochs_end_where_the_next_one_starts(tmp_path: Path) -> None:
    # Epochs 0, 2, 4, 6 and 8 start at 0, 24, 48, 72 and 96; the log ends at 120.
    source = case("kafka-4.3.1/epochs").partition_dir("epochs", 0)
    copy = shutil.copytree(source, tmp_path / "epochs-0")
    answers = {-1: None, 0: (0, 24), 1: (0, 24), 5: (4, 72), 8: (8, 120), 9: None}
    for _ in range(2):
        log = kafkafmt.open(copy)["epochs", 0]
        assert {epoch: log.end_offset_for_epoch(epoch) for epoch in answers} == answers
        (copy / "leader-epoch-checkpoint").write_text("nonsense")

"""Follow partition directories while segments are created and deleted, even between two system calls of the server."""

from __future__ import annotations

import os
import shutil
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from building import simple_batch
from serving import Client, fetch_request

import kafkafmt
from kafkafmt import protocol
from kafkafmt.protocol import ErrorCode
from kafkafmt.server.served_partition import ServedPartition
from kafkafmt.server.tail import TICK, Tail

Start = Callable[..., kafkafmt.server.Server]
pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")


def write(folder: Path, base: int, count: int, first: int | None = None) -> None:
    """Append `count` batches of one record to the segment with the base offset `base`."""
    folder.mkdir(exist_ok=True)
    first = base if first is None else first
    with (folder / f"{base:020}.log").open("ab") as file:
        for offset in range(first, first + count):
            file.write(simple_batch([b"%d" % offset], offset))


@pytest.fixture(autouse=True)
def always_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.server.growing_partition.CHECK_INTERVAL", 0.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "t-0", 0, 3)
    return tmp_path / "t-0"


@pytest.fixture
def served(folder: Path) -> ServedPartition:
    found = kafkafmt.serve(folder.parent).catalog.partition("t", 0)
    assert found is not None
    assert found.high_watermark() == 3
    return found


def test_log_is_followed_after_all_known_segments_were_deleted(folder: Path, served: ServedPartition) -> None:
    write(folder, 0, 2, first=3)
    write(folder, 5, 4)
    write(folder, 9, 1)
    for base in (0, 5):
        (folder / f"{base:020}.log").unlink()
    assert (served.first_offset(), served.high_watermark()) == (9, 10)
    write(folder, 9, 1, first=10)
    assert served.high_watermark() == 11


def test_transaction_whose_end_was_never_read_does_not_stay_open(folder: Path, served: ServedPartition) -> None:
    options: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    with (folder / f"{0:020}.log").open("ab") as file:
        file.write(kafkafmt.build_batch([(None, b"v")], base_offset=3, **options))
    assert served.last_stable_offset() == 3
    with (folder / f"{0:020}.log").open("ab") as file:
        file.write(kafkafmt.records.build_marker(7, 0, commit=True, base_offset=4))
    write(folder, 5, 1)
    (folder / f"{0:020}.log").unlink()
    assert (served.last_stable_offset(), served.high_watermark()) == (6, 6)


def test_new_segment_is_noticed_if_the_modification_time_is_unchanged(folder: Path, served: ServedPartition) -> None:
    moment = time.time_ns()
    os.utime(folder, ns=(moment, moment))
    assert served.high_watermark() == 3
    write(folder, 3, 2)
    os.utime(folder, ns=(moment, moment))
    time.sleep(2 * TICK / 10**9)
    assert served.high_watermark() == 5
    assert served.seems_unchanged()


def test_segment_created_before_the_cache_is_discarded_is_noticed(folder: Path, served: ServedPartition) -> None:
    fetched = served.fetch(0, 3, 1 << 20, True)
    assert fetched is not None
    write(folder, 3, 2)
    served.forget(fetched.spans[0])
    assert served.high_watermark() == 5


@pytest.mark.parametrize("step", ["__init__", "read"])
def test_deletion_of_a_segment_during_a_check_is_noticed(
    folder: Path, served: ServedPartition, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write(folder, 3, 2)
    write(folder, 5, 2)
    original: Callable[..., None] = getattr(Tail, step)
    moment = time.time_ns() - 10**9
    os.utime(folder, ns=(moment, moment))

    def delete_first(*args: Any) -> None:
        monkeypatch.setattr(Tail, step, original)
        (folder / f"{5:020}.log").unlink()
        write(folder, 5, 3)
        os.utime(folder, ns=(moment, moment))
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Tail, step, delete_first)
    if step == "__init__":
        (folder / f"{0:020}.log").unlink()
        os.utime(folder, ns=(moment, moment + 1))
    served.check()
    assert served.high_watermark() == 8


@pytest.mark.parametrize("records", [[b"other"] * 4, [b"a much longer text than before"] * 3])
def test_log_that_was_truncated_and_grew_again_is_noticed(
    folder: Path, served: ServedPartition, records: list[bytes]
) -> None:
    path = folder / f"{0:020}.log"
    assert served.fetch(0, 3, 1 << 20, True) is not None
    start = len(simple_batch([b"0"], 0))
    with path.open("r+b") as file:
        file.truncate(start)
        file.seek(start)
        for offset, value in enumerate(records, 1):
            file.write(simple_batch([value], offset))
    end = served.high_watermark()
    assert end == len(records) + 1
    fetched = served.fetch(0, end, 1 << 20, True)
    assert fetched is not None
    assert fetched.size == path.stat().st_size


def test_growth_of_a_preallocated_segment_is_noticed(folder: Path) -> None:
    path = folder / f"{0:020}.log"
    size = path.stat().st_size
    os.truncate(path, 1 << 20)
    os.utime(folder, ns=(1, 1))
    served = kafkafmt.serve(folder.parent).catalog.partition("t", 0)
    assert served is not None
    for offset in range(3, 8):
        assert served.high_watermark() == offset
        with path.open("r+b") as file:
            file.seek(size)
            size += file.write(simple_batch([b"%d" % offset], offset))
    assert served.high_watermark() == 8
    time.sleep(2 * TICK / 10**9)
    assert served.high_watermark() == 8
    assert served.seems_unchanged()


def test_plan_of_a_segment_that_grew_is_not_used(folder: Path, served: ServedPartition) -> None:
    """The plan is created while the segment is the last one. The segment is complete when the plan is used."""
    assert served.find_timestamp(2**62) is None
    assert served.log.planned == 1
    write(folder, 0, 2, first=3)
    write(folder, 5, 1)
    assert served.high_watermark() == 6
    served._resources.batches.drop(served._lists)
    fetched = served.fetch(0, 6, 1 << 20, True)
    assert fetched is not None
    assert fetched.size == sum(path.stat().st_size for path in folder.glob("*.log"))


def create_topic(root: Path, count: int) -> UUID:
    """Create a topic with one partition and `count` records. Return its topic id."""
    topic_id = uuid4()
    write(root / "t-0", 0, count)
    text = urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    (root / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}\n")
    return topic_id


def remove_topic_files(root: Path) -> None:
    """Empty the partition directory, as if a new directory had got the inode of the deleted one."""
    for path in (root / "t-0").iterdir():
        path.unlink()
    os.utime(root)


@pytest.mark.parametrize("deleted", ["renamed", "removed"])
def test_topic_that_was_created_again_has_another_id(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: str
) -> None:
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    old = create_topic(tmp_path, 3)
    with Client(started(tmp_path).port) as client:
        (found,) = client.ask(protocol.MetadataRequest(topics=None), 12).topics
        assert found.topic_id == old
        assert client.fetch(old, 0, 2, 13).high_watermark == 3
        (tmp_path / "t-0").rename(tmp_path / f"t-0.{'0' * 32}-delete")
        for _ in range(2):
            assert client.fetch(old, 0, 2, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
            assert client.fetch("t", 0, 2).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert client.offset("t", 0, -1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if deleted == "removed":
            shutil.rmtree(tmp_path / f"t-0.{'0' * 32}-delete")
        new = create_topic(tmp_path, 5)
        for timestamp in (-1, -2, -3, 0):
            assert client.offset("t", 0, timestamp).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert client.fetch(old, 0, 2, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        (found,) = client.ask(protocol.MetadataRequest(topics=None), 12).topics
        assert found.topic_id == new
        assert client.fetch(old, 0, 2, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert client.fetch(new, 0, 2, 13).high_watermark == 5


@pytest.mark.parametrize("same_inode", [False, True])
@pytest.mark.parametrize("request_first", ["fetch", "offset", "metadata"])
def test_topic_that_is_replaced_at_once_has_another_id(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_first: str, same_inode: bool
) -> None:
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    old = create_topic(tmp_path, 3)
    with Client(started(tmp_path).port) as client:
        client.ask(protocol.MetadataRequest(topics=None), 12)
        assert client.fetch(old, 0, 2, 13).high_watermark == 3
        if same_inode:  # a file system can use the inode of a deleted directory again
            remove_topic_files(tmp_path)
        else:
            (tmp_path / "t-0").rename(tmp_path / f"t-0.{'0' * 32}-delete")
        new = create_topic(tmp_path, 5)
        if request_first == "fetch":
            assert client.fetch(old, 0, 2, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        elif request_first == "offset":
            assert client.offset("t", 0, -1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (found,) = client.ask(protocol.MetadataRequest(topics=None), 12).topics
        assert found.topic_id == new
        assert client.fetch(old, 0, 2, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert client.fetch(new, 0, 4, 13).high_watermark == 5


def test_log_is_served_if_its_metadata_file_cannot_be_accessed(folder: Path) -> None:
    os.symlink("partition.metadata", folder / "partition.metadata")
    served = kafkafmt.serve(folder.parent).catalog.partition("t", 0)
    assert served is not None
    assert served.high_watermark() == 3
    write(folder, 3, 2)
    assert (served.high_watermark(), served.is_replaced()) == (5, False)


def test_topic_replaced_before_its_log_is_read_has_another_id(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new directory has the inode of the old one, and no client has read the old log."""
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    old = create_topic(tmp_path, 3)
    with Client(started(tmp_path).port) as client:
        (found,) = client.ask(protocol.MetadataRequest(topics=None), 12).topics
        assert found.topic_id == old
        remove_topic_files(tmp_path)
        new = create_topic(tmp_path, 5)
        (found,) = client.ask(protocol.MetadataRequest(topics=None), 12).topics
        assert found.topic_id == new
        assert client.fetch(old, 0, 2, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert client.fetch(new, 0, 4, 13).high_watermark == 5


def test_long_poll_ends_if_the_topic_is_deleted(started: Start, tmp_path: Path) -> None:
    topic_id = create_topic(tmp_path, 3)
    with Client(started(tmp_path).port) as client:
        client.ask(protocol.MetadataRequest(topics=None), 12)
        client.send(fetch_request({(topic_id, 0): 3}, 13, max_wait_ms=60_000), 13)
        time.sleep(0.3)
        (tmp_path / "t-0").rename(tmp_path / f"t-0.{'0' * 32}-delete")
        (found,) = client.receive(1, 13).responses
        assert found.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_replica_that_becomes_the_longest_is_served_without_metadata_requests(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkafmt.server.service.CLEANING_INTERVAL", 0.05)
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    monkeypatch.setattr("kafkafmt.server.catalog.FULL_RESCAN", 0.0)
    for name, count in (("a", 5), ("b", 3)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "t-0", 0, count)
    with Client(started([tmp_path / "a", tmp_path / "b"], replicas="longest").port) as client:
        assert client.fetch("t", 0, 5).high_watermark == 5
        write(tmp_path / "b" / "t-0", 0, 4, first=3)
        deadline = time.monotonic() + 10
        while client.fetch("t", 0, 5).high_watermark < 7 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [record.value for record in client.read_all("t", 0)] == [b"%d" % offset for offset in range(7)]

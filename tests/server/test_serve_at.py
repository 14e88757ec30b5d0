"""Check that a log served with the option `at` equals a log that ends there."""

from __future__ import annotations

import cProfile
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from golden_cases import BY_NAME, GOLDEN
from serving import Client

import kafkafmt
from kafkafmt import protocol
from kafkafmt.log.formats.checkpoints import read_leader_epochs

Start = Callable[..., kafkafmt.server.Server]
pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
INTERNAL = GOLDEN / "kafka-4.3.1" / "internal" / "log"
EPOCHS = "leader-epoch-checkpoint"


def ends_of(partition: Path) -> list[int]:
    """Return the base offsets of all batches, and the offset after the last batch."""
    batches = [b for path in sorted(partition.glob("*.log")) for b in kafkafmt.iter_batches(path.read_bytes())]
    return [*(b.base_offset for b in batches), batches[-1].last_offset + 1]


def truncated(partition: Path, target: Path, end: int) -> None:
    """Copy a partition directory without the batches at or after the offset `end`."""
    copied = shutil.copytree(partition, target / partition.name)
    for path in copied.glob("*.*"):
        base = int(path.stem) if path.stem.isdigit() else 0
        if base > end or (base == end and base and path.suffix == ".log") or path.suffix.endswith("index"):
            path.unlink()
        elif path.suffix == ".log":
            data = path.read_bytes()
            keep = [b for b in kafkafmt.iter_batches(data) if b.base_offset < end]
            path.write_bytes(data[: keep[-1].position + keep[-1].size] if keep else b"")
    checkpoint = copied / EPOCHS
    if checkpoint.exists():
        epochs = read_leader_epochs(checkpoint.read_text())
        kept = [e for e in epochs if e[1] < end] or epochs[:1]
        lines = ["0", str(len(kept)), *(f"{epoch} {first}" for epoch, first in kept)]
        checkpoint.write_text("\n".join(lines) + "\n")


def answers(
    server: kafkafmt.server.Server, topic: str, number: int, chance: Random, times: list[int]
) -> dict[str, Any]:
    """Return the responses to all requests for the state of a partition."""
    found: dict[str, Any] = {}
    with Client(server.port) as client:
        for isolation in (0, 1):
            for time in (-1, -2, -3, -4, *times):
                answer = client.offset(topic, number, time, 8, isolation)
                found[f"offset for {time} at level {isolation}"] = answer.offset, answer.timestamp, answer.leader_epoch
        for epoch in range(-1, 12):
            make = protocol.OffsetForLeaderEpochRequest
            wanted = make.OffsetForLeaderPartition(partition=number, leader_epoch=epoch)
            body = make(topics=[make.OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
            (answer,) = client.ask(body, 4).topics[0].partitions
            found[f"end of epoch {epoch}"] = answer.error_code, answer.leader_epoch, answer.end_offset
        producers = protocol.DescribeProducersRequest
        request = producers(topics=[producers.TopicRequest(name=topic, partition_indexes=[number])])
        (described,) = client.ask(request, 0).topics[0].partitions
        found["producers"] = described.error_code, [repr(p) for p in described.active_producers]
        (metadata,) = client.ask(protocol.MetadataRequest(topics=None), 12).topics
        found["latest epoch"] = [p.leader_epoch for p in metadata.partitions if p.partition_index == number]
    return found


@pytest.mark.parametrize("case", ["kafka-4.3.1/epochs", "kafka-4.3.1/transactions", "kafka-4.3.1/idempotent"])
def test_state_at_an_offset_equals_a_log_that_ends_there(started: Start, tmp_path: Path, case: str) -> None:
    chance = Random(3)
    log = kafkafmt.open([str(root) for root in BY_NAME[case].roots])
    for partition in log.partitions:
        folder = Path(partition.log.directory.path)
        ends = ends_of(folder)
        times = chance.sample(sorted({r.timestamp for r in partition}), 3)
        for end in chance.sample(ends, 4) + ends[-1:]:
            target = tmp_path / f"{folder.name}-{end}-{chance.random()}"
            truncated(folder, target, end)
            name, number = partition.topic, partition.partition
            expected = answers(started(target), name, number, chance, times)
            assert answers(started(folder, at=end), name, number, chance, times) == expected, (folder, end)


def committed(server: kafkafmt.server.Server, group: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the committed offset and the leader epoch of each partition."""
    make = protocol.OffsetFetchRequest
    body = make(groups=[make.OffsetFetchRequestGroup(group_id=group, topics=None)])
    with Client(server.port) as client:
        (found,) = client.ask(body, 8).groups
    assert not found.error_code
    return {
        (topic.name, p.partition_index): (p.committed_offset, p.committed_leader_epoch)
        for topic in found.topics
        for p in topic.partitions
    }


def test_groups_have_the_offsets_that_they_had_at_the_time(started: Start) -> None:
    log = kafkafmt.open(INTERNAL)
    times = sorted({o.commit_timestamp for o in log.groups().offsets})
    seen = 0
    for time in (times[0], times[len(times) // 2], times[-1], times[-1] + 1):
        before = log.groups(at_time=time - 1)
        server = started(INTERNAL, at_time=time)
        with Client(server.port) as client:
            ends = {("source", number): client.offset("source", number, -1).offset for number in range(3)}
        for group in {o.group for o in [*before.offsets, *log.groups().offsets]}:
            expected = {
                (o.topic, o.partition): min(o.offset, ends[o.topic, o.partition])
                for o in before.offsets
                if o.group == group
            }
            assert {key: offset for key, (offset, _) in committed(server, group).items()} == expected
            seen += len(expected)
    assert seen > 20


@pytest.mark.parametrize("at", [0, 7, 20, 10_000, -1])
def test_committed_offsets_are_not_after_the_selected_end(started: Start, at: int) -> None:
    log = kafkafmt.open(INTERNAL)
    server = started(INTERNAL, at=at)
    with Client(server.port) as client:
        ends = {("source", number): client.offset("source", number, -1).offset for number in range(3)}
    found = committed(server, "classic-static")
    assert found.keys() == ends.keys()
    for o in log.groups().offsets:
        if o.group == "classic-static":
            end = ends[o.topic, o.partition]
            epoch = -1 if o.offset > end or o.leader_epoch is None else o.leader_epoch
            assert found[o.topic, o.partition] == (min(o.offset, end), epoch)


def test_transactions_have_the_state_that_they_had_at_the_time(started: Start) -> None:
    make = protocol.ListTransactionsRequest
    with Client(started(INTERNAL, at_time=1).port) as client:
        assert client.ask(make(), 1).transaction_states == []
    with Client(started(INTERNAL).port) as client:
        assert client.ask(make(), 1).transaction_states


@pytest.mark.parametrize("options", [{"at": -2}, {"at_time": 2**62}])
def test_end_of_log_is_found_without_a_plan_of_the_segment(tmp_path: Path, options: dict[str, Any]) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    batches = [kafkafmt.build_batch([(None, b"v", i)], base_offset=i) for i in range(10)]
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    (folder / f"{0:020}.timeindex").write_bytes(struct.pack(">qi", 9, 9))
    served = kafkafmt.serve(tmp_path, **options).catalog.partition("t", 0)
    assert served is not None
    assert served.high_watermark() == (8 if "at" in options else 10)
    assert served.log.planned == 0


@pytest.mark.parametrize("options", [{"at": 3}, {"at": -2}, {"at_time": 5}])
def test_plans_are_discarded_after_the_end_of_the_log_is_found(tmp_path: Path, options: dict[str, Any]) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 5, 10):
        batches = [kafkafmt.build_batch([(None, b"v", i)], base_offset=i) for i in range(base, min(base + 5, 10))]
        (folder / f"{base:020}.log").write_bytes(b"".join(batches) + bytes(1000))
    served = kafkafmt.serve(tmp_path, **options).catalog.partition("t", 0)
    assert served is not None
    end = served.high_watermark()
    assert served.log.planned == 0
    found = served.find_timestamp(end - 1)
    assert found is not None
    assert found.offset == end - 1


@pytest.mark.parametrize(
    ("options", "epoch"), [({"at": 450}, 1), ({"at": 400}, 0), ({"at": -1}, 2), ({"at": -600}, 0), ({"at_time": 1}, 2)]
)
def test_leader_epochs_of_sparse_partitions_need_few_calls(tmp_path: Path, options: dict[str, Any], epoch: int) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / EPOCHS).write_text("0\n4\n0 0\n1 400\n2 600\n3 1000\n")
    for base in (0, 500, 1000):
        for suffix in ("log", "index", "timeindex"):
            (folder / f"{base:020}.{suffix}").touch()
            os.truncate(folder / f"{base:020}.{suffix}", 10 << 20)
    served = kafkafmt.serve(tmp_path, **options).catalog.partition("t", 0)
    assert served is not None
    # A Metadata response contains the leader epoch of each partition, so the work per partition must be small.
    profile = cProfile.Profile()
    assert profile.runcall(served.leader_epoch) == epoch
    # The number of calls inside the standard library depends on the version of Python.
    ours = [e for e in profile.getstats() if not isinstance(e.code, str) and "kafkafmt" in e.code.co_filename]
    assert 0 < sum(entry.callcount for entry in ours) < 350
    assert sum(entry.callcount for entry in profile.getstats()) < 1100


@pytest.mark.parametrize(("options", "end"), [({}, 9), ({"at": -2}, 7)])
def test_corrupted_base_offset_does_not_move_the_end(tmp_path: Path, options: dict[str, Any], end: int) -> None:
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    batches = [kafkafmt.build_batch([(None, b"v", i)], base_offset=i) for i in range(10)]
    batches[9] = (2**36 + 9).to_bytes(8, "big") + batches[9][8:]  # the CRC does not cover this field
    path.write_bytes(b"".join(batches))
    served = kafkafmt.serve(tmp_path, **options).catalog.partition("t", 0)
    assert served is not None
    assert served.high_watermark() == end

"""Compare consumer groups in `__consumer_offsets` with the output of Kafka's own tool."""

from __future__ import annotations

import json
import pickle
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from building import ABORT, COMMIT, TRANSACTIONAL, batch, control_batch, repair_crc, simple_batch
from golden_cases import GOLDEN, decoded

import kafkafmt
from kafkafmt.log import discover
from kafkafmt.log.groups.group_choice import choose_from_group
from kafkafmt.log.groups.groups import Group, Member
from kafkafmt.log.reading.record_selection import Selection


def last_commits(version: str) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return the committed offsets in the output of kafka-dump-log, which are the last values of their keys."""
    latest: dict[tuple[str, str, int], dict[str, Any]] = {}
    for lines in decoded(version, "consumer-offsets").values():
        committed: list[tuple[int, dict[str, Any], str]] = []
        pending: dict[str, list[tuple[int, dict[str, Any], str]]] = {}
        for line in lines:
            if head := re.match(r"baseOffset: .* producerId: (\S+) .* isTransactional: (\w+)", line):
                target = pending.setdefault(head[1], []) if head[2] == "true" else committed
            elif mark := re.search(r"endTxnMarker: (\w+)", line):
                committed += target if mark[1] == "COMMIT" else []
                target.clear()
            elif record := re.search(r'offset: (\d+) .* key: (\{"type":"1",.*\}) payload: (.*)', line):
                target.append((int(record[1]), json.loads(record[2])["data"], record[3]))
        for _, key, value in sorted(committed, key=lambda c: c[0]):
            at = key["group"], key["topic"], key["partition"]
            latest.pop(at, None)
            if value != "<DELETE>":
                latest[at] = json.loads(value)["data"]
    return latest


@pytest.mark.parametrize("version", ["kafka-4.3.1", "kafka-3.9.2"])
def test_offsets_equal_those_that_kafkas_tool_decodes(version: str) -> None:
    expected = last_commits(version)
    found = kafkafmt.open(GOLDEN / version / "internal" / "log").groups()
    assert len(expected) > 2
    assert {(c.group, c.topic, c.partition): (c.offset, c.metadata, c.commit_timestamp) for c in found.offsets} == {
        at: (v["offset"], v["metadata"], v["commitTimestamp"]) for at, v in expected.items()
    }
    epochs = {at: None if v["leaderEpoch"] < 0 else v["leaderEpoch"] for at, v in expected.items()}
    assert {c[:3]: c.leader_epoch for c in found.offsets} == epochs
    assert found.unreadable == 0


@pytest.mark.parametrize(
    ("version", "expires"), [("0.9.0.1", True), ("0.10.2.2", True), ("1.1.1", True), ("2.8.2", False)]
)
def test_commits_of_old_brokers_have_metadata_and_expiry(version: str, expires: bool) -> None:
    """The logs contain values of versions 1 and 3, in formats 0, 1 and 2. Version 1 expires after one day."""
    found = kafkafmt.open(GOLDEN / "legacy" / f"{version}-groups" / "log").groups()
    assert {c.group for c in found.offsets} == {"group-a"}
    for c in found.offsets:
        assert c.metadata == f"after {c.offset - 1}"
        assert c.expire_timestamp == (c.commit_timestamp + 86_400_000 if expires else None)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def commit_key(group: str, partition: int, version: int = 1) -> bytes:
    return struct.pack(">h", version) + text(group) + text("t") + struct.pack(">i", partition)


def commit(offset: int, version: int = 1, metadata: str = "") -> bytes:
    """Return the value of a committed offset in version 0, 1 or 2."""
    times = struct.pack(">qq", 1000, 2000)
    return struct.pack(">hq", version, offset) + text(metadata) + (times if version == 1 else times[:8])


def log_of(tmp_path: Path, *batches: bytes) -> Path:
    path = tmp_path / "__consumer_offsets-0"
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{0:020}.log").write_bytes(b"".join(batches))
    return tmp_path


def record_batch(offset: int, key: bytes, value: bytes | None, producer: int = -1) -> bytes:
    flags = TRANSACTIONAL if producer >= 0 else 0
    return batch(
        [(0, 0, key, value, ())],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        flags=flags,
    )


def offsets(path: Path) -> list[tuple[str, int, int]]:
    return [(c.group, c.partition, c.offset) for c in kafkafmt.open(path).groups().offsets]


def test_transactional_offsets_count_after_the_commit(tmp_path: Path) -> None:
    path = log_of(
        tmp_path,
        # The commit without a transaction replaces this one.
        record_batch(0, commit_key("g", 0), commit(10), producer=1),
        record_batch(1, commit_key("g", 0), commit(11)),
        record_batch(2, commit_key("g", 1), commit(20), producer=2),  # aborted
        record_batch(3, commit_key("g", 2), commit(30), producer=3),  # open
        control_batch(COMMIT, base_offset=4, producer_id=1, producer_epoch=0),
        control_batch(ABORT, base_offset=5, producer_id=2, producer_epoch=0),
        record_batch(6, commit_key("g", 3), commit(40)),  # after the last stable offset
        record_batch(7, commit_key("g", 4), commit(50), producer=1),
        control_batch(COMMIT, base_offset=8, producer_id=1, producer_epoch=0),
    )
    assert offsets(path) == [("g", 0, 11), ("g", 3, 40), ("g", 4, 50)]


def test_keys_of_all_versions_name_the_same_offset(tmp_path: Path) -> None:
    path = log_of(
        tmp_path,
        record_batch(0, commit_key("g", 0, 0), commit(1, 0)),
        record_batch(1, commit_key("g", 0, 1), commit(2, 2)),
        record_batch(2, commit_key("g", 1, 1), commit(3, 1)),
        record_batch(3, commit_key("g", 1, 0), None),
    )
    assert offsets(path) == [("g", 0, 2)]


def test_undecodable_entries_are_counted_and_unknown_types_skipped(tmp_path: Path) -> None:
    path = log_of(
        tmp_path,
        record_batch(0, commit_key("g", 0), commit(1)[:-1]),
        record_batch(1, commit_key("g", 1), commit(1, 99)),
        record_batch(2, struct.pack(">h", 900) + text("g"), b"?"),
        record_batch(3, commit_key("g", 2), commit(5, metadata="métadonnées")),
    )
    found = kafkafmt.open(path).groups()
    assert found.unreadable == 2
    assert [(c.partition, c.metadata) for c in found.offsets] == [(2, "métadonnées")]


def test_members_of_a_classic_group_are_decoded(tmp_path: Path) -> None:
    subscription = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">i", -1)
    member = text("m-1") + text("static-1") + text("client") + text("/10.0.0.1") + struct.pack(">ii", 300, 45)
    member += struct.pack(">i", len(subscription)) + subscription + struct.pack(">i", 0)
    group = (
        struct.pack(">h", 3)
        + text("consumer")
        + struct.pack(">i", 7)
        + text("range")
        + text("m-1")
        + struct.pack(">qi", 1000, 1)
    )
    path = log_of(tmp_path, record_batch(0, struct.pack(">h", 2) + text("g"), group + member))
    expected = Group(
        "g", "classic", 7, "consumer", "range", [Member("m-1", "static-1", "client", "/10.0.0.1", ["orders"])]
    )
    assert kafkafmt.open(path).groups().groups == [expected]


def test_damage_raises_or_is_reported(tmp_path: Path) -> None:
    corrupted_batch = bytearray(record_batch(1, commit_key("g", 0), commit(2)))
    corrupted_batch[70] ^= 1
    path = log_of(
        tmp_path,
        record_batch(0, commit_key("g", 0), commit(1)),
        bytes(corrupted_batch),
        record_batch(2, commit_key("h", 0), commit(3)),
    )
    with pytest.raises(kafkafmt.DamagedLogError):
        kafkafmt.open(path).groups()
    found = kafkafmt.open(path).groups(on_error="skip")
    assert [d.first_offset for d in found.damaged] == [1]
    assert [(c.group, c.offset) for c in found.offsets] == [("g", 1), ("h", 3)]
    with pytest.raises(OSError, match="no partition of __consumer_offsets"):
        kafkafmt.open(GOLDEN / "kafka-4.3.1" / "codecs" / "log").groups()


def test_groups_become_an_arrow_table(tmp_path: Path) -> None:
    import pyarrow as pa

    path = log_of(
        tmp_path, record_batch(0, commit_key("g", 0), commit(1, 1)), record_batch(1, commit_key("g", 1), commit(2, 2))
    )
    table = pa.table(kafkafmt.open(path).groups())
    rows = table.to_pylist()
    assert [(r["group"], r["topic"], r["partition"], r["offset"], r["leader_epoch"], r["metadata"]) for r in rows] == [
        ("g", "t", 0, 1, None, ""),
        ("g", "t", 1, 2, None, ""),
    ]
    assert [r["commit_timestamp"].timestamp() for r in rows] == [1.0, 1.0]
    assert rows[0]["expire_timestamp"].timestamp() == 2.0
    assert rows[1]["expire_timestamp"] is None
    assert (
        pa.table(kafkafmt.open(log_of(tmp_path, record_batch(0, b"\0\2" + text("g"), None))).groups()).schema
        == table.schema
    )


def choose_source_range(group: str, topic: str) -> tuple[list[str], list[str]]:
    """Return the partitions of `topic` that the group would read, and the messages."""
    found = discover([GOLDEN / "kafka-4.3.1" / "internal" / "log"])
    chosen = [d for d in found.partitions if d.topic == topic]
    messages: list[str] = []
    partitions, selection = choose_from_group(found, chosen, group, Selection(), None, messages.append)
    assert selection.start is not None
    assert selection.start.committed == {("source", p): 20 for p in range(3)}
    return [f"{d.topic}-{d.partition}" for d in partitions], messages


def test_choose_from_group_starts_at_the_committed_offsets() -> None:
    assert choose_source_range("classic-static", "source") == (["source-0", "source-1", "source-2"], [])


def test_choose_from_group_reports_which_topics_the_group_has() -> None:
    with pytest.raises(kafkafmt.GroupNotFoundError, match="for the selected topics, only for source") as raised:
        choose_source_range("classic-static", "sink")
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (copied.group, copied.topics) == ("classic-static", ("source",))
    assert "classic-static" in copied.known
    assert str(copied) == str(raised.value)


def test_choose_from_group_suggests_another_group() -> None:
    with pytest.raises(kafkafmt.GroupNotFoundError, match="the only group is classic-static") as raised:
        choose_source_range("clasic-static", "source")
    assert raised.value.topics == ()


def commit_at(offset: int, time: int, expiry: int | None = None) -> bytes:
    """Return the value of a committed offset with a commit time, in version 1 if it has an expiry time."""
    head = struct.pack(">hq", 2 if expiry is None else 1, offset) + text("")
    return head + struct.pack(">q", time) + (b"" if expiry is None else struct.pack(">q", expiry))


def stamped(offset: int, time: int, key: bytes, value: bytes | None, producer: int = -1) -> bytes:
    """Return a batch with one record of `__consumer_offsets` and its timestamp."""
    return batch(
        [(0, 0, key, value, ())],
        base_offset=offset,
        base_timestamp=time,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        flags=TRANSACTIONAL if producer >= 0 else 0,
    )


def marker(kind: int, offset: int, time: int, producer: int) -> bytes:
    """Return a transaction marker with a timestamp."""
    made = bytearray(control_batch(kind, base_offset=offset, producer_id=producer))
    struct.pack_into(">qq", made, 27, time, time)
    return repair_crc(made)


def at(path: Path, time: int) -> list[tuple[int, int]]:
    return [(c.partition, c.offset) for c in kafkafmt.open(path).groups(at_time=time).offsets]


def test_state_at_a_time_omits_later_transactions_and_expired_commits(tmp_path: Path) -> None:
    path = log_of(
        tmp_path,
        stamped(0, 100, commit_key("g", 0), commit_at(1, 100)),
        stamped(1, 200, commit_key("g", 0), commit_at(2, 200), producer=7),
        stamped(2, 210, commit_key("g", 1), commit_at(3, 210), producer=8),
        stamped(3, 220, commit_key("g", 2), commit_at(4, 220, expiry=400)),
        marker(COMMIT, 4, 300, 7),
        marker(ABORT, 5, 310, 8),
        stamped(6, 350, commit_key("g", 0), commit_at(5, 350), producer=7),
        marker(COMMIT, 7, 500, 7),
        stamped(8, 600, commit_key("g", 0), None),
    )
    assert at(path, 99) == []
    assert at(path, 250) == [(0, 1), (2, 4)]
    assert at(path, 300) == [(0, 2), (2, 4)]
    assert at(path, 399) == [(0, 2), (2, 4)]
    assert at(path, 400) == [(0, 2)]
    assert at(path, 500) == [(0, 5)]
    assert at(path, 600) == []
    assert [(c.partition, c.offset) for c in kafkafmt.open(path).groups().offsets] == [(2, 4)]


def test_commits_that_compaction_may_have_removed_are_reported(tmp_path: Path) -> None:
    path = log_of(
        tmp_path,
        stamped(0, 100, commit_key("g", 0), commit_at(1, 100)),
        stamped(5, 900, commit_key("g", 1), commit_at(2, 900)),
    )
    log = kafkafmt.open(path)
    assert [(c.partition, c.offset) for c in log.groups(at_time=500).offsets] == [(0, 1)]
    assert log.messages == [
        "__consumer_offsets-0 was compacted: 1 key may have had a value at the requested time, but only later records remain"
    ]
    log = kafkafmt.open(path)
    log.groups(at_time=900)
    assert log.messages == []


def test_lag_is_the_distance_to_the_log_end(tmp_path: Path) -> None:
    path = log_of(
        tmp_path,
        record_batch(0, commit_key("g", 0), commit(3)),
        record_batch(1, commit_key("g", 1), commit(12)),
        record_batch(2, commit_key("g", 2), commit(5)),
        record_batch(3, commit_key("h", 0), commit(9)),
    )
    for partition in range(2):
        (path / f"t-{partition}").mkdir()
        (path / f"t-{partition}" / f"{0:020}.log").write_bytes(simple_batch([b"v"] * 10))
    found = kafkafmt.open(path).groups()
    assert [c[:3] + c[-2:] for c in found.offsets] == [
        ("g", "t", 0, 10, 7),
        ("g", "t", 1, 10, -2),
        ("g", "t", 2, None, None),
        ("h", "t", 0, 10, 1),
    ]
    assert [(t.group, t.partitions, t.lag, t.unknown) for t in found.totals] == [("g", 3, 5, 1), ("h", 1, 1, 0)]
    assert found.to_arrow().column("lag").to_pylist() == [7, -2, None, 1]

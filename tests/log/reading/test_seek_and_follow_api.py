"""Test `Partition.seek`, `Partition.follow` and `Log.follow`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from building import ABORT, TRANSACTIONAL, batch, control_batch, record
from command import inside

import kafkafmt


def some(base: int, n: int = 2) -> bytes:
    return batch([record(i, i) for i in range(n)], base_offset=base, base_timestamp=1000 * base)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(some(0) + some(2))
    return tmp_path


def append(root: Path, data: bytes, name: str = "t-0", base: int = 0) -> None:
    (root / name).mkdir(exist_ok=True)
    with (root / name / f"{base:020}.log").open("ab") as file:
        file.write(data)


def test_seek_returns_what_the_command_prints(root: Path) -> None:
    partition = kafkafmt.open(root)["t", 0]
    questions: list[tuple[dict[str, object], tuple[str, str]]] = [
        ({"offset": 3}, ("--offset", "3")),
        ({"offset": 9}, ("--offset", "9")),
        ({"timestamp": 2001}, ("--timestamp", "2001")),
        ({"timestamp": "latest"}, ("--timestamp", "latest")),
        ({"timestamp": "earliest"}, ("--timestamp", "earliest")),
        ({"timestamp": "max-timestamp"}, ("--timestamp", "max-timestamp")),
    ]
    for question, arguments in questions:
        answer = partition.seek(**question).to_dict()  # type: ignore[arg-type]
        done = json.loads(inside("seek", root, "-t", "t", "-p", 0, *arguments, "--format", "json").stdout)
        assert {k: v for k, v in answer.items() if k != "bytes_read"} == {
            k: v for k, v in done.items() if k != "bytes_read"
        }
        assert list(answer) == list(done)
    found = partition.seek(timestamp=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC))
    assert isinstance(found, kafkafmt.reports.Position)
    assert (found.offset, found.timestamp, found.segment) == (2, 2000, f"{0:020}.log")


def test_seek_at_the_log_end_reads_the_last_batches_once(root: Path) -> None:
    last, end = (kafkafmt.open(root)["t", 0].seek(offset=offset) for offset in (3, 4))
    assert (last.offset, end.offset) == (3, None)
    assert (end.bytes_read, end.reads) == (last.bytes_read, last.reads)


def test_seek_requires_an_offset_or_a_timestamp(root: Path) -> None:
    partition = kafkafmt.open(root)["t", 0]
    wrong_types: list[dict[str, object]] = [{}, {"offset": 1, "timestamp": 1}, {"offset": "1"}, {"timestamp": 1.5}]
    for question in wrong_types:
        with pytest.raises(TypeError):
            partition.seek(**question)  # type: ignore[arg-type]
    wrong_values: list[dict[str, object]] = [
        {"offset": -1},
        {"timestamp": "newest"},
        {"timestamp": datetime(2026, 1, 1)},
    ]
    for question in wrong_values:
        with pytest.raises(ValueError, match=r"offset|timestamp"):
            partition.seek(**question)  # type: ignore[arg-type]


def test_follow_yields_appended_records(root: Path) -> None:
    records = kafkafmt.open(root)["t", 0].follow(poll=0.01)
    assert [next(records).offset for _ in range(4)] == [0, 1, 2, 3]
    append(root, some(4))
    assert [next(records).offset for _ in range(2)] == [4, 5]
    append(root, some(6), base=6)
    assert [next(records).offset for _ in range(2)] == [6, 7]


def test_follow_ends_if_nothing_is_appended(root: Path) -> None:
    partition = kafkafmt.open(root)["t", 0]
    assert [r.offset for r in partition.follow(start=-1, poll=0.01, idle_timeout=0.05)] == [3]
    assert [r.offset for r in partition.follow(start_time=2000, poll=0.01, idle_timeout=0)] == [2, 3]


def test_follow_ends_if_the_partition_is_deleted(root: Path) -> None:
    messages: list[str] = []
    records = kafkafmt.open(root)["t", 0].follow(poll=0.01, on_message=messages.append)
    assert next(records).offset == 0
    (root / "t-0").rename(root / "moved")
    assert [r.offset for r in records] == [1, 2, 3]
    assert [m.startswith("t-0: ") for m in messages] == [True]


def test_follow_skips_damage_or_raises(root: Path) -> None:
    broken = bytearray(some(4))
    broken[-1] ^= 1
    append(root, bytes(broken) + some(6))
    partition = kafkafmt.open(root)["t", 0]
    with pytest.raises(kafkafmt.DamagedLogError):
        list(partition.follow(poll=0.01, idle_timeout=0))
    offsets = [r.offset for r in partition.follow(on_error="skip", poll=0.01, idle_timeout=0)]
    assert offsets == [0, 1, 2, 3, 6, 7]
    assert [(d.first_offset, d.last_offset) for d in partition.damaged] == [(4, 5)]


def test_follow_at_read_committed_omits_aborted_records(root: Path) -> None:
    transaction = {"flags": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    append(root, batch([record(0)], base_offset=4, **transaction))  # type: ignore[arg-type]
    records = kafkafmt.open(root)["t", 0].follow(isolation="read_committed", poll=0.01)
    assert [next(records).offset for _ in range(4)] == [0, 1, 2, 3]
    append(root, control_batch(ABORT, base_offset=5, producer_id=7, producer_epoch=0) + some(6))
    assert [next(records).offset for _ in range(2)] == [6, 7]


def test_log_follow_finds_new_partitions(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.log.reading.following.RESCAN", 0.0)
    log = kafkafmt.open(root)
    records = log.follow(start=-1, poll=0.01)
    assert [(p.topic, p.partition, r.offset) for p, r in [next(records)]] == [("t", 0, 3)]
    append(root, some(0, 1), "u-1")
    append(root, some(4, 1))
    found = [next(records), next(records)]
    assert sorted((p.topic, p.partition, r.offset) for p, r in found) == [("t", 0, 4), ("u", 1, 0)]
    assert any("u-1: new" in m for m in log.messages)


def test_log_follow_selects_topics_and_ends(root: Path) -> None:
    append(root, some(0, 1), "u-0")
    append(root, some(0, 1), "__internal-0")
    log = kafkafmt.open(root)
    assert {p.topic for p, _ in log.follow(poll=0.01, idle_timeout=0)} == {"t", "u"}
    assert {p.topic for p, _ in log.follow("u*", poll=0.01, idle_timeout=0)} == {"u"}
    with pytest.raises(ValueError, match="isolation"):
        log.follow(isolation="serializable")  # type: ignore[arg-type]


def test_groups_to_dict_is_the_json_of_the_command() -> None:
    from golden_cases import case

    roots = case("internal").roots
    groups = kafkafmt.open(*roots).groups(on_error="skip")
    assert groups.to_dict() == json.loads(inside("groups", *roots, "--format", "json").stdout)

"""Test that wrapper messages that cannot be decompressed are decompressed only once, and reported with the same errors."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from building import GZIP, LZ4, compress, message
from reports import verify_partition

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.reading import failed_wrappers, planned_log
from kafkafmt.log.reading.models import Damage
from kafkafmt.records.payloads import PayloadReader
from kafkafmt.types import BatchTable, Buffer

WRAPPERS = 40


def wrapper(i: int, codec: int, damage: str) -> bytes:
    """Return a wrapper message with two messages and a valid CRC."""
    data = compress(codec, b"".join(message(1, None, b"value %d" % i * 4, offset=k) for k in range(2)))
    if damage == "truncated":
        data = data[:-20]
    elif damage == "corrupted":
        data = data[:20] + bytes([data[20] ^ 0x55]) + data[21:]
    return message(1, None, data, offset=2 * i + 1, attributes=codec)


def segment(first: int = 0) -> bytes:
    """Return messages with the offsets from `first` on. Three of five cannot be decompressed."""
    kinds = ((GZIP, "none"), (GZIP, "truncated"), (LZ4, "truncated"), (GZIP, "corrupted"), (LZ4, "none"))
    return b"".join(wrapper(first // 2 + i, *kinds[i % 5]) for i in range(WRAPPERS))


def open_log(folder: Path, *segments: bytes) -> PartitionLog:
    path = folder / "t-0"
    path.mkdir(exist_ok=True)
    for i, content in enumerate(segments):
        (path / f"{2 * WRAPPERS * i:020}.log").write_bytes(content)
    return PartitionLog(discover([path]).partitions[0])


def records_and_damage(log: PartitionLog) -> tuple[list[int], list[Damage]]:
    damaged: list[Damage] = []
    offsets = [record.offset for record in log.records(on_damage=damaged.append)]
    return offsets, damaged


@pytest.fixture
def decompressed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the size of each payload that `PayloadReader.read` decompresses."""
    found: list[int] = []
    read = PayloadReader.read

    def counted(self: PayloadReader, buffer: Buffer, table: BatchTable, **options: bool) -> Any:
        found.extend(table["payload_size"].tolist())
        return read(self, buffer, table, **options)

    monkeypatch.setattr(PayloadReader, "read", counted)
    return found


def expected_damage(folder: Path, monkeypatch: pytest.MonkeyPatch, *segments: bytes) -> tuple[list[int], list[Damage]]:
    """Return the records and the damage of a log whose failed wrapper messages are not remembered."""
    with monkeypatch.context() as context:
        context.setattr(failed_wrappers, "MOST_FAILED", 0)
        return records_and_damage(open_log(folder, *segments))


def test_failed_wrapper_messages_are_decompressed_once_by_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decompressed: list[int]
) -> None:
    contents = segment(), segment(2 * WRAPPERS)
    expected = expected_damage(tmp_path, monkeypatch, *contents)
    failed, payloads = len(expected[1]), len(decompressed)
    assert failed == 2 * WRAPPERS * 3 // 5
    assert len({damage.message for damage in expected[1]}) == 3
    decompressed.clear()
    log = open_log(tmp_path, *contents)
    assert records_and_damage(log) == expected
    assert len(decompressed) == payloads - failed
    decompressed.clear()
    assert records_and_damage(log) == expected
    assert len(decompressed) == payloads - failed - 2 * WRAPPERS


def test_failed_wrapper_messages_are_decompressed_once_by_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decompressed: list[int]
) -> None:
    with monkeypatch.context() as context:
        context.setattr(failed_wrappers, "MOST_FAILED", 0)
        expected, payloads = verify_partition(open_log(tmp_path, segment())), len(decompressed)
    decompressed.clear()
    assert verify_partition(open_log(tmp_path)) == expected
    assert len(expected["damaged"]) == WRAPPERS * 3 // 5
    assert len(decompressed) == payloads - WRAPPERS * 3 // 5


def test_failed_wrapper_messages_are_decompressed_again_if_the_file_changed(tmp_path: Path) -> None:
    """The changed messages have the same positions, but other CRCs."""
    damaged = b"".join(wrapper(i, GZIP, "corrupted") for i in range(WRAPPERS))
    valid = b"".join(wrapper(i, GZIP, "none") for i in range(WRAPPERS))
    assert len(damaged) == len(valid)
    log = open_log(tmp_path, damaged)
    assert len(records_and_damage(log)[1]) == WRAPPERS
    open_log(tmp_path, valid)
    assert records_and_damage(log) == (list(range(2 * WRAPPERS)), [])


@pytest.mark.parametrize("limit", ["MOST_FAILED", "MOST_ERRORS"])
def test_number_of_remembered_wrapper_messages_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    contents = [segment(2 * WRAPPERS * i) for i in range(3)]
    expected = expected_damage(tmp_path, monkeypatch, *contents)
    most = WRAPPERS if limit == "MOST_FAILED" else 0
    monkeypatch.setattr(failed_wrappers, limit, most)
    monkeypatch.setattr(planned_log, "MOST_FAILED", WRAPPERS)
    log = open_log(tmp_path, *contents)
    assert records_and_damage(log) == expected
    plans = [log.plan(segment) for segment in log.segments]
    assert sum(len(plan.failed or ()) for plan in plans) <= WRAPPERS
    assert plans[2].failed is not None
    log.forget_plans()
    assert records_and_damage(log) == expected


def test_plans_of_an_earlier_log_count_towards_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [segment(2 * WRAPPERS * i) for i in range(2)]
    before = open_log(tmp_path, *contents)
    before.plan(before.segments[0])
    monkeypatch.setattr(planned_log, "MOST_FAILED", WRAPPERS)
    log = open_log(tmp_path, *contents)
    log.keep_plans(before, {before.segments[0].name})
    assert log.plan(log.segments[0]).failed is not None
    log.plan(log.segments[1])
    assert sum(len(log.plan(s).failed or ()) for s in log.segments) == WRAPPERS * 3 // 5


def test_failed_wrapper_messages_are_not_pickled_with_a_plan(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment())
    plan = log.plan(log.segments[0])
    assert plan.failed is not None
    assert len(plan.failed) == WRAPPERS * 3 // 5
    copy = pickle.loads(pickle.dumps(plan))
    assert copy.failed is None
    assert copy == plan

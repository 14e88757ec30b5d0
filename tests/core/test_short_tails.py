"""Check that every reader rejects a tail of 12 to 16 bytes with an impossible length."""

from __future__ import annotations

import struct
from pathlib import Path
from types import ModuleType

import pytest
from building import message, simple_batch
from reports import verify_partition

import kafkafmt
from kafkafmt import StructureError, check_batches, iter_batches, read_records
from kafkafmt.records import assign_offsets

GOOD = {0: message(0, None, b"a"), 1: message(1, None, b"a", timestamp=5), 2: simple_batch([b"a"])}
LENGTHS = [-(2**31), -1, 0, 3, 13]


@pytest.fixture(params=GOOD)
def good(request: pytest.FixtureRequest) -> bytes:
    return GOOD[request.param]


@pytest.fixture(params=LENGTHS)
def tail(request: pytest.FixtureRequest) -> bytes:
    return struct.pack(">qi", 3, request.param) + b"\xff\xff"


def test_impossible_length_raises_after_the_records_before_it(package: ModuleType, good: bytes, tail: bytes) -> None:
    for read in (lambda data: read_records(data), lambda data: read_records(data, aborted=[]), iter_batches):
        found: list[object] = []
        with pytest.raises(StructureError, match="length field is") as caught:
            found.extend(read(good + tail))
        assert (len(found), caught.value.position, caught.value.base_offset) == (1, len(good), 3)
    with pytest.raises(StructureError, match="length field is"):
        list(read_records(tail))


def test_check_batches_reports_an_impossible_length(package: ModuleType, good: bytes, tail: bytes) -> None:
    found = check_batches(good + tail)
    assert [(p.code, p.position) for p in found.problems] == [("corrupt_structure", len(good))]
    assert (found.batches, found.records, found.end) == (1, 1, len(good))
    assert [p.code for p in check_batches(good + tail[:11]).problems] == ["truncated"]


def test_impossible_length_is_rejected_by_validators(package: ModuleType, good: bytes, tail: bytes) -> None:
    for change in (
        lambda data: kafkafmt.records.validate_and_assign_offsets(data, 0, origin="coordinator", after_max_ms=2**62),
        lambda data: assign_offsets(data, 0),
        lambda data: kafkafmt.records.convert(data, 2),
        lambda data: kafkafmt.records.recompress(data, "gzip"),
    ):
        data = bytearray(good + tail)
        with pytest.raises(StructureError, match="length field is"):
            change(data)
        assert data == good + tail


def log_of(folder: Path, data: bytes, *more: bytes) -> kafkafmt.Partition:
    (folder / "t-0").mkdir()
    for i, part in enumerate((data, *more)):
        (folder / "t-0" / f"{i:020}.log").write_bytes(part)
    return kafkafmt.open(folder)["t", 0]


@pytest.mark.parametrize("length", LENGTHS)
def test_impossible_length_at_the_end_of_a_log_is_damage(package: ModuleType, tmp_path: Path, length: int) -> None:
    tail = struct.pack(">qi", 3, length) + b"\xff\xff"
    log_of(tmp_path, GOOD[2] + tail)
    partition = kafkafmt.open(tmp_path)["t", 0]
    assert [r.offset for r in partition.records(on_error="skip")] == [0]
    assert [(d.position, d.length, d.code) for d in partition.damaged] == [(len(GOOD[2]), 14, "corrupt_structure")]
    with pytest.raises(kafkafmt.DamagedLogError):
        list(partition)


@pytest.mark.parametrize("zeros", [*range(1, 18), 4096])
def test_zeros_at_the_end_of_a_log_are_an_incomplete_tail(package: ModuleType, tmp_path: Path, zeros: int) -> None:
    log_of(tmp_path, GOOD[2] + bytes(zeros))
    partition = kafkafmt.open(tmp_path)["t", 0]
    assert [r.offset for r in partition] == [0]
    report = verify_partition(partition.log)
    assert (report["damaged"], [f["error"] for f in report["findings"]]) == ([], ["unfinished_tail"])


def test_zeros_at_the_end_of_an_earlier_segment_are_damage(package: ModuleType, tmp_path: Path) -> None:
    partition = log_of(tmp_path, GOOD[2] + bytes(14), simple_batch([b"b"], 1))
    assert [r.offset for r in partition.records(on_error="skip")] == [0, 1]
    assert [(d.position, d.length) for d in partition.damaged] == [(len(GOOD[2]), 14)]

"""Check that every reader rejects batches whose last offset is below the base offset or above 2**63 - 1."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from building import batch, empty_batch, simple_batch
from command import inside

import kafkafmt
from kafkafmt import protocol, read_records
from kafkafmt.errors import StructureError

RECORD = (0, 0, None, b"lost", ())
BATCHES = {
    "negative delta": batch([RECORD], base_offset=1, last_offset_delta=-5),
    "lowest delta": batch([RECORD], base_offset=1, last_offset_delta=-(2**31)),
    "negative delta, compressed": batch([RECORD], base_offset=1, last_offset_delta=-1, codec=4),
    "negative delta, no records": empty_batch(1, -2),
    "beyond 64 bits": batch([RECORD], base_offset=2**63 - 2, last_offset_delta=5),
    "beyond 64 bits by one": simple_batch([b"a", b"b"], 2**63 - 1),
}
RANGES: list[dict[str, Any]] = [
    {},
    {"start": 0},
    {"start": 1},
    {"start": 2},
    {"start": 0, "aborted": []},
    {"aborted": [(7, 0)]},
]


@pytest.fixture(params=BATCHES)
def impossible(request: pytest.FixtureRequest) -> bytes:
    return BATCHES[request.param]


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_impossible_last_offset_is_an_error_of_any_range(
    package: ModuleType, impossible: bytes, bounds: dict[str, Any]
) -> None:
    data = simple_batch([b"first"], 0) + impossible + simple_batch([b"after"], 2)
    with pytest.raises(StructureError, match="the batch has offsets") as caught:
        list(read_records(data, **bounds))
    assert caught.value.position == len(simple_batch([b"first"], 0))
    for columns in (("offset",), ("offset", "value", "headers")):
        with pytest.raises(StructureError):
            list(read_records(data, columns=columns, **bounds))


def test_batches_before_an_impossible_one_are_delivered(package: ModuleType, impossible: bytes) -> None:
    records = read_records(simple_batch([b"first"], 0) + impossible, start=0)
    assert next(records).value == b"first"
    with pytest.raises(StructureError):
        next(records)


def test_impossible_batch_at_or_after_the_end_is_not_decoded(package: ModuleType, impossible: bytes) -> None:
    data = simple_batch([b"first"], 0) + impossible
    assert [r.value for r in read_records(data, end=1)] == [b"first"]


def test_impossible_last_offset_is_one_problem_of_a_check(package: ModuleType, impossible: bytes) -> None:
    assert [p.code for p in kafkafmt.check_batches(impossible, sequences=False).problems] == ["offset_range"]


@pytest.mark.filterwarnings("error")
def test_batches_end_does_not_wrap(package: ModuleType) -> None:
    assert protocol.batches_end(BATCHES["beyond 64 bits"]).next_offset == 2**63
    assert protocol.batches_end(BATCHES["negative delta"]).next_offset == 2


@pytest.fixture
def log(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "log" / "t-0").mkdir(parents=True)
    parts = [
        simple_batch([b"first"], 0),
        BATCHES[request.param],
        simple_batch([b"after"], 2),
        simple_batch([b"last"], 3),
    ]
    (tmp_path / "log" / "t-0" / f"{0:020}.log").write_bytes(b"".join(parts))
    return tmp_path / "log"


@pytest.mark.parametrize("log", BATCHES, indirect=True)
@pytest.mark.parametrize(("start", "skipped"), [(None, 0), (0, 0), (1, 1)])
def test_impossible_batch_is_damage_in_a_log(package: ModuleType, log: Path, start: int | None, skipped: int) -> None:
    partition = kafkafmt.open(log)["t", 0]
    with pytest.raises(kafkafmt.DamagedLogError):
        list(partition.records(start=start))
    assert [r.value for r in partition.records(start=start, on_error="skip")] == [b"first", b"after", b"last"][skipped:]
    assert [d.position for d in partition.damaged] == [len(simple_batch([b"first"], 0))]


@pytest.mark.parametrize("log", BATCHES, indirect=True)
def test_impossible_batch_is_damage_of_every_command(log: Path, tmp_path: Path) -> None:
    for options in ((), ("--shallow",)):
        done = inside("verify", log, "--format", "json", *options)
        (entry,) = json.loads(done.stdout)["partitions"]
        assert (done.returncode, len(entry["damaged"])) == (1, 1), done.stderr
        assert entry["damaged"][0]["position"] == len(simple_batch([b"first"], 0))
    assert inside("cat", log).returncode == 1
    skipped = inside("cat", log, "--on-error", "skip", "--format", "json")
    assert (skipped.returncode, [json.loads(line)["value"] for line in skipped.stdout.splitlines()]) == (
        1,
        ["first", "after", "last"],
    )
    assert inside("salvage", log, "--output", tmp_path / "out").returncode == 1
    assert inside("verify", tmp_path / "out").returncode == 0
    copied = (tmp_path / "out" / "t-0" / f"{0:020}.log").read_bytes()
    assert [r.value for r in read_records(copied)] == [b"first", b"after", b"last"]


@pytest.mark.parametrize("offset", [-(2**63) + 1, 0, 3])
def test_wrapper_with_a_corrupted_offset_is_read(package: ModuleType, offset: int) -> None:
    """No CRC covers the offset of a wrapper message. In format 0, the offsets of inner messages are absolute."""
    import gzip

    from building import GZIP, message

    inner = b"".join(message(0, None, b"v", offset=i) for i in range(10, 14))
    data = message(0, None, gzip.compress(inner), offset=offset, attributes=GZIP)
    assert [r.offset for r in read_records(data)] == [r.offset for r in read_records(data, start=5)] == [10, 11, 12, 13]

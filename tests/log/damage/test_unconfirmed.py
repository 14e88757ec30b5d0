"""Test which valid batches between damaged bytes are delivered although nothing confirms them."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from building import batch, record, repair_crc, simple_batch

from kafkafmt.log import PartitionLog, discover


def log_of(folder: Path, *segments: tuple[int, list[bytes]]) -> PartitionLog:
    path = folder / "t-0"
    path.mkdir()
    for base, parts in segments:
        (path / f"{base:020}.log").write_bytes(b"".join(parts))
    return PartitionLog(discover([path]).partitions[0])


def delivered(log: PartitionLog) -> list[int]:
    return [r.offset for r in log.records(on_damage=lambda _: None)]


def garbage(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def at_epoch(raw: bytes, epoch: int) -> bytes:
    return raw[:12] + struct.pack(">i", epoch) + raw[16:]


@pytest.mark.parametrize("filler", ["random", "zeros"])
def test_every_second_batch_is_delivered_if_the_others_are_overwritten(tmp_path: Path, filler: str) -> None:
    parts = [simple_batch([b"value %d" % i * 5], i) for i in range(306)]
    for i in range(1, 305, 2):
        parts[i] = garbage(len(parts[i]), i) if filler == "random" else bytes(len(parts[i]))
    log = log_of(tmp_path, (0, parts))
    assert delivered(log) == [i for i in range(306) if i % 2 == 0 or i == 305]
    damaged = log.plan(log.segments[0]).damaged
    assert [(d.first_offset, d.last_offset) for d in damaged] == [(i, i) for i in range(1, 305, 2)]


def test_batches_are_limited_by_the_next_segment(tmp_path: Path) -> None:
    middle = [garbage(100), simple_batch([b"a"], 5), garbage(90), simple_batch([b"b"], 25), garbage(80)]
    log = log_of(tmp_path, (0, [simple_batch([b"x"], 0), *middle]), (20, [simple_batch([b"y"], 20)]))
    assert delivered(log) == [0, 5, 20]


@pytest.mark.parametrize(("offset", "accepted"), [(1, True), (2, False)])
def test_batch_at_the_end_of_a_log_needs_the_expected_offset(tmp_path: Path, offset: int, accepted: bool) -> None:
    log = log_of(tmp_path, (0, [simple_batch([b"x"], 0), garbage(100), simple_batch([b"a"], offset), garbage(100, 1)]))
    assert delivered(log) == ([0, 1] if accepted else [0])


def test_heaviest_chain_is_delivered(tmp_path: Path) -> None:
    """The first batch is alone, and has fewer bytes than the two others together."""
    small, large = [simple_batch([b"s" * 50], o) for o in (4, 5)], simple_batch([b"l" * 90], 8)
    middle = [large, garbage(70), small[0], garbage(80, 1), small[1]]
    parts = [
        simple_batch([b"x"], 0),
        garbage(90, 2),
        *middle,
        garbage(100, 3),
        *(simple_batch([b"y"], o) for o in (10, 11)),
    ]
    assert delivered(log_of(tmp_path, (0, parts))) == [0, 4, 5, 10, 11]


@pytest.mark.parametrize(("epoch", "accepted"), [(2, False), (3, True), (5, True), (6, False)])
def test_leader_epoch_must_be_between_those_of_the_neighbours(tmp_path: Path, epoch: int, accepted: bool) -> None:
    before, after = at_epoch(simple_batch([b"x"], 0), 3), [at_epoch(simple_batch([b"y"], o), 5) for o in (8, 9)]
    middle = at_epoch(simple_batch([b"a"], 4), epoch)
    log = log_of(tmp_path, (0, [before, garbage(100), middle, garbage(90, 1), *after]))
    assert delivered(log) == ([0, 4, 8, 9] if accepted else [0, 8, 9])


@pytest.mark.parametrize("count", [1, 2])
def test_batches_in_a_value_are_not_delivered(tmp_path: Path, count: int) -> None:
    """The header of the batch around them is destroyed. Their offsets would fit."""
    value = b"".join(simple_batch([b"inner"], 3 + i) for i in range(count))
    outer = batch([record(0, 0, None, value)], base_offset=1)
    outer = garbage(30) + outer[30:]
    log = log_of(
        tmp_path, (0, [simple_batch([b"x"], 0), outer, garbage(60), *(simple_batch([b"y"], o) for o in (8, 9))])
    )
    assert delivered(log) == [0, 8, 9]


def test_batch_inside_a_damaged_batch_with_an_intact_header_is_not_delivered(tmp_path: Path) -> None:
    """Other bytes surround the batch in the value, so its length does not show that it is inside a value."""
    value = b"before" + simple_batch([b"inner"], 2) + b"after"
    outer = bytearray(batch([record(i, 0, None, value) for i in range(5)], base_offset=1))
    outer[-1] ^= 1
    log = log_of(tmp_path, (0, [simple_batch([b"x"], 0), bytes(outer), *(simple_batch([b"y"], o) for o in (8, 9))]))
    assert delivered(log) == [0, 8, 9]
    assert repair_crc(bytes(outer)) != bytes(outer)

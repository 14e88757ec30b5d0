"""Test data that misleads the search after damage: values that contain batches, and wrong offsets."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from building import message, mutate, simple_batch
from reports import verify_partition

from kafkafmt.log import PartitionLog, discover

FAR = 0x4100_0000_0000_0000


def open_log(folder: Path, *parts: bytes, base: int = 0) -> PartitionLog:
    path = folder / "t-0"
    path.mkdir(exist_ok=True)
    (path / f"{base:020}.log").write_bytes(b"".join(parts))
    return PartitionLog(discover([path]).partitions[0])


def offsets(log: PartitionLog) -> list[int]:
    return [r.offset for r in log.records(on_damage=lambda _: None)]


def flipped(data: bytes, position: int) -> bytes:
    return mutate(data, position, bytes([data[position] ^ 0x40]))


def test_wrong_offset_between_damaged_spans_loses_no_later_batch(tmp_path: Path) -> None:
    """The batch between the damaged spans has a wrong, high offset. Later batches are not compared with this offset."""
    parts = [simple_batch([b"v%d" % i], i) for i in range(7)]
    parts[2], parts[3] = flipped(parts[2], 30), mutate(parts[3], 0, FAR.to_bytes(8, "big"))
    parts[4] = b"\xff" * len(parts[4])
    log = open_log(tmp_path, *parts)
    assert offsets(log) == [0, 1, 5, 6]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("inner", [[3], [3, 4], [1], [60]])
def test_batches_in_the_value_of_a_damaged_message_are_not_delivered(
    tmp_path: Path, magic: int, inner: list[int]
) -> None:
    value = b"".join(simple_batch([b"inner"], base) for base in inner)
    parts = [message(magic, None, value if i == 3 else b"v%d" % i, offset=i) for i in range(6)]
    for at in (8, 12, 16, 17, 24):
        damaged = [*parts[:3], flipped(parts[3], at), *parts[4:]]
        assert offsets(open_log(tmp_path, *damaged)) == [0, 1, 2, 4, 5], at
        assert offsets(open_log(tmp_path, *damaged[:4])) == [0, 1, 2], at


@pytest.mark.parametrize("base", [0, 100])
def test_single_batch_after_damage_is_damage_if_its_offset_is_out_of_reach(tmp_path: Path, base: int) -> None:
    valid_batch, garbage = simple_batch([b"a"], base), b"\xff" * 90
    for before in ([valid_batch], []) if base else ([valid_batch],):
        log = open_log(tmp_path, *before, garbage, simple_batch([b"b"], FAR), base=base)
        found = verify_partition(log)
        assert (offsets(log), found["next_offset"]) == ([base] * len(before), base + len(before))
        assert [d["error"] for d in found["damaged"]][1:] == ["contradicting_offsets"]


def test_batches_with_distant_offsets_are_delivered_if_they_agree(tmp_path: Path) -> None:
    valid_batch, garbage = simple_batch([b"a"], 5), b"\xff" * 90
    far = [simple_batch([b"b"], FAR), simple_batch([b"c"], FAR + 1)]
    assert offsets(open_log(tmp_path, valid_batch, garbage, *far, base=5)) == [5, FAR, FAR + 1]
    assert offsets(open_log(tmp_path, valid_batch, far[0], base=5)) == [5]  # no other batch confirms the offset


def test_segment_that_starts_inside_a_batch_is_read(tmp_path: Path) -> None:
    assert offsets(open_log(tmp_path, simple_batch([b"a" * 90], FAR - 1)[40:], simple_batch([b"b"], FAR))) == [FAR]


@pytest.mark.parametrize("base", [5, 1 << 40])
@pytest.mark.parametrize("wrong", [0, 4, -1, -(1 << 62)])
@pytest.mark.parametrize("gap", [0, 7])
@pytest.mark.parametrize("before", [0, 2])
def test_last_batch_after_a_batch_with_an_impossible_offset_is_delivered(
    base: int, wrong: int, gap: int, before: int, tmp_path: Path
) -> None:
    parts = [simple_batch([b"a"], base + i) for i in range(before)]
    parts.append(mutate(simple_batch([b"b"], base + before + gap), 0, struct.pack(">q", wrong)))
    last = base + before + 1 + 2 * gap
    log = open_log(tmp_path, *parts, simple_batch([b"c"], last), base=base)
    assert offsets(log) == [*range(base, base + before), last]
    assert [(d["error"], d["length"]) for d in verify_partition(log)["damaged"]] == [
        ("contradicting_offsets", len(parts[-1]))
    ]

"""Test that a batch inside a record's value is not delivered if the outer batch has a wrong length and CRC.

The embedded batches come from another log, so their offsets do not continue the offsets of the log.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from building import batch, message, mutate

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.findings.models import Damage

FOREIGN = 1_000_000
"""An offset of another log."""
TIME = 1_700_000_000_000


def outer(magic: int, offset: int, value: bytes) -> bytes:
    if magic == 2:
        return batch([(0, 0, None, value, ())], base_offset=offset, base_timestamp=TIME)
    return message(magic, None, value, offset=offset, timestamp=TIME)


def embedded(magic: int, count: int) -> bytes:
    """Return batches of another log, whose offsets continue each other."""
    return b"".join(outer(magic, FOREIGN + i, b"embedded %d" % i) for i in range(count))


def without_length_and_crc(magic: int, part: bytes) -> bytes:
    return mutate(mutate(part, 8, struct.pack(">i", 7)), 17 if magic == 2 else 12, b"\x12\x34\x56\x78")


def read(folder: Path, data: bytes) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the offsets of all records, and position and length of all damaged spans."""
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(data)
    damaged: list[Damage] = []
    log = PartitionLog(discover([folder]).partitions[0])
    offsets = [r.offset for r in log.records(on_damage=damaged.append)]
    return offsets, [(d.position, d.length) for d in damaged]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("inner", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("prefix", [b"", b"some bytes before"])
@pytest.mark.parametrize("tail", [0, 4096])
def test_embedded_batches_before_the_next_message_are_damage(
    magic: int, inner: int, count: int, prefix: bytes, tail: int, tmp_path: Path
) -> None:
    parts = [outer(magic, i, b"value %d" % i) for i in range(5)]
    parts[2] = without_length_and_crc(magic, outer(magic, 2, prefix + embedded(inner, count)))
    offsets, damaged = read(tmp_path / "t-0", b"".join(parts) + bytes(tail))
    assert offsets == [0, 1, 3, 4]
    assert damaged == [(len(parts[0] + parts[1]), len(parts[2]))]


@pytest.mark.parametrize("inner", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_value_of_batches_in_the_last_batch_is_damage_if_zeros_follow(inner: int, count: int, tmp_path: Path) -> None:
    parts = [outer(2, i, b"value %d" % i) for i in range(3)]
    parts.append(without_length_and_crc(2, outer(2, 3, embedded(inner, count))))
    offsets, _ = read(tmp_path / "t-0", b"".join(parts) + bytes(4096))
    assert offsets == [0, 1, 2]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("inner", [0, 1, 2])
@pytest.mark.parametrize("gap", [0, 7])
@pytest.mark.parametrize("cut", [0, 20])
def test_value_of_batches_in_a_batch_that_the_end_of_the_file_cuts_off_is_not_delivered(
    magic: int, inner: int, gap: int, cut: int, tmp_path: Path
) -> None:
    """The file ends after the first embedded batch, or inside the second one."""
    parts = [outer(magic, i, b"value %d" % i) for i in range(3)]
    value = b"some bytes before" + embedded(inner, 2)
    last = outer(magic, 3 + gap, value + b"rest of the value" * 10)
    end = last.index(value) + len(value) - (cut or len(outer(inner, FOREIGN + 1, b"embedded 1")))
    assert read(tmp_path / "t-0", b"".join(parts) + last[:end]) == ([0, 1, 2], [])


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("last", [False, True])
def test_batch_after_a_corrupted_length_beyond_the_end_of_the_file_is_delivered(
    magic: int, last: bool, tmp_path: Path
) -> None:
    """The value of the damaged batch is intact, and ends before the next batch."""
    parts = [outer(magic, i, b"value %d" % i) for i in (0, 1, 2, 7)]
    parts[2] = mutate(without_length_and_crc(magic, parts[2]), 8, struct.pack(">i", 5000))
    parts += [] if last else [outer(magic, 8, b"value 8")]
    offsets, _ = read(tmp_path / "t-0", b"".join(parts))
    # The last message of format 1 could be an inner message of a wrapper message.
    assert offsets == [0, 1, 7] + [8] * (not last)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_batches_after_two_damaged_neighbours_are_delivered(magic: int, tmp_path: Path) -> None:
    parts = [outer(magic, i, b"value %d" % i) for i in range(8)]
    for i in (2, 3):
        parts[i] = without_length_and_crc(magic, outer(magic, i, embedded(magic, 2)))
    offsets, _ = read(tmp_path / "t-0", b"".join(parts))
    assert offsets == [0, 1, 4, 5, 6, 7]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("inner", [0, 1, 2])
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("first", [3, 4, FOREIGN])
@pytest.mark.parametrize("gap", [0, 7])
@pytest.mark.parametrize("length", [7, 300, 1 << 30])
@pytest.mark.parametrize("last", [False, True])
def test_embedded_batches_are_damage_if_only_the_length_is_corrupted(
    magic: int, inner: int, count: int, first: int, gap: int, length: int, last: bool, tmp_path: Path
) -> None:
    """The CRC of the damaged batch shows where it ends, also at the end of the file."""
    parts = [outer(magic, i, b"value %d" % i) for i in range(2)]
    value = b"".join(outer(inner, first + gap + i, b"embedded %d" % i) for i in range(count))
    parts.append(mutate(outer(magic, 2 + gap, b"some bytes before" + value), 8, struct.pack(">i", length)))
    following = [] if last else [outer(magic, 3 + 2 * gap + i, b"value") for i in range(2)]
    offsets, damaged = read(tmp_path / "t-0", b"".join(parts + following))
    assert offsets == [0, 1] + [3 + 2 * gap + i for i in range(len(following))]
    assert damaged == [(len(parts[0] + parts[1]), len(parts[2]))]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("inner", [0, 1, 2])
@pytest.mark.parametrize("gap", [0, 7])
def test_embedded_batch_with_the_offset_of_the_damaged_batch_is_damage(
    magic: int, inner: int, gap: int, tmp_path: Path
) -> None:
    """In a compacted log, offsets are missing before the damaged batch."""
    parts = [outer(magic, i, b"value %d" % i) for i in range(2)]
    value = b"".join(outer(inner, 2 + gap + i, b"embedded %d" % i) for i in range(2))
    parts.append(without_length_and_crc(magic, outer(magic, 2 + gap, b"some bytes before" + value + b"after")))
    following = [outer(magic, 5 + 2 * gap + i, b"value") for i in range(2)]
    offsets, damaged = read(tmp_path / "t-0", b"".join(parts + following))
    assert offsets == [0, 1, 5 + 2 * gap, 6 + 2 * gap]
    assert damaged == [(len(parts[0] + parts[1]), len(parts[2]))]


@pytest.mark.parametrize("visible", [1, 3])
def test_inner_messages_of_format_0_are_delivered_after_missing_offsets(visible: int, tmp_path: Path) -> None:
    """The offset of a wrapper message is its last one, so its range does not show which messages are inner ones."""
    offsets = range(8 - visible, 8)
    inner = b"".join(outer(0, offset, b"inner") for offset in offsets)
    wrapper = without_length_and_crc(0, message(0, None, b"compressed" + inner, offset=7, attributes=1))
    parts = [outer(0, i, b"value %d" % i) for i in range(2)]
    data = b"".join(parts) + wrapper + outer(0, 8, b"next") + outer(0, 9, b"next")
    assert read(tmp_path / "t-0", data)[0] == [0, 1, *offsets, 8, 9]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("kept", [*range(12, 22), 30, 62, 90])
@pytest.mark.parametrize("gap", [0, 10])
@pytest.mark.parametrize("damaged_later", [False, True])
def test_complete_copy_of_an_incomplete_batch_is_delivered(
    magic: int, kept: int, gap: int, damaged_later: bool, tmp_path: Path
) -> None:
    """A crash interrupts the write of a batch, and the batch is written again after the incomplete bytes."""
    offsets = [0, 1, *range(2 + gap, 6 + gap)]
    parts = [outer(magic, i, b"value %d" % i * 20) for i in offsets]
    before, incomplete = b"".join(parts[:2]), parts[2][:kept]
    if damaged_later:
        parts[4] = mutate(parts[4], 80, b"\x00")
    found, damaged = read(tmp_path / "t-0", before + incomplete + b"".join(parts[2:]))
    assert found == [o for i, o in enumerate(offsets) if not (damaged_later and i == 4)]
    assert damaged[0] == (len(before), kept)
    assert len(damaged) == 1 + damaged_later

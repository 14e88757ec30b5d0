"""Check `scan_batches`, which reads batch headers, and `find_batch`, which searches for a batch."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from building import batch, message, mutate, repair_crc, simple_batch
from decoding import scan, what

from kafkafmt import iter_batches
from kafkafmt.errors import ChecksumError, StructureError, UnsupportedError
from kafkafmt.types import BATCH_DTYPE

# Fields: base offset 258, length 50, leader epoch 3, magic 2, crc, attributes 0x51 (gzip,
# transactional, delete horizon), last offset delta 9, base timestamp -2, max timestamp 2**40,
# producer 7, epoch 8, base sequence -1, count 1, and a payload of one byte.
LAYOUT = bytes.fromhex(
    "0000000000000102 00000032 00000003 02 aabbccdd 0051 00000009 fffffffffffffffe 0000010000000000"
    "0000000000000007 0008 ffffffff 00000001 ee"
)


def test_scan_reads_every_header_field(core: ModuleType) -> None:
    table, result = scan(core, b"####" + LAYOUT, start=4, check_crc=False)
    assert result == (1, 66, None)
    row = {name: table[0][name].item() for name in BATCH_DTYPE.names or ()}
    assert row == {
        "position": 4,
        "base_offset": 258,
        "size": 62,
        "leader_epoch": 3,
        "magic": 2,
        "crc": 0xAABBCCDD,
        "attributes": 0x51,
        "last_offset_delta": 9,
        "base_timestamp": -2,
        "max_timestamp": 2**40,
        "producer_id": 7,
        "producer_epoch": 8,
        "base_sequence": -1,
        "count": 1,
        "payload_position": 65,
        "payload_size": 1,
    }


def test_extreme_header_values_are_unchanged(core: ModuleType) -> None:
    lowest: dict[str, Any] = {
        "attributes": -(2**15),
        "last_offset_delta": -(2**31),
        "base_timestamp": -(2**63),
        "max_timestamp": 2**63 - 1,
    }
    lowest |= {"producer_id": -(2**63), "producer_epoch": -(2**15), "base_sequence": 2**31 - 1, "count": -(2**31)}
    lowest |= {"base_offset": -(2**63), "leader_epoch": -1}
    row = scan(core, batch(**lowest))[0][0]
    assert {name: row[name].item() for name in lowest} == lowest


def test_scan_reads_consecutive_batches(core: ModuleType) -> None:
    parts = [simple_batch([b"a", b"b"], 0), simple_batch([], 2, last_offset_delta=4), simple_batch([b"c"], 7)]
    table, result = scan(core, b"".join(parts))
    assert result == (3, sum(map(len, parts)), None)
    assert table["base_offset"].tolist() == [0, 2, 7]
    assert table["count"].tolist() == [2, 0, 1]
    assert table["position"].tolist() == [0, len(parts[0]), len(parts[0] + parts[1])]
    assert table["payload_size"].tolist() == [len(p) - 61 for p in parts]


def test_truncated_last_batch_ends_the_scan_without_error(core: ModuleType) -> None:
    whole, last = simple_batch([b"a"]), simple_batch([b"bcd"], 1)
    for cut in range(len(last)):
        data = whole + last[:cut]
        assert scan(core, data)[1] == (1, len(whole), None)
        assert scan(core, whole + last, end=len(data))[1] == (1, len(whole), None)


def test_empty_input_contains_no_batch(core: ModuleType) -> None:
    assert scan(core, b"")[1] == (0, 0, None)
    assert scan(core, b"abc", start=2)[1] == (0, 2, None)
    assert core.find_batch(b"") is None


def test_scan_continues_after_a_full_table(core: ModuleType) -> None:
    parts = [simple_batch([b"x" * i], i) for i in range(7)]
    data, at, seen = b"".join(parts), 0, []
    while at < len(data):
        table, result = scan(core, data, rows=3, start=at)
        assert result.error is None
        seen += table["base_offset"].tolist()
        at = result.position
    assert seen == list(range(7))
    assert scan(core, data, rows=0)[1] == (0, 0, None)


def test_row_is_not_written_before_the_batch_is_valid(core: ModuleType) -> None:
    table = np.full(3 * BATCH_DTYPE.itemsize, 77, np.uint8).view(BATCH_DTYPE)
    before = table.tobytes()
    assert core.scan_batches(mutate(simple_batch([b"a"]), 66, b"?"), table).error
    assert table.tobytes() == before


def faulty(good: bytes, bad: bytes) -> bytes:
    """Return a buffer with a valid batch, the batch `bad`, and another valid batch."""
    return simple_batch([good]) + bad + simple_batch([b"z"], 9)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48, 2**31 - 12, 2**31 - 1])
def test_impossible_length_is_a_structure_error(core: ModuleType, length: int, check: bool) -> None:
    data = faulty(b"a", simple_batch([b"b"], 5, length=length))
    at = len(simple_batch([b"a"]))
    table, result = scan(core, data, check_crc=check)
    assert (len(table), result.position) == (1, at)
    assert what(result.error) == (
        "StructureError",
        at,
        5,
        None,
        f"length field is {length}, which no batch can have (position {at}, batch at offset 5)",
    )


def test_batch_with_the_largest_length_counts_as_truncated(core: ModuleType) -> None:
    assert scan(core, simple_batch([b"b"], length=2**31 - 13))[1] == (0, 0, None)


def test_wrong_crc_is_a_checksum_error(core: ModuleType) -> None:
    good, bad = simple_batch([b"a"]), mutate(simple_batch([b"b"], 5), 66, b"!")
    data = good + bad + simple_batch([b"z"], 9)
    _, result = scan(core, data)
    assert (result.count, result.position) == (1, len(good))
    assert isinstance(result.error, ChecksumError)
    assert (result.error.position, result.error.base_offset, result.error.resume) == (len(good), 5, len(good + bad))
    assert scan(core, data, check_crc=False)[1] == (3, len(data), None)
    assert scan(core, data, start=len(good + bad))[1].count == 1
    # without a row for the second batch, its CRC is not checked
    assert scan(core, data, rows=1)[1] == (1, len(good), None)


@pytest.mark.parametrize("magic", [3, -1, -128, 127])
def test_other_magics_are_not_supported(core: ModuleType, magic: int) -> None:
    good, other = simple_batch([b"a"]), message(magic & 1, b"k", b"v", offset=5)
    other = mutate(other, 16, bytes([magic & 0xFF]))
    table, result = scan(core, good + other + good)
    assert len(table) == 1
    assert isinstance(result.error, UnsupportedError)
    assert f"magic {magic} " in str(result.error)
    assert (result.error.position, result.error.base_offset, result.error.resume) == (len(good), 5, len(good + other))


def test_truncated_message_of_another_magic_has_no_resume(core: ModuleType) -> None:
    other = mutate(message(1, b"k", b"v" * 50), 16, b"\x03")
    error = scan(core, other[:40])[1].error
    assert isinstance(error, UnsupportedError)
    assert error.resume is None
    assert scan(core, other[:16])[1] == (0, 0, None)
    assert scan(core, mutate(other, 8, b"\x00\x00\x00\x0d"))[1].error.code == StructureError.code


def test_unusable_table_is_rejected(native: ModuleType) -> None:
    data = simple_batch([b"a"])
    unaligned = np.zeros(4 * BATCH_DTYPE.itemsize + 1, "u1")[1:].view(BATCH_DTYPE)
    for table in (np.zeros(4, "i8"), np.zeros(8, BATCH_DTYPE)[::2], unaligned):
        with pytest.raises(ValueError):
            native.scan_batches(data, table)
    fixed = np.zeros(4, BATCH_DTYPE)
    fixed.flags.writeable = False
    with pytest.raises(ValueError):
        native.scan_batches(data, fixed)
    with pytest.raises(TypeError):
        native.scan_batches(data, None)


def test_find_batch_finds_a_batch_among_other_bytes(core: ModuleType) -> None:
    needle = simple_batch([b"a" * 20], 3)
    for before in (b"", b"\x02", b"\x02" + b"\xff" * 100, bytes(1000)):
        data = before + needle + b"\x02" * 50
        assert core.find_batch(data) == len(before)
        assert core.find_batch(data, len(before)) == len(before)
        assert core.find_batch(data, len(before) + 1) is None
        assert core.find_batch(data, 0, len(before + needle)) == len(before)
        assert core.find_batch(data, 0, len(before + needle) - 1) is None
        assert core.find_batch(data, 0, len(before) + 61, False) == len(before)
        assert core.find_batch(data, 0, len(before) + 60, False) != len(before)


def test_find_batch_ignores_a_length_beyond_the_end_without_crc(core: ModuleType) -> None:
    needle = simple_batch([b"a"], length=2**31 - 13)
    assert core.find_batch(b"abc" + needle, 0, None, False) == 3
    assert core.find_batch(b"abc" + needle) is None


def test_find_batch_finds_a_batch_across_its_block_borders(core: ModuleType) -> None:
    needle = simple_batch([b"a" * 20], 3)
    for border in (1 << 20, (1 << 20) + 16):
        for shift in range(-20, 3):
            data = bytes(border + shift) + needle
            assert core.find_batch(data) == border + shift


@pytest.mark.parametrize(
    ("position", "replacement"),
    [
        (0, b"\xff"),  # base offset below 0
        (8, b"\xff"),
        (8, b"\x00\x00\x00\x30"),  # length below the minimum
        (8, b"\x7f\xff\xff\xf4"),  # length above the maximum
        (16, b"\x01"),
        (21, b"\x01"),  # attributes that Kafka does not use
        (22, b"\x80"),
        (22, b"\x05"),  # codecs that do not exist
        (22, b"\x07"),
        (23, b"\x80"),  # the last offset delta and the count are negative
        (57, b"\x80"),
    ],
)
def test_find_batch_ignores_impossible_headers(core: ModuleType, position: int, replacement: bytes) -> None:
    data = mutate(simple_batch([b"a" * 9]), position, replacement)
    assert core.find_batch(repair_crc(data) if position != 8 else data, 0, None, False) != 0
    assert core.find_batch(repair_crc(data) if position != 8 else data) is None


@pytest.mark.parametrize("attributes", [0x7C, 0x03, 0x78])
def test_find_batch_accepts_every_attribute_of_kafka(core: ModuleType, attributes: int) -> None:
    assert core.find_batch(batch([(0, 0, None, b"v", ())], attributes=attributes)) == 0


def test_find_batch_skips_a_batch_with_a_wrong_crc(core: ModuleType) -> None:
    bad, good = simple_batch([b"a"], crc=1), simple_batch([b"b"])
    assert core.find_batch(bad + good) == len(bad)
    assert core.find_batch(bad + good, 0, None, False) == 0


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("rest", range(5))
@pytest.mark.parametrize("length", [-(2**31), -(2**31) + 1, -1, 0, 1, 3, 13, 2**31 - 12, 2**31 - 1])
def test_tail_below_17_bytes_with_an_impossible_length_is_corrupt(
    core: ModuleType, length: int, rest: int, check: bool
) -> None:
    """Java's error for this batch is `Record size 3 is less than the minimum record overhead (14)`."""
    good = simple_batch([b"a"])
    tail = struct.pack(">qi", 5, length) + bytes(rest)
    for data, options in (
        (good + tail, {}),
        (good + tail + b"zzzzzzz", {"end": len(good + tail)}),
        (good + tail + bytes(20), {}),
    ):
        table, result = scan(core, data, check_crc=check, **options)
        assert (len(table), result.position) == (1, len(good))
        message = f"length field is {length}, which no batch can have (position {len(good)}, batch at offset 5)"
        assert what(result.error) == ("StructureError", len(good), 5, None, message)
    assert scan(core, good + tail[:11])[1] == (1, len(good), None)


@pytest.mark.parametrize("length", [14, 15, 21, 22, 48, 49, 1000, 2**31 - 13])
@pytest.mark.parametrize("rest", range(5))
def test_tail_below_17_bytes_with_a_possible_length_is_truncated(core: ModuleType, length: int, rest: int) -> None:
    """A length below the minimum for magic 2 is possible for a message of magic 0. The magic is truncated."""
    good = simple_batch([b"a"])
    assert scan(core, good + struct.pack(">qi", 5, length) + bytes(rest))[1] == (1, len(good), None)


@pytest.mark.parametrize(
    ("base", "delta", "expected"),
    [
        (-1, 5, -1), (0, 0, 0), (0, 9, 9), (7, 0, 7), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3), (-5, 2, -3),
        (5, -1, -(2**31) + 4), (-2, 2**31 - 1, 2**31 - 3),
    ],
)  # fmt: skip
@pytest.mark.parametrize("producer_id", [-1, 3])
def test_last_sequence_is_that_of_java(base: int, delta: int, expected: int, producer_id: int) -> None:
    """Java's `lastSequence()` checks only the base sequence, and its int arithmetic overflows."""
    data = simple_batch([b"a"], base_sequence=base, last_offset_delta=delta, producer_id=producer_id)
    (found,) = iter_batches(data)
    assert found.last_sequence == expected


def test_last_sequence_of_a_message_is_minus_one() -> None:
    assert [b.last_sequence for b in iter_batches(message(1, None, b"a"))] == [-1]

"""Recognize a damaged batch that the end of the file cuts off."""

from __future__ import annotations

import random
import struct
from types import ModuleType

import pytest

from kafkafmt import build_batch

RECORDS = [(b"key %d" % i, b"value %d" % i * 9) for i in range(3)]


def batch(magic: int, **options: str) -> bytes:
    records = RECORDS if magic == 2 else RECORDS[:1]
    return bytes(build_batch(records, base_offset=5, magic=magic, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_batch_is_recognized_if_the_file_ends_in_its_last_value(core: ModuleType, magic: int) -> None:
    data = batch(magic)
    for end in range(data.index(b"value") + 40, len(data)):
        assert core.is_cut_off(data[:end], 0, len(data), end)
    assert core.is_cut_off(b"before" + data[:-1], 6, 6 + len(data), 5 + len(data))
    assert core.is_cut_off(data, 0, len(data), len(data)) is False


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_corrupted_length_is_no_cut_off_batch(core: ModuleType, magic: int) -> None:
    data = batch(magic)
    assert core.is_cut_off(data + data, 0, 5000, 2 * len(data)) is False


def test_lengths_of_compressed_or_very_many_records_are_not_checked(core: ModuleType) -> None:
    data = batch(2, codec="gzip")
    assert core.is_cut_off(data[:-1], 0, len(data), len(data) - 1) is False
    many = bytearray(batch(2) + bytes(100))
    many[57:61] = struct.pack(">i", 16385)
    assert core.is_cut_off(many, 0, 1 << 20, len(many)) is False


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_result_is_none_if_bytes_are_missing(core: ModuleType, magic: int) -> None:
    data = batch(magic)
    assert core.is_cut_off(data[:50], 0, len(data), len(data) - 1) is None
    needed = {0: 62, 1: 62, 2: len(data) - 90}[magic]
    assert core.is_cut_off(data[:needed], 0, len(data), len(data) - 1) is (None if magic == 2 else True)


@pytest.mark.parametrize("seed", range(20))
def test_both_cores_agree(native: ModuleType, pure: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        data = bytearray(batch(rng.randrange(3)) * rng.randint(1, 2))
        for _ in range(rng.randrange(3)):
            data[rng.randrange(8, len(data))] = rng.choice((0, 2, 12, 0x7F, 0xFF, rng.randrange(256)))
        end = len(data) // rng.choice((1, 2)) + rng.choice((0, 0, 1, 70))
        file_end = rng.randint(30, len(data) + 9)
        buffer = data[: min(file_end, rng.randint(20, len(data)))]
        at = rng.choice((0, 0, rng.randrange(len(data))))
        arguments = bytes(buffer), at, end, file_end
        assert native.is_cut_off(*arguments) == pure.is_cut_off(*arguments), arguments

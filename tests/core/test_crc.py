"""Check CRC-32C and CRC-32 with each implementation that the processor supports."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from types import ModuleType

import crc32c as reference
import pytest

WAYS = range(3)


@pytest.fixture(params=WAYS)
def way(core: ModuleType, request: pytest.FixtureRequest) -> Iterator[str]:
    """Select each implementation in turn, and finally the fastest one, which is the default."""
    yield core.crc32c_way(request.param)
    for faster in WAYS:
        core.crc32c_way(faster)


def test_crc32c_has_known_values(core: ModuleType, way: str) -> None:
    assert core.crc32c(b"123456789") == 0xE3069283
    assert core.crc32c(b"") == 0
    assert core.crc32c(bytes(32)) == 0x8A9136AA  # the first four values are from RFC 3720, B.4
    assert core.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert core.crc32c(bytes(range(32))) == 0x46DD794E
    assert core.crc32c(bytes(range(31, -1, -1))) == 0x113FDB5C


def test_crc32c_is_correct_for_every_size_and_alignment(core: ModuleType, way: str) -> None:
    data = random.Random(1).randbytes(5000)
    for size in [*range(1100), *range(4020, 4100), 4936]:
        for start in (0, 1, 7, 63):
            assert core.crc32c(data, 0, start, start + size) == reference.crc32c(data[start : start + size])


def test_crc32_is_correct_for_every_size(core: ModuleType, way: str) -> None:
    """Short input with the initial value 0, other short input and long input have separate code."""
    data = random.Random(1).randbytes(5000)
    for size in [*range(600), 1023, 1024, 1025, 4936]:
        for start in (0, 1, 63):
            for value in (0, 0x12345678):
                assert core.crc32(data, value, start, start + size) == zlib.crc32(data[start : start + size], value)


def test_crc32_reads_nothing_before_its_bytes(core: ModuleType, way: str) -> None:
    """CRC-32 reads blocks of 64 bytes. The memory before short input may be unreadable."""
    import mmap

    page = mmap.mmap(-1, mmap.PAGESIZE)
    page[:] = bytes(range(256)) * (mmap.PAGESIZE // 256)
    assert [core.crc32(page, 0, 0, n) for n in range(1, 70)] == [zlib.crc32(page[:n]) for n in range(1, 70)]


def test_crc_continues_from_a_previous_value(core: ModuleType, way: str) -> None:
    data = random.Random(2).randbytes(3000)
    whole = core.crc32c(data)
    for cut in (0, 1, 8, 500, 513, 2999, 3000):
        assert core.crc32c(data, core.crc32c(data, 0, 0, cut), cut) == whole


def test_implementation_can_be_selected(native: ModuleType) -> None:
    best = native.crc32c_way()
    assert native.crc32c_way(0) == "table"
    for faster in WAYS:
        native.crc32c_way(faster)
    assert native.crc32c_way() == best


def test_only_32_bits_of_the_initial_value_are_used(core: ModuleType) -> None:
    assert core.crc32c(b"abc", 2**32 + 5) == core.crc32c(b"abc", 5)
    assert core.crc32c(b"abc", -1) == core.crc32c(b"abc", 2**32 - 1)


def test_range_outside_the_buffer_is_a_value_error(core: ModuleType) -> None:
    for start, end in ((-1, None), (0, 4), (2, 1)):
        with pytest.raises(ValueError):
            core.crc32c(b"abc", 0, start, end)

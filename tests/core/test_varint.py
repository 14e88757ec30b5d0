"""Check that varints are read as in Kafka's ByteUtils."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from building import varint
from hypothesis import given
from hypothesis import strategies as st

from kafkafmt import _pure
from kafkafmt.errors import KafkaFormatError, StructureError, TruncatedError

READERS = ("read_varint", "read_varlong", "read_unsigned_varint")

KNOWN = [
    ("00", 0),
    ("01", -1),
    ("02", 1),
    ("03", -2),
    ("7e", 63),
    ("7f", -64),
    ("8001", 64),
    ("8101", -65),
    ("fe7f", 8191),
    ("ff7f", -8192),
    ("808001", 8192),
    ("feff7f", 2**20 - 1),
    ("80808001", 2**20),
    ("8180808001", -(2**27) - 1),
    ("feffffff0f", 2**31 - 1),
    ("ffffffff0f", -(2**31)),
    ("8000", 0),
    ("8280808000", 1),
]


@pytest.mark.parametrize(("encoded", "value"), KNOWN)
def test_varints_have_known_values(core: ModuleType, encoded: str, value: int) -> None:
    data = bytes.fromhex(encoded)
    assert core.read_varint(data) == (value, len(data))
    assert core.read_varlong(data) == (value, len(data))


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("feffffffffffffffff01", 2**63 - 1),
        ("ffffffffffffffffff01", -(2**63)),
        ("80808080808080808001", 2**62),
        ("feffffff1f", 2**32 - 1),
    ],
)
def test_varlongs_have_known_values(core: ModuleType, encoded: str, value: int) -> None:
    data = bytes.fromhex(encoded)
    assert core.read_varlong(data) == (value, len(data))


@pytest.mark.parametrize(
    ("encoded", "value"),
    [("00", 0), ("7f", 127), ("8001", 128), ("ffffffff07", 2**31 - 1), ("ffffffff0f", 2**32 - 1)],
)
def test_unsigned_varints_have_known_values(core: ModuleType, encoded: str, value: int) -> None:
    data = bytes.fromhex(encoded)
    assert core.read_unsigned_varint(data) == (value, len(data))


def test_bits_beyond_the_width_are_ignored(core: ModuleType) -> None:
    assert core.read_unsigned_varint(b"\xff\xff\xff\xff\x7f") == (2**32 - 1, 5)
    assert core.read_varint(b"\x80\x80\x80\x80\x70") == (0, 5)
    assert core.read_varlong(b"\x80" * 9 + b"\x7e") == (0, 10)


@pytest.mark.parametrize(("name", "width"), [("read_varint", 5), ("read_varlong", 10), ("read_unsigned_varint", 5)])
def test_truncated_or_overlong_varint_raises_at_its_start(core: ModuleType, name: str, width: int) -> None:
    read = getattr(core, name)
    for have in range(width):
        with pytest.raises(TruncatedError) as caught:
            read(b"xx" + b"\x80" * have, 2)
        assert caught.value.position == 2
    with pytest.raises(StructureError) as overlong:
        read(b"xx" + b"\x80" * width + b"\x00", 2)
    assert overlong.value.position == 2
    with pytest.raises(TruncatedError):
        read(b"\x80\x00", 0, 1)
    assert read(b"\x80\x80\x00\xff", 1, 3) == (0, 3)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("start", "end"), [(-1, None), (0, 4), (3, 2), (4, None), (0, -1), (2**70, None), (0, 2**70)])
def test_range_outside_the_buffer_is_a_value_error(core: ModuleType, name: str, start: int, end: int | None) -> None:
    with pytest.raises(ValueError):
        getattr(core, name)(b"abc", start, end)


@pytest.mark.parametrize("wrong", [None, "text", 1, [1]])
def test_object_without_buffer_is_a_type_error(core: ModuleType, wrong: int | list[int] | str | None) -> None:
    with pytest.raises(TypeError):
        core.read_varint(wrong)


def test_buffer_with_gaps_is_a_value_error(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        core.read_varint(memoryview(b"abcdef")[::2])


@given(st.integers(-(2**31), 2**31 - 1))
def test_varint_round_trip_returns_the_value(value: int) -> None:
    assert _pure.read_varint(varint(value)) == (value, len(varint(value)))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlong_round_trip_returns_the_value(value: int) -> None:
    assert _pure.read_varlong(varint(value)) == (value, len(varint(value)))


def outcome(read: Callable[[bytes], tuple[int, int]], data: bytes) -> tuple[Any, ...]:
    try:
        return read(data)
    except KafkaFormatError as error:
        return type(error), error.position, str(error)


@given(st.lists(st.one_of(st.integers(128, 255), st.integers(0, 255)), max_size=12).map(bytes))
def test_cores_agree_on_varints(data: bytes) -> None:
    native = pytest.importorskip("kafkafmt._core")
    for name in READERS:
        assert outcome(getattr(native, name), data) == outcome(getattr(_pure, name), data)

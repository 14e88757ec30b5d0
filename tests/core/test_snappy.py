"""Compare `check_snappy` with the library that decompresses snappy data."""

from __future__ import annotations

import random
import struct
from types import ModuleType

import cramjam
import numpy as np
import pytest
from building import XERIAL_MAGIC, xerial

from kafkafmt.codecs.decompressor import Arena, Decompressor, snappy_error
from kafkafmt.constants import (
    FAULT_SNAPPY_ELEMENT,
    FAULT_SNAPPY_LENGTH,
    FAULT_SNAPPY_LIMIT,
    FAULT_SNAPPY_SIZE,
    FAULT_XERIAL_BLOCK,
    FAULT_XERIAL_HEADER,
)
from kafkafmt.errors import KafkaFormatError

SNAPPY = 2
LIMIT = 1 << 20
HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
VALID = [
    b"\0",
    b"\x01\x00a",
    b"\x05\x10abcde",
    b"\x05\xf0\x04abcde",  # the length of the literal has 1 byte
    b"\x05\xf4\x04\x00abcde",
    b"\x05\xf8\x04\x00\x00abcde",
    b"\x05\xfc\x04\x00\x00\x00abcde",
    b"\x05\x00a\x01\x01",  # 4 bytes are copied from 1 byte before
    b"\x0c\x00a\x1d\x01",
    b"\x41\x00a\xfe\x01\x00",
    b"\x41\x00a\xff\x01\x00\x00\x00",
    b"\x81\x80\x00\x00a",  # the size has more bytes than necessary
    HEADER,
    HEADER + HEADER,
    HEADER + b"abc",
    HEADER + HEADER[:8],
    HEADER + struct.pack(">i", 3) + b"\x01\x00a" + HEADER + struct.pack(">i", 3) + b"\x01\x00b",
]
INVALID = [
    (FAULT_XERIAL_HEADER, HEADER[:8]),
    (FAULT_XERIAL_HEADER, HEADER[:15]),
    (FAULT_XERIAL_BLOCK, HEADER + struct.pack(">i", -1)),
    (FAULT_XERIAL_BLOCK, HEADER + struct.pack(">i", 2) + b"\0"),
    (FAULT_SNAPPY_LENGTH, b""),
    (FAULT_SNAPPY_LENGTH, b"\xff\xff"),
    (FAULT_SNAPPY_LENGTH, b"\x80\x80\x80\x80\x80\x00"),
    (FAULT_SNAPPY_LENGTH, HEADER + bytes(4)),
    (FAULT_SNAPPY_LIMIT, b"\x81\x80\x40\x00a"),
    (FAULT_SNAPPY_LIMIT, b"\xff\xff\xff\xff\x7f"),
    (FAULT_SNAPPY_LIMIT, HEADER + struct.pack(">i", 60_000) + b"\x80\x80\x28" + bytes(59_997)),
    (FAULT_SNAPPY_SIZE, b"\x81\x01"),
    (FAULT_SNAPPY_ELEMENT, b"\x01"),
    (FAULT_SNAPPY_ELEMENT, b"\x00\x00a"),
    (FAULT_SNAPPY_ELEMENT, b"\x02\x00a"),
    (FAULT_SNAPPY_ELEMENT, b"\x01\x04ab"),
    (FAULT_SNAPPY_ELEMENT, b"\x02\x04a"),
    (FAULT_SNAPPY_ELEMENT, b"\x05\xfc\x04\x00\x00"),
    (FAULT_SNAPPY_ELEMENT, b"\x05\xfc\xff\xff\xff\xffabcde"),
    (FAULT_SNAPPY_ELEMENT, b"\x04\x01\x01"),
    (FAULT_SNAPPY_ELEMENT, b"\x05\x00a\x01\x00"),  # a copy with the offset 0
    (FAULT_SNAPPY_ELEMENT, b"\x05\x00a\x01\x02"),
    (FAULT_SNAPPY_ELEMENT, b"\x05\x00a\x21\x01"),  # the offset is 257
    (FAULT_SNAPPY_ELEMENT, b"\x05\x00a\x01"),
    (FAULT_SNAPPY_ELEMENT, b"\x05\x00a\x0e\x01"),
    (FAULT_SNAPPY_ELEMENT, b"\x05\x00a\x0f\x01\x00\x00"),
    (FAULT_SNAPPY_ELEMENT, b"\x04\x00a\x01\x01"),
]


def faults_of(core: ModuleType, payloads: list[bytes], limit: int = LIMIT) -> list[int]:
    """Check payloads that have other bytes between them."""
    lengths = np.array([len(payload) for payload in payloads], np.int32)
    positions = np.cumsum(lengths + 1, dtype=np.int64) - lengths
    faults = np.full(len(payloads), -1, np.int8)
    core.check_snappy(
        b"".join(b"?" + payload for payload in payloads), positions, lengths, len(payloads), limit, faults
    )
    found: list[int] = faults.tolist()
    return found


def error_of(payload: bytes, limit: int = LIMIT) -> KafkaFormatError | None:
    """Return the error of the decompressor."""
    try:
        Decompressor(limit).decompress(SNAPPY, payload, Arena(16))
    except KafkaFormatError as error:
        return error
    return None


def test_check_snappy_accepts_all_kinds_of_elements(core: ModuleType) -> None:
    assert faults_of(core, VALID) == [0] * len(VALID)


@pytest.mark.parametrize(("fault", "payload"), INVALID, ids=[f"{fault}-{data[:24].hex()}" for fault, data in INVALID])
def test_check_snappy_finds_each_kind_of_fault(core: ModuleType, fault: int, payload: bytes) -> None:
    limit = 600_000 if len(payload) > 60_000 else LIMIT
    assert faults_of(core, [payload], limit) == [fault]
    error, expected = error_of(payload, limit), snappy_error(fault, limit)
    assert error is not None
    assert (type(error), error.message) == (type(expected), expected.message)


def test_check_snappy_limits_the_total_size_of_all_blocks(core: ModuleType) -> None:
    payload = xerial(b"0123456789", block=4)
    assert [faults_of(core, [payload], limit)[0] for limit in (3, 9, 10)] == [FAULT_SNAPPY_LIMIT, FAULT_SNAPPY_LIMIT, 0]


def mutated(chance: random.Random) -> bytes:
    data = chance.randbytes(chance.choice((0, 1, 60, 61, 300))) + b"text" * chance.choice((0, 3, 99))
    if chance.random() < 0.5:
        packed = bytearray(cramjam.snappy.compress_raw(data))
    else:
        packed = bytearray(xerial(data, chance.choice((7, 64, 32768))))
    kind = chance.random()
    if kind < 0.4:
        for _ in range(chance.choice((1, 1, 3))):
            packed[chance.randrange(len(packed))] = chance.randrange(256)
    elif kind < 0.5:
        del packed[chance.randrange(len(packed)) :]
    elif kind < 0.6:
        packed += chance.randbytes(chance.randrange(6))
    elif kind < 0.7:
        packed = bytearray(chance.randbytes(chance.randrange(60)))
    return bytes(packed)


@pytest.mark.parametrize("seed", range(20))
def test_check_snappy_agrees_with_the_decompressor(core: ModuleType, seed: int) -> None:
    chance = random.Random(seed)
    limit, payloads = chance.choice((1, 300, LIMIT)), [mutated(chance) for _ in range(100)]
    accepted = 0
    for payload, fault in zip(payloads, faults_of(core, payloads, limit), strict=True):
        error = error_of(payload, limit)
        accepted += error is None
        if fault:
            assert isinstance(error, type(snappy_error(fault, limit))), payload
        elif error is not None:
            # The library rejects a literal with a long length if fewer than 4 bytes follow its tag.
            assert any(tag in payload[-5:] for tag in (0xF0, 0xF4, 0xF8)), payload
    assert accepted or limit == 1


@pytest.mark.parametrize("span", [(-1, 1), (0, -1), (11, 0), (10, 1), (2**63 - 1, 1)], ids=str)
def test_spans_outside_the_buffer_are_rejected(core: ModuleType, span: tuple[int, int]) -> None:
    positions, lengths = np.array([0, span[0]]), np.array([1, span[1]], np.int32)
    with pytest.raises(ValueError, match="span 1 is outside the buffer"):
        core.check_snappy(b"0123456789", positions, lengths, 2, LIMIT, np.zeros(2, np.int8))


def test_check_snappy_checks_its_arguments(core: ModuleType) -> None:
    spans = np.zeros(2, np.int64), np.ones(2, np.int32)
    with pytest.raises(ValueError, match="at least"):
        core.check_snappy(b"\0", *spans, 2, LIMIT, np.zeros(1, np.int8))
    for count, limit in ((-1, LIMIT), (2, -1)):
        with pytest.raises(ValueError, match="must be between 0"):
            core.check_snappy(b"\0", *spans, count, limit, np.zeros(2, np.int8))

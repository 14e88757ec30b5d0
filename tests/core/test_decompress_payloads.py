"""Decompress small payloads of different codecs in one call, and compare gzip data with zlib."""

from __future__ import annotations

import gzip
import random
import zlib
from types import ModuleType

import numpy as np
import pytest
from core_payloads import decompressed_payloads

from kafkafmt.constants import FAULT_GZIP_HEADER, FAULT_GZIP_INCOMPLETE, FAULT_SNAPPY_ELEMENT, GZIP_FAULTS, GZIP_WBITS

PLAIN, GZIP, SNAPPY, LZ4 = range(4)
LIMIT = 1 << 20
HEADER = b"\x1f\x8b\x08\x00" + bytes(6)


def results_of(core: ModuleType, payloads: list[bytes], room: int = 2 * LIMIT) -> list[bytes | int]:
    """Decompress gzip data. Return the result or the fault of each payload."""
    return decompressed_payloads(core, [(GZIP, payload) for payload in payloads], LIMIT, room)[0]


def expected_of(payload: bytes) -> bytes | int:
    """Return the result of zlib, or the index of its message in GZIP_FAULTS."""
    try:
        return zlib.decompress(payload, GZIP_WBITS)
    except zlib.error as error:
        message = str(error)
        return FAULT_GZIP_INCOMPLETE if message.startswith("Error -5 ") else GZIP_FAULTS.index(message.split(": ")[1])


def compressed(
    data: bytes, level: int = 9, strategy: int = zlib.Z_DEFAULT_STRATEGY, flushed_at: int | None = None
) -> bytes:
    """Return gzip data. If `flushed_at` is a position in `data`, a block ends there."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, GZIP_WBITS, strategy=strategy)
    parts = []
    if flushed_at is not None:
        parts = [compressor.compress(data[:flushed_at]), compressor.flush(zlib.Z_SYNC_FLUSH)]
        data = data[flushed_at:]
    return b"".join([*parts, compressor.compress(data), compressor.flush()])


def deflated(bits: str, data: bytes = b"", trailer: bytes | None = None) -> bytes:
    """Return gzip data with the given bits of deflate data, from the first bit on. The trailer is that of `data`."""
    bits = bits.replace(" ", "")
    blocks = bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8))
    if trailer is None:
        trailer = zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")
    return HEADER + blocks + trailer


def number(value: int, size: int) -> str:
    """Return the bits of a number, from the lowest bit on."""
    return f"{value:0{size}b}"[::-1]


def dynamic(lengths: dict[int, int], symbols: str, n_literals: int = 257, n_distances: int = 1) -> str:
    """Return the start of a last block with dynamic codes. `lengths` contains the lengths of the code length code."""
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
    counts = number(n_literals - 257, 5) + number(n_distances - 1, 5) + number(len(order) - 4, 4)
    return "1 01" + counts + "".join(number(lengths.get(symbol, 0), 3) for symbol in order) + symbols


ONE_OR_ZERO = {0: 1, 1: 2, 18: 2}
"""Lengths of a code length code. It encodes length 0 as 0, length 1 as 10, and 11 to 138 zeros as 11."""
ZEROS_138, ZEROS_118 = "11" + number(127, 7), "11" + number(107, 7)
END_OF_BLOCK_ONLY = ZEROS_138 + ZEROS_118 + "10"
"""Only symbol 256 has a code. This code is 0."""
FIXED = "1 10"
EMPTY = "0000000"
"""The end of a block with fixed codes."""

VALID = {
    "empty": deflated(FIXED + EMPTY),
    "stored": compressed(b"stored", 0),
    "empty stored blocks": HEADER + bytes([0, 0, 0, 255, 255]) * 9 + bytes([1, 0, 0, 255, 255]) + bytes(8),
    "fixed codes": compressed(b"value 1 value 2", strategy=zlib.Z_FIXED),
    "dynamic codes": compressed(b"".join(b"%d," % (i * i) for i in range(200))),
    "long codes": compressed(b"".join(bytes([i]) * (1 << i) for i in range(16)), strategy=zlib.Z_HUFFMAN_ONLY),
    "runs": compressed(b"a" * 1000 + b"ab" * 500 + b"abc" * 99),
    "longest distance": compressed(bytes(range(256)) + bytes(32_768 - 256) + bytes(range(256))),
    "two blocks": compressed(b"value " * 20, flushed_at=50),
    "bytes after the member": compressed(b"value") + b"rest",
    "a second member": compressed(b"value") * 2,
    "a code with one symbol": deflated(dynamic(ONE_OR_ZERO, END_OF_BLOCK_ONLY + "0") + "0"),
    "a distance code with one symbol": deflated(dynamic(ONE_OR_ZERO, END_OF_BLOCK_ONLY + "10") + "0"),
}
INVALID = {
    "only a header": HEADER,
    "no end of the trailer": compressed(b"value")[:-1],
    "no trailer": compressed(b"value")[:-8],
    "block type": deflated("1 11"),
    "stored size": deflated("1 00 00000" + number(5, 16) + number(5, 16)),
    "stored bytes": deflated("1 00 00000" + number(9, 16) + number(9 ^ 0xFFFF, 16), trailer=b""),
    "too many literals": deflated(dynamic({}, "", n_literals=287)),
    "too many distances": deflated(dynamic({}, "", n_distances=31)),
    "more codes than bits allow": deflated(dynamic({0: 1, 1: 1, 2: 1}, "")),
    "fewer codes than bits allow": deflated(dynamic({0: 1, 1: 2}, "")),
    "a single code for lengths": deflated(dynamic({0: 1}, "")),
    "no code for lengths": deflated(dynamic({}, "0" * 258)),
    "repeat without a length": deflated(dynamic({0: 1, 16: 1}, "1" + "00")),
    "repeat beyond the end": deflated(dynamic(ONE_OR_ZERO, ZEROS_138 * 2)),
    "no end of block": deflated(dynamic(ONE_OR_ZERO, ZEROS_138 + ZEROS_118 + "0" + "0")),
    "too many literal codes": deflated(dynamic(ONE_OR_ZERO, "1010" + "11" + number(125, 7) + ZEROS_118 + "10" + "0")),
    "too few literal codes": deflated(dynamic({0: 1, 2: 2, 18: 2}, ZEROS_138 + ZEROS_118 + "10" + "0")),
    "too few distance codes": deflated(
        dynamic({0: 2, 1: 2, 2: 2, 18: 2}, "11" + number(127, 7) + "11" + number(107, 7) + "01" + "10")
    ),
    "no such literal": deflated(dynamic(ONE_OR_ZERO, END_OF_BLOCK_ONLY + "0") + "1"),
    "literal 286": deflated(FIXED + "11000110"),
    "distance 30": deflated(FIXED + "00110000" + "0000001" + "11110"),
    "distance without a code": deflated(dynamic(ONE_OR_ZERO, ZEROS_138 + ZEROS_118 + "1010" + "0", 258) + "1" + "0"),
    "distance too far back": deflated(FIXED + "0000001" + "00000"),
    "CRC": compressed(b"value")[:-8] + bytes(4) + compressed(b"value")[-4:],
    "size": compressed(b"value")[:-4] + bytes(4),
}


@pytest.mark.parametrize("name", VALID)
def test_gzip_data_is_decompressed(core: ModuleType, name: str) -> None:
    expected = zlib.decompress(VALID[name], GZIP_WBITS)
    assert results_of(core, [VALID[name]]) == [expected]
    assert results_of(core, [VALID[name]], len(expected)) == [expected]


@pytest.mark.parametrize("name", INVALID)
def test_gzip_data_has_the_fault_that_zlib_reports(core: ModuleType, name: str) -> None:
    fault = expected_of(INVALID[name])
    assert isinstance(fault, int)
    assert results_of(core, [compressed(b"a"), INVALID[name], compressed(b"b")]) == [b"a", fault, b"b"]


def test_all_faults_of_gzip_data_are_tested() -> None:
    assert {*map(expected_of, INVALID.values()), 0, FAULT_GZIP_HEADER} == set(range(len(GZIP_FAULTS)))


@pytest.mark.parametrize("name", VALID)
def test_truncated_gzip_data_is_incomplete(core: ModuleType, name: str) -> None:
    payload = VALID[name].removesuffix(b"rest")
    cut = [payload[:n] for n in range(min(len(payload), 300))]
    assert results_of(core, cut) == [expected_of(part) for part in cut]


def test_gzip_data_with_another_header_is_rejected(core: ModuleType) -> None:
    payload = bytearray(compressed(b"value"))
    for at, other in ((0, 0x1E), (1, 0x8A), (2, 7), (3, 1)):
        assert results_of(core, [bytes(payload[:at] + bytes([other]) + payload[at + 1 :])]) == [FAULT_GZIP_HEADER]


@pytest.mark.parametrize("seed", range(30))
def test_mutated_gzip_data_has_the_result_of_zlib(core: ModuleType, seed: int) -> None:
    chance = random.Random(seed)
    payloads = []
    for _ in range(60):
        alphabet = chance.choice((1, 2, 16, 60, 256))
        data = bytes(chance.randrange(alphabet) for _ in range(chance.choice((0, 5, 60, 300)))) * chance.choice(
            (1, 1, 9)
        )
        strategy = chance.choice((zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE))
        flushed_at = chance.choice((None, len(data) // 2))
        whole = compressed(data, chance.choice((0, 1, 6, 9)), strategy, flushed_at)
        for _ in range(20):
            payload = bytearray(whole)
            for _ in range(chance.choice((1, 1, 2))):
                # Often change the first bytes, which contain the codes of a block.
                payload[chance.randrange(10, chance.choice((min(24, len(payload)), len(payload))))] ^= (
                    1 << chance.randrange(8)
                )
            payloads.append(
                bytes(payload[: chance.choice((len(payload), len(payload), chance.randrange(len(payload))))])
            )
    assert results_of(core, payloads, 1 << 24) == [expected_of(payload) for payload in payloads]


@pytest.mark.parametrize("name", ["stored", "fixed codes", "dynamic codes", "runs"])
def test_a_result_that_does_not_fit_is_left_to_the_next_call(core: ModuleType, name: str) -> None:
    payload, size = VALID[name], len(zlib.decompress(VALID[name], GZIP_WBITS))
    payloads = [(PLAIN, b"first"), (GZIP, payload), (PLAIN, b"last")]
    for room in (5, 6, 5 + size // 2, 4 + size):
        assert decompressed_payloads(core, payloads, LIMIT, room) == ([b"first"], 1)
    assert decompressed_payloads(core, payloads, LIMIT, 5 + size)[1] == 2
    assert decompressed_payloads(core, payloads, size - 1, LIMIT) == ([b"first"], 1)
    assert decompressed_payloads(core, payloads, size, LIMIT)[1] == 3


def test_payloads_of_different_codecs_are_decompressed_in_one_call(core: ModuleType) -> None:
    payloads = [(PLAIN, b"plain"), (GZIP, compressed(b"gzip")), (SNAPPY, b"\x01\x00s"), (LZ4, b"lz4"), (-1, b"skipped")]
    payloads += [(SNAPPY, b"\x01\x00"), (GZIP, HEADER), (PLAIN, b"")]
    found, done = decompressed_payloads(core, payloads, LIMIT, LIMIT)
    assert found == [b"plain", b"gzip", b"s", 0, 0, FAULT_SNAPPY_ELEMENT, FAULT_GZIP_INCOMPLETE, b""]
    assert done == len(payloads)
    assert decompressed_payloads(core, payloads, LIMIT, LIMIT, stop_at_fault=True) == (found[:6], 6)
    assert decompressed_payloads(core, payloads, LIMIT, 4) == ([], 0)


@pytest.mark.parametrize("span", [(-1, 1), (0, -1), (11, 0), (10, 1), (2**63 - 1, 1)], ids=str)
def test_spans_outside_the_buffer_are_rejected(core: ModuleType, span: tuple[int, int]) -> None:
    positions, lengths = np.array([0, span[0]]), np.array([1, span[1]], np.int32)
    for codec in (PLAIN, GZIP, SNAPPY, -1):
        codecs, results = (
            np.full(2, codec, np.int64),
            (np.zeros(9, np.uint8), np.zeros(2, np.int64), np.zeros(2, np.int8)),
        )
        with pytest.raises(ValueError, match="span 1 is outside the buffer"):
            core.decompress_payloads(b"\0" + bytes(9), positions, lengths, codecs, 2, LIMIT, False, *results)


def test_decompress_payloads_checks_its_arguments(core: ModuleType) -> None:
    spans, out = (np.zeros(2, np.int64), np.ones(2, np.int32)), np.zeros(9, np.uint8)
    codecs, sizes, faults = np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int8)
    for arrays in ((codecs[:1], sizes, faults), (codecs, sizes[:1], faults), (codecs, sizes, faults[:1])):
        with pytest.raises(ValueError, match="at least"):
            core.decompress_payloads(b"a", *spans, arrays[0], 2, LIMIT, False, out, *arrays[1:])
    for count, limit in ((-1, LIMIT), (2, -1)):
        with pytest.raises(ValueError, match="must be between 0"):
            core.decompress_payloads(b"a", *spans, codecs, count, limit, False, out, sizes, faults)
    out.flags.writeable = False
    with pytest.raises((TypeError, ValueError, BufferError)):
        core.decompress_payloads(b"a", *spans, codecs, 2, LIMIT, False, out, sizes, faults)


def test_data_of_the_gzip_module_is_decompressed(core: ModuleType) -> None:
    assert results_of(core, [gzip.compress(b"value" * n, mtime=0) for n in range(30)]) == [
        b"value" * n for n in range(30)
    ]

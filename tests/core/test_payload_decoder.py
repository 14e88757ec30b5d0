"""Test that the core decompresses a window of many batches like each of its batches."""

from __future__ import annotations

import gzip
import random
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import isal.isal_zlib
import lz4.frame
import numpy as np
import pytest
from building import compress

from kafkafmt.codecs import functions
from kafkafmt.codecs.compressor import Compressor
from kafkafmt.codecs.decompressor import Arena, Decompressor
from kafkafmt.codecs.functions import CodecFunctions, codec_functions
from kafkafmt.constants import CODEC_FUNCTIONS, CODEC_NAMES
from kafkafmt.errors import KafkaFormatError
from kafkafmt.types import BATCH_DTYPE, BatchTable

CODECS = (1, 2, 3, 4)
LIMIT = 1 << 20


def window(payloads: list[tuple[int, bytes]], magic: int = 2) -> tuple[memoryview, BatchTable]:
    """Return a buffer with the payloads, and the table of their batches."""
    table = np.zeros(len(payloads), BATCH_DTYPE)
    table["magic"], table["attributes"] = magic, [codec for codec, _ in payloads]
    table["payload_size"] = [len(data) for _, data in payloads]
    table["payload_position"] = np.cumsum(table["payload_size"]) - table["payload_size"]
    return memoryview(b"".join(data for _, data in payloads)), table


def decoded(
    core: ModuleType, addresses: dict[str, int], payloads: list[tuple[int, bytes]], magic: int = 2
) -> list[Any]:
    """Return the data of each payload, or None if the core refuses it."""
    view, table = window(payloads, magic)
    decoder, moved, arena = core.PayloadDecoder(addresses), np.empty(len(table), BATCH_DTYPE), Arena(1)
    found: list[Any] = []
    while len(found) < len(payloads):
        begin, start = len(found), arena.filled
        row, arena.filled, needed = decoder.append(view, table, moved, begin, arena.view, arena.filled, 1 << 40, LIMIT)
        for size in moved["payload_size"][begin:row].tolist():
            found.append(bytes(arena.view[start : start + size]))
            start += size
        if needed:
            assert row < len(payloads)
            arena.room(needed - arena.filled)
        elif row < len(payloads):
            found.append(None)
    return found


CONTENTS = [b"", b"x", b"text " * 100, bytes(70_000), random.Random(1).randbytes(3000), b"abcdefg" * 30_000]


@pytest.mark.parametrize("codec", CODECS)
def test_native_core_decompresses_what_the_packages_write(native: ModuleType, codec: int) -> None:
    payloads = [(codec, Compressor(codec).compress(content)) for content in CONTENTS]
    assert decoded(native, codec_functions().addresses, payloads) == CONTENTS


def test_uncompressed_payloads_are_copied(native: ModuleType) -> None:
    assert decoded(native, {}, [(0, content) for content in CONTENTS]) == CONTENTS


def test_pure_core_leaves_all_payloads_to_the_caller() -> None:
    from kafkafmt import _pure

    assert decoded(_pure, codec_functions().addresses, [(0, b"x"), (2, compress(2, b"x"))]) == [None, None]


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_codec_without_functions_is_left_to_the_caller(native: ModuleType, codec: int) -> None:
    assert decoded(native, {}, [(codec, compress(codec, b"text")), (0, b"x")]) == [None, b"x"]


def test_gzip_is_decompressed_with_zlib_if_isal_is_missing(native: ModuleType) -> None:
    addresses = {name: at for name, at in codec_functions().addresses.items() if not name.startswith("isal")}
    assert "zlib_inflate" in addresses
    payloads = [(1, gzip.compress(content)) for content in CONTENTS]
    assert decoded(native, addresses, payloads) == CONTENTS
    assert decoded(native, addresses, [(1, payloads[2][1][:-1]), payloads[2]]) == [None, CONTENTS[2]]


REFUSED = {
    "a second gzip member": (1, gzip.compress(b"a") + gzip.compress(b"b")),
    "bytes after gzip data": (1, gzip.compress(b"a") + b"more"),
    "a name in the gzip header": (1, b"\x1f\x8b\x08\x08" + gzip.compress(b"a")[4:10] + b"name\0" + gzip.compress(b"a")[10:]),
    "a wrong CRC of gzip data": (1, gzip.compress(b"abc")[:-8] + b"\1\2\3\4" + gzip.compress(b"abc")[-4:]),
    "a wrong size of gzip data": (1, gzip.compress(b"abc")[:-4] + b"\x04\0\0\0"),
    "truncated lz4 data": (3, lz4.frame.compress(b"text" * 50)[:-3]),
    "lz4 data without an end mark": (3, lz4.frame.compress(b"text")[:-4]),
    "truncated zstd data": (4, compress(4, b"text" * 50)[:-1]),
    "bytes after zstd data": (4, compress(4, b"text") + b"more"),
    "truncated snappy data": (2, compress(2, b"text" * 50)[:-1]),
    "no data": (4, b""),
    "an unknown codec": (5, b"text"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_odd_payload_is_refused_between_others(native: ModuleType, what: str) -> None:
    """The Python API of the packages decides about it, and names the error."""
    good = [(codec, compress(codec, b"good %d" % codec)) for codec in CODECS]
    addresses = codec_functions().addresses
    assert decoded(native, addresses, [*good, REFUSED[what], *good]) == [
        *(b"good 1", b"good 2", b"good 3", b"good 4"),
        None,
        *(b"good 1", b"good 2", b"good 3", b"good 4"),
    ]


@pytest.mark.parametrize(("magic", "codec"), [(0, 3), (0, 4), (1, 4)])
def test_codecs_of_old_formats_are_refused(native: ModuleType, magic: int, codec: int) -> None:
    """Format 0 has another checksum in lz4 frames, and zstd is not supported."""
    assert decoded(native, codec_functions().addresses, [(codec, compress(codec, b"text"))], magic) == [None]


@pytest.mark.parametrize("codec", CODECS)
def test_data_above_the_limit_is_refused_and_costs_only_the_limit(codec: int) -> None:
    limit = 100_000
    bomb = compress(codec, bytes(50 << 20))
    view, table = window(
        [(codec, compress(codec, bytes(limit))), (codec, compress(codec, bytes(limit + 1))), (codec, bomb)]
    )
    decompressor, arena, moved = Decompressor(limit), Arena(1), np.empty(3, BATCH_DTYPE)
    assert decompressor.append(view, table, moved, 0, arena, 1 << 40) == 1
    assert moved["payload_size"][0] == limit
    for row in (1, 2):
        assert decompressor.append(view, table, moved, row, arena, 1 << 40) == row
        start = int(table["payload_position"][row])
        payload = view[start : start + int(table["payload_size"][row])]
        with pytest.raises(KafkaFormatError, match="more than the limit of 100000 bytes"):
            decompressor.decompress(codec, payload, arena)
    assert len(arena.view) <= 4 * limit


def test_uncompressed_payload_above_the_limit_is_copied(native: ModuleType) -> None:
    """The limit applies to decompressed data."""
    contents = [bytes(100), bytes(5000)]
    view, table = window([(2, compress(2, contents[0])), (0, contents[1])])
    arena, moved = Arena(1), np.empty(2, BATCH_DTYPE)
    assert Decompressor(1000).append(view, table, moved, 0, arena, 1 << 40) == 2
    assert moved["payload_size"].tolist() == [100, 5000]
    assert bytes(arena.view[: arena.filled]) == b"".join(contents)


def test_call_ends_when_the_arena_has_enough_bytes(native: ModuleType) -> None:
    view, table = window([(2, compress(2, bytes(100)))] * 10)
    decoder, moved, arena = native.PayloadDecoder({}), np.empty(10, BATCH_DTYPE), bytearray(2000)
    assert decoder.append(view, table, moved, 0, arena, 0, 250, LIMIT) == (3, 300, 0)
    assert decoder.append(view, table, moved, 3, arena, 300, 1 << 40, LIMIT) == (10, 1000, 0)


def test_impossible_arguments_are_refused(native: ModuleType) -> None:
    view, table = window([(0, b"abc")])
    table["payload_position"] = 1
    moved = np.empty(1, BATCH_DTYPE)
    decoder = native.PayloadDecoder({})
    assert decoder.append(view, table, moved, 0, bytearray(9), 0, 9, LIMIT) == (0, 0, 0)
    with pytest.raises(ValueError, match="10 bytes are filled of an arena of 9 bytes"):
        decoder.append(view, table, moved, 0, bytearray(9), 10, 99, LIMIT)
    with pytest.raises(ValueError, match="writable"):
        decoder.append(view, table, moved, 0, bytes(9), 0, 9, LIMIT)


def test_threads_cannot_share_a_decoder(native: ModuleType) -> None:
    payload = compress(4, random.Random(1).randbytes(1 << 18) * 4)
    view, table = window([(4, payload)] * 40)
    decoder, errors = native.PayloadDecoder(codec_functions().addresses), []
    ready = threading.Barrier(2)

    def work() -> None:
        moved, arena = np.empty(40, BATCH_DTYPE), bytearray(42 << 20)
        ready.wait()
        for _ in range(20):
            try:
                assert decoder.append(view, table, moved, 0, arena, 0, 1 << 40, 2 << 20)[0] == 40
            except RuntimeError as error:
                errors.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(errors) == {"another thread is using this PayloadDecoder"}


def test_all_functions_are_found_here() -> None:
    """The wheels for Linux export them."""
    assert set(codec_functions().addresses) == set(CODEC_FUNCTIONS)
    assert set(codec_functions().libraries) == set(CODEC_NAMES) - {"none"}


def test_package_without_the_functions_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later version can export other names, or be a module without a shared object."""
    monkeypatch.setattr(lz4.frame, "_frame", random)
    monkeypatch.setattr(isal.isal_zlib, "__file__", functions.__file__)
    found = CodecFunctions()
    assert not [name for name in found.addresses if name.startswith(("lz4", "isal"))]
    assert found.libraries["gzip"].startswith("zlib ")


def test_unknown_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isal, "ISAL_MINOR_VERSION", 99)
    assert CodecFunctions().libraries["gzip"].startswith("zlib ")


def test_missing_package_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "_cffi.so").write_bytes(b"no shared object")
    monkeypatch.setattr("zstandard.__file__", str(tmp_path / "__init__.py"))
    found = CodecFunctions()
    assert "zstd" not in found.libraries
    assert "zstd_decompress" not in found.addresses

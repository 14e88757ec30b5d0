"""Check decompression of all forms that Kafka's Java client reads, errors, and the size limit."""

from __future__ import annotations

import gzip
import os
import random
import re
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import building as build
import cramjam
import lz4.frame
import pytest
import zstandard

from kafkafmt.codecs import decompressor as codecs
from kafkafmt.codecs import packages
from kafkafmt.codecs.decompressor import Arena, Decompressor
from kafkafmt.errors import KafkaFormatError, StructureError, TooLargeError, UnsupportedError

GZIP, SNAPPY, LZ4, ZSTD = build.GZIP, build.SNAPPY, build.LZ4, build.ZSTD
ALL = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
MIB = 1 << 20
TEXT = b"".join(b'{"id": %d, "name": "record"}\n' % i for i in range(5000))
NOISE = random.Random(3).randbytes(100_000)


@pytest.fixture(params=ALL)
def codec(request: pytest.FixtureRequest) -> int:
    return ALL[request.param]


def unpack(codec: int, payload: bytearray | bytes | memoryview, limit: int = 64 * MIB) -> bytes:
    arena = Arena(16)
    size = Decompressor(limit).decompress(codec, payload, arena)
    assert arena.filled == size
    return arena.data[:size].tobytes()


@pytest.mark.parametrize("data", [b"", b"a", b"x" * 70_000, TEXT, NOISE, TEXT * 20], ids=len)
def test_compressed_data_is_decompressed(codec: int, data: bytes) -> None:
    payload = build.compress(codec, data)
    for form in (payload, bytearray(payload), memoryview(payload)):
        assert unpack(codec, form) == data


def test_batches_are_appended_to_the_arena(codec: int) -> None:
    arena, decompressor = Arena(1), Decompressor()
    parts = [os.urandom(n) + bytes(n) for n in (0, 1, 1000, 300_000, 5)]
    places = []
    for part in parts:
        start = arena.filled
        size = decompressor.decompress(codec, build.compress(codec, part), arena)
        places.append((start, size))
    assert [arena.data[a : a + n].tobytes() for a, n in places] == parts
    assert arena.filled == sum(map(len, parts))


@pytest.mark.parametrize("number", [-1, 0, 5, 6, 7, 99])
def test_unknown_codec_is_not_supported(number: int) -> None:
    with pytest.raises(UnsupportedError):
        Decompressor().decompress(number, b"abc", Arena())


def test_wrong_limit_is_a_value_error() -> None:
    for limit in (0, -1):
        with pytest.raises(ValueError):
            Decompressor(limit)


# --- sequences of frames, as Java reads them


def test_consecutive_gzip_members_are_decompressed() -> None:
    assert unpack(GZIP, gzip.compress(b"one") + gzip.compress(b"") + gzip.compress(TEXT)) == b"one" + TEXT


@pytest.mark.parametrize("rest", [b"\0", b"\0" * 100, b"garbage", b"\x1f", b"\x1f\x00"])
def test_bytes_after_the_last_gzip_member_are_ignored(rest: bytes) -> None:
    assert unpack(GZIP, gzip.compress(TEXT) + rest) == TEXT


def test_gzip_header_with_all_fields_is_read() -> None:
    body = zlib.compress(b"data")[2:-4]
    extra = struct.pack("<H", 4) + b"abcd"
    payload = (
        b"\x1f\x8b\x08\x1c"
        + bytes(6)
        + extra
        + b"name\0"
        + b"comment\0"
        + body
        + struct.pack("<II", zlib.crc32(b"data"), 4)
    )
    assert unpack(GZIP, payload) == b"data"


def test_consecutive_zstd_frames_are_decompressed() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"abcde"
    empty = struct.pack("<II", 0x184D2A50, 0)
    one, two = zstandard.compress(b"one"), build.compress(ZSTD, TEXT)
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(NOISE)
    assert unpack(ZSTD, one + two) == b"one" + TEXT
    assert unpack(ZSTD, skippable + one + empty + checked + two + skippable) == b"one" + NOISE + TEXT
    assert unpack(ZSTD, skippable) == b""


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_791, 65_792, 300_000])
@pytest.mark.parametrize("content_size", [True, False])
def test_zstd_frame_headers_of_all_sizes_are_read(size: int, content_size: bool) -> None:
    for data in (NOISE.ljust(size, b"x")[:size], b"x" * size):
        packer = zstandard.ZstdCompressor(write_content_size=content_size, write_checksum=size % 2 == 0)
        assert unpack(ZSTD, packer.compress(data)) == data


def test_consecutive_xerial_streams_are_decompressed() -> None:
    assert unpack(SNAPPY, build.xerial(TEXT) + build.xerial(b"") + build.xerial(b"two", block=2)) == TEXT + b"two"
    assert unpack(SNAPPY, build.xerial(b"")) == b""


def test_raw_snappy_block_is_decompressed() -> None:
    for data in (b"", b"a", TEXT, NOISE):
        assert unpack(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("block", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB])
def test_lz4_frames_with_all_options_are_decompressed(linked: bool, block: int) -> None:
    for options in ({}, {"content_checksum": True, "block_checksum": True}, {"store_size": False}):
        packed = lz4.frame.compress(TEXT * 9, block_size=block, block_linked=linked, **options)
        assert unpack(LZ4, packed) == TEXT * 9


# --- damaged data


def test_every_truncation_is_an_error(codec: int) -> None:
    """An exception is snappy, whose streams have no end mark.

    As in Java, up to 3 bytes after a block are ignored.
    """
    payload = build.compress(codec, TEXT[:3000] + NOISE[:500])
    arena, decompressor = Arena(), Decompressor()
    for cut in range(len(payload)):
        if codec == SNAPPY and 16 <= cut < 20:
            continue
        with pytest.raises(StructureError):
            decompressor.decompress(codec, payload[:cut], arena)
        assert arena.filled == 0
    assert decompressor.decompress(codec, payload, arena) == 3500


def test_error_in_reserved_block_is_returned_without_traceback(codec: int) -> None:
    arena, decompressor = Arena(), Decompressor()
    with decompressor.reserved() as decompress:
        error = decompress(codec, memoryview(build.compress(codec, NOISE)[:25]), arena)
    assert isinstance(error, StructureError)
    assert (error.__traceback__, arena.filled) == (None, 0)
    with pytest.raises(StructureError, match=re.escape(error.message)):
        decompressor.decompress(codec, build.compress(codec, NOISE)[:25], arena)


def test_corrupted_data_leaves_the_decompressor_usable(codec: int) -> None:
    good = build.compress(codec, TEXT)
    arena, decompressor, noise = Arena(), Decompressor(4 * MIB), random.Random(5)
    decompressor.decompress(codec, good, arena)
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(noise.randint(1, 4)):
            bad[noise.randrange(len(bad))] = noise.randrange(256)
        if noise.random() < 0.3:
            bad = bytearray(noise.randbytes(noise.randint(0, 200)))
        try:
            decompressor.decompress(codec, bad, arena)
        except KafkaFormatError:
            assert arena.filled == len(TEXT)
        arena.filled = len(TEXT)
        assert decompressor.decompress(codec, good, arena) == len(TEXT)
        assert arena.data[len(TEXT) : 2 * len(TEXT)].tobytes() == TEXT
        arena.filled = len(TEXT)


def test_wrong_checksum_is_an_error() -> None:
    gzipped, framed = (
        bytearray(gzip.compress(TEXT)),
        bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)),
    )
    blocks = bytearray(lz4.frame.compress(TEXT, block_checksum=True, content_checksum=True))
    for codec, payload, at in ((GZIP, gzipped, -6), (ZSTD, framed, -2), (LZ4, blocks, -2)):
        payload[at] ^= 1
        with pytest.raises(StructureError):
            unpack(codec, payload)


@pytest.mark.parametrize(
    "payload",
    [
        build.XERIAL_MAGIC,
        build.xerial(b"abc")[:15],
        build.xerial(b"")[:16] + struct.pack(">i", -1),
        build.xerial(b"")[:16] + struct.pack(">i", 100) + b"abc",
        build.xerial(b"")[:16] + struct.pack(">i", 0) + b"abc",
        b"\xff\xff\xff\xff\xff",
        b"\xff\xff",
        b"\x05",
    ],
    ids=bytes.hex,
)
def test_damaged_snappy_data_is_an_error(payload: bytes) -> None:
    with pytest.raises(KafkaFormatError):
        unpack(SNAPPY, payload)


@pytest.mark.parametrize("rest", [b"garbage", b"\x28\xb5\x2f\xfd", b"\0", b"\x50\x2a\x4d\x18\xff\xff\xff\x00abc"])
def test_bytes_after_a_zstd_frame_are_an_error(rest: bytes) -> None:
    with pytest.raises(StructureError):
        unpack(ZSTD, zstandard.compress(TEXT) + rest)


class OtherError(Exception):
    pass


@pytest.mark.parametrize(
    "error", [OtherError("boom"), ValueError("boom"), TypeError("boom"), OSError("boom"), MemoryError()]
)
def test_exceptions_of_codec_packages_become_our_errors(
    monkeypatch: pytest.MonkeyPatch, codec: int, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    names = {GZIP: "_gzip", SNAPPY: "_snappy", LZ4: "_lz4_frame", ZSTD: "_zstd_frames"}
    monkeypatch.setattr(Decompressor, names[codec], fail)
    arena = Arena()
    with pytest.raises(TooLargeError if isinstance(error, MemoryError) else StructureError):
        Decompressor().decompress(codec, b"x", arena)
    assert arena.filled == 0


def test_object_without_buffer_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        Decompressor().decompress(GZIP, "text", Arena())  # type: ignore[arg-type]


# --- the work, counted in bytes, is linear in the size of the input


class CountedMember:
    """A zlib decompressor that counts its input, its output, and the unused input that zlib copies."""

    work = 0

    def __init__(self, wbits: int) -> None:
        self._member = zlib.decompressobj(wbits)

    def decompress(self, data: memoryview, max_length: int) -> bytes:
        part = self._member.decompress(data, max_length)
        CountedMember.work += len(data) + len(part) + len(self._member.unused_data) + len(self._member.unconsumed_tail)
        return part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._member, name)


class CountedZlib:
    decompressobj = CountedMember


GZIP_SHAPES: dict[str, Callable[[int], bytes]] = {
    "empty members": lambda n: gzip.compress(b"") * n,
    "small members": lambda n: gzip.compress(NOISE[:300]) * n,
    "a large member, then empty ones": lambda n: gzip.compress(NOISE[: 40 * n]) + gzip.compress(b"") * n,
    "an empty member, then a large one": lambda n: gzip.compress(b"") + gzip.compress(NOISE[: 40 * n]),
    "members that expand": lambda n: gzip.compress(bytes(70_000)) * (n // 10),
    "a member, then bytes that are ignored": lambda n: gzip.compress(b"x") + bytes(40 * n),
}


@pytest.mark.parametrize("shape", GZIP_SHAPES)
def test_gzip_work_is_linear_in_its_input(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    monkeypatch.setattr(codecs, "zlib", CountedZlib)
    work = []
    for n in (500, 1000, 2000):
        CountedMember.work = 0
        payload = GZIP_SHAPES[shape](n)
        size = len(unpack(GZIP, payload))
        work.append(CountedMember.work)
        assert CountedMember.work <= 16 * (len(payload) + size) + 4096
    assert work[2] <= 2.2 * work[1] <= 2.2 * 2.2 * work[0]


class CountedBytes:
    """Counts the bytes in slices of a payload, and the bytes that the codec packages receive."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work = self.calls = 0
        for owner, name in (
            (packages.lz4_frame, "decompress_chunk"),
            (cramjam.snappy, "decompress_raw_into"),
        ):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: int) -> Any:
            self.calls += 1
            self.work += sum(memoryview(a).nbytes for a in arguments[:2] if isinstance(a, bytes | memoryview))
            return function(*arguments, **options)

        return call


FRAMED: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "empty xerial blocks": (SNAPPY, lambda n: build.xerial(b"")[:16] + (struct.pack(">i", 1) + b"\0") * n),
    "xerial streams": (SNAPPY, lambda n: build.xerial(b"a") * n),
    "small lz4 blocks": (LZ4, lambda n: lz4_of_blocks(n)),
}


def lz4_of_blocks(n: int) -> bytes:
    """Return an lz4 frame with `n` uncompressed blocks of 8 bytes."""
    whole: bytes = lz4.frame.compress(b"", block_linked=False, store_size=False)
    return whole[:7] + (struct.pack("<I", 0x80000008) + b"abcdefgh") * n + bytes(4)


@pytest.mark.parametrize("framing", FRAMED)
def test_work_is_linear_in_the_number_of_blocks(monkeypatch: pytest.MonkeyPatch, framing: str) -> None:
    codec, make = FRAMED[framing]
    work = []
    for n in (500, 1000, 2000):
        with monkeypatch.context() as patch:
            counted = CountedBytes(patch)
            payload = make(n)
            unpack(codec, payload)
        work.append((counted.work, counted.calls))
        assert counted.work <= 2 * len(payload)
    assert work[2][0] <= 2.2 * work[1][0] <= 2.2 * 2.2 * work[0][0]
    assert work[2][1] <= 2.2 * work[1][1] + 8


@pytest.mark.parametrize(
    "frame", [zstandard.compress(b""), zstandard.compress(b"a"), struct.pack("<II", 0x184D2A50, 0)], ids=len
)
def test_each_zstd_frame_is_read_once(monkeypatch: pytest.MonkeyPatch, frame: bytes) -> None:
    """The payload is read once to check the headers, and once by the decompressor."""
    readers = []

    class Counted:
        def __init__(self) -> None:
            self._zstd = zstandard.ZstdDecompressor()

        def decompress(self, data: bytes, size: int) -> bytes:
            readers.append(len(data))
            return self._zstd.decompress(data, size)

        def stream_reader(self, data: memoryview, **options: bool) -> zstandard.ZstdDecompressionReader:
            readers.append(len(data))
            return self._zstd.stream_reader(data, **options)

    for n in (500, 1000, 2000):
        readers.clear()
        decompressor = Decompressor()
        monkeypatch.setattr(decompressor, "_zstd", Counted())
        decompressor.decompress(ZSTD, frame * n, Arena())
        assert readers == [len(frame) * n]


# --- the size limit


def test_limit_is_exact(codec: int) -> None:
    for data in (TEXT, b"x" * 100_000, NOISE):
        payload = build.compress(codec, data)
        assert unpack(codec, payload, len(data)) == data
        with pytest.raises(TooLargeError):
            unpack(codec, payload, len(data) - 1)
        with pytest.raises(TooLargeError):
            unpack(codec, payload, 1)


def zstd_bomb(size: int) -> bytes:
    """Return a frame without a content size. Each block has 4 bytes, which repeat one byte 128 Ki times."""
    block = ((128 * 1024) << 3 | 2).to_bytes(3, "little") + b"x"
    last = (1 << 3 | 2 | 1).to_bytes(3, "little") + b"x"
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * (size // (128 * 1024)) + last


BOMBS: dict[str, tuple[int, Callable[[], bytes]]] = {  # each of these decompresses to 5 GB, or states this size
    "gzip members": (GZIP, lambda: gzip.compress(bytes(50 * MIB), 9) * 100),
    "zstd blocks": (ZSTD, lambda: zstd_bomb(5 * 10**9)),
    "zstd frames": (ZSTD, lambda: zstandard.compress(bytes(50 * MIB)) * 100),
    "zstd content size": (ZSTD, lambda: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 5 * 10**9) + b"\x01\x00\x00"),
    "lz4 blocks": (LZ4, lambda: lz4.frame.compress(bytes(200 * MIB), store_size=False)),
    "lz4 content size": (LZ4, lambda: lz4.frame.compress(bytes(200 * MIB), store_size=True)),
    "snappy length": (SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + bytes(10_000)),
    "snappy length of 35 bits": (SNAPPY, lambda: b"\xff\xff\xff\xff\x7f" + bytes(10_000)),
    "xerial blocks": (
        SNAPPY,
        lambda: build.xerial(bytes(32 * 1024)) + build.xerial(bytes(32 * MIB), block=MIB)[16:] * 2,
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_memory_for_a_decompression_bomb_is_bounded(bomb: str) -> None:
    codec, make = BOMBS[bomb]
    payload, limit = make(), 8 * MIB
    decompressor, arena = Decompressor(limit), Arena()
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            decompressor.decompress(codec, payload, arena)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert arena.filled == 0
    assert peak < 4 * limit  # the arena, its larger replacement, and one part
    assert decompressor.decompress(codec, build.compress(codec, TEXT), arena) == len(TEXT)


def test_small_batch_needs_little_memory(codec: int) -> None:
    """The limit has no effect here, because no memory is allocated in advance."""
    payload, decompressor, arena = build.compress(codec, TEXT[:2000]), Decompressor(), Arena()
    decompressor.decompress(codec, payload, arena)
    tracemalloc.start()
    decompressor.decompress(codec, payload, arena)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256 * 1024


# --- other packages


def test_gzip_is_decompressed_without_isal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "zlib", zlib)
    assert unpack(GZIP, gzip.compress(b"one") + gzip.compress(TEXT) + b"rest") == b"one" + TEXT
    with pytest.raises(StructureError):
        unpack(GZIP, gzip.compress(TEXT)[:-1])
    with pytest.raises(TooLargeError):
        unpack(GZIP, gzip.compress(bytes(MIB)), MIB - 1)

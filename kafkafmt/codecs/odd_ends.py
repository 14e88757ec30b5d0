"""Decompress data as far as possible if its end is odd.

`codecs.Decompressor` refuses data whose checksum, trailer or end mark is wrong or missing, or that
is followed by other bytes. The records of such a batch can still be complete. This module reads
the data step by step, so that everything before the odd end is available. It is plain and slow, and
is used only for data that `Decompressor` has refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

from ..constants import CODEC_GZIP, CODEC_LZ4, CODEC_SNAPPY, CODEC_ZSTD, XERIAL_HEADER_SIZE, XERIAL_MAGIC
from ..errors import KafkaFormatError
from .decompressor import GZIP_MAGIC, Arena, Decompressor, too_large
from .packages import lz4_frame, read_blocks
from .zstd_frames import MAGIC, RLE_BLOCK, SKIPPABLE, header_size

_GZIP_STEPS = (16384, 128, 1)
"""Numbers of bytes that are passed to zlib at a time. If zlib fails, the next smaller number is used."""
_GZIP_TRAILER = 8
_GZIP_IGNORED = 18
"""Java ignores so many bytes after a gzip trailer, and more if they do not begin with a complete header."""
_LZ4_STORED = 0x80000000
"""Bit in the size of an lz4 block that is not compressed."""
_JAVA_ZSTD_INPUT = 131075
"""Number of bytes that zstd-jni reads at a time."""


class Prefix(NamedTuple):
    """Data that was decompressed up to an odd end."""

    data: bytes
    oddity: str
    """Description of what is odd."""
    java_reads: bool
    """Whether Kafka's Java code reads the data without an error."""


class _Input:
    """Compressed data, and its decompressed part."""

    def __init__(self, codec: int, payload: memoryview, limit: int) -> None:
        self.codec, self.payload, self.limit = codec, payload, limit
        self.out = bytearray()

    def add(self, part: bytes) -> None:
        self.out += part
        if len(self.out) > self.limit:
            raise too_large(self.codec, self.limit)


def decompress_prefix(codec: int, payload: memoryview, limit: int) -> Prefix | None:
    """Decompress `payload` up to its odd end. Return None if nothing can be decompressed."""
    # TooLargeError: above `limit`.
    source = _Input(codec, payload, limit)
    read = _READERS.get(codec)
    if read is None:
        return None
    oddity, java_reads = read(source)
    return Prefix(bytes(source.out), oddity, java_reads) if source.out else None


def _gzip(source: _Input) -> tuple[str, bool]:
    payload, p = source.payload, 0
    oddity, java_reads = "bytes follow the gzip data", True
    while payload[p : p + 2] == GZIP_MAGIC:
        start, done, body = p, len(source.out), _gzip_body(payload, p)
        if body is None or 0 < start >= len(payload) - _GZIP_IGNORED:
            return oddity, java_reads
        p, complete = _inflate(source, body)
        if not complete:
            return "the gzip data ends inside a member, or is invalid", False
        data = source.out[done:]
        trailer = zlib.crc32(data).to_bytes(4, "little") + (len(data) & 0xFFFFFFFF).to_bytes(4, "little")
        if payload[p : p + _GZIP_TRAILER] != trailer:
            oddity, java_reads = "the gzip trailer is wrong or missing", False
        p += _GZIP_TRAILER
    return oddity, java_reads


def _gzip_body(payload: memoryview, p: int) -> int | None:
    """Return the position after the header of the gzip member at `p`, or None if there is no complete header."""
    header = payload[p : p + 10]
    if len(header) < 10 or header[2] != 8:
        return None
    flags, p = header[3], p + 10
    if flags & 4:
        p += 2 + int.from_bytes(payload[p : p + 2], "little")
    for flag in (8, 16):  # a file name and a comment, which end with a zero byte
        if flags & flag:
            end = payload[p:].tobytes().find(0)
            if end < 0:
                return None
            p += end + 1
    if flags & 2:
        p += 2
    return p if p <= len(payload) else None


def _inflate(source: _Input, p: int) -> tuple[int, bool]:
    """Inflate raw data from `p` on. Return the position after it, and whether it is complete."""
    inflater, steps = zlib.decompressobj(-zlib.MAX_WBITS), list(_GZIP_STEPS)
    while not inflater.eof and p < len(source.payload):
        before, part = inflater.copy() if len(steps) > 1 else inflater, source.payload[p : p + steps[0]]
        try:
            source.add(inflater.decompress(part))
        except zlib.error:
            if len(steps) == 1:
                return p, False
            inflater = before
            del steps[0]
            continue
        p += len(part)
    return p - len(inflater.unused_data), inflater.eof


def _snappy(source: _Input) -> tuple[str, bool]:
    """Decompress the blocks of xerial streams."""
    payload, p, arena = source.payload, XERIAL_HEADER_SIZE, Arena(1 << 16)
    decompressor = Decompressor(source.limit)
    while payload[:8] == XERIAL_MAGIC and len(payload) - p >= 4:
        if payload[p : p + 8] == XERIAL_MAGIC:
            p += XERIAL_HEADER_SIZE
            continue
        block = payload[p + 4 : p + 4 + int.from_bytes(payload[p : p + 4], "big")]
        arena.filled = 0
        try:
            if p + 4 + int.from_bytes(payload[p : p + 4], "big") > len(payload):
                break
            decompressor.decompress(CODEC_SNAPPY, block, arena)
        except KafkaFormatError:
            break
        source.add(arena.view[: arena.filled].tobytes())
        p += 4 + len(block)
    return "bytes that are not a block follow the last snappy block", False


def _lz4(source: _Input) -> tuple[str, bool]:
    payload = source.payload
    if len(payload) < 7:
        return "", False
    flags, largest = payload[4], 1 << 8 + 2 * (payload[5] >> 4 & 7)
    p = 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    context = lz4_frame.create_decompression_context()
    try:
        lz4_frame.decompress_chunk(context, payload[:p])
        while True:
            size = int.from_bytes(payload[p : p + 4], "little")
            if len(payload) - p < 4:
                return "the lz4 data ends before its end mark", False
            if size & ~_LZ4_STORED == 0:
                break
            end = p + 4 + (size & ~_LZ4_STORED) + (4 if flags & 16 else 0)
            if end > len(payload):
                return "the lz4 data ends inside a block", False
            source.add(lz4_frame.decompress_chunk(context, payload[p:end], max_length=largest)[0])
            p = end
    except RuntimeError:
        return "an lz4 block is invalid", False
    if size:
        return "the lz4 end mark has the flag of an uncompressed block", True
    if flags & 8 and int.from_bytes(payload[6:14], "little") != len(source.out):
        return "the size in the lz4 header is wrong", True
    if flags & 4 and len(payload) - p < 8:
        return "the lz4 content checksum is missing", False
    return "the lz4 content checksum is wrong", True


def _zstd(source: _Input) -> tuple[str, bool]:
    payload, p, n = source.payload, 0, len(source.payload)
    oddity, java_reads = "", True
    while p < n:
        start = p
        magic = int.from_bytes(payload[p : p + 4], "little")
        # Java ignores an incomplete frame that it reads together with the end of the frame before.
        cut = (
            "the zstd data ends inside a frame",
            java_reads and 0 < start and (start - 1) // _JAVA_ZSTD_INPUT == (n - 1) // _JAVA_ZSTD_INPUT,
        )
        if magic & 0xFFFFFFF0 == SKIPPABLE and n - p >= 8:
            p += 8 + int.from_bytes(payload[p + 4 : p + 8], "little")
            if p > n:
                return cut
            continue
        if n - p < 5 and MAGIC.to_bytes(4, "little").startswith(payload[p : p + 4].tobytes()):
            return cut
        if magic != MAGIC:
            return "bytes that are not a frame follow the zstd data", False
        descriptor, last = payload[p + 4], 0
        ends = [header_size(descriptor)]
        while not last and n - p - ends[-1] >= 3:
            at = p + ends[-1]
            block = int.from_bytes(payload[at : at + 3], "little")
            end = ends[-1] + 3 + (1 if block & 6 == RLE_BLOCK else block >> 3)
            if end > n - p:
                break
            last = block & 1
            ends.append(end)
        blocks = len(ends)
        if last and descriptor & 4 and n - p - ends[-1] >= 4:
            ends.append(ends[-1] + 4)
        content, good = read_blocks(payload[p:], ends, source.limit - len(source.out))
        source.add(content)
        if good < blocks:
            return "a zstd block is invalid", False
        if not last:
            return cut
        if descriptor & 4 and len(ends) == blocks:
            return "the zstd checksum is missing", False
        if good < len(ends):
            oddity, java_reads = "the zstd checksum is wrong", False
        p += ends[-1]
    return oddity, java_reads


_READERS: dict[int, Callable[[_Input], tuple[str, bool]]] = {
    CODEC_GZIP: _gzip,
    CODEC_SNAPPY: _snappy,
    CODEC_LZ4: _lz4,
    CODEC_ZSTD: _zstd,
}

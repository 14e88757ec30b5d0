"""Compressed data with an odd end: a wrong or missing checksum, trailer or end mark, or bytes after the data."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import lz4.frame
import zstandard

from kafkafmt import build_batch
from kafkafmt._backend import core
from kafkafmt.codecs.compressor import Compressor
from kafkafmt.constants import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    CRC_AT,
    CRC_START,
    ENTRY_OVERHEAD,
    LENGTH_AT,
)
from kafkafmt.records.lz4v0 import with_right_checksum


def lz4_frame(data: bytes, **options: bool) -> bytes:
    frame: bytes = lz4.frame.compress(data, block_linked=False, **options)
    return frame


def zstd_frame(data: bytes, checksum: bool = False) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=checksum).compress(data)


def changed(data: bytes, at: int) -> bytes:
    copy = bytearray(data)
    copy[at] ^= 0x10
    return bytes(copy)


def odd_ends(data: bytes) -> list[tuple[str, int, bytes, str, bool]]:
    """Return names, codecs and compressed data with odd ends, with the expected description, and whether Java reads it."""
    packed, zstd = gzip.compress(data, mtime=0), zstd_frame(data)
    xerial = Compressor(CODEC_SNAPPY).compress(data)
    checked = lz4_frame(data, content_checksum=True)
    sized = lz4_frame(data, store_size=True)
    unmarked = lz4_frame(data, store_size=False)[:-4]
    summed = zstd_frame(data, checksum=True)
    return [
        ("gzip-crc", CODEC_GZIP, changed(packed, -6), "trailer is wrong", False),
        ("gzip-size", CODEC_GZIP, changed(packed, -2), "trailer is wrong", False),
        ("gzip-no-trailer", CODEC_GZIP, packed[:-8], "trailer is wrong", False),
        ("gzip-cut-trailer", CODEC_GZIP, packed[:-3], "trailer is wrong", False),
        ("gzip-second-header-cut", CODEC_GZIP, packed + b"\x1f\x8b", "bytes follow", True),
        ("gzip-second-header-bad", CODEC_GZIP, packed + b"\x1f\x8b\x07" + bytes(50), "bytes follow", True),
        ("gzip-second-member-cut", CODEC_GZIP, packed + gzip.compress(b"")[:15], "bytes follow", True),
        ("gzip-second-member-bad", CODEC_GZIP, packed + gzip.compress(b"")[:10] + b"\xff" * 20, "inside a", False),
        ("snappy-trailing", CODEC_SNAPPY, xerial + b"\x00\x00\x00\x50abcd", "follow the last snappy block", False),
        ("snappy-negative", CODEC_SNAPPY, xerial + b"\xff\xff\xff\xf0abcd", "follow the last snappy block", False),
        ("snappy-bad-block", CODEC_SNAPPY, xerial + b"\x00\x00\x00\x04\x05abc", "follow the last snappy", False),
        ("lz4-no-end-mark", CODEC_LZ4, unmarked, "before its end mark", False),
        ("lz4-cut-end-mark", CODEC_LZ4, unmarked + b"\x00\x00", "before its end mark", False),
        ("lz4-flagged-end-mark", CODEC_LZ4, unmarked + b"\x00\x00\x00\x80", "flag of an uncompressed", True),
        ("lz4-cut-block", CODEC_LZ4, unmarked + b"\x50\x00\x00\x00ab", "inside a block", False),
        ("lz4-checksum-wrong", CODEC_LZ4, changed(checked, -1), "content checksum is wrong", True),
        ("lz4-checksum-missing", CODEC_LZ4, checked[:-4], "content checksum is missing", False),
        ("lz4-checksum-cut", CODEC_LZ4, checked[:-1], "content checksum is missing", False),
        ("lz4-size-wrong", CODEC_LZ4, with_other_size(sized), "size in the lz4 header", True),
        ("zstd-garbage", CODEC_ZSTD, zstd + b"garbage", "not a frame", False),
        ("zstd-second-magic-cut", CODEC_ZSTD, zstd + b"\x28\xb5", "inside a frame", True),
        ("zstd-second-frame-cut", CODEC_ZSTD, zstd + zstd_frame(b"")[:6], "inside a frame", True),
        ("zstd-skippable-cut", CODEC_ZSTD, zstd + b"\x50\x2a\x4d\x18\x09\x00\x00\x00", "inside a", True),
        ("zstd-checksum-wrong", CODEC_ZSTD, changed(summed, -1), "checksum is wrong", False),
        ("zstd-checksum-missing", CODEC_ZSTD, summed[:-4], "checksum is missing", False),
    ]  # fmt: skip


def with_other_size(frame: bytes) -> bytes:
    """Change the content size in the header of an lz4 frame, and correct the header checksum."""
    return bytes(with_right_checksum(memoryview(changed(frame, 7))))


def batch_of(codec: int, payload: bytes, header: bytes) -> bytes:
    """Return a batch with compressed data and the other header fields of an uncompressed batch."""
    batch = bytearray(header[:BATCH_HEADER_SIZE]) + payload
    batch[ATTRIBUTES_AT + 1] |= codec
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - ENTRY_OVERHEAD)
    struct.pack_into(">I", batch, CRC_AT, core.crc32c(batch, 0, CRC_START))
    return bytes(batch)


def batches_with_odd_ends(count: int = 40, base_offset: int = 100, size: int = 50) -> dict[str, tuple[bytes, bool]]:
    """Return a batch for each odd end, and whether Java reads it to its end."""
    records = [(b"key %d" % i, b"%d " % i * size, 1_700_000_000_000 + i) for i in range(count)]
    plain = bytes(build_batch(records, base_offset=base_offset))
    return {
        name: (batch_of(codec, payload, plain), java_reads)
        for name, codec, payload, _, java_reads in odd_ends(plain[BATCH_HEADER_SIZE:])
    }


def batches_that_java_refuses() -> dict[str, bytes]:
    """Return batches that kafkafmt reads although Kafka's Java code does not read them."""
    records = [(b"key %d" % i, b"%d " % i * 5000) for i in range(40)]
    plain = bytes(build_batch(records))
    data = plain[BATCH_HEADER_SIZE:]
    blocks = lz4_frame(data)
    empty = bytes(build_batch([(None, b"v")]))[:BATCH_HEADER_SIZE]
    empty = empty[:57] + bytes(4)
    return {
        "lz4-linked-blocks": batch_of(CODEC_LZ4, lz4.frame.compress(data, block_linked=True), plain),
        "lz4-empty-block": batch_of(CODEC_LZ4, blocks[:15] + struct.pack("<I", 0x80000000) + blocks[15:], plain),
        "lz4-dictionary": batch_of(CODEC_LZ4, with_dictionary_id(blocks), plain),
        **{f"empty-{codec}": batch_of(codec, b"", empty) for codec in (CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4)},
    }


def batch_with_two_oddities() -> bytes:
    """Return a batch of 40 records whose lz4 blocks depend on earlier blocks, and whose lz4 frame has no end mark."""
    plain = bytes(build_batch([(b"key %d" % i, b"%d " % i * 5000) for i in range(40)]))
    frame = lz4.frame.compress(plain[BATCH_HEADER_SIZE:], block_linked=True)
    return batch_of(CODEC_LZ4, frame[:-4], plain)


def with_dictionary_id(frame: bytes) -> bytes:
    header = bytes([*frame[:4], frame[4] | 1, *frame[5:14]]) + b"\x01\x02\x03\x04" + b"\x00"
    return bytes(with_right_checksum(memoryview(header + frame[15:])))


def write_log(directory: Path, *batches: bytes) -> Path:
    """Write batches with consecutive offsets to a new partition directory, and return it."""
    partition = directory / "t-0"
    partition.mkdir(parents=True)
    data, offset = bytearray(), 0
    for batch in batches:
        moved = bytearray(batch)
        moved[:8] = offset.to_bytes(8, "big")
        data += moved
        offset += int.from_bytes(batch[23:27], "big") + 1
    (partition / f"{0:020}.log").write_bytes(data)
    return partition

"""Check the structure of zstd frames (RFC 8878), without decompressing them."""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..errors import StructureError

MAGIC, SKIPPABLE = 0xFD2FB528, 0x184D2A50
SMALLEST = 8
"""Size of the smallest zstd frame, in bytes: a skippable frame without content."""
LARGEST_BLOCK = 128 * 1024
"""Largest size of a block after decompression, in bytes."""
RLE_BLOCK = 2
COMPRESSED_BLOCK = 4
_START = struct.Struct("<IB")


class Frame(NamedTuple):
    """The place of a frame in zstd data."""

    start: int
    end: int
    most: int
    """Largest size that the blocks can have after decompression."""


def content_frames(data: memoryview) -> list[Frame]:
    """Return the frames of zstd data, without the skippable ones. StructureError: a frame is incomplete."""
    # The decompressor does not detect incomplete frames.
    p, n, frames = 0, len(data), []
    while n - p >= SMALLEST:
        start, most = p, 0
        magic, descriptor = _START.unpack_from(data, p)
        if magic != MAGIC:
            if magic & 0xFFFFFFF0 != SKIPPABLE:
                raise StructureError("zstd data contains bytes that are not part of a frame")
            p += 8 + int.from_bytes(data[p + 4 : p + 8], "little")
            continue
        p += _HEADER_SIZES[descriptor]
        last = 0
        while not last:
            if n - p < 3:
                raise StructureError("zstd data ends inside a frame")
            block = data[p] | data[p + 1] << 8 | data[p + 2] << 16
            last = block & 1
            kind = block & 6
            most += LARGEST_BLOCK if kind == COMPRESSED_BLOCK else block >> 3
            p += 3 + (1 if kind == RLE_BLOCK else block >> 3)
        p += descriptor & 4  # Skip the checksum if it exists.
        frames.append(Frame(start, p, most))
    if p != n:
        raise StructureError("zstd data ends inside a frame")
    return frames


def content_size(header: memoryview) -> int:
    """Return the size that the header of a frame states for its content, or -1. For a skippable frame, return 0."""
    # ValueError: the data does not begin with a complete header.
    if len(header) < 5:
        raise ValueError("the header of a zstd frame is incomplete")
    magic, descriptor = _START.unpack_from(header)
    if magic & 0xFFFFFFF0 == SKIPPABLE:
        return 0
    if magic != MAGIC:
        raise ValueError("zstd data does not begin with a frame")
    end = _HEADER_SIZES[descriptor]
    if len(header) < end:
        raise ValueError("the header of a zstd frame is incomplete")
    size = (descriptor >> 5 & 1, 2, 4, 8)[descriptor >> 6]
    if not size:
        return -1
    return int.from_bytes(header[end - size : end], "little") + (256 if size == 2 else 0)


def header_size(descriptor: int) -> int:
    """Return the size of a zstd frame header, from its fifth byte."""
    # The header consists of the magic, descriptor, window size, dictionary id and content size.
    size = 6 + (0, 1, 2, 4)[descriptor & 3] + (0, 2, 4, 8)[descriptor >> 6]
    # A frame with a single segment has no window byte, and its content size has at least one byte.
    if descriptor & 0x20:
        size -= descriptor >= 0x40
    return size


_HEADER_SIZES = [header_size(descriptor) for descriptor in range(256)]

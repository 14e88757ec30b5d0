"""Check the structure of zstd frames (RFC 8878), without decompressing them."""

from __future__ import annotations

import struct

from ..errors import StructureError

MAGIC, SKIPPABLE = 0xFD2FB528, 0x184D2A50
SMALLEST = 8
"""Size of the smallest zstd frame, in bytes: a skippable frame without content."""
RLE_BLOCK = 2
_START = struct.Struct("<IB")


def is_single_frame(data: memoryview) -> bool:
    """Return True if zstd data is a single frame, and not a skippable one. StructureError: a frame is incomplete."""
    # The decompressor does not detect incomplete frames.
    p, n, frames = 0, len(data), 0
    while n - p >= SMALLEST:
        magic, descriptor = _START.unpack_from(data, p)
        frames += 1
        if magic != MAGIC:
            if magic & 0xFFFFFFF0 != SKIPPABLE:
                raise StructureError("zstd data contains bytes that are not part of a frame")
            p += 8 + int.from_bytes(data[p + 4 : p + 8], "little")
            frames += 1
            continue
        p += _HEADER_SIZES[descriptor]
        last = 0
        while not last:
            if n - p < 3:
                raise StructureError("zstd data ends inside a frame")
            block = data[p] | data[p + 1] << 8 | data[p + 2] << 16
            last = block & 1
            p += 3 + (1 if block & 6 == RLE_BLOCK else block >> 3)
        p += descriptor & 4  # Skip the checksum if it exists.
    if p != n:
        raise StructureError("zstd data ends inside a frame")
    return frames == 1


def header_size(descriptor: int) -> int:
    """Return the size of a zstd frame header, from its fifth byte."""
    # The header consists of the magic, descriptor, window size, dictionary id and content size.
    size = 6 + (0, 1, 2, 4)[descriptor & 3] + (0, 2, 4, 8)[descriptor >> 6]
    # A frame with a single segment has no window byte, and its content size has at least one byte.
    if descriptor & 0x20:
        size -= descriptor >= 0x40
    return size


_HEADER_SIZES = [header_size(descriptor) for descriptor in range(256)]

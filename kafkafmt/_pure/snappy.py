"""Decompress snappy data, and find snappy data that cannot be decompressed.

A snappy block consists of its size after decompression, as an unsigned varint, and of elements. The
lowest two bits of an element's first byte are its kind:

    0        a literal: bytes of the output. The upper 6 bits contain its length - 1. If they are 60 to 63,
             the next 1 to 4 bytes contain the length - 1.
    1        a copy of 4 to 11 bytes of earlier output. The offset has 11 bits, in this byte and the next one.
    2 or 3   a copy of 1 to 64 bytes of earlier output. The next 2 or 4 bytes contain the offset.

All numbers are little-endian. The numbers in the framing of xerial's snappy-java are big-endian.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..constants import (
    FAULT_SNAPPY_ELEMENT,
    FAULT_SNAPPY_LENGTH,
    FAULT_SNAPPY_LIMIT,
    FAULT_SNAPPY_SIZE,
    FAULT_XERIAL_BLOCK,
    FAULT_XERIAL_HEADER,
    MAX_VARINT_BYTES,
    SNAPPY_MAX_RATIO,
    XERIAL_HEADER_SIZE,
    XERIAL_MAGIC,
)
from ..types import Buffer, IntArray, LengthArray, byte_view
from .gather import need
from .varint import natural


class SnappyFault(Exception):
    """Raised with an index of SNAPPY_FAULTS."""


def check_snappy(
    buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, limit: int, faults: npt.NDArray[np.int8]
) -> None:
    need(faults, natural(count))
    for row, data in enumerate(spans_of(buffer, positions, lengths, count, limit)):
        try:
            for _ in decompress_snappy(data, limit):
                pass
            faults[row] = 0
        except SnappyFault as fault:
            faults[row] = fault.args[0]


def spans_of(buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, limit: int) -> Iterator[bytes]:
    """Check the arguments, and yield the compressed data."""
    view = byte_view(buffer)
    need(positions, natural(count))
    need(lengths, count)
    natural(limit)
    for row, (p, n) in enumerate(zip(positions[:count].tolist(), lengths[:count].tolist(), strict=True)):
        if p < 0 or n < 0 or n > len(view) - p:
            raise ValueError(f"span {row} is outside the buffer")
        yield bytes(view[p : p + n])


def decompress_snappy(data: bytes, limit: int) -> Iterator[bytes]:
    """Yield the decompressed blocks. Raise SnappyFault if a block is not valid, or if all blocks have more than `limit` bytes."""
    for block in _blocks(data):
        found = _decompress_block(block, limit)
        limit -= len(found)
        yield found


def _blocks(data: bytes) -> Iterator[bytes]:
    """Yield the raw snappy blocks of xerial streams, or `data` itself if it does not begin with xerial's header."""
    if not data.startswith(XERIAL_MAGIC):
        yield data
        return
    if len(data) < XERIAL_HEADER_SIZE:
        raise SnappyFault(FAULT_XERIAL_HEADER)
    p = XERIAL_HEADER_SIZE
    while len(data) - p >= 4:
        if data.startswith(XERIAL_MAGIC, p):
            p += XERIAL_HEADER_SIZE
            continue
        size = int.from_bytes(data[p : p + 4], "big", signed=True)
        p += 4
        if not 0 <= size <= len(data) - p:
            raise SnappyFault(FAULT_XERIAL_BLOCK)
        yield data[p : p + size]
        p += size


def _decompress_block(block: bytes, limit: int) -> bytes:
    last = next((i for i, byte in enumerate(block[:MAX_VARINT_BYTES]) if byte < 0x80), None)
    if last is None:
        raise SnappyFault(FAULT_SNAPPY_LENGTH)
    stated = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(block[: last + 1]))
    if stated > limit:
        raise SnappyFault(FAULT_SNAPPY_LIMIT)
    if stated > SNAPPY_MAX_RATIO * len(block):
        raise SnappyFault(FAULT_SNAPPY_SIZE)
    p, out = last + 1, bytearray()
    while p < len(block):
        tag, kind = block[p], block[p] & 3
        p += 1
        n = (tag >> 2) + 1
        extra = max(n - 60, 0) if kind == 0 else 4 if kind == 3 else kind
        if extra > len(block) - p:
            raise SnappyFault(FAULT_SNAPPY_ELEMENT)
        number = int.from_bytes(block[p : p + extra], "little")
        p += extra
        if kind == 0:
            n = number + 1 if extra else n
            if n > min(len(block) - p, stated - len(out)):
                raise SnappyFault(FAULT_SNAPPY_ELEMENT)
            out += block[p : p + n]
            p += n
        else:
            if kind == 1:
                n, number = 4 + (tag >> 2 & 7), tag >> 5 << 8 | number
            if not 0 < number <= len(out) or n > stated - len(out):
                raise SnappyFault(FAULT_SNAPPY_ELEMENT)
            copied = out[len(out) - number :][:n]
            out += (copied * (n // number + 1))[:n]  # the copy can overlap the output
    if len(out) != stated:
        raise SnappyFault(FAULT_SNAPPY_ELEMENT)
    return bytes(out)

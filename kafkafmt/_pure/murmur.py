"""Compute murmur2 hashes with the seed that Kafka's producers use, 0x9747b28c.

The data is read in words of 4 bytes, least significant byte first.
"""

from __future__ import annotations

import struct

from ..types import Buffer, IntArray, LengthArray
from .gather import need
from .varint import natural, view_of

SEED, FACTOR, WORD = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(buffer: Buffer) -> int:
    view = view_of(buffer)
    whole = len(view) // 4 * 4
    h = (SEED ^ len(view)) & WORD
    for (k,) in struct.iter_unpack("<I", view[:whole]):
        k = k * FACTOR & WORD
        k = (k ^ k >> 24) * FACTOR & WORD
        h = h * FACTOR & WORD ^ k
    if whole < len(view):
        h = (h ^ int.from_bytes(view[whole:], "little")) * FACTOR & WORD
    h = (h ^ h >> 13) * FACTOR & WORD
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


def murmur2_spans(buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, hashes: LengthArray) -> None:
    view = view_of(buffer)
    for array in (positions, lengths, hashes):
        need(array, natural(count))
    for i, (p, n) in enumerate(zip(positions[:count].tolist(), lengths[:count].tolist(), strict=True)):
        if n >= 0 and (p < 0 or n > len(view) - p):
            raise ValueError(f"span {i} is outside the buffer")
        hashes[i] = murmur2(view[p : p + n]) if n >= 0 else 0

"""Find the keys or values in a buffer that contain a byte string or are equal to it."""

from __future__ import annotations

from ..types import Buffer, IntArray, LengthArray, byte_view
from .gather import need
from .varint import natural


def find_spans(
    buffer: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    count: int,
    needle: Buffer,
    whole: bool,
    found: IntArray,
) -> int:
    view, searched = byte_view(buffer), bytes(byte_view(needle))
    need(positions, natural(count))
    need(lengths, count)
    need(found, count)
    matches = 0
    for row, (p, n) in enumerate(zip(positions[:count].tolist(), lengths[:count].tolist(), strict=True)):
        if n < 0:
            continue
        if p < 0 or n > len(view) - p:
            raise ValueError(f"span {row} is outside the buffer")
        value = bytes(view[p : p + n])
        if value == searched if whole else searched in value:
            found[matches] = row
            matches += 1
    return matches

"""Read varints, which store 7 bits per byte, least significant bits first.

Signed varints are zigzag-encoded: 0, -1, 1 and -2 become 0, 1, 2 and 3.

A 32-bit varint has at most 5 bytes, and a 64-bit varint has at most 10 bytes. Bits above the width
are dropped, as in Kafka's ByteUtils.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from ..constants import MAX_VARINT_BYTES, MAX_VARLONG_BYTES
from ..errors import StructureError, TruncatedError
from ..types import Buffer


def view_of(buffer: Buffer) -> memoryview:
    """Return a view of the buffer as unsigned bytes."""
    raw: Any = buffer
    view = memoryview(raw)
    if not view.c_contiguous:
        raise ValueError("a C-contiguous buffer is needed")
    # NumPy converts the buffers that memoryview.cast() does not support, such as structured arrays.
    if view.ndim != 1 or len(view.format.lstrip("@")) != 1:
        raw = np.frombuffer(view, np.uint8) if view.nbytes else b""
        view = memoryview(raw)
    return view.cast("B")


def natural(n: int) -> int:
    if index(n) < 0:
        raise ValueError(f"a count or position is {n}; it must be between 0 and 2**63 - 1")
    return n


def check_range(view: memoryview, start: int, end: int | None) -> int:
    """Return `end`, or the length of the buffer if `end` is None. Raise ValueError if [start, end) exceeds the buffer."""
    last = len(view) if end is None else natural(end)
    if last < natural(start) or last > len(view):
        raise ValueError(f"start {start} and end {last} are not a valid range of a buffer of {len(view)} bytes")
    return last


def raw_varint(view: memoryview | bytes, p: int, end: int, width: int) -> tuple[int, int]:
    """Return a varint without zigzag decoding, and the position after it."""
    # IndexError: it has more than `width` bytes.
    value = shift = 0
    for at in range(p, min(end, p + width)):
        byte = view[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (0xFFFFFFFF if width == MAX_VARINT_BYTES else 0xFFFFFFFFFFFFFFFF), at + 1
        shift += 7
    raise IndexError("varint")


def read(buffer: Buffer, start: int, end: int | None, width: int) -> tuple[int, int]:
    view = view_of(buffer)
    last = check_range(view, start, end)
    try:
        return raw_varint(view, start, last, width)
    except IndexError:
        if last - start >= width:
            raise StructureError(f"a varint has more than {width} bytes", start) from None
        raise TruncatedError("the input ends inside a varint", start) from None


def zigzag(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


def read_varint(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    raw, p = read(buffer, start, end, MAX_VARINT_BYTES)
    return zigzag(raw), p


def read_varlong(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    raw, p = read(buffer, start, end, MAX_VARLONG_BYTES)
    return zigzag(raw), p


def read_unsigned_varint(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    return read(buffer, start, end, MAX_VARINT_BYTES)

"""Copy values from a buffer into Arrow's binary layout: int32 offsets, data and a validity bitmap."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..support.text import quantity
from ..types import Buffer, ByteArray, IntArray, LengthArray
from .varint import natural, view_of


def need(array: Any, items: int) -> None:
    if len(array) < items:
        raise ValueError(f"an array of at least {items} items is needed; this one has {len(array)}")


def total_length(lengths: LengthArray, count: int) -> int:
    need(lengths, natural(count))
    return int(np.maximum(lengths[:count], 0).sum(dtype=np.int64))


def gather(
    buffer: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    count: int,
    offsets: LengthArray,
    data: ByteArray,
    validity: ByteArray | None,
    row: int = 0,
    filled: int = 0,
) -> tuple[int, int]:
    view = view_of(buffer)
    out = view_of(data)
    need(positions, natural(count))
    need(lengths, count)
    need(offsets, natural(row) + count + 1)
    if validity is not None:
        need(validity, (row + count + 7) // 8)
    room, end, nulls = len(out), natural(filled), 0
    if end > room or room > 2**31 - 1:
        raise ValueError("filled and the size of data must be between 0 and 2**31 - 1")
    offsets[row] = end
    for i, (p, n) in enumerate(zip(positions[:count].tolist(), lengths[:count].tolist(), strict=True)):
        if n >= 0:
            if p < 0 or n > len(view) - p or n > room - end:
                raise ValueError(
                    f"span {i} ({quantity(n, 'byte')} at {p}) is outside the buffer, or the data array is full"
                )
            out[end : end + n] = view[p : p + n]
            end += n
        else:
            nulls += 1
        if validity is not None:
            byte, bit = divmod(row + i, 8)
            validity[byte] = int(validity[byte]) | 1 << bit if n >= 0 else int(validity[byte]) & ~(1 << bit)
        offsets[row + i + 1] = end
    return end, nulls

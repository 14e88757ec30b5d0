"""Spans of a buffer, copied together into Arrow's binary layout: int32 offsets, data, a validity bitmap."""

from __future__ import annotations

import numpy as np

from ..types import Buffer, IntArray, LengthArray
from .varint import view_of


def total_length(lengths: LengthArray, count: int) -> int:
    return int(np.maximum(lengths[:count], 0).sum(dtype=np.int64))


def gather(
    buffer: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    count: int,
    offsets: LengthArray,
    data: np.ndarray,
    validity: np.ndarray | None,
    row: int = 0,
    filled: int = 0,
) -> tuple[int, int]:
    view = view_of(buffer)
    room, end, nulls = len(data), filled, 0
    if end < 0 or end > room or room > 2**31 - 1:
        raise ValueError("data filled so far and its room must lie within 0 and 2**31 - 1")
    if len(positions) < count or len(lengths) < count or len(offsets) < row + count + 1:
        raise ValueError(f"an array of at least {count} items is needed")
    out = memoryview(data).cast("B")
    offsets[row] = end
    for i, (p, n) in enumerate(zip(positions[:count].tolist(), lengths[:count].tolist(), strict=True)):
        if n >= 0:
            if p < 0 or n > len(view) - p or n > room - end:
                raise ValueError(f"span {i} ({n} bytes at {p}) does not lie in the buffer, or the data array is full")
            out[end : end + n] = view[p : p + n]
            end += n
        else:
            nulls += 1
        if validity is not None:
            bit = 1 << (row + i & 7)
            byte = int(validity[row + i >> 3])
            validity[row + i >> 3] = byte | bit if n >= 0 else byte & ~bit
        offsets[row + i + 1] = end
    return end, nulls

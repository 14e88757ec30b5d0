"""Select the byte ranges of a file to copy, and the byte ranges to read with one call."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from ..types import IntArray, LengthArray
from .varint import natural


def spans_outside(holes: IntArray, spans: IntArray, found: IntArray) -> int:
    pairs: list[tuple[int, int]] = [(start, end) for start, end in holes.tolist()]
    kept: list[tuple[int, int]] = []
    for start, end in spans.tolist():
        # Indexes instead of a slice, because copying the rest of the list for each span takes quadratic time.
        for i in range(bisect_left(pairs, start, key=lambda pair: pair[0]), len(pairs)):
            hole_start, hole_end = pairs[i]
            if hole_start >= end:
                break
            if hole_start >= start:  # otherwise, the hole begins inside the previous hole
                kept.append((start, hole_start))
                start = hole_end
        kept.append((start, end))
    kept = [(start, end) for start, end in kept if start < end]
    if len(kept) > len(found):
        raise ValueError(
            f"an array with space for at least {len(kept)} byte ranges is needed; this one has space for {len(found)}"
        )
    found[: len(kept)] = np.array(kept, np.int64).reshape(-1, 2)
    return len(kept)


def next_spans(
    spans: IntArray, first: int, largest: int, most: int, window: int, positions: IntArray, lengths: LengthArray
) -> tuple[int, int, int, int]:
    n, at, room = len(spans), natural(first), min(len(positions), len(lengths))
    if at >= n:
        raise ValueError(f"first is {first}, but there are {n} byte ranges")
    chosen: list[tuple[int, int]] = []
    low, high, total = int(spans[at, 0]), int(spans[at, 0]), 0
    while at < n:
        (start, end), following = spans[at].tolist(), at + 1
        while following < n and int(spans[following, 0]) == end:
            end = int(spans[following, 1])
            following += 1
        lowest, highest, size = min(low, start), max(high, end), total + end - start
        if len(chosen) == room or end - start > largest or size > most or highest - lowest > window:
            if not chosen:
                return following - first, 0, start, end - start
            break
        chosen.append((start, end))
        low, high, total, at = lowest, highest, size, following
    for i, (start, end) in enumerate(chosen):
        positions[i], lengths[i] = start - low, end - start
    return at - first, len(chosen), low, high - low

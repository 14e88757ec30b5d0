"""Find the ranges of lost offsets of a partition, and the times of the batches before and after each range."""

from __future__ import annotations

import numpy as np

from ...constants import DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT, MAX_OFFSET, NO_TIMESTAMP
from ...types import BatchTable, IntArray, last_offset, last_offsets
from ..damage import DamageColumns
from .reports import LostRange

OTHER_BASE_TIME = LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT
"""If one of these bits is set, the base timestamp of a batch is not the timestamp of its first record."""


class OffsetJumps:
    """Collects the places at which the offsets of valid batches jump, with the times of the batches around them."""

    def __init__(self, everywhere: bool = False) -> None:
        self.everywhere: bool = everywhere
        self._jumps: list[IntArray] = []
        """Arrays of four rows: first offset of each jump, offset after it, time before and time after it."""
        self._next, self._latest = 0, NO_TIMESTAMP  # offset and time after the last batch

    def add(self, table: BatchTable, damaged: bool) -> None:
        """Add batches in offset order. If their segment is not `damaged`, only a jump before the first one counts."""
        rows = table if damaged or self.everywhere else table[:1]
        following = np.append(self._next, last_offsets(rows)[:-1] + 1)
        at = np.flatnonzero(rows["base_offset"] > following)
        if len(at):
            before = np.append(self._latest, rows["max_timestamp"][:-1])
            other = (rows["attributes"] & OTHER_BASE_TIME) != 0
            after = np.where(other, rows["max_timestamp"], rows["base_timestamp"])
            self._jumps.append(np.stack([following[at], rows["base_offset"][at], before[at], after[at]]))
        self._next, self._latest = last_offset(table[-1]) + 1, int(table[-1]["max_timestamp"])

    def times(self, first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
        """Return the times before and after each range of offsets, or -1."""
        end = np.array([[self._next], [MAX_OFFSET], [self._latest], [NO_TIMESTAMP]])
        starts, ends, before, after = np.concatenate([*self._jumps, end], axis=1)

        def at(offsets: IntArray, times: IntArray) -> IntArray:
            jump = np.maximum(np.searchsorted(starts, offsets, "right") - 1, 0)
            inside = (starts[jump] <= offsets) & (offsets < ends[jump])
            return np.where(inside, times[jump], NO_TIMESTAMP)

        return at(first, before), at(last, after)


def lost_ranges(damaged: DamageColumns, low: int, jumps: OffsetJumps) -> tuple[LostRange, ...]:
    """Return the offsets from `low` on that may be missing. Adjacent and overlapping ranges are joined."""
    missing = ~damaged.empty & (damaged.last >= low)
    first, last = np.maximum(damaged.first[missing], low), damaged.last[missing]
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    begins = np.flatnonzero(np.append(True, first[1:] - 1 > last[:-1])[: len(first)])
    first, last = first[begins], last[np.append(begins[1:], len(last))[: len(begins)] - 1]
    times = jumps.times(first, last)
    rows = zip(first.tolist(), last.tolist(), *map(np.ndarray.tolist, times), strict=True)
    return tuple(
        LostRange(a, None if b == MAX_OFFSET else b, _known(before), _known(after)) for a, b, before, after in rows
    )


def _known(timestamp: int) -> int | None:
    return None if timestamp == NO_TIMESTAMP else timestamp

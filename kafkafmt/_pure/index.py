"""Build the entries of indexes from tables of batch headers, and find the batches to which existing entries refer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from ..constants import MAGIC_V0, MAGIC_V2, MAX_OFFSET
from ..types import BatchTable, Buffer, IndexState, IntArray, last_offsets
from .varint import view_of

ENTRY_TYPES = {8: np.dtype(">i4, >i4"), 12: np.dtype(">i8, >i4")}
"""Maps the size of an entry, in bytes, to its type: 8 for an offset index, 12 for a time index."""
MOST_DAMAGE = 32


def index_batches(
    table: BatchTable, position: int, interval: int, state: IndexState
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], IndexState]:
    indexed_at, largest, largest_at, indexed_timestamp = state
    offsets, times = [], []
    columns = table["position"].tolist(), last_offsets(table).tolist(), table["max_timestamp"].tolist()
    for start, last, timestamp in zip(*columns, strict=True):
        if timestamp > largest:
            largest, largest_at = timestamp, last
        if position + start > indexed_at + interval:
            indexed_at = position + start
            offsets.append((last, indexed_at))
            if largest > indexed_timestamp:
                times.append((largest, largest_at))
                indexed_timestamp = largest
    return offsets, times, (indexed_at, largest, largest_at, indexed_timestamp)


def read_index_entries(data: Buffer, entry_size: int, base_offset: int, entries: IntArray) -> int:
    if entry_size not in ENTRY_TYPES:
        raise ValueError(f"entry_size is {entry_size}; it must be 8 or 12")
    view = view_of(data)
    n = len(view) // entry_size
    raw = np.frombuffer(view, ENTRY_TYPES[entry_size], n)
    first, second = entries[:, :n]
    first[:], second[:] = raw["f0"], raw["f1"]
    relative = first if entry_size == 8 else second
    relative += base_offset  # offsets above 2**63 - 1 wrap around
    lows = (base_offset, 0) if entry_size == 8 else (0, base_offset)
    if not n or first[0] < lows[0] or second[0] < lows[1]:
        used = 0
    else:
        falls = (first[1:] <= first[:-1]) | (second[1:] < second[:-1])
        used = int(np.argmax(falls)) + 1 if falls.any() else n
        if used == 1 and (first[0], second[0]) == lows:
            used = 0
    return used


class IndexMatches:
    def __init__(self, offset_data: Buffer, time_data: Buffer, base_offset: int) -> None:
        self._base = base_offset
        self._offsets = _valid_entries(offset_data, 8, base_offset)
        self._times = _valid_entries(time_data, 12, base_offset)
        self.begin()

    @property
    def offset_entries(self) -> int:
        return len(self._offsets[0])

    @property
    def time_entries(self) -> int:
        return len(self._times[0])

    def begin(self) -> None:
        self.next_offset, self._largest = self._base, -1
        self._offsets[2], self._offsets[3:] = MAX_OFFSET, -1
        self._times[2:4], self._times[4] = -2, 0

    def add(self, table: BatchTable, position: int) -> None:
        if not len(table):
            return
        starts, lasts = (table["position"] + position).tolist(), last_offsets(table).tolist()
        offsets, positions, first_of, last_at, last_of = self._offsets
        _, time_offsets, timestamp_of, largest_upto, untimed = self._times
        places = positions.tolist()
        at_offset = int(offsets.searchsorted(lasts[0]))
        at_time = int(time_offsets.searchsorted(self.next_offset))
        columns = table["base_offset"].tolist(), table["max_timestamp"].tolist(), table["magic"].tolist()
        for start, last, base, timestamp, magic in zip(starts, lasts, *columns, strict=True):
            self._largest = max(self._largest, timestamp)
            for i in range(bisect_left(places, start), bisect_right(places, start)):
                first_of[i], last_at[i] = self.next_offset, last
            while at_offset < len(offsets) and offsets[at_offset] <= last:
                if offsets[at_offset] == last:
                    last_of[at_offset] = start
                at_offset += 1
            while at_time < len(time_offsets) and time_offsets[at_time] <= last:
                if base <= time_offsets[at_time] or magic < MAGIC_V2:
                    timestamp_of[at_time], largest_upto[at_time] = timestamp, self._largest
                    if magic == MAGIC_V0:
                        untimed[at_time] = 1
                at_time += 1
            self.next_offset = min(last + 1, MAX_OFFSET)

    def agree(self, end: int, firsts: IntArray, lasts: IntArray, starts: IntArray, lengths: IntArray) -> bool:
        offsets, positions, first_of, _, last_of = self._offsets
        wrong = ~((first_of <= offsets) & (offsets < end) & (last_of == positions))
        times, time_offsets, found, largest, _ = self._times
        untimely = ~((found == times) & (largest <= times) & (time_offsets < end))
        if len(firsts) > MOST_DAMAGE:
            return not (wrong.any() or untimely.any())
        ranges = list(zip(firsts.tolist(), lasts.tolist(), starts.tolist(), (starts + lengths).tolist(), strict=True))
        doubtful = list(zip(offsets[wrong].tolist(), positions[wrong].tolist(), strict=True))
        return all(any(a <= o <= b or p <= at < q for a, b, p, q in ranges) for o, at in doubtful) and all(
            any(a <= o <= b for a, b, _, _ in ranges) for o in time_offsets[untimely].tolist()
        )

    def copy_to(self, offsets: IntArray, times: IntArray) -> None:
        offsets[:], times[:] = self._offsets, self._times


def _valid_entries(data: Buffer, entry_size: int, base_offset: int) -> IntArray:
    """Return the valid entries of an index file, as the first two rows of an array with five rows."""
    entries = np.empty((2, len(view_of(data)) // entry_size), np.int64)
    n = read_index_entries(data, entry_size, base_offset, entries)
    return np.concatenate((entries[:, :n], np.empty((3, n), np.int64)))

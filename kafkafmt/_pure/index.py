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


def match_index_entries(
    table: BatchTable,
    position: int,
    expected: int,
    largest: int,
    offsets: IntArray,
    positions: IntArray,
    matches: IntArray,
    time_offsets: IntArray,
    time_matches: IntArray,
) -> tuple[int, int]:
    if not len(table):
        return expected, largest
    starts, lasts = (table["position"] + position).tolist(), last_offsets(table).tolist()
    places = positions.tolist()
    at_offset = int(offsets.searchsorted(lasts[0]))
    at_time = int(time_offsets.searchsorted(expected))
    first_of, last_at, last_of = matches
    timestamp_of, largest_upto, untimed = time_matches
    columns = table["base_offset"].tolist(), table["max_timestamp"].tolist(), table["magic"].tolist()
    for start, last, base, timestamp, magic in zip(starts, lasts, *columns, strict=True):
        largest = max(largest, timestamp)
        for i in range(bisect_left(places, start), bisect_right(places, start)):
            first_of[i], last_at[i] = expected, last
        while at_offset < len(offsets) and offsets[at_offset] <= last:
            if offsets[at_offset] == last:
                last_of[at_offset] = start
            at_offset += 1
        while at_time < len(time_offsets) and time_offsets[at_time] <= last:
            if base <= time_offsets[at_time] or magic < MAGIC_V2:
                timestamp_of[at_time], largest_upto[at_time] = timestamp, largest
                if magic == MAGIC_V0:
                    untimed[at_time] = 1
            at_time += 1
        expected = min(last + 1, MAX_OFFSET)
    return expected, largest


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


def index_entries_agree(
    offsets: IntArray,
    positions: IntArray,
    matches: IntArray,
    times: IntArray,
    time_offsets: IntArray,
    time_matches: IntArray,
    end: int,
    firsts: IntArray,
    lasts: IntArray,
    starts: IntArray,
    lengths: IntArray,
) -> bool:
    first_of, _, last_of = matches
    wrong = ~((first_of <= offsets) & (offsets < end) & (last_of == positions))
    found, largest, _ = time_matches
    untimely = ~((found == times) & (largest <= times) & (time_offsets < end))
    if len(firsts) > MOST_DAMAGE:
        return not (wrong.any() or untimely.any())
    ranges = list(zip(firsts.tolist(), lasts.tolist(), starts.tolist(), (starts + lengths).tolist(), strict=True))
    doubtful = list(zip(offsets[wrong].tolist(), positions[wrong].tolist(), strict=True))
    return all(any(a <= o <= b or p <= at < q for a, b, p, q in ranges) for o, at in doubtful) and all(
        any(a <= o <= b for a, b, _, _ in ranges) for o in time_offsets[untimely].tolist()
    )

"""Build the entries of indexes from tables of batch headers, and find the batches to which existing entries refer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ..constants import MAGIC_V0, MAGIC_V2, MAX_OFFSET
from ..types import BatchTable, IndexState, IntArray, last_offsets


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

"""Look up offsets and timestamps in the index files of a segment. Wrong index entries are detected.

An index is searched by bisection, as in a broker, so only a few entries are read. An entry is used
only if the segment contains the batch to which the entry refers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import ENTRY_OVERHEAD, MAX_OFFSET, MAX_RELATIVE_OFFSET, NO_TIMESTAMP
from ...support.paths import UrlPath
from ...types import BATCH_DTYPE, BatchTable, last_offset, last_offsets
from ..catalog import SegmentFile
from ..damage import FIRST_READ, Walker
from ..formats import OFFSET_ENTRY, TIME_ENTRY
from ..scanning import Head, IndexFile
from ..storage import FileView, only_zeros

SCAN_BYTES = 4 << 20  # largest distance between an entry's position and batch: up to Kafka 4.0, batches share an entry


class Entry(NamedTuple):
    first: int  # offset minus base offset, or timestamp in ms
    second: int  # position in bytes, or offset minus base offset


class TimeBounds(NamedTuple):
    """Bounds for the offset of the first record whose timestamp is at least the requested timestamp."""

    after: int  # inclusive: up to it, all records have earlier timestamps
    # up to it, a record should have the timestamp or a later one, according to an unchecked entry; None without one
    upto: int | None


def position_before(segment: SegmentFile, view: FileView, offset: int, exactly: bool = False) -> int:
    """Return a position from the offset index at which a search for `offset` can start, or 0."""
    # A batch starts there, and all earlier batches have lower offsets. With `exactly`, the batch at an entry's position
    # must contain the entry's offset: in a compacted log, this confirms the base offset.
    if segment.base_offset is None or offset <= segment.base_offset:
        return 0
    entry, _ = _around(
        segment.sibling_place(".index"), OFFSET_ENTRY, min(offset - segment.base_offset, MAX_RELATIVE_OFFSET), view
    )
    if entry is None:
        return 0
    batch = batch_at(view, entry.second)
    if batch is None or not segment.base_offset <= int(batch["base_offset"]) <= segment.base_offset + entry.first:
        return 0
    if exactly and last_offset(batch) < segment.base_offset + entry.first:
        return 0
    return entry.second


def indexed_offset(segment: SegmentFile, view: FileView, offset: int) -> int:
    """Return the largest offset in the offset index that is at most `offset`. If there is none, return -1."""
    if segment.base_offset is None or offset < segment.base_offset:
        return -1
    value = min(offset - segment.base_offset, MAX_RELATIVE_OFFSET)
    entry, _ = _around(segment.sibling_place(".index"), OFFSET_ENTRY, value, view)
    return -1 if entry is None else segment.base_offset + entry.first


def last_position_below(segment: SegmentFile, view: FileView, offset: int) -> int:
    """Return the position in the last entry of the offset index with an offset below `offset`, or -1."""
    if segment.base_offset is None:
        return -1
    value = min(offset - 1 - segment.base_offset, MAX_RELATIVE_OFFSET)
    entry, _ = _around(segment.sibling_place(".index"), OFFSET_ENTRY, value, view)
    return -1 if entry is None else entry.second


def time_bounds(segment: SegmentFile, view: FileView, timestamp: int) -> TimeBounds | None:
    """Use the time index to find bounds for the offset of the first record at `timestamp` (ms) or later, or None."""
    # None: the time index is empty, or no batch matches its last entry before `timestamp`.
    if segment.base_offset is None:
        return None
    before, following = _around(segment.sibling_place(".timeindex"), TIME_ENTRY, timestamp - 1, view)
    upto = None if following is None else segment.base_offset + following.second
    if before is None:
        return None if upto is None else TimeBounds(segment.base_offset - 1, upto)
    offset = segment.base_offset + before.second
    for rows in _batches_from(view, position_before(segment, view, offset), offset):
        if (rows["max_timestamp"][last_offsets(rows) == offset] == before.first).any():
            return TimeBounds(offset, upto)
    return None


def largest_timestamp(segment: SegmentFile, view: FileView) -> int | None:
    """Return the largest timestamp in a segment, in ms: of the time index or a later batch."""
    # None: no batch has the last offset and the maximum timestamp of the last index entry.
    if segment.base_offset is None:
        return None
    entry, _ = _around(segment.sibling_place(".timeindex"), TIME_ENTRY, MAX_OFFSET, view)
    if entry is None:
        return None
    offset, largest, found = segment.base_offset + entry.second, entry.first, False
    position = position_before(segment, view, offset)
    for start, _, rows, error in Walker(view, 0, first_read=FIRST_READ).tables(position, view.size):
        found = found or bool((rows["max_timestamp"][last_offsets(rows) == offset] == entry.first).any())
        largest = max(largest, int(rows["max_timestamp"].max(initial=NO_TIMESTAMP)))
        if len(rows):
            position = start + int(rows["position"][-1]) + int(rows["size"][-1])
            if not found and last_offsets(rows)[-1] >= offset:
                return None
        if error is not None and not only_zeros(view, position):
            return None
    return largest if found else None


def _around(
    path: str | UrlPath, entry: np.dtype[np.void], value: int, log: FileView
) -> tuple[Entry | None, Entry | None]:
    """Return the last index entry whose first field is at most `value`, and the entry after it."""
    try:
        with FileView(path) as view:
            index = IndexFile(view, entry)
            at = index.last(lambda first, _: first <= value)
            columns = index.read(max(at, 0), at + 2)
            log.bytes_read += view.bytes_read
            log.reads += view.reads
    except OSError:  # if the index is missing or unreadable, callers search the log without it
        return None, None
    found = list(map(Entry, *columns.tolist()))
    before = found.pop(0) if at >= 0 and found else Entry(0, 0)
    usable = min(before) >= 0 and before != (0, 0)
    after = found[0] if found and found[0].first > before.first and found[0].second >= before.second else None
    return before if usable else None, after


def _batches_from(view: FileView, position: int, offset: int) -> Iterator[BatchTable]:
    """Yield the headers of valid batches from `position` to the batch that contains `offset`, as arrays."""
    for _, _, rows, error in Walker(view, 0, first_read=FIRST_READ).tables(
        position, min(view.size, position + SCAN_BYTES)
    ):
        yield rows
        if error is not None or (len(rows) and last_offsets(rows)[-1] >= offset):
            return


def batch_at(view: FileView, position: int) -> np.void | None:
    """Return the header of the batch at `position`. If there is no valid batch, return None."""
    table = np.zeros(1, BATCH_DTYPE)
    size = Head(position, view.read(position, ENTRY_OVERHEAD)).size
    scan = core.scan_batches(view.read(position, max(min(size, view.size - position), 0)), table)
    return table[0] if scan.count else None

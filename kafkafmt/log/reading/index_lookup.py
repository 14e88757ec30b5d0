"""Looking up in offset and time indexes, as far as they can be believed.

They are searched as a broker does it, in halves, so that the cost is that of some entries; an entry is used only after
the batch that it names was found in the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import MAX_OFFSET, MAX_RELATIVE_OFFSET, NO_TIMESTAMP
from ...types import BATCH_DTYPE, last_offsets
from ..format.files import FileView
from ..format.index_entries import OFFSET_ENTRY, TIME_ENTRY, in_use
from .discovery import SegmentFile
from .segment_walker import FIRST_READ, Walker

BLOCK_ENTRIES = 512
SCAN_BYTES = 4 << 20
"""How far behind an entry's position its batch may begin: up to Kafka 4.0 entries name the batches of a whole append."""


class Entry(NamedTuple):
    """Of the offset index: offset - base, position. Of the time index: timestamp, offset - base."""

    first: int
    second: int


class TimeBounds(NamedTuple):
    """What a time index tells about a time: no record at or below `after` is as late.

    One at or below `upto` should be, where that is not None: the next entry says so, which was not looked up.
    """

    after: int
    upto: int | None


def position_before(segment: SegmentFile, view: FileView, offset: int, exactly: bool = False) -> int:
    """Where a walk may begin that has to meet every batch with offsets from `offset` on; 0 where the index tells nothing.

    exactly: only an entry counts whose offset the batch itself holds; where gaps are no wonder nothing else shows that it has its
    own base offset.
    """
    if segment.base_offset is None or offset <= segment.base_offset:
        return 0
    entry, _ = _around(
        segment.path.with_suffix(".index"), OFFSET_ENTRY, min(offset - segment.base_offset, MAX_RELATIVE_OFFSET), view
    )
    if entry is None:
        return 0
    batch = _batch_at(view, entry.second)
    if batch is None or not segment.base_offset <= int(batch["base_offset"]) <= segment.base_offset + entry.first:
        return 0
    if (
        exactly
        and int(batch["base_offset"]) + max(int(batch["last_offset_delta"]), 0) < segment.base_offset + entry.first
    ):
        return 0
    return entry.second


def time_bounds(segment: SegmentFile, view: FileView, timestamp: int) -> TimeBounds | None:
    """Where the first record at or after a time cannot be; None where the time index tells nothing that holds."""
    if segment.base_offset is None:
        return None
    before, following = _around(segment.path.with_suffix(".timeindex"), TIME_ENTRY, timestamp - 1, view)
    upto = None if following is None else segment.base_offset + following.second
    if before is None:
        return None if upto is None else TimeBounds(segment.base_offset - 1, upto)
    offset = segment.base_offset + before.second
    for rows in _batches_from(view, position_before(segment, view, offset), offset):
        if (rows["max_timestamp"][last_offsets(rows) == offset] == before.first).any():
            return TimeBounds(offset, upto)
    return None


def largest_timestamp(segment: SegmentFile, view: FileView) -> int | None:
    """The largest timestamp of a segment, by the last entry of its time index and the batches behind it; None where that tells nothing."""
    if segment.base_offset is None:
        return None
    entry, _ = _around(segment.path.with_suffix(".timeindex"), TIME_ENTRY, MAX_OFFSET, view)
    if entry is None:
        return None
    offset, largest, found = segment.base_offset + entry.second, entry.first, False
    for _, _, rows, error in Walker(view, 0, first_read=FIRST_READ).tables(
        position_before(segment, view, offset), view.size
    ):
        found = found or bool((rows["max_timestamp"][last_offsets(rows) == offset] == entry.first).any())
        largest = max(largest, int(rows["max_timestamp"].max(initial=NO_TIMESTAMP)))
        if error is not None or (not found and len(rows) and last_offsets(rows)[-1] >= offset):
            return None
    return largest if found else None


def _around(path: Path, entry: np.dtype[np.void], value: int, log: FileView) -> tuple[Entry | None, Entry | None]:
    """Of an index's entries in use, the last whose first field is at or below a value, and the next one.

    Read are single entries, each in the middle of where it may be, until a block is left. Zeros lie beyond the last entry. What was
    read counts as read of the log.
    """
    try:
        with FileView(path) as view:
            size = entry.itemsize
            low, high = 0, view.size // size
            while high - low > BLOCK_ENTRIES:
                middle = (low + high) // 2
                first = int(np.frombuffer(view.read(middle * size, size), entry)[0][0])
                low, high = (middle, high) if 0 < first <= value else (low, middle)
            data = view.read(low * size, (high + 1 - low) * size)
            log.bytes_read += view.bytes_read
            log.reads += view.reads
    except OSError:  # missing, or not to be read: the log tells all by itself
        return None, None
    block = np.frombuffer(data, entry, len(data) // size)
    firsts, seconds = (block[name].astype(np.int64) for name in entry.names or ())
    n = in_use(firsts, seconds)
    at = int(np.searchsorted(firsts[:n], value, "right"))
    before, after = (Entry(int(firsts[i]), int(seconds[i])) if 0 <= i < n else None for i in (at - 1, at))
    return before, after


def _batches_from(view: FileView, position: int, offset: int) -> Iterator[np.ndarray]:
    """Tables of sound batches from a position to the batch that holds an offset, or not far behind it."""
    for _, _, rows, error in Walker(view, 0, first_read=FIRST_READ).tables(
        position, min(view.size, position + SCAN_BYTES)
    ):
        yield rows
        if error is not None or (len(rows) and last_offsets(rows)[-1] >= offset):
            return


def _batch_at(view: FileView, position: int) -> np.void | None:
    """The header of the sound batch at a position, None where there is none."""
    table = np.zeros(1, BATCH_DTYPE)
    size = int.from_bytes(view.read(position + 8, 4), "big", signed=True) + 12
    scan = core.scan_batches(view.read(position, max(min(size, view.size - position), 0)), table)
    return table[0] if scan.count else None

"""Looking up in offset and time indexes, as far as they can be believed: an entry is used only after the batch that it
names was found in the log.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._backend import core
from ..types import BATCH_DTYPE
from . import files
from .directory import SegmentFile
from .entries import read_offset_index, read_time_index
from .files import FileView
from .walk import Walker

SCAN_BYTES = 1 << 20


class TimeBounds(NamedTuple):
    """What a time index tells about a time: no record at or below `after` is as late, nor, with `none`, any other.

    One at or below `upto` should be, where that is not None: the next entry says so, which was not looked up.
    """

    after: int
    none: bool
    upto: int | None


def position_before(segment: SegmentFile, view: FileView, offset: int) -> int:
    """Where a walk may begin that has to meet every batch with offsets from `offset` on; 0 where the index tells nothing."""
    if segment.base_offset is None or offset <= segment.base_offset:
        return 0
    data = files.read_bytes(segment.path.with_suffix(".index"))
    view.bytes_read += len(data or b"")
    offsets, positions = read_offset_index(data or b"", segment.base_offset)
    at = int(np.searchsorted(offsets, offset, "right")) - 1
    if at < 0:
        return 0
    batch = _batch_at(view, int(positions[at]))
    if batch is None or not segment.base_offset <= int(batch["base_offset"]) <= int(offsets[at]):
        return 0
    return int(positions[at])


def time_bounds(segment: SegmentFile, view: FileView, timestamp: int) -> TimeBounds | None:
    """Where the first record at or after a time cannot be; None where the time index tells nothing that holds."""
    if segment.base_offset is None:
        return None
    data = files.read_bytes(segment.path.with_suffix(".timeindex"))
    view.bytes_read += len(data or b"")
    timestamps, offsets = read_time_index(data or b"", segment.base_offset)
    at = int(np.searchsorted(timestamps, timestamp, "left")) - 1
    if at < 0:
        return None
    position = position_before(segment, view, int(offsets[at]))
    batch = _batch_with(view, position, int(offsets[at]))
    if batch is None or int(batch["max_timestamp"]) != int(timestamps[at]):
        return None
    upto = int(offsets[at + 1]) if at + 1 < len(offsets) else None
    none = upto is None and not segment.last and _none_as_late(view, position, timestamp)
    return TimeBounds(int(offsets[at]), none, upto)


def _none_as_late(view: FileView, position: int, timestamp: int) -> bool:
    """Does no batch from a position to the end of the file reach a time? The index may have lost its last entries."""
    for _, _, rows, error in Walker(view, 0).tables(position, view.size):
        if error is not None or (rows["max_timestamp"] >= timestamp).any():
            return False
    return True


def _batch_at(view: FileView, position: int) -> np.void | None:
    """The header of the sound batch at a position, None where there is none."""
    table = np.zeros(1, BATCH_DTYPE)
    size = int.from_bytes(view.read(position + 8, 4), "big", signed=True) + 12
    scan = core.scan_batches(view.read(position, min(size, view.size - position)), table)
    return table[0] if scan.count else None


def _batch_with(view: FileView, position: int, offset: int) -> np.void | None:
    """The header of the batch that ends with an offset, searched from a position on over as much as one read gives."""
    table = np.zeros(4096, BATCH_DTYPE)
    scan = core.scan_batches(view.read(position, SCAN_BYTES), table)
    rows = table[: scan.count]
    hits = np.flatnonzero(rows["base_offset"] + rows["last_offset_delta"] == offset)
    return rows[hits[0]] if len(hits) else None

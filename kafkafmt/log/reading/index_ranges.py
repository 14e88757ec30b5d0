"""Divide a segment into ranges of a few MB at positions from its offset index.

The index is not trusted. The code that reads a range (single_pass.py) checks that a batch begins at
the start of the range, and that a batch ends at the end of the range. The code also compares the
offsets of the batches with the index entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...constants import MAX_OFFSET, NO_END
from ...errors import KafkaFormatError
from ...types import IntArray
from ..format.file_view import FileView
from ..format.index_entries import OFFSET_ENTRY, all_offset_entries
from .partition_dir import SegmentFile
from .ranges import read_head

RANGE_BYTES = 4 << 20
"""Approximate size of a range, in bytes. A range is held in memory until it has been checked."""
FIRST_RANGE_BYTES = 64 << 10
"""Approximate size in bytes of the first range if only some offsets are requested. The first range
is small, because the caller may need only the first records. Each further range is GROWTH times as
large, up to RANGE_BYTES.
"""
GROWTH = 4
MAX_RANGE_BYTES = 16 << 20
"""Size of the largest range, in bytes. A segment is not divided if two consecutive entries of its
index are farther apart.
"""
BLOCK_ENTRIES = 512
"""Number of index entries that are read at once when an entry is looked up."""


@dataclass(frozen=True, slots=True)
class Border:
    """A position in a segment at which a batch should begin, or the start or the end of the segment.

    Attributes
    ----------
    position : int
        Position in the file, in bytes.
    upto : int
        The offset in the index entry for `position`, which is the largest possible last offset of
        the batch at `position`. At the start and the end of a segment, `upto` is the last offset
        that the segment can contain.
    indexed : bool
        Whether the index has an entry for `position`. The start and the end of a segment have none.
    """

    position: int
    upto: int
    indexed: bool = True


@dataclass(frozen=True, slots=True)
class Stretch:
    """The batches of a segment between two positions.

    Attributes
    ----------
    start, end : Border
        The stretch contains the batches that begin in [start.position, end.position).
    """

    start: Border
    end: Border

    @property
    def size(self) -> int:
        """Size of the stretch, in bytes."""
        return self.end.position - self.start.position


@dataclass(frozen=True, slots=True)
class Range(Stretch):
    """A part of a segment that is read into memory at once, with index entries to check its start and end.

    Attributes
    ----------
    after_start, after_end : int
        The offset in the last index entry before the start of the range, and the offset in the last
        index entry before the end. The batch at the start, or at the end, must have a higher base
        offset.
    before_start, before_end : int
        The positions in the same two index entries.
    """

    after_start: int
    after_end: int
    before_start: int
    before_end: int


def whole_segment(segment: SegmentFile, size: int) -> Stretch:
    """Return a `Stretch` with the first `size` bytes of a segment."""
    last = MAX_OFFSET - 1 if segment.next_base is None else segment.next_base - 1
    return Stretch(Border(0, last, indexed=False), Border(size, last, indexed=False))


def divide(
    segment: SegmentFile,
    log: FileView,
    stretch: Stretch,
    start: int = 0,
    end: int = NO_END,
    range_bytes: int = RANGE_BYTES,
) -> list[Range] | None:
    """Divide a part of a segment into ranges of about `range_bytes` bytes.

    Only ranges that can contain offsets in [start, end) are returned.

    Parameters
    ----------
    segment : SegmentFile
        The segment.
    log : FileView
        The open segment. The bytes read from the index are added to the counts of this object.
    stretch : Stretch
        The part of the segment to divide.
    start, end : int, optional
        Offsets; `end` is exclusive. By default, all ranges are returned.
    range_bytes : int, default 4194304 (4 MiB)
        Size of a range, in bytes. A range is larger if two consecutive entries of the index are
        farther apart.

    Returns
    -------
    list of Range or None
        None if the index cannot be used: it is invalid, its entries are more than MAX_RANGE_BYTES
        apart, or it lacks the start or the end of the stretch.
    """
    base = segment.base_offset
    if base is None:
        return None
    narrow = start > base or end <= stretch.end.upto
    if not narrow and stretch.size <= range_bytes and not (stretch.start.indexed or stretch.end.indexed):
        return [Range(stretch.start, stretch.end, base - 1, base - 1, 0, 0)]
    found = _entries(segment, log, base, stretch, start, end)
    if found is None:
        return None
    offsets, positions = found
    for border in (stretch.start, stretch.end):
        if border.indexed and not _contains(offsets, positions, border):
            return None
    known_offsets, known_positions = offsets, positions
    inside = (positions > stretch.start.position) & (positions < stretch.end.position)
    offsets, positions = offsets[inside], positions[inside]
    k = int(np.searchsorted(offsets, min(start, MAX_OFFSET), "right"))
    # A batch at the first index entry whose offset is at least `end` - 1 can still contain offsets below `end`.
    # The batch at the following index entry begins at or after `end`.
    n = int(np.searchsorted(offsets, end - 1, "left")) + 1 if end <= MAX_OFFSET else len(offsets)
    first = Border(int(positions[k - 1]), int(offsets[k - 1])) if k else stretch.start
    last = Border(int(positions[n]), int(offsets[n])) if n < len(offsets) else stretch.end
    borders = [first]
    size = min(FIRST_RANGE_BYTES, range_bytes) if narrow else range_bytes
    while last.position - borders[-1].position > size:
        at = borders[-1].position
        i = int(np.searchsorted(positions, at + size, "right")) - 1
        size = min(size * GROWTH, range_bytes)
        i = i if i >= 0 and positions[i] > at else i + 1
        if i >= len(positions) or positions[i] >= last.position:
            break
        borders.append(Border(int(positions[i]), int(offsets[i])))
    borders.append(last)
    before = [int(np.searchsorted(known_positions, b.position, "left")) - 1 for b in borders]
    after = [int(known_offsets[i]) if i >= 0 else base - 1 for i in before]
    named = [int(known_positions[i]) if i >= 0 else 0 for i in before]
    ranges = [
        Range(a, b, after[i], after[i + 1], named[i], named[i + 1])
        for i, (a, b) in enumerate(itertools.pairwise(borders))
    ]
    return ranges if all(0 < r.size <= MAX_RANGE_BYTES for r in ranges) else None


class ReadCounts(Protocol):
    """Interface of an object that counts bytes and read calls, such as `PartitionLog`."""

    bytes_read: int
    reads: int


def _count(view: FileView, counts: ReadCounts | None) -> None:
    """Add the numbers of bytes and read calls of an open file to `counts`."""
    if counts is not None:
        counts.bytes_read += view.bytes_read
        counts.reads += view.reads


def stretch_of(segment: SegmentFile, start: int = 0, end: int = NO_END, counts: ReadCounts | None = None) -> Stretch:
    """Return the shortest part of a segment that contains the offsets [start, end).

    If the segment has no usable offset index, the result is the whole segment, with the size from
    the directory listing. If the index is usable, the batch headers at both ends of the result are
    read. These headers must confirm that no other batch contains offsets in [start, end). The bytes
    and read calls are added to `counts`.
    """
    whole = whole_segment(segment, segment.size)
    base = segment.base_offset
    if base is None or (start <= base and end > whole.end.upto):
        return whole
    try:
        with FileView(segment.sibling(".index")) as view:
            before = _border(view, base, _last_entry(view, lambda at, _: at <= start - base))
            after = _border(view, base, _last_entry(view, lambda at, _: at < end - 1 - base) + 2)
            _count(view, counts)
        with FileView(segment.path, fill_unreadable=True) as log:
            first = None if before is None else first_offset_at(log, before)
            if before is None or first is None or first > start:
                before = whole.start
            following = None if after is None or after.position <= before.position else first_offset_at(log, after)
            if after is None or following is None or following < end:
                after = whole.end
            _count(log, counts)
    except OSError:
        return whole
    return Stretch(before, after)


def first_offset_at(log: FileView, border: Border) -> int | None:
    """Return the first offset of the batch at a border, or None if the index contradicts the batch header.

    The index must have an entry for `border`. Only the batch header is read.
    """
    try:
        first, last, _ = read_head(log, border.position)
    except KafkaFormatError:
        return None
    return first if last <= border.upto else None


def border_near(segment: SegmentFile, position: int) -> Border | None:
    """Return a `Border` for the first index entry whose position is at least `position`.

    Return None if there is no such entry. Only a few KB of the index are read.
    """
    return _border_of(segment, lambda view: _last_entry(view, lambda _, at: at < position) + 1)


def last_border(segment: SegmentFile) -> Border | None:
    """Return a `Border` for the last used index entry, or None if the index has no used entry."""
    return _border_of(segment, lambda view: _last_entry(view, lambda at, _: at >= 0))


def _border_of(segment: SegmentFile, find: Callable[[FileView], int]) -> Border | None:
    """Return a `Border` for the index entry whose number `find` returns, or None if there is no such entry."""
    if segment.base_offset is None:
        return None
    try:
        with FileView(segment.sibling(".index")) as view:
            return _border(view, segment.base_offset, find(view))
    except OSError:
        return None


def _entries(
    segment: SegmentFile, log: FileView, base: int, stretch: Stretch, start: int, end: int
) -> tuple[IntArray, IntArray] | None:
    """Return the offsets and positions of the index entries that are needed to divide a part of a segment.

    The last two entries before the offsets [start, end) and the first two entries after them are
    included. Each position is included only once. If the entries are not in increasing order,
    return None.
    """
    low, high = start - base, end - base
    lowest, highest = stretch.start.position, stretch.end.position
    try:
        with FileView(segment.sibling(".index")) as view:
            first, last = 0, view.size // OFFSET_ENTRY.itemsize
            if last > 4 * BLOCK_ENTRIES:
                whole = not stretch.start.indexed
                first = _last_entry(view, lambda at, position: (at <= low) & (whole | (position < lowest)))
                first = max(first - 1, 0)
                last = _last_entry(view, lambda at, position: (at < high) & (position <= highest)) + 3
            offsets, positions = _read(view, base, first, last)
            _count(view, log)
    except OSError:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if first == 0 and len(offsets) and offsets[0] == base and positions[0] == 0:
        offsets, positions = offsets[1:], positions[1:]
    used = len(positions)
    if (zeros := np.flatnonzero(positions == 0)).size:  # a preallocated file ends with unused entries
        used = int(zeros[0])
    offsets, positions = offsets[:used], positions[:used]
    if (offsets[1:] <= offsets[:-1]).any() or (positions[1:] < positions[:-1]).any():
        return None
    rises = np.ones(len(positions), np.bool_)
    rises[1:] = positions[1:] > positions[:-1]
    return offsets[rises], positions[rises]


def _last_entry(view: FileView, before: Callable[[IntArray, IntArray], npt.NDArray[np.bool_]]) -> int:
    """Return the index of the last entry for which `before` is true, or -1.

    The entry is found by bisection. The arguments of `before` are the relative offsets and the
    positions of entries. The result of `before` must be true for all entries up to the returned
    one, and false for all others. Entries that contain only zeros are unused, except for the first
    entry.
    """
    low, high = -1, view.size // OFFSET_ENTRY.itemsize
    while high - low > 1:
        middle = (low + high) // 2
        begin = max(min(middle - BLOCK_ENTRIES // 2, high - BLOCK_ENTRIES), low + 1, 0)
        offsets, positions = _read(view, 0, begin, min(begin + BLOCK_ENTRIES, high))
        if not len(offsets):
            return low
        true = before(offsets, positions)
        true[1 if begin == 0 else 0 :] &= positions[1 if begin == 0 else 0 :] > 0
        if not true[0]:
            high = begin
        elif true[-1]:
            low = begin + len(true) - 1
        else:
            return begin + int(np.argmin(true)) - 1
    return low


def _border(view: FileView, base: int, i: int) -> Border | None:
    """Return a `Border` for index entry `i`, or None if there is no such entry."""
    if i < 0:
        return None
    offsets, positions = _read(view, base, i, i + 1)
    return Border(int(positions[0]), int(offsets[0])) if len(positions) and positions[0] else None


def _read(view: FileView, base: int, first: int, last: int) -> tuple[IntArray, IntArray]:
    """Return the offsets and positions of all existing entries with indexes in [first, last)."""
    size = OFFSET_ENTRY.itemsize
    return all_offset_entries(view.read(first * size, (last - first) * size), base)


def _contains(offsets: IntArray, positions: IntArray, border: Border) -> bool:
    return bool(((positions == border.position) & (offsets == border.upto)).any())

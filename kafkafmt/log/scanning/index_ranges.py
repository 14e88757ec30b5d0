"""Divide a segment into byte ranges of a few MB, at positions that its offset index contains.

The index can be wrong. Therefore, single_pass.py checks that each byte range begins and ends at a
batch border, and that the offsets of its batches agree with the index entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import ENTRY_OVERHEAD, MAX_OFFSET, MIN_LEGACY_LENGTH, NO_END
from ...errors import KafkaFormatError
from ...types import BATCH_DTYPE, IntArray, last_offset
from ..catalog import SegmentFile
from ..formats import OFFSET_ENTRY
from ..storage import FileView, start_of_last_hole
from .header_reader import read_head

RANGE_BYTES = 4 << 20  # approximate size of the ranges of a segment, each held in memory until it has been checked
FIRST_RANGE_BYTES = 64 << 10  # Size of the first range for some offsets. Each further one is GROWTH times as large.
GROWTH = 4
MAX_RANGE_BYTES = 16 << 20  # a segment is not divided if two consecutive index entries are farther apart
BLOCK_ENTRIES = 512  # number of index entries that are read at once during a search in the index


@dataclass(frozen=True, slots=True)
class Border:
    """A position at which a segment can be divided: the segment's start or end, or a batch position in its index."""

    position: int
    # offset of the index entry: at least the batch's last offset; at a segment's start or end, its last possible offset
    upto: int
    indexed: bool = True  # False for the start and the end of a segment
    # no task reads the bytes beyond; if the index is wrong, selected batches can be there
    outermost: bool = field(default=False, compare=False)
    # offset in the previous index entry, or -1; the batch's first offset is higher
    after: int = field(default=-1, compare=False)
    before: int = field(default=0, compare=False)  # position in the previous index entry, or 0


@dataclass(frozen=True, slots=True)
class Share:
    """A byte range of a segment: the batches that begin from `start` to `end` (exclusive)."""

    start: Border
    end: Border

    @property
    def size(self) -> int:
        return self.end.position - self.start.position


@dataclass(frozen=True, slots=True)
class Range(Share):
    """A byte range that is read into memory at once, and the last index entries before its start and its end."""

    # The base offset of the batch at the start or end must be higher than that of the entry.

    after_start: int
    after_end: int
    before_start: int
    before_end: int


def whole_segment(segment: SegmentFile, size: int) -> Share:
    """Return a `Share` that contains the first `size` bytes of a segment."""
    last = MAX_OFFSET - 1 if segment.next_base is None else segment.next_base - 1
    return Share(Border(0, last, indexed=False), Border(size, last, indexed=False))


def divide(
    segment: SegmentFile,
    log: FileView,
    share: Share,
    start: int = 0,
    end: int = NO_END,
    range_bytes: int = RANGE_BYTES,
) -> list[Range] | None:
    """Divide a byte range of a segment into ranges of about `range_bytes` that can contain [start, end)."""
    # A range is larger if two consecutive index entries are farther apart. None: the index cannot be used, because it
    # is invalid, its entries are more than MAX_RANGE_BYTES apart, or it has no entry for a border of `share`.
    base = segment.base_offset
    if base is None:
        return None
    narrow = start > base or end <= share.end.upto
    if not narrow and share.size <= range_bytes and not (share.start.indexed or share.end.indexed):
        return [Range(share.start, share.end, base - 1, base - 1, 0, 0)]
    found = _entries(segment, log, base, share, start, end)
    if found is None:
        return None
    offsets, positions = found
    for border in (share.start, share.end):
        if border.indexed and not _contains(offsets, positions, border):
            return None
    known_offsets, known_positions = offsets, positions
    inside = (positions > share.start.position) & (positions < share.end.position)
    offsets, positions = offsets[inside], positions[inside]
    k = int(np.searchsorted(offsets, min(start, MAX_OFFSET), "right"))
    # An index entry can contain the last offset of its batch. Therefore, read one more batch.
    # Reading can stop at index entry number `n`, because its batch contains only offsets of at least `end`.
    n = int(np.searchsorted(offsets, end - 1, "left")) + 1 if end <= MAX_OFFSET else len(offsets)
    first = Border(int(positions[k - 1]), int(offsets[k - 1])) if k else share.start
    last = Border(int(positions[n]), int(offsets[n])) if n < len(offsets) else share.end
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
    """Interface of an object that counts read bytes and read calls, such as `PartitionLog`."""

    bytes_read: int
    reads: int


def _count(view: FileView, counts: ReadCounts | None) -> None:
    """Add the number of bytes and the number of read calls of an open file to `counts`."""
    if counts is not None:
        counts.bytes_read += view.bytes_read
        counts.reads += view.reads


def share_of(segment: SegmentFile, start: int = 0, end: int = NO_END, counts: ReadCounts | None = None) -> Share:
    """Return the shortest byte range of a segment that contains [start, end), according to the offset index."""
    # Without a usable index, it is the whole segment. If a batch header at a border contradicts the index, it extends
    # to the start or the end of the segment.
    whole = whole_segment(segment, segment.size)
    base = segment.base_offset
    if base is None or (start <= base and end > whole.end.upto):
        return whole
    try:
        with FileView(segment.sibling_place(".index")) as view:
            index = IndexFile(view)
            before = _border(index, base, index.last(lambda at, _: at <= start - base))
            after = _border(index, base, index.last(lambda at, _: at < end - 1 - base) + 2)
            _count(view, counts)
        with FileView(segment.place, fill_unreadable=True) as log:
            first = None if before is None else first_offset_at(log, before)
            if before is None or first is None or not base <= first <= start:
                before = whole.start
            following = None if after is None or after.position <= before.position else first_offset_at(log, after)
            if after is None or following is None or following < end:
                after = whole.end
            _count(log, counts)
    except OSError:
        return whole
    return Share(replace(before, outermost=before.indexed), replace(after, outermost=after.indexed))


def first_offset_at(log: FileView, border: Border) -> int | None:
    """Return the first offset in the batch header at an indexed border, or None if the index contradicts it."""
    try:
        head = read_head(log, border.position)
    except KafkaFormatError:
        return None
    return head.first_offset if head.last_offset <= border.upto else None


def border_offset(log: FileView, border: Border) -> int:
    """Return the offset at which two tasks divide the offsets of a segment between them."""
    # Usually, it is the first offset of the batch at `border`. If the header contradicts the index, it is the lowest
    # offset that the batch can have according to the index. Both tasks get the same result.
    first = first_offset_at(log, border)
    return first if first is not None and border.after < first else border.after + 1


def last_offset_in(log: FileView, start: int, end: int) -> int | None:
    """Return the last offset of the batches between two file positions, or None."""
    # None: there are no bytes or more than MAX_RANGE_BYTES, or they are not valid batches.
    size = end - start
    if not 0 < size <= MAX_RANGE_BYTES:
        return None
    data, table = log.read(start, size), np.empty(size // (ENTRY_OVERHEAD + MIN_LEGACY_LENGTH) + 1, BATCH_DTYPE)
    scan = core.scan_batches(data, table, 0, len(data))
    if scan.error is not None or scan.position != size or not scan.count:
        return None
    return last_offset(table[scan.count - 1])


def border_near(segment: SegmentFile, position: int) -> Border | None:
    """Return the first batch position in the index that is at least `position`, or None if there is none."""
    return _border_of(segment, lambda index: index.last(lambda _, at: at < position) + 1)


def last_border(segment: SegmentFile) -> Border | None:
    """Return the batch position in the last valid entry of the offset index, or None if there is no such entry."""
    return _border_of(segment, lambda index: index.last(lambda at, _: at >= 0))


def _border_of(segment: SegmentFile, find: Callable[[IndexFile], int]) -> Border | None:
    """Return a `Border` for the entry of the offset index whose number `find` returns, or None without one."""
    if segment.base_offset is None:
        return None
    try:
        with FileView(segment.sibling_place(".index")) as view:
            index = IndexFile(view)
            return _border(index, segment.base_offset, find(index))
    except OSError:
        return None


def _entries(
    segment: SegmentFile, log: FileView, base: int, share: Share, start: int, end: int
) -> tuple[IntArray, IntArray] | None:
    """Read the index entries for a byte range of a segment. Return their offsets and positions, or None."""
    # These are at least the entries in [start, end), with two before and two after them; of several entries with one
    # position, the first. None: the entries are not in increasing order, or a position is negative.
    low, high = start - base, end - base
    lowest, highest = share.start.position, share.end.position
    try:
        with FileView(segment.sibling_place(".index")) as view:
            index = IndexFile(view)
            first, last = 0, index.count
            if last > 4 * BLOCK_ENTRIES:
                whole = not share.start.indexed
                first = index.last(lambda at, position: (at <= low) & (whole | (position < lowest)))
                first = max(first - 1, 0)
                last = index.last(lambda at, position: (at < high) & (position <= highest)) + 3
            offsets, positions = index.read(first, last)
            offsets = offsets + base
            _count(view, log)
    except OSError:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if first == 0 and len(offsets) and offsets[0] == base and positions[0] == 0:
        offsets, positions = offsets[1:], positions[1:]
    used = len(positions)
    if (zeros := np.flatnonzero(positions == 0)).size:  # the unused entries of a preallocated index file are zero
        used = int(zeros[0])
    offsets, positions = offsets[:used], positions[:used]
    if (offsets[1:] <= offsets[:-1]).any() or (positions[1:] < positions[:-1]).any() or (positions[:1] < 0).any():
        return None
    rises = np.ones(len(positions), np.bool_)
    rises[1:] = positions[1:] > positions[:-1]
    return offsets[rises], positions[rises]


Before = Callable[[IntArray, IntArray], npt.NDArray[np.bool_]]


class IndexFile:
    """The entries of an open offset index or time index. The block of entries that was read last is kept."""

    def __init__(self, view: FileView, entry: np.dtype[np.void] = OFFSET_ENTRY) -> None:
        self._view = view
        self._size = entry.itemsize
        self._begin, self._block = 0, np.empty((2, 0), np.int64)

    @property
    def count(self) -> int:
        return self._view.size // self._size

    def read(self, first: int, last: int) -> IntArray:
        """Return the two fields of the entries from number `first` to number `last` (exclusive), as an array of two rows."""
        last = min(last, self.count)
        if not self._begin <= first <= last <= self._begin + self._block.shape[1]:
            data = self._view.read(first * self._size, max(last - first, 0) * self._size)
            self._begin, self._block = first, np.empty((2, len(data) // self._size), np.int64)
            core.read_index_entries(data, self._size, 0, self._block)
        return self._block[:, first - self._begin : max(last - self._begin, 0)]

    def last(self, before: Before) -> int:
        """Find the last entry for which `before` is true by bisection, and return its number, or -1."""
        # `before` gets the two fields of entries, as arrays. Entries of zeros are unused, except for the first entry.
        low, high = -1, self.count
        if high > BLOCK_ENTRIES:
            high = min(high, start_of_last_hole(self._view) // self._size + 1)
        while high - low > BLOCK_ENTRIES:
            middle = (low + high) // 2
            true = self._used(before, middle, middle + 1)
            low, high = (middle, high) if true.all() else (low, middle)
        begin = max(low - 1, 0)  # the block also contains the entries around the result
        self.read(begin, high + 2)
        true = self._used(before, begin, high)
        return begin - 1 + (len(true) if true.all() else int(np.argmin(true)))

    def _used(self, before: Before, begin: int, end: int) -> npt.NDArray[np.bool_]:
        """Return whether `before` is true for each entry from number `begin` to number `end` (exclusive) that is used."""
        firsts, seconds = self.read(begin, end)
        true = before(firsts, seconds)
        true[1 if begin == 0 else 0 :] &= seconds[1 if begin == 0 else 0 :] > 0
        return true


def _border(index: IndexFile, base: int, i: int) -> Border | None:
    """Return a `Border` for the index entry with the number `i`. If there is no such entry, return None."""
    if i < 0:
        return None
    first = max(i - 1, 0)
    offsets, positions = index.read(first, i + 1)
    k = i - first
    if len(positions) <= k or positions[k] <= 0:
        return None
    after, before = (base + int(offsets[0]), int(positions[0])) if k else (-1, 0)
    return Border(int(positions[k]), base + int(offsets[k]), after=after, before=before)


def _contains(offsets: IntArray, positions: IntArray, border: Border) -> bool:
    return bool(((positions == border.position) & (offsets == border.upto)).any())

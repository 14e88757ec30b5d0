"""Read a segment in one pass: read a byte range, check it, and yield its batches before the next range is read.

A byte range is confirmed under these conditions:

- It consists of complete batches whose CRCs match.
- The offsets increase within the offset range of the segment. In a divided segment of a log that
  was not compacted, no offset is missing inside a range or between two ranges.
- The first batch agrees with the offset index: its base offset is above that of the previous entry,
  and its last offset is at most that of its own entry. If several tasks read the segment, the last
  offset before a task's first range is also checked.
- The offset in the next batch header is higher than all offsets in the range, and agrees with the
  offset index.

If all ranges are confirmed, no plan of the segment (plan.py) is needed. Otherwise, reading stops,
and the plan determines which of the remaining batches are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..._backend import core
from ...constants import BATCH_HEADER_SIZE, MAGIC_V2, MAX_RELATIVE_OFFSET, NO_END
from ...support.text import quantity
from ...types import BATCH_DTYPE, BatchTable, ByteArray, last_offset, last_offsets
from ..catalog import SegmentFile, changed
from ..damage import Run, SegmentPlan, Walker, runs_of, shown_by
from ..scanning import (
    MAX_RANGE_BYTES,
    RANGE_BYTES,
    Border,
    Head,
    Range,
    Stretch,
    border_offset,
    divide,
    first_offset_at,
    last_offset_in,
    total,
    whole_segment,
)
from ..storage import FileView, aligned_buffer
from .part import Part
from .remainder import Remainder

SMALLEST_BATCH = 61
MAX_ROWS = MAX_RANGE_BYTES // SMALLEST_BATCH + 1
HEADERS_RANGE_BYTES = 8 << 20  # approximate size of a byte range, in bytes, if only the batch headers are needed
PIECE_BYTES = 1 << 20  # number of bytes that are read at once if only the batch headers are needed


class UnconfirmedError(Exception):
    """Raised if reading a segment in one pass fails, and the caller does not allow a plan of the whole segment."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"{segment}: the segment cannot be read in one pass and must be planned")
        self.segment = segment


class SinglePass:
    """Reads a byte range of an open segment, or the whole segment, in one pass."""

    # `headers_only`: if possible, the buffers of the `Part` objects are empty, the byte ranges are larger, and none is
    # held in memory. UnavailableSegmentError: the file is too small for `stretch`.

    def __init__(
        self,
        view: FileView,
        segment: SegmentFile,
        stretch: Stretch | None,
        max_batch_bytes: int,
        compacted: bool,
        headers_only: bool = False,
    ) -> None:
        if stretch is not None and view.size < stretch.end.position:
            raise changed(segment, f"it has {quantity(view.size, 'byte')} now, but had at least {stretch.end.position}")
        self.complete: bool = False  # all batches were read and confirmed
        self.divided: bool = False  # the offset index was used
        self.failed: bool = False  # a byte range failed a check, or the index cannot be used
        self.remainder: Remainder = Remainder() if stretch is None else _remainder_of(stretch, view)
        self._view = view
        self._segment = segment
        self._stretch = stretch or whole_segment(segment, view.size)
        self._last_possible = whole_segment(segment, 0).end.upto
        self._max_batch_bytes = max_batch_bytes
        self.compacted: bool = compacted
        self._headers_only = headers_only and view.fileno() >= 0
        self._walker = Walker(view, segment.base_offset or 0, max_batch_bytes)
        self._buffer: ByteArray = np.empty(0, np.uint8)
        self._table: BatchTable = np.empty(0, BATCH_DTYPE)

    def parts(self, start: int = 0, end: int = NO_END) -> Iterator[Part]:
        """Yield the batches of each byte range for [start, end), and stop at the first range that fails a check."""
        # The first and the last `Part` can also contain batches with other offsets.
        base = self._segment.base_offset or 0
        if not self._stretch.size:
            self.complete = True
            return
        size = HEADERS_RANGE_BYTES if self._headers_only else RANGE_BYTES
        ranges = divide(self._segment, self._view, self._stretch, start, end, size)
        if ranges is None:
            self.failed = True
            return
        self.divided = any(r.start.indexed or r.end.indexed for r in ranges)
        largest = max(r.size for r in ranges)
        self._buffer = aligned_buffer(min(largest, PIECE_BYTES) if self._headers_only else largest)
        self._table = np.empty(min(largest, MAX_RANGE_BYTES) // SMALLEST_BATCH + 1, BATCH_DTYPE)
        self._view.expect(ranges[0].start.position, ranges[-1].end.position)
        expected = base
        for i, found in enumerate(ranges):
            part = self._confirmed(found, expected)
            if part is not None and i:
                part = replace(part, before=expected - 1)
            if part is None or (i == 0 and not self._begins_at(part, found, start)):
                self.failed = True
                return
            yield part
            expected = part.extent.last_offset + 1
            self.remainder = self.remainder.after(found.end.position, expected)
            following = part.plan.extents[-1].first_offset
        self.complete = ranges[-1].end.position == self._stretch.end.position or following >= end

    def _begins_at(self, part: Part, found: Range, start: int) -> bool:
        """Return whether reading can begin at the byte range `found`, because all batches before it can be skipped."""
        # If the offset in the index entry is above `start`, the batches directly before it are checked too. Otherwise,
        # the first offset in the byte range must be at most `start`, and in a compacted log, the last offset of the
        # first batch must also be equal to that of the entry.
        border = found.start
        if not border.indexed:
            return True
        if border.upto > start:
            return self._confirmed_border(border, found.after_start, found.before_start) is not None
        if self.compacted:
            return last_offset(part.table[0]) == border.upto
        return part.extent.first_offset <= start

    def _confirmed_border(self, border: Border, after: int, before: int) -> int | None:
        """Return the first offset of the batch at `border`, if the batches before and after it match the index."""
        # It must be an inner border; its first offset must be above `after`, the offset of the previous entry; the
        # bytes from that entry must be valid batches with lower offsets, and without a gap unless the log was
        # compacted.
        first = self._first_offset_at(border, after)
        if first is None:
            return None
        last = last_offset_in(self._view, before, border.position)
        if last is None:
            return None
        return first if last == first - 1 or (self.compacted and last < first) else None

    def _confirmed(self, found: Range, expected: int) -> Part | None:
        """Read and check the batches of a byte range, or return None if a CRC, offset or index entry is wrong."""
        # All offsets must be at least `expected`, and consecutive if the log was not compacted and the segment contains
        # other bytes. If the batches show that the log was compacted, set `compacted`.
        end = found.end.position
        # If offsets are missing, a batch in another range can contain them. Only a plan delivers that batch in order.
        dense = not self.compacted and (found.start.indexed or found.end.indexed)
        scanned = self._scanned(found)
        if scanned is None:
            return None
        at, buffer, rows = scanned
        first, last = rows["base_offset"], last_offsets(rows)
        if dense and shown_by(rows, first, last):
            self.compacted, dense = True, False
        if (
            int(first[0]) < expected
            or (dense and not found.start.position and int(first[0]) != expected)
            or ((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).any()  # only a plan checks wrapper messages
            or int(last[-1]) > self._last_possible
            or (last < first).any()
            or (rows["last_offset_delta"] < 0).any()
            or int(rows["size"].max()) > self._max_batch_bytes
            or ((first[1:] != last[:-1] + 1) if dense else (first[1:] <= last[:-1])).any()
            or (int(last[-1]) - (expected or int(first[0])) > MAX_RELATIVE_OFFSET)
            or (found.start.indexed and not (found.after_start < int(first[0]) and int(last[0]) <= found.start.upto))
        ):
            return None
        following = self._following(found, int(last[-1]), dense)
        if following is None:
            return None
        (extent,) = runs_of(rows, first, at, False)
        extents = [extent]
        if found.end.indexed:
            extents.append(Run(end, end, following, following, 0, 0))
        plan = SegmentPlan(self._segment, self._view.size, extents, [], [])
        return Part(plan, extent, self._walker, at, buffer, rows, int(first[0]) - 1)

    def _scanned(self, found: Range) -> tuple[int, ByteArray, BatchTable] | None:
        """Read a byte range and check its CRCs. Return its position, buffer and batch headers, or None."""
        begin, end, size = found.start.position, found.end.position, found.size
        if self._headers_only:
            count = self._view.scan(self._buffer, self._table, begin, end)
            if count:
                return 0, self._buffer[:0], self._table[:count]
            if len(self._buffer) < size:  # a batch may be larger than the buffer
                self._buffer = aligned_buffer(size)
        buffer = self._buffer[:size]
        if self._view.read_into(buffer, begin) < size:
            return None
        scan = core.scan_batches(buffer, self._table, 0, size)
        whole = scan.error is None and scan.position == size and scan.count
        return (begin, buffer, self._table[: scan.count]) if whole else None

    def _following(self, found: Range, last: int, dense: bool) -> int | None:
        """Return the lowest offset that the batches after a byte range can have."""
        # None: the next batch header contradicts the offset index, or its offset is not above `last`.
        if not found.end.indexed:
            return last + 1 if last <= found.end.upto else None
        first = self._first_offset_at(found.end, found.after_end)
        return None if first is None or first <= last or (dense and first != last + 1) else first

    def _first_offset_at(self, border: Border, after: int) -> int | None:
        """Return the first offset of the batch at `border`, or None if it is unknown or contradicts the index."""
        # It must be above `after`, the offset in the previous index entry. There is no entry at the ends of a segment.
        first = first_offset_at(self._view, border) if border.indexed else None
        return first if first is not None and after < first else None


def _remainder_of(stretch: Stretch, view: FileView) -> Remainder:
    """Return an object for an unread byte range. Other tasks read the bytes before and after it."""
    start, end = stretch.start, stretch.end
    open_end = end.indexed or end.outermost
    rest = Remainder(
        0 if start.outermost else start.position,
        NO_END if end.outermost else end.position,
        file_end=NO_END if open_end else end.position,
    )
    if start.indexed and not start.outermost:
        low = border_offset(view, start)
        rest = replace(rest, low=low, sure_low=_is_sure(view, start, low))
    if end.indexed and not end.outermost:
        high = border_offset(view, end)
        rest = replace(rest, high=high, sure_high=_is_sure(view, end, high))
    return rest


def _is_sure(view: FileView, border: Border, offset: int) -> bool:
    """Return whether the batch at `border` begins with `offset`. The header of a wrapper message does not show this."""
    wrapper = Head(border.position, view.read(border.position, BATCH_HEADER_SIZE)).wrapper
    return not wrapper and first_offset_at(view, border) == offset


def add_run(runs: list[Run], run: Run) -> None:
    """Append a range of valid batches to a list. If it directly continues the last range, merge both ranges."""
    last = runs[-1] if runs else None
    if last is None or last.end != run.position:
        runs.append(replace(run))
        return
    last.dense = last.dense and run.dense and run.first_offset == last.last_offset + 1
    last.end, last.last_offset = run.end, run.last_offset
    last.batches += run.batches
    last.records = total(last.records, run.records)

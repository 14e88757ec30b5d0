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
from ...constants import CONTROL_BIT, MAX_RELATIVE_OFFSET, NO_END
from ...support.text import quantity
from ...types import BATCH_DTYPE, BatchSummary, BatchTable, ByteArray, last_offset, last_offsets
from ..catalog import SegmentFile, changed
from ..damage import Run, SegmentPlan, Walker, shown_by
from ..scanning import (
    MAX_RANGE_BYTES,
    RANGE_BYTES,
    Border,
    Range,
    Share,
    divide,
    first_offset_at,
    last_offset_in,
    whole_segment,
)
from ..storage import FileView, aligned_buffer
from .part import Memory, Part

SMALLEST_BATCH = 61
HEADERS_RANGE_BYTES = 8 << 20  # approximate size of a byte range, in bytes, if only the batch headers are needed
PIECE_BYTES = 1 << 20  # number of bytes that are read at once if only the batch headers are needed


class SinglePass:
    """Reads a byte range of an open segment, or the whole segment, in one pass."""

    # `headers_only`: if possible, the buffers of the `Part` objects are empty, the byte ranges are larger, and none is
    # held in memory. `memory` provides the memory of each `Part`, so that all of them stay valid; by default, they use the
    # same memory. UnavailableSegmentError: the file is too small for `share`.

    def __init__(
        self,
        view: FileView,
        segment: SegmentFile,
        share: Share | None,
        max_batch_bytes: int,
        compacted: bool,
        headers_only: bool = False,
        memory: Memory | None = None,
    ) -> None:
        if share is not None and view.size < share.end.position:
            raise changed(segment, f"it has {quantity(view.size, 'byte')} now, but had at least {share.end.position}")
        self.complete: bool = False  # all batches were read and confirmed
        self.position: int = 0  # end of the last byte range that was confirmed
        self.reached: int = segment.base_offset or 0  # offset after its batches
        self.compacted: bool = compacted  # also set if the batches show that the log was compacted
        self._view = view
        self._segment = segment
        self._share = share or whole_segment(segment, view.size)
        self._last_possible = whole_segment(segment, 0).end.upto
        self._max_batch_bytes = max_batch_bytes
        self._headers_only = headers_only and view.fileno() >= 0
        self._memory = memory
        self._walker = Walker(view, segment.base_offset or 0, max_batch_bytes)
        self._buffer: ByteArray = np.empty(0, np.uint8)
        self._table: BatchTable = np.empty(0, BATCH_DTYPE)

    def parts(self, start: int = 0, end: int = NO_END) -> Iterator[Part]:
        """Yield the batches of each byte range for [start, end), and stop at the first range that fails a check."""
        # The first and the last `Part` can also contain batches with other offsets.
        if not self._share.size:
            self.complete = True
            return
        size = HEADERS_RANGE_BYTES if self._headers_only else RANGE_BYTES
        ranges = divide(self._segment, self._view, self._share, start, end, size)
        if ranges is None:
            return
        largest = max(r.size for r in ranges)
        if self._memory is None:
            self._buffer = aligned_buffer(min(largest, PIECE_BYTES) if self._headers_only else largest)
        self._table = np.empty(min(largest, MAX_RANGE_BYTES) // SMALLEST_BATCH + 1, BATCH_DTYPE)
        self._view.expect(ranges[0].start.position, ranges[-1].end.position)
        for i, found in enumerate(ranges):
            part = self._confirmed(found)
            if part is None or (i == 0 and not self._begins_at(part, found, start)):
                return
            if i:
                part = replace(part, before=self.reached - 1)
            yield part
            self.position, self.reached = found.end.position, part.run.last_offset + 1
            following = part.plan.runs[-1].first_offset
        self.complete = self.position == self._share.end.position or following >= end

    def _begins_at(self, part: Part, found: Range, start: int) -> bool:
        """Return whether reading can begin at the byte range `found`, because all batches before it can be skipped."""
        # If the offset in the index entry is above `start`, the batches directly before it are checked too. Otherwise,
        # the first offset in the byte range must be at most `start`, and in a compacted log, the last offset of the
        # first batch must also be equal to that of the entry.
        border = found.start
        if not border.indexed:
            return True
        if border.upto > start:
            return self._adjoins(found)
        if self.compacted:
            return last_offset(part.table[0]) == border.upto
        return part.run.first_offset <= start

    def _adjoins(self, found: Range) -> bool:
        """Return whether the bytes from the previous index entry to a byte range are valid batches before it."""
        # Their offsets must be lower, and without a gap unless the log was compacted.
        first = self._first_offset_at(found.start, found.after_start)
        last = None if first is None else last_offset_in(self._view, found.before_start, found.start.position)
        if first is None or last is None:
            return False
        return last == first - 1 or (self.compacted and last < first)

    def _confirmed(self, found: Range) -> Part | None:
        """Read and check the batches of a byte range, or return None if a CRC, offset or index entry is wrong."""
        # All offsets must be at least `reached`, and consecutive if the log was not compacted and the segment contains
        # other bytes.
        end, expected = found.end.position, self.reached
        # If offsets are missing, a batch in another range can contain them. Only a plan delivers that batch in order.
        dense = not self.compacted and (found.start.indexed or found.end.indexed)
        scanned = self._scanned(found)
        if scanned is None:
            return None
        at, buffer, rows = scanned
        batches = core.summarize_batches(rows)
        if dense and shown_by(rows, rows["base_offset"], last_offsets(rows)):
            self.compacted, dense = True, False
        if (
            batches.first < expected
            or (dense and not found.start.position and batches.first != expected)
            or batches.wrappers  # only a plan checks wrapper messages
            or batches.last > self._last_possible
            or batches.negative_delta
            or not batches.increasing
            or (dense and batches.offsets != batches.last - batches.first + 1)
            or int(rows["size"].max()) > self._max_batch_bytes
            or (batches.last - (expected or batches.first) > MAX_RELATIVE_OFFSET)
            or (
                found.start.indexed
                and not (found.after_start < batches.first and last_offset(rows[0]) <= found.start.upto)
            )
        ):
            return None
        following = self._following(found, batches.last, dense)
        if following is None:
            return None
        run = _run(found, rows, batches)
        runs = [run]
        if found.end.indexed:
            runs.append(Run(end, end, following, following, 0, 0))
        plan = SegmentPlan(self._segment, self._view.size, runs, [], [])
        return Part(plan, run, self._walker, at, buffer, rows, batches.first - 1)

    def _scanned(self, found: Range) -> tuple[int, ByteArray, BatchTable] | None:
        """Read a byte range and check its CRCs. Return its position, buffer and batch headers, or None."""
        begin, end, size = found.start.position, found.end.position, found.size
        if self._headers_only:
            count = self._view.scan(self._buffer, self._table, begin, end)
            if count:
                return 0, self._buffer[:0], self._table[:count]
            if len(self._buffer) < size:  # a batch may be larger than the buffer
                self._buffer = aligned_buffer(size)
        buffer = self._buffer[:size] if self._memory is None else self._memory(size)[:size]
        if self._view.read_into(buffer, begin) < size:
            return None
        scan = core.scan_batches(buffer, self._table, 0, size)
        whole = scan.error is None and scan.position == size and scan.count
        if not whole:
            return None
        table = self._table[: scan.count]
        return begin, buffer, table if self._memory is None else table.copy()

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


def _run(found: Range, rows: BatchTable, batches: BatchSummary) -> Run:
    """Return the batches of a byte range as one range. `batches` is a summary of their headers."""
    number = len(rows)
    if batches.attributes & CONTROL_BIT:
        rows = rows.compress((rows["attributes"] & CONTROL_BIT) == 0)
    records = int(np.maximum(rows["count"], 0).sum())
    return Run(found.start.position, found.end.position, batches.first, batches.last, number, records, batches.dense)

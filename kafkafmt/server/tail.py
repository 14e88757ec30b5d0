"""Find the end of a log, and the batches that a broker appends to it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..constants import BATCH_HEADER_SIZE, MAX_OFFSET, MAX_RELATIVE_OFFSET
from ..errors import KafkaFormatError, TruncatedError
from ..log import Damage, PartitionLog
from ..log.catalog import SegmentFile
from ..log.damage import FIRST_READ, Walker
from ..log.reading import batch_at
from ..log.scanning import last_border
from ..log.storage import FileView, is_hole, only_zeros
from ..support.paths import UrlPath
from ..types import BatchTable, Buffer, last_offset, last_offsets

Take = Callable[[SegmentFile, int, Buffer, BatchTable], None]
"""Function that gets appended batches: segment, file position of the buffer, buffer, and batch headers."""


TICK = 20 * 10**6
"""Nanoseconds within which two changes can get the same time. Most kernels update their clock every 4 or 10 ms."""
UNSETTLED = 0


def settled(stamp: int) -> int:
    """Return the modification time `stamp`, or UNSETTLED if a later change may get the same modification time."""
    return stamp if abs(time.time_ns() - stamp) > TICK else UNSETTLED


class DamagedTailError(Exception):
    """Raised if bytes after the known end of the log are damaged. The caller must then read the whole segment."""


class ReplacedTailError(Exception):
    """Raised if the last known batch was overwritten, because the log was truncated and then grew again."""


class Tail:
    """Tracks the end of a log to which a broker may append."""

    # `position` is the byte after the last valid batch; a broker may be writing the bytes after it.
    # `end` is the offset after this batch, or the base offset of the last segment if that is
    # higher. `damaged` has only damage that no valid batch follows.

    def __init__(self, log: PartitionLog, plan: bool = False) -> None:
        self.segment: SegmentFile | None = log.segments[-1] if log.segments else None
        self.position: int = 0
        self.end: int = 0
        self.damaged: list[Damage] = []
        self._unread: tuple[int, int] | None = None
        """The position of an incomplete batch and the size of the file when the batch was found, or None."""
        self._last_head: tuple[int, bytes] | None = None
        """Position and first bytes of the last batch, which include its CRC. None if they are not known."""
        self._state = self._present_state()
        """Size and modification time of the last segment before the latest read."""
        if self.segment is None:
            return
        self.end = self.segment.base_offset or 0
        if plan or not self._walk_to_end(self.segment, log.max_batch_bytes):
            found = log.plan(self.segment)
            self.end = max(found.next_offset or 0, self.segment.base_offset or 0)
            ends = [e.end for e in found.runs] + [d.position + d.length for d in found.damaged]
            self.position = max(ends, default=0)
            self.damaged = [d for d in found.damaged if d.last_offset is None]

    def _walk_to_end(self, segment: SegmentFile, max_batch_bytes: int) -> bool:
        """Find the last batch from the last index entry on. Return False if the index or a batch is damaged."""
        with FileView(segment.place, fill_unreadable=True) as view:
            if is_hole(view):
                return True
            border = last_border(segment)
            if border is not None:
                batch = batch_at(view, border.position)
                if batch is None or not self.end <= int(batch["base_offset"]) <= last_offset(batch) <= border.upto:
                    return False
                self.position = border.position
            error: KafkaFormatError | None = None
            walker = Walker(view, self.end, max_batch_bytes, first_read=FIRST_READ)
            for start, buffer, table, error in walker.tables(self.position, view.size):  # noqa: B007 (the last one, below)
                if self._rising(table) < len(table):
                    return False
                if len(table):
                    self._found(start, buffer, table)
            return error is None or only_zeros(view, self.position)

    def _found(self, start: int, buffer: Any, table: BatchTable) -> None:
        """Set `end` and `position` to the end of the last batch. Positions in `table` are relative to `start`."""
        self.end = int(last_offsets(table[-1:])[0]) + 1
        at, size = int(table["position"][-1]), int(table["size"][-1])
        self.position = start + at + size
        self._last_head = start + at, bytes(buffer[at : at + min(size, BATCH_HEADER_SIZE)])

    def is_unchanged(self) -> bool:
        """Return whether the last segment has the size and modification time of the latest read."""
        # The size is not sufficient, because a broker can append to a preallocated segment.
        state = self._present_state()
        return state == self._state and (state is None or state[1] != UNSETTLED)

    def is_shorter(self) -> bool:
        """Return whether the last segment is missing, or ends before the last known batch."""
        state = self._present_state()
        return self.segment is not None and (state is None or state[0] < self.position)

    def _present_state(self) -> tuple[int, int] | None:
        """Return the size and the modification time of the last segment. Return None if it is missing."""
        if self.segment is None:
            return None
        place = self.segment.place
        if isinstance(place, UrlPath):
            return self.segment.size, 0
        try:
            status = os.stat(place)
        except FileNotFoundError:
            return None
        return status.st_size, settled(status.st_mtime_ns)

    def read(self, segment: SegmentFile, max_batch_bytes: int, take: Take) -> None:
        """Call `take` with the batches that a broker has appended."""
        # An incomplete batch waits until the broker has completed it. `segment` is the segment of
        # the previous call or a later one. DamagedTailError: the next bytes are damaged.
        # ReplacedTailError: the last known batch was overwritten.
        if self.segment is None or segment.name != self.segment.name:
            self.segment, self.position, self._unread, self._last_head = segment, 0, None, None
            self.end = max(self.end, segment.base_offset or 0)
        self._state = self._present_state()
        error: KafkaFormatError | None = None
        with FileView(segment.place, fill_unreadable=True) as view:
            if self._last_head is not None:
                at, head = self._last_head
                if view.read(at, len(head)) != head:
                    raise ReplacedTailError
            walker = Walker(view, self.end, max_batch_bytes, first_read=FIRST_READ)
            for start, buffer, table, error in walker.tables(self.position, view.size):  # noqa: B007 (the last one, below)
                rising = self._rising(table)
                rows = table[:rising]
                if len(rows):
                    take(segment, start, buffer, rows)
                    self._found(start, buffer, rows)
                if rising < len(table):
                    raise DamagedTailError
            incomplete = isinstance(error, TruncatedError) and segment.last
            if error is not None and not incomplete and self._is_damage(view, segment):
                raise DamagedTailError

    def _rising(self, table: BatchTable) -> int:
        """Return the length of the longest prefix of `table` in which the offsets increase and fit into the segment."""
        first, last = table["base_offset"], last_offsets(table)
        before = np.concatenate(([self.end - 1], last[:-1])) if len(table) else last
        base = None if self.segment is None else self.segment.base_offset
        # The CRC of a batch does not cover its base offset. A segment contains at most 2**31 offsets.
        highest = MAX_OFFSET - 1 if base is None else min(base + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1)
        wrong = (last > highest) | (table["last_offset_delta"] < 0)
        wrong |= np.where(table["count"] < 0, last, first) <= before
        return int(np.argmax(wrong)) if wrong.any() else len(table)

    def _is_damage(self, view: FileView, segment: SegmentFile) -> bool:
        """Return True if the bytes after the last batch are damaged. Return False if a broker may still be writing them."""
        if view.unreadable:
            return True
        here = self.position, view.size
        if not view.read(self.position, BATCH_HEADER_SIZE).strip(b"\0"):
            return not segment.last and view.size > self.position
        before, self._unread = self._unread, here
        return not segment.last or (before is not None and before[0] == self.position and before[1] < view.size)

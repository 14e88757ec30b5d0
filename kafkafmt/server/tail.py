"""Find the end of a log, and the batches that a broker appends to it."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from ..constants import BATCH_HEADER_SIZE, MAX_OFFSET, NO_END
from ..errors import KafkaFormatError
from ..log import PartitionLog
from ..log.format.files import FileView
from ..log.reading.index_ranges import last_border
from ..log.reading.partition_dir import SegmentFile
from ..log.reading.segment_walker import FIRST_READ, Walker
from ..paths import UrlPath
from ..types import BatchTable, Buffer, last_offsets

Take = Callable[[SegmentFile, int, Buffer, BatchTable], None]
"""Called with valid batches: their segment, the file position of the buffer, the buffer, and the table."""


class DamagedTailError(Exception):
    """Raised if bytes after the known end of the log are damaged, so that their segment must be planned."""


class Tail:
    """The end of a log that may grow.

    Parameters
    ----------
    log : PartitionLog
        The log as it was listed. Its last segment is read to find the end.
    plan : bool, default False
        Plan the last segment completely, because its end is damaged.

    Attributes
    ----------
    segment : SegmentFile or None
        The last segment.
    position : int
        The position after the last batch that was found, in bytes. A broker may be writing the
        bytes after it.
    end : int
        The offset after the last batch that was found, or the base offset of the last segment if
        that is higher.
    """

    def __init__(self, log: PartitionLog, plan: bool = False) -> None:
        self.segment: SegmentFile | None = log.segments[-1] if log.segments else None
        self.position: int = 0
        self.end: int = 0
        self._unread: tuple[int, int] | None = None
        if self.segment is None:
            return
        border = None if plan else last_border(self.segment)
        found = log.plan(self.segment) if border is None else log.events_of(self.segment, border.upto, NO_END).plan
        if border is not None and not found.extents:
            found = log.plan(self.segment)
        self.end = log.next_offset
        ends = [e.end for e in found.extents] + [d.position + d.length for d in found.damaged]
        self.position = max(ends, default=0)

    def size(self) -> int:
        """Return the present size of the last segment, or -1 if the file is missing."""
        if self.segment is None:
            return 0
        if isinstance(self.segment.path, UrlPath):
            return self.segment.size
        try:
            return os.stat(self.segment.path).st_size
        except FileNotFoundError:
            return -1

    def read(self, segment: SegmentFile, max_batch_bytes: int, take: Take) -> None:
        """Pass the batches that were appended to `segment` to the function `take`.

        `segment` is the last segment, or one that was created after it. An incomplete batch at the
        end is read when it is complete.

        Raises
        ------
        DamagedTailError
            The next bytes are damaged.
        OSError
            The file cannot be read.
        """
        if self.segment is None or segment.name != self.segment.name:
            self.segment, self.position, self._unread = segment, 0, None
            self.end = max(self.end, segment.base_offset or 0)
        error: KafkaFormatError | None = None
        with FileView(segment.path) as view:
            walker = Walker(view, self.end, max_batch_bytes, first_read=FIRST_READ)
            for start, buffer, table, error in walker.tables(self.position, view.size):  # noqa: B007 (the last one, below)
                rising = self._rising(table)
                rows = table[:rising]
                if len(rows):
                    take(segment, start, buffer, rows)
                    self.end = int(last_offsets(rows[-1:])[0]) + 1
                    self.position = start + int(rows["position"][-1]) + int(rows["size"][-1])
                if rising < len(table):
                    raise DamagedTailError
            if error is not None and self._is_damage(view, segment):
                raise DamagedTailError

    def _rising(self, table: BatchTable) -> int:
        """Return the number of batches, from the first one on, whose offsets follow those before them."""
        first, last = table["base_offset"], last_offsets(table)
        before = np.concatenate(([self.end - 1], last[:-1])) if len(table) else last
        wrong = (last == MAX_OFFSET) | (table["last_offset_delta"] < 0)
        wrong |= np.where(table["count"] < 0, last, first) <= before
        return int(np.argmax(wrong)) if wrong.any() else len(table)

    def _is_damage(self, view: FileView, segment: SegmentFile) -> bool:
        """Return whether the bytes after the last batch are damaged, and not a batch that is being written."""
        here = self.position, view.size
        if not view.read(self.position, BATCH_HEADER_SIZE).strip(b"\0"):
            return not segment.last and view.size > self.position
        before, self._unread = self._unread, here
        return not segment.last or (before is not None and before[0] == self.position and before[1] < view.size)

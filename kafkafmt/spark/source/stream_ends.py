"""Find the offsets up to which a stream can read logs that grow, and reuse the results of earlier checks."""

from __future__ import annotations

from time import time_ns

from ...constants import NO_END
from ...log import PartitionLog
from ...log.catalog import SETTLED_NS
from ...log.damage import Run
from ...log.scanning import last_border
from ...log.storage import Stamp, stamp_of
from ...log.transactions import Transactions, open_after
from ...support.paths import UrlPath
from .options import Key
from .stream_offsets import Offsets

SegmentState = tuple[int | str, ...]


class LogEnds:
    """The end offsets of the partitions of a stream, and the states of the logs at the last check."""

    def __init__(self, committed: bool) -> None:
        self.seen: Offsets = {}
        self._committed = committed
        # End offset of each partition at the last check, and the transactions that were open at this offset.
        self._open: dict[Key, tuple[int, Transactions]] = {}
        # The result of _stamp_of() and the end offset of each partition, from the last check.
        self._checked: dict[Key, tuple[SegmentState, int]] = {}
        # Inode, size and modification time of the last segment of each partition, from the last check.
        self._last: dict[Key, Stamp] = {}

    def find(self, log: PartitionLog, known: int) -> int:
        """Return the offset up to which a stream can read: the last stable offset, or the end of the valid batches."""
        # `known` is the result of an earlier call. If the log still contains this offset, only
        # later batches are read; if the last segment has an offset index, only those after the last
        # index entry.
        key, stamp = (log.topic, log.partition), self._stamp_of(log)
        if stamp is not None and key in self._checked and self._checked[key][0] == stamp:
            return self._checked[key][1]
        end = 0
        if known > log.log_start_offset:
            last = log.segments[-1]
            border = last_border(last)
            begin = max(known - 1, last.base_offset or 0, 0 if border is None else border.upto)
            for _, event in log.events(begin, NO_END):
                if isinstance(event, Run):
                    end = max(end, event.last_offset + 1)
        if end < known or not end:
            end = log.next_offset
        if self._committed:
            end = self._stable(log, end)
        if stamp is None:
            self._checked.pop(key, None)
        else:
            self._checked[key] = stamp, end
        return end

    def transactions(self, log: PartitionLog, stop: int) -> Transactions:
        """Return the transactions that are open at the end of a log, checked again if the last end was below `stop`."""
        key = log.topic, log.partition
        if key not in self._open or self._open[key][0] < stop:  # After a restart of the query, `_open` is empty.
            self._stable(log, log.next_offset)
        return self._open[key][1]

    def is_shorter(self, log: PartitionLog) -> bool:
        """Return whether the last segment was removed, replaced or truncated since its end offset was determined."""
        before = self._last.get((log.topic, log.partition))
        if before is None:
            return False
        now = stamp_of(log.segments[-1].path)
        return now is None or now[0] != before[0] or now[1] < before[1]

    def forget(self, key: Key) -> None:
        """Discard all stored data about the end of a partition's log."""
        for known in (self.seen, self._open, self._checked, self._last):
            known.pop(key, None)

    def _stamp_of(self, log: PartitionLog) -> SegmentState | None:
        """Return a tuple that identifies the state of a log's last segment, or None if it is unknown."""
        # It is also None if the segment was changed very recently, because another change could
        # result in the same modification time.
        key = log.topic, log.partition
        self._last.pop(key, None)
        if not log.segments or isinstance(log.directory.path, UrlPath):
            return None
        last = log.segments[-1]
        found = stamp_of(last.path)
        if found is not None:
            self._last[key] = found
        if found is None or time_ns() - found[2] < SETTLED_NS:
            return None
        return last.base_offset or 0, *found

    def _stable(self, log: PartitionLog, end: int) -> int:
        """Update the open transactions of a log that ends at `end`. Return its last stable offset."""
        # Only the headers of new batches are read. If this is not sufficient, for example because a
        # header is damaged, the whole log is read.
        key = log.topic, log.partition
        before = self._open.get(key)
        found: Transactions | None = None
        if before is not None and before[0] <= end and not log.knows_transactions:
            upto, known = before
            found = open_after(log.directory, upto, known.open, log.ends_at, log)
            if found is not None:
                found.doubts = known.doubts
        found = found or log.open_transactions
        found.last_stable_offset = min([*found.open.values(), end])
        self._open[key] = end, found
        return found.last_stable_offset

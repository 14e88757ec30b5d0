"""Follow one partition: its segments, its end, and the batches that a broker appends."""

from __future__ import annotations

import os
import time
from threading import RLock

from ..constants import READ_COMMITTED
from ..log import Damage, NoLogError, PartitionDir, PartitionLog, discover
from ..log.catalog import SegmentFile
from ..log.damage import ReadLimits
from ..log.formats import PARTITION_METADATA
from ..log.scanning import Border, Share, whole_segment
from ..log.storage import Stamp, joined, stamp_of
from ..records.java_reads import not_read_by_java
from ..support.paths import UrlPath
from ..support.text import quantity
from ..types import BatchTable, Buffer, last_offsets
from .checked_batches import BatchLists, CheckedBatches
from .open_files import inode_of
from .resources import Resources
from .settings import ServerSettings
from .tail import UNSETTLED, DamagedTailError, ReplacedTailError, Tail, settled
from .transaction_state import TransactionState

RECENT = 60 * 10**9
"""If a directory changed less than this number of nanoseconds before it was listed, it is listed again."""
CHECK_INTERVAL = 0.05
"""Least number of seconds between two checks of the files of a partition."""
FULL_CHECK_INTERVAL = 1.0
"""Seconds after which the log start offset is also checked, even if the segments seem to be unchanged."""
MOST_REPORTED = 1000
"""Largest number of damaged byte ranges of a partition that are reported."""


class GrowingPartition:
    """One partition whose log may grow. `ServedPartition` is its only subclass."""

    # `missing` is True if the log directories do not contain the partition: it is then served
    # empty. `changes` increases when the log changes. `deleted` means that the directory was
    # deleted or replaced by one of a new topic; the next search for partitions then replaces this
    # object.

    def __init__(
        self, directory: PartitionDir, settings: ServerSettings, resources: Resources, missing: bool = False
    ) -> None:
        self.directory: PartitionDir = directory
        self.missing: bool = missing
        self.changes: int = 0
        self.deleted: bool = False
        self._settings = settings
        self._resources = resources
        self._limits = ReadLimits(settings.max_batch_bytes)
        self._lock = RLock()
        self._log: PartitionLog | None = None
        self._tail: Tail | None = None
        self._listed_end = 0
        """The end offset of `_log` when the partition directory was listed."""
        self._lists: BatchLists = BatchLists()
        self._transactions: TransactionState | None = None
        self._epoch: int | None = None
        """The latest leader epoch, or None if it is not known."""
        self._cap: int | None = None
        """The end offset that the option `at` selects, or None if it is not known."""
        self._cap_may_rise = False
        """Whether `_cap` is the end of the log, so that records which are appended can also be selected."""
        self._checked = 0.0
        """Time of the latest check for changes, on the monotonic clock."""
        self._fully_checked = 0.0
        """Time of the latest call of `_check` that was not too early, on the monotonic clock."""
        self._stamp = 0
        """Time of the directory when it was last listed, in ns. UNSETTLED: it may have changed without a new time."""
        self._listed_once = False
        self._checkpointed: int | None = None
        """Log start offset in the checkpoint when it was last checked, or None if it is not known."""
        self._metadata: Stamp | None = None
        """State of the file ``partition.metadata`` when the partition was first read, or None if it is not known."""
        self._reported: set[tuple[str, int]] = set()
        self._unchanged_since = time.time_ns() - RECENT
        """The list of segments is complete if the directory has not been modified since this time, in ns."""

    def __repr__(self) -> str:
        return f"<ServedPartition {self.topic}-{self.number}>"

    @property
    def topic(self) -> str:
        return self.directory.topic

    @property
    def number(self) -> int:
        return self.directory.partition

    @property
    def log(self) -> PartitionLog:
        """The log of the partition. It contains the segments that the directory contained when it was last listed."""
        with self._lock:
            if self._log is None:
                self._log = PartitionLog(self.directory, self._limits, tell=self._settings.on_message)
            return self._log

    @property
    def log_start_offset(self) -> int:
        """First offset that clients can read. No file is accessed."""
        return self.directory.log_start_offset

    def first_offset(self) -> int:
        """Return the first offset that clients can read, after checking for deleted segments and records."""
        with self._lock:
            if self._tail is None:
                self._list_if_changed()
                self._check_log_start()
            else:
                self._check()
            return self.log_start_offset

    def size(self) -> int:
        """Return the total size of the segments, in bytes."""
        return sum(segment.size for segment in self.directory.segments)

    def seconds_since_check(self) -> float:
        """Return the number of seconds since the last check of the files. No file is accessed."""
        return time.monotonic() - self._checked

    def seems_unchanged(self) -> bool:
        """Return whether the directory and the last segment have not changed since the latest check."""
        # This calls only `stat`, so the event loop can call it: a check in a thread would take
        # longer than the rest of a response. A result that is older than CHECK_INTERVAL is not used
        # again.
        tail, now = self._tail, time.monotonic()
        if tail is None or now - self._checked < CHECK_INTERVAL:
            return tail is not None
        if self.missing or isinstance(self.directory.path, UrlPath):
            return True
        if now - self._fully_checked >= FULL_CHECK_INTERVAL:
            return False
        if self._folder_stamp() != self._stamp or not tail.is_unchanged():
            return False
        self._checked = now
        return True

    def check(self) -> int:
        """Check whether the log has changed. Return `changes`, the number of changes so far."""
        with self._lock:
            self._check()
            return self.changes

    def raise_log_start(self, offset: int) -> None:
        """Set the log start offset to the offset in the checkpoint, unless it is already higher."""
        with self._lock:
            if offset > self.directory.log_start_offset:
                self.directory.log_start = offset
                self.changes += 1

    def close(self) -> None:
        with self._lock:
            self._resources.readers.drop(self)
            self._resources.batches.drop(self._lists)

    def _known_tail(self) -> Tail:
        if self._tail is None:
            self._open_tail()
        assert self._tail is not None
        return self._tail

    def _open_tail(self, plan: bool = False) -> None:
        """Find the end of the log, and create a `Tail`, which finds batches that are appended later."""
        self._list_if_changed()
        self._check_log_start()
        self.remember_metadata()
        self._tail = Tail(self.log, plan)
        for damage in self._tail.damaged:
            # Clients cannot fetch offsets after the end of the log. Therefore, report the damage at these offsets now.
            self._report(damage)
        self._listed_end = self._tail.end
        self._restrict()

    def _restrict(self) -> None:
        """Read the last segment only up to the known end, because a broker may be writing the bytes after it."""
        tail, segment = self._tail, self._tail.segment if self._tail else None
        if tail is None or segment is None or segment.base_offset is None or not tail.position:
            return
        last = whole_segment(segment, tail.position)
        self.log.restrict(segment, Share(last.start, Border(tail.position, last.end.upto, indexed=False)))

    def _list_if_changed(self) -> None:
        """List the partition directory again if it may have changed. Call this method before the log is read."""
        if self.missing or isinstance(self.directory.path, UrlPath):
            return
        stamp = self._folder_stamp()
        before, self._stamp = self._stamp, settled(stamp)
        if stamp != before if self._listed_once else stamp > self._unchanged_since:
            found = self._listed()
            if found is not None:
                self.directory, self._log = found, None
        self._listed_once = True

    def _check_log_start(self) -> None:
        """Read the log start offset again. A live broker may have changed it, and lowers it if it truncates the log."""
        directory = self.directory
        if directory.state == "live" and not self.missing:
            found = self._resources.log_starts.find(directory.path.parent, directory.key)
            before, self._checkpointed = self._checkpointed, found
            # `directory.log_start` can be newer than the checkpoint. Lower it only if the checkpoint has changed.
            lowered = before is not None and found != before
            if found is not None and (found > directory.log_start or (lowered and found < directory.log_start)):
                directory.log_start = found
                self.changes += 1

    def _check(self) -> None:
        """Find batches that were appended, and segments that were created, deleted or truncated."""
        now = time.monotonic()
        if (
            self.missing
            or self.deleted
            or self._tail is None
            or now - self._checked < CHECK_INTERVAL
            or isinstance(self.directory.path, UrlPath)
        ):
            return
        self._checked = self._fully_checked = now
        self._check_log_start()
        tail = self._tail
        stamp = self._folder_stamp()
        if stamp == self._stamp and tail.is_unchanged():
            return
        before, self._stamp = self._stamp, settled(stamp)
        try:
            if stamp != before or tail.is_shorter():
                if self.is_replaced():
                    return
                self._list_changed()
            tail = self._known_tail()
            segments = self.directory.segments
            known = tail.segment.name if tail.segment is not None else None
            at = next((i for i, s in enumerate(segments) if s.name == known), -1 if known is None else len(segments))
            end = tail.end
            for segment in segments[max(at, 0) :]:
                tail.read(segment, self._limits.max_batch_bytes, self._take)
            if tail.end != end:
                self.changes += 1
        except DamagedTailError:
            self._reset()
            self._open_tail(plan=True)
            self.changes += 1
        except ReplacedTailError:
            self._report_truncation()
            self._reset()
        except FileNotFoundError:
            self._checked, self._stamp = 0.0, UNSETTLED  # a segment was deleted after the directory was listed

    def remember_metadata(self) -> None:
        """Store the state of ``partition.metadata``. Call this method before the topic id or the log is read."""
        if self._metadata is None:
            self._metadata = self._present_metadata()

    def _present_metadata(self) -> Stamp | None:
        """Return the state of ``partition.metadata``. Return None if the file does not exist or cannot be accessed."""
        if isinstance(self.directory.path, UrlPath):
            return None
        try:
            return stamp_of(joined(self.directory.path, PARTITION_METADATA))
        except OSError:
            return None

    def is_replaced(self) -> bool:
        """Return whether the partition directory was deleted or replaced since it was first read, and set `deleted`."""
        # A new directory can have the inode of the deleted one. So ``partition.metadata`` is
        # compared too, which a broker never changes.
        unread = self._tail is None and self._metadata is None
        if unread or self.missing or isinstance(self.directory.path, UrlPath):
            return self.deleted
        try:
            inode = os.stat(self.directory.path).st_ino
        except (FileNotFoundError, NotADirectoryError):
            inode = -1
        except OSError:
            return self.deleted
        metadata = self._present_metadata()
        other = metadata != self._metadata and None not in (metadata, self._metadata)
        if not self.deleted and (inode != (self.directory.inode or inode) or inode < 0 or other):
            self.deleted = True
            self.changes += 1
            self._settings.on_message(f"{self.topic}-{self.number}: the partition directory was deleted or replaced")
        return self.deleted

    def _take(self, segment: SegmentFile, position: int, buffer: Buffer, table: BatchTable) -> None:
        """Add batches that were appended to the log."""
        assert self._tail is not None
        if self._transactions is not None and self._settings.at is None:
            self._transactions.add(buffer, table, segment.name)
        elif self._cap_may_rise:
            # Read the transactions again, because the log now ends later, and the setting `at` may select a later end.
            self._transactions = None
        start, end = self._tail.end, int(last_offsets(table[-1:])[0]) + 1
        if self._settings.isolation != READ_COMMITTED:
            odd = len(not_read_by_java(buffer, table, self._settings.max_batch_bytes)) > 0
            made = CheckedBatches(segment.path, inode_of(segment.path), start, end, position, table, odd)
            self._resources.batches.add(made, self._lists)

    def _list_changed(self) -> None:
        """List the partition directory again. If its log was truncated or replaced, discard all cached data of the log."""
        found = self._listed()
        if found is None:
            found = PartitionDir(self.topic, self.number, self.directory.path, self.directory.state, [])
        before, self.directory, self._epoch = self.directory, found, None
        tail = self._known_tail()
        bases = [segment.base_offset or 0 for segment in found.segments]
        kept = tail.segment is not None and any(s.name == tail.segment.name for s in found.segments)
        truncated = tail.segment is not None and (tail.is_shorter() if kept else not bases or bases[-1] < tail.end)
        replaced = any(inode_of(item.path) != item.inode for item in self._lists if item.inode)
        if truncated:
            self._report_truncation()
        # If the last known segment was deleted, batches that were never read may have been deleted, too.
        skipped = tail.segment is not None and not kept
        if truncated or replaced or skipped or found.log_start_offset < before.log_start_offset:
            self._reset()
            return
        if found.log_start_offset > before.log_start_offset:
            self.changes += 1
        self._new_log()

    def _report_truncation(self) -> None:
        self._settings.on_message(f"{self.topic}-{self.number}: the log was truncated or deleted")

    def _listed(self) -> PartitionDir | None:
        folder, named = self.directory.path, list[str | os.PathLike[str]]()
        if self.directory.named:
            named = [path for path in self._settings.paths if os.path.dirname(os.fspath(path)) == os.fspath(folder)]
        try:
            listed = discover([path for path in named if os.path.isfile(path)] or [folder]).partitions
        except (NoLogError, FileNotFoundError):
            return None
        found = next((d for d in listed if d.key == self.directory.key), None)
        if found is not None:
            found.named = self.directory.named
        return found

    def _list_again(self) -> None:
        """List the directory again if batches were appended after it was last listed."""
        tail = self._known_tail()
        if tail.end != self._listed_end:
            self._stamp = 0 if self._stamp != self._folder_stamp() else self._stamp
            found = self._listed()
            if found is not None:
                self.directory = found
                self._new_log()
                self._listed_end = tail.end
                self._restrict()

    def _new_log(self) -> None:
        """Create a new `PartitionLog` from the segments in `directory`, and keep the plans of unchanged segments."""
        old = self._log
        self._resources.readers.drop(self)
        self._log = None
        if old is not None:
            # A plan can be older than the last batches of its segment, or the segment may have been replaced.
            planned = [segment for segment in self.directory.segments if old.stamps.get(segment.name) is not None]
            unchanged = {s.name for s in planned if stamp_of(s.place) == old.stamps[s.name]}
            self.log.keep_plans(old, unchanged)
        self._restrict()

    def _reset(self) -> None:
        """Discard the cached end of the log, its transactions, and the positions of its batches."""
        self._resources.readers.drop(self)
        self._resources.batches.drop(self._lists)
        self._log = self._tail = self._transactions = None
        self._cap = None
        self._open_tail()
        self.changes += 1

    def _folder_stamp(self) -> int:
        """Return the modification time of the directory, in ns, or -1 if it is missing."""
        if isinstance(self.directory.path, UrlPath):
            return 0
        try:
            return os.stat(self.directory.path).st_mtime_ns
        except OSError:
            return -1

    def _report(self, damage: Damage) -> None:
        """Report damage, unless the same damage was reported before."""
        key = damage.file, damage.position
        if key not in self._reported and len(self._reported) < MOST_REPORTED:
            self._reported.add(key)
            where = f"{self.directory.path}/{damage.file} at {damage.position}, {quantity(damage.length, 'byte')}"
            self._settings.on_message(f"damaged: {where}: {damage.message}; {damage.lost}")

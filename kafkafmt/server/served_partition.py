"""Serve one partition: its offsets, its leader epochs, and its batches."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from threading import RLock
from typing import NamedTuple

import numpy as np

from ..constants import NO_END, READ_COMMITTED
from ..errors import KafkaFormatError
from ..log import Damage, NoLogError, PartitionDir, PartitionLog, discover
from ..log.format.leader_epochs import Epochs
from ..log.reading.index_ranges import Border, Stretch, whole_segment
from ..log.reading.lookups import Place, find_max_timestamp, find_timestamp
from ..log.reading.models import DamagedLogError
from ..log.reading.part import Part
from ..log.reading.partition_dir import SegmentFile
from ..log.reading.read_limits import ReadLimits
from ..paths import UrlPath
from ..types import BATCH_DTYPE, BatchTable, Buffer, last_offsets
from .checked_batches import BatchLists, CheckedBatches, Omitted, Span
from .open_files import inode_of
from .resources import Reader, Resources
from .settings import ServerSettings
from .tail import DamagedTailError, Tail
from .transaction_state import Aborted, TransactionState

CHECK_INTERVAL = 0.05
"""Least number of seconds between two checks of the files of a partition."""
_NOTHING = np.empty(0, BATCH_DTYPE)
MOST_REPORTED = 1000
"""Largest number of damaged spans per partition that are reported."""


class Fetched(NamedTuple):
    """Batches to send.

    Attributes
    ----------
    spans : list of Span
        The bytes of the batches.
    size : int
        Number of bytes.
    next_offset : int
        The offset from which to continue.
    damaged : bool
        Whether damage prevents reading, and the server answers damage with an error.
    """

    spans: list[Span]
    size: int
    next_offset: int
    damaged: bool = False


class ServedPartition:
    """One partition that is served. The methods are blocking, and may be called in several threads.

    Parameters
    ----------
    directory : PartitionDir
        The partition directory.
    settings : ServerSettings
        The options of the server.
    resources : Resources
        Open files and remembered batches of the whole server.
    missing : bool, default False
        Whether the directories do not contain the partition, so that it is served as empty.

    Attributes
    ----------
    directory : PartitionDir
        The partition directory, as it was last listed.
    changes : int
        A number that increases when the log changes.
    """

    def __init__(
        self, directory: PartitionDir, settings: ServerSettings, resources: Resources, missing: bool = False
    ) -> None:
        self.directory = directory
        self.missing: bool = missing
        self.changes: int = 0
        self._settings = settings
        self._resources = resources
        self._limits = ReadLimits(settings.max_batch_bytes)
        self._lock = RLock()
        self._log: PartitionLog | None = None
        self._tail: Tail | None = None
        self._listed_end = 0
        """The offset at which `_log` ended when it was listed."""
        self._lists: BatchLists = BatchLists()
        self._transactions: TransactionState | None = None
        self._epoch: int | None = None
        self._cap: int | None = None
        self._checked = 0.0
        self._stamp = 0
        self._reported: set[tuple[str, int]] = set()

    def __repr__(self) -> str:
        return f"<ServedPartition {self.topic}-{self.number}>"

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.directory.topic

    @property
    def number(self) -> int:
        """Number of the partition."""
        return self.directory.partition

    @property
    def log(self) -> PartitionLog:
        """The log as it was last listed."""
        with self._lock:
            if self._log is None:
                self._log = PartitionLog(self.directory, self._limits, tell=self._settings.on_message)
            return self._log

    @property
    def log_start_offset(self) -> int:
        """First offset that clients can read. No file is accessed."""
        return self.directory.log_start_offset

    def size(self) -> int:
        """Return the total size of the segments, in bytes."""
        return sum(segment.size for segment in self.directory.segments)

    def high_watermark(self) -> int:
        """Return the offset after the last record that clients can read."""
        with self._lock:
            self._check()
            end = self._log_end()
            if self._settings.isolation == READ_COMMITTED:
                end = min(end, self._stable(end))
            return max(end, self.log_start_offset)

    def last_stable_offset(self) -> int:
        """Return the first offset of the oldest open transaction, or the high watermark if none is open."""
        with self._lock:
            end = self.high_watermark()
            return max(min(self._stable(end), end), self.log_start_offset)

    def known_offsets(self) -> tuple[int, int | None] | None:
        """Return the high watermark, and the last stable offset if it is known, without accessing files.

        Return None if the high watermark is not known, if the files must be checked for changes, or
        if another thread uses the partition.
        """
        if self._tail is None or time.monotonic() - self._checked >= CHECK_INTERVAL:
            return None
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._settings.at is not None or self._settings.isolation == READ_COMMITTED:
                return None
            end = max(self._tail.end, self.log_start_offset)
            return end, None if self._transactions is None else min(self._transactions.last_stable_offset(end), end)
        finally:
            self._lock.release()

    def leader_epoch(self) -> int:
        """Return the latest leader epoch, or -1 if the checkpoint of leader epochs is missing or damaged."""
        if self._epoch is None:
            try:
                epochs = PartitionLog(self.directory).leader_epoch_checkpoint
            except OSError:
                epochs = None
            self._epoch = epochs[-1][0] if epochs else -1
        return self._epoch

    def leader_epochs(self) -> Epochs:
        """Return all leader epochs as pairs (epoch, first offset). If the checkpoint is missing, all batches are read."""
        with self._lock:
            self._check()
            return self.log.leader_epochs

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch of an offset according to the checkpoint, or -1 if it is not known."""
        with self._lock:
            epochs = self.log.leader_epoch_checkpoint or []
            return next((epoch for epoch, first in reversed(epochs) if first <= offset), -1)

    def find_timestamp(self, timestamp: int) -> Place | None:
        """Find the first record whose timestamp in ms is `timestamp` or later."""
        with self._lock:
            end = self.high_watermark()
            self._list_again()
            found = find_timestamp(self.log, timestamp)
            return found if found is not None and found.offset < end else None

    def find_max_timestamp(self) -> Place | None:
        """Find the first record with the largest timestamp."""
        with self._lock:
            end = self.high_watermark()
            self._list_again()
            found = find_max_timestamp(self.log)
            return found if found is not None and found.offset < end else None

    def aborted(self, start: int, end: int, known_only: bool = False) -> Aborted | None:
        """Return the aborted transactions that have records in [start, end).

        If `known_only` is True, return None if a file would have to be read, or if another thread
        uses the partition.
        """
        if not self._lock.acquire(blocking=not known_only):
            return None
        try:
            if known_only and (self._transactions is None or not self._transactions.knows(start, end)):
                return None
            return self._state().aborted(start, end)
        finally:
            self._lock.release()

    def fetch(
        self, offset: int, end: int, max_bytes: int, at_least_one: bool, known_only: bool = False, omitted: Omitted = ()
    ) -> Fetched | None:
        """Select batches to send, starting with the batch that contains `offset`.

        Parameters
        ----------
        offset, end : int
            The range of offsets. A batch that begins at or after `end` is not selected.
        max_bytes : int
            Largest number of bytes.
        at_least_one : bool
            Whether to select the first batch even if it is larger.
        known_only : bool, default False
            Return None if a file would have to be read, or if another thread uses the partition.
        omitted : sequence of (int, int, int)
            Producer ids, first and last offsets of transactions whose batches are not selected.

        Returns
        -------
        Fetched or None
            If no valid batch is left before `end`, the list of spans is empty and `next_offset` is
            `end`.
        """
        if not self._lock.acquire(blocking=not known_only):
            return None
        try:
            return self._fetch(offset, end, max_bytes, at_least_one, known_only, omitted)
        finally:
            self._lock.release()

    def _fetch(
        self, offset: int, end: int, max_bytes: int, at_least_one: bool, known_only: bool, omitted: Omitted
    ) -> Fetched | None:
        spans: list[Span] = []
        size, at = 0, offset
        while at < end:
            batches = self._lists.find(at)
            if batches is None:
                if known_only:
                    if spans:
                        break
                    return None
                try:
                    batches = self._read(at, end)
                except DamagedLogError as error:
                    self._report(error.damage)
                    return Fetched(spans, size, at, damaged=not spans)
            self._resources.batches.used(batches)
            found, got, following, full = batches.select(at, end, max_bytes - size, at_least_one and not spans, omitted)
            for span in found:
                last = spans[-1] if spans else None
                if last is not None and last[:2] == span[:2] and last.position + last.size == span.position:
                    spans[-1] = last._replace(size=last.size + span.size, legacy=last.legacy or span.legacy)
                else:
                    spans.append(span)
            size, at = size + got, following
            if full or size >= max_bytes:
                break
        return Fetched(spans, size, at)

    def forget(self, span: Span) -> None:
        """Forget the positions of batches, because their file has changed."""
        with self._lock:
            self._reset()

    def close(self) -> None:
        """Close all files of the partition."""
        with self._lock:
            self._resources.readers.drop(self)
            self._resources.batches.drop(self._lists)

    def _log_end(self) -> int:
        """Return the end of the log that is served: its present end, or the one that the option `at` selects."""
        end = self._known_tail().end
        if self._settings.at is None:
            return end
        if self._cap is None:
            offset = self._settings.at.resolve(self.log)
            self._cap = self._start_of_batch(offset, end)
        return min(self._cap, end)

    def _start_of_batch(self, offset: int, end: int) -> int:
        """Return the base offset of the batch that contains `offset`, or `offset` if no batch contains it."""
        if not self.log_start_offset <= offset < end:
            return min(offset, end)
        for part in self.log.parts(offset, offset + 1, lambda _: None):
            last = last_offsets(part.table)
            for base in part.table["base_offset"][(part.table["base_offset"] < offset) & (last >= offset)].tolist():
                return int(base)
        return offset

    def _known_tail(self) -> Tail:
        if self._tail is None:
            self._open_tail()
        assert self._tail is not None
        return self._tail

    def _open_tail(self, plan: bool = False) -> None:
        """Find the end of the log."""
        self._stamp = self._folder_stamp()
        self._tail = Tail(self.log, plan)
        self._listed_end = self._tail.end
        self._restrict()

    def _restrict(self) -> None:
        """Read the last segment only up to the known end, because a broker may be writing the bytes after it."""
        tail, segment = self._tail, self._tail.segment if self._tail else None
        if tail is None or segment is None or segment.base_offset is None or not tail.position:
            return
        last = whole_segment(segment, tail.position)
        self.log.restrict(segment, Stretch(last.start, Border(tail.position, last.end.upto, indexed=False)))

    def _state(self) -> TransactionState:
        """Return the state of transactions, which includes all batches up to the end of the log."""
        if self._transactions is None:
            end = self._log_end()
            self._list_again()
            capped = self._settings.at is not None and end < self._known_tail().end
            self._transactions = TransactionState(self.log, end, whole=capped)
        return self._transactions

    def _stable(self, end: int) -> int:
        return min(self._state().last_stable_offset(end), end)

    def _read(self, offset: int, end: int) -> CheckedBatches:
        """Read and check the batches from `offset` on, and remember where they are."""
        if offset >= self._listed_end:
            self._list_again()
        reader = self._resources.readers.take(self)
        if reader is None or reader.at != offset:
            if reader is not None:
                reader.parts.close()
            reader = Reader(offset, self._parts(offset))
        inode, path = 0, None
        limit = min(self._lists.limit(offset) or NO_END, max(self._listed_end, offset + 1))
        part = next(reader.parts, None)
        if part is None:
            reader.parts.close()
            table, position, following = _NOTHING, 0, limit
            path = self.directory.path
        else:
            path, position = part.plan.segment.path, part.position
            inode = inode_of(path)
            last = last_offsets(part.table)
            table = part.table[last >= offset]
            following = max(int(last.max(initial=offset)) + 1, offset + 1)
            reader.at = following
            self._resources.readers.keep(self, reader)
            if self._settings.isolation == READ_COMMITTED:
                following = min(following, max(end, offset + 1))
                table = self._state().committed(table[table["base_offset"] < end])
        made = CheckedBatches(path, inode, offset, following, position, table)
        self._resources.batches.add(made, self._lists)
        return made

    def _parts(self, offset: int) -> Generator[Part, None, None]:
        skip = self._settings.on_error == "skip"
        yield from self.log.parts(offset, self._listed_end, self._report if skip else None)

    def _report(self, damage: Damage) -> None:
        """Report a damaged span once."""
        key = damage.file, damage.position
        if key not in self._reported and len(self._reported) < MOST_REPORTED:
            self._reported.add(key)
            where = f"{self.directory.path}/{damage.file} at {damage.position}, {damage.length} bytes"
            self._settings.on_message(f"damaged: {where}: {damage.message}; {damage.lost}")

    def raise_log_start(self, offset: int) -> None:
        """Set the log start offset to the one in the checkpoint, if it is higher than the known one."""
        with self._lock:
            if offset > self.directory.log_start_offset:
                self.directory.log_start = offset
                self.changes += 1

    def report_batch(self, span: Span, position: int, error: KafkaFormatError) -> None:
        """Report a batch whose records cannot be decoded, once."""
        key = span.path.name, position
        if key not in self._reported and len(self._reported) < MOST_REPORTED:
            self._reported.add(key)
            self._settings.on_message(f"damaged: {span.path} at {position}: {error}")

    def check(self) -> int:
        """Check whether the log has changed, and return `changes`."""
        with self._lock:
            self._check()
            return self.changes

    def _check(self) -> None:
        """Notice batches that were appended, and segments that were created, deleted or truncated."""
        now = time.monotonic()
        if (
            self.missing
            or self._tail is None
            or now - self._checked < CHECK_INTERVAL
            or isinstance(self.directory.path, UrlPath)
        ):
            return
        self._checked = now
        tail = self._tail
        stamp, size = self._folder_stamp(), tail.size()
        if stamp == self._stamp and size == tail.position:
            return
        try:
            if stamp != self._stamp or size < tail.position:
                self._list_changed(stamp)
            tail = self._known_tail()
            segments = self.directory.segments
            known = tail.segment.name if tail.segment is not None else None
            at = next((i for i, s in enumerate(segments) if s.name == known), -1 if known is None else len(segments))
            before = tail.end
            for segment in segments[max(at, 0) :]:
                tail.read(segment, self._limits.max_batch_bytes, self._take)
            if tail.end != before:
                self.changes += 1
        except DamagedTailError:
            self._reset()
            self._open_tail(plan=True)
            self.changes += 1
        except FileNotFoundError:
            self._checked = 0.0  # a segment was deleted after the directory was listed

    def _take(self, segment: SegmentFile, position: int, buffer: Buffer, table: BatchTable) -> None:
        """Add batches that were appended to the log."""
        assert self._tail is not None
        if self._transactions is not None:
            self._transactions.add(buffer, table, segment.name)
        start, end = self._tail.end, int(last_offsets(table[-1:])[0]) + 1
        if self._settings.isolation != READ_COMMITTED:
            made = CheckedBatches(segment.path, inode_of(segment.path), start, end, position, table)
            self._resources.batches.add(made, self._lists)

    def _list_changed(self, stamp: int) -> None:
        """List the directory again. If the log was truncated or replaced, forget everything about it."""
        found = self._listed()
        if found is None:
            found = PartitionDir(self.topic, self.number, self.directory.path, self.directory.state, [])
        before, self.directory, self._stamp, self._epoch = self.directory, found, stamp, None
        tail = self._known_tail()
        bases = [segment.base_offset or 0 for segment in found.segments]
        kept = tail.segment is not None and any(s.name == tail.segment.name for s in found.segments)
        truncated = tail.segment is not None and (
            tail.size() < tail.position if kept else not bases or bases[-1] < tail.end
        )
        replaced = any(inode_of(item.path) != item.inode for item in self._lists if item.inode)
        if truncated:
            self._settings.on_message(f"{self.topic}-{self.number}: the log was truncated or deleted")
        if truncated or replaced or found.log_start_offset < before.log_start_offset:
            self._reset()
            return
        if found.log_start_offset > before.log_start_offset:
            self.changes += 1
        self._new_log()

    def _listed(self) -> PartitionDir | None:
        try:
            listed = discover([self.directory.path]).partitions
        except (NoLogError, FileNotFoundError):
            return None
        found = next((d for d in listed if d.key == self.directory.key), None)
        if found is not None:
            found.named = self.directory.named
        return found

    def _list_again(self) -> None:
        """Extend the log that is read to the batches that were appended since it was listed."""
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
        """Read the log as it is listed in `directory`. Plans of segments that are complete are kept."""
        old = self._log
        self._resources.readers.drop(self)
        self._log = None
        if old is not None:
            complete = {segment.name for segment in self.directory.segments if not segment.last}
            self.log.keep_plans(old, complete)
        self._restrict()

    def _reset(self) -> None:
        """Forget the end of the log, its transactions, and the positions of its batches."""
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

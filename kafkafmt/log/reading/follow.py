"""Follow a growing log: find batches that were appended to a partition since the last check.

Each check reads only new batches, and accepts complete and valid ones. If the log ends with an
invalid batch, a broker may still be writing it, so the follower waits. If the batch stays invalid
while the file grows, or if a new segment is created, the whole segment is read again, to determine
which bytes are damaged.

At read_committed, only records below the last stable offset are delivered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import numpy as np

from ..._backend import core
from ...constants import BATCH_HEADER_SIZE, MAX_OFFSET, NO_END
from ...errors import KafkaFormatError
from ...records import Chunk
from ...support.paths import Location, check_local
from ...support.text import offset_range
from ...types import COLUMNS, BatchTable, Buffer, last_offset, last_offsets
from ..catalog import NoLogError, PartitionDir, SegmentFile
from ..damage import DEFAULT_LIMITS, FIRST_READ, UNREADABLE, ReadLimits, Walker
from ..storage import FileView, path_exists
from ..transactions import TransactionWalk, settle_hidden
from .partition import PartitionLog
from .record_selection import EVERYTHING, Selection
from .replicas import discover
from .segment_reader import OnDamage

Stamp = tuple[int, ...]


class Follower:
    """Delivers the records of one partition while a broker appends to it."""

    # `discover` finds the partition again with `paths`. `Selection.end` has no effect.

    def __init__(
        self,
        directory: PartitionDir,
        paths: Collection[Location],
        selection: Selection = EVERYTHING,
        limits: ReadLimits = DEFAULT_LIMITS,
        *,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        check_local(directory.path, "followed")
        self.name: str = f"{directory.topic}-{directory.partition}"
        self.gone: bool = False
        self._paths = paths
        self._selection = selection
        self._limits = limits
        self._tell = tell
        self._stamp: Stamp = ()
        self.log: PartitionLog = PartitionLog(directory, self._limits, tell=tell)
        self._told = -1  # position at which the end of the log was last reported as unreadable
        self._begin()
        self._interval = selection.resolve(self.log)
        self.next: int = max(self._low, self._interval.low)

    @property
    def _low(self) -> int:
        """Lowest offset that can be selected. Usually, this is the log start offset."""
        segments = self.log.segments
        if self._selection.below_log_start:
            return segments[0].base_offset or 0 if segments else 0
        return self.log.log_start_offset

    def _begin(self) -> None:
        """Store the current log end offset, so that later checks deliver only batches from this offset on."""
        self._walk = TransactionWalk(self.log)
        if self._selection.committed:
            self._walk.found = self.log.transactions
        self._end = self.log.next_offset
        self._segment: SegmentFile | None = self.log.segments[-1] if self.log.segments else None
        self._position = 0 if self._segment is None else self._seen_of(self._segment)
        self._stuck: tuple[int, int] | None = None
        self._judged: tuple[int, int] | None = None

    def _seen_of(self, segment: SegmentFile) -> int:
        """Return the position after which a segment contains at most an incomplete batch."""
        plan = self.log.plan(segment)
        for damage in plan.damaged:
            # `chunks` does not report damage at the end of the log, so it is reported here.
            if damage.code == UNREADABLE and damage.last_offset is None and damage.position != self._told:
                self._told = damage.position
                self._tell(f"{segment.path}: {damage.message}; {damage.lost}")
        return max([e.end for e in plan.runs] + [d.position + d.length for d in plan.damaged], default=0)

    def records(self, on_damage: OnDamage | None = None) -> Iterator[core.Record]:
        """Yield the undelivered records of all batches that have been accepted so far."""
        for source, columns in self.chunks(on_damage, capacity=1024):
            yield from core.make_records(source, columns, topic=self.log.topic, partition=self.log.partition)

    def chunks(self, on_damage: OnDamage | None = None, capacity: int = 16384) -> Iterator[Chunk]:
        """Yield records of accepted batches that have not been delivered yet, decoded as columns."""
        if self.next < self._low:
            self._tell(f"{self.name}: retention removed {offset_range(self.next, self._low - 1)} before they were read")
            self.next = self._low
        end = self._end
        if self._selection.committed:
            for doubt in settle_hidden(self._walk):
                self._tell(f"{self.name}: {doubt.message}")
            end = min([end, *self._walk.found.open.values()])
            self._walk.found.last_stable_offset = end
            self.log.transactions = self._walk.found
        if end > self.next:
            interval = replace(self._interval, low=self.next, high=end)
            yield from self.log.chunks(COLUMNS, interval, on_damage=on_damage, capacity=capacity)
            self.next = end

    def check(self, always: bool = False) -> None:
        """Check the partition for new batches."""
        # If the modification times and sizes of the files have not changed, nothing is read, unless `always` is True.
        try:
            stamp = self._stamp_now()
            if stamp == self._stamp and not always:
                return
            log = self._fresh_log()
        except (FileNotFoundError, NotADirectoryError, NoLogError):
            self._tell(f"{self.name}: the partition no longer exists (its topic was deleted, or it was moved)")
            self.gone = True
            return
        self._stamp, self.log, self._walk.log = stamp, log, log
        if self._shrunk():
            before, self._stamp = self._end, ()
            self._begin()
            self._tell(f"{self.name}: the log was truncated: it ended at offset {before}, and now ends at {self._end}")
            self.next = min(self.next, self._end)
            return
        for segment in log.segments:
            base = -1 if self._segment is None else self._segment.base_offset or 0
            if segment.base_offset is None or segment.base_offset >= base:
                self._read(segment)

    def _stamp_now(self) -> Stamp:
        """Return a tuple that changes when a broker appends to the partition or changes its files."""
        folder = os.stat(str(self.log.directory.path))
        if self._segment is None:
            return (folder.st_mtime_ns,)
        try:
            last = os.stat(str(self._segment.path))
        except FileNotFoundError:
            return (folder.st_mtime_ns, -1)
        return folder.st_mtime_ns, last.st_mtime_ns, last.st_size

    def _fresh_log(self) -> PartitionLog:
        for directory in discover(self._paths).partitions:
            if directory.key == self.log.directory.key:
                return PartitionLog(directory, self._limits, tell=self._tell)
        raise NoLogError(self.name)

    def _shrunk(self) -> bool:
        """Return whether the log was truncated below the end of the batches that were already accepted."""
        if self._segment is None:
            return False
        for segment in self.log.segments:
            if segment.name == self._segment.name:
                return segment.size < self._position
        later = [s for s in self.log.segments if (s.base_offset or 0) > (self._segment.base_offset or 0)]
        return not later  # if later segments exist, retention has deleted `_segment`

    def _read(self, segment: SegmentFile) -> None:
        """Read the new batches of a segment, and accept the valid ones."""
        if self._segment is None or segment.name != self._segment.name:
            self._segment, self._position, self._stuck, self._judged = segment, 0, None, None
        error: KafkaFormatError | None = None
        try:
            with FileView(segment.path, fill_unreadable=True) as view:
                walker = Walker(view, self._end, self._limits.max_batch_bytes, first_read=FIRST_READ)
                for start, buffer, rows, error in walker.tables(self._position, view.size):
                    rising = self._rising(rows)
                    if len(rows[:rising]):
                        self._take(start, buffer, rows[:rising], segment.name)
                    if rising < len(rows):
                        error = KafkaFormatError("offsets decrease", self._position)
                        break
                if error is not None and (not segment.last or self._is_damage(view, error)):
                    self._judge(segment)
        except FileNotFoundError:
            if path_exists(self.log.directory.path):  # if the directory is missing, the next check reports this
                self.log.skip_missing(segment)

    def _rising(self, rows: BatchTable) -> int:
        """Return the index of the first header that breaks the increasing offset order, or `len(rows)` if none does."""
        first, last = rows["base_offset"], last_offsets(rows)
        before = np.concatenate(([self._end - 1], last[:-1])) if len(rows) else last
        falls = np.flatnonzero(
            (last == MAX_OFFSET)
            | (rows["last_offset_delta"] < 0)
            | np.where(rows["count"] < 0, last <= before, first <= before)
        )
        return int(falls[0]) if len(falls) else len(rows)

    def _take(self, start: int, buffer: Buffer, rows: BatchTable, file: str) -> None:
        if self._selection.committed:
            self._walk.add(buffer, rows, file)
        self._end = last_offset(rows[-1]) + 1
        self._position = start + int(rows[-1]["position"]) + int(rows[-1]["size"])

    def _is_damage(self, view: FileView, error: KafkaFormatError) -> bool:
        """Return whether the bytes after the last valid batch are damaged."""
        # Else, a broker may still be writing there.
        if view.unreadable:
            return True
        here = self._position, view.size
        if not view.read(self._position, BATCH_HEADER_SIZE).strip(b"\0") or self._judged == here:
            return False
        before, self._stuck = self._stuck, here
        if before is None or before[0] != self._position:
            return False
        return error.code != "truncated" or before[1] != view.size

    def _judge(self, segment: SegmentFile) -> None:
        """Read the whole segment again to decide which bytes are damaged, and accept valid batches after these."""
        plan = self.log.plan(segment)
        self._judged = self._position, plan.size
        late = [(e.position, e.first_offset, e.last_offset) for e in plan.runs]
        late += [
            (d.position, d.first_offset or 0, NO_END if d.last_offset is None else d.last_offset) for d in plan.damaged
        ]
        for position, first, last in late:
            if position < self._position or min(last, self._end - 1) < first:
                continue
            span = offset_range(first, min(last, self._end - 1))
            self._tell(
                f"{self.name}: {span} cannot be delivered while following, because higher offsets were written first"
            )
        if plan.next_offset is not None and plan.next_offset > self._end:
            if self._selection.committed:
                for part in self.log.parts(self._end, plan.next_offset, self._walk):
                    self._walk.add(part.buffer, part.table[part.table["base_offset"] >= self._end], segment.name)
            self._end = plan.next_offset
            self._position = self._seen_of(segment)

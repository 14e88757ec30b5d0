"""One partition, read: its segments in order, its records as columns, its damage named where it lies."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._backend import core
from ..constants import CONTROL_BIT, DEFAULT_MAX_BATCH_BYTES, MAX_OFFSET, MIN_OFFSET
from ..errors import KafkaFormatError, StructureError
from ..records import Chunk, RecordReader
from ..types import COLUMNS, IntArray, RecordColumns
from . import files
from .checkpoints import LEADER_EPOCHS, read_leader_epochs
from .directory import PartitionDir, SegmentFile
from .epochs import Epochs, believable_epochs, epochs_of
from .files import FileView
from .indexes import position_before
from .plan import Damage, SegmentPlan, plan_segment
from .ranges import MAX_HEADERS_READ, reach, sound_runs
from .transactions import Transactions, find_transactions
from .walk import FIRST_READ, Run, See, Walker

OnDamage = Callable[[Damage], None]
Tell = Callable[[str], None]
UNKNOWN = MIN_OFFSET
"""A largest timestamp that was not looked up yet."""


class DamagedLogError(KafkaFormatError):
    """Damage in a log that was read to fail at it; `damage` says what, `code` its kind, `path` in which partition directory."""

    def __init__(self, damage: Damage, path: str) -> None:
        super().__init__(f"{path}/{damage.file}: {damage.message}; {damage.lost}", damage.position)
        self.damage, self.path = damage, path
        self.resume = damage.position + damage.length
        self.code = damage.error

    def __reduce__(self) -> Any:
        return type(self), (self.damage, self.path)


class PartitionLog:
    """The segments of one partition directory, planned when they are first needed.

    run_bytes: extents are cut at about that size. mapped: files are mapped, not read; a file that a broker truncates
    meanwhile then kills the process. tell: called with a line about what is worth saying and is not
    damage (a file that retention removed meanwhile). `bytes_read` and `reads` count what has been read of the segments and their indexes.
    """

    def __init__(
        self,
        directory: PartitionDir,
        *,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        run_bytes: int = sys.maxsize,
        mapped: bool = False,
        tell: Tell | None = None,
    ) -> None:
        self.directory = directory
        self.max_batch_bytes = max_batch_bytes
        self.run_bytes = run_bytes
        self.mapped = mapped
        self.tell = tell or (lambda _: None)
        self.bytes_read = self.reads = 0
        self._plans: dict[str, SegmentPlan] = {}

    def __repr__(self) -> str:
        return f"<PartitionLog {self.directory.topic}-{self.directory.partition}, {len(self.segments)} segments>"

    @property
    def topic(self) -> str:
        return self.directory.topic

    @property
    def partition(self) -> int:
        return self.directory.partition

    @property
    def segments(self) -> list[SegmentFile]:
        return self.directory.segments

    @property
    def log_start_offset(self) -> int:
        return self.directory.log_start_offset

    @property
    def leader_epochs(self) -> Epochs:
        """(epoch, first offset) by the checkpoint; where that cannot be read, by the batches, each of which is then looked at."""
        found = self.leader_epoch_checkpoint
        if found is not None:
            return found
        return believable_epochs([e for part in self.parts(0, MAX_OFFSET, lambda _: None) for e in epochs_of(part.table)])

    @cached_property
    def largest_timestamps(self) -> IntArray:
        """A segment's largest timestamp each, as far as they were looked up."""
        return np.full(len(self.segments), UNKNOWN, np.int64)

    def first_segment(self, offset: int) -> int:
        """The index of the first segment that may hold an offset or a later one."""
        if not self.segments or self.segments[-1].base_offset is None:
            return 0
        return max(bisect_right(self.segments, offset, key=lambda s: s.base_offset or 0) - 1, 0)

    @contextmanager
    def view(self, segment: SegmentFile, mapped: bool = False) -> Iterator[FileView]:
        """A segment's file, open; what is read of it is counted."""
        with FileView(segment.path, mapped) as view:
            try:
                yield view
            finally:
                self.bytes_read += view.bytes_read
                self.reads += view.reads

    def plan(self, segment: SegmentFile, see: See | None = None) -> SegmentPlan:
        """What of a segment is delivered. Empty, and told, where the file has gone since it was listed. see: as `plan_segment` takes it."""
        plan = self._plans.get(segment.name)
        if plan is None:
            try:
                plan = plan_segment(segment, self.max_batch_bytes, self.run_bytes, self.mapped, see)
            except FileNotFoundError:
                self.tell(f"{segment.path}: gone before it was read (retention)")
                plan = SegmentPlan(segment, 0, [], [], [])
            self._plans[segment.name] = plan
            self.bytes_read += plan.size
        return plan

    @cached_property
    def leader_epoch_checkpoint(self) -> Epochs | None:
        """(epoch, first offset) by the directory's checkpoint; None where that is missing, empty or cannot be read."""
        try:
            text = files.read_text(self.directory.path / LEADER_EPOCHS)
            return read_leader_epochs(text) if text else None
        except StructureError:
            return None

    @property
    def compacted(self) -> bool:
        """Are gaps in the offsets no wonder? The cleaner's checkpoint says so, or batches that lack offsets; looks at all segments."""
        return self.directory.cleaned or not all(e.dense for s in self.segments for e in self.plan(s).extents)

    @property
    def planned(self) -> int:
        """How many segments have been walked whole."""
        return len(self._plans)

    @property
    def next_offset(self) -> int:
        """The offset after the last sound batch, at least the last segment's base offset."""
        for segment in reversed(self.segments):
            following = self.plan(segment).next_offset
            if following is not None or segment.base_offset is not None:
                return max(following or 0, self.segments[-1].base_offset or 0)
        return 0

    def adopt(self, plan: SegmentPlan, transactions: Transactions | None = None) -> None:
        """Take a plan made elsewhere (another process, another machine) for one of the segments, and what became of transactions."""
        self._plans[plan.segment.name] = plan
        if transactions is not None:
            self.transactions = transactions

    @cached_property
    def transactions(self) -> Transactions:
        """What became of the log's transactions. The first look walks all of it."""
        return find_transactions(self)

    def events(self, start: int, end: int) -> Iterator[tuple[SegmentPlan, Run | Damage]]:
        """Extents and damage that concern offsets in [start, end), in the order of offsets."""
        for segment in self.segments[self.first_segment(start) :]:
            if segment.base_offset is not None and segment.base_offset >= end:
                return
            if segment.next_base is not None and segment.next_base <= start:
                continue
            plan = self._plan_of_range(segment, start, end) or self.plan(segment)
            events: list[tuple[int, int, Run | Damage]] = [(e.first_offset, 1, e) for e in plan.extents]
            events += [(d.first_offset or 0, 0, d) for d in plan.damaged]
            for _, _, event in sorted(events, key=lambda e: e[:2]):
                first, last = event.first_offset or 0, MAX_OFFSET if event.last_offset is None else event.last_offset
                if first < end and max(first, last) >= start:
                    yield plan, event

    def _plan_of_range(self, segment: SegmentFile, start: int, end: int) -> SegmentPlan | None:
        """A plan of the batches with offsets in [start, end) alone, by the offset index or the headers, where nothing calls for more.

        None where the whole segment is meant, has been planned already, or where the range is not sound, back to back
        and (unless the log is compacted) without a gap: then only the whole segment tells what is damage and what lies out of place.
        """
        base = segment.base_offset
        if segment.name in self._plans or base is None or (start <= base and (segment.next_base or MAX_OFFSET) <= end):
            return None
        try:
            with self.view(segment, self.mapped) as view:
                compacted = self.directory.cleaned
                walker = Walker(view, base, self.max_batch_bytes, self.run_bytes, FIRST_READ)
                position = position_before(segment, view, start, exactly=compacted)
                if position == 0 and start > base:
                    found = reach(view, start, 0, view.size, base - 1, gaps=compacted)
                    if found is None:
                        return None
                    position = found.before
                if position == 0 and end == MAX_OFFSET:
                    return None
                extents = sound_runs(walker, position, start if position else base, end, gaps=compacted)
        except FileNotFoundError:
            return None
        if extents is None or (extents and segment.next_base is not None and extents[-1].last_offset >= segment.next_base):
            return None
        return SegmentPlan(segment, walker.size, extents, [], [], walker.stats)

    def parts(self, start: int, end: int, on_damage: OnDamage | None) -> Iterator[Part]:
        """The batches that hold offsets in [start, end), in the order of offsets; damage on the way."""
        view: FileView | None = None
        walker: Walker | None = None
        try:
            for plan, event in self.events(start, end):
                if isinstance(event, Damage):
                    self.damage(event, on_damage)
                    continue
                if view is None or view.path != plan.segment.path:
                    if view is not None:
                        self._close(view)
                        view = None
                    try:
                        view = FileView(plan.segment.path, self.mapped)
                    except FileNotFoundError:
                        self.tell(f"{plan.segment.path}: gone while it was read (retention)")
                        continue
                    walker = Walker(view, event.first_offset, self.max_batch_bytes)
                assert walker is not None
                begin, before = event.position, event.first_offset - 1
                long = event.end - begin > MAX_HEADERS_READ
                if before + 1 < start and long and (found := reach(view, start, begin, event.end, before)):
                    begin, before = found.position, found.last
                for position, buffer, table, error in walker.tables(begin, event.end):
                    part = Part(plan, event, walker, position, buffer, table, before)
                    if len(table):
                        before = part.last_offset(len(table) - 1)
                        if before >= start:
                            yield part
                    if error is not None:
                        self.damage(part.unreadable_rest(error), on_damage)
                    if before + 1 >= end:
                        break
        finally:
            if view is not None:
                self._close(view)

    def _close(self, view: FileView) -> None:
        self.bytes_read += view.bytes_read
        self.reads += view.reads
        view.close()

    def damage(self, damage: Damage, on_damage: OnDamage | None) -> None:
        """Raise damage, or hand it to the caller."""
        if on_damage is None:
            raise DamagedLogError(damage, str(self.directory.path))
        on_damage(damage)

    def chunks(
        self,
        names: Collection[str] | RecordColumns = COLUMNS,
        *,
        start: int | None = None,
        end: int | None = None,
        control: bool = False,
        below_log_start: bool = False,
        on_damage: OnDamage | None = None,
        committed: bool = False,
        past_open: bool = False,
        capacity: int = 16384,
    ) -> Iterator[Chunk]:
        """The records with offsets in [start, end) as decoded columns, in the order of offsets.

        Records below the log start are hidden unless asked for, control records too. Damage raises DamagedLogError
        after what precedes it was given, or goes to `on_damage` and reading goes on behind it. committed: what a
        consumer at read_committed would see, up to the last stable offset; with past_open what lies behind it too, less
        what belongs to an open transaction: so a coordinator loads its topic. names, capacity: as RecordReader takes them.
        """
        low = 0 if below_log_start else self.log_start_offset
        low = low if start is None else max(start, low)
        high = MAX_OFFSET if end is None else end
        if committed and not past_open:
            high = min(high, self.transactions.last_stable_offset)
        reader = RecordReader(names, capacity=capacity, first_offset=low, end_offset=high, max_batch_bytes=self.max_batch_bytes)
        for part in self.parts(low, high, on_damage):
            table = part.table if control else part.table[(part.table["attributes"] & CONTROL_BIT) == 0]
            if committed:
                table = self.transactions.committed(table)
            hurt: list[Damage] = []

            def note(row: Any, error: KafkaFormatError, part: Part = part, hurt: list[Damage] = hurt) -> None:
                hurt.append(part.batch_damage(row, error))
                if on_damage is None:
                    raise error

            try:
                yield from reader.read(part.buffer, table, note)
            except KafkaFormatError as error:
                if not hurt:
                    raise
                raise DamagedLogError(hurt[0], str(self.directory.path)) from error
            for damage in hurt:
                self.damage(damage, on_damage)

    def records(self, *, views: bool = False, **selection: Any) -> Iterator[Any]:
        """The same selection as Record objects."""
        for source, columns in self.chunks(capacity=1024, **selection):
            yield from core.make_records(source, columns, views=views)


@dataclass
class Part:
    """Batches of one extent as they lie in a buffer, whose first byte is the file's at `position`.

    before: the last offset in front of the table's first batch. Reused: valid until the next one.
    """

    plan: SegmentPlan
    extent: Run
    walker: Walker
    position: int
    buffer: Any
    table: np.ndarray
    before: int

    def last_offset(self, i: int) -> int:
        row = self.table[i]
        return int(row["base_offset"]) + max(int(row["last_offset_delta"]), 0)

    def batch_damage(self, row: Any, error: KafkaFormatError) -> Damage:
        """Damage of a batch whose CRC holds but whose records cannot be read; its neighbours tell its offsets."""
        i = int(np.searchsorted(self.table["position"], row["position"]))
        start = self.position + int(row["position"])
        first = (self.last_offset(i - 1) if i else self.before) + 1
        following: int | None
        if start + int(row["size"]) < self.extent.end:
            following = self.walker.first_offset_at(start + int(row["size"]))
        else:
            following = self._behind_extent()
        count, span = int(row["count"]), int(row["last_offset_delta"]) + 1
        known = None if not 0 <= count <= span else 0 if int(row["attributes"]) & CONTROL_BIT else count
        last = None if following is None else following - 1
        return Damage(self.plan.segment.name, start, int(row["size"]), first, last, error.code, error.message, known)

    def unreadable_rest(self, error: KafkaFormatError) -> Damage:
        """Damage that was not there when the segment was planned: the file has changed since."""
        first = (self.last_offset(len(self.table) - 1) if len(self.table) else self.before) + 1
        message = f"the file changed while it was read: {error.message}"
        length = max(self.extent.end - error.position, 0)
        return Damage(self.plan.segment.name, error.position, length, first, self.extent.last_offset, error.code, message)

    def _behind_extent(self) -> int | None:
        firsts = [e.first_offset for e in self.plan.extents if e.first_offset > self.extent.last_offset]
        return min(firsts) if firsts else self.plan.segment.next_base

"""One partition, read: its segments in order, its records as columns, its damage named where it lies."""

from __future__ import annotations

import errno
import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from ..._backend import core
from ...constants import CONTROL_BIT, DEFAULT_MAX_BATCH_BYTES, MAX_OFFSET, MIN_OFFSET, NO_END
from ...errors import KafkaFormatError, StructureError
from ...records import Chunk, RecordReader
from ...types import BATCH_DTYPE, COLUMNS, BatchTable, Buffer, IntArray, RecordColumns
from ..format import files
from ..format.checkpoints import LEADER_EPOCHS, read_leader_epochs
from ..format.files import FileView
from ..format.leader_epochs import Epochs, believable_epochs, epochs_of
from .index_lookup import position_before
from .missing import check_retention, unavailable
from .partition_dir import PartitionDir, SegmentFile
from .parts import Run
from .plan import Damage, SegmentPlan, plan_segment
from .ranges import MAX_HEADERS_READ, reach, sound_runs
from .segment_walker import FIRST_READ, TABLE_ROWS, See, Walker
from .transactions import Transactions, find_transactions

Event = TypeVar("Event", Run, Damage)
OnDamage = Callable[[Damage], None]
Tell = Callable[[str], None]
FEW_EXTENTS = 4
"""A segment with more extents than this has its small extents read in groups."""
SMALL_EXTENT = 1 << 16
GROUP_BYTES = 1 << 20
UNKNOWN = MIN_OFFSET
"""A largest timestamp that was not looked up yet."""


class DamagedLogError(KafkaFormatError):
    """Damage in a log that was read to fail at it; `damage` says what, `code` its kind, `path` in which partition directory."""

    damage: Damage
    path: str

    def __init__(self, damage: Damage, path: str) -> None:
        super().__init__(f"{path}/{damage.file}: {damage.message}; {damage.lost}", damage.position)
        self.damage, self.path = damage, path
        self.resume: int = damage.position + damage.length
        self.code: str = damage.error

    def __reduce__(self) -> Any:
        return type(self), (self.damage, self.path)


class PartitionLog:
    """The segments of one partition directory, planned when they are first needed.

    run_bytes: extents are cut at about that size. mapped: files are mapped, not read; a file that a broker truncates meanwhile then
    kills the process. tell: called with a line about something that is not damage, such as a file that retention removed.
    on_missing: called with the segment of such a file. `bytes_read` and `reads` count what has been read of the segments and indexes.
    """

    bytes_read: int
    reads: int

    def __init__(
        self,
        directory: PartitionDir,
        *,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        run_bytes: int = sys.maxsize,
        mapped: bool = False,
        tell: Tell | None = None,
        on_missing: Callable[[SegmentFile], None] | None = None,
    ) -> None:
        if directory.error is not None:
            raise directory.error
        self.directory = directory
        self.max_batch_bytes = max_batch_bytes
        self.run_bytes = run_bytes
        self.mapped = mapped
        self.tell: Tell = tell or (lambda _: None)
        self._on_missing = on_missing or (lambda _: None)
        self._adopted: set[str] = set()
        self.bytes_read = self.reads = 0
        self._plans: dict[str, SegmentPlan] = {}
        self.stamps: dict[str, tuple[int, int, int] | None] = {}
        """`files.stamp` of each segment, taken before its plan was made."""

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
        return believable_epochs([e for part in self.parts(0, NO_END, lambda _: None) for e in epochs_of(part.table)])

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
        """Return what of a segment is delivered. The plan is empty if retention has removed the file since it was listed.

        see: as `plan_segment` takes it. Raise `UnavailableSegmentError` if the file is missing for another reason.
        """
        plan = self._plans.get(segment.name)
        if plan is None:
            self.stamps[segment.name] = files.stamp(segment.path)
            try:
                plan = plan_segment(segment, self.max_batch_bytes, self.run_bytes, self.mapped, see)
            except FileNotFoundError:
                self.skip_missing(segment)
                plan = SegmentPlan(segment, 0, [], [], [])
            self._plans[segment.name] = plan
            self.bytes_read += plan.size
        return plan

    def skip_missing(self, segment: SegmentFile, moment: str = "before") -> None:
        """Report a file that retention has removed; raise `UnavailableSegmentError` if retention does not explain that it is missing."""
        check_retention(self.directory, segment)
        self.tell(f"{segment.path}: gone {moment} it was read (retention)")
        self._on_missing(segment)

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
        """Use a plan that another process or machine made for one of the segments, and the outcomes of transactions.

        If the file then turns out not to be the one that was planned, `parts` raises `UnavailableSegmentError`.
        """
        self._plans[plan.segment.name] = plan
        self._adopted.add(plan.segment.name)
        if transactions is not None:
            self.transactions = transactions

    @cached_property
    def transactions(self) -> Transactions:
        """What became of the log's transactions. The first look walks all of it."""
        return find_transactions(self)

    def events(self, start: int, end: int) -> Iterator[tuple[SegmentPlan, Run | Damage]]:
        """Extents and damage that concern offsets in [start, end), in the order of offsets."""
        for events in self._events_by_segment(start, end):
            for event in events:
                yield events.plan, event

    def _events_by_segment(self, start: int, end: int) -> Iterator[_Events]:
        for segment in self.segments[self.first_segment(start) :]:
            if segment.base_offset is not None and segment.base_offset >= end:
                return
            if segment.next_base is not None and segment.next_base <= start:
                continue
            plan = self._plan_of_range(segment, start, end) or self.plan(segment)
            yield _Events(plan, start, end)

    def _plan_of_range(self, segment: SegmentFile, start: int, end: int) -> SegmentPlan | None:
        """A plan of the batches with offsets in [start, end) alone, by the offset index or the headers, where nothing calls for more.

        None where the whole segment is meant, has been planned already, or where the range is not sound, back to back
        and (unless the log is compacted) without a gap: then only the whole segment tells what is damage and what lies out of place.
        """
        base = segment.base_offset
        if segment.name in self._plans or base is None or (start <= base and (segment.next_base or NO_END) <= end):
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
                if position == 0 and end == NO_END:
                    return None
                extents = sound_runs(walker, position, start if position else base, end, gaps=compacted)
        except FileNotFoundError:
            return None
        if extents is None or (extents and segment.next_base is not None and extents[-1].last_offset >= segment.next_base):
            return None
        return SegmentPlan(segment, walker.size, extents, [], [], walker.stats)

    def parts(self, start: int, end: int, on_damage: OnDamage | None, grouped: bool = False) -> Iterator[Part]:
        """Yield the batches with offsets in [start, end), in the order of offsets; raise damage, or hand it to `on_damage`.

        grouped: a part can hold several extents, and batches below `start`. Damage between them is handed over after the part.
        """
        for events in self._events_by_segment(start, end):
            yield from self._segment_parts(events, start, end, on_damage, grouped)

    def _segment_parts(self, events: _Events, start: int, end: int, on_damage: OnDamage | None, grouped: bool) -> Iterator[Part]:
        plan, extents, damaged, before = events.plan, events.extents, events.damaged, events.damage_before
        view: FileView | None = None
        group: _Group | None = None
        try:
            self._damage_of(damaged[: before[0]], on_damage)
            k = 0
            while k < len(extents):
                if view is None:
                    try:
                        view = FileView(plan.segment.path, self.mapped)
                    except FileNotFoundError:
                        self.skip_missing(plan.segment, "while")
                        self._damage_of(damaged[before[0] :], on_damage)
                        return
                    walker = Walker(view, extents[k].first_offset, self.max_batch_bytes)
                    if grouped and len(plan.extents) > FEW_EXTENTS:
                        group = _Group(events, walker, ends_at_damage=on_damage is None)
                following = k + 1
                if group is not None and (part := group.read(k)):
                    yield part
                    following = k + len(part.group)
                else:
                    yield from self._extent_parts(plan, extents[k], walker, start, end, on_damage)
                self._damage_of(damaged[before[k] : before[following]], on_damage)
                k = following
        finally:
            if view is not None:
                self._close(view)

    def _extent_parts(
        self, plan: SegmentPlan, extent: Run, walker: Walker, start: int, end: int, on_damage: OnDamage | None
    ) -> Iterator[Part]:
        view, adopted = walker.view, plan.segment.name in self._adopted
        if adopted and view.size < extent.end:
            raise _changed(plan.segment, f"it has {view.size} bytes, but had at least {extent.end}")
        begin, before = extent.position, extent.first_offset - 1
        long = extent.end - begin > MAX_HEADERS_READ
        if before + 1 < start and long and (found := reach(view, start, begin, extent.end, before)):
            begin, before = found.position, found.last
        batches = 0
        for position, buffer, table, error in walker.tables(begin, extent.end):
            part = Part(plan, extent, walker, position, buffer, table, before)
            batches += len(table)
            if len(table):
                before = part.last_offset(len(table) - 1)
                if before >= start:
                    yield part
            if error is not None:
                if adopted:
                    raise _changed(plan.segment, f"{error.message} at position {error.position}")
                self.damage(part.unreadable_rest(error), on_damage)
            if before + 1 >= end:
                return
        if adopted and begin == extent.position and (batches, before) != (extent.batches, extent.last_offset):
            raise _changed(plan.segment, f"{batches} batches up to offset {before} are where {extent.batches} were planned")

    def _damage_of(self, damaged: list[Damage], on_damage: OnDamage | None) -> None:
        for damage in damaged:
            self.damage(damage, on_damage)

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
        see: Callable[[Part], None] | None = None,
    ) -> Iterator[Chunk]:
        """The records with offsets in [start, end) as decoded columns, in the order of offsets.

        Records below the log start are hidden unless asked for, control records too. Damage raises DamagedLogError
        after what precedes it was given, or goes to `on_damage` and reading goes on behind it. committed: what a
        consumer at read_committed would see, up to the last stable offset; with past_open what lies behind it too, less
        what belongs to an open transaction: so a coordinator loads its topic. names, capacity: as RecordReader takes them.
        see: called with each part before its records are decoded.
        """
        low = 0 if below_log_start else self.log_start_offset
        low = low if start is None else max(start, low)
        high = NO_END if end is None else end
        if committed and not past_open:
            high = min(high, self.transactions.last_stable_offset)
        reader = RecordReader(names, capacity=capacity, first_offset=low, end_offset=high, max_batch_bytes=self.max_batch_bytes)
        for part in self.parts(low, high, on_damage, grouped=True):
            if see is not None:
                see(part)
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

    def records(
        self,
        *,
        start: int | None = None,
        end: int | None = None,
        control: bool = False,
        below_log_start: bool = False,
        on_damage: OnDamage | None = None,
        committed: bool = False,
        past_open: bool = False,
    ) -> Iterator[core.Record]:
        """The same selection as Record objects."""
        for source, columns in self.chunks(
            start=start,
            end=end,
            control=control,
            below_log_start=below_log_start,
            on_damage=on_damage,
            committed=committed,
            past_open=past_open,
            capacity=1024,
        ):
            yield from core.make_records(source, columns)


class _Events:
    """The extents and the damage of a plan that concern offsets in [start, end), each in the order of offsets.

    damage_before: the number of damaged spans before each extent, and of all of them. Damage precedes an extent with the same offset.
    """

    def __init__(self, plan: SegmentPlan, start: int, end: int) -> None:
        self.plan = plan
        self.extents, offsets = _select(plan.extents, start, end)
        self.damaged, damage_offsets = _select(plan.damaged, start, end)
        self.damage_before: list[int] = np.searchsorted(damage_offsets, offsets, "right").tolist()
        self.damage_before.append(len(self.damaged))

    def __iter__(self) -> Iterator[Run | Damage]:
        at = 0
        for extent, before in zip(self.extents, self.damage_before, strict=False):
            yield from self.damaged[at:before]
            yield extent
            at = before
        yield from self.damaged[at:]


def _select(events: list[Event], start: int, end: int) -> tuple[list[Event], IntArray]:
    """Return the extents or damaged spans that concern offsets in [start, end), in the order of offsets, and their first offsets."""
    first = np.array([e.first_offset or 0 for e in events], np.int64)
    last = np.array([MAX_OFFSET if e.last_offset is None else e.last_offset for e in events], np.int64)
    keep = np.full(len(events), start <= MAX_OFFSET)
    if start <= MAX_OFFSET:
        keep &= np.maximum(first, last) >= start
    if end <= MAX_OFFSET:
        keep &= first < end
    if (first[1:] < first[:-1]).any():
        order = np.argsort(first, kind="stable")
        order = order[keep[order]]
    elif keep.all():
        return events, first
    else:
        order = np.flatnonzero(keep)
    return [events[i] for i in order.tolist()], first[order]


def _changed(segment: SegmentFile, how: str) -> OSError:
    """Return the error for a file that is not the one that was planned."""
    what = f"the file is not as it was when it was planned: {how}"
    return unavailable(segment, f"{what}; this host sees another file, or a broker truncated or compacted the log", errno.ESTALE)


@dataclass
class Part:
    """Batches in a buffer, whose first byte is the file's at `position`. Reused: valid until the next one.

    extent: the extent that the batches are in; the last one if they are in several. before: the last offset before the first batch.
    group, group_rows: if they are in several extents, these, and for each of them the number of batches before it in the table.
    """

    plan: SegmentPlan
    extent: Run
    walker: Walker
    position: int
    buffer: Buffer
    table: BatchTable
    before: int
    group: Sequence[Run] = ()
    group_rows: Sequence[int] = ()

    def last_offset(self, i: int) -> int:
        row = self.table[i]
        return int(row["base_offset"]) + max(int(row["last_offset_delta"]), 0)

    def batch_damage(self, row: Any, error: KafkaFormatError) -> Damage:
        """Return the damage of a batch whose CRC matches but whose records cannot be read. Its offsets come from its neighbours."""
        i = int(np.argmax(self.table["position"] == row["position"]))
        extent, begin, before = self.extent, 0, self.before
        if self.group:
            at = bisect_right(self.group_rows, i) - 1
            begin, extent = self.group_rows[at], self.group[at]
            before = extent.first_offset - 1
        start = self.position + int(row["position"])
        first = (self.last_offset(i - 1) if i > begin else before) + 1
        following: int | None
        if start + int(row["size"]) < extent.end:
            following = self.walker.first_offset_at(start + int(row["size"]))
        else:
            following = self._after(extent)
        count, span = int(row["count"]), int(row["last_offset_delta"]) + 1
        known = None if not 0 <= count <= span else 0 if int(row["attributes"]) & CONTROL_BIT else count
        last = None if following is None else following - 1
        return Damage(self.plan.segment.name, start, int(row["size"]), first, last, error.code, error.message, known)

    def unreadable_rest(self, error: KafkaFormatError) -> Damage:
        """Return the damage that was not there when the segment was planned: the file has changed since."""
        first = (self.last_offset(len(self.table) - 1) if len(self.table) else self.before) + 1
        message = f"the file changed while it was read: {error.message}"
        length = max(self.extent.end - error.position, 0)
        return Damage(self.plan.segment.name, error.position, length, first, self.extent.last_offset, error.code, message)

    def _after(self, extent: Run) -> int | None:
        """Return the first offset that is delivered after an extent, or that of the next segment."""
        extents = self.plan.extents
        at = bisect_right(extents, extent.last_offset, key=lambda e: e.first_offset)
        return extents[at].first_offset if at < len(extents) else self.plan.segment.next_base


class _Group:
    """Reads small extents that are near each other in the file together. Without it, each would cost as much as a large one.

    ends_at_damage: whether a group ends before the next damage.
    """

    def __init__(self, events: _Events, walker: Walker, ends_at_damage: bool) -> None:
        self._plan = events.plan
        self._walker = walker
        self._extents = extents = events.extents
        self._buffer = files.aligned_buffer(min(GROUP_BYTES, max(walker.view.size, 1)))
        self._rows = np.zeros(TABLE_ROWS, BATCH_DTYPE)
        self._columns = np.empty((len(extents), 4), np.int64)
        for i, name in enumerate(("position", "end", "batches", "last_offset")):
            self._columns[:, i] = list(map(attrgetter(name), extents))
        self._damage_before = np.array(events.damage_before, np.int64) if ends_at_damage else None

    def read(self, k: int) -> Part | None:
        """Return the batches of the extents from `k` on that are near it, as they were planned; None if there are none."""
        columns = self._columns[k : k + TABLE_ROWS]
        position = max(int(columns[0, 0]) - SMALL_EXTENT, 0)  # offsets out of order are near each other
        near = columns[:, 1] - columns[:, 0] <= SMALL_EXTENT
        if not near[0]:
            return None
        got = self._walker.view.read_into(self._buffer, position)
        near &= (columns[:, 0] >= position) & (columns[:, 1] <= position + got)
        if self._damage_before is not None:
            near &= self._damage_before[k : k + len(near)] == self._damage_before[k]
        columns = columns[: len(near) if near.all() else int(np.argmin(near))].copy()
        columns[:, :2] -= position
        n, count = core.scan_extents(self._buffer, self._rows, columns)
        if not n:
            return None
        extents = self._extents[k : k + n]
        rows = (np.cumsum(columns[:n, 2]) - columns[:n, 2]).tolist()
        before = extents[0].first_offset - 1
        return Part(self._plan, extents[-1], self._walker, position, self._buffer, self._rows[:count], before, extents, rows)

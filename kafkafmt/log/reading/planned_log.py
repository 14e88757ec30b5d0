"""Store a plan for each segment of a partition: which batches are read, and which byte ranges are damaged."""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from ...constants import MIN_OFFSET, NO_END
from ...errors import StructureError
from ...support.text import counted
from ...types import IntArray, last_offsets
from ..catalog import PartitionDir, SegmentFile, changed, check_retention
from ..damage import (
    DEFAULT_LIMITS,
    FIRST_READ,
    UNKNOWN_COUNT,
    DamageColumns,
    Events,
    ReadLimits,
    Run,
    RunColumns,
    Scratch,
    See,
    SegmentPlan,
    Walker,
    is_compacted,
    plan_view,
    runs_lack_offsets,
    sound_runs,
    was_cleaned,
    wrappers_of,
)
from ..findings import Damage
from ..formats import LEADER_EPOCHS, Epochs, read_leader_epochs
from ..scanning import Share, last_border, reach
from ..storage import FileView, Stamp, path_exists, read_text, stamp_of
from ..transactions import SnapshotFiles
from .index_lookup import indexed_offset, last_position_below, position_before
from .loss import Losses

Tell = Callable[[str], None]
MOST_TRIED = 16
"""Maximum number of segments that are tried. If none of them can be read, the disk is treated as failed."""
UNKNOWN = MIN_OFFSET  # value in `largest_timestamps` for a segment if its largest timestamp has not been looked up yet


def _ends_with_valid_batch(plan: SegmentPlan) -> bool:
    """Return whether the batch at the end of the file is valid, and has the highest offset of the segment."""
    runs = RunColumns.of(plan.runs)
    return len(runs) > 0 and int(runs.end[-1]) == plan.size


def _ignore(_: object) -> None:
    """Do nothing. A query over thousands of partitions needs less memory if all of them share this function."""


class PlannedLog:
    """The segments of one partition directory, with a plan for each segment.

    A plan lists the valid batches and the damaged byte ranges of a segment. It is created when it
    is first used.

    Parameters
    ----------
    directory : PartitionDir
        The partition directory. If it could not be listed, the error is raised.
    limits : ReadLimits, optional
        Limits for reading segments.
    tell : callable, optional
        Called with messages that are not about damage, for example about files that retention has
        deleted.
    on_missing : callable, optional
        Called with each segment that retention has deleted.
    on_unconfirmed : callable, optional
        Called with each segment that cannot be read and checked in one pass, before the rest is read with
        a plan.

    Attributes
    ----------
    bytes_read, reads : int
        Number of bytes that were read from segment files and index files, and number of read calls.
    read_seconds, decompress_seconds : float
        Time in seconds that was spent on reading segments and on decompressing records.
        `decompress_seconds` is updated at the end of each call of `chunks`.
    stamps : dict
        Maps file names of segments to the result of `stamp_of` before the segment was planned.
    shares : dict
        Maps file names of segments to the byte ranges to which `restrict` has restricted them.
    """

    def __init__(
        self,
        directory: PartitionDir,
        limits: ReadLimits = DEFAULT_LIMITS,
        *,
        tell: Tell | None = None,
        on_missing: Callable[[SegmentFile], None] | None = None,
        on_unconfirmed: Callable[[SegmentFile], None] | None = None,
    ) -> None:
        if directory.error is not None:
            raise directory.error
        self.directory = directory
        self.limits = limits
        self.tell: Tell = tell or _ignore
        self._on_missing = on_missing or _ignore
        self.on_unconfirmed: Callable[[SegmentFile], None] = on_unconfirmed or _ignore
        self.bytes_read: int = 0
        self.reads: int = 0
        self.read_seconds: float = 0.0
        self.decompress_seconds: float = 0.0
        self._plans: dict[str, SegmentPlan] = {}
        self.shares: dict[str, Share] = {}
        self.stamps: dict[str, Stamp | None] = {}

    def __repr__(self) -> str:
        return f"<PartitionLog {self.directory.topic}-{self.directory.partition}, {counted(len(self.segments), 'segment')}>"

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.directory.topic

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.directory.partition

    @property
    def max_batch_bytes(self) -> int:
        """Largest size of one batch, in bytes after decompression."""
        return self.limits.max_batch_bytes

    @property
    def segments(self) -> list[SegmentFile]:
        """The segments, in the order of their base offsets."""
        return self.directory.segments

    @property
    def log_start_offset(self) -> int:
        """First offset that consumers can read from a broker."""
        return self.directory.log_start_offset

    @cached_property
    def largest_timestamps(self) -> IntArray:
        """Largest timestamp of each segment, in ms. UNKNOWN if it has not been looked up yet."""
        return np.full(len(self.segments), UNKNOWN, np.int64)

    def count_decompression(self, seconds: float) -> None:
        self.decompress_seconds += seconds

    def first_segment(self, offset: int) -> int:
        """Return the index of the first segment that can contain `offset` or a later one."""
        if not self.segments or self.segments[-1].base_offset is None:
            return 0
        return max(bisect_right(self.segments, offset, key=lambda s: s.base_offset or 0) - 1, 0)

    @contextmanager
    def view(self, segment: SegmentFile) -> Iterator[FileView]:
        """Open the file of a segment for a `with` block. At the end of the block, update the counts of reads."""
        with FileView(segment.place, fill_unreadable=True) as view:
            try:
                yield view
            finally:
                self.bytes_read += view.bytes_read
                self.reads += view.reads
                self.read_seconds += view.seconds

    def plan(self, segment: SegmentFile, see: See | None = None, scratch: Scratch | None = None) -> SegmentPlan:
        """Return the plan of a segment, which lists its valid batches, its damage and other problems.

        The first call for a segment creates its plan. `plan_segment` describes the parameters `see`
        and `scratch`. If retention has deleted the segment file, the plan is empty. If the file is
        missing for any other reason, or if a broker has replaced it since the directory was listed,
        raise `UnavailableSegmentError`.
        """
        name = segment.name
        plan = self._plans.get(name)
        if plan is None:
            try:
                place = segment.place
                with FileView(place, fill_unreadable=True) as view:
                    self.stamps[name] = stamp_of(place, view.status)
                    plan = plan_view(segment, view, self.limits, see, scratch)
                if plan.damaged and not _ends_with_valid_batch(plan):
                    self._check_replaced(segment)
                if plan.size and plan.unreadable and tuple(plan.unreadable[0]) == (0, plan.size):
                    self._check_disk(segment)
            except FileNotFoundError:
                self.stamps[name] = None
                self.skip_missing(segment)
                plan = SegmentPlan(segment, 0, [], [], [])
            self.keep_plan(plan)
            self.bytes_read += plan.size
        return plan

    def keep_plan(self, plan: SegmentPlan) -> None:
        """Keep the plan of a segment, so that `plan` returns it. Another process or machine may have created it."""
        self._plans[plan.segment.name] = plan

    def has_adopted(self, segment: SegmentFile) -> bool:
        """Return whether another `PlannedLog` created the plan of a segment, so the file may have changed since."""
        return segment.name in self._plans and segment.name not in self.stamps

    def restrict(self, segment: SegmentFile, share: Share) -> None:
        """Read only a byte range of a segment, so that several tasks can divide the segment among themselves.

        A task reports the damage that begins in its byte range, and other damage that may contain offsets of
        the task. The borders of the byte ranges also divide the offsets. Each batch belongs to the task whose
        offset range contains its last offset.
        """
        self.shares[segment.name] = share

    def _check_replaced(self, segment: SegmentFile) -> None:
        """Raise an error if a broker has merged a segment with the next one since the directory was listed."""
        # The log cleaner can merge several small segments into the file of the first one. There, the batches of the
        # others would be reported as damage, because their offsets are not below the next listed base offset. If the
        # file of the first is missing too, retention has removed both. The check is not needed if the batch at the end
        # of the file is read: it would belong to the last of the merged segments.
        if segment.next_base is None or segment.base_offset is None:
            return
        following = self.segments[self.first_segment(segment.next_base)]
        next_is_listed = following.base_offset == segment.next_base
        if next_is_listed and not path_exists(following.place) and path_exists(segment.place):
            raise changed(segment, f"the next segment, {following.name}, no longer exists")

    def _check_disk(self, unreadable: SegmentFile) -> None:
        """Raise OSError if the disk cannot read any segment other than `unreadable`."""
        # The partition is then reported as unreadable instead of damaged.
        others = [s for s in self.segments if s is not unreadable and s.size]
        for segment in others[:MOST_TRIED]:
            try:
                with FileView(segment.place) as view:
                    view.read(0, 1)
                return
            except OSError:
                continue
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(unreadable.path))

    def skip_missing(self, segment: SegmentFile, moment: str = "before") -> None:
        """Report that retention has deleted the file of a segment.

        If the file is missing although retention has not deleted it, raise
        `UnavailableSegmentError`.
        """
        check_retention(self.directory, segment)
        self.tell(f"{segment.path}: deleted by retention {moment} it was read")
        self._on_missing(segment)

    @cached_property
    def leader_epoch_checkpoint(self) -> Epochs | None:
        """Entries of the leader epoch checkpoint, as pairs (epoch, first offset).

        The value is None if the checkpoint is missing, empty or damaged.
        """
        try:
            text = read_text(self.directory.path / LEADER_EPOCHS)
            return read_leader_epochs(text) if text else None
        except StructureError:
            return None

    @cached_property
    def snapshots(self) -> SnapshotFiles:
        """The producer snapshots of the partition."""
        return SnapshotFiles(self.directory.path)

    @cached_property
    def compacted(self) -> bool:
        """Whether the log was compacted; see `compaction`. All segments may have to be read to check this."""
        return is_compacted(self)

    @cached_property
    def was_cleaned(self) -> bool:
        """Whether the log cleaner has removed records from the log; see `compaction.was_cleaned`."""
        return was_cleaned(self)

    @cached_property
    def losses(self) -> Losses:
        """The lost offsets of the partition."""
        return Losses(self)

    def lacks_offsets(self, segment: SegmentFile) -> bool:
        """Return whether offsets are missing inside a range of valid batches of a segment.

        The header of a wrapper message contains only the last offset. Therefore, the wrapper messages are
        decompressed.
        """
        runs = RunColumns.of(self.plan(segment).runs)
        if runs_lack_offsets(runs):
            return True
        unsure = runs.at(~runs.dense & (runs.records == UNKNOWN_COUNT))
        if not len(unsure):
            return False
        with FileView(segment.place, fill_unreadable=True) as view:
            walker = Walker(view, segment.base_offset or 0, self.max_batch_bytes)
            return any(_wrappers_lack_offsets(walker, run) for run in unsure.objects())

    def keep_plans(self, other: PlannedLog, names: Container[str]) -> None:
        """Copy the plans of segments from another `PlannedLog` of the same partition.

        `names` contains the file names of the segments. The files must not have changed since their
        plans were created.
        """
        for name, plan in other._plans.items():
            if name in names:
                self.keep_plan(plan)
                if name in other.stamps:
                    self.stamps[name] = other.stamps[name]

    def is_planned(self, segment: SegmentFile) -> bool:
        """Return whether a plan of the segment has been created."""
        return segment.name in self._plans

    def damage_of(self, segment: SegmentFile) -> Sequence[Damage]:
        """Return the damage of a segment if the segment was planned. Otherwise, no damage was found in it."""
        plan = self._plans.get(segment.name)
        return () if plan is None else plan.damaged

    def forget_plans(self) -> None:
        """Discard all plans to save memory. If a plan is requested later, it is created again."""
        self._plans.clear()

    @property
    def planned(self) -> int:
        """Number of segments for which a plan has been created."""
        return len(self._plans)

    @property
    def next_offset(self) -> int:
        """The higher of two offsets: the offset after the last valid batch, and the base offset of the last segment."""
        for segment in reversed(self.segments):
            following = self.end_of(segment)
            if following is not None or segment.base_offset is not None:
                return max(following or 0, self.segments[-1].base_offset or 0)
        return 0

    def ends_at(self, offset: int) -> bool:
        """Return whether the log end offset is `offset`, and no damage can contain this offset or a later one."""
        if self.next_offset != offset:
            return False
        damaged = DamageColumns.of(self.plan(self.segments[-1]).damaged)
        return not bool((damaged.last >= offset).any())

    def end_of(self, segment: SegmentFile) -> int | None:
        """Return the offset after the last valid batch of a segment. If the segment has no valid batch, return None.

        If possible, only the batches after the last entry in the offset index are read.
        """
        if segment.name not in self._plans and (border := last_border(segment)) is not None:
            plan = self.plan_of_range(segment, border.upto, NO_END)
            if plan is not None and plan.next_offset is not None:
                return plan.next_offset
        return self.plan(segment).next_offset

    def events(self, start: int, end: int) -> Iterator[tuple[SegmentPlan, Run | Damage]]:
        """Yield all ranges of valid batches and all damaged ranges that overlap the offset range [start, end).

        Each item is a pair: the plan of the segment, and a `Run` or `Damage` object. The items are
        in offset order.
        """
        for segment in self.segments_in(start, end):
            events = Events(self.plan_of_range(segment, start, end) or self.plan(segment), start, end)
            for event in events:
                yield events.plan, event

    def segments_in(self, start: int, end: int) -> Iterator[SegmentFile]:
        """Yield the segments that can contain offsets in [start, end), according to their file names."""
        for segment in self.segments[self.first_segment(start) :]:
            if segment.base_offset is not None and segment.base_offset >= end:
                return
            if segment.next_base is None or segment.next_base > start:
                yield segment

    def plan_of_range(self, segment: SegmentFile, start: int, end: int) -> SegmentPlan | None:
        """Plan only the batches with offsets in [start, end), or return None if the whole segment must be planned."""
        # The first batch is found with the offset index, or else with batch headers. None: all offsets are requested,
        # the segment is already planned, a batch is damaged, or offsets are missing although the log is not compacted.
        # Only a plan of the whole segment shows which batches are damaged or out of place.
        base = segment.base_offset
        if segment.name in self._plans or base is None or (start <= base and (segment.next_base or NO_END) <= end):
            return None
        try:
            with self.view(segment) as view:
                compacted = self.directory.cleaned
                walker = Walker(view, base, self.max_batch_bytes, self.limits.run_bytes, FIRST_READ)
                position = position_before(segment, view, start, exactly=compacted)
                if position == 0 and start > base:
                    found = reach(view, start, 0, view.size, base - 1, gaps=compacted)
                    if found is None:
                        return None
                    position = found.before
                if position == 0 and end == NO_END:
                    return None
                runs = sound_runs(walker, position, start if position else base, end, gaps=compacted)
                if runs and position and runs[-1].last_offset < start:
                    if runs[-1].last_offset < indexed_offset(segment, view, start):
                        return None  # the index contains a higher offset, so batches are missing
                if runs and compacted:
                    last = runs[-1]
                    if last_position_below(segment, view, max(end, last.last_offset)) >= last.end:
                        return None  # the index contains lower offsets after this batch, so it may be out of place
        except FileNotFoundError:
            return None
        if runs is None or (runs and segment.next_base is not None and runs[-1].last_offset >= segment.next_base):
            return None
        return SegmentPlan(segment, walker.size, runs, [], [], walker.stats)


def _wrappers_lack_offsets(walker: Walker, run: Run) -> bool:
    """Return whether offsets are missing between the batches of a range, or inside a wrapper message."""
    expected = run.first_offset
    for start, buffer, table, _ in walker.tables(run.position, run.end):
        if len(table):
            first, last, at = table["base_offset"].copy(), last_offsets(table), wrappers_of(table)
            inner = walker.wrappers.inner(start, buffer, table.take(at))
            first[at] = inner.first
            thinned = (inner.count >= 0) & (inner.count <= last[at] - inner.first)
            if thinned.any() or (first > np.append(expected, last[:-1] + 1)).any():
                return True
            expected = int(last[-1]) + 1
    return False

"""Plan the segments of a partition, each when it is first needed."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from ...constants import DEFAULT_MAX_BATCH_BYTES, MIN_OFFSET, NO_END
from ...errors import StructureError
from ...types import IntArray
from ..format import files
from ..format.checkpoints import LEADER_EPOCHS, read_leader_epochs
from ..format.files import FileView
from ..format.leader_epochs import Epochs
from .events import Events
from .index_lookup import position_before
from .missing import check_retention
from .models import Damage
from .partition_dir import PartitionDir, SegmentFile
from .parts import Run
from .plan import SegmentPlan, plan_segment
from .ranges import reach, sound_runs
from .segment_walker import FIRST_READ, See, Walker

Tell = Callable[[str], None]
UNKNOWN = MIN_OFFSET
"""A largest timestamp that was not looked up yet."""


class PlannedLog:
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
        self.read_seconds = self.decompress_seconds = 0.0
        """Spent on reading segments and on decompressing their records, by `chunks` that were read to their end."""
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

    def events(self, start: int, end: int) -> Iterator[tuple[SegmentPlan, Run | Damage]]:
        """Extents and damage that concern offsets in [start, end), in the order of offsets."""
        for events in self._events_by_segment(start, end):
            for event in events:
                yield events.plan, event

    def _events_by_segment(self, start: int, end: int) -> Iterator[Events]:
        for segment in self.segments[self.first_segment(start) :]:
            if segment.base_offset is not None and segment.base_offset >= end:
                return
            if segment.next_base is not None and segment.next_base <= start:
                continue
            plan = self._plan_of_range(segment, start, end) or self.plan(segment)
            yield Events(plan, start, end)

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
        if extents is None or (
            extents and segment.next_base is not None and extents[-1].last_offset >= segment.next_base
        ):
            return None
        return SegmentPlan(segment, walker.size, extents, [], [], walker.stats)

"""Read one segment: first byte ranges that are confirmed one by one, then what the plan of the segment lists."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

from ...support.text import quantity
from ..catalog import SegmentFile, changed
from ..damage import EventDamage, Events, Run, Scratch, SegmentPlan, Walker, with_cause
from ..findings import Damage, Joined
from ..scanning import MAX_HEADERS_READ, reach
from ..storage import FileView, named
from .part import Memory, Part
from .planned_log import PlannedLog
from .remainder import Remainder
from .single_pass import SinglePass

OnDamage = Callable[[Damage], None]


class BatchDamage:
    """Callback that collects only damage which is not listed in a segment plan (`SegmentPlan`)."""

    # A plan lacks damaged records in batches with a matching CRC, and later damage (`changed`).

    def __init__(self) -> None:
        self.parts: list[Sequence[Damage]] = []
        self.changed: bool = False

    @property
    def found(self) -> Joined[Damage]:
        return Joined(self.parts)

    def __call__(self, damage: Damage) -> None:
        """Add a description of damage that occurred after the plan was created."""
        self.parts.append((damage,))
        self.changed = True

    def add(self, damaged: Sequence[Damage]) -> None:
        self.parts.append(damaged)


class SegmentReader:
    """Reads the batches of one segment that contain offsets in [start, end), and reports damage to `on_damage`.

    A reader has three states:

    1. Confirmed window: each byte range is read, checked and delivered at once (single_pass.py).
    2. Planned window: a plan of the segment lists the batches to read, and the damage. This state
       begins at the first byte range that is not confirmed, or at once if the segment has a plan.
    3. End.
    """

    def __init__(
        self,
        log: PlannedLog,
        segment: SegmentFile,
        start: int,
        end: int,
        on_damage: OnDamage,
        headers_only: bool = False,
        scratch: Scratch | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._log = log
        self._segment = segment
        self._start, self._end = start, end
        self._on_damage = on_damage
        self._headers_only = headers_only
        self._scratch = scratch
        self._memory = memory

    def parts(self) -> Iterator[Part]:
        """Yield the batches, in offset order."""
        log, segment = self._log, self._segment
        share = log.shares.get(segment.name)
        plan = log.plan(segment) if log.is_planned(segment) else None
        first, rest, compacted = self._start, Remainder(), False
        if plan is None or (share is not None and plan.size):
            with ExitStack() as stack:
                view = self._opened(stack, "before")
                if view is None:
                    return
                limit, cleaned = log.max_batch_bytes, log.directory.cleaned
                single = SinglePass(view, segment, share, limit, cleaned, self._headers_only, self._memory)
                if plan is None:
                    yield from single.parts(self._start, self._end)
                    if single.complete:
                        return
                if share is not None:
                    rest = Remainder.of_share(share, view)
                if single.position:
                    rest = rest.after(single.position, single.reached)
                compacted = single.compacted
            if plan is None:
                log.on_unconfirmed(segment)
        if share is None:
            first = max(first, rest.low)
            # In a compacted log, only a plan of the whole segment shows which batches are out of place or missing.
            plan = plan or (None if compacted else log.plan_of_range(segment, first, self._end))
        yield from self._planned_parts(plan or log.plan(segment, scratch=self._scratch), rest, first)

    def _planned_parts(self, plan: SegmentPlan, rest: Remainder, first: int) -> Iterator[Part]:
        """Yield the batches in `rest` from the offset `first` on, according to a plan, and report damage in order."""
        self._report(rest.contradicting(plan, self._start, self._end))
        events = Events(rest.of(plan), first, self._end)
        if isinstance(self._on_damage, EventDamage):
            self._on_damage.begin(events)
        damaged = iter(() if isinstance(self._on_damage, EventDamage) else events.damaged)
        reported = 0
        walker: Walker | None = None
        with ExitStack() as stack:
            for run, before in zip(events.runs, events.damage_before, strict=False):
                self._report(islice(damaged, before - reported))
                reported = before
                if walker is None:
                    view = self._opened(stack, "while")
                    if view is None:
                        break
                    walker = Walker(view, run.first_offset, self._log.max_batch_bytes, scratch=self._scratch)
                for part in self._parts_of(events.plan, run, walker):
                    trimmed, lost = rest.trimmed(part)
                    self._report(lost)
                    if trimmed is not None:
                        yield trimmed if self._memory is None else trimmed.copied(self._memory)
            self._report(damaged)
        if isinstance(self._on_damage, EventDamage):
            self._on_damage.end(self._segment.name)

    def _parts_of(self, plan: SegmentPlan, run: Run, walker: Walker) -> Iterator[Part]:
        """Read one range of valid batches, and yield its batches."""
        view, adopted = walker.view, self._log.has_adopted(self._segment)
        if adopted and view.size < run.end:
            raise changed(plan.segment, f"it has {quantity(view.size, 'byte')} now, but had at least {run.end}")
        begin, before = run.position, run.first_offset - 1
        long = run.end - begin > MAX_HEADERS_READ
        if before + 1 < self._start and long and (found := reach(view, self._start, begin, run.end, before)):
            begin, before = found.position, found.last
        batches = 0
        for position, buffer, table, error in walker.tables(begin, run.end):
            part = Part(plan, run, walker, position, buffer, table, before)
            batches += len(table)
            if len(table):
                before = part.last_offset(len(table) - 1)
                if before >= self._start:
                    yield part
            if error is not None:
                if adopted and view.unreadable:
                    why = f"{os.strerror(errno.EIO)}, {named(view.unreadable)}"
                    raise OSError(errno.EIO, why, str(plan.segment.path))
                if adopted:
                    raise changed(plan.segment, f"{error.message} at position {error.position}")
                self._on_damage(with_cause(part.unreadable_rest(error), view.unreadable))
            if before + 1 >= self._end:
                return
        if adopted and begin == run.position and (batches, before) != (run.batches, run.last_offset):
            raise changed(
                plan.segment,
                f"it has {quantity(batches, 'batch')} up to offset {before}, but {run.batches} were expected",
            )

    def _opened(self, stack: ExitStack, moment: str) -> FileView | None:
        """Open the segment until `stack` is closed, or return None if retention has deleted it."""
        try:
            return stack.enter_context(self._log.view(self._segment))
        except FileNotFoundError:
            self._log.skip_missing(self._segment, moment)
            return None

    def _report(self, damaged: Iterable[Damage]) -> None:
        """Report damage according to a plan, unless the callback is a `BatchDamage` object."""
        if not isinstance(self._on_damage, BatchDamage):
            for damage in damaged:
                self._on_damage(damage)

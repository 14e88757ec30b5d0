"""Read one partition: its batches in offset order, its records as columns or objects, and its damage."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from functools import cached_property
from typing import Any

from ..._backend import core
from ...constants import CONTROL_BIT, NO_END
from ...errors import KafkaFormatError
from ...records import Chunk, RecordReader
from ...records.batch_errors import BatchErrors
from ...support.text import quantity
from ...types import COLUMNS, BatchTable, RecordColumns
from ..catalog import SegmentFile, changed
from ..damage import EventDamage, Events, Run, Scratch, SegmentPlan, Walker, with_cause
from ..findings import Damage, DamagedLogError
from ..formats import Epochs, believable_epochs, epochs_of
from ..scanning import MAX_HEADERS_READ, Stretch, reach, stretch_of
from ..storage import FileView, named
from ..transactions import Transactions, find_transactions, open_at_end, outcomes_near
from .damage_callbacks import BatchDamage, CollectedDamage, OnDamage
from .offset_interval import OffsetInterval
from .part import Part
from .planned_log import PlannedLog
from .remainder import Remainder
from .segments_ahead import SegmentsAhead
from .single_pass import SinglePass, UnconfirmedError, add_run


def ignore(_: Damage) -> None:
    """Ignore damage."""


class PartitionLog(PlannedLog):
    """A partition that is opened for reading. For the parameters, see `PlannedLog`."""

    bytes_read: int
    reads: int
    read_seconds: float
    decompress_seconds: float
    confirmed_only: bool = False
    """Whether to raise `UnconfirmedError` if a segment cannot be read and checked in one pass."""
    on_unconfirmed: Callable[[], None] | None = None
    """Function to call if a segment cannot be read and checked in one pass. It is called before the rest is read."""

    @cached_property
    def confirmed(self) -> dict[str, SegmentPlan]:
        """Maps the name of a segment file to a `SegmentPlan` with the batches that were read and checked in one pass."""
        return {}

    @property
    def leader_epochs(self) -> Epochs:
        """Leader epochs of the partition, as pairs (epoch, first offset) from the leader epoch checkpoint.

        If the checkpoint is missing, empty or damaged, the epochs are derived from all batch
        headers.
        """
        found = self.leader_epoch_checkpoint
        if found is not None:
            return found
        return believable_epochs([e for part in self.parts(0, NO_END, lambda _: None) for e in epochs_of(part.table)])

    @cached_property
    def transactions(self) -> Transactions:
        """Outcomes of all transactions in the log. The first access reads the whole log."""
        return find_transactions(self)

    @cached_property
    def open_transactions(self) -> Transactions:
        """Open transactions and last stable offset of the log.

        If possible, only the batch headers after the latest producer snapshot are read. Otherwise,
        the whole log is read, as for the property `transactions`.
        """
        if self.knows_transactions or self.planned == len(self.segments):
            return self.transactions
        found = open_at_end(self.directory, self.ends_at, self)
        return found or self.transactions

    @property
    def knows_transactions(self) -> bool:
        """Whether the property `transactions` already has a value, so that the log need not be read."""
        return "transactions" in self.__dict__

    def transactions_in(self, start: int, end: int) -> Transactions:
        """Return the outcomes of all transactions that have records in the offset range [start, end).

        If `end` is above the last stable offset, the range ends at the last stable offset. If
        possible, only the batch headers from `start` up to the last marker of the returned
        transactions are read. Otherwise, the whole log is read.
        """
        stable = self.open_transactions
        if self.knows_transactions:
            return self.transactions
        end = min(end, stable.last_stable_offset)
        first = next(self.segments_in(start, end), None)
        if first is None or start >= end:
            return stable
        if (start, end) not in self._outcomes:
            position = stretch_of(first, start, NO_END, self).start.position
            found = outcomes_near(self.directory, first, position, end, self)
            if found is None:
                return self.transactions
            found.open, found.last_stable_offset = stable.open, stable.last_stable_offset
            self._outcomes[start, end] = found
        return self._outcomes[start, end]

    @cached_property
    def _outcomes(self) -> dict[tuple[int, int], Transactions]:
        """Cache for `transactions_in`. It maps (start, end) to the result."""
        return {}

    def adopt(self, plan: SegmentPlan, transactions: Transactions | None = None) -> None:
        """Use results that another process or machine has computed: the plan of a segment, and transaction outcomes.

        If the segment has changed since the plan was computed, `parts` raises
        `UnavailableSegmentError`.
        """
        self._plans[plan.segment.name] = plan
        self._adopted.add(plan.segment.name)
        if transactions is not None:
            self.transactions = transactions

    def restrict(self, segment: SegmentFile, stretch: Stretch) -> None:
        """Read only a byte range of a segment, so that several tasks can divide the segment among themselves.

        A task reports the damage that begins in its byte range, and other damage that may contain offsets of
        the task. The borders of the byte ranges also divide the offsets. Each batch belongs to the task whose
        offset range contains its last offset.
        """
        self._stretches[segment.name] = stretch

    def plan_first(self, segment: SegmentFile) -> None:
        """Read a segment only with a plan, even if one pass could confirm its batches.

        A plan can omit valid batches next to damage. If the transactions were found with this plan, the
        outcomes of the transactions in the omitted batches are not known.
        """
        self._planned_first.add(segment.name)

    def parts(
        self,
        start: int,
        end: int,
        on_damage: OnDamage | None,
        headers_only: bool = False,
        on_loss: OnDamage | None = ignore,
    ) -> Iterator[Part]:
        """Yield the batches that contain offsets in [start, end), in offset order, as `Part` objects.

        `on_damage` is called with a description of each damaged byte range. If `on_damage` is None,
        damage raises DamagedLogError. An `EventDamage` object receives the damage of a planned segment
        before the batches of the segment. If `headers_only` is True, the buffer of a `Part`
        can be empty, and larger byte ranges are checked at once.

        `on_loss` is called like `on_damage` with lost offsets that overlap [start, end), which are not
        in any file. By default, they are not searched.
        """
        ahead = SegmentsAhead(self.segments_in(start, end), start, end, self._stretches)
        scratch = Scratch()
        reached = -1
        for segment in ahead:
            reached = -1
            for part in self._parts_of(segment, start, end, on_damage, headers_only, ahead, scratch):
                if reached < 0 and on_loss is not ignore:
                    self._loss(self._lost_before(segment, part), start, end, on_loss)
                reached = part.last_offset(len(part.table) - 1) + 1
                yield part
            if on_loss is not ignore and reached < end:
                self._loss(self._lost_after(segment, reached), start, end, on_loss)
        if on_loss is not ignore and reached < min(end, self.losses.least_end):
            self._loss(self.losses.at_end(), start, end, on_loss)

    def _parts_of(
        self,
        segment: SegmentFile,
        start: int,
        end: int,
        on_damage: OnDamage | None,
        headers_only: bool,
        ahead: SegmentsAhead,
        scratch: Scratch,
    ) -> Iterator[Part]:
        """Yield the batches of one segment like `parts`."""
        rest: Remainder | None = None
        if segment.name not in self._plans:
            rest = yield from self._in_one_pass(segment, start, end, headers_only, ahead)
            if rest is None:
                return
        if rest is not None and segment.name in self._stretches:
            plan = self.plan(segment, scratch=scratch)
            yield from self._remaining_parts(plan, rest, start, start, end, on_damage, scratch)
        elif rest is not None and rest.position:
            first = max(start, rest.low)
            plan = self._plan_of_range(segment, first, end) or self.plan(segment, scratch=scratch)
            yield from self._remaining_parts(plan, rest, start, first, end, on_damage, scratch)
        else:
            events = self.events_of(segment, start, end, scratch)
            yield from self.segment_parts(events, start, end, on_damage, scratch)

    def _loss(self, lost: Damage | None, start: int, end: int, on_loss: OnDamage | None) -> None:
        """Report lost offsets that overlap [start, end)."""
        if lost is not None and (lost.first_offset or 0) < end and start <= (lost.last_offset or 0):
            self.damage(lost, on_loss)

    def _lost_before(self, segment: SegmentFile, part: Part) -> Damage | None:
        """Return the lost offsets before the first batch of a segment, if `part` begins with this batch."""
        if part.extent.position or part.extent.first_offset <= (segment.base_offset or 0):
            return None
        return self.losses.before(segment, part.extent.first_offset)

    def _lost_after(self, segment: SegmentFile, reached: int) -> Damage | None:
        """Return the lost offsets after the last batch of a segment, if no other task reads the end of the segment."""
        stretch = self._stretches.get(segment.name)
        return None if stretch is not None and stretch.end.indexed else self.losses.after(segment, reached)

    def _in_one_pass(
        self, segment: SegmentFile, start: int, end: int, headers_only: bool, ahead: SegmentsAhead
    ) -> Generator[Part, None, Remainder | None]:
        """Read and check a segment without a plan, and return the rest from the first byte range that fails a check."""
        # The rest can be read only with a plan of the segment (see plan.py).
        stretch = self._stretches.get(segment.name)
        try:
            view = FileView(segment.place, fill_unreadable=True)
        except FileNotFoundError:
            self.skip_missing(segment)
            return None
        reading = SinglePass(view, segment, stretch, self.max_batch_bytes, self.directory.cleaned, headers_only)
        delivered: list[Run] = []
        known = self.confirmed.setdefault(segment.name, SegmentPlan(segment, view.size, delivered, [], []))
        if known.extents is not delivered:  # an earlier pass has already read batches of the segment
            known.extents = delivered = list(known.extents)
        try:
            for part in () if segment.name in self._planned_first else reading.parts(start, end):
                yield part
                add_run(delivered, part.extent)
                ahead.request((view.size if stretch is None else stretch.end.position) - part.extent.end)
        finally:
            self._close(view)
        if reading.complete:
            return None
        if self.confirmed_only:
            raise UnconfirmedError(segment.name)
        if self.on_unconfirmed is not None:
            self.on_unconfirmed()
        if (reading.divided or reading.failed) and reading.compacted:
            # The batches contradict each other or the index. In a compacted log, only a plan of the whole segment
            # shows which batches are out of place or missing.
            self.plan(segment)
        return reading.remainder

    def _remaining_parts(
        self,
        plan: SegmentPlan,
        rest: Remainder,
        start: int,
        first: int,
        end: int,
        on_damage: OnDamage | None,
        scratch: Scratch,
    ) -> Iterator[Part]:
        """Yield the batches of a segment that `_in_one_pass` has not yielded, from the offset `first` on."""
        # Damage is reported from the offset `start` on, which can be lower.
        contradicting = rest.contradicting(plan, start, end)
        self._damage_of(contradicting, 0, len(contradicting), on_damage)
        events = Events(rest.of(plan), start, end)
        for part in self.segment_parts(events, first, end, on_damage, scratch):
            trimmed, lost = rest.trimmed(part)
            self._damage_of(lost, 0, len(lost), on_damage)
            if trimmed is not None:
                yield trimmed

    def segment_parts(
        self,
        events: Events,
        start: int,
        end: int,
        on_damage: OnDamage | None,
        scratch: Scratch,
    ) -> Iterator[Part]:
        """Yield the batches of one segment like `parts`. `events` contains the ranges to read."""
        if isinstance(on_damage, EventDamage):
            on_damage.begin(events)
            yield from self._event_parts(events, (), start, end, on_damage, scratch)
            on_damage.end(events.plan.segment.name)
        else:
            yield from self._event_parts(events, events.damaged, start, end, on_damage, scratch)

    def _event_parts(
        self,
        events: Events,
        damaged: Sequence[Damage],
        start: int,
        end: int,
        on_damage: OnDamage | None,
        scratch: Scratch,
    ) -> Iterator[Part]:
        """Yield the batches in `events`. Report the damage in `damaged`, which is empty or equal to `events.damaged`."""
        plan, extents, before = events.plan, events.extents, events.damage_before
        view: FileView | None = None
        try:
            self._damage_of(damaged, 0, before[0], on_damage)
            for k, extent in enumerate(extents):
                if view is None:
                    try:
                        view = FileView(plan.segment.place, fill_unreadable=True)
                    except FileNotFoundError:
                        self.skip_missing(plan.segment, "while")
                        self._damage_of(damaged, before[0], len(damaged), on_damage)
                        return
                    walker = Walker(view, extent.first_offset, self.max_batch_bytes, scratch=scratch)
                yield from self._extent_parts(plan, extent, walker, start, end, on_damage)
                self._damage_of(damaged, before[k], before[k + 1], on_damage)
        finally:
            if view is not None:
                self._close(view)

    def _extent_parts(
        self, plan: SegmentPlan, extent: Run, walker: Walker, start: int, end: int, on_damage: OnDamage | None
    ) -> Iterator[Part]:
        """Read one range of valid batches, and yield its batches."""
        view, adopted = walker.view, plan.segment.name in self._adopted
        if adopted and view.size < extent.end:
            raise changed(plan.segment, f"it has {quantity(view.size, 'byte')} now, but had at least {extent.end}")
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
                if adopted and view.unreadable:
                    why = f"{os.strerror(errno.EIO)}, {named(view.unreadable)}"
                    raise OSError(errno.EIO, why, str(plan.segment.path))
                if adopted:
                    raise changed(plan.segment, f"{error.message} at position {error.position}")
                self.damage(with_cause(part.unreadable_rest(error), view.unreadable), on_damage)
            if before + 1 >= end:
                return
        if adopted and begin == extent.position and (batches, before) != (extent.batches, extent.last_offset):
            raise changed(
                plan.segment,
                f"it has {quantity(batches, 'batch')} up to offset {before}, but {extent.batches} were expected",
            )

    def _damage_of(self, damaged: Sequence[Damage], start: int, stop: int, on_damage: OnDamage | None) -> None:
        """Report the damage ``damaged[start:stop]`` from a plan, unless `on_damage` is a `BatchDamage` object."""
        if start < stop and not isinstance(on_damage, BatchDamage):
            if on_damage is None:
                self.damage(damaged[start], on_damage)
            elif isinstance(on_damage, CollectedDamage):
                on_damage.add(damaged[start:stop])
            else:  # calling `damage` for each damaged byte range would take as long as creating the object
                for damage in damaged[start:stop]:
                    on_damage(damage)

    def _undecodable(self, damaged: Sequence[Damage], on_damage: OnDamage) -> None:
        """Report batches whose records cannot be decoded. A plan does not list them."""
        if isinstance(on_damage, BatchDamage | CollectedDamage):
            on_damage.add(damaged)
        else:
            for damage in damaged:
                on_damage(damage)

    def _close(self, view: FileView) -> None:
        self.bytes_read += view.bytes_read
        self.reads += view.reads
        self.read_seconds += view.seconds
        view.close()

    def damage(self, damage: Damage, on_damage: OnDamage | None) -> None:
        """Report damage to the callback `on_damage`. If it is None, raise DamagedLogError."""
        if on_damage is None:
            raise DamagedLogError(damage, str(self.directory.path))
        on_damage(damage)

    def chunks(
        self,
        names: Collection[str] | RecordColumns = COLUMNS,
        interval: OffsetInterval | None = None,
        *,
        on_damage: OnDamage | None = None,
        past_open: bool = False,
        capacity: int = 16384,
        select: Callable[[Part, BatchTable], BatchTable] | None = None,
        on_loss: OnDamage | None = None,
    ) -> Iterator[Chunk]:
        """Yield the selected records as decoded columns, in offset order.

        Parameters
        ----------
        names : collection of str, or RecordColumns
            Names of the columns to decode, or an object for the decoded columns; see
            `RecordReader`.
        interval : OffsetInterval, optional
            The records to read, as returned by `Selection.resolve`. By default, all data records
            from the log start offset on. With the isolation level "read_committed", only records
            below the last stable offset are read.
        on_damage : callable, optional
            Called with a description of each damaged byte range, which is then skipped. By default,
            DamagedLogError is raised after the records before the first damage.
        past_open : bool, default False
            With "read_committed", also read records after the last stable offset, but no records of
            open or aborted transactions. Kafka's coordinators read their topics in this way.
        capacity : int, default 16384
            Largest number of records in one yielded `Chunk`.
        select : callable, optional
            Called with each `Part` and its selected batches before their records are decoded. Returns
            the batches to decode.
        on_loss : callable, optional
            Called instead of `on_damage` with lost offsets; see `parts`. By default, `on_damage` is called.
        """
        if on_loss is None and not isinstance(on_damage, BatchDamage):
            on_loss = on_damage
        elif on_loss is None:
            on_loss = ignore
        if interval is None:
            interval = OffsetInterval(self.log_start_offset)
        transactions: Transactions | None = None
        if interval.committed and past_open:
            transactions = self.transactions
        elif interval.committed:
            transactions = self.transactions_in(interval.low, interval.high)
            interval = interval.stable(transactions.last_stable_offset, not transactions.open)
        low, high = interval.low, interval.high
        reader = RecordReader(
            names,
            capacity=capacity,
            first_offset=low,
            end_offset=high,
            selected=interval.selected,
            max_batch_bytes=self.max_batch_bytes,
            partial=interval.partial and on_damage is not None,
        )
        for part in self.parts(low, interval.damage_high, on_damage, on_loss=on_loss):
            table = part.batches_near(low, interval.damage_high)
            summary = core.summarize_batches(table)
            if not interval.control and summary.attributes & CONTROL_BIT:
                table = table.compress((table["attributes"] & CONTROL_BIT) == 0)  # faster than table[mask]
            if transactions is not None:
                table = transactions.committed(table)
            if select is not None:
                table = select(part, table)
            errors = BatchErrors()

            def refuse(row: Any, error: KafkaFormatError, part: Part = part) -> None:
                found = BatchErrors()
                found.add(int(row["position"]), error)
                for damage in part.damage_of(found).within(low, interval.damage_high):
                    raise DamagedLogError(damage, str(self.directory.path)) from error

            yield from reader.read(part.buffer, table, refuse if on_damage is None else errors)
            if errors and on_damage is not None:
                self._undecodable(part.damage_of(errors).within(low, interval.damage_high), on_damage)
        self.decompress_seconds += reader.decompress_seconds

    def records(
        self,
        interval: OffsetInterval | None = None,
        *,
        on_damage: OnDamage | None = None,
        past_open: bool = False,
    ) -> Iterator[core.Record]:
        """Yield the selected records as Record objects. For the parameters, see `chunks`."""
        chunks = self.chunks(COLUMNS, interval, on_damage=on_damage, past_open=past_open, capacity=1024)
        for source, columns in chunks:
            yield from core.make_records(source, columns)

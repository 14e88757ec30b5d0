"""Read one partition: its batches in offset order, its records as columns or objects, and its damage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..._backend import core
from ...constants import CONTROL_BIT, NO_END, READ_COMMITTED, READ_UNCOMMITTED
from ...errors import KafkaFormatError
from ...records import Chunk, RecordReader
from ...records.batch_errors import BatchErrors
from ...records.reader import ALL_OFFSETS, OffsetLimits
from ...types import COLUMNS, BatchTable, RecordColumns
from ..damage import DamagedSpans, Scratch, Walker
from ..findings import Damage, DamagedLogError
from ..formats import Epochs, believable_epochs, epochs_of
from ..scanning import share_of
from ..storage import FileView
from ..transactions import Transactions, find_transactions, open_at_end, outcomes_near
from .part import Memory, Part
from .planned_log import PlannedLog
from .segment_reader import BatchDamage, OnDamage, SegmentReader
from .segments_ahead import SegmentsAhead


@dataclass(frozen=True)
class OffsetInterval:
    """Specification of the records of one partition to read, as returned by `Selection.resolve`."""

    # `low` and `high` (exclusive) are offsets of batches according to their headers. They may divide the records among
    # tasks, so they omit only records of batches that are partly outside.

    low: int = 0
    high: int = NO_END
    # "read_committed" omits aborted records, and records after the last stable offset
    isolation: str = READ_UNCOMMITTED
    control: bool = False  # include control records
    to_log_end: bool = False  # damage at `high` is reported, because it may have destroyed selected records
    partial: bool = False  # include the first records of a batch if its later records are damaged
    # by the user; a record can have an offset outside the range in the header of its batch
    selected: OffsetLimits = ALL_OFFSETS

    @property
    def committed(self) -> bool:
        return self.isolation == READ_COMMITTED

    @property
    def damage_high(self) -> int:
        """End offset (exclusive) of reported damage: `high + 1` if `to_log_end` is True, otherwise `high`."""
        return self.high + 1 if self.to_log_end else self.high

    def stable(self, last_stable_offset: int, is_log_end: bool) -> OffsetInterval:
        """Return the part of the interval below the last stable offset."""
        if self.high <= last_stable_offset:
            return self
        return replace(self, high=last_stable_offset, to_log_end=is_log_end)

    def overlapping(self, damage: Damage | None) -> list[Damage]:
        """Return damage as a list, which is empty if its offsets do not overlap the interval."""
        if damage is None or (damage.first_offset or 0) >= self.damage_high:
            return []
        return [damage] if (damage.last_offset or 0) >= self.low else []


def ignore(_: Damage) -> None:
    """Ignore damage."""


class PartitionLog(PlannedLog):
    """A partition that is opened for reading. For the parameters, see `PlannedLog`."""

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
            position = share_of(first, start, NO_END, self).start.position
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

    def parts(
        self,
        start: int,
        end: int,
        on_damage: OnDamage | None,
        headers_only: bool = False,
        on_loss: OnDamage | None = ignore,
        memory: Memory | None = None,
    ) -> Iterator[Part]:
        """Yield the batches that contain offsets in [start, end), in offset order, as `Part` objects.

        `on_damage` is called with a description of each damaged byte range. If `on_damage` is None,
        damage raises DamagedLogError. An `EventDamage` object receives the damage of a planned segment
        before the batches of the segment. If `headers_only` is True, the buffer of a `Part`
        can be empty, and larger byte ranges are checked at once.

        `on_loss` is called like `on_damage` with lost offsets that overlap [start, end), which are not
        in any file. By default, they are not searched. If `memory` is given, each `Part` gets its own
        memory from it, and stays valid.
        """
        ahead, scratch = SegmentsAhead(self.segments_in(start, end), start, end, self.shares), Scratch()
        on_damage, on_loss = on_damage or self._raise, on_loss or self._raise

        def report(lost: Damage | None) -> None:
            if lost is not None and (lost.first_offset or 0) < end and start <= (lost.last_offset or 0):
                on_loss(lost)

        reached = -1
        for segment in ahead:
            reached, share = -1, self.shares.get(segment.name)
            segment_reader = SegmentReader(self, segment, start, end, on_damage, headers_only, scratch, memory)
            for part in segment_reader.parts():
                if reached < 0 and on_loss is not ignore and not part.run.position:
                    report(self.losses.before(segment, part.run.first_offset))
                reached = part.last_offset(len(part.table) - 1) + 1
                yield part
                ahead.request((part.plan.size if share is None else share.end.position) - part.run.end)
            # Another task may read the end of the segment.
            if on_loss is not ignore and reached < end and (share is None or not share.end.indexed):
                report(self.losses.after(segment, reached))
        if on_loss is not ignore and reached < min(end, self.losses.least_end):
            report(self.losses.at_end())

    def _raise(self, damage: Damage) -> None:
        raise DamagedLogError(damage, str(self.directory.path))

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
        decoding = Decoding(self, interval or OffsetInterval(self.log_start_offset), on_damage is not None, past_open)
        reader = decoding.reader(names, capacity)
        for part, table in decoding.parts(on_damage, on_loss):
            if select is not None:
                table = select(part, table)
            yield from decoding.chunks(reader, part, table, on_damage)
        self.count_decompression(reader.decompress_seconds)

    def selected_parts(
        self, interval: OffsetInterval, on_damage: OnDamage | None, memory: Memory
    ) -> Iterator[tuple[Part, BatchTable]]:
        """Yield each `Part` with its selected batches, and at most one batch on each side of the interval."""
        return Decoding(self, interval, on_damage is not None).parts(on_damage, on_damage, memory)

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
            yield from core.make_records(source, columns, topic=self.topic, partition=self.partition)


class Decoding:
    """Selects the batches of an offset interval, and decodes their records.

    One thread iterates over `parts`. Other threads can decode them at the same time, each with its own
    reader.

    Parameters
    ----------
    log : PartitionLog
        The partition.
    interval : OffsetInterval
        The records to read.
    skips : bool
        Whether damage is skipped. The methods then require a callback.
    past_open : bool
        See `PartitionLog.chunks`.
    """

    def __init__(self, log: PartitionLog, interval: OffsetInterval, skips: bool, past_open: bool = False) -> None:
        self._log = log
        self._transactions: Transactions | None = None
        if interval.committed and past_open:
            self._transactions = log.transactions
        elif interval.committed:
            self._transactions = log.transactions_in(interval.low, interval.high)
            stable = self._transactions
            interval = interval.stable(stable.last_stable_offset, not stable.open)
        self._interval = interval
        self._partial = interval.partial and skips
        self._own_memory = False

    def reader(self, names: Collection[str] | RecordColumns, capacity: int = 16384) -> RecordReader:
        """Return a reader for the method `chunks`."""
        return RecordReader(
            names,
            capacity=capacity,
            first_offset=self._interval.low,
            end_offset=self._interval.high,
            selected=self._interval.selected,
            max_batch_bytes=self._log.max_batch_bytes,
            partial=self._partial,
        )

    def parts(
        self, on_damage: OnDamage | None, on_loss: OnDamage | None, memory: Memory | None = None
    ) -> Iterator[tuple[Part, BatchTable]]:
        """Yield each `Part` with its selected batches. `PartitionLog.parts` describes the parameters."""
        interval, self._own_memory = self._interval, memory is not None
        low, end = interval.low, interval.damage_high
        for part in self._log.parts(low, end, on_damage, on_loss=on_loss, memory=memory):
            table = part.batches_near(low, end)
            summary = core.summarize_batches(table)
            if not interval.control and summary.attributes & CONTROL_BIT:
                table = table.compress((table["attributes"] & CONTROL_BIT) == 0)  # faster than table[mask]
            if self._transactions is not None:
                table = self._transactions.committed(table)
            yield part, table

    def chunks(
        self, reader: RecordReader, part: Part, table: BatchTable, on_damage: OnDamage | None
    ) -> Iterator[Chunk]:
        """Yield the decoded records of batches. Then pass the batches that cannot be decoded to `on_damage`."""
        errors = BatchErrors()

        def refuse(row: Any, error: KafkaFormatError) -> None:
            found = BatchErrors()
            found.add(int(row["position"]), error)
            for damage in self._damage_of(part, found):
                raise DamagedLogError(damage, str(self._log.directory.path)) from error

        yield from reader.read(part.buffer, table, refuse if on_damage is None else errors)
        if errors and on_damage is not None:
            damaged = self._damage_of(part, errors)
            if isinstance(on_damage, BatchDamage):
                on_damage.add(damaged)
            else:
                for damage in damaged:
                    on_damage(damage)

    def _damage_of(self, part: Part, errors: BatchErrors) -> DamagedSpans:
        """Describe the batches in the interval that cannot be decoded."""
        if not self._own_memory:
            found = part.damage_of(errors)
        else:  # another thread may use the walker or has closed its file
            segment = part.plan.segment
            with FileView(segment.place, fill_unreadable=True) as view:
                walker = Walker(view, segment.base_offset or 0, self._log.max_batch_bytes)
                found = replace(part, walker=walker).damage_of(errors)
        return found.within(self._interval.low, self._interval.damage_high)

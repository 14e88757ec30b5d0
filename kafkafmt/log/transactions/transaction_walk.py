"""Find out which records a consumer with the isolation level read_committed would get.

The log is read once, in offset order. As in Kafka's ``ProducerStateManager``, a transaction is open
from the first transactional batch of a producer to the next marker of this producer. The last
stable offset is the first offset of the oldest open transaction.

If the marker of a transaction may be damaged, or in a missing segment, its records before the
damage are omitted. If a transaction index lists the transaction, it was aborted. Otherwise, it is
reported as a `Doubt`. A missing entry proves no commit, because an index can lack entries too.

If an index lists a transaction whose marker the intact log lacks, the transaction ends at the
marker offset in the entry, as in a broker.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ..._backend import core
from ...constants import CONTROL_BIT, NO_END, TRANSACTIONAL_BIT
from ...records import RecordReader
from ...types import BatchSummary, BatchTable, Buffer, IntArray
from ..catalog import PartitionDir, SegmentFile
from ..damage import EventDamage, Events, Run, SegmentPlan
from ..findings import Damage
from ..formats import Marker, marker_reader, read_markers
from ..storage import joined
from .hidden_markers import HidingPlaces, can_hide_markers, is_harmless
from .nearby_transactions import open_at_end
from .transaction_index import IndexEntries
from .transactions import DAMAGE, MISSING_OFFSETS, Doubt, Suspended, Transactions

NO_PLACES: IntArray = np.empty((0, 2), np.int64)


class Batches(Protocol):
    """Interface of a group of batches in one buffer. The class `Part` implements the interface."""

    @property
    def plan(self) -> SegmentPlan:
        """Plan of the segment, which lists its valid batches and its damage."""

    @property
    def run(self) -> Run:
        """The range of adjacent valid batches that contains the batches in the buffer."""

    @property
    def buffer(self) -> Any:
        """The bytes of the batches."""

    @property
    def table(self) -> BatchTable:
        """Headers of the batches."""


class ReadableLog(Protocol):
    """Interface of a log from which transactions are read. The class `PartitionLog` implements the interface."""

    @property
    def directory(self) -> PartitionDir:
        """The partition directory."""

    @property
    def segments(self) -> list[SegmentFile]:
        """The segments, in the order of their base offsets."""

    @property
    def max_batch_bytes(self) -> int:
        """Largest accepted size of one batch, in bytes after decompression."""

    @property
    def next_offset(self) -> int:
        """Offset after the last valid batch."""

    @property
    def was_cleaned(self) -> bool:
        """Whether the log cleaner has removed records from the log."""

    @property
    def planned(self) -> int:
        """Number of segments for which a plan has been created."""

    def plan(self, segment: SegmentFile) -> SegmentPlan:
        """Return the plan of a segment, which lists its valid batches and its damage."""

    def ends_at(self, offset: int) -> bool:
        """Return whether the log end offset is `offset`, and no damage can contain this offset or a later one."""

    def parts(self, start: int, end: int, on_damage: Callable[[Damage], None] | None) -> Iterator[Batches]:
        """Yield the batches that contain offsets in [start, end). For `on_damage`, see `PartitionLog`."""


class TransactionWalk(EventDamage):
    """Tracks the transactions of all producers while batches are added in offset order."""

    def __init__(self, log: ReadableLog) -> None:
        self.log = log
        self.found: Transactions = Transactions()
        self.reader: RecordReader = marker_reader(log.max_batch_bytes)
        self._suspended = Suspended()
        self.entries: IndexEntries | None = None
        self._places: HidingPlaces | None = None
        self._end = 0  # offset after the last batch that has been added; 0 if no batch has been added
        self._missing_before = -1
        """Offsets are missing before this offset. -1 if no offset is missing after the first batch."""

    def __call__(self, damage: Damage) -> None:
        """Mark the outcomes of all open transactions as unknown if the damaged bytes may contain their markers."""
        path = joined(self.log.directory.path, damage.file)
        if self.found.open and can_hide_markers(path, [damage])[0]:
            self._suspend(damage.first_offset or 0, damage.file)

    def begin(self, events: Events) -> None:
        """Start a segment. The batches in `events` are then added with `add` or `add_rows`."""
        # If damage may contain markers, the outcomes of the transactions that are open there become unknown.
        if is_harmless(events.damaged):  # true for most segments
            return
        self.found.damaged_segments.append(events.plan.segment.base_offset or 0)
        self._places = HidingPlaces(joined(self.log.directory.path, events.plan.segment.name), events)
        if len(events.runs):
            self._suspend_before(int(events.runs.columns.first[0]), events.plan.segment.name)

    def end(self, file: str) -> None:
        """End the segment that `begin` has started. `file` is the name of the segment."""
        self._suspend_before(NO_END, file)
        self._places = None

    def _suspend_before(self, offset: int, file: str) -> None:
        """Process the damage before the range of batches that begins at `offset`."""
        if self.found.open and self._places is not None:
            _, first = self._places.take(offset)
            if len(first):
                self._suspend(int(first[0]), file)

    def gap(self, end: int, file: str) -> None:
        """Mark the outcomes of all open transactions as unknown: a missing segment may contain their markers."""
        # `end` is the lowest missing offset, and `file` the name of the next segment that exists.
        self._suspend(end, file, "a missing segment")

    def _suspend(self, end: int, file: str, hidden_by: str = DAMAGE) -> None:
        """Mark the outcomes of open transactions before `end` as unknown. See `Doubt` for the other parameters."""
        for producer_id, first in self.found.open.items():
            self._suspended.add(producer_id, first, end - 1, (file, hidden_by))
        self.found.open.clear()

    def add(self, buffer: Buffer, table: BatchTable, file: str) -> None:
        """Add the next batches of the log. Batches must be added in offset order."""
        markers = read_markers(self.reader, buffer, table)
        self.add_rows(table, core.summarize_batches(table), markers, file)

    def add_rows(self, table: BatchTable, found: BatchSummary, markers: dict[int, Marker], file: str) -> None:
        """Add the next batches like `add`. `markers` are by offset."""
        attributes = found.attributes
        if len(table):
            if (found.first > self._end > 0) or not found.dense:
                self._missing_before = found.last
            self._end = found.last + 1
        if self.entries is None:
            if not attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
                return
            self.entries = IndexEntries(self.log.directory)
        self.entries.cover(table, found)
        places = NO_PLACES
        if self._places is not None and len(table) and (self.found.open or attributes & TRANSACTIONAL_BIT):
            bases = table["base_offset"]
            following, first = self._places.take(int(bases[-1]))
            if len(first):
                places = np.empty((len(first), 2), np.int64)
                places[:, 0], places[:, 1] = bases.searchsorted(following), first
        hidden, row = np.empty((len(self.found.open) + len(table), 3), np.int64), 0
        opened, indexed, aborted = self.found.open, self.entries.next_markers, self.found.aborted
        while True:
            row, count = core.walk_transactions(table, row, places, markers, opened, indexed, aborted, hidden)
            if count:
                self._suspended.extend(hidden[:count], (file, DAMAGE))
            if row == len(table):
                return
            ((producer_id, _, base, _, _, _, _),) = core.transactional_batches(table[row : row + 1])
            if self.entries.next_markers.get(producer_id, base) < base:
                self._end_without_marker(producer_id, base)
            else:  # the marker cannot be decoded
                first_offset = self.found.open.pop(producer_id, base)
                self._suspended.add(producer_id, first_offset, base, (file, DAMAGE))
                row += 1

    def _end_without_marker(self, producer_id: int, before: int) -> None:
        """Treat a producer's open transaction as aborted if a transaction index has a marker for it below `before`."""
        # The transaction marker itself is missing in the log.
        assert self.entries is not None
        for entry in self.entries.take(producer_id, before):
            first = self.found.open.get(producer_id)
            if first is not None and entry.first <= first <= entry.last:
                del self.found.open[producer_id]
                self.found.aborted[producer_id].append((first, entry.last))
                self.found.unmarked.append(entry)

    def finish(self) -> None:
        """Mark open transactions as aborted if a transaction index lists them, although their markers are missing."""
        indexed = () if self.entries is None else self.entries.next_markers
        if producer_ids := [p for p in self.found.open if p in indexed]:
            end = self.log.next_offset
            for producer_id in producer_ids:
                self._end_without_marker(producer_id, end)

    def check_open(self) -> None:
        """Suspend open transactions that have ended according to the latest producer snapshot."""
        # The offsets of their markers are missing, for example in the copy of a damaged log. A broker reads this
        # snapshot, and does not wait for the end of these transactions.
        log, unsure = self.log, {p: first for p, first in self.found.open.items() if first < self._missing_before}
        latest = open_at_end(log.directory, log.ends_at) if unsure else None
        if latest is None:
            return
        for producer_id, first in unsure.items():
            later = latest.open.get(producer_id, log.next_offset)
            if later > first:
                self._suspended.add(producer_id, first, later - 1, (_segment_of(log, first), MISSING_OFFSETS))
                del self.found.open[producer_id]
                if producer_id in latest.open:
                    self.found.open[producer_id] = later

    def resolve(self) -> None:
        """Omit the transactions whose markers may be hidden. Those that no transaction index lists are in doubt."""
        found = self.found
        if self.entries is not None and len(self._suspended):
            doubts, self._suspended = self._suspended.doubts(), Suspended()
            rows = []
            for transaction in zip(
                doubts.producer_id.tolist(), doubts.first.tolist(), doubts.last.tolist(), strict=True
            ):
                producer_id, first, last = transaction
                found.aborted[producer_id].append((first, last))
                rows.append(self.entries.row_of(producer_id, first))
            known = set(found.unmarked)  # damage can divide a transaction into parts that have the same entry
            found.unmarked += [entry for entry in self.entries.lost(rows) if entry not in known]
            found.doubts = found.doubts.joined(doubts.at(np.array(rows, np.int64) < 0))
        for spans in found.aborted.values():
            spans.sort()


def find_transactions(log: ReadableLog) -> Transactions:
    """Return the outcomes of all transactions in a partition, including those below the log start offset."""
    walk = TransactionWalk(log)
    before: Batches | None = None
    for part in () if _has_none(log) else log.parts(0, NO_END, walk):
        segment = part.plan.segment
        if walk.found.open and before is not None and segment is not before.plan.segment:
            end = before.run.last_offset + 1
            if misses_a_segment(log, before.plan.segment, end, segment, part.run.first_offset):
                walk.gap(end, segment.name)
        walk.add(part.buffer, part.table, segment.name)
        before = part
    return settle(walk)


def _has_none(log: ReadableLog) -> bool:
    """Return whether every segment has a plan, and the plans show that the log contains no transactional batch."""
    return log.planned == len(log.segments) and not any(log.plan(s).stats.transactional for s in log.segments)


def settle(walk: TransactionWalk) -> Transactions:
    """Return the outcomes of all transactions, after all batches of the log have been added to `walk`."""
    found = walk.found
    walk.finish()
    walk.check_open()
    found.last_stable_offset = min([*found.open.values(), walk.log.next_offset])
    walk.resolve()
    return found


def settle_hidden(walk: TransactionWalk) -> Sequence[Doubt]:
    """Find the outcomes of transactions whose markers may be damaged or missing. Return those that remain unknown."""
    # Only batches that have been added to `walk` are considered. More can be added afterwards.
    known = len(walk.found.doubts)
    walk.resolve()
    return walk.found.doubts[known:]


def misses_a_segment(log: ReadableLog, before: SegmentFile, end: int, segment: SegmentFile, first_offset: int) -> bool:
    """Return whether offsets are missing because of a missing segment, and not because of compaction."""
    # `end` is the end of `before`, and `first_offset` the start of the next segment with a batch. Empty segments can be
    # between them, because compaction can remove all batches of a segment without deleting its file.
    if first_offset <= end:
        return False
    start, end_at = (bisect_left(log.segments, _order(s), key=_order) for s in (before, segment))
    chain = log.segments[start : end_at + 1]
    adjacent = all(one.next_base == other.base_offset for one, other in itertools.pairwise(chain))
    return not (adjacent and not any(s.size for s in chain[1:-1]) and log.was_cleaned)


def _segment_of(log: ReadableLog, offset: int) -> str:
    """Return the name of the last segment whose base offset is not above `offset`."""
    at = bisect_right(log.segments, (False, offset, "~"), key=_order) - 1
    return log.segments[max(at, 0)].name


def _order(segment: SegmentFile) -> tuple[bool, int, str]:
    return segment.base_offset is None, segment.base_offset or 0, segment.name

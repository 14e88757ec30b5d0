"""Restore lost abort markers that the transaction indexes list.

If a marker is missing, a broker still reports the offsets of the transaction as aborted, but a
consumer drops all records of the producer up to its next abort marker, including committed records
(seen with Kafka 3.9.2 and 4.3.1). After a broker has rebuilt the index, it no longer reports the
transaction as aborted.

`salvage` writes a lost abort marker again, at the marker offset in the transaction index. No index
proves that a lost marker was a commit marker.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ...constants import CONTROL_BIT, MAX_OFFSET, NO_TIMESTAMP, TRANSACTIONAL_BIT
from ...errors import KafkaFormatError
from ...records import build_marker
from ...records.control import build_markers
from ...types import BatchTable, IntArray, last_offsets
from ..catalog import SegmentFile
from ..damage import Scratch, SegmentPlan, Walker
from ..formats import Aborted, ProducerEntry, Producers, file_name
from ..reading import PartitionLog
from ..storage import FileView, SpanCopier
from .salvage_pieces import Restored
from .salvage_producers import SourceSnapshots
from .span_tables import tables_of


class _Lost(NamedTuple):
    """A lost abort marker, with the values that are needed to write it again."""

    # `producer_epoch` and `timestamp` are of the transaction's last batch, `leader_epoch` of the batch before the
    # marker.

    entry: Aborted
    producer_epoch: int
    timestamp: int
    leader_epoch: int


class _Batch(NamedTuple):
    """A transactional batch that contains data records."""

    base: int
    epoch: int
    timestamp: int


class _DataBatches:
    """The transactional batches with data records in a table, by producer."""

    def __init__(self, table: BatchTable) -> None:
        self._table = table

    @cached_property
    def _sorted(self) -> tuple[IntArray, IntArray]:
        """Producer ids and rows of the batches, ordered by producer id and then by row."""
        flags = self._table["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)
        rows = np.flatnonzero(flags == TRANSACTIONAL_BIT)
        producers = self._table["producer_id"][rows]
        order = np.argsort(producers, kind="stable")
        return producers[order], rows[order]

    def before(self, rows: IntArray, producer_ids: IntArray) -> list[_Batch | None]:
        """Return the last batch of each given producer before the given row of the table."""
        producers, data_rows = self._sorted
        # Batches are identified by their producer and their row, as one number. These numbers are sorted.
        known, starts, number = np.unique(producers, return_index=True, return_inverse=True)
        scale = len(self._table) + 1
        wanted = np.searchsorted(known, producer_ids)
        at = np.searchsorted(number * scale + data_rows, wanted * scale + rows) - 1
        exists = at >= np.append(starts, len(producers))[wanted]
        exists &= np.append(known, -1)[wanted] == producer_ids
        found: list[_Batch | None] = [None] * len(rows)
        for i, batch in zip(np.flatnonzero(exists).tolist(), self._batches(data_rows[at[exists]]), strict=True):
            found[i] = batch
        return found

    def last(self, ids: Container[int]) -> Iterator[tuple[int, _Batch]]:
        """Yield each producer in `ids` that has a batch, with its last batch."""
        producers, rows = self._sorted
        ends = np.flatnonzero(np.append(producers[1:] != producers[:-1], len(producers) > 0))
        found = zip(producers[ends].tolist(), self._batches(rows[ends]), strict=True)
        return ((producer_id, batch) for producer_id, batch in found if producer_id in ids)

    def _batches(self, rows: IntArray) -> list[_Batch]:
        columns = (self._table[name][rows].tolist() for name in ("base_offset", "producer_epoch", "max_timestamp"))
        return list(map(_Batch, *columns))


class _Search:
    """Finds the lost transaction markers that can be restored."""

    # Call `add` for the batches of the copy, in offset order, then `finish`. The result is in `found`.

    def __init__(self, entries: Iterable[Aborted]) -> None:
        self.entries = sorted({e.last: e for e in entries}.values(), key=lambda e: e.last)
        self.ids = {e.producer_id for e in self.entries}
        by_first = sorted(self.entries, key=lambda e: e.first)
        self._starts = [e.first for e in by_first]
        self._ends = list(accumulate((e.last for e in by_first), max))
        """For each item of `_starts`, the largest marker offset of this transaction and of all earlier ones."""
        self._lasts = [e.last for e in self.entries]
        self.at = 0
        self.found: list[_Lost] = []
        self._batches: dict[int, _Batch] = {}
        self._epoch = -1
        self._end = 0

    def needs(self, plan: SegmentPlan) -> bool:
        """Return whether a segment can contain a batch of a transaction whose marker is lost, and must be read."""
        # A marker is restored only if a batch of its transaction was copied. Therefore, the last batch before the
        # marker is in the offset range of the transaction.
        first, following = plan.first_offset, plan.next_offset
        return first is not None and following is not None and self._covers(first, following - 1)

    def _covers(self, first: int, last: int) -> bool:
        """Return whether a transaction begins at or before the offset `last`, and its marker is at or after `first`."""
        at = bisect_right(self._starts, last) - 1
        return at >= 0 and self._ends[at] >= first

    def add(self, table: BatchTable) -> None:
        """Add batches of the copy, except those of segments for which `needs` returns False."""
        if not len(table):
            return
        lasts, batches = last_offsets(table), _DataBatches(table)
        stop = bisect_right(self._lasts, int(lasts[-1]), self.at)
        offsets = np.array(self._lasts[self.at : stop], np.int64)
        rows = np.searchsorted(lasts, offsets)
        missing = np.flatnonzero(table["base_offset"][rows] > offsets)
        if len(missing):
            rows, entries = rows[missing], [self.entries[i] for i in (missing + self.at).tolist()]
            own = batches.before(rows, np.array([entry.producer_id for entry in entries], np.int64))
            epochs = np.where(rows > 0, table["leader_epoch"][rows - 1], self._epoch).tolist()
            for entry, batch, epoch in zip(entries, own, epochs, strict=True):
                self._restore(entry, batch or self._batches.get(entry.producer_id), epoch)
        self.at = stop
        end = int(lasts[-1])
        if self._covers(end + 1, end):  # only markers after the table need its last batches
            self._batches.update(batches.last(self.ids))
        self._epoch = int(table["leader_epoch"][-1])
        self._end = end + 1

    def _restore(self, entry: Aborted, batch: _Batch | None, leader_epoch: int) -> None:
        """Restore a marker. `batch` is the last batch of the producer before the marker."""
        if batch is None or not entry.first <= batch.base < entry.last:
            return  # do not restore a marker if no batch of its transaction was copied
        if entry.producer_id >= 0 and batch.epoch >= 0:  # a marker needs a producer id and an epoch
            self.found.append(_Lost(entry, batch.epoch, max(batch.timestamp, NO_TIMESTAMP), leader_epoch))

    def finish(self, lost: int) -> None:
        """Find the markers that were lost after the last copied batch, in the last `lost` bytes of the source."""
        # The bytes contain at most one offset per byte. Index entries beyond this limit are corrupted.
        for entry in self.entries[self.at :]:
            if entry.last - self._end <= lost:
                self._restore(entry, self._batches.get(entry.producer_id), self._epoch)


def restored_markers(
    log: PartitionLog, kept: Sequence[tuple[SegmentFile, IntArray]], to_the_end: bool, snapshots: SourceSnapshots
) -> dict[str, list[Restored]]:
    """Return the markers to restore in each segment of a copy, by segment name."""
    # `to_the_end`: also restore markers after the last batch.
    if not log.transactions.unmarked:
        return {}
    search, scratch, copier = _Search(log.transactions.unmarked), Scratch(), SpanCopier()
    filled = [(segment, spans) for segment, spans in kept if len(spans)]
    for segment, spans in filled:
        # `finish` needs the last batch of the copy.
        if segment is filled[-1][0] or search.needs(log.plan(segment)):
            # Damaged bytes between the byte ranges may be unreadable.
            with FileView(segment.place, fill_unreadable=True) as view:
                walker = Walker(view, segment.base_offset or 0, log.max_batch_bytes)
                for _, table in tables_of(walker, spans, copier, scratch):
                    search.add(table)
    if to_the_end and kept:
        segment, spans = kept[-1]
        search.finish(log.plan(segment).size - int((spans[:, 1] - spans[:, 0]).sum()))
    if not search.found:
        return {}
    places: dict[str, list[Restored]] = defaultdict(list)
    bases = [MAX_OFFSET if s.base_offset is None else s.base_offset for s, _ in kept]
    for offset, data in zip(
        (lost.entry.last for lost in search.found), _built(search.found, _Snapshots(snapshots)), strict=True
    ):
        at = bisect_right(bases, offset) - 1
        if at >= 0:
            places[kept[at][0].name].append(Restored(offset, data))
    return places


def _built(found: Sequence[_Lost], snapshots: _Snapshots) -> list[bytes]:
    """Return the batches of lost markers."""
    columns = (
        (lost.entry.producer_id for lost in found),
        (_marker_epoch(lost, snapshots) for lost in found),
        (False for _ in found),
        (lost.entry.last for lost in found),
        (lost.timestamp for lost in found),
        (lost.leader_epoch for lost in found),
    )
    return build_markers(*(np.fromiter(column, np.int64, len(found)) for column in columns))


def abort_markers(
    transactions: Iterable[ProducerEntry], offset: int, leader_epoch: int, timestamp: int | None = None
) -> dict[int, Restored]:
    """Return abort markers for open transactions from `offset` on, by producer id."""
    # By default, the timestamp is that of the producer's last batch. A transaction is omitted if no marker can end it
    # (negative id or epoch), or if the offset is too large for a log.
    markers: dict[int, Restored] = {}
    for entry in transactions:
        if entry.producer_id >= 0 and entry.epoch >= 0 and offset < MAX_OFFSET:
            marker = build_marker(
                entry.producer_id,
                entry.epoch,
                commit=False,
                coordinator_epoch=max(entry.coordinator_epoch, 0),
                base_offset=offset,
                timestamp=max(entry.timestamp if timestamp is None else timestamp, NO_TIMESTAMP),
                leader_epoch=leader_epoch,
            )
            markers[entry.producer_id] = Restored(offset, marker)
            offset += 1
    return markers


class _Snapshots:
    """The producer snapshots of a partition. Only the snapshot that was read last is kept in memory."""

    def __init__(self, snapshots: SourceSnapshots) -> None:
        self._files, self._offsets = snapshots.files, snapshots.offsets.copy()
        self._known: tuple[int, Producers] = -1, Producers()

    def after(self, offset: int) -> Producers:
        """Return the producers in the first readable snapshot above `offset`."""
        at = bisect_right(self._offsets, offset)
        while at < len(self._offsets):
            following = self._offsets[at]
            if following == self._known[0]:
                return self._known[1]
            try:
                states = self._files.read(file_name(following, ".snapshot"))
            except KafkaFormatError:
                states = None
            if states is not None:
                self._known = following, Producers(states)
                return self._known[1]
            del self._offsets[at]
        return Producers()


def _marker_epoch(lost: _Lost, snapshots: _Snapshots) -> int:
    """Return the producer epoch of a lost marker."""
    # Since Kafka 4.0, a marker increases the producer epoch (KIP-890). If the producer wrote no batch between the
    # marker and the next producer snapshot, this snapshot contains the new epoch.
    known = snapshots.after(lost.entry.last).get(lost.entry.producer_id)
    if known is not None and known.last_offset < 0 and known.epoch > lost.producer_epoch:
        return known.epoch
    return lost.producer_epoch

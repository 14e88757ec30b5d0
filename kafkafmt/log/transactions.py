"""Which records a consumer at read_committed would see, told from the log itself.

The log is walked once, in the order of offsets: a producer's transaction is open from its first transactional batch to
its marker (Kafka: ProducerStateManager); aborted ones are left out, and nothing from the first offset of the oldest
open one on is stable. Damage may hide a marker, and so may a segment that is missing. Where they may, the transaction index is
asked, which names every aborted transaction; where that says nothing that holds, the records before the damage are left out, and
the doubt is named.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..constants import CONTROL_ABORT, CONTROL_BIT, CONTROL_COMMIT, MAX_OFFSET, TRANSACTIONAL_BIT
from ..records import RecordReader
from . import files
from .entries import read_transaction_index
from .files import FileView
from .plan import Damage
from .producers import read_markers

if TYPE_CHECKING:
    from ..types import Buffer
    from .directory import SegmentFile
    from .partition import Part, PartitionLog

MARKER_SIZE = 78
"""Bytes of a batch that ends a transaction; a longer one is no marker."""


@dataclass(frozen=True)
class Doubt:
    """A transaction whose end damage may have hidden: its records from first_offset to last_offset are left out.

    file: where the damage is, or the segment behind one that is missing.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    file: str
    hidden_by: str = "damage"


@dataclass
class Transactions:
    """What became of a log's transactions.

    aborted: by producer id, (first offset, last offset) of what is left out, in their order. open: by producer id, the
    first offset of a transaction that has not ended. last_stable_offset: the first offset that is not decided yet.
    """

    aborted: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    open: dict[int, int] = field(default_factory=dict)
    doubts: list[Doubt] = field(default_factory=list)
    last_stable_offset: int = 0

    def committed(self, table: np.ndarray) -> np.ndarray:
        """The batches of a table that are part neither of an aborted nor of an open transaction."""
        keep = np.ones(len(table), bool)
        inside = np.flatnonzero((table["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)) == TRANSACTIONAL_BIT)
        for producer_id in np.unique(table["producer_id"][inside]).tolist():
            spans = self.aborted.get(producer_id, [])
            if producer_id in self.open:
                spans = [*spans, (self.open[producer_id], MAX_OFFSET)]
            if not spans:
                continue
            rows = inside[table["producer_id"][inside] == producer_id]
            firsts, lasts = (np.array(column, np.int64) for column in zip(*spans, strict=True))
            base = table["base_offset"][rows]
            at = np.searchsorted(firsts, base, "right") - 1
            keep[rows] = (at < 0) | (base > lasts[at])
        return table if keep.all() else table[keep]


class TransactionWalk:
    """The state of every producer, batch after batch; `found` is what came of it so far."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.found = Transactions()
        self.reader = RecordReader(("offset", "key"), max_batch_bytes=log.max_batch_bytes)
        self.suspended: dict[int, list[Doubt]] = defaultdict(list)
        self.last_marker: dict[int, int] = {}

    def damage(self, damage: Damage) -> None:
        """Every open transaction may have ended in a damaged span, unless that is one batch too long for a marker."""
        if damage.length > MARKER_SIZE and _is_one_batch(self.log, damage):
            return
        self._suspend(damage.first_offset or 0, damage.file)

    def gap(self, end: int, file: str) -> None:
        """The same of a segment that is missing between the one that ends at an offset and a file."""
        self._suspend(end, file, "a missing segment")

    def _suspend(self, end: int, *why: str) -> None:
        for producer_id, first in self.found.open.items():
            self.suspended[producer_id].append(Doubt(producer_id, first, end - 1, *why))
        self.found.open.clear()

    def add(self, buffer: Buffer, table: np.ndarray, file: str) -> None:
        """Batches that lie in a buffer, in the order of offsets. file: their segment."""
        rows = table[(table["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0]
        if not len(rows):
            return
        markers = read_markers(self.reader, buffer, rows[(rows["attributes"] & CONTROL_BIT) != 0])
        open_ = self.found.open
        columns = (rows["producer_id"].tolist(), rows["base_offset"].tolist(), rows["attributes"].tolist())
        for producer_id, base, attributes in zip(*columns, strict=True):
            if not attributes & CONTROL_BIT:
                open_.setdefault(producer_id, base)
                continue
            kind = markers[base].kind if base in markers else None
            if kind is None and attributes & TRANSACTIONAL_BIT:  # a marker that cannot be read
                self.suspended[producer_id].append(Doubt(producer_id, open_.pop(producer_id, base), base, file))
            elif kind in (CONTROL_ABORT, CONTROL_COMMIT):
                first = open_.pop(producer_id, None)
                self.last_marker[producer_id] = base
                if kind == CONTROL_ABORT and first is not None:
                    self.found.aborted[producer_id].append((first, base))


def _is_one_batch(log: PartitionLog, damage: Damage) -> bool:
    """Is the damaged span as long as its own header says?"""
    segment = next(s for s in log.segments if s.name == damage.file)
    try:
        with FileView(segment.path) as view:
            length = int.from_bytes(view.read(damage.position + 8, 4), "big", signed=True)
    except FileNotFoundError:
        return False
    return length + 12 == damage.length


def find_transactions(log: PartitionLog) -> Transactions:
    """What became of every transaction in a partition, the records below the log start included."""
    walk = TransactionWalk(log)
    if any(log.plan(s).stats.transactional for s in log.segments):
        before: Part | None = None
        for part in log.parts(0, MAX_OFFSET, walk.damage):
            segment, extent = part.plan.segment, part.extent
            if before is not None and segment is not before.plan.segment:
                end = before.extent.last_offset + 1
                if misses_a_segment(log, before.plan.segment, end, segment, extent.first_offset):
                    walk.gap(end, segment.name)
            walk.add(part.buffer, part.table, segment.name)
            before = part
    return settle(walk)


def settle(walk: TransactionWalk) -> Transactions:
    """What became of them, once the walk has seen the whole log."""
    found = walk.found
    found.last_stable_offset = min([*found.open.values(), walk.log.next_offset])
    _ask_indexes(walk.log, walk)
    for spans in found.aborted.values():
        spans.sort()
    return found


def misses_a_segment(log: PartitionLog, before: SegmentFile, end: int, segment: SegmentFile, first_offset: int) -> bool:
    """Are offsets missing, from `end` to the first one of the next segment that is there, that compaction did not take?"""
    return first_offset > end and not (before.next_base == segment.base_offset and log.compacted)


def _ask_indexes(log: PartitionLog, walk: TransactionWalk) -> None:
    """Ask the transaction indexes about what damage may have hidden; what they leave open is doubt.

    An index tells that a transaction was aborted by naming it. That it was committed follows where none names it and
    something shows that it ended: a later marker of its producer, or a stable offset beyond its first at a later abort.
    """
    if not walk.suspended:
        return
    found = walk.found
    indexes = {s.name: files.read_bytes(s.path.with_suffix(".txnindex")) for s in log.segments}
    entries = [e for data in indexes.values() if data is not None for e in read_transaction_index(data).tolist()]
    named = {(producer_id, last) for _, producer_id, _, last, _ in entries}
    believed = all((producer_id, last) in named for producer_id, spans in found.aborted.items() for _, last in spans)
    for producer_id, doubts in walk.suspended.items():
        for doubt in doubts:
            first = doubt.first_offset
            aborts = [last for _, pid, start, last, _ in entries if pid == producer_id and start <= first <= last]
            ended = walk.last_marker.get(producer_id, -1) > doubt.last_offset or any(
                last > doubt.last_offset and stable > first for _, _, _, last, stable in entries
            )
            if believed and aborts:
                found.aborted[producer_id].append((first, min(doubt.last_offset, aborts[0])))
            elif not believed or indexes[doubt.file] is None or not ended or doubt.hidden_by != "damage":
                found.aborted[producer_id].append((first, doubt.last_offset))
                found.doubts.append(doubt)

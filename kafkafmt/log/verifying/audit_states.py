"""Compare the snapshots, transaction indexes and leader epochs of a partition with its batches.

The expected producer states are computed from two sources: the snapshot at the start of the first
segment, and all batches of the log. If compaction or damage has removed batches, producer states
that depend on the missing batches are not compared.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np

from ..._backend import core
from ...constants import CONTROL_ABORT, CONTROL_BIT, MAGIC_V2, TRANSACTIONAL_BIT
from ...errors import KafkaFormatError, StructureError
from ...support.text import counted, offset_range
from ...types import BatchSummary, BatchTable, last_offsets
from ..catalog import SegmentFile
from ..findings import Finding
from ..formats import (
    LEADER_EPOCHS,
    STATE_BYTES,
    TRANSACTION_ENTRY,
    Aborted,
    Epochs,
    Marker,
    ProducerEntry,
    Producers,
    file_name,
    offsets_in,
    partial_entry_message,
    read_transaction_index,
)
from ..storage import joined, read_bytes
from ..transactions import Doubts, SnapshotFiles, Transactions
from .audit_isolation import IsolationAudit

FIELDS = ("epoch", "last_sequence", "last_offset", "offset_delta", "txn_first_offset")
"""Compared fields of a producer. Kafka releases take the timestamp from different batches."""


class StateAudit:
    """Compares producer snapshots, transaction indexes and leader epochs with the batches."""

    # Call `add` for all batches of the partition, in offset order, then `findings`. `names` are all files of the
    # partition directory, and `epochs` the entries of the leader epoch checkpoint.

    def __init__(self, segments: list[SegmentFile], names: list[str], epochs: Epochs, snapshots: SnapshotFiles) -> None:
        self._segments = segments
        self._names = set(names)
        self._indexed = any(n.endswith("index") for n in names)
        self._found: list[Finding] = []
        self._start = segments[0].base_offset or 0
        self._folder = segments[0].path.parent
        self._files = snapshots
        self._snapshots = offsets_in(names, ".snapshot")
        self._producers = Producers(self._load(self._start) or b"")
        self._isolation = IsolationAudit()
        self._pending = deque(offset for offset in sorted(self._snapshots) if offset > self._start)
        self._indexes: dict[str, bytes] = {}
        self._unreadable: set[str] = set()  # segments whose transaction index cannot be read
        self._aborted: dict[str, list[Aborted]] = defaultdict(list)
        self._abort_markers: set[tuple[int, int]] = set()
        self._epochs = epochs
        self._epoch_starts = [offset for _, offset in epochs]
        self._rising = all(a < b for a, b in itertools.pairwise(self._epoch_starts))
        """Whether the offsets of the leader epoch checkpoint increase."""
        self._epochs_reported: set[int] = set()
        self.complete: bool = True  # whether the log contains all batches so far: compaction or damage has removed none

    def _load(self, offset: int) -> bytes | None:
        """Return the serialized entries of the producer snapshot at `offset`, or None if it is missing or unreadable."""
        name = self._snapshots.get(offset)
        if name is None:
            return None
        try:
            return self._files.read(name)
        except KafkaFormatError as error:
            self._found.append(
                Finding(
                    name,
                    "unreadable_snapshot",
                    f"{error.message}; a broker deletes a snapshot with invalid content, and uses the previous snapshot",
                )
            )
            return None

    def open(self, segment: SegmentFile) -> None:
        """Read the transaction index of a segment. Call this before the segment's batches are added."""
        name = segment.sibling_name(".txnindex")
        data = b""
        if name in self._names:
            try:
                data = read_bytes(joined(self._folder, name)) or b""
            except StructureError as error:
                self._found.append(Finding(name, "unreadable_index", error.message))
                self._unreadable.add(segment.name)
        self._indexes[segment.name] = data

    def incomplete(self) -> None:
        """Record that some batches of the log are missing."""
        self.complete = False

    def add(self, segment: SegmentFile, table: BatchTable, found: BatchSummary, markers: dict[int, Marker]) -> None:
        """Process batches of a segment, and compare each producer snapshot with the batches before its offset."""
        last = found.last
        while self._pending and last >= self._pending[0]:
            before = found.lowest < self._pending[0]  # False if no batch precedes the snapshot
            cut = int(np.searchsorted(last_offsets(table), self._pending[0])) if before else 0
            if cut:
                self._follow(segment, table[:cut], core.summarize_batches(table[:cut]), markers)
                table = table[cut:]
                found = core.summarize_batches(table)
            self._compare(self._pending.popleft())
        if len(table):
            self._follow(segment, table, found, markers)

    def _follow(self, segment: SegmentFile, table: BatchTable, found: BatchSummary, markers: dict[int, Marker]) -> None:
        if found.producers and (new := self._producers.add(table, markers)):
            self._aborted[segment.name] += new
        if found.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT):
            ended = self._isolation.add(table, markers)
            self._abort_markers.update(
                (producer_id, at) for producer_id, _, _, kind, at in ended if kind == CONTROL_ABORT
            )
        if self._epochs and not self._agrees_with_epochs(found):
            self._check_epochs(segment, table)

    def _agrees_with_epochs(self, found: BatchSummary) -> bool:
        """Return whether all batches of a table have one leader epoch that agrees with the checkpoint."""
        same = found.lowest_epoch == found.highest_epoch and found.magics == 1 << MAGIC_V2
        if not same or not found.increasing or not self._rising:
            return False
        at = bisect_right(self._epoch_starts, found.lowest) - 1
        return at == bisect_right(self._epoch_starts, found.last) - 1 and (
            at < 0
            or found.lowest_epoch == self._epochs[at][0]
            or (at == len(self._epochs) - 1 and found.lowest_epoch > self._epochs[at][0])
            or found.lowest_epoch < 0
        )

    def _check_epochs(self, segment: SegmentFile, table: BatchTable) -> None:
        """Compare the leader epochs of batches with the leader epoch checkpoint."""
        # A batch before the first entry can have any epoch; after the last entry, that epoch or a higher one. Every
        # other batch must have the epoch of the nearest previous entry.
        starts = np.array(self._epoch_starts)
        rows = table[(table["magic"] >= MAGIC_V2) & (table["leader_epoch"] >= 0)]
        at = np.searchsorted(starts, rows["base_offset"], "right") - 1
        said = np.array([epoch for epoch, _ in self._epochs])[at]
        last = at == len(starts) - 1
        at_end = np.searchsorted(starts, last_offsets(rows), "right") - 1
        wrong = (at >= 0) & (np.where(last, rows["leader_epoch"] < said, rows["leader_epoch"] != said) | (at_end != at))
        for i in np.flatnonzero(wrong).tolist():
            if int(at[i]) not in self._epochs_reported:
                self._epochs_reported.add(int(at[i]))
                epoch, offset = self._epochs[int(at_end[i])]
                batch = f"the batch at offset {rows['base_offset'][i]} in {segment.name} has epoch {rows['leader_epoch'][i]}"
                message = f"the checkpoint says that epoch {epoch} begins at offset {offset}, but {batch}"
                self._found.append(Finding(LEADER_EPOCHS, "leader_epoch_mismatch", message))

    def _compare(self, offset: int) -> None:
        """Compare the producer snapshot at `offset` with the batches before that offset."""
        states = self._load(offset)
        if states is None:
            return
        differing = self._producers.differing(states, offset)  # empty for most snapshots
        wrong = [(p.producer_id, why) for p in differing if (why := self._why_wrong(p, offset))]
        count, own = self._producers.open_besides(states) if self.complete else (0, None)
        count += len(wrong)
        if own is not None:
            why = f"is missing, although it has an open transaction that began at offset {own.txn_first_offset}"
            wrong.append((own.producer_id, why))
        if wrong:
            message = f"producer {wrong[0][0]} {wrong[0][1]}" + _others(count, len(states) // STATE_BYTES)
            self._found.append(Finding(self._snapshots[offset], "snapshot_mismatch", message))

    def _why_wrong(self, theirs: ProducerEntry, offset: int) -> str | None:
        """Return why an entry of the snapshot at `offset` is wrong, or None. The text continues "producer 1 ..."."""
        highest = max(theirs.last_offset, theirs.txn_first_offset)
        if highest >= offset:
            return f"has offset {highest}, which is not before the snapshot's own offset {offset}"
        own = self._producers.get(theirs.producer_id)
        if own is None:
            if self.complete and theirs.last_offset >= self._start:
                return (
                    f"has a batch that ends at offset {theirs.last_offset}, but the log has no batch of this producer"
                )
        elif own.last_offset == theirs.last_offset or (
            self.complete and max(own.last_offset, theirs.last_offset) >= self._start
        ):
            for field in FIELDS if self.complete else FIELDS[:-1]:
                if getattr(own, field) != getattr(theirs, field):
                    name = field.replace("_", " ")
                    return f"has {name} {getattr(theirs, field)}, but according to the log it is {getattr(own, field)}"
        return None

    def findings(self, next_offset: int, doubts: Doubts) -> list[Finding]:
        """Return all findings after all batches. Entries of transactions in `doubts` may be missing."""
        for offset in self._pending:
            if offset <= next_offset:
                self._compare(offset)
            else:
                message = f"the snapshot was taken at offset {offset}, but the log ends at {next_offset}"
                self._found.append(Finding(self._snapshots[offset], "snapshot_beyond_end", message))
        in_doubt = cache(partial(_by_producer, doubts))  # rarely needed, because few indexes lack entries
        for segment in self._segments:
            self._found += self._wrong_transactions(segment, in_doubt)
        return self._found

    def read_committed(self, ours: Transactions) -> list[Finding]:
        """Return a finding if kafkafmt and a broker deliver different records to a read_committed consumer."""
        if not self._indexed:  # a broker rebuilds missing transaction indexes from the batches
            return []
        entries = [Aborted(*e[1:]) for data in self._indexes.values() for e in read_transaction_index(data).tolist()]
        wrong = list(self._isolation.differences(ours, entries))
        if not wrong:
            return []
        first = min(wrong, key=lambda d: d.first)
        base = max((s.base_offset or 0 for s in self._segments if (s.base_offset or 0) <= first.first), default=0)
        more = f"; {len(wrong)} transactions differ" if len(wrong) > 1 else ""
        message = f"at read_committed, {offset_range(first.first, first.last)} of producer {first.producer_id}: {first.what}{more}"
        return [Finding(file_name(base, ".txnindex"), "read_committed_differs", message)]

    def _wrong_transactions(
        self, segment: SegmentFile, in_doubt: Callable[[], Mapping[int, list[int]]]
    ) -> list[Finding]:
        data = self._indexes[segment.name]
        if not data and not self._aborted.get(segment.name):
            return []
        path = segment.sibling(".txnindex")
        theirs = [Aborted(*e[1:]) for e in read_transaction_index(data).tolist()]
        ours = {(a.producer_id, a.last): a for a in self._aborted.get(segment.name, ())}
        found = []
        if len(data) % TRANSACTION_ENTRY.itemsize:
            message = partial_entry_message(len(data), TRANSACTION_ENTRY.itemsize)
            found.append(Finding(path.name, "index_length", message))
        if any(b.last <= a.last for a, b in itertools.pairwise(theirs)):
            found.append(Finding(path.name, "index_garbage", "its entries do not increase"))
        wrong = [
            (i, why) for i, e in enumerate(theirs) if (why := self._why_not(e, ours.pop((e.producer_id, e.last), None)))
        ]
        if wrong:
            message = f"entry {wrong[0][0]} says that {wrong[0][1]}" + _others(len(wrong), len(theirs))
            found.append(Finding(path.name, "index_mismatch", message))
        # If no index exists, report no missing entry: the copy may contain only `.log` files.
        missing = list(ours.values()) if self._indexed and segment.name not in self._unreadable else []
        if missing:
            doubts = in_doubt()
            missing = [own for own in missing if not _is_in_doubt(own, doubts.get(own.producer_id, []))]
        for own in missing[:1]:
            message = f"producer {own.producer_id} aborted {offset_range(own.first, own.last)}, but the index has no entry for this transaction"
            message += f" (nor for {counted(len(missing) - 1, 'other transaction')})" if len(missing) > 1 else ""
            found.append(
                Finding(
                    path.name,
                    "index_mismatch",
                    f"{message}; a broker that uses the index delivers the records as committed",
                )
            )
        return found

    def _why_not(self, entry: Aborted, own: Aborted | None) -> str | None:
        if not self.complete:
            return None
        claim = f"producer {entry.producer_id} aborted {offset_range(entry.first, entry.last)}"
        if own is None:
            return (
                None
                if (entry.producer_id, entry.last) in self._abort_markers
                else f"{claim}, but the log contains no such abort marker"
            )
        if entry.first != own.first and entry.first >= self._start:
            return f"{claim}, but that transaction begins at offset {own.first}"
        if entry.stable != own.stable and entry.stable >= self._start:
            claim = f"the last stable offset after offset {entry.last} is {entry.stable}"
            return f"{claim}, but according to the log it is {own.stable}"
        return None


def _by_producer(doubts: Doubts) -> dict[int, list[int]]:
    """Return the ascending first offsets of the transactions in `doubts`, by producer id."""
    found: dict[int, list[int]] = defaultdict(list)
    for producer_id, first in sorted(zip(doubts.producer_id.tolist(), doubts.first.tolist(), strict=True)):
        found[producer_id].append(first)
    return found


def _is_in_doubt(aborted: Aborted, doubts: list[int]) -> bool:
    """Return whether one of the ascending offsets `doubts` is in the offset range of an aborted transaction."""
    at = bisect_left(doubts, aborted.first)
    return at < len(doubts) and doubts[at] < aborted.last


def _others(wrong: int, entries: int) -> str:
    return f"; {wrong} of {entries} entries are wrong" if wrong > 1 else ""

"""Producer snapshots, transaction indexes and leader epochs of a partition held against its batches.

What producers did is followed through the whole log, from what the first segment's snapshot knows. Where the log was
compacted, or damage hides batches, less can be held against a file: then only what it says of batches that are there.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...constants import CONTROL_ABORT, CONTROL_BIT, MAGIC_V2
from ...errors import KafkaFormatError
from ...types import last_offsets
from ..format import files
from ..format.checkpoints import LEADER_EPOCHS
from ..format.index_entries import TRANSACTION_ENTRY, partial_entry_message, read_transaction_index
from ..format.leader_epochs import Epochs
from ..format.names import file_name, snapshot_offset_of
from ..format.producers import Aborted, Producers, marker_reader, read_markers
from ..format.snapshots import ProducerEntry, read_snapshot
from ..reading.discovery import SegmentFile
from ..reading.plan import Finding
from ..reading.transactions import Transactions
from .audit_isolation import IsolationAudit

FIELDS = ("epoch", "last_sequence", "last_offset", "offset_delta", "txn_first_offset")
"""What is compared of a producer: not its time, which releases took from different batches."""


class StateAudit:
    """Give it every table of the partition's batches, in the order of offsets. names: the files in its directory."""

    def __init__(self, segments: list[SegmentFile], names: list[str], epochs: Epochs, max_batch_bytes: int) -> None:
        self._segments = segments
        self._indexed = any(n.endswith("index") for n in names)
        self._found: list[Finding] = []
        self._start = segments[0].base_offset or 0
        self._folder = segments[0].path.parent
        self._snapshots = {offset: n for n in names if (offset := snapshot_offset_of(n)) is not None}
        self._producers = Producers(self._load(self._start) or ())
        self._reader = marker_reader(max_batch_bytes)
        self._isolation = IsolationAudit()
        self._pending = deque(offset for offset in sorted(self._snapshots) if offset > self._start)
        self._indexes: dict[str, bytes] = {}
        self._aborted: dict[str, list[Aborted]] = defaultdict(list)
        self._abort_markers: set[tuple[int, int]] = set()
        self._epochs = epochs
        self._epochs_told: set[int] = set()
        self.whole = True
        """Nothing is known to be missing so far: neither to compaction nor to damage."""
        self._undo: list[Callable[[], None]] = []
        """What to do, from the last to the first, to return to the last `mark`."""

    def _load(self, offset: int) -> list[ProducerEntry] | None:
        """The snapshot at an offset; None where there is none, or none that can be read."""
        name = self._snapshots.get(offset)
        data = files.read_bytes(self._folder / name) if name is not None else None
        if name is None or data is None:
            return None
        try:
            return read_snapshot(data)
        except KafkaFormatError as error:
            self._found.append(
                Finding(name, "unreadable_snapshot", f"{error.message}; a broker drops it and takes the one before")
            )
            return None

    def mark(self) -> None:
        """Remember this point, so that `take_back` can return to it. The cost does not depend on how much is known."""
        found, whole = len(self._found), self.whole

        def restore() -> None:
            del self._found[found:]
            self.whole = whole

        self._undo = [restore]
        self._producers.mark()
        self._isolation.mark()

    def take_back(self) -> None:
        """Return to the point of the last `mark`. The cost is that of what has been added since."""
        while self._undo:
            self._undo.pop()()
        self._producers.take_back()
        self._isolation.take_back()
        self.mark()

    def open(self, segment: SegmentFile) -> None:
        """Read a segment's transaction index, before its batches."""
        self._indexes[segment.name] = files.read_bytes(segment.path.with_suffix(".txnindex")) or b""

    def incomplete(self) -> None:
        """From here on batches are known to be missing."""
        self.whole = False

    def add(self, segment: SegmentFile, buffer: Any, table: np.ndarray) -> None:
        lasts = last_offsets(table)
        while self._pending and lasts[-1] >= self._pending[0]:
            cut = int(np.searchsorted(lasts, self._pending[0]))
            self._follow(segment, buffer, table[:cut])
            offset = self._pending.popleft()
            self._undo.append(partial(self._pending.appendleft, offset))
            self._compare(offset)
            table, lasts = table[cut:], lasts[cut:]
        self._follow(segment, buffer, table)

    def _follow(self, segment: SegmentFile, buffer: Any, table: np.ndarray) -> None:
        if not len(table):
            return
        markers = read_markers(self._reader, buffer, table[(table["attributes"] & CONTROL_BIT) != 0])
        if markers:
            rows = table[(table["attributes"] & CONTROL_BIT) != 0]
            for producer_id, offset in zip(rows["producer_id"].tolist(), rows["base_offset"].tolist(), strict=True):
                at = producer_id, offset
                if offset in markers and markers[offset].kind == CONTROL_ABORT and at not in self._abort_markers:
                    self._abort_markers.add(at)
                    self._undo.append(partial(self._abort_markers.remove, at))
        aborted = self._aborted[segment.name]
        self._undo.append(partial(aborted.__delitem__, slice(len(aborted), None)))
        aborted += self._producers.add(table, markers)
        self._isolation.add(table, markers)
        self._check_epochs(segment, table)

    def _check_epochs(self, segment: SegmentFile, table: np.ndarray) -> None:
        """Within an entry's offsets every batch names its epoch; batches before the first and behind the last entry are free."""
        if not self._epochs:
            return
        starts = np.array([offset for _, offset in self._epochs])
        rows = table[(table["magic"] >= MAGIC_V2) & (table["leader_epoch"] >= 0)]
        at = np.searchsorted(starts, rows["base_offset"], "right") - 1
        said = np.array([epoch for epoch, _ in self._epochs])[at]
        last = at == len(starts) - 1
        at_end = np.searchsorted(starts, last_offsets(rows), "right") - 1
        wrong = (at >= 0) & (np.where(last, rows["leader_epoch"] < said, rows["leader_epoch"] != said) | (at_end != at))
        for i in np.flatnonzero(wrong).tolist():
            if int(at[i]) not in self._epochs_told:
                self._epochs_told.add(int(at[i]))
                self._undo.append(partial(self._epochs_told.remove, int(at[i])))
                epoch, offset = self._epochs[int(at_end[i])]
                batch = f"the batch from offset {rows['base_offset'][i]} on in {segment.name} has epoch {rows['leader_epoch'][i]}"
                message = f"epoch {epoch} begins at offset {offset}, but {batch}"
                self._found.append(Finding(LEADER_EPOCHS, "leader_epoch_mismatch", message))

    def _compare(self, offset: int) -> None:
        """A snapshot with what the batches before its offset tell."""
        producers = self._load(offset)
        if producers is None:
            return
        wrong = [(p.producer_id, why) for p in producers if (why := self._why_wrong(p, offset))]
        count, own = self._producers.open_besides(p.producer_id for p in producers) if self.whole else (0, None)
        count += len(wrong)
        if own is not None:
            why = f"not at all, although its transaction from offset {own.txn_first_offset} on is open there"
            wrong.append((own.producer_id, why))
        if wrong:
            message = f"it has producer {wrong[0][0]} {wrong[0][1]}" + _others(count, len(producers))
            self._found.append(Finding(self._snapshots[offset], "snapshot_mismatch", message))

    def _why_wrong(self, theirs: ProducerEntry, offset: int) -> str | None:
        highest = max(theirs.last_offset, theirs.txn_first_offset)
        if highest >= offset:
            return f"at offset {highest}, behind the snapshot's own"
        own = self._producers.entries.get(theirs.producer_id)
        if own is None:
            if self.whole and theirs.last_offset >= self._start:
                return f"with a batch that ends at offset {theirs.last_offset}, where the log has none of it"
        elif own.last_offset == theirs.last_offset or (
            self.whole and max(own.last_offset, theirs.last_offset) >= self._start
        ):
            for field in FIELDS if self.whole else FIELDS[:-1]:
                if getattr(own, field) != getattr(theirs, field):
                    return f"with {field.replace('_', ' ')} {getattr(theirs, field)} where the log has {getattr(own, field)}"
        return None

    def findings(self, next_offset: int) -> list[Finding]:
        """What is wrong, once every table was given."""
        for offset in self._pending:
            if offset <= next_offset:
                self._compare(offset)
            else:
                message = f"it was taken at offset {offset}, beyond the log's end at {next_offset}"
                self._found.append(Finding(self._snapshots[offset], "snapshot_beyond_end", message))
        for segment in self._segments:
            self._found += self._wrong_transactions(segment)
        return self._found

    def read_committed(self, ours: Transactions) -> list[Finding]:
        """Return a finding if a broker's consumers at read_committed get other records than we deliver."""
        if not self._indexed:  # a broker rebuilds the indexes from the batches
            return []
        entries = [Aborted(*e[1:]) for data in self._indexes.values() for e in read_transaction_index(data).tolist()]
        wrong = list(self._isolation.differences(ours, entries))
        if not wrong:
            return []
        first = min(wrong, key=lambda d: d.first)
        base = max((s.base_offset or 0 for s in self._segments if (s.base_offset or 0) <= first.first), default=0)
        more = f"; so it is with {len(wrong)} transactions" if len(wrong) > 1 else ""
        message = f"at read_committed, offsets {first.first} to {first.last} of producer {first.producer_id}: {first.what}{more}"
        return [Finding(file_name(base, ".txnindex"), "read_committed_differs", message)]

    def _wrong_transactions(self, segment: SegmentFile) -> list[Finding]:
        path = segment.path.with_suffix(".txnindex")
        data = self._indexes[segment.name]
        theirs = [Aborted(*e[1:]) for e in read_transaction_index(data).tolist()]
        ours = {(a.producer_id, a.last): a for a in self._aborted.get(segment.name, ())}
        found = []
        if len(data) % TRANSACTION_ENTRY.itemsize:
            message = partial_entry_message(len(data), TRANSACTION_ENTRY.itemsize)
            found.append(Finding(path.name, "index_length", message))
        if any(b.last <= a.last for a, b in itertools.pairwise(theirs)):
            found.append(Finding(path.name, "index_garbage", "its entries do not rise"))
        wrong = [
            (i, why) for i, e in enumerate(theirs) if (why := self._why_not(e, ours.pop((e.producer_id, e.last), None)))
        ]
        if wrong:
            message = f"entry {wrong[0][0]} says that {wrong[0][1]}" + _others(len(wrong), len(theirs))
            found.append(Finding(path.name, "index_mismatch", message))
        for own in list(ours.values())[:1] if self._indexed else ():  # a copy of bare `.log` files lacks nothing
            message = (
                f"producer {own.producer_id} aborted offsets {own.first} to {own.last}, which the index does not say"
            )
            message += f" (nor {len(ours) - 1} more)" if len(ours) > 1 else ""
            found.append(
                Finding(path.name, "index_mismatch", f"{message}: a broker that trusts it delivers them as committed")
            )
        return found

    def _why_not(self, entry: Aborted, own: Aborted | None) -> str | None:
        if not self.whole:
            return None
        said = f"producer {entry.producer_id} aborted offsets {entry.first} to {entry.last}"
        if own is None:
            return (
                None
                if (entry.producer_id, entry.last) in self._abort_markers
                else f"{said}, and no such marker is there"
            )
        if entry.first != own.first and entry.first >= self._start:
            return f"{said}, but that transaction begins at {own.first}"
        if entry.stable != own.stable and entry.stable >= self._start:
            return f"all below {entry.stable} is decided once offset {entry.last} is written, but that is all below {own.stable}"
        return None


def _others(wrong: int, entries: int) -> str:
    return f"; {wrong} of {entries} entries are wrong" if wrong > 1 else ""

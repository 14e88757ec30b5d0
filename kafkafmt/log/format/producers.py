"""Track the state of a partition's producers from batch to batch, like a broker.

Kafka's counterparts are ``ProducerStateManager`` and ``ProducerAppendInfo``. A transaction is open
from the producer's first transactional batch to the transaction's marker. If the producer has no
open transaction, a marker has no effect. If the log cleaner has removed the record of a control
batch, the batch has no effect. In a broker, the state of a producer expires after some time. Here
it expires only when `Producers.forget` is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ..._backend import core
from ...constants import CONTROL_BIT
from ...records import RecordReader
from ...types import BatchTable, Buffer, byte_view
from .snapshots import ProducerEntry


class Marker(NamedTuple):
    """A transaction marker, which is the record of a control batch."""

    kind: int
    """Control record type: 0 for abort, 1 for commit. Other types do not end a transaction."""
    timestamp: int
    """Timestamp of the marker, in ms."""
    coordinator_epoch: int
    """Epoch of the transaction coordinator. -1 if the marker does not contain it."""


class Aborted(NamedTuple):
    """An aborted transaction. The fields are those of an entry in a transaction index."""

    producer_id: int
    first: int
    """Offset of the transaction's first record."""
    last: int
    """Offset of the abort marker."""
    stable: int
    """Last stable offset after the abort marker."""


_MARKER_COLUMNS = ("offset", "timestamp", "key_position", "key_length", "value_position", "value_length")


def marker_reader(max_batch_bytes: int) -> RecordReader:
    """Create a `RecordReader` for `read_markers`. The reader can be used for many calls."""
    return RecordReader(("offset", "timestamp", "key", "value"), capacity=256, max_batch_bytes=max_batch_bytes)


def read_markers(reader: RecordReader, buffer: Buffer, table: BatchTable) -> dict[int, Marker]:
    """Read the transaction markers in the control batches of a table. Return a dict that maps offsets to markers.

    `buffer` contains the batches. Other batches and markers that cannot be read are omitted.
    """
    plain = core.read_markers(buffer, table, Marker)
    if plain is not None:
        return plain
    rows = table.compress((table["attributes"] & CONTROL_BIT) != 0)  # faster than table[mask]
    found: dict[int, Marker] = {}
    for source, columns in reader.read(buffer, rows, lambda _, __: None):
        data = byte_view(source)
        fields = (getattr(columns, name)[: columns.rows].tolist() for name in _MARKER_COLUMNS)
        for offset, timestamp, key, length, value, size in zip(*fields, strict=True):
            if length >= 4:
                kind = int.from_bytes(data[key + 2 : key + 4], "big")
                epoch = int.from_bytes(data[value + 2 : value + 6], "big", signed=True) if size >= 6 else -1
                found.setdefault(offset, Marker(kind, timestamp, epoch))
    return found


class Producers:
    """State of all producers of a partition.

    Attributes
    ----------
    entries : dict of int to ProducerEntry
        The state of each producer, by producer id.
    """

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self.entries: dict[int, ProducerEntry] = {e.producer_id: e for e in entries}
        self._open = {e.producer_id: e.txn_first_offset for e in self.entries.values() if e.txn_first_offset >= 0}
        self._oldest = [(first, producer_id) for producer_id, first in self._open.items()]
        """A heap of pairs (first offset, producer id). It contains all open transactions, and some
        that have already ended.
        """
        heapify(self._oldest)
        self._before: dict[int, tuple[ProducerEntry | None, int | None]] | None = None

    def copy(self) -> Producers:
        """Return an independent copy of the current state. State that `mark` has saved is not copied."""
        return Producers(self.entries.values())

    def mark(self) -> None:
        """Save the current state, so that `take_back` can restore it."""
        self._before = {}

    def take_back(self) -> None:
        """Restore the state that the last call of `mark` has saved. The saved state can be restored again later.

        The run time is proportional to the number of producers that have changed since the state
        was saved or restored.
        """
        for producer_id, (entry, first) in (self._before or {}).items():
            if entry is None:
                self.entries.pop(producer_id, None)
            else:
                self.entries[producer_id] = entry
            if first is None:
                self._open.pop(producer_id, None)
            else:
                self._open[producer_id] = first
                heappush(self._oldest, (first, producer_id))
        self._before = {}

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest open transaction, or None if no transaction is open."""
        while self._oldest and self._open.get(self._oldest[0][1]) != self._oldest[0][0]:
            heappop(self._oldest)
        return self._oldest[0][0] if self._oldest else None

    def open_besides(self, known: Iterable[int]) -> tuple[int, ProducerEntry | None]:
        """Count the producers that have an open transaction and whose ids are not in `known`.

        Return the number of producers that were counted, and the `ProducerEntry` of one counted
        producer. If the number is 0, return None instead of the `ProducerEntry`.
        """
        ids = set(known)
        count = len(self._open) - sum(producer_id in self._open for producer_id in ids)
        found = next((producer_id for producer_id in self._open if producer_id not in ids), None) if count else None
        return count, None if found is None else self.entries[found]

    @property
    def open_producers(self) -> set[int]:
        """Ids of the producers that have an open transaction."""
        return set(self._open)

    @property
    def open_transactions(self) -> list[ProducerEntry]:
        """Entries of the producers that have an open transaction, ordered by the first offset of the transaction."""
        return [self.entries[i] for i in sorted(self._open, key=self._open.__getitem__)]

    def forget(self, before: int) -> None:
        """Remove each producer that has no open transaction and whose timestamp is below `before` (in ms)."""
        self.entries = {i: e for i, e in self.entries.items() if e.timestamp >= before or i in self._open}

    def add(self, table: BatchTable, markers: dict[int, Marker]) -> list[Aborted]:
        """Update the state with the next batches of the log, and return the transactions that their markers abort.

        Parameters
        ----------
        table : BatchTable
            The next batches of the log, in offset order.
        markers : dict of int to Marker
            Maps offsets to the markers in the control batches of `table`, as returned by
            `read_markers`.
        """
        aborted = core.update_producers(
            table, markers, self.entries, self._open, self._oldest, self._before, ProducerEntry
        )
        return [Aborted(*transaction) for transaction in aborted]

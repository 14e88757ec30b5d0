"""Track the state of a partition's producers from batch to batch, like a broker.

Kafka's counterparts are ``ProducerStateManager`` and ``ProducerAppendInfo``. A transaction is open
from the producer's first transactional batch to its marker. A marker without an open transaction
has no effect, nor has a control batch whose record the log cleaner has removed. The state of a
producer expires only when `Producers.forget` is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..._backend import core
from ...constants import CONTROL_BIT
from ...records import RecordReader
from ...types import BatchTable, Buffer, byte_view
from .snapshots import ProducerEntry, entries_of


class Marker(NamedTuple):
    """A transaction marker, which is the record of a control batch."""

    kind: int  # Control record type: 0 for abort, 1 for commit. Other types do not end a transaction.
    timestamp: int  # timestamp of the marker, in ms
    coordinator_epoch: int  # epoch of the transaction coordinator; -1 if the marker does not contain it


class Aborted(NamedTuple):
    """An aborted transaction. The fields are those of an entry in a transaction index."""

    producer_id: int
    first: int  # offset of the transaction's first record
    last: int  # offset of the abort marker
    stable: int  # last stable offset after the abort marker


_MARKER_COLUMNS = ("timestamp", "key_position", "key_length", "value_position", "value_length")


def marker_reader(max_batch_bytes: int) -> RecordReader:
    """Create a `RecordReader` for `read_markers`. The reader can be used for many calls."""
    return RecordReader(("timestamp", "key", "value"), capacity=256, max_batch_bytes=max_batch_bytes)


def read_markers(reader: RecordReader, buffer: Buffer, table: BatchTable) -> dict[int, Marker]:
    """Return the readable transaction markers in the batches of a table, by base offset."""
    plain = core.read_markers(buffer, table, Marker)
    if plain is not None:
        return plain
    rows = table.compress((table["attributes"] & CONTROL_BIT) != 0)  # faster than table[mask]
    found: dict[int, Marker] = {}
    for i, base_offset in enumerate(rows["base_offset"].tolist()):
        for source, columns in reader.read(buffer, rows[i : i + 1], lambda _, __: None):
            data = byte_view(source)
            timestamp, key, length, value, size = (int(getattr(columns, name)[0]) for name in _MARKER_COLUMNS)
            if length >= 4:
                kind = int.from_bytes(data[key + 2 : key + 4], "big")
                epoch = int.from_bytes(data[value + 2 : value + 6], "big", signed=True) if size >= 6 else -1
                found.setdefault(base_offset, Marker(kind, timestamp, epoch))
            break  # like Kafka, read only the first record
    return found


class Producers:
    """State of all producers of a partition. It begins with the serialized entries of a producer snapshot."""

    def __init__(self, states: bytes = b"") -> None:
        self._table = core.ProducerTable(states)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def entries(self) -> dict[int, ProducerEntry]:
        """The state of each producer, by producer id. Each access creates a new dict."""
        return {entry.producer_id: entry for entry in entries_of(self.states)}

    @property
    def states(self) -> bytes:
        """The serialized states, ordered by producer id. They are the entries of a producer snapshot."""
        return self._table.all_states()

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return the state of a producer, or None if there is none."""
        state = self._table.state_of(producer_id)
        return None if state is None else entries_of(state)[0]

    def copy(self) -> Producers:
        return Producers(self.states)

    def contain(self, states: bytes) -> bool:
        """Return whether all serialized states are equal to the current states of their producers."""
        return self._table.contains(states)

    def differing(self, states: bytes, offset: int) -> list[ProducerEntry]:
        """Return the entries (serialized) of the snapshot at `offset` that must be checked: they differ."""
        # An entry is also returned if its producer is unknown, or if it contains an offset that is at least `offset`.
        # Timestamps and coordinator epochs are not compared.
        return entries_of(self._table.differing(states, offset))

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest open transaction, or None if no transaction is open."""
        return self._table.first_open()

    def open_besides(self, states: bytes) -> tuple[int, ProducerEntry | None]:
        """Count the producers with an open transaction that are not in the entries `states`, and return one of them."""
        count, state = self._table.open_besides(states)
        return count, None if state is None else entries_of(state)[0]

    def open_among(self, producer_ids: Iterable[int]) -> set[int]:
        """Return those of the given producer ids that have an open transaction."""
        found = {producer_id: self.get(producer_id) for producer_id in set(producer_ids)}
        return {
            producer_id for producer_id, entry in found.items() if entry is not None and entry.txn_first_offset >= 0
        }

    @property
    def open_transactions(self) -> list[ProducerEntry]:
        """Entries of the producers that have an open transaction, ordered by the first offset of the transaction."""
        return entries_of(self.open_states)

    @property
    def open_states(self) -> bytes:
        """The serialized states of the producers in `open_transactions`, in the same order."""
        return self._table.open_states()

    def forget(self, before: int) -> None:
        """Remove each producer that has no open transaction and whose timestamp is below `before` (in ms)."""
        self._table.forget(before)

    def add(self, table: BatchTable, markers: dict[int, Marker]) -> list[Aborted]:
        """Update the state with the next batches of the log, and return the transactions that their markers abort."""
        aborted = self._table.update(table, markers)
        return [Aborted(*transaction) for transaction in aborted] if aborted else []

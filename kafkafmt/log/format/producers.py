"""What a broker knows of a partition's producers, batch after batch (Kafka: ProducerStateManager, ProducerAppendInfo).

From a producer's first transactional batch to its marker its transaction is open. A marker that finds none open, and a
control batch that the cleaner has emptied, end nothing. Nobody is forgotten for being old, as a broker would forget.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from ...constants import (
    CONTROL_ABORT,
    CONTROL_BIT,
    CONTROL_COMMIT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ...records import RecordReader
from .snapshots import ProducerEntry, sequence_after


class Marker(NamedTuple):
    """The first record of a control batch: its type and time, and of the end of a transaction the coordinator's epoch."""

    kind: int
    timestamp: int
    coordinator_epoch: int


class Aborted(NamedTuple):
    """An entry of a transaction index: last is the marker's offset, stable the first offset not decided after it."""

    producer_id: int
    first: int
    last: int
    stable: int


def marker_reader(max_batch_bytes: int) -> RecordReader:
    """What `read_markers` needs, made once."""
    return RecordReader(("offset", "timestamp", "key", "value"), capacity=256, max_batch_bytes=max_batch_bytes)


def read_markers(reader: RecordReader, buffer: Any, rows: np.ndarray) -> dict[int, Marker]:
    """The markers of control batches by their offset; what cannot be read is left out.

    Time and coordinator epoch are -1 where the reader has no columns of timestamps and values.
    """
    found: dict[int, Marker] = {}
    for source, columns in reader.read(buffer, rows, lambda _, __: None) if len(rows) else ():
        assert columns.offset is not None
        assert columns.key_position is not None
        assert columns.key_length is not None
        raw: Any = source
        data = np.frombuffer(raw, np.uint8)
        for i in np.flatnonzero(columns.key_length[: columns.rows] >= 4).tolist():
            key, epoch = int(columns.key_position[i]), b"\xff"
            if columns.value_position is not None and columns.value_length is not None and columns.value_length[i] >= 6:
                value = int(columns.value_position[i])
                epoch = data[value + 2 : value + 6].tobytes()
            kind = int.from_bytes(data[key + 2 : key + 4].tobytes(), "big")
            timestamp = NO_TIMESTAMP if columns.timestamp is None else int(columns.timestamp[i])
            found.setdefault(int(columns.offset[i]), Marker(kind, timestamp, int.from_bytes(epoch, "big", signed=True)))
    return found


class Producers:
    """The producers of a partition. entries: by producer id; those with a txn_first_offset have a transaction open."""

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self.entries = {e.producer_id: e for e in entries}
        self._open = {e.producer_id: e.txn_first_offset for e in self.entries.values() if e.txn_first_offset >= 0}
        self._oldest = [(first, producer_id) for producer_id, first in self._open.items()]
        """A heap of the open transactions. It may also contain some that have ended."""
        heapify(self._oldest)
        self._before: dict[int, tuple[ProducerEntry | None, int | None]] | None = None

    def copy(self) -> Producers:
        """Return other producers that know the same."""
        return Producers(self.entries.values())

    def mark(self) -> None:
        """Remember this point, so that `take_back` can return to it."""
        self._before = {}

    def take_back(self) -> None:
        """Return to the point of the last `mark`. The cost is that of the producers that have changed since."""
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
        """The first offset of the oldest open transaction, None where none is open."""
        while self._oldest and self._open.get(self._oldest[0][1]) != self._oldest[0][0]:
            heappop(self._oldest)
        return self._oldest[0][0] if self._oldest else None

    def open_besides(self, known: Iterable[int]) -> tuple[int, ProducerEntry | None]:
        """Return how many producers other than these have a transaction open, and one of them."""
        ids = set(known)
        count = len(self._open) - sum(producer_id in self._open for producer_id in ids)
        found = next((producer_id for producer_id in self._open if producer_id not in ids), None) if count else None
        return count, None if found is None else self.entries[found]

    @property
    def open_producers(self) -> set[int]:
        """The ids of those that have a transaction open."""
        return set(self._open)

    @property
    def open_transactions(self) -> list[ProducerEntry]:
        """Those same producers, the oldest transaction first."""
        return [self.entries[i] for i in sorted(self._open, key=lambda i: self._open[i])]

    def forget(self, before: int) -> None:
        """Drop those whose last batch is older than a time (ms), and that have no transaction open."""
        self.entries = {i: e for i, e in self.entries.items() if e.timestamp >= before or i in self._open}

    def add(self, table: np.ndarray, markers: dict[int, Marker]) -> list[Aborted]:
        """Take in batches in the order of their offsets; the transactions that were aborted by them."""
        rows = table[table["producer_id"] != NO_PRODUCER_ID]
        if (
            len(rows) > 1 and not (rows["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)).any()
        ):  # then a producer's last batch tells all
            _, last = np.unique(rows["producer_id"][::-1], return_index=True)
            rows = rows[np.sort(len(rows) - 1 - last)]
        aborted = []
        names = (
            "producer_id",
            "producer_epoch",
            "base_offset",
            "last_offset_delta",
            "base_sequence",
            "max_timestamp",
            "attributes",
        )
        for producer_id, epoch, base, delta, sequence, timestamp, attributes in zip(
            *(rows[n].tolist() for n in names), strict=True
        ):
            if self._before is not None and producer_id not in self._before:
                self._before[producer_id] = self.entries.get(producer_id), self._open.get(producer_id)
            if attributes & CONTROL_BIT:
                marker = markers.get(base)
                if marker is not None and marker.kind in (CONTROL_ABORT, CONTROL_COMMIT):
                    aborted += self._end(producer_id, epoch, base, marker)
                continue
            before = self.entries.get(producer_id)
            first = self._open.get(producer_id, -1)
            if attributes & TRANSACTIONAL_BIT and first < 0:
                first = self._open[producer_id] = base
                heappush(self._oldest, (base, producer_id))
            coordinator = -1 if before is None else before.coordinator_epoch
            last_sequence = sequence_after(sequence, delta) if sequence >= 0 else -1
            self.entries[producer_id] = ProducerEntry(
                producer_id, epoch, last_sequence, base + delta, delta, timestamp, coordinator, first
            )
        return aborted

    def _end(self, producer_id: int, epoch: int, offset: int, marker: Marker) -> list[Aborted]:
        entry = self.entries.get(producer_id, ProducerEntry(producer_id, epoch))
        if entry.epoch != epoch:  # the batch of an older epoch is nothing to compare sequences with
            entry = ProducerEntry(producer_id, epoch)
        self.entries[producer_id] = entry._replace(
            timestamp=marker.timestamp, coordinator_epoch=marker.coordinator_epoch, txn_first_offset=-1
        )
        first = self._open.pop(producer_id, None)
        if first is None or marker.kind != CONTROL_ABORT:
            return []
        stable = self.first_unstable_offset
        return [Aborted(producer_id, first, offset, offset + 1 if stable is None else stable)]

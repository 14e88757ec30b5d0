"""Decide which transactional batches compaction removes, as Kafka's log cleaner does.

Kafka's counterparts are ``CleanedTransactionMetadata`` and ``Cleaner.cleanInto``.
"""

from __future__ import annotations

import numpy as np

from ...constants import CONTROL_BIT, DELETE_HORIZON_BIT, NO_PRODUCER_ID, TRANSACTIONAL_BIT
from ...types import BatchTable, IntArray, distinct, last_offsets
from ..transactions import Transactions


class LastBatches:
    """Finds each producer's last data batch, or else its last marker."""

    # Compaction never removes these batches, because the state of a producer is in its last batch.

    def __init__(self) -> None:
        self.data: dict[int, int] = {}  # last offset of the last data batch of each producer, by producer id
        self._markers: dict[int, int] = {}

    def add(self, table: BatchTable) -> None:
        rows = table[table["producer_id"] != NO_PRODUCER_ID]
        if not len(rows):
            return
        control = (rows["attributes"] & CONTROL_BIT) != 0
        for chosen, found in ((rows[~control], self.data), (rows[control], self._markers)):
            found.update(zip(chosen["producer_id"].tolist(), last_offsets(chosen).tolist(), strict=True))

    def kept(self, table: BatchTable) -> np.ndarray:
        """Return a mask of the batches in `table` that must not be removed."""
        keep = np.zeros(len(table), bool)
        lasts = last_offsets(table)
        for i in np.flatnonzero(table["producer_id"] != NO_PRODUCER_ID).tolist():
            producer_id, control = int(table["producer_id"][i]), bool(table["attributes"][i] & CONTROL_BIT)
            known = self.data.get(producer_id)
            if control and known is None:
                known = self._markers.get(producer_id)
            keep[i] = known == int(lasts[i]) and (not control or producer_id not in self.data)
        return keep


class TransactionTracker:
    """Finds aborted batches and removable transaction markers. Pass all batches in offset order."""

    # A marker can be removed if the log contains no batch of its transaction, and if its delete horizon has passed.
    # Kafka sets it when it removes the last batch of a transaction.

    def __init__(self, transactions: Transactions, now: int) -> None:
        self._aborted: dict[int, tuple[IntArray, IntArray]] = {
            producer_id: (np.array([s[0] for s in spans], np.int64), np.array([s[1] for s in spans], np.int64))
            for producer_id, spans in transactions.aborted.items()
            if spans
        }
        self._now = now
        self._with_data: set[int] = set()

    def aborted(self, table: BatchTable) -> np.ndarray:
        """Return a mask of the data batches that belong to an aborted transaction."""
        found = np.zeros(len(table), bool)
        inside = np.flatnonzero((table["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)) == TRANSACTIONAL_BIT)
        ids = table["producer_id"][inside]
        for producer_id in distinct(ids).tolist():
            if producer_id not in self._aborted:
                continue
            firsts, lasts = self._aborted[producer_id]
            rows = inside[ids == producer_id]
            base = table["base_offset"][rows]
            at = np.searchsorted(firsts, base, "right") - 1
            found[rows] = (at >= 0) & (base <= lasts[at])
        return found

    def removable_markers(self, table: BatchTable) -> np.ndarray:
        """Return a mask of the control batches that can be removed. Call this method once for each table."""
        found = np.zeros(len(table), bool)
        for i in np.flatnonzero((table["attributes"] & TRANSACTIONAL_BIT) != 0).tolist():
            producer_id, attributes = int(table["producer_id"][i]), int(table["attributes"][i])
            if not attributes & CONTROL_BIT:
                self._with_data.add(producer_id)
            elif producer_id in self._with_data:
                self._with_data.discard(producer_id)
            else:
                horizon = int(table["base_timestamp"][i]) if attributes & DELETE_HORIZON_BIT else None
                found[i] = horizon is not None and horizon <= self._now
        return found

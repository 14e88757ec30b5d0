"""Omit the batches of aborted transactions from a stream of batches.

A fetch response lists the aborted transactions. The rules are those of Kafka's consumer
(``CompletedFetch``). A listed transaction begins when a batch of the stream reaches the first
offset of the transaction. The transaction ends with the next abort marker of the same producer.
Between these two points, the transactional batches of the producer are omitted. The last stable
offset is not considered, because a broker returns no records at or above the last stable offset to
a read_committed consumer.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..constants import (
    CONTROL_ABORT,
    CONTROL_BIT,
    DEFAULT_MAX_BATCH_BYTES,
    MIN_OFFSET,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
)
from ..types import BatchTable, Buffer, last_offsets
from .control import marker_type
from .reader import RecordReader


class AbortedTransactions:
    """Omits the batches of aborted transactions from a stream. Kafka's counterpart is ``CompletedFetch``."""

    # `aborted` has pairs of producer id and first offset. `max_batch_bytes` limits control batches.

    def __init__(self, aborted: Iterable[tuple[int, int]], max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self._waiting = sorted(((int(first), int(producer_id)) for producer_id, first in aborted), reverse=True)
        self._producers = np.array(sorted({producer_id for _, producer_id in self._waiting}), np.int64)
        self._open: set[int] = set()
        self._reached = MIN_OFFSET
        self._reader = RecordReader(("key",), max_batch_bytes=max_batch_bytes)

    def committed(self, buffer: Buffer, table: BatchTable) -> BatchTable:
        """Return `table`, if possible itself, without the batches of aborted transactions. Control batches are kept."""
        # Call `committed` once for each table of consecutive batches, in the order of the log.
        if not len(table) or not (self._waiting or self._open):
            return table
        last_offset = last_offsets(table)
        last_offset[table["producer_id"] == NO_PRODUCER_ID] = MIN_OFFSET
        reached = np.maximum.accumulate(np.maximum(last_offset, self._reached))
        self._reached = int(reached[-1])
        keep = np.ones(len(table), bool)
        concerned = np.isin(table["producer_id"], self._producers) & (
            (table["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0
        )
        for i in np.flatnonzero(concerned).tolist():
            row = table[i]
            while self._waiting and self._waiting[-1][0] <= reached[i]:
                self._open.add(self._waiting.pop()[1])
            producer_id, attributes = int(row["producer_id"]), int(row["attributes"])
            if attributes & CONTROL_BIT and marker_type(self._reader, buffer, table[i : i + 1]) == CONTROL_ABORT:
                self._open.discard(producer_id)
            elif attributes & TRANSACTIONAL_BIT and producer_id in self._open:
                keep[i] = False
        return table if keep.all() else table.compress(keep)

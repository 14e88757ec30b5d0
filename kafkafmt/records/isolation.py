"""read_committed over a stream of batches, given the aborted transactions as a fetch response names them.

Exactly the consumer's rule (Kafka: CompletedFetch). A transaction of the list begins for its producer once a batch
reaches its first offset, and ends with the producer's next abort marker; the producer's transactional batches between
are left out. What lies above the last stable offset no broker returns to such a fetch, so it is not looked for here.
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
from ..types import Buffer, last_offsets
from .control import marker_type
from .reader import RecordReader


class AbortedTransactions:
    """The aborted transactions of a stream, (producer id, first offset) each; `committed` is called with table after table."""

    def __init__(self, aborted: Iterable[tuple[int, int]], max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self._waiting = sorted(((int(first), int(producer_id)) for producer_id, first in aborted), reverse=True)
        self._producers = np.array(sorted({producer_id for _, producer_id in self._waiting}), np.int64)
        self._open: set[int] = set()
        self._reached = MIN_OFFSET
        self._reader = RecordReader(("key",), max_batch_bytes=max_batch_bytes)

    def committed(self, buffer: Buffer, table: np.ndarray) -> np.ndarray:
        """The table without the batches of aborted transactions; control batches stay. Tables come in the stream's order."""
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
        return table if keep.all() else table[keep]

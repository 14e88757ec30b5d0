"""Append records of several producers to a partition, with and without transactions."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from kafkafmt import LogWriter
from kafkafmt.typing import Codec

CODECS: tuple[Codec, ...] = ("none", "none", "gzip", "zstd", "lz4", "snappy")
"""The codecs of random batches. A third of the batches is uncompressed."""


class RandomProducers:
    """Producers that append to one partition.

    Attributes
    ----------
    open : set of int
        The producers that have an open transaction.
    """

    def __init__(self, writer: LogWriter) -> None:
        self.open: set[int] = set()
        self._writer = writer
        self._sequences: dict[int, int] = {}

    def append(self, producer: int, action: float, records: Sequence[Any], codec: Codec) -> None:
        """Append a batch. `action` is a number from 0 to 1 that decides how.

        Below 0.4, the batch has no producer id. Below 0.7, it belongs to a transaction. Otherwise, it
        is only idempotent. A producer with an open transaction always continues the transaction.
        """
        if action < 0.4 and producer not in self.open:
            self._writer.append(records, codec=codec)
            return
        transactional = producer in self.open or action < 0.7
        self._writer.append(
            records,
            codec=codec,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self._sequences.get(producer, 0),
            transactional=transactional,
        )
        self._sequences[producer] = self._sequences.get(producer, 0) + len(records)
        if transactional:
            self.open.add(producer)

    def end(self, producer: int, chance: Random) -> None:
        """Commit or abort a transaction."""
        self._writer.end_transaction(producer, 0, commit=chance.random() < 0.5)
        self.open.discard(producer)

    def end_all(self, chance: Random) -> None:
        """Commit or abort each open transaction."""
        for producer in sorted(self.open):
            self.end(producer, chance)

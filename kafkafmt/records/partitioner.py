"""Which partition a key belongs to, as Kafka's default partitioner has it: murmur2 of the key, modulo the partitions.

Null keys have none of their own. Kafka's producers spread them: in turn up to 2.3, since then to one partition until a
batch is full, and by the brokers' load. Here they go in turn, which the same input always repeats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._backend import core
from ..arguments import integer
from ..types import Buffer, LengthArray
from .binary_columns import binary_column

_POSITIVE = 0x7FFFFFFF


class Partitioner:
    """Gives keys of a topic their partitions. Null keys get partition after partition, from `first` on."""

    def __init__(self, partitions: int, first: int = 0) -> None:
        self.partitions: int = integer("partitions", partitions)
        if not 1 <= self.partitions <= _POSITIVE:
            raise ValueError(f"a topic cannot have {partitions} partitions")
        self._next = integer("first", first) % self.partitions

    def __repr__(self) -> str:
        return f"kafkafmt.Partitioner({self.partitions}, first={self._next})"

    def partition(self, key: Buffer | None) -> int:
        """The partition of one key."""
        if key is None:
            given = self._next
            self._next = (given + 1) % self.partitions
            return given
        hashed: int = core.murmur2(key)
        return (hashed & _POSITIVE) % self.partitions

    def column(self, keys: Any) -> LengthArray:
        """The partitions of many keys, as int32; `keys` is whatever `columns_of` takes for them."""
        spans = binary_column(keys)
        hashes: LengthArray = np.empty(len(spans.lengths), np.int32)
        core.murmur2_spans(*spans, len(hashes), hashes)
        hashes &= _POSITIVE
        hashes %= self.partitions
        nulls = np.flatnonzero(spans.lengths < 0)
        hashes[nulls] = (self._next + np.arange(len(nulls))) % self.partitions
        self._next = (self._next + len(nulls)) % self.partitions
        return hashes

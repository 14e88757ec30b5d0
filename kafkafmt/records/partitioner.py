"""Compute the partition of a key with the algorithm of Kafka's default partitioner."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._backend import core
from ..support.arguments import integer
from ..types import Buffer, LengthArray
from .binary_columns import binary_column

_POSITIVE = 0x7FFFFFFF


class Partitioner:
    """Assigns keys of a topic to partitions as Kafka's default partitioner does.

    The partition of a key is the murmur2 hash of the key, without its sign bit, modulo the number
    of partitions. Null keys are assigned to the partitions in turn.

    Parameters
    ----------
    partitions : int
        Number of partitions of the topic, 1 to ``2**31 - 1``.
    first : int, default 0
        Partition of the first null key, modulo `partitions`.

    Attributes
    ----------
    partitions : int
        Number of partitions of the topic.

    Raises
    ------
    TypeError, ValueError
        An argument is not an integer, or `partitions` is out of range.

    Notes
    -----
    Kafka's counterparts are ``BuiltInPartitioner.partitionForKey`` and ``Utils.murmur2``. The same
    arguments and the same sequence of keys always result in the same partitions.

    Up to version 2.3, Kafka's producers also assigned null keys to the partitions in turn. Since
    version 2.4 (KIP-480), they assign null keys to one partition until a batch is full. Since
    version 3.3 (KIP-794), they also consider the load of the brokers.

    Examples
    --------
    >>> partitioner = kafkafmt.records.Partitioner(12)
    >>> partitioner.partition(b"key")
    1
    >>> partitioner.column([b"key", None, None]).tolist()
    [1, 0, 1]
    """

    def __init__(self, partitions: int, first: int = 0) -> None:
        self.partitions: int = integer("partitions", partitions)
        if not 1 <= self.partitions <= _POSITIVE:
            raise ValueError(f"partitions is {partitions}; it must be between 1 and {_POSITIVE}")
        self._next = integer("first", first) % self.partitions

    def __repr__(self) -> str:
        return f"kafkafmt.records.Partitioner({self.partitions}, first={self._next})"

    def partition(self, key: Buffer | None) -> int:
        """Return the partition of one key.

        Parameters
        ----------
        key : bytes-like or None
            The serialized key. None is assigned to the next partition in turn.

        Returns
        -------
        int
            The partition, 0 to `partitions` - 1.
        """
        if key is None:
            partition = self._next
            self._next = (partition + 1) % self.partitions
            return partition
        hashed: int = core.murmur2(key)
        return (hashed & _POSITIVE) % self.partitions

    def column(self, keys: Any) -> LengthArray:
        """Return the partition of each key in a column.

        Parameters
        ----------
        keys : column
            Serialized keys, in any form that `columns_of` accepts. Null keys are assigned to the
            partitions in turn.

        Returns
        -------
        numpy.ndarray of int32
            The partition of each key.

        Raises
        ------
        TypeError, ValueError
            `keys` is not a column of bytes-like objects and nulls.
        """
        spans = binary_column(keys)
        hashes: LengthArray = np.empty(len(spans.lengths), np.int32)
        core.murmur2_spans(*spans, len(hashes), hashes)
        hashes &= _POSITIVE
        hashes %= self.partitions
        nulls = np.flatnonzero(spans.lengths < 0)
        hashes[nulls] = (self._next + np.arange(len(nulls))) % self.partitions
        self._next = (self._next + len(nulls)) % self.partitions
        return hashes

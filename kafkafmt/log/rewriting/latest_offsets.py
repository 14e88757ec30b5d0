"""Store the latest offset of each key of a log, with a fixed amount of memory per key.

Kafka's counterpart is ``SkimpyOffsetMap``, which stores the MD5 hash of each key. `LatestOffsets`
stores a BLAKE2b hash of 128 bits. If two keys had the same hash, the older record would be lost. For
a billion keys, the probability of equal hashes is about 1e-21.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from ...types import IntArray, Spans, byte_view

HASH_BYTES = 16
MERGED_KEYS = 1 << 18  # when at least this many keys have been added, they are merged into the sorted array of keys


class LatestOffsets:
    """Finds the latest offset of each key. A key takes 24 bytes of memory, and about 60 during a merge."""

    def __init__(self) -> None:
        self._keys: np.ndarray = np.zeros(0, f"S{HASH_BYTES}")
        self._offsets: IntArray = np.zeros(0, np.int64)
        self._hashes: list[bytes] = []
        self._added: list[IntArray] = []
        self._count = 0

    def add(self, keys: Spans, offsets: IntArray) -> None:
        """Add the keys of records, in offset order. No key may be null."""
        view = byte_view(keys.buffer)
        ends = keys.positions + keys.lengths
        self._hashes.append(
            b"".join(
                blake2b(view[start:end], digest_size=HASH_BYTES).digest()
                for start, end in zip(keys.positions.tolist(), ends.tolist(), strict=True)
            )
        )
        self._added.append(offsets.copy())
        self._count += len(offsets)
        if self._count >= max(MERGED_KEYS, len(self._keys) // 2):
            self._merge()

    def _merge(self) -> None:
        if not self._count:
            return
        keys = np.frombuffer(b"".join(self._hashes), self._keys.dtype)
        offsets = np.concatenate(self._added)
        self._hashes, self._added, self._count = [], [], 0
        order = np.argsort(keys, kind="stable")
        keys, offsets = keys[order], offsets[order]
        latest = np.concatenate((keys[1:] != keys[:-1], [True]))
        keys, offsets = keys[latest], offsets[latest]
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        self._offsets[at[known]] = offsets[known]
        self._keys = np.insert(self._keys, at[~known], keys[~known])
        self._offsets = np.insert(self._offsets, at[~known], offsets[~known])

    def take(self) -> IntArray:
        """Return the latest offsets of all keys, in ascending order, and free the memory of the keys."""
        self._merge()
        self._keys = self._keys[:0].copy()
        offsets, self._offsets = self._offsets, self._offsets[:0].copy()
        offsets.sort()
        return offsets

"""Count the distinct keys of many records, and find the most frequent keys, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest
from typing import Any

from .stats_report import KeyCount, Keys

MOST_KEYS = 1 << 17  # largest number of distinct keys that are counted exactly
MOST_KEY_BYTES = 32 << 20  # largest total size of distinct keys that are counted exactly, in bytes
HLL_BITS = 14  # Base-2 logarithm of the number of HyperLogLog registers. The relative standard error is about 0.8 %.
FREQUENT_BITS = 14  # base-2 logarithm of the capacity of the sketch that finds frequent keys


class KeyCounter:
    """Counts distinct keys, exactly if there are few keys, and approximately if there are many."""

    # If the package datasketches is missing and there are too many keys for an exact count, the keys are not counted.

    def __init__(self) -> None:
        self._exact: Counter[bytes] | None = Counter()
        self._bytes = 0
        self._sketches: _Sketches | None = None

    def add(self, keys: Sequence[Any], size: int) -> None:
        """Count the keys of records, which have `size` bytes in total. `keys` must not contain null keys."""
        if self._exact is None:
            if self._sketches is not None:
                self._sketches.add(Counter(keys))
            return
        before = len(self._exact)
        self._exact.update(keys)
        new = len(self._exact) - before
        self._bytes += new * (size // max(len(keys), 1))
        self._limit()

    def merge(self, other: KeyCounter) -> None:
        """Add the counts of another counter. `other` must not be used afterwards."""
        if other._exact is not None:
            if self._exact is None:
                if self._sketches is not None:
                    self._sketches.add(other._exact)
                return
            self._exact.update(other._exact)
            self._bytes += other._bytes
            self._limit()
            return
        self._to_sketches()
        if other._sketches is None:
            self._sketches = None
        elif self._sketches is not None:
            self._sketches.merge(other._sketches)

    def _limit(self) -> None:
        assert self._exact is not None
        if len(self._exact) > MOST_KEYS or self._bytes > MOST_KEY_BYTES:
            self._to_sketches()

    def _to_sketches(self) -> None:
        if self._exact is None:
            return
        exact, self._exact = self._exact, None
        try:
            self._sketches = _Sketches()
        except ModuleNotFoundError:
            return
        self._sketches.add(exact)

    def result(self, top: int) -> Keys | None:
        """Return the number of distinct keys and the `top` most frequent keys, or None if the keys were not counted."""
        if self._exact is not None:
            # Sort keys with the same count, so that the result does not depend on the order of the records.
            # nsmallest() keeps a heap of `top` keys. Sorting all keys would take several times as long.
            most = nsmallest(top, self._exact.items(), key=lambda item: (-item[1], item[0]))
            return Keys(len(self._exact), True, tuple(KeyCount(key, n) for key, n in most))
        return None if self._sketches is None else self._sketches.result(top)


class _Sketches:
    """A HyperLogLog sketch of all keys, and a sketch of the most frequent keys."""

    # `frequent_strings_sketch` accepts only str values. Decoding as Latin-1 maps each byte to one character.

    def __init__(self) -> None:
        import datasketches

        self._package: Any = datasketches
        self._distinct: Any = datasketches.hll_sketch(HLL_BITS, datasketches.tgt_hll_type.HLL_8)
        self._frequent: Any = datasketches.frequent_strings_sketch(FREQUENT_BITS)

    def add(self, counts: Counter[bytes]) -> None:
        distinct, frequent = self._distinct.update, self._frequent.update
        for key, n in counts.items():
            text = key.decode("latin-1")
            distinct(text)
            frequent(text, n)

    def merge(self, other: _Sketches) -> None:
        union = self._package.hll_union(HLL_BITS)
        union.update(self._distinct)
        union.update(other._distinct)
        self._distinct = union.get_result(self._package.tgt_hll_type.HLL_8)
        self._frequent.merge(other._frequent)

    def result(self, top: int) -> Keys:
        found = self._frequent.get_frequent_items(self._package.frequent_items_error_type.NO_FALSE_POSITIVES)
        most = sorted(((text, int(low)) for text, _, low, _ in found), key=lambda item: (-item[1], item[0]))[:top]
        counts = tuple(KeyCount(text.encode("latin-1"), n) for text, n in most)
        return Keys(round(self._distinct.get_estimate()), False, counts)

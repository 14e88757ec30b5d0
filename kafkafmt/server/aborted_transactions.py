"""Look up the aborted transactions in a range of offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from ..log.formats import Aborted as IndexEntry
from ..log.transactions import Transactions


class AbortedTransaction(NamedTuple):
    last: int
    first: int
    producer_id: int
    has_marker: bool  # if False, the log has no abort marker for it


class AbortedTransactions:
    """The aborted transactions of a part of the log, ordered by last offset."""

    # Each Fetch request asks for a small range of offsets, so `overlapping` does not check every
    # transaction.

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._build()

    def _build(self) -> None:
        doubts = self._transactions.doubts
        self._doubted = set(zip(doubts.producer_id.tolist(), doubts.first.tolist(), strict=True))
        self._unmarked = _Unmarked(self._transactions.unmarked)
        self._counts: dict[int, int] = {}
        """Maps a producer id to the number of its transactions that were added."""
        self._sorted: list[AbortedTransaction] = []
        self._lasts: list[int] = []
        self._lowest_firsts: list[int] = []
        """The lowest first offset of each transaction and of those after it."""
        self._append(self._take_new())

    def update(self) -> None:
        """Add the transactions that have ended since the last call."""
        if len(self._transactions.unmarked) != self._unmarked.count:
            self._build()
        elif new := self._take_new():
            if self._sorted and new[0] < self._sorted[-1]:
                self._build()
            else:
                self._append(new)

    def _take_new(self) -> list[AbortedTransaction]:
        new = []
        for producer, spans in self._transactions.aborted.items():
            for first, last in spans[self._counts.get(producer, 0) :]:
                has_marker = (producer, first) not in self._doubted and not self._unmarked.contain(producer, first)
                new.append(AbortedTransaction(last, first, producer, has_marker))
            self._counts[producer] = len(spans)
        return sorted(new)

    def _append(self, new: list[AbortedTransaction]) -> None:
        self._sorted += new
        self._lasts += [transaction.last for transaction in new]
        lowest, known = self._lowest_firsts, len(self._lowest_firsts)
        lowest += list(accumulate((transaction.first for transaction in reversed(new)), min))[::-1]
        if new:
            for i in reversed(range(known)):
                if lowest[i] <= lowest[known]:
                    break
                lowest[i] = lowest[known]

    def overlapping(self, start: int, end: int) -> list[AbortedTransaction]:
        return [transaction for transaction in self._candidates(start, end) if transaction.first < end]

    def _candidates(self, start: int, end: int) -> list[AbortedTransaction]:
        low = bisect_left(self._lasts, start)
        return self._sorted[low : bisect_left(self._lowest_firsts, end, low)]


class _Unmarked:
    """The transaction index entries whose abort markers are missing, by producer."""

    def __init__(self, entries: Sequence[IndexEntry]) -> None:
        self.count: int = len(entries)
        by_producer = defaultdict(list)
        for entry in entries:
            by_producer[entry.producer_id].append((entry.first, entry.last))
        self._firsts = {}
        self._highest_lasts = {}
        for producer, spans in by_producer.items():
            spans.sort()
            self._firsts[producer] = [first for first, _ in spans]
            self._highest_lasts[producer] = list(accumulate((last for _, last in spans), max))

    def contain(self, producer: int, offset: int) -> bool:
        """Return whether an entry of the producer contains `offset`."""
        at = bisect_right(self._firsts.get(producer, ()), offset) - 1
        return at >= 0 and self._highest_lasts[producer][at] >= offset

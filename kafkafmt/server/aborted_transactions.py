"""Look up the aborted transactions in a range of offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from ..log.format.producers import Aborted as IndexEntry
from ..log.reading.transactions import Transactions


class AbortedTransaction(NamedTuple):
    """An aborted transaction.

    Attributes
    ----------
    last, first : int
        Last and first offset of its records.
    producer_id : int
        Id of its producer.
    has_marker : bool
        Whether the log contains its abort marker.
    """

    last: int
    first: int
    producer_id: int
    has_marker: bool


class AbortedTransactions:
    """The aborted transactions of a part of the log, ordered by last offset.

    Each Fetch request asks for a small range of offsets, so `overlapping` does not check every transaction.

    Parameters
    ----------
    transactions : Transactions
        The outcomes. Later changes of this object have no effect.
    """

    def __init__(self, transactions: Transactions) -> None:
        doubted = {(doubt.producer_id, doubt.first_offset) for doubt in transactions.doubts}
        unmarked = _Unmarked(transactions.unmarked)
        self._sorted = sorted(
            AbortedTransaction(
                last, first, producer, (producer, first) not in doubted and not unmarked.contain(producer, first)
            )
            for producer, spans in transactions.aborted.items()
            for first, last in spans
        )
        self._lasts = [transaction.last for transaction in self._sorted]
        firsts = [transaction.first for transaction in self._sorted]
        self._lowest_firsts = list(accumulate(reversed(firsts), min))[::-1]
        """The lowest first offset of each transaction and of those after it."""

    def overlapping(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the transactions that have records in [start, end)."""
        return [transaction for transaction in self._candidates(start, end) if transaction.first < end]

    def _candidates(self, start: int, end: int) -> list[AbortedTransaction]:
        low = bisect_left(self._lasts, start)
        return self._sorted[low : bisect_left(self._lowest_firsts, end, low)]


class _Unmarked:
    """The transaction index entries whose abort markers are missing, by producer."""

    def __init__(self, entries: Iterable[IndexEntry]) -> None:
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

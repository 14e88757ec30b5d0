"""Determine the last stable offset and the aborted transactions of a growing log."""

from __future__ import annotations

from typing import NamedTuple

from ..constants import NO_END
from ..log import PartitionLog
from ..log.transactions import Transactions, TransactionWalk, settle_hidden
from ..types import BatchTable, Buffer
from .aborted_transactions import AbortedTransactions


class Aborted(NamedTuple):
    # `listed` has the producer id and first offset of those with a marker, ordered by offset: a
    # client omits their records. `unmarked` has the producer id, first and last offset of those
    # whose marker is damaged or missing. A client would not find their end, so the server omits
    # their batches.

    listed: list[tuple[int, int]]
    unmarked: list[tuple[int, int, int]]


class TransactionState:
    """Finds out which transactions of one partition are aborted, and which are open."""

    # Aborted transactions before the first open one are read on demand, one segment at a time.
    # Batches from the first open transaction to the end of the log are processed in offset order.
    # If `whole` is True, the log is read from its start, and offsets from `end` on are ignored.
    # Otherwise, the log must end at `end`.

    def __init__(self, log: PartitionLog, end: int, whole: bool = False) -> None:
        self._log = log
        self._decided = 0 if whole else min(log.open_transactions.last_stable_offset, end)
        """Offset before which every transaction is committed or aborted, according to `_log`."""
        self._walk = TransactionWalk(log)
        self._known: dict[int, _Outcomes] = {}
        """Maps the base offset of a segment to the outcomes of its transactions before `_decided`."""
        for part in log.parts(self._decided, end, self._walk) if self._decided < end else ():
            table = part.table[(part.table["base_offset"] >= self._decided) & (part.table["base_offset"] < end)]
            self._walk.add(part.buffer, table, part.plan.segment.name)
        settle_hidden(self._walk)
        self._recent = _Outcomes.of(self._walk.found)
        """The outcomes of the transactions from `_decided` on."""

    def add(self, buffer: Buffer, table: BatchTable, file: str) -> None:
        self._walk.add(buffer, table, file)
        self._recent.aborted.update()

    def last_stable_offset(self, end: int) -> int:
        """Return the first offset of the oldest open transaction, or `end` if no transaction is open."""
        return min([end, *self._walk.found.open.values()])

    def knows(self, start: int, end: int) -> bool:
        """Return True if the method `aborted` can process the offsets [start, end) without reading files."""
        stop = min(end, self._decided)
        return start >= stop or all(
            (segment.base_offset or 0) in self._known for segment in self._log.segments_in(start, stop)
        )

    def aborted(self, start: int, end: int) -> Aborted:
        firsts: dict[tuple[int, int], int] = {}
        unmarked: set[tuple[int, int, int]] = set()
        for outcomes in self._outcomes(start, end):
            for last, first, producer, has_marker in outcomes.aborted.overlapping(start, end):
                if has_marker:
                    # Several segments can report the same transaction, so keep the smallest first offset.
                    firsts[producer, last] = min(first, firsts.get((producer, last), first))
                else:
                    unmarked.add((producer, first, last))
        listed = sorted((first, producer) for (producer, _), first in firsts.items())
        return Aborted([(producer, first) for first, producer in listed], sorted(unmarked))

    def committed(self, table: BatchTable) -> BatchTable:
        """Return the rows of `table` whose batches do not belong to aborted or open transactions."""
        if not len(table):
            return table
        start, end = int(table["base_offset"][0]), int(table["base_offset"][-1]) + 1
        for outcomes in self._outcomes(start, end):
            table = outcomes.transactions.committed(table)
        return table

    def _outcomes(self, start: int, end: int) -> list[_Outcomes]:
        """Return the outcomes of the transactions that may have records in [start, end)."""
        found = [self._recent]
        stop = min(end, self._decided)
        if start < stop:
            for segment in self._log.segments_in(start, stop):
                first = segment.base_offset or 0
                if first not in self._known:
                    last = min(segment.next_base if segment.next_base is not None else NO_END, self._decided)
                    self._known[first] = _Outcomes.of(self._log.transactions_in(first, last))
                found.append(self._known[first])
        return found


class _Outcomes(NamedTuple):
    """The transactions of a part of the log, and a way to look up the aborted ones."""

    transactions: Transactions
    aborted: AbortedTransactions

    @classmethod
    def of(cls, transactions: Transactions) -> _Outcomes:
        return cls(transactions, AbortedTransactions(transactions))

"""Compare the records that kafkafmt and a broker deliver to a read_committed consumer.

A broker sends its consumers the entries of the transaction indexes. From the first offset of an
entry onwards, a consumer drops all transactional batches of the producer until it reads an abort
marker of that producer (Kafka: ``CompletedFetch``). kafkafmt uses only the markers in the log. The
results differ if an index is wrong, or if the marker that an index entry refers to is missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..._backend import core
from ...constants import CONTROL_ABORT
from ...types import BatchTable
from ..formats import Aborted, Marker
from ..transactions import Transactions


class Ended(NamedTuple):
    """The offset range of a completed transaction, and its marker. `first` is -1 if the log contains no batch of it."""

    first: int
    last: int
    kind: int
    marker: int


class Difference(NamedTuple):
    """Records of one producer that are delivered either by a broker or by kafkafmt, but not by both."""

    producer_id: int
    first: int
    last: int
    what: str


class IsolationAudit:
    """Compares the completed transactions of each producer with the transaction indexes."""

    # Call `add` for all batches, in offset order. Then call `differences`.

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, int]] = {}
        self._ended: list[tuple[int, int, int, int, int]] = []
        """The completed transactions: the producer id, and the fields of `Ended`."""

    def add(self, table: BatchTable, markers: dict[int, Marker]) -> list[tuple[int, int, int, int, int]]:
        """Add batches. Return the transactions that they complete, in the form of `core.end_transactions`."""
        ended = core.end_transactions(table, markers, self._open)
        self._ended += ended
        return ended

    def differences(self, ours: Transactions, entries: Iterable[Aborted]) -> Iterator[Difference]:
        """Yield offset ranges that only a broker or only kafkafmt returns to read_committed consumers."""
        by_producer: dict[int, list[Ended]] = defaultdict(list)
        for producer_id, *end in self._ended:
            by_producer[producer_id].append(Ended(*end))
        borders: dict[int, list[int]] = defaultdict(list)
        for unmarked in ours.unmarked:
            borders[unmarked.producer_id].append(unmarked.last)
        doubtful: dict[int, set[int]] = defaultdict(set)
        for producer_id, first in zip(ours.doubts.producer_id.tolist(), ours.doubts.first.tolist(), strict=True):
            doubtful[producer_id].add(first)
        named: dict[int, list[Aborted]] = defaultdict(list)
        for entry in sorted(entries, key=lambda e: e.first):
            named[entry.producer_id].append(entry)
        for producer_id, ended in by_producer.items():
            aborted = ours.aborted.get(producer_id, [])
            if named[producer_id] or aborted:
                parts = list(_split(ended, sorted(borders[producer_id])))
                yield from _of_producer(producer_id, parts, sorted(aborted), doubtful[producer_id], named[producer_id])


def _split(ended: list[Ended], borders: list[int]) -> Iterator[Ended]:
    """Yield the transactions in `ended`, split at missing abort markers, whose offsets are `borders`."""
    # If markers are missing, an item covers several transactions. Those up to the last missing marker are yielded as
    # one item, with -1 instead of a marker.
    for e in ended:
        at = bisect_left(borders, e.last) - 1
        if 0 <= e.first and at >= 0 and borders[at] > e.first:
            yield Ended(e.first, borders[at], -1, -1)
            yield Ended(borders[at] + 1, e.last, e.kind, e.marker)
        else:
            yield e


_IN_DOUBT = "kafkafmt omits them, because it is unknown how their transaction ended, but a broker delivers them"
_UNNAMED = "kafkafmt omits them as aborted, but no transaction index names them"


def _of_producer(
    producer_id: int, ended: list[Ended], aborted: list[tuple[int, int]], doubtful: set[int], named: list[Aborted]
) -> Iterator[Difference]:
    """Yield a producer's offset ranges that only a broker or only kafkafmt returns to read_committed consumers."""
    # kafkafmt omits the ranges in `aborted`: those that begin in `doubtful` because their outcome is unknown. `named`
    # are the producer's entries in the transaction indexes.
    firsts = [first for first, _ in aborted]
    at, until, filtered = 0, -1, False
    for e in ended:
        if e.first >= 0:
            dropped = e.first if filtered else e.last + 1  # the first offset that a consumer drops
            while at < len(named) and named[at].first <= e.last:
                filtered, until, dropped = True, max(until, named[at].last), min(dropped, named[at].first)
                at += 1
            i = bisect_right(firsts, e.last) - 1
            ours = e.marker < 0 or (i >= 0 and e.last <= aborted[i][1])
            # The first range in `aborted` that ends at or after `e.first`.
            own = bisect_right(firsts, e.first) - 1
            own += own < 0 or aborted[own][1] < e.first
            omitted = max(e.first, firsts[own]) if own < len(firsts) else e.last + 1
            # If no entry names an aborted transaction, StateAudit reports the missing entry.
            if omitted < dropped and omitted <= e.last and (dropped <= e.last or e.kind != CONTROL_ABORT):
                last = min(e.last, aborted[own][1], dropped - 1)
                yield Difference(producer_id, omitted, last, _IN_DOUBT if firsts[own] in doubtful else _UNNAMED)
            elif not ours and filtered and until >= e.first:
                yield Difference(
                    producer_id,
                    e.first,
                    e.last,
                    "kafkafmt delivers them, but a transaction index names them as aborted",
                )
            elif not ours and filtered:
                yield Difference(
                    producer_id, e.first, e.last,
                    "kafkafmt delivers them, but a Kafka consumer may drop them, because the marker of an earlier aborted "
                    "transaction of the same producer is missing",
                )  # fmt: skip
        # After a producer's abort marker, a consumer ignores earlier transaction index entries of this producer.
        if e.kind == CONTROL_ABORT:
            filtered, until = False, -1
            while at < len(named) and named[at].first <= e.marker:
                at += 1

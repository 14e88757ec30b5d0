"""Compare what kafkafmt delivers at read_committed with what a consumer gets from a broker on the same directory.

A broker sends its consumers the entries of the transaction indexes. From the first offset of an entry on, a
consumer drops the producer's transactional batches until it reads an abort marker of that producer (Kafka:
CompletedFetch). kafkafmt uses the markers only. The two differ if an index is wrong, or if a marker that it
names is missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ...constants import CONTROL_ABORT, CONTROL_BIT, CONTROL_COMMIT, TRANSACTIONAL_BIT
from ...types import BatchTable
from ..format.producers import Aborted, Marker
from ..reading.transactions import Transactions


class Ended(NamedTuple):
    """A transaction that has ended: the offsets of its batches, and its marker.

    first is -1 if the log has none of its batches.
    """

    first: int
    last: int
    kind: int
    marker: int


class Difference(NamedTuple):
    """Offsets of a producer that a broker's consumers get and kafkafmt omits, or the reverse."""

    producer_id: int
    first: int
    last: int
    what: str


class IsolationAudit:
    """Collects the ended transactions of each producer. Add every table of batches, in the order of offsets."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, int]] = {}
        self._ended: list[tuple[int, Ended]] = []
        self._before: dict[int, tuple[int, int] | None] = {}
        self._ended_before = 0

    def mark(self) -> None:
        """Remember this point, so that `take_back` can return to it."""
        self._before, self._ended_before = {}, len(self._ended)

    def take_back(self) -> None:
        """Return to the point of the last `mark`. The cost depends on what was added since then."""
        del self._ended[self._ended_before :]
        for producer_id, span in self._before.items():
            if span is None:
                self._open.pop(producer_id, None)
            else:
                self._open[producer_id] = span
        self._before = {}

    def add(self, table: BatchTable, markers: dict[int, Marker]) -> None:
        """Add batches. markers: those of the table's control batches, by offset."""
        rows = table[(table["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)) != 0]
        start = 0
        for i in [*np.flatnonzero((rows["attributes"] & CONTROL_BIT) != 0).tolist(), len(rows)]:
            self._add_data(rows[start:i])
            if i < len(rows):
                marker = markers.get(int(rows["base_offset"][i]))
                if marker is not None and marker.kind in (CONTROL_ABORT, CONTROL_COMMIT):
                    producer_id = int(rows["producer_id"][i])
                    self._before.setdefault(producer_id, self._open.get(producer_id))
                    first, last = self._open.pop(producer_id, (-1, -1))
                    self._ended.append((producer_id, Ended(first, last, marker.kind, int(rows["base_offset"][i]))))
            start = i + 1

    def _add_data(self, rows: BatchTable) -> None:
        if not len(rows):
            return
        ids, firsts = np.unique(rows["producer_id"], return_index=True)
        _, lasts = np.unique(rows["producer_id"][::-1], return_index=True)
        for producer_id, first, last in zip(
            ids.tolist(), firsts.tolist(), (len(rows) - 1 - lasts).tolist(), strict=True
        ):
            end = int(rows["base_offset"][last]) + max(int(rows["last_offset_delta"][last]), 0)
            span = self._open.get(producer_id)
            self._before.setdefault(producer_id, span)
            self._open[producer_id] = (int(rows["base_offset"][first]) if span is None else span[0]), end

    def differences(self, ours: Transactions, entries: Iterable[Aborted]) -> Iterator[Difference]:
        """Yield the differences, producer by producer. entries: those of all transaction indexes."""
        by_producer: dict[int, list[Ended]] = defaultdict(list)
        for producer_id, end in self._ended:
            by_producer[producer_id].append(end)
        borders: dict[int, list[int]] = defaultdict(list)
        for unmarked in ours.unmarked:
            borders[unmarked.producer_id].append(unmarked.last)
        named: dict[int, list[Aborted]] = defaultdict(list)
        for entry in sorted(entries, key=lambda e: e.first):
            named[entry.producer_id].append(entry)
        for producer_id, ended in by_producer.items():
            aborted = ours.aborted.get(producer_id, [])
            if named[producer_id] or aborted:
                parts = list(_split(ended, sorted(borders[producer_id])))
                yield from _of_producer(producer_id, parts, sorted(aborted), named[producer_id])


def _split(ended: list[Ended], borders: list[int]) -> Iterator[Ended]:
    """Split transactions at the offsets of markers that are missing."""
    for e in ended:
        at = bisect_right(borders, e.first)
        if 0 <= e.first and at < len(borders) and borders[at] < e.last:
            yield Ended(e.first, borders[at], -1, -1)
            yield Ended(borders[at] + 1, e.last, e.kind, e.marker)
        else:
            yield e


def _of_producer(
    producer_id: int, ended: list[Ended], aborted: list[tuple[int, int]], named: list[Aborted]
) -> Iterator[Difference]:
    """Yield the differences of one producer.

    ended: its transactions. aborted: the ranges that kafkafmt omits. named: its entries in the indexes.
    """
    firsts = [first for first, _ in aborted]
    at, until, filtered = 0, -1, False
    for e in ended:
        if e.first >= 0:
            while at < len(named) and named[at].first <= e.last:
                filtered, until = True, max(until, named[at].last)
                at += 1
            i = bisect_right(firsts, e.last) - 1
            ours = i >= 0 and e.last <= aborted[i][1]
            if ours and not filtered and e.kind != CONTROL_ABORT:
                yield Difference(
                    producer_id,
                    e.first,
                    e.last,
                    "kafkafmt omits them as aborted, but no transaction index names them",
                )
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
                    "kafkafmt delivers them, but a consumer may drop them, because it drops this producer's records after an "
                    "aborted transaction that has lost its marker",
                )  # fmt: skip
        if e.kind == CONTROL_ABORT:  # it ends all entries of the producer that started before it
            filtered, until = False, -1
            while at < len(named) and named[at].first <= e.marker:
                at += 1

"""Read the transaction indexes of a partition, which list aborted transactions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ...constants import MAX_OFFSET
from ...errors import StructureError
from ...types import BatchSummary, BatchTable, IntArray, last_offsets
from ..catalog import PartitionDir
from ..formats import TRANSACTION_ENTRY, Aborted, offsets_in, read_transaction_index
from ..storage import joined, list_directory, read_bytes


class IndexEntries:
    """Plausible entries of all transaction indexes of a partition, ordered by the offset of the abort marker."""

    # `next_markers` is the marker offset of a producer's first entry that `take` has not removed.

    def __init__(self, directory: PartitionDir) -> None:
        self.unreadable: set[str] = set()
        try:
            _, names = list_directory(directory.path)
        except FileNotFoundError:
            names = []
        found: list[tuple[int, bytes]] = []
        # The transaction indexes of segments whose `.log` file is missing are also read.
        for base, name in offsets_in(names, ".txnindex").items():
            if name in directory.ignored:
                continue
            try:
                data = read_bytes(joined(directory.path, name))
            except StructureError:
                self.unreadable.add(name)
                continue
            if data:
                found.append((base, data))
        columns = _plausible(found)
        columns = columns[:, np.argsort(columns[2], kind="stable")]
        self.producer_id: IntArray = columns[0]
        self.first: IntArray = columns[1]
        self.last: IntArray = columns[2]
        self.stable: IntArray = columns[3]
        self._lasts: list[int] = self.last.tolist()
        self._covered = np.zeros(len(self), bool)
        self._rows: dict[int, list[int]] = defaultdict(list)
        """Maps a producer id to the indexes of its entries, in order."""
        self._taken: dict[int, int] = defaultdict(int)
        """Maps a producer id to the number of its entries that `take` has removed."""
        self.next_markers: dict[int, int] = {}
        for i, (producer_id, last) in enumerate(zip(self.producer_id.tolist(), self._lasts, strict=True)):
            self._rows[producer_id].append(i)
            self.next_markers.setdefault(producer_id, last)

    def __len__(self) -> int:
        return len(self.last)

    def at(self, rows: IntArray | slice) -> list[Aborted]:
        columns = (self.producer_id, self.first, self.last, self.stable)
        return list(map(Aborted, *(column[rows].tolist() for column in columns)))

    @property
    def all(self) -> list[Aborted]:
        return self.at(slice(None))

    def cover(self, table: BatchTable, found: BatchSummary) -> None:
        """Mark index entries with a marker offset in a batch of `table`: this marker is not lost."""
        if not self._lasts or not len(table):
            return
        low = bisect_left(self._lasts, found.first)
        high = bisect_right(self._lasts, found.last)
        if low < high and not found.dense:
            lasts, entries = last_offsets(table), self.last[low:high]
            at = np.searchsorted(table["base_offset"], entries, "right") - 1
            self._covered[low:high] |= (at >= 0) & (lasts[at] >= entries)
        else:
            self._covered[low:high] = True

    def row_of(self, producer_id: int, first: int) -> int:
        """Return the index of the entry that lists the producer's transaction with a record at `first`, or -1."""
        rows = self._rows.get(producer_id, [])
        at = bisect_left(rows, first, key=self._lasts.__getitem__)
        return rows[at] if at < len(rows) and self.first[rows[at]] <= first else -1

    def lost(self, rows: list[int]) -> list[Aborted]:
        """Return those of the entries with the given indexes whose marker is missing. Ignore duplicates and -1."""
        missing = [i for i in dict.fromkeys(rows) if i >= 0 and not self._covered[i]]
        return self.at(np.array(missing, np.int64)) if missing else []

    def take(self, producer_id: int, before: int) -> Iterator[Aborted]:
        """Remove a producer's index entries with marker offsets below `before`. Yield those whose marker is missing."""
        rows = self._rows[producer_id]
        start = stop = self._taken[producer_id]
        while stop < len(rows) and self._lasts[rows[stop]] < before:
            stop += 1
        self._taken[producer_id] = stop
        if stop < len(rows):
            self.next_markers[producer_id] = self._lasts[rows[stop]]
        else:
            self.next_markers.pop(producer_id, None)
        yield from self.lost(rows[start:stop])


def _plausible(indexes: list[tuple[int, bytes]]) -> IntArray:
    """Return the fields of the plausible entries as an array of shape (4, n). All files are checked together."""
    size = TRANSACTION_ENTRY.itemsize
    base = np.repeat(
        np.array([base for base, _ in indexes], np.int64),
        np.array([len(data) // size for _, data in indexes], np.int64),
    )
    entries = read_transaction_index(b"".join(data[: len(data) // size * size] for _, data in indexes))
    first, last = entries["first"], entries["last"].astype(np.int64)
    plausible = (entries["version"] == 0) & (entries["producer_id"] >= 0) & (first >= 0)
    plausible &= (first < last) & (last < MAX_OFFSET) & (last >= base)
    columns = np.array([entries[name][plausible] for name in ("producer_id", "first", "last", "stable")], np.int64)
    columns[3] = np.minimum(columns[3], columns[2] + 1)  # a higher last stable offset is corrupted
    return columns

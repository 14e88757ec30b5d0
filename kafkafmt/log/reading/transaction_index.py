"""Read the transaction indexes of a partition, which list aborted transactions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ...constants import CONTROL_ABORT, CONTROL_BIT, MAX_OFFSET
from ...errors import StructureError
from ...types import BatchSummary, BatchTable, IntArray, last_offsets
from ..format.file_view import read_bytes
from ..format.files import joined, list_directory
from ..format.index_entries import TRANSACTION_ENTRY, read_transaction_index
from ..format.names import offsets_in
from ..format.packed import bases_in
from ..format.producers import Aborted, Marker
from .partition_dir import PartitionDir


class IndexEntries:
    """Entries of all transaction indexes of a partition, ordered by the offset of the abort marker.

    Implausible entries are omitted.

    Attributes
    ----------
    producer_id, first, last, stable : array of int64
        The fields of `Aborted` for each entry.
    contradicted : bool
        Whether a batch that was passed to `cover` is at the marker offset of an entry, but is no abort marker.
    next_markers : dict of int to int
        Maps a producer id to the marker offset of its first entry that `take` has not removed.
    unreadable : set of str
        Names of transaction index files that cannot be read.
    corrupted : set of str
        Names of transaction index files with a corrupted or incomplete entry. These files may lack
        other entries too.
    """

    def __init__(self, directory: PartitionDir) -> None:
        self.unreadable: set[str] = set()
        try:
            _, names = list_directory(directory.path)
        except FileNotFoundError:
            names = []
        found: list[tuple[str, int, bytes]] = []
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
                found.append((name, base, data))
        columns, corrupted = _plausible(found, sorted(base for base, _ in bases_in(names)))
        self.corrupted: set[str] = {found[i][0] for i in corrupted}
        columns = columns[:, np.argsort(columns[2], kind="stable")]
        self.producer_id: IntArray = columns[0]
        self.first: IntArray = columns[1]
        self.last: IntArray = columns[2]
        self.stable: IntArray = columns[3]
        self._lasts: list[int] = self.last.tolist()
        self._covered = np.zeros(len(self), bool)
        self.contradicted: bool = False
        self._waiting: dict[int, deque[int]] = defaultdict(deque)
        """Maps a producer id to the indexes of its entries, in order. `take` removes them."""
        self.next_markers: dict[int, int] = {}
        for i, (producer_id, last) in enumerate(zip(self.producer_id.tolist(), self._lasts, strict=True)):
            self._waiting[producer_id].append(i)
            self.next_markers.setdefault(producer_id, last)

    def __len__(self) -> int:
        return len(self.last)

    def at(self, rows: IntArray | slice) -> list[Aborted]:
        """Return the entries with the given indexes."""
        columns = (self.producer_id, self.first, self.last, self.stable)
        return list(map(Aborted, *(column[rows].tolist() for column in columns)))

    @property
    def all(self) -> list[Aborted]:
        """All entries. Each access creates a new list."""
        return self.at(slice(None))

    def cover(self, table: BatchTable, found: BatchSummary, markers: Mapping[int, Marker]) -> None:
        """Mark all index entries whose marker offset is within the offset range of a batch in `table`.

        `take` does not yield marked entries. `found` is a summary of the table, and `markers` maps the offset
        of each control batch to its marker.
        """
        if not self._lasts or not len(table):
            return
        low = bisect_left(self._lasts, found.first)
        high = bisect_right(self._lasts, found.last)
        if low == high:
            return
        rows: Iterable[int] = range(low, high)
        if found.dense or all(last in markers for last in self._lasts[low:high]):
            self._covered[low:high] = True
        else:
            lasts, entries = last_offsets(table), np.array(self._lasts[low:high], np.int64)
            at = np.searchsorted(table["base_offset"], entries, "right") - 1
            covered = (at >= 0) & (lasts[at] >= entries)
            self._covered[low:high] |= covered
            rows = (np.flatnonzero(covered) + low).tolist()
        for i in rows:
            if self.contradicted:
                break
            marker = markers.get(self._lasts[i])
            if marker is None or marker.kind != CONTROL_ABORT:
                self.contradicted = marker is not None or not _is_control(table, self._lasts[i])

    def take(self, producer_id: int, before: int) -> Iterator[Aborted]:
        """Remove a producer's index entries with marker offsets below `before`. Yield those whose marker is missing.

        An index entry is yielded only if no batch that was passed to `cover` contains the entry's
        marker offset.
        """
        waiting = self._waiting[producer_id]
        while waiting and self._lasts[waiting[0]] < before:
            i = waiting.popleft()
            if not self._covered[i]:
                yield Aborted(self.producer_id.item(i), self.first.item(i), self._lasts[i], self.stable.item(i))
        if waiting:
            self.next_markers[producer_id] = self._lasts[waiting[0]]
        else:
            del self._waiting[producer_id]
            self.next_markers.pop(producer_id, None)


def _is_control(table: BatchTable, offset: int) -> bool:
    """Return whether the batch that contains `offset` is a control batch. Compaction can remove its marker."""
    at = int(np.searchsorted(table["base_offset"], offset, "right")) - 1
    return bool(table["attributes"][at] & CONTROL_BIT)


def _plausible(indexes: list[tuple[str, int, bytes]], bases: list[int]) -> tuple[IntArray, list[int]]:
    """Find the plausible entries of transaction indexes, and the corrupted files. All files are checked together.

    Parameters
    ----------
    indexes : list of (str, int, bytes)
        Name, base offset and content of each transaction index.
    bases : list of int
        The sorted base offsets of the segments.

    Returns
    -------
    columns : array of int64, shape (4, n)
        Producer ids, first offsets, marker offsets and last stable offsets of the plausible entries.
    corrupted : list of int
        Indexes of the files with an incomplete or implausible entry. The marker offsets of a file must
        also increase, because a broker appends an entry when it writes a marker. They must be below the
        base offset of the next segment.
    """
    size = TRANSACTION_ENTRY.itemsize
    counts = np.array([len(data) // size for _, _, data in indexes], np.int64)
    file = np.repeat(np.arange(len(indexes)), counts)
    base = np.array([base for _, base, _ in indexes], np.int64)
    end = np.array([*bases, MAX_OFFSET], np.int64)[np.searchsorted(bases, base, "right")]
    entries = read_transaction_index(b"".join(data[: len(data) // size * size] for _, _, data in indexes))
    first, last = entries["first"], entries["last"].astype(np.int64)
    plausible = (entries["version"] == 0) & (entries["producer_id"] >= 0) & (first >= 0)
    plausible &= (first < last) & (last < MAX_OFFSET) & (last >= base[file])
    wrong = ~plausible | (last >= end[file])
    wrong[1:] |= (last[1:] <= last[:-1]) & (file[1:] == file[:-1])
    incomplete = [i for i, (_, _, data) in enumerate(indexes) if len(data) % size]
    columns = np.array([entries[name][plausible] for name in ("producer_id", "first", "last", "stable")], np.int64)
    columns[3] = np.minimum(columns[3], columns[2] + 1)  # a higher last stable offset is corrupted
    return columns, [*incomplete, *file[wrong].tolist()]

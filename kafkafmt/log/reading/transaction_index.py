"""Read the transaction indexes of a partition, which list aborted transactions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterator

import numpy as np

from ...constants import MAX_OFFSET
from ...errors import StructureError
from ...types import BatchTable, last_offset, last_offsets
from ..format import file_view, files
from ..format.index_entries import read_transaction_index
from ..format.names import index_base_of
from ..format.producers import Aborted
from .partition_dir import PartitionDir


class IndexEntries:
    """Entries of all transaction indexes of a partition.

    Attributes
    ----------
    all : list of Aborted
        All plausible entries, ordered by the offset of the abort marker.
    next_markers : dict of int to int
        Maps a producer id to the marker offset of its first entry that `take` has not removed.
    unreadable : set of str
        Names of transaction index files that the disk cannot read.
    """

    def __init__(self, directory: PartitionDir) -> None:
        self.all: list[Aborted] = []
        self.unreadable: set[str] = set()
        try:
            _, names = files.list_directory(directory.path)
        except FileNotFoundError:
            names = []
        # The transaction indexes of segments whose `.log` file is missing are also read.
        for name in names:
            base = None if name in directory.ignored else index_base_of(name)
            try:
                data = None if base is None else file_view.read_bytes(directory.path / name)
            except StructureError:
                self.unreadable.add(name)
                continue
            for version, *values in read_transaction_index(data).tolist() if data else ():
                entry = Aborted(*values)
                if (
                    version == 0
                    and entry.producer_id >= 0
                    and 0 <= entry.first < entry.last < MAX_OFFSET
                    and entry.last >= (base or 0)
                ):
                    self.all.append(entry)
        self.all.sort(key=lambda e: e.last)
        self._lasts = [e.last for e in self.all]
        self._covered = np.zeros(len(self.all), bool)
        self._waiting: dict[int, deque[int]] = defaultdict(deque)
        """Maps a producer id to the indexes in `all` of its entries, in order. `take` removes them."""
        self.next_markers: dict[int, int] = {}
        for i, entry in enumerate(self.all):
            self._waiting[entry.producer_id].append(i)
            self.next_markers.setdefault(entry.producer_id, entry.last)

    def cover(self, table: BatchTable) -> None:
        """Mark all index entries whose marker offset is within the offset range of a batch in `table`.

        `take` does not yield an index entry if the log contains a batch at the entry's marker
        offset.
        """
        if not self._lasts or not len(table):
            return
        low = bisect_left(self._lasts, int(table["base_offset"][0]))
        high = bisect_right(self._lasts, last_offset(table[-1]))
        if low < high:
            lasts, entries = last_offsets(table), np.array(self._lasts[low:high], np.int64)
            at = np.searchsorted(table["base_offset"], entries, "right") - 1
            self._covered[low:high] |= (at >= 0) & (lasts[at] >= entries)

    def take(self, producer_id: int, before: int) -> Iterator[Aborted]:
        """Remove a producer's index entries with marker offsets below `before`. Yield those whose marker is missing.

        An index entry is yielded only if no batch that was passed to `cover` contains the entry's
        marker offset.
        """
        waiting = self._waiting[producer_id]
        while waiting and self._lasts[waiting[0]] < before:
            i = waiting.popleft()
            if not self._covered[i]:
                yield self.all[i]
        if waiting:
            self.next_markers[producer_id] = self._lasts[waiting[0]]
        else:
            del self._waiting[producer_id]
            self.next_markers.pop(producer_id, None)

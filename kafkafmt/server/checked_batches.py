"""Remember the positions of valid batches, so that each batch is checked only once.

A batch is sent only after its CRC was checked. `CheckedBatches` contains the positions and offsets
of batches that were checked together. One cache of limited size contains these objects for all
partitions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..constants import CONTROL_BIT, MAGIC_V2, NO_PRODUCER_ID, TRANSACTIONAL_BIT
from ..support.paths import Location
from ..types import BatchTable, IntArray, last_offsets

CACHE_BYTES = 24 << 20
"""Largest total size of the remembered positions and offsets, in bytes."""


Omitted = Sequence[tuple[int, int, int]]
"""Transactions to omit, as tuples of producer id, first offset and last offset."""


class Span(NamedTuple):
    """Consecutive bytes of a segment that are sent together."""

    path: Location
    inode: int  # when the batches were checked; 0 if the segment is not local
    position: int
    size: int
    converted: bool  # whether a batch may have to be converted before it is sent (see `CheckedBatches`)


class CheckedBatches:
    """All valid batches of one segment in the offsets [start, end), in offset order."""

    __slots__ = (
        "_adjacent",
        "_ends",
        "_ends_view",
        "_firsts",
        "_lasts_view",
        "_position",
        "_positions",
        "_producers",
        "_sizes",
        "converted",
        "end",
        "inode",
        "lasts",
        "path",
        "start",
        "transactional",
    )

    def __init__(
        self, path: Location, inode: int, start: int, end: int, position: int, table: BatchTable, odd: bool = False
    ) -> None:
        self.path: Location = path
        self.inode: int = inode
        self.start: int = start
        self.end: int = end
        self.converted: bool = odd or (bool(len(table)) and int(table["magic"].min()) < MAGIC_V2)
        self._positions: IntArray = table["position"] + position
        self._position = int(self._positions[0]) if len(table) else 0
        self._sizes: IntArray = table["size"].astype(np.int64)
        self._ends: IntArray = np.cumsum(self._sizes)
        self._firsts: IntArray = table["base_offset"].copy()
        self.lasts: IntArray = last_offsets(table)
        # bisect on a memoryview is faster than np.searchsorted. The memoryviews are stored, because creating one
        # takes as long as a search.
        self._lasts_view = self.lasts.data
        self._ends_view = self._ends.data
        self._adjacent = bool((self._positions[1:] == self._positions[:-1] + self._sizes[:-1]).all())
        """Whether the batches are adjacent in the segment."""
        bits = table["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)
        self.transactional: bool = bool(bits.any())
        self._producers: IntArray | None = None
        """The producer id of each transactional batch, and -1 for all other batches."""
        if self.transactional:
            self._producers = np.where(bits == TRANSACTIONAL_BIT, table["producer_id"], NO_PRODUCER_ID)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in memory, in bytes."""
        return 800 + 6 * self.lasts.nbytes

    def select(
        self, offset: int, end: int, room: int, at_least_one: bool, omitted: Omitted = ()
    ) -> tuple[list[Span], int, int, bool]:
        """Select batches from the first one that ends at or after `offset`."""
        # Those that begin at or after `end` are not selected. Returns the byte ranges, their total
        # size, the offset at which to continue, and whether `room` (in bytes) or `end` ended the
        # selection. If `at_least_one` is True, the first batch may be larger than `room`. `omitted`
        # has the producer ids, first and last offsets of transactions that are not selected.
        lasts, ends = self._lasts_view, self._ends_view
        first = bisect_left(lasts, offset)
        before = ends[first - 1] if first else 0
        possible = len(lasts) if end >= self.end else bisect_left(self._firsts.data, end)
        stop = bisect_right(ends, before + room, first)
        if stop <= first < possible and at_least_one:
            stop = first + 1
        stop = min(stop, possible)
        if stop <= first:
            if first < possible:
                return [], 0, offset, True
            return [], 0, self.end if possible == len(lasts) else end, possible < len(lasts)
        full = stop < len(lasts)
        following = lasts[stop - 1] + 1 if full else self.end
        if self._adjacent and not omitted:
            size = ends[stop - 1] - before
            return [Span(self.path, self.inode, self._position + before, size, self.converted)], size, following, full
        kept = self._kept(first, stop, omitted)
        return self._spans(kept), int(self._sizes[kept].sum()), following, full

    def bytes_after(self, offset: int) -> int:
        """Return the total size of the batches that begin at `offset` or a later offset."""
        ends = self._ends_view
        if not len(ends):
            return 0
        first = bisect_left(self._firsts.data, offset)
        return int(ends[-1]) - (int(ends[first - 1]) if first else 0)

    def _kept(self, first: int, stop: int, omitted: Omitted) -> slice | IntArray:
        """Select the batches in [first, stop) that do not belong to a transaction in `omitted`."""
        if not omitted or self._producers is None:
            return slice(first, stop)
        bases, producers = self._firsts[first:stop], self._producers[first:stop]
        keep = np.ones(len(bases), np.bool_)
        for producer, low, high in omitted:
            keep &= (producers != producer) | (bases < low) | (bases > high)
        return first + np.flatnonzero(keep)

    def _spans(self, rows: slice | IntArray) -> list[Span]:
        """Return the byte ranges of the given batches. Adjacent batches are combined into one range."""
        starts, sizes = self._positions[rows], self._sizes[rows]
        if not len(starts):
            return []
        breaks: npt.NDArray[np.int64] = np.flatnonzero(starts[1:] != starts[:-1] + sizes[:-1]) + 1
        begins = [0, *breaks.tolist()]
        ends = [*breaks.tolist(), len(starts)]
        return [
            Span(
                self.path,
                self.inode,
                int(starts[i]),
                int(starts[j - 1] + sizes[j - 1] - starts[i]),
                self.converted,
            )
            for i, j in zip(begins, ends, strict=True)
        ]


class BatchLists:
    """The `CheckedBatches` objects of one partition, ordered by offset. Their offset ranges do not overlap."""

    def __init__(self) -> None:
        # Other threads read this tuple without a lock. Therefore, a change replaces the whole tuple.
        self._sorted: tuple[list[int], list[CheckedBatches]] = [], []

    def __iter__(self) -> Iterator[CheckedBatches]:
        return iter(self._sorted[1])

    def find(self, offset: int) -> CheckedBatches | None:
        """Return the `CheckedBatches` whose offset range contains `offset`, or None."""
        starts, items = self._sorted
        at = bisect_right(starts, offset) - 1
        return items[at] if at >= 0 and items[at].end > offset else None

    def limit(self, offset: int) -> int | None:
        """Return the first offset of the next `CheckedBatches` that starts after `offset`, or None."""
        starts, _ = self._sorted
        at = bisect_right(starts, offset)
        return starts[at] if at < len(starts) else None

    def add(self, added: CheckedBatches) -> None:
        """Add a `CheckedBatches` object. Objects whose offset ranges overlap with it are removed."""
        starts, items = self._sorted
        first, after = bisect_left(starts, added.start), bisect_left(starts, added.end)
        if first and items[first - 1].end > added.start:
            first -= 1
        self._replace(first, max(first, after), [added])

    def remove(self, removed: CheckedBatches) -> None:
        starts, items = self._sorted
        at = bisect_left(starts, removed.start)
        if at < len(items) and items[at] is removed:
            self._replace(at, at + 1, [])

    def clear(self) -> None:
        self._sorted = [], []

    def _replace(self, first: int, after: int, added: list[CheckedBatches]) -> None:
        """Replace the items in [first, after). The lists are copied, because other threads may read them."""
        starts, items = self._sorted
        self._sorted = (
            [*starts[:first], *(item.start for item in added), *starts[after:]],
            [*items[:first], *added, *items[after:]],
        )


class BatchCache:
    """Limits the memory of the `CheckedBatches` of all partitions. Threads may share the object."""

    def __init__(self, capacity: int = CACHE_BYTES) -> None:
        self._capacity = capacity
        self._used = 0
        self._newest: CheckedBatches | None = None
        """The batches that were used most recently. Most calls of `used` have the same argument again."""
        self._entries: OrderedDict[int, tuple[CheckedBatches, BatchLists]] = OrderedDict()
        self._lock = Lock()

    def add(self, added: CheckedBatches, lists: BatchLists) -> None:
        """Add batches to the lists of their partition. If the cache is full, remove the least recently used batches."""
        with self._lock:
            lists.add(added)
            self._entries[id(added)] = added, lists
            self._newest = added
            self._used += added.nbytes
            while self._used > self._capacity and len(self._entries) > 1:
                _, (oldest, owner) = self._entries.popitem(last=False)
                self._used -= oldest.nbytes
                owner.remove(oldest)

    def used(self, batches: CheckedBatches) -> None:
        """Mark `batches` as most recently used."""
        if batches is self._newest:
            return
        with self._lock:
            if id(batches) in self._entries:
                self._entries.move_to_end(id(batches))
                self._newest = batches

    def drop(self, lists: BatchLists) -> None:
        with self._lock:
            for item in lists:
                if self._entries.pop(id(item), None) is not None:
                    self._used -= item.nbytes
            lists.clear()

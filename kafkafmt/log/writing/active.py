"""The segment that is written to: whole batches at its end, and the index entries that fall due with them.

The batches go first, their index entries after them, so that an index never knows more than the log. What cannot be
written whole is taken back; where even that fails the segment is broken, and only the next opening mends it.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ..format import files
from ..format.index_entries import transaction_index_bytes
from ..format.producers import Aborted
from .index_builder import SegmentIndexes

SUFFIXES = (".log", ".index", ".timeindex")


class ActiveSegment:
    """The files of one segment, open for writing. They must be there and agree with `indexes`, whose entries have been taken.

    first_timestamp: the largest of the first batch, None while there is none. created: when it began, in ms.
    """

    def __init__(
        self, folder: Path, indexes: SegmentIndexes, size: int, first_timestamp: int | None, created: int
    ) -> None:
        self.base_offset = indexes.base_offset
        self.path = folder / f"{self.base_offset:020}.log"
        self.size = size
        self.indexes = indexes
        self.first_timestamp = first_timestamp
        self.created = created
        self.broken = False
        self._files = [os.open(self.path.with_suffix(s), os.O_RDWR | os.O_CLOEXEC) for s in SUFFIXES]
        self.mode = os.fstat(self._files[0]).st_mode & 0o777
        self._ends = [size, indexes.offset_entries * 8, indexes.time_entries * 12]

    def append(self, data: bytes | memoryview, table: np.ndarray) -> None:
        """Write batches. table: theirs, with positions that count from the beginning of `data`."""
        before, ends = self.indexes.copy(), self._ends.copy()
        try:
            self._write(0, data)
            self.indexes.add(table, ends[0])
            self._write_entries()
        except OSError:
            self._take_back(before, ends)
            raise
        self.size = self._ends[0]
        if self.first_timestamp is None:
            self.first_timestamp = int(table["max_timestamp"][0])

    def _write_entries(self) -> None:
        for i, entries in enumerate(self.indexes.take(), 1):
            self._write(i, entries)

    def _write(self, i: int, data: bytes | memoryview) -> None:
        if not len(data):
            return
        files.write_at(self._files[i], data, self._ends[i])
        self._ends[i] += len(data)

    def _take_back(self, indexes: SegmentIndexes, ends: list[int]) -> None:
        """What could not be written whole, from the files and from what is known of them."""
        self.indexes = indexes
        try:
            for handle, end in zip(self._files, ends, strict=True):
                os.ftruncate(handle, end)
            self._ends = ends
        except OSError:
            self.broken = True
            raise

    def add_aborted(self, aborted: list[Aborted]) -> None:
        """Entries for the transaction index."""
        if not aborted:
            return
        try:
            files.append_to(self.path.with_suffix(".txnindex"), transaction_index_bytes(aborted), self.mode)
        except OSError:
            self.broken = True  # the batches are in the log: the next opening makes the entries anew
            raise

    def flush(self) -> None:
        """The batches are on disk once this returns. Indexes can be made anew, so they may wait."""
        try:
            os.fsync(self._files[0])
        except OSError:
            self.broken = True  # what the kernel could not write it may have forgotten: a second try would tell nothing
            raise

    def finish(self) -> None:
        """The indexes' last entries; all of it on disk."""
        if not self.broken:
            before, ends = self.indexes.copy(), self._ends.copy()
            try:
                self.indexes.close()
                self._write_entries()
            except OSError:
                self._take_back(before, ends)
                raise
            self.flush()
            for handle in self._files[1:]:
                os.fsync(handle)

    def close(self) -> None:
        """Close the files."""
        while self._files:
            os.close(self._files.pop())

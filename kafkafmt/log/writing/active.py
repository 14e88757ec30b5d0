"""Append batches and index entries to the active segment, which is the last segment of a partition.

Batches are written before their index entries, so an index never has entries for batches that the
log does not contain. If a write fails, the files are truncated to their previous lengths. If this
also fails, all further writes fail, until the partition is opened again and recovered.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...support.paths import full_disk_named
from ...types import BatchTable
from ..formats import OFFSET_ENTRY, TIME_ENTRY, Aborted, file_name, transaction_index_bytes
from ..storage import append_to, write_at
from .index_builder import SegmentIndexes

SEGMENT_SUFFIXES = (".log", ".index", ".timeindex")  # file name suffixes of the files that every segment has


def path_of(folder: Path, offset: int, suffix: str = ".log") -> Path:
    """Return the path of the file in `folder` whose name consists of an offset and `suffix`."""
    return folder / file_name(offset, suffix)


class ActiveSegment:
    """Writes to the active segment of a partition. The segment's files must exist, with all index entries in them."""

    def __init__(
        self, folder: Path, indexes: SegmentIndexes, size: int, first_timestamp: int | None, created: int
    ) -> None:
        self.base_offset: int = indexes.base_offset
        self.path: Path = folder / file_name(self.base_offset)
        self.size: int = size
        self.indexes: SegmentIndexes = indexes
        self.first_timestamp = first_timestamp
        self.created = created
        self.broken: bool = False
        self._files = [os.open(self.path.with_suffix(s), os.O_RDWR | os.O_CLOEXEC) for s in SEGMENT_SUFFIXES]
        self.mode: int = os.fstat(self._files[0]).st_mode & 0o777
        self._ends = [
            size,
            indexes.offset_entries * OFFSET_ENTRY.itemsize,
            indexes.time_entries * TIME_ENTRY.itemsize,
        ]

    def append(self, data: bytes | memoryview, table: BatchTable) -> None:
        """Append the batches in `data` to the `.log` file, and add their entries to the indexes."""
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
        with full_disk_named(self.path.with_suffix(SEGMENT_SUFFIXES[i])):
            write_at(self._files[i], data, self._ends[i])
        self._ends[i] += len(data)

    def _take_back(self, indexes: SegmentIndexes, ends: list[int]) -> None:
        """Truncate the files to `ends` after a failed write, and restore the index state."""
        self.indexes = indexes
        try:
            for handle, end in zip(self._files, ends, strict=True):
                os.ftruncate(handle, end)
            self._ends = ends
        except OSError:
            self.broken = True
            raise

    def add_aborted(self, aborted: list[Aborted]) -> None:
        """Append entries for aborted transactions to the transaction index."""
        if not aborted:
            return
        try:
            append_to(self.path.with_suffix(".txnindex"), transaction_index_bytes(aborted), self.mode)
        except OSError:
            # The batches are already written, but their index entries are missing.
            # The index is rebuilt when the partition is opened again.
            self.broken = True
            raise

    def flush(self) -> None:
        """Sync the `.log` file. The indexes are not synced, because they can be rebuilt."""
        try:
            with full_disk_named(self.path):
                os.fsync(self._files[0])
        except OSError:
            # Do not retry: the kernel may have dropped the data, and a second fsync could then report success.
            self.broken = True
            raise

    def finish(self) -> None:
        """Write the last index entries and sync all files, unless the segment is broken."""
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
        while self._files:
            os.close(self._files.pop())

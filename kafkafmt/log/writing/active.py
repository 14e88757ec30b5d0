"""Append batches and index entries to the active segment, the last segment of a partition.

Batches are written before their index entries, so an index never has entries for batches that the
log does not contain. If a write fails, the files are truncated to their previous lengths. If this
fails too, the segment is broken: it refuses further writes, and opening the partition again
recovers it.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...types import BatchTable
from ..format import files
from ..format.index_entries import OFFSET_ENTRY, TIME_ENTRY, transaction_index_bytes
from ..format.names import file_name
from ..format.producers import Aborted
from .index_builder import SegmentIndexes

SEGMENT_SUFFIXES = (".log", ".index", ".timeindex")
"""Suffixes of the files that every segment has."""


class ActiveSegment:
    """The files of the active segment, open for writing.

    Parameters
    ----------
    folder : Path
        The partition directory. The segment's files must exist.
    indexes : SegmentIndexes
        The entries of the offset and time index. All of them must have been taken, and be in the
        files.
    size : int
        Size of the `.log` file in bytes.
    first_timestamp : int or None
        Largest timestamp of the first batch in ms; None if the segment is empty.
    created : int
        Time at which the segment was created or opened, in ms.
    """

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
        """Append the batches in `data`, and the index entries that are due.

        `table` describes the batches; its positions are relative to the start of `data`.
        """
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
        """Append aborted transactions to the transaction index."""
        if not aborted:
            return
        try:
            files.append_to(self.path.with_suffix(".txnindex"), transaction_index_bytes(aborted), self.mode)
        except OSError:
            self.broken = True  # the batches are in the log; opening the partition again rebuilds the index
            raise

    def flush(self) -> None:
        """Sync the `.log` file. The indexes are not synced, because they can be rebuilt."""
        try:
            os.fsync(self._files[0])
        except OSError:
            self.broken = True  # the kernel may have dropped the data, so a second fsync could wrongly succeed
            raise

    def finish(self) -> None:
        """Write the last index entries, and sync all files. A broken segment is left unchanged."""
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

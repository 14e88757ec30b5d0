"""Build the indexes of a segment from its batches, as a broker does.

Kafka's counterparts are ``LogSegment.append`` and ``LogSegment.recover``. A batch gets an entry in
the offset index if it starts more than `interval` bytes after the previous batch with an entry, or
after the start of the file.

With each entry, and when the segment is closed, the time index also gets an entry if the largest
timestamp so far is larger than that of its last entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ..._backend import core
from ...constants import CONTROL_BIT, DEFAULT_MAX_BATCH_BYTES, MAX_RELATIVE_OFFSET
from ...errors import KafkaFormatError, StructureError
from ...records import RecordReader
from ...types import BatchSummary, BatchTable, Buffer, IndexState, last_offsets
from ..damage import Scratch, Table, Walker
from ..formats import (
    Aborted,
    Producers,
    epoch_runs,
    offset_entry,
    offset_index_bytes,
    read_markers,
    time_entry,
    time_index_bytes,
)
from ..storage import FileView

INDEX_INTERVAL = 4096  # default value of Kafka's setting ``index.interval.bytes``
FEW_ENTRIES = 16  # if there are fewer index entries than this, they are serialized one by one
MAX_SEGMENT_BYTES = 2**31 - 1  # an offset index stores positions as int32


class SegmentIndexes:
    """Builds the offset index and the time index of one segment."""

    # Its counts include entries that `take` has returned.

    offset_entries: int
    time_entries: int

    def __init__(self, base_offset: int, interval: int = INDEX_INTERVAL) -> None:
        self.base_offset = base_offset
        self.interval = interval
        self.offset_entries = self.time_entries = 0
        self._state: IndexState = 0, -1, base_offset, -1
        self._offsets: list[tuple[int, int]] = []
        self._times: list[tuple[int, int]] = []

    def copy(self) -> SegmentIndexes:
        other = object.__new__(SegmentIndexes)
        other.__dict__.update(self.__dict__, _offsets=self._offsets.copy(), _times=self._times.copy())
        return other

    @property
    def largest_timestamp(self) -> int:
        """Largest timestamp of the batches so far, in ms. -1 if no batch has a timestamp."""
        return self._state[1]

    def add(self, table: BatchTable, position: int = 0) -> None:
        """Add the next batches of the segment. The buffer that `table` refers to is at `position` in the file."""
        offsets, times, self._state = core.index_batches(table, position, self.interval, self._state)
        self._offsets += offsets
        self._times += times
        self.offset_entries += len(offsets)
        self.time_entries += len(times)

    def close(self) -> None:
        """Add a time index entry for the largest timestamp, unless the index already contains this timestamp."""
        indexed_at, largest, largest_at, indexed_timestamp = self._state
        if largest > indexed_timestamp:
            self._times.append((largest, largest_at))
            self.time_entries += 1
            self._state = indexed_at, largest, largest_at, largest

    def take(self) -> tuple[bytes, bytes]:
        """Return, as bytes, the offset index entries and time index entries that were added since the last call."""
        offsets, times, base = self._offsets, self._times, self.base_offset
        self._offsets, self._times = [], []
        if len(offsets) < FEW_ENTRIES and len(times) < FEW_ENTRIES:
            return b"".join([offset_entry(*o, base) for o in offsets]), b"".join([time_entry(*t, base) for t in times])
        return offset_index_bytes(*_columns(offsets), base), time_index_bytes(*_columns(times), base)


def _columns(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


@dataclass
class State:
    """The state that a broker tracks while it reads a log: the producers and the leader epochs."""

    reader: RecordReader
    producers: Producers = field(default_factory=Producers)
    epoch_runs: list[tuple[int, int, int]] = field(default_factory=list)
    """A tuple (epoch, first offset, last offset) for each sequence of batches with the same leader epoch."""

    def copy(self) -> State:
        """Return a copy. The copy and the original share only the attribute `reader`."""
        return State(self.reader, self.producers.copy(), self.epoch_runs.copy())

    def add(self, buffer: Buffer, table: BatchTable, found: BatchSummary) -> list[Aborted]:
        """Update the state with the next batches, and return the transactions that these batches abort."""
        for epoch, first, last in epoch_runs(table, found):
            if not self.epoch_runs or epoch != self.epoch_runs[-1][0]:
                self.epoch_runs.append((epoch, first, last))
            else:
                self.epoch_runs[-1] = epoch, self.epoch_runs[-1][1], last
        return self.add_producers(buffer, table, found)

    def add_producers(self, buffer: Buffer, table: BatchTable, found: BatchSummary) -> list[Aborted]:
        """Update the producers, but not the leader epochs, and return the transactions that the batches abort."""
        if not found.producers:
            return []
        markers = read_markers(self.reader, buffer, table) if found.attributes & CONTROL_BIT else {}
        return self.producers.add(table, markers)


@dataclass
class SegmentScan:
    """The result of reading a segment up to its first invalid batch."""

    indexes: SegmentIndexes
    aborted: list[Aborted]  # transactions that an abort marker in the segment ends
    next_offset: int  # offset after the last valid batch
    end: int = 0  # file position after the last valid batch
    batches: int = 0  # number of valid batches
    offsets: int = 0
    """Number of offsets in the offset ranges of the valid batches. A wrapper message counts as one offset."""
    error: KafkaFormatError | None = None
    """Error at `end`; None at the end of the file, or if a valid batch does not fit in the segment."""
    first_timestamp: int | None = None  # Largest timestamp in the first batch, in ms. None if there is no batch.


def read_through(
    view: FileView,
    base_offset: int,
    state: State,
    interval: int = INDEX_INTERVAL,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    scratch: Scratch | None = None,
) -> SegmentScan:
    """Read a segment up to the first batch that is invalid or does not fit in the segment, and update `state`."""
    walker = Walker(view, base_offset, max_batch_bytes, scratch=scratch)
    return scan_tables(walker.tables(0, view.size), base_offset, state, interval)


def scan_tables(tables: Iterable[Table], base_offset: int, state: State, interval: int = INDEX_INTERVAL) -> SegmentScan:
    """Return the same result as `read_through`, from tables with the batch headers of the segment."""
    made = SegmentScan(SegmentIndexes(base_offset, interval), [], base_offset)
    for position, buffer, table, error in tables:
        made.error = error
        found = core.summarize_batches(table)
        n, falls = _fitting(table, found, position, base_offset, made.next_offset)
        if n:
            rows = table
            if n < len(table):
                rows = table[:n]
                found = core.summarize_batches(rows)
            made.indexes.add(rows, position)
            made.aborted += state.add(buffer, rows, found)
            made.next_offset, made.end = found.last + 1, position + found.end
            made.batches += n
            made.offsets += found.offsets
            if made.first_timestamp is None:
                made.first_timestamp = int(rows["max_timestamp"][0])
        if n < len(table):
            made.error = (
                StructureError("the batch's offsets are not above those of the previous batch", made.end)
                if falls
                else None
            )
            break
    made.indexes.close()
    return made


def _fitting(
    table: BatchTable, found: BatchSummary, position: int, base_offset: int, next_offset: int
) -> tuple[int, bool]:
    """Return how many leading batches fit in a segment, and whether the offset of the next batch is too low."""
    if not len(table):
        return 0, False
    fits = found.last - base_offset <= MAX_RELATIVE_OFFSET and position + found.end <= MAX_SEGMENT_BYTES
    if fits and next_offset <= found.lowest and found.increasing:  # this is true for most tables
        return len(table), False
    firsts, lasts = table["base_offset"], last_offsets(table)
    ends = position + table["position"] + table["size"]
    falls = lasts < firsts
    falls[1:] |= firsts[1:] <= lasts[:-1]
    falls[:1] |= firsts[:1] < next_offset
    wrong = falls | (lasts - base_offset > MAX_RELATIVE_OFFSET) | (ends > MAX_SEGMENT_BYTES)
    n = int(np.argmax(wrong)) if wrong.any() else len(table)
    return n, n < len(table) and bool(falls[n])

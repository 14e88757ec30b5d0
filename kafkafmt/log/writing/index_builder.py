"""Indexes made from batches, as a broker makes them (Kafka: LogSegment.append and recover).

An offset index entry is due once more than `interval` bytes lie between the batch indexed last, or the file's start, and
the next one. With it the time index gets an entry, where the largest timestamp so far is above its last entry's; it
gets one more when the segment is closed. So the first batch of a segment is never in its offset index.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...constants import CONTROL_BIT, DEFAULT_MAX_BATCH_BYTES, NO_PRODUCER_ID
from ...errors import KafkaFormatError, StructureError
from ...records import RecordReader
from ...types import Buffer, last_offsets
from ..format.files import FileView
from ..format.index_entries import offset_entry, offset_index_bytes, time_entry, time_index_bytes
from ..format.leader_epochs import epoch_runs
from ..format.producers import Aborted, Producers, read_markers
from ..reading.segment_walker import Walker

INDEX_INTERVAL = 4096
"""Kafka's index.interval.bytes, unless a topic says otherwise."""
MAX_RELATIVE_OFFSET = 2**31 - 1
MAX_SEGMENT_BYTES = 2**31 - 1
"""What an index entry can hold: the largest offset above a segment's base offset, and the largest file."""


class SegmentIndexes:
    """The entries of one segment's offset and time index, as they fall due.

    offset_entries, time_entries: how many there are, those included that `take` has given out.
    """

    def __init__(self, base_offset: int, interval: int = INDEX_INTERVAL) -> None:
        self.base_offset = base_offset
        self.interval = interval
        self.offset_entries = self.time_entries = 0
        self.largest_timestamp = -1
        self._largest_at = base_offset
        self._indexed_at = 0
        self._indexed_timestamp = -1
        self._offsets: list[tuple[int, int]] = []
        self._times: list[tuple[int, int]] = []

    def copy(self) -> SegmentIndexes:
        """Another one at the same point."""
        other = object.__new__(SegmentIndexes)
        other.__dict__.update(self.__dict__, _offsets=self._offsets.copy(), _times=self._times.copy())
        return other

    def add(self, table: np.ndarray, position: int = 0) -> None:
        """Batches in the order of the file; `position` is where the buffer begins that their positions count from."""
        names = ("position", "base_offset", "last_offset_delta", "max_timestamp")
        for start, first, delta, timestamp in zip(*(table[name].tolist() for name in names), strict=True):
            last = first + delta if delta > 0 else first
            if timestamp > self.largest_timestamp:
                self.largest_timestamp, self._largest_at = timestamp, last
            if start + position - self._indexed_at > self.interval:
                self._indexed_at = start + position
                self._offsets.append((last, self._indexed_at))
                self.offset_entries += 1
                self.close()

    def close(self) -> None:
        """The time index's entry of the largest timestamp, where that is not its last one."""
        if self.largest_timestamp > self._indexed_timestamp:
            self._times.append((self.largest_timestamp, self._largest_at))
            self.time_entries += 1
            self._indexed_timestamp = self.largest_timestamp

    def take(self) -> tuple[bytes, bytes]:
        """The entries of both indexes since the last time, as bytes."""
        offsets, times, base = self._offsets, self._times, self.base_offset
        self._offsets, self._times = [], []
        if len(offsets) < 2 and len(times) < 2:
            return b"".join(offset_entry(*o, base) for o in offsets), b"".join(time_entry(*t, base) for t in times)
        return offset_index_bytes(*_columns(offsets), base), time_index_bytes(*_columns(times), base)


def _columns(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


@dataclass
class State:
    """What a broker knows at a point of a log: of its producers, and of its leaders."""

    reader: RecordReader
    producers: Producers = field(default_factory=Producers)
    epoch_runs: list[tuple[int, int, int]] = field(default_factory=list)
    """(epoch, first offset, last offset) of neighbouring batches with the same leader epoch."""

    def copy(self) -> State:
        """Return another one that knows the same."""
        return State(self.reader, self.producers.copy(), self.epoch_runs.copy())

    def add(self, buffer: Buffer, table: np.ndarray) -> list[Aborted]:
        """Take in batches in the order of their offsets; the transactions that were aborted by them."""
        for epoch, first, last in epoch_runs(table):
            if not self.epoch_runs or epoch != self.epoch_runs[-1][0]:
                self.epoch_runs.append((epoch, first, last))
            else:
                self.epoch_runs[-1] = epoch, self.epoch_runs[-1][1], last
        return self.add_producers(buffer, table)

    def add_producers(self, buffer: Buffer, table: np.ndarray) -> list[Aborted]:
        """The same, but for the leader epochs."""
        if not np.count_nonzero(table["producer_id"] != NO_PRODUCER_ID):
            return []
        control = table[(table["attributes"] & CONTROL_BIT) != 0]
        return self.producers.add(table, read_markers(self.reader, buffer, control))


@dataclass
class Segment:
    """A segment read through.

    next_offset, end: the offset after its last sound batch, and where that ends. error: why it goes no further; None
    where the file ends there, or where only a new segment could take the next batch. first_timestamp: the largest of
    the first batch, None while there is none.
    """

    indexes: SegmentIndexes
    aborted: list[Aborted]
    next_offset: int
    end: int = 0
    batches: int = 0
    error: KafkaFormatError | None = None
    first_timestamp: int | None = None


def read_through(
    view: FileView,
    base_offset: int,
    state: State,
    interval: int = INDEX_INTERVAL,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Segment:
    """Follow a segment's batches up to the first that is not sound, or that the segment cannot hold."""
    made = Segment(SegmentIndexes(base_offset, interval), [], base_offset)
    for position, buffer, table, error in Walker(view, base_offset, max_batch_bytes).tables(0, view.size):
        made.error = error
        ends = position + table["position"] + table["size"]
        lasts = last_offsets(table)
        before = np.concatenate(([made.next_offset - 1], lasts))[: len(lasts)]
        falls = (table["base_offset"] <= before) | (lasts < table["base_offset"])
        wrong = falls | (lasts - base_offset > MAX_RELATIVE_OFFSET) | (ends > MAX_SEGMENT_BYTES)
        n = int(np.argmax(wrong)) if wrong.any() else len(table)
        if n:
            made.indexes.add(table[:n], position)
            made.aborted += state.add(buffer, table[:n])
            made.next_offset, made.end = int(lasts[n - 1]) + 1, int(ends[n - 1])
            made.batches += n
            if made.first_timestamp is None:
                made.first_timestamp = int(table["max_timestamp"][0])
        if n < len(table):
            made.error = (
                StructureError("the batch's offsets are not above those before it", made.end) if falls[n] else None
            )
            break
    made.indexes.close()
    return made

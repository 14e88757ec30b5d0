"""Write a copy of one partition without some of its records.

Each segment keeps its name. A batch is copied unchanged if all its records are kept and it is not
recompressed. First, the log is verified. Then, the last batch of each producer is determined, and
for compaction also the latest offset of each key. Finally, the log is copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...constants import CONTROL_BIT, MAGIC_V2, MAX_RELATIVE_OFFSET
from ...records import RecordReader
from ...support.times import now_millis
from ...types import BatchTable, IntArray, Spans, last_offset, last_offsets
from ..catalog import SegmentFile
from ..damage import RunColumns, Walker
from ..findings import Damage
from ..formats import CLEANER_OFFSETS, file_name
from ..reading import PartitionLog
from ..repairing import ALL_FILE_BITS, OWNER, Bounds, Salvaged, holes_of, outside
from ..storage import FileView, create_file, narrowed_mode, times_of, write_all
from ..writing import MAX_SEGMENT_BYTES
from .changed_copy import ChangedCopy
from .filtered_batch import BatchFilter, BoolArray, empty_batch
from .latest_offsets import LatestOffsets
from .record_rules import RecordRules
from .source_tables import tables_of
from .transaction_tracker import LastBatches, TransactionTracker

Kept = list[tuple[SegmentFile, IntArray]]
"""The segments to copy, with the start and end positions of their valid batches."""
NO_OFFSETS: IntArray = np.zeros(0, np.int64)
NO_RECORDS: BoolArray = np.zeros(0, np.bool_)


@dataclass(frozen=True)
class Changes:
    """Defines what `rewrite` changes in a partition."""

    rules: RecordRules = field(default_factory=RecordRules)
    compact: bool = False  # keep only the latest record of each key
    drop_tombstones: bool = False  # also drop the latest record of a key if its value is null
    codec: int | None = None  # None keeps the codec of each batch
    level: int | None = None


@dataclass(frozen=True)
class Counts:
    """Number of records and size of the `.log` files in bytes, in the source and in the copy."""

    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int


@dataclass
class Survey:
    """Facts about a log that `rewrite` collects before it copies the log."""

    last: LastBatches  # batch of each producer
    end: int  # offset after the last batch
    clean_end: int = 0  # records below are compacted; at most the last stable offset
    # offsets of keys below `clean_end`, in ascending order
    latest: IntArray = field(default_factory=lambda: NO_OFFSETS)
    # first offsets of open transactions; these batches keep the last stable offset
    open_from: list[int] = field(default_factory=list)


def rewrite_partition(
    log: PartitionLog, damaged: Sequence[Damage], output: Path, changes: Changes, bounds: Bounds | None = None
) -> tuple[Salvaged, Counts]:
    """Write a changed copy of a partition, without damage, below `output`, as `salvage_partition` does."""
    # KafkaFormatError: a batch cannot be rebuilt.
    directory = log.directory
    left_out = (bounds or Bounds.around(directory)).apply_to(directory)
    holes = holes_of(damaged)
    kept: Kept = []
    for segment in log.segments:
        runs, cuts = RunColumns.of(log.plan(segment).runs), holes.get(segment.name)
        spans = np.stack((runs.position, runs.end), axis=1)
        kept.append((segment, spans if cuts is None else outside(cuts, spans)))
    survey = _survey(log, kept, changes)
    copy = _RewrittenCopy(log, output / f"{log.topic}-{log.partition}", left_out, changes, survey)
    try:
        for segment, spans in kept:
            copy.rewrite_segment(segment, spans, segment.name in holes)
        made = copy.finish()
    except BaseException:
        shutil.rmtree(copy.made.path, ignore_errors=True)
        raise
    copied = sum(int((spans[:, 1] - spans[:, 0]).sum()) for _, spans in kept)
    return made, Counts(copy.records_in, copy.records_out, copied, made.bytes)


def _survey(log: PartitionLog, kept: Kept, changes: Changes) -> Survey:
    """Read a log once, to find the last batch of each producer and the latest offset of each key."""
    survey, latest = Survey(LastBatches(), 0), LatestOffsets()
    tracker, reader = None, RecordReader(("offset", "key", "timestamp"), max_batch_bytes=log.max_batch_bytes)
    transactions = log.transactions
    survey.open_from = list(transactions.open.values())
    if changes.compact:
        survey.clean_end = min([transactions.last_stable_offset, *(d.first_offset for d in transactions.doubts)])
        tracker = TransactionTracker(transactions, 0)
    for segment, spans in kept:
        with FileView(segment.path) as view:
            for buffer, table in tables_of(view, segment, spans, log.max_batch_bytes):
                survey.last.add(table)
                survey.end = max(survey.end, int(last_offsets(table)[-1]) + 1) if len(table) else survey.end
                if tracker is None or not len(table):
                    continue
                rows = table[~tracker.aborted(table) & ((table["attributes"] & CONTROL_BIT) == 0)]
                for source, columns in reader.read(buffer, rows):
                    assert columns.offset is not None
                    assert columns.key_position is not None
                    assert columns.key_length is not None
                    offsets, lengths = columns.offset[: columns.rows], columns.key_length[: columns.rows]
                    wanted = np.flatnonzero((lengths >= 0) & (offsets < survey.clean_end))
                    if changes.rules:
                        wanted = wanted[~changes.rules.dropped(source, columns)[wanted]]
                    positions = columns.key_position[wanted]
                    latest.add(Spans(source, positions, lengths[wanted]), offsets[wanted])
    survey.latest = latest.take()
    return survey


class _RewrittenCopy(ChangedCopy):
    """Writes one partition. Each call of `rewrite_segment` writes one segment."""

    def __init__(self, log: PartitionLog, folder: Path, left_out: Any, changes: Changes, survey: Survey) -> None:
        super().__init__(log, folder, left_out)
        self.changes, self.survey = changes, survey
        self.records_in = self.records_out = 0
        self._filter = BatchFilter(changes.codec, changes.level, log.max_batch_bytes)
        self._reader = RecordReader(("offset", "key", "value", "timestamp"), max_batch_bytes=log.max_batch_bytes)
        self._tracker = TransactionTracker(log.transactions, now_millis()) if changes.compact else None
        self._last_kept = -1
        self._base = 0
        self._has_gaps = False
        """Whether offsets can be missing between batches, because batches were removed or became shorter."""

    def rewrite_segment(self, source: SegmentFile, spans: IntArray, damaged: bool) -> None:
        """Write one segment, unless nothing in it can be copied. As in Kafka, segments that become empty are kept."""
        if not self.is_copied(source, spans, damaged):
            self.unsure = True
            return
        with FileView(source.path) as view:
            base = source.base_offset
            if base is None:
                walker = Walker(view, 0, self.log.max_batch_bytes)
                base = walker.first_offset_at(int(spans[0, 0])) if len(spans) else 0
            times, mode = times_of(source.path), narrowed_mode(ALL_FILE_BITS | 0o111, source.path)
            segment, self._base = OpenSegment(Path(self._path(file_name(base))), base, mode), base
            try:
                for buffer, table in tables_of(view, source, spans, self.log.max_batch_bytes):
                    for first, last, data in self._changed_batches(buffer, table):
                        if not segment.has_room(len(data), last):
                            self._close(source, segment, times)
                            segment, self._base = OpenSegment(Path(self._path(file_name(first))), first, mode), first
                        segment.write(data)
                self._close(source, segment, times)
            finally:
                segment.close()
        self.unsure = self.unsure or damaged

    def _close(self, source: SegmentFile, segment: OpenSegment, times: tuple[int, int] | None) -> None:
        """Complete a segment: write its indexes, and give it the modification time of its source."""
        segment.close()
        self.made.modes[segment.path.name] = segment.mode
        self.bases.append(segment.base)
        self._index_copy_of(source, segment.base)
        if times is not None:  # Kafka's retention uses the modification time if batches have no timestamps
            os.utime(segment.path, ns=times)

    def _changed_batches(self, buffer: Any, table: BatchTable) -> Iterator[tuple[int, int, Any]]:
        """Yield tuples of first offset, last offset and bytes, for batches that were kept, rebuilt or emptied."""
        if not len(table):
            return
        lasts = last_offsets(table)
        dropped, kept_records, lost_records = self._dropped(buffer, table, lasts)
        self.records_in += int(kept_records.sum() + lost_records.sum())
        self.records_out += int(kept_records.sum())
        ends = np.cumsum(kept_records + lost_records)
        removed = (lost_records > 0) & (kept_records == 0)
        if self._tracker is not None:
            empty = (table["count"] == 0) & ((table["attributes"] & CONTROL_BIT) == 0)
            removed |= (empty | self._tracker.removable_markers(table)) & (lasts < self.survey.clean_end)
        special = removed | (lost_records > 0)
        stays = self.survey.last.kept(table[removed]) | (lasts[removed] + 1 == self.survey.end)
        stays |= np.isin(table["base_offset"][removed], self.survey.open_from)
        retained = np.zeros(len(table), bool)
        retained[removed] = stays & (table["magic"][removed] == MAGIC_V2)
        begin = 0
        for i in [*np.flatnonzero(special).tolist(), len(table)]:
            if begin < i:
                yield from self._unchanged(buffer, table[begin:i])
            begin = i + 1
            if i == len(table):
                break
            first, last = self._first_offset(table[i : i + 1]), int(lasts[i])
            if removed[i] and not retained[i]:
                self._has_gaps = True
                continue
            self._last_kept = last
            row = table[i : i + 1]
            if removed[i]:
                yield first, last, self._emptied(buffer, row)
            else:
                if row["magic"][0] < MAGIC_V2:  # the offset of a wrapper message is the offset of its last record
                    self._has_gaps = True
                own = dropped[ends[i] - kept_records[i] - lost_records[i] : ends[i]]
                yield first, last, self._filter.without(buffer, row, own)

    def _unchanged(self, buffer: Any, rows: BatchTable) -> Iterator[tuple[int, int, Any]]:
        if last_offset(rows[-1]) - self._base > MAX_RELATIVE_OFFSET and len(rows) > 1:
            for i in range(len(rows)):
                # Handle each batch separately, because its offset may be too far from the segment's base offset.
                yield from self._unchanged(buffer, rows[i : i + 1])
            return
        for part, data in self._filter.recompressed(buffer, rows):
            first, self._last_kept = self._first_offset(part), last_offset(part[-1])
            yield first, self._last_kept, data

    def _first_offset(self, rows: BatchTable) -> int:
        """Return the base offset of a new segment that begins with `rows`."""
        # The header of a wrapper message does not contain its first offset, so the result can be lower.
        if rows["magic"][0] == MAGIC_V2:
            return int(rows["base_offset"][0])
        return max(self._last_kept + 1, last_offset(rows[0]) - MAX_RELATIVE_OFFSET)

    def _emptied(self, buffer: Any, row: BatchTable) -> Any:
        start, end = int(row["position"][0]), int(row["position"][0] + row["size"][0])
        batch = memoryview(buffer)[start:end]
        return batch if row["attributes"][0] & CONTROL_BIT or row["count"][0] == 0 else empty_batch(batch)

    def _dropped(self, buffer: Any, table: BatchTable, lasts: IntArray) -> tuple[BoolArray, IntArray, IntArray]:
        """Return a mask of the dropped records of all data batches, and the kept and dropped records of each batch."""
        n = len(table)
        data = (table["attributes"] & CONTROL_BIT) == 0
        if not self.changes.rules and not self.changes.compact and (table["magic"] == MAGIC_V2).all():
            return NO_RECORDS, np.where(data, table["count"], 0).astype(np.int64), np.zeros(n, np.int64)
        aborted = self._tracker.aborted(table) if self._tracker is not None else np.zeros(n, bool)
        masks: list[BoolArray] = []
        kept, lost = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for at, source, columns in self._records_of(buffer, table, np.flatnonzero(data)):
            drop = self.changes.rules.dropped(source, columns)
            if self._tracker is not None:
                compacted = self._superseded(columns, columns.offset[: columns.rows]) | aborted[at]
                drop |= compacted & (lasts[at] < self.survey.clean_end)
            kept += np.bincount(at[~drop], minlength=n)
            lost += np.bincount(at[drop], minlength=n)
            masks.append(drop)
        return np.concatenate([NO_RECORDS, *masks]), kept, lost

    def _records_of(self, buffer: Any, table: BatchTable, rows: IntArray) -> Iterator[tuple[IntArray, Any, Any]]:
        """Decode the batches in `rows` of a table. Yield chunks, and for each record the row of its batch."""
        # A record of a v2 batch can have any offset, so that its offset does not show its batch.
        counts = table["count"][rows]
        if (counts >= 0).all():
            batches, done = np.repeat(rows, counts), 0
            for source, columns in self._reader.read(buffer, table[rows]):
                yield batches[done : done + columns.rows], source, columns
                done += columns.rows
            return
        for row in rows.tolist():  # the header of a wrapper message does not contain the number of records
            for source, columns in self._reader.read(buffer, table[row : row + 1]):
                yield np.full(columns.rows, row), source, columns

    def _superseded(self, columns: Any, offsets: IntArray) -> np.ndarray:
        """Return a mask of the records that compaction removes: no key, not the latest of the key, or a tombstone."""
        # Tombstones are removed if `drop_tombstones` is True.
        latest = self.survey.latest
        at = np.searchsorted(latest, offsets)
        drop: np.ndarray = at == len(latest)
        drop[~drop] = latest[at[~drop]] != offsets[~drop]
        if self.changes.drop_tombstones:
            drop |= columns.value_length[: columns.rows] < 0
        return drop

    def finish(self) -> Salvaged:
        """Write the remaining files of the partition, such as snapshots. Call this after all segments were written."""
        if self.bases and self.made.next_offset < self.survey.end:
            # Formats 0 and 1 have no empty batches. To keep the log end offset, write an empty segment at this offset.
            self._new(file_name(self.survey.end), b"", self.made.mode)
            self.bases.append(self.survey.end)
            self._index(self.survey.end)
        made = super().finish()
        if self._has_gaps and made.offsets:
            # With an entry in the cleaner checkpoint, gaps between offsets are treated as a result of compaction.
            # An entry above the first offset also says that no lost marker is among the missing offsets.
            least = self.bases[0] if self.unsure else self.bases[0] + 1
            cleaned = min(self.survey.clean_end, made.next_offset) if self.changes.compact else least
            made.offsets[CLEANER_OFFSETS] = max(cleaned, least)
        return made


class OpenSegment:
    """Writes the `.log` file of a segment."""

    def __init__(self, path: Path, base: int, mode: int) -> None:
        self.path: Path = path
        self.base: int = base
        self.mode: int = mode
        self._size = 0
        self._file = create_file(path, mode | OWNER)

    def has_room(self, size: int, last: int) -> bool:
        """Return whether the segment has space for a batch of `size` bytes whose last offset is `last`."""
        fits = not self._size or self._size + size <= MAX_SEGMENT_BYTES
        return fits and last - self.base <= MAX_RELATIVE_OFFSET

    def write(self, data: Any) -> None:
        write_all(self._file, data)
        self._size += len(data)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

"""Copy one partition so that a broker of another cluster can append to it.

Batches are copied byte for byte, except that the current leader epoch of the cluster replaces every
higher one. Consumers compare leader epochs to detect a truncated log, and would lose their position
at an epoch that the cluster has not reached. The CRC of a batch does not cover its leader epoch.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...constants import LEADER_EPOCH_AT, MAGIC_V2
from ...records import RecordReader
from ...types import BatchTable, ByteArray, IntArray, last_offsets
from ..catalog import SegmentFile
from ..damage import RunColumns
from ..formats import (
    HIGH_WATERMARKS,
    PARTITION_METADATA,
    Epochs,
    ProducerEntry,
    Producers,
    believable_runs,
    epochs_from,
    file_name,
    partition_metadata_text,
    snapshot_of,
    states_of,
    within,
)
from ..reading import PartitionLog
from ..repairing import OWNER, Bounds, Salvaged, abort_markers
from ..storage import FileView, write_new
from ..writing import read_through
from .changed_copy import ChangedCopy
from .filtered_batch import BatchFilter
from .rewrite_partition import Kept, OpenSegment
from .source_tables import tables_of


@dataclass(frozen=True)
class Target:
    """A partition in a broker's log directory, which a restored copy will replace."""

    path: Path
    topic_id: str | None  # None if the cluster has no topic ids
    leader_epoch: int  # current one in the cluster
    keep_producers: bool  # only in the same cluster: another one assigns the same ids to other producers
    mode: int  # permissions of the broker's own files


@dataclass
class Restored:
    """A restored partition in its staging directory, before it replaces the broker's partition."""

    made: Salvaged
    first_offset: int  # log start offset
    open: Sequence[ProducerEntry]  # transactions at the end of the copy
    aborted: int = 0  # number of transactions that were ended with an abort marker


def restore_partition(
    log: PartitionLog, target: Target, staging: Path, until: int | None, abort_open: bool, bounds: Bounds
) -> Restored:
    """Copy a partition without damage into the new directory `staging`, up to the last record before `until` (ms)."""
    # If an error is raised, the directory is removed.
    left_out = bounds.apply_to(log.directory)
    kept: Kept = []
    for segment in log.segments:
        runs = RunColumns.of(log.plan(segment).runs)
        kept.append((segment, np.stack((runs.position, runs.end), axis=1)))
    end = None if until is None else _end_before(log, kept, until)
    copy = _RestoredCopy(log, staging, left_out, target, end, abort_open)
    try:
        for segment, spans in kept:
            copy.restore_segment(segment, spans)
        made = copy.finish()
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    start = min(max(log.log_start_offset, copy.bases[0]), made.next_offset)
    return Restored(made, start, made.open, copy.aborted)


def _end_before(log: PartitionLog, kept: Kept, until: int) -> int:
    """Return the offset after the last record with a timestamp before `until`."""
    # Transaction markers count as records. A record without a timestamp is treated as earlier.
    end, reader = 0, RecordReader(("offset", "timestamp"), max_batch_bytes=log.max_batch_bytes)
    for segment, spans in kept:
        with FileView(segment.path) as view:
            for buffer, table in tables_of(view, segment, spans, log.max_batch_bytes):
                # A wrapper message (count -1) can have a lower timestamp than its inner messages, so decode these too.
                early = (table["max_timestamp"] < until) & (table["count"] >= 0)
                if early.any():
                    end = max(end, int(last_offsets(table[early])[-1]) + 1)
                for _, columns in reader.read(buffer, table[~early]):
                    assert columns.offset is not None
                    assert columns.timestamp is not None
                    found = columns.offset[: columns.rows][columns.timestamp[: columns.rows] < until]
                    end = max(end, int(found[-1]) + 1) if len(found) else end
    return end


class _RestoredCopy(ChangedCopy):
    """Writes one partition. Each call of `restore_segment` writes one segment."""

    def __init__(
        self, log: PartitionLog, folder: Path, left_out: Any, target: Target, end: int | None, abort_open: bool
    ) -> None:
        super().__init__(log, folder, left_out)
        self.target, self.end, self.abort_open = target, end, abort_open
        self.aborted = 0
        self._filter = BatchFilter(None, None, log.max_batch_bytes)
        self._last = log.segments[-1].name if log.segments else ""

    def restore_segment(self, source: SegmentFile, spans: IntArray) -> None:
        """Copy one segment. Omit a segment that starts at or after the end offset `self.end`."""
        base = source.base_offset or 0
        beyond = self.end is not None and base >= self.end
        if (beyond and self.bases) or not self.is_copied(source, spans, False):
            return
        last = source.name == self._last or (self.end is not None and (source.next_base or 0) >= self.end)
        segment = OpenSegment(Path(self._path(file_name(base))), base, self.target.mode)
        try:
            with FileView(source.path) as view:
                for buffer, table in tables_of(view, source, spans, self.log.max_batch_bytes):
                    for data in self._batches(buffer, table):
                        segment.write(data)
            if last:
                self._abort_open(segment)
        finally:
            segment.close()
        self.made.modes[segment.path.name] = segment.mode
        self.bases.append(base)
        self._index(base)
        self.unsure = False

    def _batches(self, buffer: Any, table: BatchTable) -> Iterator[Any]:
        """Yield the batches before the end of the copy. A batch that contains the end is rebuilt."""
        lasts = last_offsets(table)
        n = len(table) if self.end is None else int(np.searchsorted(lasts, self.end))
        if n:
            yield self._with_epochs(buffer, table[:n])
        if n == len(table) or self.end is None:
            return
        row = table[n : n + 1]
        if row["magic"][0] == MAGIC_V2 and row["base_offset"][0] >= self.end:
            return
        dropped = [
            columns.offset[: columns.rows] >= self.end
            for _, columns in RecordReader(("offset",), max_batch_bytes=self.log.max_batch_bytes).read(buffer, row)
            if columns.offset is not None
        ]
        rebuilt = self._filter.without(buffer, row, np.concatenate(dropped), last=self.end - 1)
        # A wrapper message is omitted if the copy ends before its first inner message.
        if rebuilt:
            one = row.copy()
            one["position"], one["size"] = 0, len(rebuilt)
            yield self._with_epochs(rebuilt, one)

    def _with_epochs(self, buffer: Any, table: BatchTable) -> Any:
        """Return the bytes of adjacent batches. The leader epoch of the cluster replaces higher leader epochs."""
        start, end = int(table["position"][0]), int(table["position"][-1] + table["size"][-1])
        data = np.frombuffer(buffer, np.uint8)[start:end]
        later = (table["magic"] == MAGIC_V2) & (table["leader_epoch"] > self.target.leader_epoch)
        if not later.any():
            return data
        changed: ByteArray = data.copy()
        fields = (table["position"][later] - start + LEADER_EPOCH_AT)[:, None] + np.arange(4)
        changed[fields] = np.frombuffer(self.target.leader_epoch.to_bytes(4, "big"), np.uint8)
        return changed

    def _abort_open(self, segment: OpenSegment) -> None:
        """Append an abort marker for each transaction that is open at the end of the copy."""
        if not self.abort_open:
            return
        state = self.state.copy()
        with FileView(segment.path) as view:
            found = read_through(view, segment.base, state, max_batch_bytes=self.log.max_batch_bytes)
        markers = abort_markers(state.producers.open_transactions, found.next_offset, self.target.leader_epoch)
        for marker in markers.values():
            segment.write(marker.data)
        self.aborted += len(markers)

    def finish(self) -> Salvaged:
        """Write the other files of the partition, after all segments were copied."""
        if self.bases and not self.target.keep_producers and len(self.state.producers):
            self._roll()
        made = super().finish()
        if made.offsets:
            made.offsets[HIGH_WATERMARKS] = made.next_offset
        return made

    def _roll(self) -> None:
        """Start an empty segment, whose producer snapshot contains only producers with an open transaction."""
        # A broker restores the state of producers from the snapshot and from the batches after it.
        self.state.producers = Producers(states_of(self.state.producers.open_transactions))
        end = self.made.next_offset
        if end == self.bases[-1]:
            Path(self._path(file_name(end, ".snapshot"))).write_bytes(snapshot_of(self.state.producers.states))
            return
        path = Path(self._path(file_name(end)))
        OpenSegment(path, end, self.target.mode).close()
        self.made.modes[path.name] = self.target.mode
        self.bases.append(end)
        self._index(end)

    def _epochs(self, start: int, end: int) -> Epochs:
        return within(epochs_from(believable_runs(self.state.epoch_runs, [])), start, end)

    def _copy_unchanged_files(self) -> None:
        """Write `partition.metadata` with the topic id of the cluster."""
        if self.target.topic_id is not None:
            text = partition_metadata_text(self.target.topic_id)
            self._new(PARTITION_METADATA, text.encode(), self.target.mode)

    def _new(self, name: str, data: bytes, mode: int) -> None:
        """Write a file with the permissions of the partition's `.log` files."""
        self.made.modes[name] = self.target.mode
        write_new(self._path(name), data, self.target.mode | OWNER, synced=False)

"""Copy the valid batches of one damaged partition unchanged, and rebuild its other files.

Each segment keeps its name. The batches of a segment are copied in offset order, inside the kernel
(``copy_file_range``). Then the copy is read once, to check every CRC again and to rebuild the
indexes, producer snapshots and leader epochs. The batches of a small segment are copied through
memory, and checked there. If no index can hold the batches of a segment, the partition is not copied.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ..._backend import core
from ...constants import LEADER_EPOCH_AT, MAGIC_V2, NO_END
from ...errors import StructureError
from ...support.paths import Location
from ...support.text import quantity
from ...support.times import now_millis
from ...types import Buffer, IntArray, view_of
from ..catalog import SegmentFile
from ..damage import RunColumns, Scratch, Table, Walker
from ..findings import Damage, Finding
from ..formats import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    Epochs,
    Producers,
    file_name,
    leader_epochs_text,
    marker_reader,
    read_leader_epochs,
    read_partition_metadata,
    snapshot_of,
    transaction_index_bytes,
    trusted_epochs,
    within,
)
from ..reading import PartitionLog, without_losses
from ..storage import (
    FileView,
    SpanCopier,
    create_file,
    mode_and_times,
    mode_of,
    modes_in,
    narrowed_mode,
    read_text,
    stamp_of,
    write_new,
)
from ..writing import State, scan_tables
from .salvage_files import copy_readable
from .salvage_markers import abort_markers, restored_markers
from .salvage_pieces import Restored, holes_of, insertions, outside, paired
from .salvage_producers import SourceSnapshots
from .salvage_rebuilt import with_rebuilt
from .salvage_source import ALL_FILE_BITS, Bounds, LeftOut
from .salvaged import OWNER, Salvaged, SerializedProducers

CLUSTER_METADATA = "__cluster_metadata"  # The topic of Kafka's metadata log. Offset checkpoints have no entry for it.
QUORUM_STATE = "quorum-state"
KRAFT_SNAPSHOT = ".checkpoint"


def salvage_partition(
    log: PartitionLog,
    damaged: Sequence[Damage],
    output: Path,
    stop_at_first: bool = False,
    bounds: Bounds | None = None,
    abort_open: bool = False,
    rebuild: bool = False,
) -> Salvaged:
    """Copy the valid batches of a partition into a new directory below `output`, without a sync."""
    # After an error, the new directory is removed. `rebuild`: rebuild the batches that Kafka's Java code does not read
    # to their end; otherwise, there must be none. OSError: the source has changed (EIO), no index can hold the batches
    # of a segment (EINVAL), no broker accepts the name, or the directory is a link to a place outside `bounds`.
    directory = log.directory
    left_out = (bounds or Bounds.around(directory)).apply_to(directory)
    holes = holes_of(without_losses(damaged))
    kept: list[tuple[SegmentFile, IntArray]] = []
    for segment in log.segments:
        runs, cuts = RunColumns.of(log.plan(segment).runs), holes.get(segment.name)
        spans = paired(runs.position, runs.end)
        if cuts is not None:
            spans = outside(cuts, spans)
            if stop_at_first:
                kept.append((segment, spans[spans[:, 1] <= cuts[0, 0]]))
                break
        kept.append((segment, spans))
    copy = PartitionCopy(log, output / f"{log.topic}-{log.partition}", left_out, abort_open)
    try:
        filled = [(s, spans) for s, spans in kept if copy.is_copied(s, spans, s.name in holes)]
        markers = restored_markers(log, filled, not stop_at_first, copy.snapshots)
        for segment, spans in kept:
            restored = markers.get(segment.name, [])
            if rebuild:
                spans, rebuilt = with_rebuilt(log, segment, spans)
                restored = sorted([*restored, *rebuilt], key=lambda batch: batch.offset)
                copy.made.rebuilt += len(rebuilt)
            copy.segment(segment, spans, segment.name in holes, restored)
            copy.made.restored += [marker.offset for marker in markers.get(segment.name, [])]
        if copy.made.rebuilt:
            log.tell(
                f"{log.topic}-{log.partition}: {quantity(copy.made.rebuilt, 'batch')} rebuilt, because Kafka's Java code "
                "does not read the compressed data"
            )
        return copy.finish()
    except BaseException:
        shutil.rmtree(copy.made.path, ignore_errors=True)
        raise


class PartitionCopy:
    """Copies one partition. Each call of `segment` copies one segment."""

    log: PartitionLog
    source: Location
    names: list[str]
    snapshots: SourceSnapshots
    made: Salvaged
    state: State
    spans: SpanCopier
    scratch: Scratch
    gaps: bool
    misses_offsets: bool

    def __init__(self, log: PartitionLog, folder: Path, left_out: list[LeftOut], abort_open: bool = False) -> None:
        self.log = log
        self.source = log.directory.path
        foreign = {entry.path.name for entry in left_out}
        self._modes = modes_in(self.source)
        self.names = sorted(self._modes.keys() - foreign)
        self.snapshots = SourceSnapshots(log.snapshots, self.names)
        mode = mode_of(self.source) or 0
        folder.mkdir(mode | 0o700)
        self._folder = str(folder)
        self.made = Salvaged(log.topic, log.partition, folder, left_out=left_out, modes={"": mode})
        for segment in log.segments:
            self.made.mode &= self._modes.get(segment.name, ALL_FILE_BITS)
        self.state = State(marker_reader(log.max_batch_bytes))
        self.bases: list[int] = []
        self.spans = SpanCopier()
        self.scratch = Scratch()
        self.gaps = False
        """The copy lacks offsets. It depends only on copied batches, so that a second salvage changes nothing."""
        self.misses_offsets = False  # whether offsets are missing in the copy, between its first and its last offset
        self._aborts = abort_open

    def is_copied(self, source: SegmentFile, spans: IntArray, damaged: bool) -> bool:
        """Return whether the copy has a file for a segment of the source, as it always has for the last."""
        # The base offset in the name of the last file is a lower bound of the log end offset.
        return len(spans) > 0 or source.last or not (damaged or source.size)

    def segment(self, source: SegmentFile, spans: IntArray, damaged: bool, markers: list[Restored]) -> None:
        """Copy one segment, unless nothing in it can be copied."""
        if not self.is_copied(source, spans, damaged):
            return
        with FileView(source.place, fill_unreadable=True) as view:
            base = source.base_offset
            if base is None:
                base = self._walker(view, source).first_offset_at(int(spans[0, 0])) if len(spans) else 0
            inserted = insertions(self._walker(view, source), spans, markers, self.spans)
            mode, times = mode_and_times(source.place, view.status)
            name = file_name(base)
            self.made.modes[name] = mode
            self.bases.append(base)
            target = create_file(self._path(name), mode | OWNER)
            try:
                data = self.spans.copy(view, target, spans, inserted)
                if times is not None:  # Kafka's retention uses the modification time if batches have no timestamps
                    os.utime(target, ns=times)
            finally:
                os.close(target)
            self._index_copy_of(source, base, data)

    def _index_copy_of(self, source: SegmentFile, base: int, data: Buffer | None = None) -> None:
        """Call `_index`. Raise OSError if the batches cannot be indexed, although the source was verified."""
        try:
            self._index(base, data)
        except StructureError as error:
            known, path = self.log.stamps.get(source.name), str(source.path)
            if known is not None and stamp_of(source.path) != known:
                raise OSError(errno.EIO, f"the file changed while it was salvaged ({error.message})", path) from None
            raise OSError(errno.EINVAL, f"the batches cannot be indexed: {error.message}", path) from None

    def _walker(self, view: FileView, source: SegmentFile) -> Walker:
        return Walker(view, source.base_offset or 0, self.log.max_batch_bytes)

    def _remove(self, bases: list[int]) -> None:
        for base in bases:
            for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
                (self.made.path / file_name(base, suffix)).unlink(missing_ok=True)

    def _path(self, name: str) -> str:
        """Return the path of a file in the copied partition as a str. Creating a `Path` object is slower."""
        return f"{self._folder}/{name}"

    def _new(self, name: str, data: bytes, mode: int) -> None:
        """Write a rebuilt file, without permissions that a source file of the same name lacks."""
        # The owner may always read it, because it contains nothing that the segments do not contain.
        mode &= (self._modes.get(name, ALL_FILE_BITS) | 0o400) & ALL_FILE_BITS
        self.made.modes[name] = mode
        write_new(self._path(name), data, mode | OWNER, synced=False)

    def _snapshot(self, base: int) -> bytes | None:
        """Return the serialized entries of the source's snapshot at `base`."""
        # For the first segment, use the newest earlier snapshot if this snapshot cannot be used.
        return self.snapshots.at(base, self.state.producers, earlier=len(self.bases) == 1)

    def _add_producers(self, base: int) -> None:
        """Use the producers of the source's snapshot if the copy lacks offsets before the segment `base`."""
        self.gaps |= base > self.made.next_offset
        known = self._snapshot(base) if self.gaps else None
        if known and not self.state.producers.contain(known):
            self.state.producers = Producers(self.state.producers.states + known)

    def _index(self, base: int, data: Buffer | None = None) -> None:
        """Write the indexes of a copied segment (`data` if in memory), and the snapshot of the producers before it."""
        if data is not None:
            size = view_of(data).nbytes
            scan = core.scan_batches(data, self.scratch.table)
            if scan.position == size:
                table = self.scratch.table[: scan.count]
                self._write_indexes(base, size, [(0, data, table, None)] if scan.count else [])
                return
        with FileView(self._path(file_name(base))) as copied:
            walker = Walker(copied, base, self.log.max_batch_bytes, scratch=self.scratch)
            self._write_indexes(base, copied.size, walker.tables(0, copied.size))

    def _write_indexes(self, base: int, size: int, tables: Iterable[Table]) -> None:
        """Write the indexes and the producer snapshot of a copied segment of `size` bytes."""
        self._add_producers(base)
        name = file_name(base, "")
        mode = self.made.modes[f"{name}.log"]
        if len(self.bases) > 1 or len(self.state.producers):
            self._new(f"{name}.snapshot", snapshot_of(self.state.producers.states), self.made.mode)
        made = scan_tables(tables, base, self.state)
        if made.end < size:
            raise StructureError(
                made.error.message if made.error else "its offsets or its size do not fit into an index"
            )
        for suffix, data in zip((".index", ".timeindex"), made.indexes.take(), strict=True):
            self._new(name + suffix, data, mode)
        if made.aborted:
            self._new(f"{name}.txnindex", transaction_index_bytes(made.aborted), mode)
        lacks = made.next_offset - base > made.offsets
        self.gaps |= lacks
        self.misses_offsets |= lacks or (len(self.bases) > 1 and base > self.made.next_offset)
        self.made.next_offset = made.next_offset
        self.made.segments += 1
        self.made.batches += made.batches
        self.made.bytes += made.end

    def finish(self) -> Salvaged:
        """Write the partition's remaining files. Call this after all segments have been copied."""
        if not self.bases:
            base = (self.log.segments[0].base_offset or 0) if self.log.segments else 0
            self.bases.append(base)
            self._new(file_name(base), b"", self.made.mode)
            self._index(base)
        known = {name: offset for name, offset in self.log.directory.checkpoints.items() if offset >= 0}
        self.made.open = SerializedProducers(self.state.producers.open_states)
        if self._aborts and self.made.open:
            self._abort_transactions()
        start, end = self.bases[0], self.made.next_offset
        if end > self.bases[-1]:
            self._new(file_name(end, ".snapshot"), snapshot_of(self.state.producers.states), self.made.mode)
        # The log start offset can be below the first segment, because older segments can be in tiered storage.
        log_start = min(known.get(LOG_STARTS, start), end)
        epochs = self._epochs(log_start, end)
        self._new(LEADER_EPOCHS, leader_epochs_text(epochs).encode(), self.made.mode)
        self._correct_batches(epochs)
        self._copy_unchanged_files()
        if self.log.topic == CLUSTER_METADATA:
            return self.made
        self.made.offsets = {RECOVERY_POINTS: end, HIGH_WATERMARKS: min(known.get(HIGH_WATERMARKS) or end, end)}
        if LOG_STARTS in known:
            self.made.offsets[LOG_STARTS] = log_start
        if CLEANER_OFFSETS in known:
            self.made.offsets[CLEANER_OFFSETS] = min(known[CLEANER_OFFSETS], end)
        elif self.misses_offsets:  # without an entry, the missing offsets of the copy would be reported as lost
            self.made.offsets[CLEANER_OFFSETS] = start
        return self.made

    def _abort_transactions(self) -> None:
        """Append an abort marker for each open transaction, in a new segment."""
        # In a segment with old records, the markers, with the current time, would delay a broker's retention.
        end = self.made.next_offset
        epochs = self._epochs(0, end)
        markers = abort_markers(self.made.open, end, epochs[-1][0] if epochs else 0, now_millis())
        if not markers:
            return
        self.made.aborted = {producer_id: marker.offset for producer_id, marker in markers.items()}
        if self.bases[-1] == end:  # the last segment is empty
            self._remove([self.bases.pop()])
            self.made.segments -= 1
        self.bases.append(end)
        self._new(file_name(end), b"".join(marker.data for marker in markers.values()), self.made.mode)
        self.gaps = False  # add no producers from the source, because it has no snapshot for this segment
        self._index(end)

    def _epochs(self, start: int, end: int) -> Epochs:
        """Return the leader epochs of the checkpoint, if the batches agree, and later ones of the batches."""
        try:
            kept = (
                read_leader_epochs(read_text(self.source / LEADER_EPOCHS) or "") if LEADER_EPOCHS in self.names else []
            )
        except StructureError:
            kept = []
        # As in a broker's checkpoint, an epoch with batches below the log start offset starts at the log start offset.
        runs = self.state.epoch_runs
        below = sum(first <= start for _, first, _ in runs)
        runs = [(epoch, max(first, start), max(last, start)) for epoch, first, last in runs[max(below - 1, 0) :]]
        return within(trusted_epochs([e for e in kept if e[1] <= end], runs), start, end)

    def _correct_batches(self, epochs: Epochs) -> None:
        """Correct the leader epoch, which the CRC does not cover, of each copied batch that contradicts `epochs`."""
        if not epochs:
            return
        values, starts = np.array(epochs, np.int64).T
        runs = np.array(self.state.epoch_runs, np.int64).reshape(-1, 3)
        runs = runs[runs[:, 2] >= starts[0]]
        at = np.searchsorted(starts, np.maximum(runs[:, 1], starts[0]), "right") - 1
        wrong = runs[(values[at] != runs[:, 0]) | (np.searchsorted(starts, runs[:, 2], "right") - 1 != at)]
        following = np.searchsorted(wrong[:, 2], self.bases)  # the first wrong run that ends in each segment or later
        count = 0
        for i in np.flatnonzero(following < np.searchsorted(wrong[:, 1], [*self.bases[1:], NO_END])).tolist():
            path, found = self._path(file_name(self.bases[i])), list[tuple[int, int]]()
            with FileView(path) as view:
                for position, _, table, _ in Walker(view, self.bases[i], self.log.max_batch_bytes).tables(0, view.size):
                    at = np.searchsorted(starts, table["base_offset"], "right") - 1
                    rows = (at >= 0) & (table["magic"] >= MAGIC_V2) & (table["leader_epoch"] >= 0)
                    rows &= table["leader_epoch"] != values[at]
                    found += zip((position + table["position"][rows]).tolist(), values[at[rows]].tolist(), strict=True)
            status = os.stat(path)
            with open(path, "r+b") as file:
                for position, epoch in found:
                    file.seek(position + LEADER_EPOCH_AT)
                    file.write(epoch.to_bytes(4, "big"))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            count += len(found)
        if count:
            self.log.tell(
                f"{self.log.topic}-{self.log.partition}: corrected the leader epoch of {quantity(count, 'batch')}, "
                "which contradicts the other batches or the leader epoch checkpoint"
            )

    def _copy_unchanged_files(self) -> None:
        """Copy `partition.metadata`, and for the metadata log the KRaft snapshots and the `quorum-state` file."""
        for name in self.names:
            if name == PARTITION_METADATA:
                try:
                    read_partition_metadata(read_text(self.source / name) or "")
                except StructureError as error:
                    reason = error.message.removeprefix(f"{name}: ")
                    self.log.tell(
                        f"{self.source / name}: not copied: {reason}; a broker would treat the partition as a stray"
                    )
                    continue
            elif name != QUORUM_STATE and not name.endswith(KRAFT_SNAPSHOT):
                continue
            mode = narrowed_mode(ALL_FILE_BITS | 0o111, self.source / name)
            problem = copy_readable(self.source / name, self.made.path / name, mode | OWNER)
            if problem is None:
                self.made.modes[name] = mode
                continue
            code = "unreadable_checkpoint" if name == QUORUM_STATE else "unreadable_snapshot"
            self.made.findings.append(Finding(name, code, f"{name}: not copied: {problem}"))
            self.log.tell(f"{self.source / name}: not copied: {problem}")

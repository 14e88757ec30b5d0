"""A damaged partition copied clean: what is intact byte for byte, all beside it made anew, so that a broker mounts it.

Each segment keeps its name. What the plan delivers of it is copied in the order of offsets, inside the kernel; then the
copy is read through, every CRC checked once more, for its indexes and for what a broker knows of producers and leaders.
A segment is cut in two where an index could not hold it. The log directory's own files come last, and of those
meta.properties and the mark of a clean end, so that no broker starts on a copy that was broken off.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import KafkaFormatError, StructureError
from . import files
from .checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    clean_shutdown_text,
    leader_epochs_text,
    offset_checkpoint_text,
    read_leader_epochs,
    read_meta_properties,
    read_partition_metadata,
)
from .directory import SegmentFile
from .entries import transaction_index_bytes
from .epochs import Epochs, believable_epochs, within
from .files import FileView
from .indexing import MAX_RELATIVE_OFFSET, MAX_SEGMENT_BYTES, State, read_through
from .names import snapshot_offset_of
from .partition import PartitionLog
from .plan import Damage
from .producers import Producers, marker_reader
from .snapshots import ProducerEntry, read_snapshot, snapshot_bytes
from .walk import Walker

BOOTSTRAP = "bootstrap.checkpoint"
CLUSTER_METADATA = "__cluster_metadata"
"""The topic whose offsets stand in no checkpoint."""
QUORUM_STATE = "quorum-state"
KRAFT_SNAPSHOT = ".checkpoint"

Piece = tuple[int, int]
"""Position and end of batches that lie back to back."""


@dataclass
class Salvaged:
    """A partition's copy. next_offset: its end. offsets: what each of the offset checkpoints has to say of it.

    open: the producers whose transactions nothing in it ends, the oldest transaction first.
    """

    topic: str
    partition: int
    path: Path
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    next_offset: int = 0
    offsets: dict[str, int] = field(default_factory=dict)
    open: list[ProducerEntry] = field(default_factory=list)


def salvage_partition(log: PartitionLog, damaged: Iterable[Damage], output: Path, stop_at_first: bool = False) -> Salvaged:
    """Copy what is intact into a new directory below `output`.

    damaged: what `verify_partition` found, batches whose records cannot be read among it. stop_at_first: only what
    precedes the first of it, as a broker would keep it.
    """
    copy = _Copy(log, output / f"{log.topic}-{log.partition}")
    spans: dict[str, list[Damage]] = {s.name: [] for s in log.segments}
    for damage in damaged:
        spans[damage.file].append(damage)
    for segment in log.segments:
        holes = sorted((d.position, d.position + d.length) for d in spans[segment.name])
        pieces = [piece for e in log.plan(segment).extents for piece in _around(holes, (e.position, e.end))]
        if stop_at_first and holes:
            pieces = [p for p in pieces if p[1] <= holes[0][0]]
        copy.segment(segment, pieces, bool(holes))
        if stop_at_first and holes:
            break
    return copy.finish()


def _around(holes: list[Piece], piece: Piece) -> list[Piece]:
    """What of a piece lies between holes."""
    start, end = piece
    parts = []
    for a, b in holes:
        if start <= a < end:
            parts.append((start, a))
            start = b
    return [p for p in [*parts, (start, end)] if p[0] < p[1]]


def _parts(walker: Walker, pieces: list[Piece], base: int, highest: int) -> Iterator[tuple[int, list[Piece]]]:
    """The pieces as segments that an index can hold, each with its base offset: most often the one segment they were."""
    if sum(end - start for start, end in pieces) <= MAX_SEGMENT_BYTES and highest - base <= MAX_RELATIVE_OFFSET:
        yield base, pieces
        return
    part: list[Piece] = []
    size = 0
    for piece in pieces:
        for position, _, table, _ in walker.tables(*piece):
            for i in range(len(table)):
                (batch,) = walker.runs(table[i : i + 1], position)
                length = batch.end - batch.position
                if batch.last_offset - base > MAX_RELATIVE_OFFSET or size + length > MAX_SEGMENT_BYTES:
                    if part:
                        yield base, part
                    base, part, size = batch.first_offset, [], 0
                if part and part[-1][1] == batch.position:
                    part[-1] = part[-1][0], batch.end
                else:
                    part.append((batch.position, batch.end))
                size += length
    yield base, part


class _Copy:
    """A partition's copy while it grows."""

    def __init__(self, log: PartitionLog, folder: Path) -> None:
        folder.mkdir()
        self.log = log
        self.made = Salvaged(log.topic, log.partition, folder)
        self.source = log.directory.path
        self.names = files.list_directory(self.source)[1]
        self.state = State(marker_reader(log.max_batch_bytes))
        self.bases: list[int] = []
        self.unsure = True
        """Batches are missing that a snapshot knows of."""

    def segment(self, source: SegmentFile, pieces: list[Piece], hurt: bool) -> None:
        """Copy one segment, unless nothing is left of it; the last one stays, since its name tells where the log ends."""
        if not pieces and (hurt or source.size) and not source.last:
            self.unsure = True
            return
        with FileView(source.path) as view:
            times = os.stat(source.path)
            walker = Walker(view, source.base_offset or 0, self.log.max_batch_bytes)
            base = source.base_offset
            if base is None:
                base = walker.first_offset_at(pieces[0][0]) if pieces else 0
            for part_base, part in _parts(walker, pieces, base, self.log.plan(source).next_offset or base):
                path = self._path(part_base, ".log")
                target = files.create(path)
                try:
                    for start, end in part:
                        view.transfer(target, start, end)
                    os.fsync(target)
                finally:
                    os.close(target)
                self._index(path, part_base)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # by which old formats are retained
        self.unsure = self.unsure or hurt

    def _path(self, offset: int, suffix: str) -> Path:
        return self.made.path / f"{offset:020}{suffix}"

    def _snapshot(self, offset: int) -> list[ProducerEntry] | None:
        """The newest snapshot up to an offset that can be read, where the copy holds nothing between it and there."""
        for at in sorted((o for n in self.names if (o := snapshot_offset_of(n)) is not None and o <= offset), reverse=True):
            if self.bases and at < offset:
                return None
            try:
                known = read_snapshot(files.read_bytes(self.source / f"{at:020}.snapshot") or b"")
            except KafkaFormatError:
                continue
            if all(p.last_offset < at and p.txn_first_offset < at for p in known):
                return known
        return None

    def _index(self, path: Path, base: int) -> None:
        """Read a copied segment through and make what lies beside it."""
        self.unsure = self.unsure and base > 0
        if self.unsure and (known := self._snapshot(base)) is not None:
            self.state.producers, self.unsure = Producers(known), False
        entries = self.state.producers.entries
        if self.bases or entries:
            files.write_new(self._path(base, ".snapshot"), snapshot_bytes(entries.values()))
        with FileView(path) as view:
            made = read_through(view, base, self.state, max_batch_bytes=self.log.max_batch_bytes)
            if made.end < view.size:
                raise OSError(errno.EIO, f"the file changed while it was copied ({made.error})", str(self.source / path.name))
        for suffix, data in zip((".index", ".timeindex"), made.indexes.take(), strict=True):
            files.write_new(path.with_suffix(suffix), data)
        if made.aborted:
            files.write_new(path.with_suffix(".txnindex"), transaction_index_bytes(made.aborted))
        self.bases.append(base)
        self.made.next_offset = made.next_offset
        self.made.segments += 1
        self.made.batches += made.batches
        self.made.bytes += made.end

    def finish(self) -> Salvaged:
        """What lies beside the segments."""
        folder = self.made.path
        if not self.bases:
            base = (self.log.segments[0].base_offset or 0) if self.log.segments else 0
            files.write_new(self._path(base, ".log"), b"")
            self._index(self._path(base, ".log"), base)
        start, end = self.bases[0], self.made.next_offset
        self.made.open = self.state.producers.open_transactions
        if end > self.bases[-1]:
            files.write_new(self._path(end, ".snapshot"), snapshot_bytes(self.state.producers.entries.values()))
        known = self.log.directory.checkpoints
        log_start = min(known.get(LOG_STARTS, start), end)  # below the first segment, where that is in tiered storage
        files.write_new(folder / LEADER_EPOCHS, leader_epochs_text(self._epochs(log_start, end)).encode())
        self._copy_as_it_is()
        files.sync_directory(folder)
        if self.log.topic == CLUSTER_METADATA:
            return self.made
        self.made.offsets = {RECOVERY_POINTS: end, HIGH_WATERMARKS: min(known.get(HIGH_WATERMARKS) or end, end)}
        if LOG_STARTS in known:
            self.made.offsets[LOG_STARTS] = log_start
        if CLEANER_OFFSETS in known:
            self.made.offsets[CLEANER_OFFSETS] = min(known[CLEANER_OFFSETS], end)
        return self.made

    def _epochs(self, start: int, end: int) -> Epochs:
        """The source's leader epochs where the batches agree with them, else what the batches tell."""
        told = believable_epochs(self.state.epoch_changes)
        try:
            kept = read_leader_epochs(files.read_text(self.source / LEADER_EPOCHS) or "")
        except StructureError:
            kept = []
        for epoch, offset in told:
            at = [e for e, first in kept if first <= offset]
            if not kept or (at and at[-1] != epoch and epoch <= kept[-1][0]):
                return within(told, start, end)
        newer = [(e, o) for e, o in told if kept and e > kept[-1][0] and o >= kept[-1][1]]
        return within([*kept, *newer], start, end)

    def _copy_as_it_is(self) -> None:
        """The topic's id; of the metadata log its snapshots and what its voters agreed on."""
        for name in self.names:
            if name == PARTITION_METADATA:
                try:
                    read_partition_metadata(files.read_text(self.source / name) or "")
                except StructureError as error:
                    self.log.tell(f"{self.source / name}: left out, {error.message}: a broker would call the partition a stray")
                    continue
            elif name != QUORUM_STATE and not name.endswith(KRAFT_SNAPSHOT):
                continue
            _copy_file(self.source / name, self.made.path / name)


def _copy_file(source: Path, target: Path) -> None:
    with FileView(source) as view:
        handle = files.create(target)
        try:
            view.transfer(handle, 0, view.size)
            os.fsync(handle)
        finally:
            os.close(handle)


def finish_directory(output: Path, partitions: Iterable[Salvaged], roots: Iterable[Path]) -> list[str]:
    """The files of the log directory itself, once its partitions are there; what is worth saying about them.

    roots: the directories that the partitions came from; of several that have a meta.properties the first one's is taken.
    """
    messages = []
    made = list(partitions)
    for name in OFFSET_CHECKPOINTS:
        offsets = {(p.topic, p.partition): p.offsets[name] for p in made if name in p.offsets}
        files.write_new(output / name, offset_checkpoint_text(offsets).encode())
    identity = None
    for root in roots:
        try:
            text = files.read_text(root / META_PROPERTIES)
            if text is None:
                continue
            read_meta_properties(text)
        except StructureError as error:
            messages.append(f"{root / META_PROPERTIES}: left out, {error.message}")
            continue
        if identity is not None:
            messages.append(f"{output}: has the {META_PROPERTIES} of {identity}, not that of {root}")
            continue
        identity = root
    if identity is None:
        messages.append(f"{output}: no {META_PROPERTIES}; a broker needs one (kafka-storage format writes it)")
    elif files.file_size(identity / BOOTSTRAP) is not None:
        _copy_file(identity / BOOTSTRAP, output / BOOTSTRAP)
    files.write_new(output / CLEAN_SHUTDOWN, clean_shutdown_text().encode())
    if identity is not None:
        _copy_file(identity / META_PROPERTIES, output / META_PROPERTIES)
    files.sync_directory(output)
    return messages

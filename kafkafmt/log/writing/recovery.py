"""Opening a partition that will be written to, as a broker opens it (Kafka: LogLoader, LogSegment.recover).

After a clean end only the last segment is read through; else every one from the recovery point on. What is not sound at
the log's end is cut off, and indexes that differ from what the batches tell are made anew. A broker would cut at any
damage and delete what follows; here that is done only where it is asked for, since what follows may be sound.
"""

from __future__ import annotations

import itertools
import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...constants import DEFAULT_MAX_BATCH_BYTES
from ...errors import KafkaFormatError, StructureError
from ..format import files
from ..format.checkpoints import LEADER_EPOCHS, read_leader_epochs
from ..format.files import FileView
from ..format.index_entries import transaction_index_bytes
from ..format.leader_epochs import Epochs, assigned, believable_runs, epochs_from, within
from ..format.names import base_offset_of, snapshot_offset_of
from ..format.producers import Producers, marker_reader
from ..format.snapshots import read_snapshot
from ..reading.discovery import SegmentFile
from ..reading.partition import DamagedLogError
from ..reading.plan import Damage, plan_segment
from .active import SUFFIXES
from .index_builder import MAX_SEGMENT_BYTES, State, read_through
from .index_builder import Segment as Read

BESIDE = (".index", ".timeindex", ".txnindex")
_OFFSET = re.compile(r"[0-9]{20}\Z")


@dataclass
class Loaded:
    """A partition as it was opened. bases: its segments'. last: the last one, read through. cut: what was cut off."""

    bases: list[int]
    last: Read
    state: State
    epochs: Epochs
    cut: list[Damage] = field(default_factory=list)


def path_of(folder: Path, offset: int, suffix: str = ".log") -> Path:
    return folder / f"{offset:020}{suffix}"


def load(folder: Path, log_start: int, recovery_point: int | None, interval: int, truncate_at_damage: bool) -> Loaded:
    """Open a partition directory for writing.

    recovery_point: the first offset that may not be on disk; None after a clean end. DamagedLogError where sound
    batches follow damage, unless `truncate_at_damage`.
    """
    bases, whole = _tidy(folder)
    if not bases:
        make_segment(folder, log_start)
        bases = [log_start]
    first = len(bases) - 1 if recovery_point is None else max(bisect_right(bases, recovery_point) - 1, 0)
    first = next((i for i in range(first) if bases[i] not in whole), first)
    epochs = _epoch_checkpoint(folder)
    known, begin = _newest_snapshot(folder, bases, 0 if epochs is None else first)  # without it every batch is asked
    state, cut = State(marker_reader(DEFAULT_MAX_BATCH_BYTES), known), []
    made: Read | None = None
    for i in range(begin, len(bases)):
        with FileView(path_of(folder, bases[i])) as view:
            made = read_through(view, bases[i], state, interval, MAX_SEGMENT_BYTES)  # whatever was appended is sound
            size = view.size
        if made.end < size:
            damage = _damage(folder, bases, i, made, size)
            if damage.last_offset is not None and not truncate_at_damage:
                raise DamagedLogError(damage, str(folder))
            files.truncate(path_of(folder, bases[i]), made.end)
            for base in reversed(bases[i + 1 :]):
                delete_segment(folder, base)
            bases = bases[: i + 1]
            cut.append(damage)
        if i >= first or cut:
            _write_indexes(folder, bases[i], made)
            if recovery_point is not None:
                files.sync(path_of(folder, bases[i]))
        if cut:
            break
    assert made is not None
    for name in files.list_directory(folder)[1]:
        offset = snapshot_offset_of(name)
        if offset is not None and offset > made.next_offset:
            (folder / name).unlink()
    epochs = within(_with_later(epochs or [], state), log_start, made.next_offset)
    return Loaded(bases, made, state, epochs, cut)


def _tidy(folder: Path) -> tuple[list[int], set[int]]:
    """The segments' base offsets, and those that have both indexes.

    Files that a crash left half made, indexes without their segment, and snapshots that cannot be read, go.
    """
    names = files.list_directory(folder)[1]
    bases = sorted(b for n in names if (b := base_offset_of(n)) is not None)
    for name in names:
        stem, suffix = os.path.splitext(name)
        orphan = suffix in BESIDE and _OFFSET.match(stem) is not None and int(stem) not in bases
        if (
            suffix == ".tmp"
            or orphan
            or (snapshot_offset_of(name) is not None and _read_snapshot(folder / name) is None)
        ):
            (folder / name).unlink()
    return bases, {b for b in bases if all(path_of(folder, b, s).name in names for s in SUFFIXES)}


def _read_snapshot(path: Path) -> Producers | None:
    try:
        return Producers(read_snapshot(files.read_bytes(path) or b""))
    except KafkaFormatError:
        return None


def _newest_snapshot(folder: Path, bases: Sequence[int], first: int) -> tuple[Producers, int]:
    """The producers before a segment, by the newest snapshot that can be read, and the segment to go on from with them."""
    for i in range(first, 0, -1):
        if (known := _read_snapshot(path_of(folder, bases[i], ".snapshot"))) is not None:
            return known, i
    return _read_snapshot(path_of(folder, bases[0], ".snapshot")) or Producers(), 0


def _damage(folder: Path, bases: Sequence[int], i: int, made: Read, size: int) -> Damage:
    """What stands behind the last sound batch; its last offset is None where nothing sound follows."""
    error = made.error or StructureError("the segment cannot hold the next batch's offsets", made.end)
    path = path_of(folder, bases[i])
    following = bases[i + 1] if i + 1 < len(bases) else None
    plan = plan_segment(SegmentFile(path, bases[i], following, following is None, size), MAX_SEGMENT_BYTES)
    behind = [e.first_offset for e in plan.extents if e.first_offset >= made.next_offset]
    last = min(behind) - 1 if behind else following - 1 if following is not None else None
    return Damage(path.name, made.end, size - made.end, made.next_offset, last, error.code, error.message)


def _write_indexes(folder: Path, base: int, made: Read) -> None:
    """The three indexes of a segment, where they are not what its batches tell."""
    wanted = [*made.indexes.take(), transaction_index_bytes(made.aborted)]
    for suffix, data in zip(BESIDE, wanted, strict=True):
        path = path_of(folder, base, suffix)
        there = files.read_bytes(path)
        if there != data and (data or suffix != ".txnindex"):
            files.replace(path, data, files.narrowed(files.NEW_FILE, path_of(folder, base)))
        elif there and not data:
            path.unlink()


def _epoch_checkpoint(folder: Path) -> Epochs | None:
    """The leader epochs that the checkpoint has; None where it is missing or cannot be believed."""
    try:
        text = files.read_text(folder / LEADER_EPOCHS)
        epochs = read_leader_epochs(text) if text else None
    except StructureError:
        return None
    rise = epochs is not None and all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(epochs))
    return epochs if rise else None


def _with_later(epochs: Epochs, state: State) -> Epochs:
    """These, and the later ones that batches name."""
    for epoch, offset in epochs_from(believable_runs(state.epoch_runs)):
        if not epochs or epoch > epochs[-1][0]:
            epochs = assigned(epochs, epoch, offset)
    return epochs


def make_segment(folder: Path, base: int, mode: int = files.NEW_FILE) -> None:
    """Create the files of an empty segment; the `.log` last, because the other files count only with it."""
    for suffix in reversed(SUFFIXES):
        path_of(folder, base, suffix).unlink(missing_ok=True)
        files.write_new(path_of(folder, base, suffix), b"", mode)
    files.sync_directory(folder)


def delete_segment(folder: Path, base: int) -> None:
    """A segment's files; the `.log` first, without which the others are nothing."""
    for suffix in (".log", *BESIDE):
        path_of(folder, base, suffix).unlink(missing_ok=True)

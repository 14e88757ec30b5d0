"""Open a partition directory for writing, and recover it after a crash.

Kafka's counterparts are ``LogLoader`` and ``LogSegment.recover``. After a clean shutdown, only the
last segment is read, otherwise all segments from the recovery point. Invalid data at the end of the
log is truncated, and indexes that do not match the batches are rebuilt. First, interrupted_swaps.py
completes a replacement of segments.

A broker truncates the log at any damage. This module does so only if the caller requests it,
because valid batches may follow the damage.
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
from ..catalog import SegmentFile
from ..damage import ReadLimits, plan_segment
from ..findings import Damage, DamagedLogError
from ..formats import (
    LEADER_EPOCHS,
    Epochs,
    Producers,
    assigned,
    base_offset_of,
    believable_runs,
    epochs_from,
    file_name,
    marker_reader,
    read_leader_epochs,
    snapshot_offset_of,
    states_in,
    transaction_index_bytes,
    within,
)
from ..storage import (
    NEW_FILE,
    FileView,
    file_differs,
    list_directory,
    narrowed_mode,
    read_bytes,
    read_text,
    replace_file,
    sync_directory,
    sync_file,
    truncate_file,
    write_new,
)
from .active import SEGMENT_SUFFIXES, path_of
from .index_builder import MAX_SEGMENT_BYTES, SegmentScan, State, read_through
from .interrupted_swaps import complete_swaps

INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
_OFFSET = re.compile(r"[0-9]{20}\Z")


@dataclass
class Loaded:
    """The state of a partition that was opened for writing."""

    bases: list[int]  # base offsets of the segments, in increasing order
    last: SegmentScan  # the result of reading the last segment
    state: State  # state of the producers and leader epochs at the end of the log
    epochs: Epochs  # leader epochs of the log, with their first offsets
    cut: list[Damage] = field(default_factory=list)  # damaged data that was truncated


def load(folder: Path, log_start: int, recovery_point: int | None, interval: int, truncate_at_damage: bool) -> Loaded:
    """Open a partition directory for writing, and recover it if necessary."""
    # If there is no segment, one is created at `log_start`. Offsets before `recovery_point` are on disk; it is None
    # after a clean shutdown. DamagedLogError: valid batches follow damage and `truncate_at_damage` is False, or a
    # `.log.swap` file is damaged.
    complete_swaps(folder)
    bases, whole = _tidy(folder)
    if not bases:
        make_segment(folder, log_start)
        bases = [log_start]
    first = len(bases) - 1 if recovery_point is None else max(bisect_right(bases, recovery_point) - 1, 0)
    first = next((i for i in range(first) if bases[i] not in whole), first)
    epochs = _epoch_checkpoint(folder)
    # Without a valid leader epoch checkpoint, all batches must be read to find their leader epochs.
    known, begin = _newest_snapshot(folder, bases, 0 if epochs is None else first)
    state, cut = State(marker_reader(DEFAULT_MAX_BATCH_BYTES), known), []
    made: SegmentScan | None = None
    for i in range(begin, len(bases)):
        with FileView(path_of(folder, bases[i])) as view:
            # Batch size limits apply only to readers, so recovery accepts batches of any size.
            made = read_through(view, bases[i], state, interval, MAX_SEGMENT_BYTES)
            size = view.size
        if made.end < size:
            damage = _damage(folder, bases, i, made, size)
            if damage.last_offset is not None and not truncate_at_damage:
                raise DamagedLogError(damage, str(folder))
            truncate_file(path_of(folder, bases[i]), made.end)
            for base in reversed(bases[i + 1 :]):
                delete_segment(folder, base)
            bases = bases[: i + 1]
            cut.append(damage)
        if i >= first or cut:
            _write_indexes(folder, bases[i], made)
            if recovery_point is not None:
                sync_file(path_of(folder, bases[i]))
        if cut:
            break
    assert made is not None
    for name in list_directory(folder)[1]:
        offset = snapshot_offset_of(name)
        if offset is not None and offset > made.next_offset:
            (folder / name).unlink()
    epochs = within(_with_later(epochs or [], state), log_start, made.next_offset)
    return Loaded(bases, made, state, epochs, cut)


def _tidy(folder: Path) -> tuple[list[int], set[int]]:
    """Delete files that remain from a crash. Return all base offsets, and those of the segments with both indexes."""
    directories, names = list_directory(folder)
    existing = set(names).difference(directories)  # Kafka ignores a directory named like a segment
    names = sorted(existing)
    bases = sorted(b for n in names if (b := base_offset_of(n)) is not None)
    known = set(bases)
    for name in names:
        stem, suffix = os.path.splitext(name)
        orphan = suffix in INDEX_SUFFIXES and _OFFSET.match(stem) is not None and int(stem) not in known
        if (
            suffix == ".tmp"
            or orphan
            or (snapshot_offset_of(name) is not None and _read_snapshot(folder / name) is None)
        ):
            (folder / name).unlink()
    return bases, {b for b in bases if all(file_name(b, s) in existing for s in SEGMENT_SUFFIXES)}


def _read_snapshot(path: Path) -> Producers | None:
    try:
        return Producers(states_in(read_bytes(path) or b""))
    except KafkaFormatError:
        return None


def _newest_snapshot(folder: Path, bases: Sequence[int], first: int) -> tuple[Producers, int]:
    """Return the newest readable producer snapshot at the start of segment `first` or before, and that segment."""
    for i in range(first, 0, -1):
        if (known := _read_snapshot(path_of(folder, bases[i], ".snapshot"))) is not None:
            return known, i
    return _read_snapshot(path_of(folder, bases[0], ".snapshot")) or Producers(), 0


def _damage(folder: Path, bases: Sequence[int], i: int, made: SegmentScan, size: int) -> Damage:
    """Return the damage after the valid batches at the start of the segment with index `i`."""
    # `Damage.last_offset` is None if no valid batch follows the damage in this or a later segment.
    error = made.error or StructureError("the next batch's offset or position is too large for the segment", made.end)
    path = path_of(folder, bases[i])
    following = bases[i + 1] if i + 1 < len(bases) else None
    plan = plan_segment(
        SegmentFile(folder, path.name, following, following is None, size), ReadLimits(MAX_SEGMENT_BYTES)
    )
    later = [e.first_offset for e in plan.runs if e.first_offset >= made.next_offset]
    last = min(later) - 1 if later else following - 1 if following is not None else None
    return Damage(path.name, made.end, size - made.end, made.next_offset, last, error.code, error.message)


def _write_indexes(folder: Path, base: int, made: SegmentScan) -> None:
    """Write the indexes of a segment, except those that already match its batches."""
    wanted = [*made.indexes.take(), transaction_index_bytes(made.aborted)]
    for suffix, data in zip(INDEX_SUFFIXES, wanted, strict=True):
        path = path_of(folder, base, suffix)
        if not file_differs(path, data):
            continue
        if data or suffix != ".txnindex":
            replace_file(path, data, narrowed_mode(NEW_FILE, path_of(folder, base)))
        else:
            path.unlink(missing_ok=True)


def _epoch_checkpoint(folder: Path) -> Epochs | None:
    """Return the entries of the leader epoch checkpoint, or None if it is missing, unreadable or out of order."""
    try:
        text = read_text(folder / LEADER_EPOCHS)
        epochs = read_leader_epochs(text) if text else None
    except StructureError:
        return None
    increase = epochs is not None and all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(epochs))
    return epochs if increase else None


def _with_later(epochs: Epochs, state: State) -> Epochs:
    """Return `epochs`, followed by all higher leader epochs that the batches contain."""
    for epoch, offset in epochs_from(believable_runs(state.epoch_runs)):
        if not epochs or epoch > epochs[-1][0]:
            epochs = assigned(epochs, epoch, offset)
    return epochs


def make_segment(folder: Path, base: int, mode: int = NEW_FILE) -> None:
    """Create the files of an empty segment, the `.log` file last."""
    # After a crash before that, recovery deletes the indexes.
    for suffix in reversed(SEGMENT_SUFFIXES):
        path_of(folder, base, suffix).unlink(missing_ok=True)
        write_new(path_of(folder, base, suffix), b"", mode)
    sync_directory(folder)


def delete_segment(folder: Path, base: int) -> None:
    """Delete the files of a segment, the `.log` file first."""
    # After a crash, recovery deletes the remaining indexes.
    for suffix in (".log", *INDEX_SUFFIXES):
        path_of(folder, base, suffix).unlink(missing_ok=True)

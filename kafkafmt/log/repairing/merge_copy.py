"""Write the merged log of several replicas to a temporary partition directory, which is the input of `salvage`.

A merged segment that is identical to a segment file of a replica becomes a symbolic link to it, so
that its bytes are copied only once. All other segments are written batch by batch.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...errors import StructureError
from ...support.paths import Location, UrlPath
from ...types import distinct, divided_at
from ..catalog import PartitionDir, SegmentFile
from ..findings import Damage
from ..formats import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    PARTITION_METADATA,
    Aborted,
    file_name,
    joined_epochs,
    leader_epochs_text,
    read_partition_metadata,
    segment_name_of,
    snapshot_offset_of,
    transaction_index_bytes,
    uuid_bytes,
)
from ..reading import MISSING_END
from ..storage import (
    FileView,
    SpanCopier,
    create_file,
    file_size,
    list_directory,
    narrowed_mode,
    path_exists,
    read_text,
    times_of,
    write_all,
    write_new,
)
from ..transactions import IndexEntries
from .merge_choice import batch_bytes
from .merge_replica import Headers, Replica, lost_ranges, missing_end, usable_epochs
from .salvage_copy import CLUSTER_METADATA, KRAFT_SNAPSHOT, QUORUM_STATE
from .salvage_files import copy_file
from .salvage_source import ALL_FILE_BITS
from .salvaged import OWNER

LOST = "valid_in_no_replica"  # error code of a range of offsets that is valid in no replica


@dataclass(frozen=True)
class SourceRange:
    """A range of offsets of a merged partition, and the replica that the range was copied from.

    Attributes
    ----------
    path : str
        The partition directory of the replica.
    first_offset, last_offset : int
        The first and the last offset of the range.
    """

    path: str
    first_offset: int
    last_offset: int

    def to_dict(self) -> dict[str, str | int]:
        """Return the range as it appears in the JSON output."""
        return {"path": self.path, "first_offset": self.first_offset, "last_offset": self.last_offset}


def source_ranges(replicas: Sequence[Replica], merged: Headers) -> tuple[SourceRange, ...]:
    """Return the source replica of each offset range in the merged log, in offset order."""
    if not len(merged):
        return ()
    begins = np.concatenate(([0], np.flatnonzero(merged["replica"][1:] != merged["replica"][:-1]) + 1))
    ends = np.append(begins[1:], len(merged)) - 1
    columns = merged["replica"][begins], merged["first"][begins], merged["last"][ends]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(SourceRange(replicas[r].path, first, last) for r, first, last in rows)


def diverged_ranges(replicas: Sequence[Replica]) -> tuple[SourceRange, ...]:
    """Return the offset ranges of replicas that are not merged, because the replica has diverged from the leader."""
    found = (SourceRange(r.path, max(r.usable_end, r.start), r.end - 1) for r in replicas if r.diverged)
    return tuple(r for r in found if r.first_offset <= r.last_offset)


def checked_topic_ids(replicas: Sequence[Replica]) -> list[Location]:
    """Return the paths of the replicas' `partition.metadata` files with a topic id. OSError: the topic ids differ."""
    found: list[Location] = []
    ids: dict[bytes, str] = {}
    for replica in replicas:
        path = replica.log.directory.path / PARTITION_METADATA
        try:
            text = None if PARTITION_METADATA in replica.log.directory.ignored else read_text(path)
            topic_id = None if text is None else read_partition_metadata(text)["topic_id"]
        except StructureError as error:
            replica.log.tell(f"{path}: not used: {error.message.removeprefix(f'{PARTITION_METADATA}: ')}")
            continue
        if topic_id is not None:
            found.append(path)
            ids.setdefault(uuid_bytes(topic_id), f"{topic_id} in {path.parent}")
    if len(ids) > 1:
        raise OSError(
            errno.EINVAL,
            f"the replicas belong to different topics with the same name (topic id {', '.join(ids.values())}); "
            "pass only directories with the same topic id",
        )
    return found


class MergedDirectory:
    """Writes the merged log of several replicas of one partition into a new directory."""

    # `replicas` begin with the leader. `advance` is called with the size of each written segment. `write` sets
    # `directory` and `lost`, whose lengths are 0: the merged segments contain no bytes of these ranges.

    replicas: Sequence[Replica]
    merged: Headers
    folder: Path
    directory: PartitionDir
    lost: list[Damage]

    def __init__(
        self, replicas: Sequence[Replica], merged: Headers, folder: Path, advance: Callable[[int], None]
    ) -> None:
        self.replicas, self.merged, self.folder = replicas, merged, folder
        self._advance = advance
        self._spans = SpanCopier()
        self._leader = replicas[0]
        paths = [segment.path for replica in replicas for segment in replica.log.segments]
        self._segment_mode = narrowed_mode(ALL_FILE_BITS | 0o111, *paths)

    def write(self) -> None:
        metadata = checked_topic_ids(self.replicas)
        sources = [replica.log.directory.path for replica in self.replicas]
        self.folder.mkdir(narrowed_mode(0o777, *sources) | 0o700)
        bases = self._bases()
        places = np.searchsorted(self.merged["first"], bases[1:]).tolist()
        borders = [0, *places, len(self.merged)]
        segments = []
        for i, base in enumerate(bases):
            rows = self.merged[borders[i] : borders[i + 1]]
            self._segment(base, rows)
            following = bases[i + 1] if i + 1 < len(bases) else None
            segments.append(SegmentFile(self.folder, file_name(base), following, following is None))
            self._advance(int(rows["size"].astype(np.int64).sum()))
        checkpoints = self._checkpoints(bases[0])
        topic, partition = self._leader.log.directory.key
        self.directory = PartitionDir(
            topic,
            partition,
            self.folder,
            "live",
            segments,
            checkpoints.get(LOG_STARTS, 0),
            CLEANER_OFFSETS in checkpoints,
            checkpoints=checkpoints,
        )
        self._other_files(bases, metadata)
        self.lost = self._lost(bases)

    def _bases(self) -> list[int]:
        """Return the base offsets of the merged segments."""
        # They are those of the leader's segments, and before and after these, those of the other replicas.
        bases: list[int] = []
        low = high = -1
        for replica in self.replicas:
            own = [
                s.base_offset
                for s in replica.log.segments
                if s.base_offset is not None and (s.base_offset < replica.usable_end or replica is self._leader)
            ]
            usable = replica.usable_headers()
            ends = int(usable["last"][-1]) if len(usable) else own[-1] if own else -1
            if own and high < 0:
                bases, low, high = own, own[0], max(ends, own[-1])
            elif own:
                bases += [base for base in own if base < low or base > high]
                low, high = min(low, own[0]), max(high, ends)
        first = int(self.merged["first"][0]) if len(self.merged) else None
        if not bases or (first is not None and first < min(bases)):
            bases.append(first or 0)
        used = sorted({self._border(base) for base in bases})
        counts = np.diff(np.searchsorted(self.merged["first"], [*used[1:], np.iinfo(np.int64).max]), prepend=0)
        if first is not None:  # segments before the first batch are omitted
            used, counts = used[bisect_right(used, first) - 1 :], counts[bisect_right(used, first) - 1 :]
        return [base for base, n in zip(used, counts.tolist(), strict=True) if n or base == used[-1]]

    def _border(self, base: int) -> int:
        """If a batch starts before `base` and ends at or after it, return the offset after the batch, else `base`."""
        i = int(np.searchsorted(self.merged["first"], base)) - 1
        return max(base, int(self.merged["last"][i]) + 1) if i >= 0 else base

    def _segment(self, base: int, rows: Headers) -> None:
        """Write a segment file with the batches `rows`, or create a link to an identical file of a replica."""
        path = self.folder / file_name(base)
        whole = self._whole_file(base, rows)
        if whole is not None:
            path.symlink_to(os.path.abspath(whole))
            return
        used = [self._path(*pair) for pair in dict.fromkeys(map(tuple, rows[["replica", "segment"]].tolist()))]
        known = used or [s.path for s in self._leader.log.segments[-1:]]
        target = create_file(path, self._segment_mode | OWNER)
        views: dict[int, tuple[int, FileView]] = {}
        try:
            for group in _by_file(rows):
                self._copy(target, group, views)
        finally:
            os.close(target)
            for _, view in views.values():
                view.close()
        times = [t for place in known if (t := times_of(place)) is not None]
        if times:
            os.utime(path, ns=max(times, key=lambda t: t[1]))
        os.chmod(path, self._segment_mode | 0o400)

    def _path(self, replica: int, segment: int) -> Location:
        return self.replicas[replica].log.segments[segment].path

    def _whole_file(self, base: int, rows: Headers) -> Path | None:
        """Return a replica's local segment file with this base offset and exactly these batches, or None."""
        # The file is not used either if it has a permission that another segment file does not have.
        if not len(rows) or _is_changed(rows).any():
            return None
        replica, index = int(rows["replica"][0]), int(rows["segment"][0])
        segment = self.replicas[replica].log.segments[index]
        path = segment.path
        if isinstance(path, UrlPath) or segment.name != file_name(base) or segment_name_of(segment.name) is not None:
            return None
        ends = rows["position"] + rows["size"]
        exact = (
            bool((rows["replica"] == replica).all() and (rows["segment"] == index).all())
            and int(rows["position"][0]) == 0
            and bool((rows["position"][1:] == ends[:-1]).all())
            and int(ends[-1]) == file_size(path)
            and narrowed_mode(ALL_FILE_BITS | 0o111, path) == self._segment_mode
        )
        return path if exact else None

    def _copy(self, target: int, rows: Headers, views: dict[int, tuple[int, FileView]]) -> None:
        """Append batches of one segment file to `target`, and correct a corrupted base offset."""
        # `views` keeps the last file of each replica open, because small groups can alternate between them.
        if _is_changed(rows)[0]:
            for row in rows:
                write_all(target, batch_bytes(self.replicas, row))
            return
        spans = np.stack((rows["position"], rows["position"] + rows["size"]), axis=1)
        replica, segment = int(rows["replica"][0]), int(rows["segment"][0])
        number, view = views.get(replica, (-1, None))
        if view is None or number != segment:
            if view is not None:
                view.close()
            view = FileView(self._path(replica, segment), fill_unreadable=True)
            views[replica] = segment, view
        self._spans.copy(view, target, spans)

    def _checkpoints(self, first: int) -> dict[str, int]:
        """Return the checkpoint entries of the merged partition, by checkpoint file name."""
        # The log start offset is the leader's, the high watermark the highest (limited to `usable_end`), the cleaner
        # offset the lowest of the replicas that contribute batches (`first` if only some have one).
        found: dict[str, int] = {}
        leader = self._leader.log.directory.checkpoints
        if LOG_STARTS in leader:
            found[LOG_STARTS] = leader[LOG_STARTS]
        marks = [
            min(mark, r.usable_end)
            for r in self.replicas
            if (mark := r.log.directory.checkpoints.get(HIGH_WATERMARKS)) is not None
        ]
        if marks:
            found[HIGH_WATERMARKS] = max(marks)
        used = [self.replicas[i] for i in distinct(self.merged["replica"]).tolist()] or [self._leader]
        cleaned = [r.log.directory.checkpoints.get(CLEANER_OFFSETS) for r in used]
        if any(offset is not None for offset in cleaned):
            found[CLEANER_OFFSETS] = min(first if offset is None else offset for offset in cleaned)
        return found

    def _other_files(self, bases: Sequence[int], metadata: Sequence[Location]) -> None:
        """Write the leader epochs and the transaction indexes. Link the replicas' snapshots and metadata files."""
        epochs = joined_epochs(map(usable_epochs, self.replicas))
        self._new(LEADER_EPOCHS, leader_epochs_text(epochs).encode())
        for path in metadata[:1]:
            self._link(path)
        entries: dict[tuple[int, int, int], Aborted] = {}
        for replica in self.replicas:
            for entry in IndexEntries(replica.log.directory).all:
                if entry.last < replica.usable_end:
                    entries.setdefault(entry[:3], entry)
        by_base: dict[int, list[Aborted]] = {}
        for entry in sorted(entries.values(), key=lambda e: e.last):
            by_base.setdefault(bases[max(bisect_right(bases, entry.last) - 1, 0)], []).append(entry)
        for base, own in by_base.items():
            self._new(file_name(base, ".txnindex"), transaction_index_bytes(own))
        for replica in self.replicas:
            directory = replica.log.directory
            leads_metadata = replica is self._leader and directory.topic == CLUSTER_METADATA
            for name in list_directory(directory.path)[1]:
                offset = snapshot_offset_of(name)
                usable = offset is not None and offset <= replica.usable_end
                of_raft = leads_metadata and (name == QUORUM_STATE or name.endswith(KRAFT_SNAPSHOT))
                if (usable or of_raft) and name not in directory.ignored:
                    self._link(directory.path / name)

    def _new(self, name: str, data: bytes) -> None:
        """Write a file with only those permissions that the replicas' files of the same name have in common."""
        mode = self._common_mode(name)
        write_new(self.folder / name, data, mode | OWNER, synced=False)
        os.chmod(self.folder / name, mode | 0o400)

    def _common_mode(self, name: str) -> int:
        """Return the permissions that the replicas' files with the name `name` have in common."""
        same = [r.log.directory.path / name for r in self.replicas if name not in r.log.directory.ignored]
        return narrowed_mode(ALL_FILE_BITS, *(path for path in same if path_exists(path)))

    def _link(self, path: Location) -> None:
        """Link a file of a replica, unless the merged directory already contains a file with the same name."""
        target = self.folder / path.name
        if target.is_symlink() or target.exists():
            return
        mode = self._common_mode(path.name)
        if isinstance(path, UrlPath) or narrowed_mode(ALL_FILE_BITS, path) != mode:
            copy_file(path, target, mode | OWNER)
        else:
            target.symlink_to(os.path.abspath(path))

    def _lost(self, bases: Sequence[int]) -> list[Damage]:
        """Return a `Damage` for each range of offsets that `lost_ranges` returns."""
        end = max([r.usable_end for r in self.replicas if r.usable_end > r.start], default=bases[0])
        start = max(self.directory.log_start, min([r.start for r in self.replicas], default=0))
        ranges = lost_ranges(self.replicas, self.merged, start, end)
        ends = np.concatenate(([0], np.cumsum(self.merged["size"], dtype=np.int64)))
        firsts = np.array([first for first, _ in ranges], np.int64)
        at = np.maximum(np.searchsorted(bases, firsts, "right") - 1, 0)
        # `begin` contains, for each lost range, the index of the first batch in its segment. `here` contains the index
        # of the first batch after the lost offsets.
        begin = np.searchsorted(self.merged["first"], bases)[at]
        here = np.maximum(np.searchsorted(self.merged["first"], firsts), begin)
        positions = (ends[here] - ends[begin]).tolist()
        names = [file_name(base) for base in bases]
        message = f"no replica has batches for these offsets that can be copied; replicas that were read: {len(self.replicas)}"
        lost = [
            Damage(names[i], position, 0, first, last, LOST, message)
            for i, position, (first, last) in zip(at.tolist(), positions, ranges, strict=True)
        ]
        mark = missing_end(self.replicas, end)
        if mark > end and not (lost and lost[-1].last_offset is None):
            position = int(ends[-1] - ends[np.searchsorted(self.merged["first"], bases[-1])])
            message = f"no replica contains these offsets; replicas that were read: {len(self.replicas)}"
            lost.append(Damage(names[-1], position, 0, end, mark - 1, MISSING_END, message))
        return lost


def _is_changed(rows: Headers) -> npt.NDArray[np.bool_]:
    """Return, for each batch, whether it is copied with another base offset."""
    changed: npt.NDArray[np.bool_] = rows["shift"] != 0
    return changed


def _by_file(rows: Headers) -> Iterator[Headers]:
    """Yield groups of consecutive batches from one segment file, either all unchanged or all changed."""
    keys = rows["replica"].astype(np.int64) * 2 + _is_changed(rows), rows["segment"]
    changes = (keys[0][1:] != keys[0][:-1]) | (keys[1][1:] != keys[1][:-1])
    return divided_at(rows, np.flatnonzero(changes) + 1)

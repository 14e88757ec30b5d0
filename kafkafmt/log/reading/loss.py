"""Find lost offsets: offsets that existed, that no file contains, and that compaction or retention has not removed.

Lost offsets are damage with position 0 and length 0. They are judged only in live partition
directories that were listed, never in single `.log` files. A broker can change the directory while
it is read. Therefore, the directory and the checkpoints are first read again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ...constants import MAX_OFFSET
from ...support.text import offset_range
from ..catalog import CLUSTER_METADATA, PartitionDir, SegmentFile, checkpoint_offset
from ..damage import DamageColumns, RunColumns, created_at, has_remote_storage
from ..findings import Damage, Finding, Joined
from ..formats import HIGH_WATERMARKS, LEADER_EPOCHS, LOG_STARTS, RECOVERY_POINTS, bases_in, file_name
from ..storage import inode_of, list_directory, path_exists

MISSING_SEGMENT, MISSING_END, MISSING_START = "missing_segment", "missing_end", "missing_start"
SWAP = ".swap"
SETTLED = 10_000  # time in ms after the creation of a topic in which a checkpoint may list an earlier topic
_ELSEWHERE = "other replicas may have them (salvage --replicas merge)"
_MARKS = {RECOVERY_POINTS: "recovery point", HIGH_WATERMARKS: "high watermark"}


def is_loss(damage: Damage) -> bool:
    """Return whether damage is lost offsets, and not bytes of a file."""
    return damage.code in (MISSING_SEGMENT, MISSING_END)


def without_losses(damaged: Sequence[Damage]) -> Sequence[Damage]:
    """Return only the damage that consists of bytes of a file."""
    if isinstance(damaged, Joined):
        return Joined(part for part in damaged.parts if len(part) > 1 or not is_loss(part[0]))
    return [damage for damage in damaged if not is_loss(damage)]


class Losses:
    """Finds the lost offsets of a partition, which is a `PlannedLog`."""

    def __init__(self, log: Any) -> None:
        self._log = log

    @property
    def _judged(self) -> bool:
        directory: PartitionDir = self._log.directory
        return directory.state == "live" and directory.whole

    def between(self) -> list[Damage]:
        """Return the lost offsets before and after each segment. All segments are planned."""
        found = []
        for segment in self._log.segments:
            runs = RunColumns.of(self._log.plan(segment).runs)
            begins = len(runs) > 0 and not runs.position[0]
            found += [self.before(segment, int(runs.first[0])) if begins else None, self.after(segment)]
        return [damage for damage in found if damage is not None]

    def after(self, segment: SegmentFile, reached: int = -1) -> Damage | None:
        """Return the lost offsets between the last batch of a segment and the next segment."""
        # Nothing is read if the caller has `reached` the next segment without a missing offset.
        base, following = segment.base_offset, segment.next_base
        if base is None or following is None or reached >= following or not self._is_possible(following):
            return None
        if not self._log.is_planned(segment) and not path_exists(segment.place):
            return None  # retention has deleted the segment
        if (self._log.end_of(segment) or base) >= following or not self._unchanged(segment, base + 1, following):
            return None
        plan = self._log.plan(segment)
        damaged = DamageColumns.of(plan.damaged)
        if not damaged.known.all() or (damaged.last == following - 1).any():
            return None
        at = self._log.first_segment(following)
        names = [s.name for s in self._log.segments[at : at + 1] if s.base_offset == following]
        return self._lost(plan.next_offset or base, following, names[0] if names else file_name(following))

    def before(self, segment: SegmentFile, first: int) -> Damage | None:
        """Return the lost offsets between the base offset of a segment and its first batch, which begins at `first`."""
        # The first segment of a log can begin at any offset, unless it is damaged.
        base, directory = segment.base_offset, self._log.directory
        if base is None or first <= base or not self._is_possible(first):
            return None
        damaged = DamageColumns.of(self._log.damage_of(segment))
        if directory.before is None and segment is directory.segments[0] and not len(damaged.first):
            return None
        if (damaged.first == base).any() or not self._unchanged(segment, base, first):
            return None
        return self._lost(base, first, segment.name)

    def _is_possible(self, upto: int) -> bool:
        return self._judged and not self._log.directory.cleaned and upto > self._log.log_start_offset

    def _unchanged(self, segment: SegmentFile, low: int, upto: int) -> bool:
        """Return whether the directory still contains a segment and the next one, and none in [low, upto)."""
        # A broker can have deleted, merged or created segments since the directory was listed.
        bases = self._bases
        expected = [base for base in (segment.base_offset, segment.next_base) if base is not None]
        inside = bases[bisect_left(bases, low) : bisect_left(bases, upto)]
        return set(inside) <= set(expected) and all(
            bases[at : at + 1] == [b] for b in expected for at in [bisect_left(bases, b)]
        )

    @cached_property
    def _bases(self) -> list[int]:
        return [s.base_offset or 0 for s in self._listed]

    def _lost(self, low: int, upto: int, file: str) -> Damage | None:
        """Return the lost offsets [low, upto), unless they are below the log start offset or the log was compacted."""
        low = max(low, self._log.log_start_offset, checkpoint_offset(self._log.directory, LOG_STARTS))
        if low >= upto or self._is_compacted:
            return None
        message = f"no segment contains these offsets; {_ELSEWHERE}"
        return Damage(file, 0, 0, low, upto - 1, MISSING_SEGMENT, message)

    @cached_property
    def _listed(self) -> list[SegmentFile]:
        """The segments according to a second listing, with those that a broker is about to rename."""
        # The list is empty if the directory was replaced or deleted.
        directory = self._log.directory
        try:
            if directory.inode is not None and inode_of(directory.path) != directory.inode:
                return []
            names = list_directory(directory.path)[1]
            found = sorted(bases_in([name.removesuffix(SWAP) for name in names]))
        except OSError:
            return []
        ends = [*(base for base, _ in found[1:]), None]
        return [
            SegmentFile(directory.path, name, end, end is None) for (_, name), end in zip(found, ends, strict=False)
        ]

    @cached_property
    def _is_compacted(self) -> bool:
        """Whether the log was compacted. A task has only one segment, but other segments can also show it."""
        log, listed = self._log, self._listed
        if log.directory.compacts or {s.name for s in listed} <= {s.name for s in log.segments}:
            return bool(log.compacted)
        return bool(log.compacted or type(log)(replace(log.directory, segments=listed), log.limits).compacted)

    @property
    def least_end(self) -> int:
        """Offset that the log end must not be below, according to the checkpoints."""
        return max(_marks(self._log.directory).values())

    def at_end(self) -> Damage | None:
        certain, damage = self._end
        return damage if certain else None

    @cached_property
    def _end(self) -> tuple[bool, Damage | None]:
        """The offsets between the log end and a checkpoint, and whether they were certainly lost."""
        log, directory = self._log, self._log.directory
        marks = _marks(directory)
        base = directory.segments[-1].base_offset or 0 if directory.segments else 0
        if not self._judged or directory.topic == CLUSTER_METADATA or max(marks.values()) <= base:
            return False, None
        end = max(log.next_offset, log.log_start_offset)
        if max(marks.values()) <= end:
            return False, None
        name = file_name(end)
        if directory.segments:
            name, damaged = directory.segments[-1].name, DamageColumns.of(log.plan(directory.segments[-1]).damaged)
            end = max([end, *(last + 1 for last in damaged.last[damaged.last >= end].tolist())])
        end = max(end, checkpoint_offset(directory, LOG_STARTS))
        marks = {mark: min(offset, checkpoint_offset(directory, mark)) for mark, offset in marks.items()}
        listed = [s.name for s in self._listed]
        if listed != [s.name for s in directory.segments] and listed[-1:] != [name]:
            return False, None  # a broker has changed the directory since it was listed
        sure = {mark: offset for mark, offset in marks.items() if mark == RECOVERY_POINTS or directory.clean}
        certain = max(sure.values()) > end
        mark, offset = max((sure if certain else marks).items(), key=lambda item: item[1])
        if offset <= end or (not certain and self._is_new_topic):
            return False, None
        message = f"the log ends at offset {end}, but its {_MARKS[mark]} is {offset}: offsets are missing; {_ELSEWHERE}"
        return certain, Damage(name, 0, 0, end, offset - 1, MISSING_END, message)

    @property
    def _is_new_topic(self) -> bool:
        """Return whether the high watermark may be that of an earlier topic with the same name."""
        # A broker applies the creation of a topic a little later, and writes high watermarks every 5 seconds.
        created, marked = created_at(self._log.directory), self._log.directory.marked
        return created is not None and marked is not None and (created + SETTLED) * 1_000_000 > marked

    def findings(self) -> list[Finding]:
        """Return findings about offsets that were possibly lost, at the end and at the start of the log."""
        found = []
        certain, end = self._end
        if end is not None and not certain:
            message = f"{end.message}; the broker was not shut down cleanly, or the copy was made while it ran"
            found.append(Finding(HIGH_WATERMARKS, MISSING_END, message))
        log = self._log
        epochs = log.leader_epoch_checkpoint if self._judged and log.segments and log.directory.checkpoints else None
        first = log.segments[0].base_offset if epochs else None
        if epochs and first is not None and self.remote is None:
            low = max(epochs[0][1], checkpoint_offset(log.directory, LOG_STARTS))
            if low < first and not self._is_deleting:
                message = (
                    f"the first leader epoch begins at offset {epochs[0][1]}, but the log begins at offset {first}: "
                    f"offsets are missing; {_ELSEWHERE}"
                )
                found.append(Finding(LEADER_EPOCHS, MISSING_START, message))
        return found

    @property
    def _is_deleting(self) -> bool:
        """Whether a broker has just deleted segments. It truncates the leader epoch checkpoint a little later."""
        try:
            return any(name.endswith(".deleted") for name in list_directory(self._log.directory.path)[1])
        except OSError:
            return True

    def tell_remote(self) -> None:
        """Send a message to the log's `tell` function if the first offsets of the log are in remote storage."""
        if text := self.remote_text:
            self._log.tell(f"{self._log.topic}-{self._log.partition}: {text}, which is not read")

    @property
    def remote_text(self) -> str:
        """Text that names the offsets in remote storage. Empty if there are none."""
        return "" if self.remote is None else f"{offset_range(*self.remote)} are in remote storage"

    @cached_property
    def remote(self) -> tuple[int, int] | None:
        """First and last offset that are only in remote storage, or None."""
        log, directory = self._log, self._log.directory
        first = log.segments[0].base_offset if log.segments else None
        if not self._judged or not first or not directory.checkpoints:
            return None
        start = directory.checkpoints.get(LOG_STARTS)
        if start is None:
            epochs = log.leader_epoch_checkpoint
            if not epochs or epochs[0][1] >= first or not has_remote_storage(directory):
                return None
            start = epochs[0][1]
        return (start, first - 1) if start < first else None


def _marks(directory: PartitionDir) -> dict[str, int]:
    """Return the offsets of the checkpoints that the end of a log must not be below."""
    found = {mark: directory.checkpoints.get(mark, 0) for mark in _MARKS}
    return {mark: offset if offset <= MAX_OFFSET else 0 for mark, offset in found.items()}

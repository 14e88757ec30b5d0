"""Everything beside the batches held against them: indexes, snapshots, leader epochs, checkpoints."""

from __future__ import annotations

from ..constants import MAX_OFFSET
from ..errors import StructureError
from . import files
from .audit_indexes import IndexAudit
from .audit_states import StateAudit
from .checkpoints import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    read_leader_epochs,
    read_partition_metadata,
)
from .directory import SegmentFile
from .names import base_offset_of
from .partition import PartitionLog
from .plan import Finding, SegmentPlan

BEYOND = {
    LOG_STARTS: "a broker deletes every segment of such a log at its start",
    RECOVERY_POINTS: "what lay between was on disk once",
    HIGH_WATERMARKS: "what lay between had been handed to consumers",
}
"""The offset checkpoints that cannot lie behind a log's end, and what it means where they do."""


class PartitionAudit:
    """Of one partition. Open every segment before it is planned, since a live broker writes an entry after its batch."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        try:
            self._names = files.list_directory(log.directory.path)[1]
        except FileNotFoundError:  # which log.plan has words for
            self._names = []
        self._found: list[Finding] = []
        epochs = self._read_epochs()
        bases = sorted(b for n in self._names if (b := base_offset_of(n)) is not None)
        whole = bool(bases) and [s.base_offset for s in log.segments] == bases
        self._states = StateAudit(log.segments, self._names, epochs, log.max_batch_bytes) if whole else None
        if self._states and log.directory.cleaned:
            self._states.incomplete()
        self._expected: int | None = None

    def _read_epochs(self) -> list[tuple[int, int]]:
        epochs: list[tuple[int, int]] = []
        folder = self._log.directory.path
        try:
            epochs = read_leader_epochs(files.read_text(folder / LEADER_EPOCHS) or "")
        except StructureError as error:
            self._found.append(Finding(LEADER_EPOCHS, "unreadable_checkpoint", error.message))
        try:
            if text := files.read_text(folder / PARTITION_METADATA):
                read_partition_metadata(text)
        except StructureError as error:
            self._found.append(Finding(PARTITION_METADATA, "unreadable_checkpoint", error.message))
        return epochs

    def open(self, segment: SegmentFile) -> IndexAudit | None:
        """Read what lies beside a segment."""
        if self._states:
            self._states.open(segment)
        return None if segment.base_offset is None else IndexAudit(segment, segment.base_offset)

    def segment(self, plan: SegmentPlan, indexes: IndexAudit | None) -> None:
        """A segment's batches, once it was planned."""
        starts = [e.first_offset for e in plan.extents]
        dense = all(e.dense for e in plan.extents) and not any(not d.empty for d in plan.damaged)
        gap = self._expected is not None and starts[:1] != [self._expected]
        if self._states and (not dense or gap or len(starts) > 1):
            self._states.incomplete()
        self._expected = plan.next_offset if plan.next_offset is not None else plan.segment.base_offset
        if not plan.extents:
            self._found += indexes.findings(plan) if indexes else []
            return
        for part in self._log.parts(starts[0], plan.extents[-1].last_offset + 1, lambda _: None):
            if not len(part.table):
                continue
            if indexes:
                indexes.add(part.table, part.position)
            if self._states:
                self._states.add(plan.segment, part.buffer, part.table)
        self._found += indexes.findings(plan) if indexes else []

    def findings(self) -> list[Finding]:
        """What is wrong, once every segment was given."""
        end = self._log.next_offset
        found = self._found + (self._states.findings(end) if self._states else []) + self._missing_indexes()
        for name, meaning in BEYOND.items():
            offset = self._log.directory.checkpoints.get(name, 0)
            if end < offset <= MAX_OFFSET:
                message = f"it says {offset}, but the log ends at {end}: {meaning}"
                found.append(Finding(name, "checkpoint_beyond_end", message))
        return found

    def _missing_indexes(self) -> list[Finding]:
        """A segment without an index where others have theirs; a copy of bare `.log` files lacks nothing."""
        found = []
        for suffix, meaning in ((".index", "a broker makes it anew"), (".timeindex", "a broker leaves it empty and finds no time in it")):
            if not any(n.endswith(suffix if suffix == ".timeindex" else (".index", ".timeindex")) for n in self._names):
                continue
            for segment in self._log.segments:
                name = segment.path.with_suffix(suffix).name
                if segment.base_offset is not None and segment.size and name not in self._names:
                    found.append(Finding(name, "index_missing", f"it is not there; {meaning}"))
        return found

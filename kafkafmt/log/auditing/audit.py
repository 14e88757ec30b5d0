"""Everything beside the batches held against them: indexes, snapshots, leader epochs, checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...constants import MAX_OFFSET
from ...errors import StructureError
from ...types import last_offsets
from ..format import files
from ..format.checkpoints import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    read_leader_epochs,
    read_partition_metadata,
)
from ..format.names import base_offset_of
from ..reading.discovery import SegmentFile
from ..reading.partition import PartitionLog
from ..reading.plan import Finding, SegmentPlan
from .audit_indexes import IndexAudit
from .audit_states import StateAudit

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
        self._indexes: IndexAudit | None = None
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

    def open(self, segment: SegmentFile) -> None:
        """Read what lies beside a segment; its batches follow."""
        if self._states:
            self._states.open(segment)
        self._indexes = None if segment.base_offset is None else IndexAudit(segment, segment.base_offset)
        self._before = self._expected
        if self._states:
            self._states.mark()

    def take_back(self) -> None:
        """Forget the batches of the segment at hand."""
        self._expected = self._before
        if self._states:
            self._states.take_back()
        if self._indexes:
            self._indexes.begin()

    def add(self, segment: SegmentFile, position: int, buffer: Any, table: np.ndarray) -> None:
        """Add batches in the order of offsets; `position` is the file position of their buffer."""
        if self._states and self._states.whole and len(table) > 1:
            lasts = last_offsets(table)
            gaps = np.flatnonzero(table["base_offset"][1:] != lasts[:-1] + 1)
            if len(gaps):  # what is before the first gap is compared with nothing missing
                n = int(gaps[0]) + 1
                self._add(segment, position, buffer, table[:n])
                table = table[n:]
        self._add(segment, position, buffer, table)

    def _add(self, segment: SegmentFile, position: int, buffer: Any, table: np.ndarray) -> None:
        first, last = (
            int(table["base_offset"][0]),
            int(table["base_offset"][-1]) + max(int(table["last_offset_delta"][-1]), 0),
        )
        if self._expected is None:
            self._expected = first if segment.base_offset is None else segment.base_offset
        if self._states and (first != self._expected or table["count"].sum() != last - first + 1):
            self._states.incomplete()
        self._expected = last + 1
        if self._indexes:
            self._indexes.add(table, position)
        if self._states:
            self._states.add(segment, buffer, table)

    def close(self, plan: SegmentPlan) -> None:
        """All batches of a segment were given that its plan delivers."""
        if self._states and any(not d.empty for d in plan.damaged):
            self._states.incomplete()
        if not plan.extents:
            if self._states and self._expected is not None and self._expected != plan.segment.base_offset:
                self._states.incomplete()  # offsets between the segments are missing
            self._expected = plan.segment.base_offset
        self._found += self._indexes.findings(plan) if self._indexes else []

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

    def read_committed_findings(self) -> list[Finding]:
        """Return what a broker's consumers at read_committed see otherwise than we do, once every segment was given."""
        return self._states.read_committed(self._log.transactions) if self._states else []

    def _missing_indexes(self) -> list[Finding]:
        """A segment without an index where others have theirs; a copy of bare `.log` files lacks nothing."""
        found = []
        for suffix, meaning in (
            (".index", "a broker makes it anew"),
            (".timeindex", "a broker leaves it empty and finds no time in it"),
        ):
            if not any(n.endswith(suffix if suffix == ".timeindex" else (".index", ".timeindex")) for n in self._names):
                continue
            for segment in self._log.segments:
                name = segment.path.with_suffix(suffix).name
                if segment.base_offset is not None and segment.size and name not in self._names:
                    found.append(Finding(name, "index_missing", f"it is not there; {meaning}"))
        return found

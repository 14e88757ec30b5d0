"""Compare the indexes, snapshots, leader epochs and checkpoints of a partition with its batches."""

from __future__ import annotations

import numpy as np

from ..._backend import core
from ...constants import MAX_OFFSET
from ...errors import StructureError
from ...types import BatchSummary, BatchTable, last_offsets
from ..catalog import SegmentFile
from ..damage import DamageColumns, SegmentPlan, is_recorded
from ..findings import Finding
from ..formats import (
    LEADER_EPOCHS,
    LOG_STARTS,
    PARTITION_METADATA,
    Marker,
    offsets_in,
    read_leader_epochs,
    read_partition_metadata,
)
from ..reading import PartitionLog
from ..storage import list_directory, read_text
from .audit_gaps import GapAudit
from .audit_indexes import IndexAudit
from .audit_states import StateAudit


class PartitionAudit:
    """Compares the indexes, snapshots and checkpoints of one partition with its batches."""

    # For each segment, call `open`, then `add` for its batches, then `close`. `open` reads the indexes before the
    # batches are read: a running broker writes a batch before its index entries, so each entry must have a batch.

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        try:
            self._names = list_directory(log.directory.path)[1]
        except FileNotFoundError:  # log.plan() reports the missing directory
            self._names = []
        self._listed = set(self._names)
        self._found: list[Finding] = []
        epochs = self._read_epochs()
        bases = sorted(offsets_in(self._names, ".log"))
        whole = bool(bases) and [s.base_offset for s in log.segments] == bases
        self._states = StateAudit(log.segments, self._names, epochs, log.snapshots) if whole else None
        if self._states and log.directory.cleaned:
            self._states.incomplete()
        self._indexes: IndexAudit | None = None
        self._gaps = GapAudit()
        self._expected: int | None = None

    def _read_epochs(self) -> list[tuple[int, int]]:
        epochs: list[tuple[int, int]] = []
        folder = self._log.directory.path
        try:
            epochs = read_leader_epochs(read_text(folder / LEADER_EPOCHS) or "")
        except StructureError as error:
            self._found.append(Finding(LEADER_EPOCHS, "unreadable_checkpoint", error.message))
        try:
            text = read_text(folder / PARTITION_METADATA)
            if text is not None:  # a broker cannot start with an empty file (KAFKA-20177)
                read_partition_metadata(text)
        except StructureError as error:
            self._found.append(Finding(PARTITION_METADATA, "unreadable_checkpoint", error.message))
        return epochs

    def open(self, segment: SegmentFile) -> None:
        """Read the index files of a segment, before its batches are added."""
        if self._states:
            self._states.open(segment)
        self._gaps.begin(segment.name)
        self._indexes = None
        if segment.base_offset is not None and (
            segment.sibling_name(".index") in self._listed or segment.sibling_name(".timeindex") in self._listed
        ):
            self._indexes = IndexAudit(segment, segment.base_offset, self._listed)

    def give_up(self) -> None:
        """Discard the batches of the current segment. Do not compare producers and transactions any more."""
        self._states = None
        self._gaps.begin_again()
        if self._indexes:
            self._indexes.begin()

    def add(
        self, segment: SegmentFile, position: int, table: BatchTable, found: BatchSummary, markers: dict[int, Marker]
    ) -> None:
        """Add batches in offset order. Their positions are relative to `position`; `markers` is by offset."""
        self._gaps.add(position, table, found)
        if self._states and self._states.complete and len(table) > 1 and not found.dense:
            lasts = last_offsets(table)
            gaps = np.flatnonzero(table["base_offset"][1:] != lasts[:-1] + 1)
            # Split the batches at the first gap, because not all producer states can be checked after a gap.
            if len(gaps):
                n = int(gaps[0]) + 1
                self._add(segment, position, table[:n], core.summarize_batches(table[:n]), markers)
                table = table[n:]
                found = core.summarize_batches(table)
        self._add(segment, position, table, found, markers)

    def _add(
        self, segment: SegmentFile, position: int, table: BatchTable, found: BatchSummary, markers: dict[int, Marker]
    ) -> None:
        if self._expected is None:
            self._expected = found.first if segment.base_offset is None else segment.base_offset
        if self._states and (found.first != self._expected or not found.dense):
            self._states.incomplete()
        self._expected = found.last + 1
        if self._indexes:
            self._indexes.add(table, position)
        if self._states:
            self._states.add(segment, table, found, markers)

    def close(self, plan: SegmentPlan) -> None:
        """Compare the indexes of a segment with its batches. Call this after `add` has received all valid batches."""
        if (
            self._states
            and self._states.complete
            and len(plan.damaged)
            and not DamageColumns.of(plan.damaged).empty.all()
        ):
            self._states.incomplete()
        if not len(plan.runs):
            if self._states and self._expected is not None and self._expected != plan.segment.base_offset:
                self._states.incomplete()  # offsets before this segment are missing
            self._expected = plan.segment.base_offset
        self._found += self._indexes.findings(plan) if self._indexes else []

    def findings(self) -> list[Finding]:
        """Return all findings. Call this after the last segment."""
        end = self._log.next_offset
        states = self._states.findings(end, self._log.transactions.doubts) if self._states else []
        found = self._found + states + self._missing_indexes()
        if len(self._gaps) and not is_recorded(self._log.directory):
            found += self._gaps.findings()
        offset = self._log.directory.checkpoints.get(LOG_STARTS, 0)
        if end < offset <= MAX_OFFSET:
            meaning = "when a broker starts, it deletes all segments of the log"
            message = f"the checkpoint has offset {offset}, but the log ends at {end}: {meaning}"
            found.append(Finding(LOG_STARTS, "checkpoint_beyond_end", message))
        return found

    def read_committed_findings(self) -> list[Finding]:
        """Return a finding if kafkafmt and a broker deliver different records to a read_committed consumer."""
        # Call `findings` first.
        return self._states.read_committed(self._log.transactions) if self._states else []

    def _missing_indexes(self) -> list[Finding]:
        """Return a finding for each segment whose index is missing."""
        # A directory without any index is assumed to be a copy of only the `.log` files.
        found = []
        for suffix, meaning in (
            (".index", "a broker rebuilds it"),
            (".timeindex", "a broker replaces it with an empty index, in which it finds no timestamp"),
        ):
            if not any(n.endswith(suffix if suffix == ".timeindex" else (".index", ".timeindex")) for n in self._names):
                continue
            for segment in self._log.segments:
                name = segment.sibling_name(suffix)
                if segment.base_offset is not None and name not in self._listed and segment.size:
                    found.append(Finding(name, "index_missing", f"the file is missing; {meaning}"))
        return found

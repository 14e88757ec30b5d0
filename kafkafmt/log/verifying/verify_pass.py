"""Collect data for `verify` while a segment's batches are checked, so that the segment is read only once.

`plan_segment` passes each valid batch to `SegmentPass.see`. If the plan shows no damage, the
collected data is used. A damaged segment is read again, according to its plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import CONTROL_BIT, NO_END, TRANSACTIONAL_BIT
from ...errors import KafkaFormatError
from ...records import RecordReader
from ...records.java_reads import refused_by_java
from ...records.reader import count_records
from ...support.threads import wait_for_turn
from ...types import BATCH_DTYPE, TABLE_ROWS, BatchSummary, BatchTable, Buffer
from ..catalog import SegmentFile
from ..damage import Events, KnownWrappers, RunColumns, Scratch, SegmentPlan, TableReader, wrappers_of
from ..formats import Marker, marker_reader, read_markers
from ..reading import Part, PartitionLog
from ..transactions import TransactionWalk, settle
from .audit import PartitionAudit
from .audit_batches import BatchAudit
from .lost_ranges import OffsetJumps

MOST_WAITING = 8 * TABLE_ROWS
"""Largest number of batch headers (88 bytes) of a segment that wait. It is sufficient for 1 GiB with batches of 16 KiB."""
IN_TRANSACTIONS = TRANSACTIONAL_BIT | CONTROL_BIT


class _Seen(NamedTuple):
    """Valid batches of a segment, with positions relative to the file position `position`."""

    position: int
    rows: BatchTable
    found: BatchSummary
    markers: dict[int, Marker]


class Decoders:
    """Decoders that one thread uses at a time."""

    def __init__(self, log: PartitionLog) -> None:
        # The decoder checks all fields of a record, also those that are not stored.
        names = ("offset", "timestamp")
        self.records: RecordReader = RecordReader(
            names, first_offset=log.log_start_offset, max_batch_bytes=log.max_batch_bytes
        )
        self.markers: RecordReader = marker_reader(log.max_batch_bytes)
        self.scratch: Scratch = Scratch()


class SegmentPass:
    """Decodes the batches of one segment, and collects their headers for the checks of the partition."""

    # `records` (from the log start offset) and `unusual` (batches that contradict their headers) are those of the
    # segment. Other threads process other segments meanwhile. Only the segment whose turn it is changes the partition's
    # `VerifyPass`.

    def __init__(self, verify: VerifyPass, segment: SegmentFile) -> None:
        self.segment = segment
        self.deep: bool = verify.audit is not None
        self.unusual: BatchAudit = BatchAudit(verify.log, segment.name)
        self.batches: int = 0
        self.records: int = 0
        self.advanced: int = 0
        """Number of bytes that were reported to `VerifyPass.advance`."""
        self.usable: bool = True
        """Whether `is_intact` can still return True. If not, `see` does nothing."""
        self.flushed: _Seen | None = None
        """The last batches of the segment that were processed before all its batches were seen."""
        self._verify = verify
        self._waiting: list[_Seen] = []
        self._waits = 0  # number of batches in `_waiting`
        self._last, self._end = -1, 0  # last offset of the batches that were seen, and the file position after them
        self._known: KnownWrappers | None = None

    def plan(self) -> SegmentPlan:
        """Read the segment once: plan it, and decode its batches."""
        verify = self._verify
        self._decoders = verify.take_decoders()
        plan = verify.log.plan(self.segment, self.see, self._decoders.scratch)
        verify.idle.append(self._decoders)
        return plan

    def see(
        self, position: int, buffer: Buffer, rows: BatchTable, found: BatchSummary, segment_reader: TableReader
    ) -> None:
        """Process the headers of valid batches of a segment, in file order. `buffer` begins at `position`."""
        self._see(position, buffer, rows, found, segment_reader)
        if (done := position + found.end) > self.advanced:
            self._verify.advance(done - self.advanced)
            self.advanced = done

    def _see(
        self, position: int, buffer: Buffer, rows: BatchTable, found: BatchSummary, segment_reader: TableReader
    ) -> None:
        if found.wrappers:
            self._known = segment_reader.wrappers
        self.usable = self.usable and found.increasing and found.first > self._last
        self.usable = self.usable and found.adjacent and position + found.start == self._end
        if not self.usable:
            return
        self._last, self._end = found.last, position + found.end
        self.batches += len(rows)
        has_control = bool(found.attributes & CONTROL_BIT)
        # `compress` copies each row as a whole. `rows[mask]` takes three times as long, because it copies each field.
        data = rows.compress((rows["attributes"] & CONTROL_BIT) == 0) if has_control else rows
        if found.wrappers and self.deep:
            counted, data = self.count_wrappers(position, buffer, data)
            self.records += counted
        if self.deep and len(data):
            self._read_records(position, buffer, data, found)
        # Read the markers now, because later calls do not have this buffer.
        markers = read_markers(self._decoders.markers, buffer, rows) if has_control else {}
        if self._waits + len(rows) > MOST_WAITING:
            wait_for_turn()
            self.flush()
        self._waits += len(rows)
        # Copying a small table as bytes is ten times as fast as `rows.copy()`, which copies each field separately.
        self._waiting.append(_Seen(position, np.frombuffer(rows.tobytes(), BATCH_DTYPE), found, markers))

    def _read_records(self, position: int, buffer: Buffer, data: BatchTable, found: BatchSummary) -> None:
        """Count the records of data batches up to the first batch that cannot be decoded."""
        # The segment is then read again, because `is_intact` returns False.
        try:
            self.records += count_records(self._decoders.records, buffer, data, found)
        except KafkaFormatError:
            self.usable = False
        unusual = self._decoders.records.columns.take_unusual() or refused_by_java(buffer, data)
        if unusual and self.usable:
            self.unusual.add(position, buffer, data)

    def count_wrappers(self, position: int, buffer: Buffer, rows: BatchTable) -> tuple[int, BatchTable]:
        """Count the records of wrapper messages, and return the headers of all batches that must still be decoded."""
        # These wrapper messages cannot be decompressed, or have records below the log start offset or after their
        # maximum timestamp. If the compressed data of one has an odd end, all must be decoded.
        at = wrappers_of(rows)
        if self._known is None or not len(at) or self._known.found_odd_ends:
            return 0, rows
        inner = self._known.inner(position, buffer, rows[at])
        counted = (self._verify.log.log_start_offset <= inner.first) & (inner.first <= inner.last) & (inner.count >= 0)
        counted &= inner.latest <= rows["max_timestamp"][at]
        others = np.ones(len(rows), bool)
        others[at[counted]] = False
        return int(inner.count[counted].sum()), rows.compress(others)

    def flush(self) -> None:
        """Process the batches that `see` has collected. Previous segments must be complete."""
        for seen in self._waiting:
            self._verify.process(self.segment, seen)
            self.flushed = seen
        self.clear()

    def clear(self) -> None:
        self._waiting, self._waits = [], 0


class VerifyPass:
    """Collects data for `verify` when the segments of a partition are read for the first time."""

    # For each segment in order, call `begin`, then `is_intact` with the result of `SegmentPass.plan`. Call `finish` after
    # the last segment. A shallow check has no audit and decodes no records.

    def __init__(
        self,
        log: PartitionLog,
        audit: PartitionAudit | None,
        jumps: OffsetJumps,
        advance: Callable[[int], None],
    ) -> None:
        self.log = log
        self.jumps = jumps
        self.advance = advance
        """Called with the number of bytes that were processed."""
        self.audit = audit
        self.idle: list[Decoders] = []
        """Decoders that no thread uses."""
        self._walk: TransactionWalk | None = TransactionWalk(log)
        self._before: int | None = None  # offset after the last batch of the previous segment that has batches
        self._gap_checked = self._gaps = False
        """Whether `_check_gap` was called for the current segment, and whether any call has found missing offsets."""

    def take_decoders(self) -> Decoders:
        """Return decoders that no other thread uses. After use, append them to `idle`."""
        try:
            return self.idle.pop()
        except IndexError:
            return Decoders(self.log)

    def begin(self, segment: SegmentFile) -> None:
        """Begin a segment. Its `SegmentPass` may already have collected batches."""
        self._gap_checked = False
        if self.audit:
            self.audit.open(segment)

    def process(self, segment: SegmentFile, seen: _Seen, damaged: bool = False) -> None:
        """Add valid batches of the current segment, which may be `damaged`, to the checks of the partition."""
        self.jumps.add(seen.rows, damaged)
        if self.audit is not None:
            self.audit.add(segment, seen.position, seen.rows, seen.found, seen.markers)
        self._check_gap(seen.found.first, segment)
        if self._walk is not None and (self._walk.entries is not None or seen.found.attributes & IN_TRANSACTIONS):
            self._walk.add_rows(seen.rows, seen.found, seen.markers, segment.name)

    def is_intact(self, segment: SegmentPass, plan: SegmentPlan) -> bool:
        """Return whether a reader of the segment gets exactly the batches that were passed to `SegmentPass.see`."""
        # If not, the caller must read the segment again, and call `add_again` and `end_again`.
        runs = RunColumns.of(plan.runs)
        if segment.usable and not len(plan.damaged) and sum(runs.batches.tolist()) == segment.batches:
            segment.flush()
            if plan.next_offset is not None:
                self._before = plan.next_offset
            return True
        segment.clear()
        segment.unusual = BatchAudit(self.log, segment.segment.name)
        adjacent = runs.position == np.append(0, runs.end)[:-1]
        start = runs.at(slice(0, len(runs) if adjacent.all() else int(adjacent.argmin())))
        if segment.flushed is not None and not (len(start) and start.last[-1] >= segment.flushed.found.last):
            # A reader gets other batches than those that were processed. They cannot be removed.
            segment.flushed = self._walk = None
            if self.audit is not None:
                self.audit.give_up()
        if self._walk is not None:
            self._walk.begin(Events(plan, 0, NO_END))
        return False

    def needs_batches(self, plan: SegmentPlan) -> bool:
        """Return whether the batches of a damaged segment must be passed to `add_again`."""
        in_transactions = self._walk is not None and (self._walk.entries is not None or plan.stats.transactional)
        return plan.first_offset is not None and (self.audit is not None or in_transactions)

    def add_again(self, segment: SegmentPass, part: Part) -> None:
        """Process batches of a segment for which `is_intact` has returned False. Add them in offset order."""
        if part.plan.segment.name != segment.segment.name:
            return
        table = part.table
        if segment.flushed is not None:
            table = table.compress(table["base_offset"] > segment.flushed.found.last)
            if not len(table):
                return
        decoders = self.take_decoders()
        markers = read_markers(decoders.markers, part.buffer, table)
        self.idle.append(decoders)
        self.process(segment.segment, _Seen(part.position, table, core.summarize_batches(table), markers), True)

    def end_again(self, segment: SegmentPass, plan: SegmentPlan, changed: bool) -> None:
        """End a segment for which `is_intact` has returned False."""
        # `changed`: the file has changed since `plan` was created.
        if changed:
            self._walk = None
        if self._walk is not None:
            self._walk.end(segment.segment.name)
        if plan.next_offset is not None:
            self._before = plan.next_offset

    def _check_gap(self, first_offset: int, segment: SegmentFile) -> None:
        """Check whether offsets are missing before the first batch of the current segment, which has `first_offset`."""
        # A missing segment may have contained the markers of the open transactions. If the log was compacted, the
        # offsets may be missing for another reason: `finish` checks this, because it needs all segments.
        walk, checked, self._gap_checked = self._walk, self._gap_checked, True
        if checked or walk is None or self._before is None or not walk.found.open or first_offset <= self._before:
            return
        if self.log.directory.was_cleaned:
            self._walk = None
        else:
            walk.gap(self._before, segment.name)
            self._gaps = True

    def finish(self) -> None:
        """If every batch was processed, set `log.transactions`."""
        if self._walk is not None and not (self._gaps and self.log.was_cleaned):
            self.log.transactions = settle(self._walk)

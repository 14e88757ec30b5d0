"""Collect data for `verify` while a segment's batches are checked, so that the segment is read only once.

`plan_segment` reads a segment and passes each valid batch to `VerifyPass.see`. Then it decides
which batches readers get, and in which order. If readers get all batches in file order, the data
that `see` has collected is used. Otherwise, this data is discarded, and the batches are read again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...constants import CONTROL_BIT, TRANSACTIONAL_BIT
from ...errors import KafkaFormatError
from ...records import RecordReader
from ...types import BATCH_DTYPE, BatchTable, Buffer
from ..reading.part_builder import TABLE_ROWS
from ..reading.partition import PartitionLog
from ..reading.partition_dir import SegmentFile
from ..reading.parts import RunColumns
from ..reading.plan import SegmentPlan
from ..reading.transaction_walk import TransactionWalk, misses_a_segment, settle
from .audit import PartitionAudit
from .audit_timestamps import TimestampAudit


class VerifyPass:
    """Collects data for `verify` when the segments of a partition are read for the first time.

    For each segment, call `begin`, then `plan_segment` with `see` as the callback, and then
    `is_complete`. Call `finish` after the last segment.

    Parameters
    ----------
    log : PartitionLog
        The partition.
    audit : PartitionAudit or None
        The audit to which the batches are passed. None for a shallow check, which decodes no
        records.

    Attributes
    ----------
    records : int
        Number of data records of the current segment, from the log start offset onwards.
    times : TimestampAudit
        Batches of the current segment with records after the maximum timestamp in the batch header.
    """

    def __init__(self, log: PartitionLog, audit: PartitionAudit | None) -> None:
        self.log = log
        self.audit = audit
        self.records: int = 0
        self._walk: TransactionWalk | None = TransactionWalk(log)
        self._before: tuple[SegmentFile, int] | None = None
        # The decoder checks all fields of a record, also those that are not stored.
        names = ("offset", "timestamp")
        self._reader = RecordReader(names, first_offset=log.log_start_offset, max_batch_bytes=log.max_batch_bytes)
        self._waiting = np.empty(TABLE_ROWS, BATCH_DTYPE)

    def begin(self, segment: SegmentFile) -> None:
        """Start a new segment."""
        self._segment = segment
        self.times: TimestampAudit = TimestampAudit(self.log, segment.name)
        self._batches = self._waits = self.records = 0
        self._readable = True

    def see(self, position: int, buffer: Buffer, rows: BatchTable) -> None:
        """Process the headers of valid batches. Call this for the batches of a segment in file order.

        `position` is the file position of the first byte of `buffer`.
        """
        self._batches += len(rows)
        bits = int(np.bitwise_or.reduce(rows["attributes"]))
        if self.audit is not None and self._readable:
            data = rows[(rows["attributes"] & CONTROL_BIT) == 0] if bits & CONTROL_BIT else rows
            self.records += sum(c.columns.rows for c in self._reader.read(buffer, data, self._note)) if len(data) else 0
            if self._reader.columns.late_times:
                self._reader.columns.late_times = False
                self.times.add(position, buffer, data)
        if bits & CONTROL_BIT:  # read transaction markers now, because later calls do not have this buffer
            self._flush()
            self._add(position, buffer, rows)
        elif (
            self.audit is not None
            or bits & TRANSACTIONAL_BIT
            or (self._walk is not None and self._walk.entries is not None)
        ):
            if self._waits + len(rows) > len(self._waiting):
                self._flush()
            waiting = self._waiting[self._waits : self._waits + len(rows)]
            waiting.view(np.uint8)[:] = rows.view(np.uint8)
            waiting["position"] += position
            self._waits += len(rows)

    def _note(self, _: Any, error: KafkaFormatError) -> None:
        self._readable = False

    def _flush(self) -> None:
        """Process the batch headers that `see` has buffered.

        The headers of several tables are processed in one call, because each call has a high fixed
        cost.
        """
        if self._waits:
            self._add(0, b"", self._waiting[: self._waits])
            self._waits = 0

    def _add(self, position: int, buffer: Buffer, rows: BatchTable) -> None:
        if self.audit is not None:
            self.audit.add(self._segment, position, buffer, rows)
        if self._walk is not None:
            self._walk.add(buffer, rows, self._segment.name)

    def is_complete(self, plan: SegmentPlan) -> bool:
        """Return whether a reader of the segment gets exactly the batches that were passed to `see`, in the same order.

        If the result is False, all data that `see` has collected for the segment is discarded. If
        the result is True but the segment contains damage, only the collected transactions are
        discarded.
        """
        runs = RunColumns.of(plan.extents)
        if (
            self._readable
            and int(runs.batches.sum()) == self._batches
            and (len(runs) < 2 or bool((runs.position[1:] > runs.position[:-1]).all()))
        ):
            if len(plan.damaged) or len(runs) > 1:
                # The transactions were collected as if there were no damage, so discard them.
                self._walk = None
            self._flush()
            self._follow(plan)
            return True
        self._walk = None
        if self.audit is not None:
            self.audit.take_back()
        self.times = TimestampAudit(self.log, self._segment.name)
        return False

    def _follow(self, plan: SegmentPlan) -> None:
        """Stop collecting transactions if the previous segment is missing, because it may have contained markers."""
        first_offset, next_offset = plan.first_offset, plan.next_offset
        if first_offset is None or next_offset is None:
            return
        if self._before is not None and misses_a_segment(self.log, *self._before, plan.segment, first_offset):
            self._walk = None
        self._before = plan.segment, next_offset

    def finish(self) -> None:
        """If `see` was called with every batch, set `log.transactions`."""
        if self._walk is not None:
            self.log.transactions = settle(self._walk)

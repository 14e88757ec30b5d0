"""All that verify asks of a segment's batches, in the one pass in which the segment is planned.

While the plan is made nobody knows yet whether every sound batch will be delivered, in the order of the file. Most often it is
so, and then what was seen stands; else it is taken back, and the plan's extents are read once more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...constants import CONTROL_BIT, TRANSACTIONAL_BIT
from ...errors import KafkaFormatError
from ...records import RecordReader
from ...types import BATCH_DTYPE, Buffer
from ..reading.discovery import SegmentFile
from ..reading.partition import PartitionLog
from ..reading.plan import SegmentPlan
from ..reading.segment_walker import TABLE_ROWS
from ..reading.transactions import TransactionWalk, misses_a_segment, settle
from .audit import PartitionAudit


class Sweep:
    """One partition. Call `begin` for each segment, hand `see` to its plan, and ask `stands`.

    audit: None for a shallow look, which decodes no records. records: of the segment at hand, data records from the log start on.
    """

    def __init__(self, log: PartitionLog, audit: PartitionAudit | None) -> None:
        self.log = log
        self.audit = audit
        self.records = 0
        self._walk: TransactionWalk | None = TransactionWalk(log)
        self._before: tuple[SegmentFile, int] | None = None
        names = ("headers",)  # what stands last in a record: all before it is looked at too
        self._reader = RecordReader(names, first_offset=log.log_start_offset, max_batch_bytes=log.max_batch_bytes)
        self._waiting = np.empty(TABLE_ROWS, BATCH_DTYPE)

    def begin(self, segment: SegmentFile) -> None:
        self._segment = segment
        self._batches = self._waits = self.records = 0
        self._readable = True

    def see(self, position: int, buffer: Buffer, rows: np.ndarray) -> None:
        """Batches that lie in a buffer, whose first byte is the file's at `position`."""
        self._batches += len(rows)
        bits = int(np.bitwise_or.reduce(rows["attributes"]))
        if self.audit is not None and self._readable:
            data = rows[(rows["attributes"] & CONTROL_BIT) == 0] if bits & CONTROL_BIT else rows
            self.records += sum(c.columns.rows for c in self._reader.read(buffer, data, self._note)) if len(data) else 0
        if bits & CONTROL_BIT:  # markers are read from the buffer
            self._hand_on()
            self._add(position, buffer, rows)
        elif self.audit is not None or bits & TRANSACTIONAL_BIT or (self._walk is not None and self._walk.entries is not None):
            if self._waits + len(rows) > len(self._waiting):
                self._hand_on()
            waiting = self._waiting[self._waits : self._waits + len(rows)]
            waiting.view(np.uint8)[:] = rows.view(np.uint8)
            waiting["position"] += position
            self._waits += len(rows)

    def _note(self, _: Any, error: KafkaFormatError) -> None:
        self._readable = False

    def _hand_on(self) -> None:
        """Those that wait, so that many are looked at together."""
        if self._waits:
            self._add(0, b"", self._waiting[: self._waits])
            self._waits = 0

    def _add(self, position: int, buffer: Buffer, rows: np.ndarray) -> None:
        if self.audit is not None:
            self.audit.add(self._segment, position, buffer, rows)
        if self._walk is not None:
            self._walk.add(buffer, rows, self._segment.name)

    def stands(self, plan: SegmentPlan) -> bool:
        """Was all that the plan delivers seen, that alone, and in its order? Else what was seen of the segment is forgotten."""
        if self._readable and not plan.damaged and sum(e.batches for e in plan.extents) == self._batches and len(plan.extents) < 2:
            self._hand_on()
            self._follow(plan)
            return True
        self._walk = None
        if self.audit is not None:
            self.audit.take_back()
        return False

    def _follow(self, plan: SegmentPlan) -> None:
        """Where a segment is missing before this one, the walk has gone on as if none were: it has to be made anew."""
        for extent in plan.extents:
            if self._before is not None and misses_a_segment(self.log, *self._before, plan.segment, extent.first_offset):
                self._walk = None
            self._before = plan.segment, extent.last_offset + 1

    def finish(self) -> None:
        """Every segment was looked at: tell the log what became of transactions, if that is known."""
        if self._walk is not None:
            self.log.transactions = settle(self._walk)

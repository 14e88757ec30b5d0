"""Find batches that contain a record after the maximum timestamp in the batch header."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...constants import CONTROL_BIT
from ...records import RecordReader
from ...types import BatchTable, Buffer
from ..reading.models import Finding
from ..reading.partition import PartitionLog


class TimestampAudit:
    """Reports the batches of a segment whose maximum timestamp is too low.

    Brokers and kafkafmt use the maximum timestamp to find records by time. If it is too low, they
    do not find the later records of the batch.
    """

    def __init__(self, log: PartitionLog, file: str) -> None:
        self._log = log
        self._file = file
        self._batches = 0
        self._first = ""

    @cached_property
    def _reader(self) -> RecordReader:
        log = self._log
        return RecordReader(("timestamp",), first_offset=log.log_start_offset, max_batch_bytes=log.max_batch_bytes)

    def add(self, position: int, buffer: Buffer, table: BatchTable) -> None:
        """Check batches whose columns have `late_times`. `position` is the file position of the first byte of `buffer`."""
        for i in np.flatnonzero((table["attributes"] & CONTROL_BIT) == 0).tolist():
            stated, latest = int(table["max_timestamp"][i]), None
            for _, columns in self._reader.read(buffer, table[i : i + 1], lambda _, __: None):
                assert columns.timestamp is not None
                found = int(columns.timestamp[: columns.rows].max())
                latest = found if latest is None else max(latest, found)
            if latest is not None and latest > stated:
                self._batches += 1
                self._first = self._first or (
                    f"the batch at position {position + int(table['position'][i])} contains a record with the "
                    f"timestamp {latest}, which is after the maximum timestamp {stated} in the batch header"
                )

    def findings(self) -> list[Finding]:
        """Return one finding for all batches, or none."""
        if not self._batches:
            return []
        more = self._batches - 1
        others = f"; {more:,} more {'batch has' if more == 1 else 'batches have'} the same error" if more else ""
        return [Finding(self._file, "max_timestamp_mismatch", self._first + others)]

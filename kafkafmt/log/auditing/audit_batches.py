"""Find valid batches that deserve a finding, because their records contradict the batch header.

Decoding sets a flag in the columns if any of many batches is unusual. Only then, `BatchAudit` decodes the
batches one by one.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...constants import CONTROL_BIT
from ...records import RecordReader
from ...text import offset_range, quantity
from ...types import BatchTable, Buffer, last_offset
from ..reading.models import Finding
from ..reading.partition import PartitionLog

MESSAGES = {
    "odd_record_offsets": "record offsets in {batches} ({offsets}, from position {position} on) do not increase or are "
    "outside the offsets in the batch header; Kafka delivers these records too",
}
"""For each code of a finding about a run of adjacent batches, the message."""


class BatchAudit:
    """Reports unusual batches of a segment: a maximum timestamp that is too low, or odd record offsets.

    Brokers and kafkafmt use the maximum timestamp to find records by time. If it is too low, they
    do not find the later records of the batch.
    """

    def __init__(self, log: PartitionLog, file: str) -> None:
        self._log = log
        self._file = file
        self._late = 0
        self._first_late = ""
        self._runs: dict[str, list[list[int]]] = {code: [] for code in MESSAGES}
        """For each code, runs of adjacent batches: position, end, first offset, last offset, and number of batches."""

    @cached_property
    def _reader(self) -> RecordReader:
        log = self._log
        return RecordReader(
            ("offset", "timestamp"), first_offset=log.log_start_offset, max_batch_bytes=log.max_batch_bytes
        )

    def add(self, position: int, buffer: Buffer, table: BatchTable) -> None:
        """Check batches whose columns are `unusual`. `position` is the file position of the first byte of `buffer`."""
        for i in np.flatnonzero((table["attributes"] & CONTROL_BIT) == 0).tolist():
            row = table[i]
            stated, latest = int(row["max_timestamp"]), None
            self._reader.columns.take_unusual()
            for _, columns in self._reader.read(buffer, table[i : i + 1], lambda _, __: None):
                assert columns.timestamp is not None
                found = int(columns.timestamp[: columns.rows].max())
                latest = found if latest is None else max(latest, found)
            at = position + int(row["position"])
            if latest is not None and latest > stated:
                self._late += 1
                self._first_late = self._first_late or (
                    f"the batch at position {at} contains a record with the timestamp {latest}, which is after the "
                    f"maximum timestamp {stated} in the batch header"
                )
            if self._reader.columns.odd_offsets:
                self._add_to_run("odd_record_offsets", row, at)

    def _add_to_run(self, code: str, row: np.void, position: int) -> None:
        """Add a batch to the last run of a finding, or begin a new run if the batch does not follow it."""
        runs, end = self._runs[code], position + int(row["size"])
        if runs and runs[-1][1] == position:
            runs[-1][1], runs[-1][3] = end, last_offset(row)
            runs[-1][4] += 1
        else:
            runs.append([position, end, int(row["base_offset"]), last_offset(row), 1])

    def findings(self) -> list[Finding]:
        """Return one finding for all batches with late timestamps, and one for each run of other unusual batches."""
        found = []
        if self._late:
            more = self._late - 1
            others = f"; {more:,} more {'batch has' if more == 1 else 'batches have'} the same error" if more else ""
            found.append(Finding(self._file, "max_timestamp_mismatch", self._first_late + others))
        for code, runs in self._runs.items():
            for position, _, first, last, batches in runs:
                places = {"offsets": offset_range(first, last), "position": position}
                message = MESSAGES[code].format(batches=quantity(batches, "batch"), **places)
                found.append(Finding(self._file, code, message))
        return found

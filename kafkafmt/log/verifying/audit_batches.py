"""Find valid batches that deserve a finding, because their records contradict the batch header.

Decoding sets a flag in the columns if any of many batches is unusual. Only then, `BatchAudit` decodes the
batches one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...constants import CONTROL_BIT
from ...records import RecordReader
from ...records.java_reads import refused_by_java
from ...support.text import offset_range, quantity
from ...types import BatchTable, Buffer, last_offset
from ..findings import Finding
from ..reading import PartitionLog

MESSAGES = {
    "odd_codec_end": "the compressed data of {batches} ({offsets}, from position {position} on) has an odd end: {reason}; all "
    "records are complete",
    "refused_by_kafka": "Kafka's Java code does not read {batches} ({offsets}, from position {position} on): {reason}; "
    "kafkafmt reads all records",
    "odd_record_offsets": "record offsets in {batches} ({offsets}, from position {position} on) do not increase or are "
    "outside the offsets in the batch header; Kafka delivers these records too",
}
"""For each code of a finding about a run of adjacent batches, the message."""


@dataclass
class _Run:
    """Adjacent batches with the same finding for the same reason."""

    position: int
    end: int
    first_offset: int
    last_offset: int
    batches: int
    reason: str


class BatchAudit:
    """Reports batches with a too low maximum timestamp, odd record offsets or odd compressed data."""

    # If the maximum timestamp is too low, brokers and kafkafmt do not find the later records of the batch by time.

    def __init__(self, log: PartitionLog, file: str) -> None:
        self._log = log
        self._file = file
        self._late = 0
        self._first_late = ""
        self._runs: dict[str, list[_Run]] = {code: [] for code in MESSAGES}
        """Runs of adjacent batches, by the code of the finding."""

    @cached_property
    def _reader(self) -> RecordReader:
        log = self._log
        return RecordReader(
            ("offset", "timestamp"), first_offset=log.log_start_offset, max_batch_bytes=log.max_batch_bytes
        )

    def add(self, position: int, buffer: Buffer, table: BatchTable) -> None:
        """Check batches whose columns are `unusual`. `position` is the file position of the first byte of `buffer`."""
        refused = {batch.position: batch.oddity for batch in refused_by_java(buffer, table)}
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
            for odd in self._reader.take_odd_ends():
                self._add_to_run("odd_codec_end", row, at, odd.oddity)
            if reason := refused.get(int(row["position"])):
                self._add_to_run("refused_by_kafka", row, at, reason)

    def _add_to_run(self, code: str, row: np.void, position: int, reason: str = "") -> None:
        """Add a batch to the last run of a finding, or begin a new run if the batch does not follow it."""
        runs, end = self._runs[code], position + int(row["size"])
        if runs and (runs[-1].end, runs[-1].reason) == (position, reason):
            run = runs[-1]
            run.end, run.last_offset, run.batches = end, last_offset(row), run.batches + 1
        else:
            runs.append(_Run(position, end, int(row["base_offset"]), last_offset(row), 1, reason))

    def findings(self) -> list[Finding]:
        """Return one finding for all batches with late timestamps, and one for each run of other unusual batches."""
        found = []
        if self._late:
            more = self._late - 1
            others = f"; {more:,} more {'batch has' if more == 1 else 'batches have'} the same error" if more else ""
            found.append(Finding(self._file, "max_timestamp_mismatch", self._first_late + others))
        for code, runs in self._runs.items():
            for run in runs:
                message = MESSAGES[code].format(
                    batches=quantity(run.batches, "batch"),
                    offsets=offset_range(run.first_offset, run.last_offset),
                    position=run.position,
                    reason=run.reason,
                )
                found.append(Finding(self._file, code, message))
        return found

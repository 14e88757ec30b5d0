"""Define the items that `kafkafmt.dump` yields: batches, records, index entries, producers and problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class DumpedBatch(NamedTuple):
    """A batch of a `.log` or `.checkpoint` file. Fields from `base_offset` are None for batches of magic 0 and 1."""

    position: int
    size: int
    magic: int
    codec: str
    crc: int
    is_valid: bool
    timestamp_type: int  # 0 for CreateTime, 1 for LogAppendTime, -1 without a timestamp (magic 0)
    max_timestamp: int  # ms since 1970-01-01 UTC
    last_offset: int
    base_offset: int | None = None
    record_count: int | None = None
    base_sequence: int | None = None
    last_sequence: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    leader_epoch: int | None = None
    is_transactional: bool | None = None
    is_control: bool | None = None
    delete_horizon: int | None = None  # ms since 1970-01-01 UTC; None if the batch has none


class DumpedRecord(NamedTuple):
    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    sequence: int | None = None  # None for magic 0 and 1
    headers: Any = None  # None for magic 0 and 1
    is_valid: bool | None = None  # None for magic 2
    crc: int | None = None  # None for magic 2
    control: Any = None  # the decoded control record, or the error; None for data records


class OffsetIndexEntry(NamedTuple):
    offset: int
    position: int


class TimeIndexEntry(NamedTuple):
    """An entry of a `.timeindex` file. The timestamp is in milliseconds since 1970-01-01 UTC."""

    timestamp: int
    offset: int


class TransactionIndexEntry(NamedTuple):
    """An entry of a `.txnindex` file, which describes an aborted transaction."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class DumpedProducer(NamedTuple):
    """A producer's entry in a `.snapshot` file. Fields from `first_sequence` are None if the producer has no batch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_first_offset: int | None  # of the open transaction; None without one
    timestamp: int
    first_sequence: int | None = None
    last_sequence: int | None = None
    last_offset: int | None = None
    offset_delta: int | None = None


class Problem(NamedTuple):
    """A problem: either damage (data that cannot be read) or a finding (any other problem)."""

    kind: str  # "damage" or "finding"
    file: str
    code: str
    message: str
    position: int | None = None  # in bytes; None for a finding
    length: int | None = None  # in bytes; None for a finding


class OffsetGap(NamedTuple):
    """A gap in the log: the offsets of two successive records differ by more than 1."""

    file: str
    after: int
    offset: int


class InvalidBytes(NamedTuple):
    """Bytes at the end of a file that do not form a complete batch."""

    file: str
    bytes: int


class EmptyIndex(NamedTuple):
    """A `.index` file that is empty (0 bytes)."""

    path: Path


class SaneIndex(NamedTuple):
    """An index without problems, yielded only if ``indexes="sanity"`` was requested."""

    path: Path


Item = (
    DumpedBatch
    | DumpedRecord
    | OffsetIndexEntry
    | TimeIndexEntry
    | TransactionIndexEntry
    | DumpedProducer
    | Problem
    | OffsetGap
    | InvalidBytes
    | EmptyIndex
    | SaneIndex
)


def finding(path: Path, code: str, message: str) -> Problem:
    return Problem("finding", path.name, code, message)

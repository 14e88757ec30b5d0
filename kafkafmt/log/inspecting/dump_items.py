"""Define the items that `kafkafmt.dump` yields: batches, records, index entries, producers and problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class DumpedBatch(NamedTuple):
    """A batch of a `.log` or `.checkpoint` file.

    The fields from `base_offset` to `delete_horizon` are None for batches of magic 0 and 1.

    Attributes
    ----------
    position, size : int
        File position and size of the batch in bytes.
    timestamp_type : int
        0 for CreateTime, 1 for LogAppendTime, -1 if the batch has no timestamp (magic 0).
    max_timestamp : int
        Largest timestamp in milliseconds since 1970-01-01 UTC.
    delete_horizon : int or None
        Delete horizon in milliseconds since 1970-01-01 UTC. None if the batch has none.
    """

    position: int
    size: int
    magic: int
    codec: str
    crc: int
    is_valid: bool
    timestamp_type: int
    max_timestamp: int
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
    delete_horizon: int | None = None


class DumpedRecord(NamedTuple):
    """A record of a batch.

    Attributes
    ----------
    sequence, headers
        None for records of magic 0 and 1.
    is_valid, crc
        None for records of magic 2.
    control
        The decoded control record (see `kafkafmt.records.decode_control_record`), or the error if it cannot
        be decoded. None for data records.
    """

    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    sequence: int | None = None
    headers: Any = None
    is_valid: bool | None = None
    crc: int | None = None
    control: Any = None


class OffsetIndexEntry(NamedTuple):
    """An entry of a `.index` file."""

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
    """A producer's entry in a `.snapshot` file.

    The fields from `first_sequence` to `offset_delta` are None if the producer has no batch.

    Attributes
    ----------
    transaction_first_offset : int or None
        First offset of the producer's open transaction. None if the producer has no open
        transaction.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_first_offset: int | None
    timestamp: int
    first_sequence: int | None = None
    last_sequence: int | None = None
    last_offset: int | None = None
    offset_delta: int | None = None


class Problem(NamedTuple):
    """A problem: either damage (data that cannot be read) or a finding (any other problem).

    Attributes
    ----------
    kind : {"damage", "finding"}
        Whether the problem is damage or a finding.
    position, length : int or None
        Position and length of the damage in bytes. None for a finding.
    """

    kind: str
    file: str
    code: str
    message: str
    position: int | None = None
    length: int | None = None


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
    """Return a finding about a file."""
    return Problem("finding", path.name, code, message)

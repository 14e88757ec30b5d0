"""Rebuild the state of a KRaft cluster from a snapshot and from the metadata log after the snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .._backend import core
from ..constants import NO_END
from ..errors import KafkaFormatError
from ..internal_topics.decode import read_metadata_record
from ..log import Damage, DamagedLogError, PartitionDir, PartitionLog
from ..log.damage import ReadLimits, Walker
from ..log.reading import OffsetInterval, is_loss
from ..log.storage import FileView
from ..messages import SchemaMessage
from ..records import RecordReader, decode_control_record
from ..records.control import KRAFT_VERSION, KRAFT_VOTERS, LEADER_CHANGE, SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from ..support.text import offset_range
from .image import Image, ReplayError
from .models import Endpoint, MetadataVoter, ReplayProblem
from .source import SnapshotFile

VOTERS_RECORD, LEADER_RECORD, QUORUM_FILE = "voters record", "leader change", "quorum-state"
BEGIN, END, ABORT = "BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"
KRAFT_FEATURE = "kraft.version"


class UnusableSnapshotError(Exception):
    """Raised if a metadata snapshot is damaged or incomplete."""


class SnapshotHeader(NamedTuple):
    """The header of a metadata snapshot. `timestamp` is that of its last record, in ms since 1970-01-01 UTC."""

    timestamp: int


class Replay:
    """Rebuilds the state of a cluster by applying the records of a snapshot and of the metadata log."""

    # The records of a metadata transaction (KIP-868) are applied when it ends, and never if it is
    # aborted or does not end. `end_offset` is the offset after the last applied record, and
    # `timestamp` its time in ms. `problems` are records that could not be applied.

    def __init__(self) -> None:
        self.image: Image = Image()
        self.end_offset: int = 0
        self.timestamp: int | None = None
        self.voters: tuple[MetadataVoter, ...] = ()
        self.problems: list[ReplayProblem] = []
        self._open_since: int | None = None
        self._pending: list[tuple[int, SchemaMessage]] = []

    @property
    def open_transaction(self) -> int | None:
        """Offset at which the open metadata transaction begins. None if no transaction is open."""
        return self._open_since

    def load(self, snapshot: SnapshotFile, max_batch_bytes: int) -> None:
        """Apply all records of a snapshot. If the snapshot is damaged or incomplete, raise UnusableSnapshotError."""
        types = []
        for record in snapshot_records(snapshot, max_batch_bytes):
            if record.key is None:
                self._metadata(snapshot.end_offset - 1, record.value)
            else:
                types.append(self._control(snapshot.end_offset - 1, record.key, record.value))
                if types[-1] == SNAPSHOT_HEADER:
                    self.timestamp = _header(record).timestamp
        if types[:1] != [SNAPSHOT_HEADER] or types[-1] != SNAPSHOT_FOOTER:
            raise UnusableSnapshotError(f"{snapshot.path}: the snapshot is incomplete: its header or footer is missing")
        self.end_offset = snapshot.end_offset

    def follow(self, directory: PartitionDir, end: int, until: int | None, limits: ReadLimits) -> None:
        """Apply the metadata log from `end_offset` to `end` (exclusive), or to a record later than `until` (ms)."""
        # As on a broker, records after missing offsets are applied; `problems` contains these
        # offsets. DamagedLogError: the records before the damage were applied.
        log = PartitionLog(directory, limits)
        low = self.end_offset

        def on_damage(damage: Damage) -> None:
            before = damage.last_offset is not None and damage.last_offset < low
            if is_loss(damage):  # the next record shows which offsets are missing
                return
            if not before and (damage.first_offset is None or damage.first_offset < end):
                raise DamagedLogError(damage, str(directory.path))

        # The first record after `end` shows whether offsets before `end` are missing.
        for record in log.records(OffsetInterval(low, NO_END, control=True), on_damage=on_damage):
            if until is not None and record.timestamp > until:
                return
            reached = min(record.offset, end)
            if reached > self.end_offset:
                missing = offset_range(self.end_offset, reached - 1)
                self._problem(self.end_offset, f"the log does not contain {missing}")
                self.end_offset = reached
            if record.offset >= end:
                return
            if record.key is None:
                self._metadata(record.offset, record.value)
            else:
                self._control(record.offset, record.key, record.value)
            self.end_offset = record.offset + 1
            self.timestamp = record.timestamp

    def _metadata(self, offset: int, value: bytes | None) -> None:
        """Decode and apply a metadata record. If a transaction is open, the record is applied when it ends."""
        try:
            message, _ = read_metadata_record(value or b"")
        except KafkaFormatError as error:
            self._problem(offset, f"a record cannot be decoded: {error.message}")
            return
        kind = type(message).__name__
        if kind == BEGIN:
            if self._open_since is None:
                self._open_since = offset
            else:
                self._problem(offset, "a transaction begins before the previous one ends")
        elif kind in (END, ABORT):
            if self._open_since is None:
                self._problem(offset, "a transaction ends, but none has begun")
            elif kind == END:
                for at, pending in self._pending:
                    self._apply(at, pending)
            self._open_since, self._pending = None, []
        elif self._open_since is not None:
            self._pending.append((offset, message))
        else:
            self._apply(offset, message)

    def _apply(self, offset: int, message: SchemaMessage) -> None:
        try:
            self.image.apply(message)
        except ReplayError as error:
            self._problem(offset, f"{type(message).__name__} was not applied: {error}")

    def _problem(self, offset: int, message: str) -> None:
        self.problems.append(ReplayProblem(offset, message))

    def _control(self, offset: int, key: bytes, value: bytes | None) -> int:
        """Apply a control record, and return its type."""
        try:
            record = decode_control_record(key, value)
        except KafkaFormatError as error:
            self._problem(offset, error.message)
            return -1
        fields: dict[str, Any] = record.value or {}
        if record.type == KRAFT_VERSION:
            self.image.features[KRAFT_FEATURE] = fields["kRaftVersion"]
        elif record.type == KRAFT_VOTERS:
            self.voters = tuple(_voter(v) for v in fields["voters"])
        elif record.type == LEADER_CHANGE and not any(v.source == VOTERS_RECORD for v in self.voters):
            self.voters = static_voters((v["voterId"] for v in fields["voters"]), LEADER_RECORD)
        return record.type


def static_voters(ids: Any, source: str) -> tuple[MetadataVoter, ...]:
    """Return the voters of a static quorum. Only the ids of these voters are known."""
    return tuple(MetadataVoter(number, None, (), source) for number in sorted(ids))


def _voter(fields: dict[str, Any]) -> MetadataVoter:
    listeners = tuple(Endpoint(e["name"], e["host"], e["port"]) for e in fields["endpoints"])
    return MetadataVoter(fields["voterId"], fields["voterDirectoryId"], listeners, VOTERS_RECORD)


def snapshot_records(snapshot: SnapshotFile, max_batch_bytes: int) -> Iterator[core.Record[bytes]]:
    """Yield all records of a snapshot, including control records. UnusableSnapshotError: it is damaged."""
    reader = RecordReader(max_batch_bytes=max_batch_bytes, capacity=1024)

    def on_error(_: Any, error: KafkaFormatError) -> None:
        raise error

    with FileView(snapshot.path) as view:
        end = 0
        try:
            for start, buffer, rows, error in Walker(view, 0, max_batch_bytes).tables(0, view.size):
                for source, columns in reader.read(buffer, rows, on_error):
                    yield from core.make_records(source, columns)
                if len(rows):
                    end = start + int(rows[-1]["position"] + rows[-1]["size"])
                if error is not None:
                    raise error
        except KafkaFormatError as error:
            raise UnusableSnapshotError(f"{snapshot.path}: {error.message} (position {error.position})") from None
        if end != view.size:
            raise UnusableSnapshotError(f"{snapshot.path}: the last {view.size - end} bytes are not a complete batch")


def header_of(snapshot: SnapshotFile, max_batch_bytes: int) -> SnapshotHeader:
    """Read the header of a snapshot. If the header is missing or damaged, raise UnusableSnapshotError."""
    for record in snapshot_records(snapshot, max_batch_bytes):
        if record.key is None:
            break
        return _header(record)
    raise UnusableSnapshotError(f"{snapshot.path}: the snapshot is incomplete: its header is missing")


def _header(record: core.Record[bytes]) -> SnapshotHeader:
    try:
        fields = decode_control_record(record.key, record.value)
    except KafkaFormatError as error:
        raise UnusableSnapshotError(error.message) from None
    if fields.type != SNAPSHOT_HEADER or fields.value is None:
        raise UnusableSnapshotError("the first record of the snapshot is not a header")
    return SnapshotHeader(int(fields.value["lastContainedLogTimestamp"]))

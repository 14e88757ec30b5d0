"""Read the items in the files of a log, as Kafka's DumpLogSegments does.

The items are batches and records of `.log` and `.checkpoint` files, entries of the three indexes,
and producers in `.snapshot` files. DumpLogSegments stops reading at an impossible size field and at
zeros. This module yields a `Problem` for damage and continues after it. A batch with a wrong CRC is
yielded with `is_valid` set to False.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import arguments
from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NAMES,
    CONTROL_BIT,
    DEFAULT_MAX_BATCH_BYTES,
    DELETE_HORIZON_BIT,
    ENTRY_OVERHEAD,
    LEGACY_CRC_AT,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_END,
    MAGIC_V0,
    MAGIC_V2,
    MIN_LEGACY_LENGTH,
    TRANSACTIONAL_BIT,
)
from ...errors import KafkaFormatError
from ...paths import local_path
from ...records import RecordReader, decode_control_record
from ...types import BATCH_DTYPE, BatchTable, Buffer, last_offsets
from ..format import files
from ..format.files import FileView
from ..format.index_entries import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TRANSACTION_ENTRY,
    all_offset_entries,
    all_time_entries,
    partial_entry_message,
    read_offset_index,
    read_time_index,
    read_transaction_index,
)
from ..format.snapshots import read_snapshot, sequence_after
from ..reading.discovery import NoLogError, discover
from ..reading.models import Finding
from ..reading.partition import PartitionLog
from ..reading.read_limits import ReadLimits
from ..reading.recognize import packing
from ..reading.segment_walker import Walker
from .audit_indexes import IndexAudit
from .run import AnyPath, paths_of

SUFFIXES = (".checkpoint", ".index", ".log", ".snapshot", ".timeindex", ".txnindex")
BASE_OFFSET = re.compile(r"[0-9]{20}(?=\.)|[0-9]{1,19}(?=_)")
"""Matches the base offset in a file name.

Indexes fetched from tiered storage are named `<base offset>_<id>.index`.
"""
METADATA_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint\Z")
BOOTSTRAP = "bootstrap.checkpoint"
INDEXES = ("entries", "findings", "sanity")


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
        The decoded control record (see `kafkafmt.decode_control_record`), or the error if it cannot
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
    """A problem: either damage (data that cannot be delivered) or a finding (any other problem).

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
    """Bytes at the end of a file that do not form a batch."""

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


@dataclass(frozen=True)
class DumpedFile:
    """A file of a log. Iterate over it to get its items; each iteration reads the file again.

    Attributes
    ----------
    path : Path
        Path of the file.
    base_offset : int
        The base offset in the file name; 0 if the name contains none.
    """

    path: Path
    base_offset: int
    deep: bool = False
    indexes: str = "entries"
    max_bytes: int | None = None
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES

    def __iter__(self) -> Iterator[Item]:
        suffix = self.path.suffix
        if suffix in (".index", ".timeindex"):
            return self._index_items()
        if suffix == ".txnindex":
            return transaction_items(self.path)
        if suffix == ".snapshot":
            return snapshot_items(self.path)
        return LogDump(self.path, self.base_offset, self.deep, self.max_bytes, self.max_batch_bytes).items()

    def _index_items(self) -> Iterator[Item]:
        if self.indexes == "sanity":
            problems = index_sanity(self.path, self.base_offset)
            yield from problems if problems else (SaneIndex(self.path),)
            return
        if self.path.suffix == ".index" and files.file_size(self.path) == 0:
            yield EmptyIndex(self.path)
        elif self.indexes == "entries":
            yield from index_items(self.path, self.base_offset)
        yield from index_findings(self.path)


def dump(
    paths: AnyPath | Iterable[AnyPath],
    *,
    deep: bool = False,
    indexes: str = "entries",
    max_bytes: int | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    on_message: Callable[[str], None] = lambda _: None,
) -> Iterator[DumpedFile]:
    """Yield the files of a log. Iterate over each file to get its batches, records or entries.

    Parameters
    ----------
    paths : str, os.PathLike, or an iterable of these
        `.log`, `.index`, `.timeindex`, `.txnindex`, `.snapshot` and `.checkpoint` files, or
        directories that contain such files.
    deep : bool, default False
        Also yield the records of each batch.
    indexes : {"entries", "findings", "sanity"}, default "entries"
        What to yield for `.index` and `.timeindex` files. "entries" yields all entries, and then a
        `Problem` for each disagreement with the log. "findings" yields only the problems. "sanity"
        checks the index alone, without its log, and yields `SaneIndex` if it has no problem.
    max_bytes : int, optional
        Read only this many bytes from the start of each log. By default, each log is read
        completely.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression.
    on_message : callable, optional
        Called with a message about each file that is not read.

    Yields
    ------
    DumpedFile
        The files, in the order of `paths`. The files of a directory are sorted by name, and the
        files in its subdirectories follow.

    Raises
    ------
    OSError
        A path does not exist or cannot be read. `NoLogError`, a subclass, if there is no file to
        dump.
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    Kafka's counterpart is ``kafka.tools.DumpLogSegments``. Damage is yielded as a `Problem`, and
    reading continues after it.
    """
    arguments.one_of("indexes", indexes, INDEXES)
    most = arguments.optional_integer("max_bytes", max_bytes, 0)
    limit = arguments.integer("max_batch_bytes", max_batch_bytes, 1)
    given = [Path(local_path(path)) for path in paths_of(paths)]
    for path in _files(given, on_message):
        yield DumpedFile(path, base_offset_in(path.name), deep, indexes, most, limit)


def base_offset_in(name: str) -> int:
    """Return the base offset in a file name, or 0 if the name contains none."""
    found = BASE_OFFSET.match(name)
    return int(found[0]) if found else 0


def _files(given: list[Path], on_message: Callable[[str], None]) -> Iterator[Path]:
    """Yield the given files, and the files in the given directories."""
    if not any(path.is_dir() or path.suffix in SUFFIXES or not path.exists() for path in given):
        packed = [f"; {path}: {how}" for path in given if (how := packing(path))]
        names = ", ".join(map(str, given))
        raise NoLogError(f"{names}: not a file that can be dumped ({', '.join(SUFFIXES)})" + "".join(packed))
    for path in given:
        path.stat()  # raise OSError if the path does not exist
        if path.is_dir():
            found = list(_below(path))
            if not found:
                raise NoLogError(f"{path}: contains no file that can be dumped ({', '.join(SUFFIXES)})")
            yield from found
        elif path.suffix in SUFFIXES:
            yield path
        else:
            how = packing(path)
            on_message(f"Ignoring unknown file {path}" + (f": {how}" if how else ""))


def _below(path: Path) -> Iterator[Path]:
    """Yield the files in a partition directory, or in all partitions of a log directory."""
    directories, names = files.list_directory(path)
    known = (n for n in names if n.endswith(SUFFIXES))
    yield from (path / n for n in known if BASE_OFFSET.match(n) or METADATA_SNAPSHOT.match(n) or n == BOOTSTRAP)
    for directory in directories:
        yield from (p for p in _below(path / directory) if p.parent == path / directory)


class LogDump:
    """Reads the items of a `.log` or `.checkpoint` file.

    Parameters
    ----------
    path : Path
        The file.
    base_offset : int
        The base offset in the file name.
    deep : bool
        Also yield records.
    max_bytes : int or None
        Read only this many bytes from the start of the file.
    max_batch_bytes : int
        Largest size of one batch, in bytes after decompression.
    """

    def __init__(
        self,
        path: Path,
        base_offset: int,
        deep: bool = False,
        max_bytes: int | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.deep = deep
        self.max_bytes = max_bytes
        self.max_batch_bytes = max_batch_bytes
        self._reader = RecordReader(max_batch_bytes=max_batch_bytes, capacity=1024)
        self._last: int | None = None

    def items(self) -> Iterator[Item]:
        """Yield the batches and records in file order, and then the problems."""
        bad: list[Problem] = []
        rising = True
        with FileView(self.path) as view:
            whole = view.size
            view.size = whole if self.max_bytes is None else min(whole, self.max_bytes)
            cut = view.size < whole
            walker = Walker(view, self.base_offset, self.max_batch_bytes)
            position, expected = 0, self.base_offset
            while position < view.size:
                error: KafkaFormatError | None = None
                for start, buffer, rows, error in walker.tables(position, view.size):  # noqa: B007 (used after the loop)
                    for i in range(len(rows)):
                        yield from self._batch(start, buffer, rows[i : i + 1], True)
                    if len(rows):
                        lasts = np.concatenate(([expected - 1], last_offsets(rows)))
                        rising = rising and bool((lasts[1:] > lasts[:-1]).all())
                        position, expected = start + int(rows[-1]["position"] + rows[-1]["size"]), int(lasts[-1]) + 1
                if error is None or (cut and error.code == "truncated"):
                    break
                end, _ = walker.search.resume(position, expected)
                bad.append(self._damage(error.code, error.message, position, end - position))
                yield from self._bad(view, position, end)
                position = end
        if bad or not rising:
            yield from self._judged(bad)

    def _judged(self, bad: list[Problem]) -> list[Problem]:
        """Return the problems that the plan of the segment reports.

        Unlike `bad`, the result includes offsets that contradict each other. An unfinished tail or
        a repeated batch is a finding in the result, not damage.
        """
        if self.path.suffix != ".log":
            return bad
        try:
            log = PartitionLog(discover([self.path]).partitions[0], ReadLimits(self.max_batch_bytes))
        except NoLogError:
            # The file is not named like a segment and contains no valid batch.
            return bad
        plan = log.plan(log.segments[0])
        near = [d for d in plan.damaged if self.max_bytes is None or d.position < self.max_bytes]
        damaged = [self._damage(d.code, f"{d.message}; {d.lost}", d.position, d.length) for d in near]
        return damaged + [Problem("finding", self.path.name, f.code, f.message) for f in plan.findings]

    def _damage(self, error: str, message: str, position: int, length: int) -> Problem:
        return Problem("damage", self.path.name, error, message, position, length)

    def _bad(self, view: FileView, position: int, end: int) -> Iterator[Item]:
        """Yield items for a range of bytes that contains no valid batch, if possible.

        If the header and the size in it fit the file, the batch is yielded, marked as invalid.
        If they exceed it and the range is at the end of the file, an `InvalidBytes` is yielded.
        """
        head = view.read(position, BATCH_HEADER_SIZE)
        size = (
            int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True) + ENTRY_OVERHEAD
            if len(head) >= MAGIC_END
            else 0
        )
        if len(head) < MAGIC_END or size > view.size - position:
            if end == view.size and self.max_bytes is None:
                yield InvalidBytes(self.path.name, end - position)
        elif MIN_LEGACY_LENGTH + ENTRY_OVERHEAD <= size <= self.max_batch_bytes:
            data, table = view.read(position, size), np.zeros(1, BATCH_DTYPE)
            if core.scan_batches(data, table, check_crc=False).count:
                yield from self._batch(position, data, table, False, position + size == end)

    def _batch(self, start: int, buffer: Buffer, row: BatchTable, valid: bool, deep: bool = True) -> Iterator[Item]:
        item = batch_item(row[0], start, valid)
        yield item
        if not (self.deep and deep):
            return
        errors: list[KafkaFormatError] = []
        number, crcs = 0, [item.crc]
        for source, columns in self._reader.read(buffer, row, lambda _, error: errors.append(error)):
            if item.magic < MAGIC_V2 and item.codec != "none" and number == 0:
                crcs = _inner_crcs(source)
            for record in core.make_records(source, columns):
                yield from self._gap(record.offset)
                yield _record_item(record, item, crcs[min(number, len(crcs) - 1)])
                number += 1
        if valid:
            for error in errors:
                yield self._damage(error.code, error.message, item.position, item.size)

    def _gap(self, offset: int) -> Iterator[Item]:
        if self._last is not None and offset != self._last + 1:
            yield OffsetGap(self.path.name, self._last, offset)
        self._last = offset


def batch_item(row: Any, start: int, valid: bool) -> DumpedBatch:
    """Return the item for a row of a batch table whose buffer starts at file position `start`."""
    attributes, magic, sequence = int(row["attributes"]), int(row["magic"]), int(row["base_sequence"])
    codec = attributes & CODEC_MASK
    common = (
        start + int(row["position"]),
        int(row["size"]),
        magic,
        CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown({codec})",
        int(row["crc"]),
        valid,
        -1 if magic == MAGIC_V0 else int(bool(attributes & LOG_APPEND_TIME_BIT)),
        int(row["max_timestamp"]),
        int(row["base_offset"]) + int(row["last_offset_delta"]),
    )
    if magic < MAGIC_V2:
        return DumpedBatch(*common)
    return DumpedBatch(
        *common,
        base_offset=int(row["base_offset"]),
        record_count=int(row["count"]),
        base_sequence=sequence,
        last_sequence=-1 if sequence < 0 else sequence_after(sequence, int(row["last_offset_delta"])),
        producer_id=int(row["producer_id"]),
        producer_epoch=int(row["producer_epoch"]),
        leader_epoch=int(row["leader_epoch"]),
        is_transactional=bool(attributes & TRANSACTIONAL_BIT),
        is_control=bool(attributes & CONTROL_BIT),
        delete_horizon=int(row["base_timestamp"]) if attributes & DELETE_HORIZON_BIT else None,
    )


def _record_item(record: Any, batch: DumpedBatch, crc: int) -> DumpedRecord:
    common = (record.offset, record.timestamp_type, record.timestamp, record.key, record.value)
    base, first = batch.base_sequence, batch.base_offset
    if base is None or first is None:
        return DumpedRecord(*common, is_valid=batch.is_valid, crc=crc)
    sequence = -1 if base < 0 else sequence_after(base, record.offset - first)
    control: Any = None
    if batch.is_control:
        try:
            control = decode_control_record(record.key, record.value)
        except KafkaFormatError as error:
            control = error
    return DumpedRecord(*common, sequence=sequence, headers=record.headers, control=control)


def _inner_crcs(source: Any) -> list[int]:
    """Return the CRC of each message in the message set of a wrapper message.

    These CRCs were checked when the wrapper message was decoded.
    """
    crcs, at, data = [], 0, memoryview(source)
    while at < len(data):
        crcs.append(int.from_bytes(data[at + LEGACY_CRC_AT : at + LEGACY_CRC_AT + 4], "big"))
        at += ENTRY_OVERHEAD + int.from_bytes(data[at + LENGTH_AT : at + ENTRY_OVERHEAD], "big")
    return crcs


def index_items(path: Path, base_offset: int) -> Iterator[OffsetIndexEntry | TimeIndexEntry]:
    """Yield the entries of a `.index` or `.timeindex` file, without the zeros at its end.

    The first entry is yielded even if it consists of zeros, as in DumpLogSegments.
    """
    data = files.read_bytes(path) or b""
    times = path.suffix == ".timeindex"
    first, second = (all_time_entries if times else all_offset_entries)(data, base_offset)
    offsets = second if times else first
    tail = np.flatnonzero(offsets[1:] == base_offset)
    n = int(tail[0]) + 1 if len(tail) else len(offsets)
    kind: Callable[[int, int], OffsetIndexEntry | TimeIndexEntry] = TimeIndexEntry if times else OffsetIndexEntry
    for a, b in zip(first[:n].tolist(), second[:n].tolist(), strict=True):
        yield kind(a, b)


def index_sanity(path: Path, base_offset: int) -> list[Problem]:
    """Check an index without its log. Return a list with the problem, or an empty list.

    The length of the file must be a multiple of the entry size, and the entries must increase.
    """
    data, times = files.read_bytes(path) or b"", path.suffix == ".timeindex"
    size = (TIME_ENTRY if times else OFFSET_ENTRY).itemsize
    used, _ = (read_time_index if times else read_offset_index)(data, base_offset)
    if len(data) % size:
        return [_finding(path, "index_length", partial_entry_message(len(data), size))]
    if data[len(used) * size :].strip(b"\0"):
        message = f"entry {len(used)} is not larger than the one before it, and is not part of a tail of zeros"
        return [_finding(path, "index_garbage", message)]
    return []


def index_findings(path: Path) -> list[Problem]:
    """Compare an index with its log, and return the problems that were found."""
    log_file = path.with_suffix(".log")
    if not log_file.exists():
        return [_finding(path, "log_missing", f"{log_file.name} is missing, so the index cannot be checked")]
    return [_finding(path, f.code, f.message) for f in _audit(log_file) if f.file == path.name]


@lru_cache(maxsize=1)
def _audit(log_file: Path) -> list[Finding]:
    """Return the findings for both indexes of a segment.

    The last result is cached, because the other index of the segment is usually dumped next.
    """
    log = PartitionLog(discover([log_file]).partitions[0])
    segment = log.segments[0]
    audit, plan = IndexAudit(segment, segment.base_offset or 0), log.plan(segment)
    if plan.extents:
        for part in log.parts(plan.extents[0].first_offset, plan.extents[-1].last_offset + 1, lambda _: None):
            if len(part.table):
                audit.add(part.table, part.position)
    return audit.findings(plan)


def transaction_items(path: Path) -> Iterator[TransactionIndexEntry | Problem]:
    """Yield the entries of a `.txnindex` file."""
    data = files.read_bytes(path) or b""
    for entry in read_transaction_index(data).tolist():
        yield TransactionIndexEntry(*entry)
    if len(data) % TRANSACTION_ENTRY.itemsize:
        yield _finding(path, "index_length", partial_entry_message(len(data), TRANSACTION_ENTRY.itemsize))


def snapshot_items(path: Path) -> Iterator[DumpedProducer | Problem]:
    """Yield the producers in a `.snapshot` file."""
    try:
        producers = read_snapshot(files.read_bytes(path) or b"")
    except KafkaFormatError as error:
        yield _finding(path, "unreadable_snapshot", error.message)
        return
    for p in producers:
        transaction = None if p.txn_first_offset < 0 else p.txn_first_offset
        item = DumpedProducer(p.producer_id, p.epoch, p.coordinator_epoch, transaction, p.timestamp)
        if p.last_offset >= 0:
            item = item._replace(
                first_sequence=p.first_sequence,
                last_sequence=p.last_sequence,
                last_offset=p.last_offset,
                offset_delta=p.offset_delta,
            )
        yield item


def _finding(path: Path, error: str, message: str) -> Problem:
    return Problem("finding", path.name, error, message)

"""The files of a log, item by item, as kafka-dump-log goes through them (Kafka: DumpLogSegments): batches and records of `.log`
and `.checkpoint` files, entries of the three indexes, producers of snapshots.

Items are plain dicts, `type` first, with the names that the tool prints. It stops where a size field cannot be right, and at zeros;
here the walk goes on behind damage, which becomes an item too: `damage` cannot be delivered, a `finding` is all else. A batch whose
CRC fails is shown as it stands, with isValid false.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

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
from ...records import RecordReader, decode_control_record
from ...types import BATCH_DTYPE, last_offsets
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
from ..reading.partition import PartitionLog
from ..reading.plan import Finding
from ..reading.segment_walker import Walker
from .audit_indexes import IndexAudit

Item = dict[str, Any]
TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


class LogDump:
    """A `.log` or `.checkpoint` file. deep: records too. max_bytes: only what lies within the file's first bytes."""

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
        bad: list[Item] = []
        rising = True
        with FileView(self.path) as view:
            whole = view.size
            view.size = whole if self.max_bytes is None else min(whole, self.max_bytes)
            cut = view.size < whole
            walker = Walker(view, self.base_offset, self.max_batch_bytes)
            position, expected = 0, self.base_offset
            while position < view.size:
                error: KafkaFormatError | None = None
                for start, buffer, rows, error in walker.tables(position, view.size):  # noqa: B007 (the last one, below)
                    for i in range(len(rows)):
                        yield from self._batch(start, buffer, rows[i : i + 1], True)
                    if len(rows):
                        lasts = np.concatenate(([expected - 1], last_offsets(rows)))
                        rising = rising and bool((lasts[1:] > lasts[:-1]).all())
                        position, expected = start + int(rows[-1]["position"] + rows[-1]["size"]), int(lasts[-1]) + 1
                if error is None or (cut and error.code == "truncated"):
                    break
                end, _ = walker.search.resume(position, expected)
                bad.append(self._problem("damage", error.code, error.message, position, end - position))
                yield from self._bad(view, position, end)
                position = end
        if bad or not rising:
            yield from self._judged(bad)

    def _judged(self, bad: list[Item]) -> list[Item]:
        """What the plan tells of bad spans and contradicting offsets: an unfinished tail is no damage, nor a batch repeated."""
        if self.path.suffix != ".log":
            return bad
        try:
            log = PartitionLog(discover([self.path]).partitions[0], max_batch_bytes=self.max_batch_bytes)
        except NoLogError:  # its name is no segment's, and it has no valid batch
            return bad
        plan = log.plan(log.segments[0])
        near = [d for d in plan.damaged if self.max_bytes is None or d.position < self.max_bytes]
        damaged = [self._problem("damage", d.error, f"{d.message}; {d.lost}", d.position, d.length) for d in near]
        return damaged + [self._problem("finding", f.error, f.message) for f in plan.findings]

    def _problem(
        self, kind: str, error: str, message: str, position: int | None = None, length: int | None = None
    ) -> Item:
        return {
            "type": kind,
            "file": self.path.name,
            "error": error,
            "message": message,
            "position": position,
            "length": length,
        }

    def _bad(self, view: FileView, position: int, end: int) -> Iterator[Item]:
        """What can be shown of a span that is no sound batch: a header that fits the file, or how many bytes are left over."""
        head = view.read(position, BATCH_HEADER_SIZE)
        size = (
            int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True) + ENTRY_OVERHEAD
            if len(head) >= MAGIC_END
            else 0
        )
        if len(head) < MAGIC_END or size > view.size - position:
            if end == view.size and self.max_bytes is None:
                yield {"type": "rest", "file": self.path.name, "bytes": end - position}
        elif MIN_LEGACY_LENGTH + ENTRY_OVERHEAD <= size <= self.max_batch_bytes:
            data, table = view.read(position, size), np.zeros(1, BATCH_DTYPE)
            if core.scan_batches(data, table, check_crc=False).count:
                yield from self._batch(position, data, table, False, position + size == end)

    def _batch(self, start: int, buffer: Any, row: np.ndarray, valid: bool, deep: bool = True) -> Iterator[Item]:
        item = batch_item(row[0], start, valid)
        yield item
        if not (self.deep and deep):
            return
        hurt: list[KafkaFormatError] = []
        number, crcs = 0, [item["crc"]]
        for source, columns in self._reader.read(buffer, row, lambda _, error: hurt.append(error)):
            if item["magic"] < MAGIC_V2 and item["codec"] != "none" and number == 0:
                crcs = _inner_crcs(source)
            for record in core.make_records(source, columns):
                yield from self._gap(record.offset)
                yield _record_item(record, item, crcs[min(number, len(crcs) - 1)])
                number += 1
        if valid:
            for error in hurt:
                yield self._problem("damage", error.code, error.message, item["position"], item["size"])

    def _gap(self, offset: int) -> Iterator[Item]:
        if self._last is not None and offset != self._last + 1:
            yield {"type": "gap", "file": self.path.name, "after": self._last, "offset": offset}
        self._last = offset


def batch_item(row: Any, start: int, valid: bool) -> Item:
    """A row of a table of batches; `start` is the file position of its buffer."""
    attributes, magic, sequence = int(row["attributes"]), int(row["magic"]), int(row["base_sequence"])
    append_time = attributes & LOG_APPEND_TIME_BIT and magic > MAGIC_V0
    codec = attributes & CODEC_MASK
    item: Item = {
        "type": "batch",
        "position": start + int(row["position"]),
        "size": int(row["size"]),
        "magic": magic,
        "codec": CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown({codec})",
        "crc": int(row["crc"]),
        "isValid": valid,
        "timestampType": TYPES[-1 if magic == MAGIC_V0 else int(bool(append_time))],
        "maxTimestamp": int(row["max_timestamp"]),
        "lastOffset": int(row["base_offset"]) + int(row["last_offset_delta"]),
    }
    if magic < MAGIC_V2:
        return item
    horizon = int(row["base_timestamp"]) if attributes & DELETE_HORIZON_BIT else None
    return item | {
        "baseOffset": int(row["base_offset"]),
        "count": int(row["count"]),
        "baseSequence": sequence,
        "lastSequence": -1 if sequence < 0 else sequence_after(sequence, int(row["last_offset_delta"])),
        "producerId": int(row["producer_id"]),
        "producerEpoch": int(row["producer_epoch"]),
        "partitionLeaderEpoch": int(row["leader_epoch"]),
        "isTransactional": bool(attributes & TRANSACTIONAL_BIT),
        "isControl": bool(attributes & CONTROL_BIT),
        "deleteHorizonMs": horizon,
    }


def _record_item(record: Any, batch: Item, crc: int) -> Item:
    item: Item = {
        "type": "record",
        "offset": record.offset,
        "timestampType": TYPES[record.timestamp_type],
        "timestamp": record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "key": record.key,
        "value": record.value,
    }
    if batch["magic"] < MAGIC_V2:
        return item | {"isValid": batch["isValid"], "crc": crc}
    base = batch["baseSequence"]
    item["sequence"] = -1 if base < 0 else sequence_after(base, record.offset - batch["baseOffset"])
    item["headers"] = record.headers
    if batch["isControl"]:
        try:
            item["control"] = decode_control_record(record.key, record.value)
        except KafkaFormatError as error:
            item["control"] = error
    return item


def _inner_crcs(source: Any) -> list[int]:
    """The CRC of each message in a wrapper's message set, which was checked when it was decoded."""
    crcs, at, data = [], 0, memoryview(source)
    while at < len(data):
        crcs.append(int.from_bytes(data[at + LEGACY_CRC_AT : at + LEGACY_CRC_AT + 4], "big"))
        at += ENTRY_OVERHEAD + int.from_bytes(data[at + LENGTH_AT : at + ENTRY_OVERHEAD], "big")
    return crcs


def index_items(path: Path, base_offset: int) -> Iterator[Item]:
    """Entries of a `.index` or `.timeindex`, up to where its zero tail begins; a first entry of zeros is given, as the tool gives it."""
    data = files.read_bytes(path) or b""
    times = path.suffix == ".timeindex"
    first, second = (all_time_entries if times else all_offset_entries)(data, base_offset)
    offsets = second if times else first
    tail = np.flatnonzero(offsets[1:] == base_offset)
    n = int(tail[0]) + 1 if len(tail) else len(offsets)
    names = ("timestamp", "offset") if times else ("offset", "position")
    for a, b in zip(first[:n].tolist(), second[:n].tolist(), strict=True):
        yield {"type": "timeindex" if times else "index", names[0]: a, names[1]: b}


def index_sanity(path: Path, base_offset: int) -> list[Item]:
    """What is wrong with an index without a look at its log: its length, or entries that do not rise."""
    data, times = files.read_bytes(path) or b"", path.suffix == ".timeindex"
    size = (TIME_ENTRY if times else OFFSET_ENTRY).itemsize
    used, _ = (read_time_index if times else read_offset_index)(data, base_offset)
    if len(data) % size:
        return [_finding(path, "index_length", partial_entry_message(len(data), size))]
    if data[len(used) * size :].strip(b"\0"):
        return [
            _finding(
                path, "index_garbage", f"entry {len(used)} does not rise above the one before it, and is no zero tail"
            )
        ]
    return []


def index_findings(path: Path) -> list[Item]:
    """What is wrong with an index beside its log, entry by entry."""
    log_file = path.with_suffix(".log")
    if not log_file.exists():
        return [_finding(path, "log_missing", f"{log_file.name} is not there to hold it against")]
    return [_finding(path, f.error, f.message) for f in _audit(log_file) if f.file == path.name]


@lru_cache(maxsize=1)
def _audit(log_file: Path) -> list[Finding]:
    """The findings of both indexes of a segment; kept for the other one, which is most often asked next."""
    log = PartitionLog(discover([log_file]).partitions[0])
    segment = log.segments[0]
    audit, plan = IndexAudit(segment, segment.base_offset or 0), log.plan(segment)
    if plan.extents:
        for part in log.parts(plan.extents[0].first_offset, plan.extents[-1].last_offset + 1, lambda _: None):
            if len(part.table):
                audit.add(part.table, part.position)
    return audit.findings(plan)


def transaction_items(path: Path) -> Iterator[Item]:
    """Entries of a `.txnindex`."""
    data = files.read_bytes(path) or b""
    for version, producer_id, first, last, stable in read_transaction_index(data).tolist():
        item = {"type": "txnindex", "version": version, "producerId": producer_id, "firstOffset": first}
        yield item | {"lastOffset": last, "lastStableOffset": stable}
    if len(data) % TRANSACTION_ENTRY.itemsize:
        yield _finding(path, "index_length", partial_entry_message(len(data), TRANSACTION_ENTRY.itemsize))


def snapshot_items(path: Path) -> Iterator[Item]:
    """Producers of a `.snapshot`."""
    try:
        producers = read_snapshot(files.read_bytes(path) or b"")
    except KafkaFormatError as error:
        yield _finding(path, "unreadable_snapshot", error.message)
        return
    for p in producers:
        item = {
            "type": "snapshot",
            "producerId": p.producer_id,
            "producerEpoch": p.epoch,
            "coordinatorEpoch": p.coordinator_epoch,
        }
        item |= {
            "currentTxnFirstOffset": None if p.txn_first_offset < 0 else p.txn_first_offset,
            "lastTimestamp": p.timestamp,
        }
        if p.last_offset >= 0:
            item |= {"firstSequence": p.first_sequence, "lastSequence": p.last_sequence, "lastOffset": p.last_offset}
            item |= {"offsetDelta": p.offset_delta, "timestamp": p.timestamp}
        yield item


def _finding(path: Path, error: str, message: str) -> Item:
    return {"type": "finding", "file": path.name, "error": error, "message": message, "position": None, "length": None}

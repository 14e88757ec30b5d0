"""Read and check the entries of an index file or a producer snapshot file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from ...errors import KafkaFormatError
from ..findings import Finding
from ..formats import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TRANSACTION_ENTRY,
    all_offset_entries,
    all_time_entries,
    partial_entry_message,
    read_offset_index,
    read_snapshot,
    read_time_index,
    read_transaction_index,
)
from ..reading import PartitionLog, discover
from ..storage import read_bytes
from ..verifying import IndexAudit
from .dump_items import DumpedProducer, OffsetIndexEntry, Problem, TimeIndexEntry, TransactionIndexEntry, finding


def index_items(path: Path, base_offset: int) -> Iterator[OffsetIndexEntry | TimeIndexEntry]:
    """Yield the entries of a `.index` or `.timeindex` file, without the zeros at its end."""
    # The first entry is yielded even if it consists of zeros, as in DumpLogSegments.
    data = read_bytes(path) or b""
    times = path.suffix == ".timeindex"
    first, second = (all_time_entries if times else all_offset_entries)(data, base_offset)
    offsets = second if times else first
    tail = np.flatnonzero(offsets[1:] == base_offset)
    n = int(tail[0]) + 1 if len(tail) else len(offsets)
    kind: Callable[[int, int], OffsetIndexEntry | TimeIndexEntry] = TimeIndexEntry if times else OffsetIndexEntry
    for a, b in zip(first[:n].tolist(), second[:n].tolist(), strict=True):
        yield kind(a, b)


def index_sanity(path: Path, base_offset: int) -> list[Problem]:
    """Check an index without reading the log, and return at most one problem."""
    # The length of the file must be a multiple of the entry size, and the entries must increase.
    data, times = read_bytes(path) or b"", path.suffix == ".timeindex"
    size = (TIME_ENTRY if times else OFFSET_ENTRY).itemsize
    used, _ = (read_time_index if times else read_offset_index)(data, base_offset)
    if len(data) % size:
        return [finding(path, "index_length", partial_entry_message(len(data), size))]
    if data[len(used) * size :].strip(b"\0"):
        message = f"entry {len(used)} is not larger than the previous entry, and is not one of the zeros at the end"
        return [finding(path, "index_garbage", message)]
    return []


def index_findings(path: Path) -> list[Problem]:
    """Compare an index with its log, and return the problems that were found."""
    log_file = path.with_suffix(".log")
    if not log_file.exists():
        return [finding(path, "log_missing", f"{log_file.name} is missing, so the index cannot be checked")]
    return [finding(path, f.code, f.message) for f in _audit(log_file) if f.file == path.name]


@lru_cache(maxsize=1)
def _audit(log_file: Path) -> list[Finding]:
    """Return the findings for the indexes of a segment."""
    # The last result is cached: usually both indexes of a segment are dumped one after the other.
    log = PartitionLog(discover([log_file]).partitions[0])
    segment = log.segments[0]
    audit, plan = IndexAudit(segment, segment.base_offset or 0), log.plan(segment)
    if plan.runs:
        for part in log.parts(plan.runs[0].first_offset, plan.runs[-1].last_offset + 1, lambda _: None):
            if len(part.table):
                audit.add(part.table, part.position)
    return audit.findings(plan)


def transaction_items(path: Path) -> Iterator[TransactionIndexEntry | Problem]:
    data = read_bytes(path) or b""
    for entry in read_transaction_index(data).tolist():
        yield TransactionIndexEntry(*entry)
    if len(data) % TRANSACTION_ENTRY.itemsize:
        yield finding(path, "index_length", partial_entry_message(len(data), TRANSACTION_ENTRY.itemsize))


def snapshot_items(path: Path) -> Iterator[DumpedProducer | Problem]:
    try:
        producers = read_snapshot(read_bytes(path) or b"")
    except KafkaFormatError as error:
        yield finding(path, "unreadable_snapshot", error.message)
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

"""Convert the contents of log files to dicts, for `kafkafmt dump`.

The keys of these dicts are the field names that kafka-dump-log prints. The JSON lines of ``kafkafmt
dump`` use the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..log.inspecting import (
    DumpedBatch,
    DumpedProducer,
    DumpedRecord,
    EmptyIndex,
    InvalidBytes,
    Item,
    OffsetGap,
    OffsetIndexEntry,
    Problem,
    SaneIndex,
    TimeIndexEntry,
    TransactionIndexEntry,
)

Row = dict[str, Any]
TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def row_of(item: Item) -> Row:
    """Convert an item of a log file, such as a batch or an index entry, to a dict. The first key is `type`."""
    return ROWS[type(item)](item)


def _batch(b: DumpedBatch) -> Row:
    row: Row = {
        "type": "batch",
        "position": b.position,
        "size": b.size,
        "magic": b.magic,
        "codec": b.codec,
        "crc": b.crc,
        "isValid": b.is_valid,
        "timestampType": TYPES[b.timestamp_type],
        "maxTimestamp": b.max_timestamp,
        "lastOffset": b.last_offset,
    }
    if b.base_offset is None:
        return row
    return row | {
        "baseOffset": b.base_offset,
        "count": b.record_count,
        "baseSequence": b.base_sequence,
        "lastSequence": b.last_sequence,
        "producerId": b.producer_id,
        "producerEpoch": b.producer_epoch,
        "partitionLeaderEpoch": b.leader_epoch,
        "isTransactional": b.is_transactional,
        "isControl": b.is_control,
        "deleteHorizonMs": b.delete_horizon,
    }


def _record(r: DumpedRecord) -> Row:
    row: Row = {
        "type": "record",
        "offset": r.offset,
        "timestampType": TYPES[r.timestamp_type],
        "timestamp": r.timestamp,
        "keySize": -1 if r.key is None else len(r.key),
        "valueSize": -1 if r.value is None else len(r.value),
        "key": r.key,
        "value": r.value,
    }
    if r.sequence is None:
        return row | {"isValid": r.is_valid, "crc": r.crc}
    row |= {"sequence": r.sequence, "headers": r.headers}
    return row if r.control is None else row | {"control": r.control}


def _producer(p: DumpedProducer) -> Row:
    row: Row = {
        "type": "snapshot",
        "producerId": p.producer_id,
        "producerEpoch": p.producer_epoch,
        "coordinatorEpoch": p.coordinator_epoch,
        "currentTxnFirstOffset": p.transaction_first_offset,
        "lastTimestamp": p.timestamp,
    }
    if p.last_offset is None:
        return row
    return row | {
        "firstSequence": p.first_sequence,
        "lastSequence": p.last_sequence,
        "lastOffset": p.last_offset,
        "offsetDelta": p.offset_delta,
        "timestamp": p.timestamp,
    }


def _transaction(t: TransactionIndexEntry) -> Row:
    return {
        "type": "txnindex",
        "version": t.version,
        "producerId": t.producer_id,
        "firstOffset": t.first_offset,
        "lastOffset": t.last_offset,
        "lastStableOffset": t.last_stable_offset,
    }


def _problem(p: Problem) -> Row:
    row = {"type": p.kind, "file": p.file, "error": p.code, "message": p.message}
    return row | {"position": p.position, "length": p.length}


def _named(kind: str) -> Callable[[Any], Row]:
    """Return a function that converts an item of type `kind` to a dict with the same field names."""
    return lambda item: {"type": kind} | item._asdict()


ROWS: dict[type[Any], Callable[[Any], Row]] = {
    DumpedBatch: _batch,
    DumpedRecord: _record,
    OffsetIndexEntry: _named("index"),
    TimeIndexEntry: _named("timeindex"),
    TransactionIndexEntry: _transaction,
    DumpedProducer: _producer,
    Problem: _problem,
    OffsetGap: _named("gap"),
    InvalidBytes: _named("rest"),
    EmptyIndex: _named("empty"),
    SaneIndex: _named("sane"),
}

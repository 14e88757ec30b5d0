"""Implement the fast path of two operations: validating batches, and assigning offsets to batches.

The fast path checks all batches, and then writes their offsets in place. If a check fails, the
buffer is left unchanged, and the caller uses its slow path (records/validate.py,
records/assign.py). The slow path reports the error or re-encodes the batch. The native core checks
and writes in one pass. If a check fails, the native core restores the changed fields.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..constants import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CODEC_ZSTD,
    CONTROL_BIT,
    CRC_AT,
    CRC_START,
    LOG_APPEND_TIME_BIT,
    MAGIC_V2,
    MANY_HEADERS,
    MAX_OFFSET,
    MAX_TIMESTAMP_AT,
    MIN_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
)
from ..errors import KafkaFormatError
from ..types import BATCH_DTYPE, BatchTable, Buffer
from .assign import check_numbers, number_batches, writable
from .batch import INT64, UINT32, scan_batches
from .crc import crc32c
from .varint import view_of
from .walk import Batch

FAR = 2**61
"""Largest absolute timestamp on the fast path: the native core adds such timestamps without a check for overflow."""
_ROWS = 256


def number_buffer(
    buffer: Buffer, next_offset: int, leader_epoch: int | None = None, check_crc: bool = True
) -> int | None:
    table = whole_table(buffer, check_crc)
    check_numbers(next_offset, leader_epoch)
    if table is None or (table["count"] < 0).any():
        return None
    return number(buffer, table, next_offset, leader_epoch)


def validate_buffer(
    buffer: Buffer,
    next_offset: int,
    leader_epoch: int,
    client: bool,
    codec: int | None,
    max_size: int | None,
    check_records: bool,
    compacted: bool,
    earliest: int,
    latest: int,
    append_time: int | None = None,
) -> tuple[int, int, int, int] | None:
    table = whole_table(buffer, True)
    check_numbers(next_offset, leader_epoch)
    if table is None or not len(table) or (client and len(table) > 1):
        return None
    view = view_of(buffer)
    offset, count, max_timestamp, offset_of_max = next_offset, 0, MIN_OFFSET, -1
    for row in table:
        if not keeps_header_rules(row, client, codec, max_size):
            return None
        highest = int(row["max_timestamp"])
        if check_records:
            payload = view[int(row["payload_position"]) : int(row["position"] + row["size"])]
            seen = look_at_payload(payload, int(row["count"]), int(row["last_offset_delta"]))
            if row["attributes"] & CODEC_MASK or seen is None or (compacted and seen[3]):
                return None
            if append_time is None and not keeps_times(
                int(row["base_timestamp"]), highest, seen[0], seen[1], earliest, latest
            ):
                return None
            if highest > max_timestamp and highest != NO_TIMESTAMP:
                offset_of_max = offset + seen[2]
        max_timestamp = max(max_timestamp, highest)
        count += int(row["count"])
        offset += int(row["last_offset_delta"]) + 1
    following = number(buffer, table, next_offset, leader_epoch)
    if following is None or append_time is None:
        return None if following is None else (count, following, max_timestamp, offset_of_max)
    for row in table:
        stamp(view, int(row["position"]), int(row["size"]), append_time)
    return count, following, append_time, next_offset


def look_at_payload(payload: Buffer, count: int, last_offset_delta: int) -> tuple[int, int, int, bool] | None:
    view = view_of(payload)
    row = dict.fromkeys(
        ("position", "base_offset", "base_timestamp", "max_timestamp", "attributes", "payload_position"), 0
    )
    batch = Batch(
        row | {"magic": MAGIC_V2, "last_offset_delta": last_offset_delta, "count": count, "payload_size": len(view)}
    )
    try:
        records = list(batch.rows(view, 0, 0, MANY_HEADERS)) if count > 0 else []
    except KafkaFormatError:
        return None
    deltas = [-1, *(record.delta for record in records), last_offset_delta + 1]
    if not records or any(a >= b for a, b in itertools.pairwise(deltas)):
        return None
    times = [record.timestamp for record in records]
    latest = max(times)
    return min(times), latest, records[times.index(latest)].delta, any(record.key[1] < 0 for record in records)


def keeps_times(base: int, highest: int, low: int, high: int, earliest: int, latest: int) -> bool:
    """Return whether the header's maximum timestamp is correct and every timestamp is within the topic's limits."""
    # Timestamps are within the limits if all are between `earliest` and `latest`, or if all are -1.
    if any(not -FAR <= n <= FAR for n in (base, low, high)) or highest < NO_TIMESTAMP or base + high != highest:
        return False
    return (highest == NO_TIMESTAMP and low == high) or (base + low >= earliest and highest <= latest)


def stamp(view: memoryview, p: int, size: int, timestamp: int) -> None:
    """Set the timestamp type of a batch to LogAppendTime, write `timestamp`, and update the CRC."""
    view[p + ATTRIBUTES_AT + 1] |= LOG_APPEND_TIME_BIT
    INT64.pack_into(view, p + MAX_TIMESTAMP_AT, timestamp)
    UINT32.pack_into(view, p + CRC_AT, crc32c(view, 0, p + CRC_START, p + size))


def whole_table(buffer: Buffer, check_crc: bool) -> BatchTable | None:
    """Return the headers of all batches in a buffer, or None if a batch is corrupted or incomplete."""
    size, position = len(writable(buffer)), 0
    parts: list[BatchTable] = [np.empty(0, BATCH_DTYPE)]
    while position < size:
        part = np.empty(_ROWS, BATCH_DTYPE)
        scan = scan_batches(buffer, part, position, None, check_crc)
        if scan.error is not None or not scan.count:
            return None
        parts.append(part[: scan.count])
        position = scan.position
    return np.concatenate(parts)


def number(buffer: Buffer, table: BatchTable, next_offset: int, leader_epoch: int | None) -> int | None:
    deltas = table["last_offset_delta"].astype(np.int64)
    if (deltas < 0).any() or next_offset + int(deltas.sum()) + len(table) > MAX_OFFSET:
        return None
    return number_batches(buffer, table, next_offset, leader_epoch)


def keeps_header_rules(row: Any, client: bool, codec: int | None, max_size: int | None) -> bool:
    attributes, count, deltas = int(row["attributes"]), int(row["count"]), int(row["last_offset_delta"]) + 1
    own = attributes & CODEC_MASK
    if row["magic"] != MAGIC_V2 or count < 0 or deltas < 1 or attributes & LOG_APPEND_TIME_BIT or own > CODEC_ZSTD:
        return False
    if (codec is not None and own != codec) or (max_size is not None and row["size"] > max_size):
        return False
    if not client:
        return True
    sequenced = row["producer_id"] == NO_PRODUCER_ID or row["base_sequence"] >= 0
    return bool(row["base_offset"] == 0 and count == deltas and sequenced and not attributes & CONTROL_BIT)

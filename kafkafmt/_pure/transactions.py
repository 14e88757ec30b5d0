"""Track transactions from batch to batch. The caller passes dicts that contain the states."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..constants import (
    CODEC_MASK,
    CONTROL_ABORT,
    CONTROL_BIT,
    CONTROL_COMMIT,
    LOG_APPEND_TIME_BIT,
    MAGIC_V2,
    MAX_VARLONG_BYTES,
    TRANSACTIONAL_BIT,
)
from ..types import BatchTable, Buffer, IntArray, MarkerT, distinct, spans_between
from .runs import transactional_batches
from .varint import raw_varint, view_of
from .walk import as_int64, span, varint


def _read_marker(view: memoryview, row: Any) -> tuple[int, int, int] | None:
    """Return the marker in a plain control batch, or None. IndexError: the batch is not plain."""
    # A plain one is uncompressed, and has no record or exactly one valid record without headers.
    start, size, count = int(row["payload_position"]), int(row["payload_size"]), int(row["count"])
    attributes, end = int(row["attributes"]), start + size
    if row["magic"] != MAGIC_V2 or attributes & CODEC_MASK or row["base_offset"] < 0 or row["last_offset_delta"] < 0:
        raise IndexError
    if not 0 <= start <= end <= len(view) or count not in (0, 1):
        raise IndexError
    if not count:
        return None
    length, p = varint(view, start, end)
    if length < 1 or length != end - p:
        raise IndexError
    raw, p = raw_varint(view, p + 1, end, MAX_VARLONG_BYTES)  # skip the record's attributes, which are unused
    delta, p = varint(view, p, end)
    (key, key_length), p = span(view, p, end)
    (value, value_length), p = span(view, p, end)
    if delta != 0 or end - p != 1 or view[p] != 0:  # the last byte is the number of headers
        raise IndexError
    if key_length < 4:
        return None
    timestamp = int(row["max_timestamp"])
    if not attributes & LOG_APPEND_TIME_BIT:
        timestamp = as_int64(int(row["base_timestamp"]) + ((raw >> 1) ^ -(raw & 1)))
    epoch = int.from_bytes(view[value + 2 : value + 6], "big", signed=True) if value_length >= 6 else -1
    return int.from_bytes(view[key + 2 : key + 4], "big"), timestamp, epoch


def read_markers(buffer: Buffer, rows: BatchTable, marker_type: type[MarkerT]) -> dict[int, MarkerT] | None:
    view = view_of(buffer)
    found: dict[int, MarkerT] = {}
    for row in rows[(rows["attributes"] & CONTROL_BIT) != 0]:
        try:
            marker = _read_marker(view, row)
        except IndexError:
            return None
        if marker is not None:
            found.setdefault(int(row["base_offset"]), tuple.__new__(marker_type, marker))
    return found


def end_transactions(
    rows: BatchTable,
    markers: dict[int, MarkerT],
    spans: dict[int, tuple[int, int]],
) -> list[tuple[int, int, int, int, int]]:
    ended = []
    for producer_id, _, base, delta, _, _, attributes in transactional_batches(rows):
        span = spans.get(producer_id)
        if not attributes & CONTROL_BIT:
            spans[producer_id] = (base if span is None else span[0]), base + max(delta, 0)
            continue
        marker = markers.get(base)
        if marker is not None and marker[0] in (CONTROL_ABORT, CONTROL_COMMIT):
            first, last = spans.pop(producer_id, (-1, -1))
            ended.append((producer_id, first, last, marker[0], base))
    return ended


def walk_transactions(
    rows: BatchTable,
    start: int,
    places: IntArray,
    markers: dict[int, MarkerT],
    opened: dict[int, int],
    next_markers: dict[int, int],
    aborted: Any,
    hidden: IntArray,
) -> tuple[int, int]:
    found: list[tuple[int, int, int]] = []

    def suspend(offset: int) -> None:
        found.extend((producer_id, first, offset - 1) for producer_id, first in opened.items())
        opened.clear()

    waiting = deque((row, offset) for row, offset in places.tolist() if row >= start)
    stop = len(rows)
    indexes = np.flatnonzero(rows["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT))
    batches = transactional_batches(rows[start:])
    for i, (producer_id, _, base, _, _, _, attributes) in zip(indexes[indexes >= start].tolist(), batches, strict=True):
        while waiting and waiting[0][0] <= i:
            suspend(waiting.popleft()[1])
        marker = markers.get(base)
        unreadable = attributes & CONTROL_BIT and attributes & TRANSACTIONAL_BIT and marker is None
        if unreadable or next_markers.get(producer_id, base) < base:
            stop = i
            break
        if not attributes & CONTROL_BIT:
            opened.setdefault(producer_id, base)
        elif marker is not None and marker[0] in (CONTROL_ABORT, CONTROL_COMMIT):
            first = opened.pop(producer_id, None)
            if marker[0] == CONTROL_ABORT and first is not None:
                aborted[producer_id].append((first, base))
    while waiting and waiting[0][0] < stop:
        suspend(waiting.popleft()[1])
    if len(found) > len(hidden):
        raise ValueError(f"`hidden` has {len(hidden)} rows, which are too few")
    hidden[: len(found)] = np.array(found, np.int64).reshape(-1, 3)
    return stop, len(found)


def keep_committed(
    rows: BatchTable,
    aborted: Mapping[int, list[tuple[int, int]]],
    opened: dict[int, int],
    keep: npt.NDArray[np.bool_],
) -> int:
    keep = keep[: len(rows)]
    keep[:] = True
    inside = np.flatnonzero((rows["attributes"] & (TRANSACTIONAL_BIT | CONTROL_BIT)) == TRANSACTIONAL_BIT)
    for producer_id in distinct(rows["producer_id"][inside]).tolist():
        own = inside[rows["producer_id"][inside] == producer_id]
        base = rows["base_offset"][own]
        spans = spans_between(aborted.get(producer_id, []), int(base.min()), int(base.max()))
        if spans:
            firsts, lasts = (np.array(column, np.int64) for column in zip(*spans, strict=True))
            at = np.searchsorted(firsts, base, "right") - 1
            keep[own] = (at < 0) | (base > lasts[at])
        if producer_id in opened:
            keep[own] &= base < opened[producer_id]
    return int(np.count_nonzero(keep))

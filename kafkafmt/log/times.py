"""Lookups by time, as a broker answers them: the first offset, in offset order, at or after a timestamp."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..constants import MAX_OFFSET
from ..records import RecordReader
from .directory import SegmentFile
from .files import FileView
from .indexes import time_bounds
from .partition import PartitionLog


class TimeHit(NamedTuple):
    """Where the answer lies: offset and timestamp of the record, its segment's file name, its batch's position there."""

    offset: int
    timestamp: int
    segment: str
    position: int


def find_timestamp(log: PartitionLog, timestamp: int, start: int | None = None) -> TimeHit | None:
    """The first record from `start` (or the log start) on with that timestamp (ms) or a later one.

    A batch header's maximum timestamp is believed; control batches and aborted records are seen, as by a broker.
    Damage on the way is passed over: what it held cannot be the answer.
    """
    low = log.log_start_offset if start is None else max(start, log.log_start_offset)
    reader = RecordReader(("offset", "timestamp"), capacity=4096, first_offset=low, max_batch_bytes=log.max_batch_bytes)
    for segment in log.segments:
        if segment.next_base is not None and segment.next_base <= low:
            continue
        first = max(low, segment.base_offset or 0)
        try:
            with FileView(segment.path) as view:
                bounds = time_bounds(segment, view, timestamp)
        except FileNotFoundError:
            continue
        if bounds is not None:
            if bounds.none:
                continue
            first = max(first, bounds.after + 1)
        elif log.plan(segment).stats.max_timestamp < timestamp:
            continue
        hit = _first_in_segment(log, segment, reader, timestamp, first)
        if hit is not None:
            return hit
    return None


def _first_in_segment(log: PartitionLog, segment: SegmentFile, reader: RecordReader, timestamp: int, first: int) -> TimeHit | None:
    end = segment.next_base if segment.next_base is not None else MAX_OFFSET
    for part in log.parts(first, end, lambda _: None):
        if part.plan.segment is not segment and part.plan.segment.name != segment.name:
            continue
        for i in np.flatnonzero(part.table["max_timestamp"] >= timestamp):
            batch = part.table[i : i + 1]
            for _, columns in reader.read(part.buffer, batch, lambda _, __: None):
                assert columns.timestamp is not None
                assert columns.offset is not None
                hits = np.flatnonzero(columns.timestamp[: columns.rows] >= timestamp)
                if len(hits):
                    at = int(hits[0])
                    position = part.position + int(batch["position"][0])
                    return TimeHit(int(columns.offset[at]), int(columns.timestamp[at]), segment.name, position)
    return None

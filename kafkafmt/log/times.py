"""Lookups by time, as a broker answers them: the first offset, in offset order, at or after a timestamp."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..records import RecordReader
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
        if (segment.next_base is not None and segment.next_base <= low) or log.plan(segment).stats.max_timestamp < timestamp:
            continue
        upper = log.plan(segment).next_offset
        for part in log.parts(max(low, segment.base_offset or 0), upper or low, lambda _: None):
            for i in np.flatnonzero(part.table["max_timestamp"] >= timestamp):
                batch = part.table[i : i + 1]
                for _, columns in reader.read(part.buffer, batch, lambda _, __: None):
                    assert columns.timestamp is not None
                    assert columns.offset is not None
                    hits = np.flatnonzero(columns.timestamp[: columns.rows] >= timestamp)
                    if len(hits):
                        position = part.position + int(batch["position"][0])
                        hit = int(hits[0])
                        return TimeHit(int(columns.offset[hit]), int(columns.timestamp[hit]), segment.name, position)
    return None

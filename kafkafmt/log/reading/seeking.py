"""Find a record of a partition by offset or by timestamp, as a broker does for a ListOffsets request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...support import arguments
from .lookups import Place, find_max_timestamp, find_offset, find_timestamp
from .partition import PartitionLog

LATEST, EARLIEST, MAX_TIMESTAMP = "latest", "earliest", "max-timestamp"


@dataclass(frozen=True)
class Position:
    """Result of `seek`: offset and timestamp of a record, and position of its batch.

    Attributes
    ----------
    topic, partition : str, int
        Name of the topic and number of the partition.
    offset : int or None
        Offset of the record. None if no record was found.
    timestamp : int or None
        Timestamp of the record, in milliseconds since 1970-01-01 UTC. -1 if the record has no
        timestamp. None if no record was found, or if `timestamp` was "latest" or "earliest".
    segment : str or None
        Name of the `.log` file that contains the record.
    position : int or None
        Position of the record's batch in the `.log` file, in bytes.
    bytes_read : int
        Number of bytes that this search has read from segments and indexes.
    reads : int
        Number of read calls of this search.
    segments_planned : int
        Number of segments that this search has read completely, because their indexes were not
        sufficient.
    """

    topic: str
    partition: int
    offset: int | None = None
    timestamp: int | None = None
    segment: str | None = None
    position: int | None = None
    bytes_read: int = 0
    reads: int = 0
    segments_planned: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt seek --format json`` prints."""
        names = ("topic", "partition", "offset", "timestamp", "segment", "position", "bytes_read")
        return {name: getattr(self, name) for name in names}


def seek(log: PartitionLog, *, offset: int | None = None, timestamp: Any = None) -> Position:
    """Find a record of a partition by offset or timestamp, as in `Partition.seek`, and return its position."""
    if (offset is None) == (timestamp is None):
        raise TypeError("seek takes either an offset or a timestamp")
    before = log.bytes_read, log.reads, log.planned
    if offset is not None:
        place = _fields(find_offset(log, arguments.integer("offset", offset, 0, kind="an offset")))
    else:
        place = _at_time(log, timestamp)
    spent = (log.bytes_read - before[0], log.reads - before[1], log.planned - before[2])
    return Position(log.topic, log.partition, *place, *spent)


Fields = tuple[int | None, int | None, str | None, int | None]
NOWHERE: Fields = (None, None, None, None)


def _at_time(log: PartitionLog, time: Any) -> Fields:
    if time == LATEST:
        return log.next_offset, None, None, None
    if time == EARLIEST:
        _, _, segment, position = _fields(find_offset(log, 0))
        return log.log_start_offset, None, segment, position
    if time == MAX_TIMESTAMP:
        return _fields(find_max_timestamp(log))
    return _fields(find_timestamp(log, arguments.millis("timestamp", time)))


def _fields(place: Place | None) -> Fields:
    return NOWHERE if place is None else (place.offset, place.timestamp, place.segment, place.position)

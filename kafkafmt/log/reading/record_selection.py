"""Specify which records of a partition are read, and convert times and other bounds to offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from ...constants import ISOLATION_LEVELS, NO_END, READ_COMMITTED, READ_UNCOMMITTED
from ...records.reader import ALL_OFFSETS
from ...support import arguments
from .lookups import find_timestamp
from .partition import OffsetInterval, PartitionLog

Time = int | datetime | timedelta | str
"""A time: milliseconds since 1970-01-01 UTC, a timezone-aware datetime, a timedelta before now, or a str that `parse_time` accepts."""


class OffsetBound(NamedTuple):
    """Start or end of an offset range: an offset, a time, a distance from the end, or of a consumer group."""

    kind: str  # "offset", "before_end", "time" or "group"
    n: int = 0  # offset, offsets before the log end, or time in ms
    # of the group, if `kind` is "group"; without an entry, the log start offset
    committed: Mapping[tuple[str, int], int] = MappingProxyType({})

    def find(self, log: PartitionLog, below_log_start: bool = False) -> int | None:
        """Convert the bound to an offset in a partition. If it is a time after all records, return None."""
        if self.kind == "offset":
            return min(self.n, NO_END)
        if self.kind == "before_end":
            return max(log.next_offset - self.n, 0)
        if self.kind == "group":
            return self.committed.get((log.topic, log.partition), 0)
        hit = find_timestamp(log, self.n, below_log_start)
        return None if hit is None else hit.offset

    def resolve(self, log: PartitionLog, below_log_start: bool = False) -> int:
        """Convert the bound to an offset in a partition: the log end offset for a time after all records."""
        offset = self.find(log, below_log_start)
        return log.next_offset if offset is None else offset


class OffsetRange(NamedTuple):
    """An offset range from `start` to `end` (exclusive). None: no limit."""

    start: OffsetBound | None = None
    end: OffsetBound | None = None


def offset_bound(name: str, offset: int | None, time: Time | None) -> OffsetBound | None:
    """Create a bound from an offset (negative: from the end of the log) or a time, or None if both are None."""
    # `name` is for error messages. TypeError, ValueError: an argument is wrong, or both are given.
    if offset is not None and time is not None:
        raise ValueError(f"{name} and {name}_time cannot both be given")
    if time is not None:
        return OffsetBound("time", arguments.millis(f"{name}_time", time))
    if offset is None:
        return None
    offset = arguments.integer(name, offset, kind="an offset")
    return OffsetBound("offset", offset) if offset >= 0 else OffsetBound("before_end", -offset)


@dataclass(frozen=True)
class Selection:
    """Specification of the records to read. It can be used for many partitions."""

    start: OffsetBound | None = None
    end: OffsetBound | None = None
    isolation: str = READ_UNCOMMITTED  # "read_committed" omits aborted records and ends at the last stable offset
    control: bool = False  # include control records (transaction markers)
    below_log_start: bool = False  # include records that a broker hides
    partial: bool = False  # include the first records of a batch if its later records are damaged

    def __post_init__(self) -> None:
        arguments.one_of("isolation", self.isolation, ISOLATION_LEVELS)

    @property
    def committed(self) -> bool:
        return self.isolation == READ_COMMITTED

    def resolve(self, log: PartitionLog) -> OffsetInterval:
        """Convert the bounds of the selection to offsets in one partition."""
        # `PartitionLog.chunks` limits the end to the last stable offset later, because this requires reading.
        low = 0 if self.below_log_start else log.log_start_offset
        first, end = ALL_OFFSETS
        if self.start is not None:
            first = self.start.resolve(log, self.below_log_start)
        if self.end is not None:
            end = self.end.resolve(log, self.below_log_start)
        high = NO_END if end is None else end
        limits = first, end
        return OffsetInterval(
            max(low, first), high, self.isolation, self.control, partial=self.partial, selected=limits
        )


EVERYTHING = Selection()  # all data records from the log start offset on

"""Specify which records of a partition are read, and convert times and other bounds to offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from ...constants import ISOLATION_LEVELS, NO_END, READ_COMMITTED, READ_UNCOMMITTED
from ...records.reader import ALL_OFFSETS
from ...support import arguments
from .lookups import find_timestamp
from .offset_interval import OffsetInterval
from .partition import PartitionLog

Time = int | datetime | str
"""A time: milliseconds since 1970-01-01 UTC, a timezone-aware datetime, or a str that `parse_time` accepts."""


class OffsetBound(NamedTuple):
    """Start or end of an offset range, given as an offset, a time, a distance from the end, or a consumer group.

    Attributes
    ----------
    kind : str
        Meaning of the bound:

        - "offset": `n` is an offset.
        - "before_end": `n` is a number of offsets before the log end offset.
        - "time": `n` is a time in ms.
        - "group": `committed` contains the offset.
    n : int
        An offset, a number of offsets or a time, depending on `kind`.
    committed : mapping of (topic, partition) to int
        Committed offsets of a consumer group, if `kind` is "group". If it contains no offset for a
        partition, the bound is the log start offset.
    """

    kind: str
    n: int = 0
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
        """Convert the bound to an offset in a partition.

        If the bound is a time after all records, return the log end offset.
        """
        offset = self.find(log, below_log_start)
        return log.next_offset if offset is None else offset


class OffsetRange(NamedTuple):
    """An offset range from `start` to `end` (exclusive).

    If `start` is None, the range has no lower limit. If `end` is None, the range has no upper
    limit.
    """

    start: OffsetBound | None = None
    end: OffsetBound | None = None


def offset_bound(name: str, offset: int | None, time: Time | None) -> OffsetBound | None:
    """Create a bound from an offset or a time. If both are None, return None.

    Parameters
    ----------
    name : str
        Name of the argument `offset`, for error messages. The name of the argument `time` is `name`
        with the suffix "_time".
    offset : int, optional
        The offset. A negative value counts back from the end of the log.
    time : int, datetime or str, optional
        The time: milliseconds since 1970-01-01 UTC, a timezone-aware datetime, or a str that
        `parse_time` accepts.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong, or `offset` and `time` are both given.
    """
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
    """Specification of the records to read. It can be used for many partitions.

    Attributes
    ----------
    start, end : OffsetBound, optional
        First offset, and end offset (exclusive). By default, the whole log is read.
    isolation : {"read_uncommitted", "read_committed"}
        "read_committed" omits aborted records and ends at the last stable offset.
    control : bool
        Include control records (transaction markers).
    below_log_start : bool
        Include records below the log start offset, which a broker hides.
    partial : bool
        Include the first records of a batch if its later records are damaged.

    Raises
    ------
    ValueError
        `isolation` is wrong.
    """

    start: OffsetBound | None = None
    end: OffsetBound | None = None
    isolation: str = READ_UNCOMMITTED
    control: bool = False
    below_log_start: bool = False
    partial: bool = False

    def __post_init__(self) -> None:
        arguments.one_of("isolation", self.isolation, ISOLATION_LEVELS)

    @property
    def committed(self) -> bool:
        """Whether `isolation` is "read_committed"."""
        return self.isolation == READ_COMMITTED

    def resolve(self, log: PartitionLog) -> OffsetInterval:
        """Convert the bounds of the selection to offsets in one partition.

        The end offset can be above the last stable offset. `PartitionLog.chunks` limits the end
        offset later, because finding the last stable offset requires reading a part of the log.
        """
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


EVERYTHING = Selection()
"""All data records from the log start offset on."""

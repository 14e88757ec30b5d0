"""Select the records of a partition, and convert the bounds of a selection to offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from ... import arguments
from ...constants import ISOLATION_LEVELS, NO_END, READ_COMMITTED, READ_UNCOMMITTED
from .lookups import find_timestamp
from .offset_interval import OffsetInterval
from .partition import PartitionLog

Time = int | datetime | str
"""A time: milliseconds since 1970-01-01 UTC, a timezone-aware datetime, or a str for `parse_time`."""


class OffsetBound(NamedTuple):
    """One end of a range of offsets.

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
        The committed offset of each partition, if `kind` is "group". For a partition without a
        committed offset, the bound is the log start offset.
    """

    kind: str
    n: int = 0
    committed: Mapping[tuple[str, int], int] = MappingProxyType({})

    def find(self, log: PartitionLog, below_log_start: bool = False) -> int | None:
        """Return the offset of the bound in a partition, or None for a time after all records."""
        if self.kind == "offset":
            return min(self.n, NO_END)
        if self.kind == "before_end":
            return max(log.next_offset - self.n, 0)
        if self.kind == "group":
            return self.committed.get((log.topic, log.partition), 0)
        hit = find_timestamp(log, self.n, below_log_start)
        return None if hit is None else hit.offset

    def resolve(self, log: PartitionLog, below_log_start: bool = False) -> int:
        """Return the offset of the bound in a partition, or the log end offset for a time after all records."""
        offset = self.find(log, below_log_start)
        return log.next_offset if offset is None else offset


class OffsetRange(NamedTuple):
    """A range of offsets from `start` to `end` (exclusive).

    If a bound is None, there is no limit on that side.
    """

    start: OffsetBound | None = None
    end: OffsetBound | None = None


def offset_bound(name: str, offset: int | None, time: Time | None) -> OffsetBound | None:
    """Return the bound that an offset or a time describes, or None if both are None.

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
        An argument is wrong, or both are given.
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
    """Defines which records of a partition are read. One selection can apply to many partitions.

    Attributes
    ----------
    start, end : OffsetBound, optional
        First offset, and end (exclusive). By default the whole log.
    isolation : {"read_uncommitted", "read_committed"}
        "read_committed" omits aborted records and ends at the last stable offset.
    control : bool
        Include control records (transaction markers).
    below_log_start : bool
        Include records below the log start offset, which a broker hides.

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

    def __post_init__(self) -> None:
        arguments.one_of("isolation", self.isolation, ISOLATION_LEVELS)

    @property
    def committed(self) -> bool:
        """True if `isolation` is "read_committed"."""
        return self.isolation == READ_COMMITTED

    def resolve(self, log: PartitionLog) -> OffsetInterval:
        """Return the selected records of one partition as an interval of offsets.

        The interval may extend beyond the last stable offset. `PartitionLog.chunks` applies this
        limit later, because finding the last stable offset requires reading a part of the log.
        """
        low = 0 if self.below_log_start else log.log_start_offset
        if self.start is not None:
            low = max(low, self.start.resolve(log, self.below_log_start))
        high = NO_END if self.end is None else self.end.resolve(log, self.below_log_start)
        return OffsetInterval(low, high, self.isolation, self.control)


EVERYTHING = Selection()
"""All data records from the log start offset onwards."""

"""Define filters on topic, partition, offset and timestamp, and compute which offsets can match a filter.

A filter is a tree of comparisons. `for_partition` simplifies a filter for one partition, and
`offset_range` computes an offset range that contains all matches. Not every record in this range
matches, so the caller must still apply the filter to each record.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...constants import NO_END
from ..reading import OffsetBound, OffsetInterval, PartitionLog

TOPIC, PARTITION, OFFSET, TIMESTAMP = COLUMNS = ("topic", "partition", "offset", "timestamp")
"""Columns that a filter can compare."""
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "in", "not in")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Comparison:
    """A comparison of a column with one value, or with several values for "in" and "not in"."""

    # Topics are compared with str values, all other columns with int values; timestamps are in microseconds.

    column: str
    operator: str
    values: tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True)
class AllOf:
    """A filter that accepts a record if all filters in `parts` accept it. Without `parts`, it accepts every record."""

    parts: tuple[Filter, ...] = ()


@dataclass(frozen=True)
class AnyOf:
    """A filter that accepts a record if at least one filter in `parts` accepts it."""

    parts: tuple[Filter, ...]


Filter = Comparison | AllOf | AnyOf
ANYTHING = AllOf()  # A filter that every record matches. It also replaces conditions that are not supported.
NOTHING = AnyOf(())  # a filter that no record matches


@dataclass(frozen=True)
class OffsetRange:
    """Offset range that contains all records of a partition that match a filter."""

    low: int = 0
    high: int = NO_END  # exclusive
    time: int | None = None  # no record before the first with this timestamp (ms) or a later one can match

    @property
    def empty(self) -> bool:
        """Whether no record can match."""
        return self.low >= self.high


def for_partition(filtered: Filter, topic: str, partition: int) -> Filter:
    """Simplify a filter for one partition. The result contains only comparisons of offsets and timestamps."""
    if isinstance(filtered, Comparison):
        if filtered.column == TOPIC:
            return ANYTHING if _matches(filtered, topic) else NOTHING
        if filtered.column == PARTITION:
            return ANYTHING if _matches(filtered, partition) else NOTHING
        return filtered
    all_of = isinstance(filtered, AllOf)
    neutral, final = (ANYTHING, NOTHING) if all_of else (NOTHING, ANYTHING)
    parts = [for_partition(part, topic, partition) for part in filtered.parts]
    left = tuple(part for part in parts if part != neutral)
    if final in left:
        return final
    if len(left) == 1:
        return left[0]
    return AllOf(left) if all_of else AnyOf(left)


def offset_range(filtered: Filter) -> OffsetRange:
    """Return an offset range that contains all records of a partition that match a filter."""
    # It ignores upper limits for timestamps, because a later record can have an earlier timestamp.
    if isinstance(filtered, Comparison):
        return _range_of(filtered)
    ranges = [offset_range(part) for part in filtered.parts]
    if isinstance(filtered, AllOf):
        times = [r.time for r in ranges if r.time is not None]
        low, high = max((r.low for r in ranges), default=0), min((r.high for r in ranges), default=NO_END)
        return OffsetRange(low, high, max(times, default=None))
    ranges = [r for r in ranges if not r.empty]
    if not ranges:
        return OffsetRange(0, 0)
    earliest = [r.time for r in ranges]
    time = None if None in earliest else min(t for t in earliest if t is not None)
    return OffsetRange(min(r.low for r in ranges), max(r.high for r in ranges), time)


def narrowed(
    interval: OffsetInterval, filtered: Filter, log: PartitionLog, below_log_start: bool = False
) -> OffsetInterval | None:
    """Restrict an offset interval to the records that can match a filter. If no record can match, return None."""
    limits = offset_range(for_partition(filtered, log.topic, log.partition))
    low, high = max(interval.low, limits.low), min(interval.high, limits.high)
    if low >= high:
        return None
    if limits.time is not None:
        first = OffsetBound("time", limits.time).find(log, below_log_start)
        if first is None or first >= high:
            return None
        low = max(low, first)
    return replace(interval, low=low, high=high)


def columns_of(filtered: Filter) -> set[str]:
    if isinstance(filtered, Comparison):
        return {filtered.column}
    return {name for part in filtered.parts for name in columns_of(part)}


def _range_of(comparison: Comparison) -> OffsetRange:
    sign, low, high = comparison.operator, None, None
    numbers = [value for value in comparison.values if isinstance(value, int)]
    if comparison.column not in (OFFSET, TIMESTAMP):
        return OffsetRange()
    if sign == "in":
        if not numbers:
            return OffsetRange(0, 0)
        low, high = min(numbers), max(numbers)
    if sign in ("=", ">", ">="):
        low = numbers[0] + (sign == ">")
    if sign in ("=", "<", "<="):
        high = numbers[0] - (sign == "<")
    if comparison.column == TIMESTAMP:
        return OffsetRange(time=None if low is None else -(-low // 1000))
    return OffsetRange(max(low or 0, 0), NO_END if high is None else min(high + 1, NO_END))


def _matches(comparison: Comparison, own: str | int) -> bool:
    """Return whether a topic name or a partition number satisfies a comparison."""
    # Topic names are compared by their UTF-8 bytes, as in Spark and Polars.
    if comparison.operator in ("in", "not in"):
        return (own in comparison.values) == (comparison.operator == "in")
    left, right = (
        v.encode("utf-8", "surrogateescape") if isinstance(v, str) else v for v in (own, comparison.values[0])
    )
    return bool(_COMPARE[comparison.operator](left, right))

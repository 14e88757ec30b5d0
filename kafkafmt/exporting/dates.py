"""Divide records by the day or hour of their timestamps, in UTC.

The directories are named like the partition directories of Hive and Spark. All dates are written as
YYYY-MM-DD, so that readers can convert each of them to a date. A record is assigned to the null
partition of Hive and Spark if its timestamp is null or outside the years 1 to 9999.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .layout import EMPTY_NAME

HOUR = 3_600_000_000
"""Number of microseconds in an hour. The unit of the column timestamp is microseconds."""
HOURS = {"day": 24, "hour": 1}
"""Length of a "day" and of an "hour", in hours."""
NO_DATE = np.iinfo(np.int64).min
EPOCH = date(1970, 1, 1)
FIRST = (date.min - EPOCH).days * 24 * HOUR
END = ((date.max - EPOCH).days + 1) * 24 * HOUR
"""Start and end (exclusive) of the timestamps that can be converted to a date, in microseconds."""

Directories = tuple[str, ...]
"""Names of nested directories, such as ``("date=2026-01-05", "hour=07")``."""


def by_period(batch: pa.RecordBatch, period: str | None) -> Iterator[tuple[Directories, pa.RecordBatch]]:
    """Yield the directory names of each day or hour with its records. Without a period, all have the same."""
    if period is None:
        yield (), batch
        return
    unit, times = HOURS[period] * HOUR, batch.column("timestamp")
    ends = pc.min_max(times)
    if not times.null_count and FIRST <= (low := ends["min"].value) and (high := ends["max"].value) < END:
        if low // unit == high // unit:
            yield directories(low // unit, period), batch
            return
    micros = times.cast(pa.int64()).fill_null(NO_DATE).to_numpy()
    numbers = np.where((micros >= FIRST) & (micros < END), micros // unit, NO_DATE)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for number, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        # Copy the rows with take(), because a slice would keep the whole Arrow record batch in memory.
        yield directories(number, period), batch.take(pa.array(rows))


def directories(number: int, period: str) -> Directories:
    """Return the names of the directories for a day or hour since 1970, such as ``date=2026-01-05``."""
    # `NO_DATE` is the number for records without a date.
    if number == NO_DATE:
        names = (f"date={EMPTY_NAME}", f"hour={EMPTY_NAME}")
    else:
        days, hour = divmod(number * HOURS[period], 24)
        names = (f"date={EPOCH + timedelta(days=days)}", f"hour={hour:02d}")
    return names if period == "hour" else names[:1]


def fields_of(period: str | None) -> list[pa.Field]:
    """Return the columns that readers derive from the directory names for date and hour."""
    fields = [pa.field("date", pa.date32()), pa.field("hour", pa.int32())]
    return fields[: {None: 0, "day": 1, "hour": 2}[period]]

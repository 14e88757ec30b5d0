"""Count records, sizes and times in bounded memory, for `kafkafmt.stats`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from ...types import IntArray
from .stats_report import Rate, RateBucket, Sizes

MOST_BUCKETS = 1000
"""Largest number of time buckets. If more buckets are needed, the width of the buckets is increased."""
_MINUTE, _DAY = 60_000, 86_400_000
WIDTHS = (
    *(1_000, 5_000, 10_000, 30_000),
    *(_MINUTE * n for n in (1, 5, 10, 30, 60, 180, 360, 720)),
    *(_DAY * n for n in (1, 7, 28, 364)),
)
"""Widths of a time bucket, in milliseconds, from 1 s to 364 days. Each width is a multiple of the previous one."""
MOST_POINTS = 512  # largest number of timestamps over which the records of one batch are spread
FEW_BUCKETS = 1 << 16
_DROPPED_BITS = 44
"""Number of low bits of a float64 that are ignored, so that a size class has eight bits of the fraction."""
_LOWEST = (1023 << 52) >> _DROPPED_BITS
_CLASSES = 40 * 256


class SizeCounts:
    """Counts sizes in a histogram, to estimate quantiles."""

    # Each size below 511 has its own bin. For larger sizes, a bin is at most 0.4 % of the size wide.

    def __init__(self) -> None:
        self._counts = np.zeros(_CLASSES, np.int64)
        self._used = 0
        self.sum: int = 0
        self.most: int = 0

    def add(self, sizes: IntArray) -> None:
        """Add sizes to the histogram. A size must not be negative."""
        if not len(sizes):
            return
        self.sum += int(sizes.sum())
        self.most = max(self.most, int(sizes.max()))
        classes = ((sizes + 1).astype(np.float64).view(np.int64) >> _DROPPED_BITS) - _LOWEST
        found = np.bincount(classes)
        self._used = max(self._used, len(found))
        self._counts[: len(found)] += found

    def merge(self, other: SizeCounts) -> None:
        self._counts[: other._used] += other._counts[: other._used]
        self._used = max(self._used, other._used)
        self.sum += other.sum
        self.most = max(self.most, other.most)

    def result(self) -> Sizes | None:
        """Return the mean, the median, the 99th percentile and the maximum, or None if no size was added."""
        total = int(self._counts.sum())
        if not total:
            return None
        return Sizes(self.sum / total, self._quantile(total, 50), self._quantile(total, 99), self.most)

    def _quantile(self, total: int, percent: int) -> int:
        rank = -(-total * percent // 100)
        place = int(np.searchsorted(np.cumsum(self._counts[: self._used]), rank))
        low, high = (np.array([(place + i + _LOWEST) << _DROPPED_BITS]).view(np.float64)[0] - 1 for i in (0, 1))
        return min(int((low + high) / 2) if high - low > 1 else int(low), self.most)


class RateCounts:
    """Counts records in time buckets of equal width. If there are too many buckets, the width is increased."""

    def __init__(self) -> None:
        self._widths = itertools.chain(WIDTHS, (WIDTHS[-1] * 10**i for i in range(1, 9)))
        self.width: int = next(self._widths)
        self._counts: dict[int, int] = {}

    def add(self, times: IntArray, records: npt.NDArray[Any] | None = None) -> None:
        """Count `records` (default: one) at each of some timestamps in ms."""
        if not len(times):
            return
        places = times // self.width
        low = int(places.min())
        if int(places.max()) - low < FEW_BUCKETS:
            sums = np.bincount(places - low, records)
            used = np.flatnonzero(sums)
            found = zip((used + low).tolist(), sums[used].astype(np.int64).tolist(), strict=True)
        else:
            keys, inverse = np.unique(places, return_inverse=True)
            found = zip(keys.tolist(), np.bincount(inverse, records).astype(np.int64).tolist(), strict=True)
        for place, n in found:
            self._counts[place] = self._counts.get(place, 0) + n
        self._limit(MOST_BUCKETS)

    def add_spans(self, firsts: IntArray, lasts: IntArray, records: IntArray) -> None:
        """Count records per time bucket. Assume that the timestamps of a batch's records are evenly distributed."""
        span = np.maximum(lasts - firsts, 0)
        # If two timestamps are so far apart that their difference overflows, treat the difference as 0.
        span[span < 0] = 0
        points = np.minimum(np.minimum(span // self.width, MOST_POINTS - 1) + 1, np.maximum(records, 1))
        if (points == 1).all():
            self.add(lasts, records)
            return
        of_batch = np.repeat(np.arange(len(points)), points)
        point = np.arange(len(of_batch)) - np.repeat(np.cumsum(points) - points, points)
        n, whole = points[of_batch], records[of_batch]
        # The time span of a batch is divided into equal parts. Each record gets the time in the middle of its part.
        times = firsts[of_batch] + span[of_batch] // n * point + span[of_batch] // (2 * n)
        self.add(times, whole * (point + 1) // n - whole * point // n)

    def _widen(self, width: int) -> None:
        factor, counts = width // self.width, self._counts
        self.width, self._counts = width, {}
        for place, n in counts.items():
            self._counts[place // factor] = self._counts.get(place // factor, 0) + n

    def merge(self, other: RateCounts) -> None:
        while self.width < other.width:
            self._widen(next(self._widths))
        factor = self.width // other.width
        for place, n in other._counts.items():
            self._counts[place // factor] = self._counts.get(place // factor, 0) + n
        self._limit(MOST_BUCKETS)

    def _limit(self, most: int) -> None:
        while len(self._counts) > most:
            self._widen(next(self._widths))

    def result(self, most: int = MOST_BUCKETS) -> Rate:
        """Return at most `most` buckets that contain records, in time order."""
        self._limit(most)
        buckets = (RateBucket(place * self.width, n) for place, n in sorted(self._counts.items()) if n)
        return Rate(self.width, tuple(buckets))

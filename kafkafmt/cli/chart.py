"""Draw a small chart of records over time with block characters, in one line of text."""

from __future__ import annotations

from ..log.auditing.stats_plot import PERIODS
from ..log.auditing.stats_report import Rate

BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(rate: Rate, width: int) -> tuple[str, int, int, int]:
    """Return a chart of at most `width` characters, and the period of time that it covers.

    Parameters
    ----------
    rate : Rate
        The records over time. It has at least one bucket.
    width : int
        Largest number of characters.

    Returns
    -------
    chart : str
        One character for each period of time. A space is a period without records.
    start, end : int
        Start of the first period and end of the last period, in milliseconds since 1970-01-01 UTC.
    outside : int
        Number of records that the chart does not show, because their timestamps are far from all
        others.
    """
    shown = rate.without_outliers(width)
    first, last = shown[0].timestamp, shown[-1].timestamp
    step = _step(first, last, rate.bucket_ms, width)
    start = first // step * step
    sums = [0] * ((last - start) // step + 1)
    for time, n in shown:
        sums[(time - start) // step] += n
    outside = sum(b.records for b in rate.buckets) - sum(sums)
    most = max(sums)
    chart = "".join(BLOCKS[-(-n * (len(BLOCKS) - 1) // most)] for n in sums)
    return chart, start, start + len(sums) * step, outside


def _step(first: int, last: int, bucket: int, width: int) -> int:
    """Return the milliseconds that one character of the chart covers, a multiple of `bucket`."""
    for step in PERIODS:
        if step % bucket == 0 and last // step - first // step < width:
            return step
    longest = max(PERIODS[-1], bucket)
    return longest * -(-(last - first + 1) // (longest * (width - 1)))

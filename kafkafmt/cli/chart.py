"""Draw a chart of records over time as one line of text, with block characters."""

from __future__ import annotations

from ..log.inspecting import PERIODS, Rate

BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(rate: Rate, width: int) -> tuple[str, int, int, int]:
    """Return a chart with one character per period, its start and end in ms, and the number of omitted records."""
    # A space is a period without records. Omitted records have timestamps that are far from all
    # others.
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
    """Return the period that one character of the chart covers, in milliseconds. It is a multiple of `bucket`."""
    for step in PERIODS:
        if step % bucket == 0 and last // step - first // step < width:
            return step
    longest = max(PERIODS[-1], bucket)
    return longest * -(-(last - first + 1) // (longest * (width - 1)))

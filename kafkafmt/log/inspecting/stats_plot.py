"""Write charts of statistics with matplotlib (PNG, SVG) or plotly (HTML).

Only this module imports matplotlib and plotly.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from ...support.paths import output_path
from ...support.text import plain, shown
from ..storage import replace_file

SUFFIXES = (".png", ".svg", ".html")
MOST_TOPICS = 10  # Largest number of topics in a chart. The topics with the most bytes are shown.
LONGEST_NAME = 40
MOST_BARS = 400  # largest number of time periods in a chart
EARLIEST, LATEST = 0, 7_258_118_400_000
"""Limits of the time axis, in milliseconds since 1970-01-01 UTC. matplotlib cannot show all int64 timestamps."""


_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
PERIODS = (
    *(1000 * n for n in (1, 5, 10, 30)),
    *(_MINUTE * n for n in (1, 2, 5, 10, 20, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 28, 84, 364)),
)
"""Possible lengths of the time periods in a chart, in milliseconds."""


class ChartTopic(NamedTuple):
    """Statistics of one topic that the charts show: sizes in bytes, and numbers of records per period."""

    name: str
    bytes: int
    bytes_uncompressed: int | None
    bucket_ms: int  # length of each period in `records`, in milliseconds
    records: dict[int, int]
    """Maps the start of each period, in milliseconds since 1970-01-01 UTC, to the number of records."""


def check_plot_path(path: str | os.PathLike[str]) -> Path:
    """Check that a chart can be written, and return its path."""
    found = output_path(path)
    if found.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"the name of a chart must end with {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, not {shown(str(found))}"
        )
    if not found.parent.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(found.parent))
    if found.suffix.lower() == ".html":
        import plotly.graph_objects  # noqa: F401
    else:
        import matplotlib.figure  # noqa: F401
    return found


def plot(topics: Sequence[ChartTopic], path: str | os.PathLike[str]) -> None:
    """Write charts of the given topics to a file. See `StatsReport.plot`."""
    target = check_plot_path(path)
    kind = target.suffix.lower().removeprefix(".")
    content = _html(topics) if kind == "html" else _picture(topics, kind)
    replace_file(target, content)


def _name(t: ChartTopic) -> str:
    name = plain(t.name)
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _common_rates(topics: Sequence[ChartTopic]) -> tuple[int, list[dict[int, int]]]:
    """Choose a single period length for all topics. Return this length and each topic's record counts per period."""
    shown = [{time: n for time, n in t.records.items() if EARLIEST <= time <= LATEST} for t in topics]
    step = max((t.bucket_ms for t in topics), default=1000)
    ends = [time for counts in shown for time in counts]
    if ends:
        wanted = max(step, (max(ends) - min(ends)) // MOST_BARS)
        step = next((p for p in PERIODS if p % step == 0 and p >= wanted), PERIODS[-1])
    sums: list[dict[int, int]] = []
    for counts in shown:
        found: dict[int, int] = {}
        for time, n in counts.items():
            found[time // step * step] = found.get(time // step * step, 0) + n
        sums.append(found)
    return step, sums


def _series(counts: dict[int, int], step: int) -> tuple[list[datetime], list[int]]:
    """Return the start time and the number of records of each period, including empty periods."""
    if not counts:
        return [], []
    times = list(range(min(counts), max(counts) + 2 * step, step))
    moments = [datetime.fromtimestamp(time / 1000, UTC) for time in times]
    return moments, [counts.get(time, 0) for time in times]


def _period(ms: int) -> str:
    for name, unit in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if ms >= unit and ms % unit == 0:
            n = ms // unit
            return name if n == 1 else f"{n} {name}s"
    return "second" if ms == 1000 else f"{ms // 1000} seconds"


def _picture(topics: Sequence[ChartTopic], kind: str) -> bytes:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    figure: Any = Figure(figsize=(10, 6.5), layout="constrained", dpi=120)
    rate, sizes = figure.subplots(2, 1, height_ratios=(3, 2))
    step, counts = _common_rates(topics)
    for t, found in zip(topics, counts, strict=True):
        times, records = _series(found, step)
        rate.step(times, records, where="post", label=_literal(_name(t)), linewidth=1.3)
    rate.set_title("Records over time", loc="left")
    rate.set_ylabel(f"records per {_period(step)}")
    rate.set_ylim(bottom=0)
    rate.yaxis.set_major_locator(MaxNLocator(integer=True))  # without integer=True, labels such as "500 m" appear
    rate.yaxis.set_major_formatter(EngFormatter())
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    rate.xaxis.set_major_locator(locator)
    rate.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    rate.set_xlabel("time (UTC)")
    rate.grid(alpha=0.3)
    if topics:
        rate.legend(frameon=False, fontsize="small")
    places = range(len(topics))
    if any(t.bytes_uncompressed is not None for t in topics):
        uncompressed = [t.bytes_uncompressed or 0 for t in topics]
        sizes.barh(places, uncompressed, height=0.8, color="0.85", label="after decompression")
    sizes.barh(places, [t.bytes for t in topics], height=0.5, label="on disk")
    sizes.set_yticks(list(places), [_literal(_name(t)) for t in topics])
    sizes.invert_yaxis()
    sizes.set_title("Size of each topic", loc="left")
    sizes.xaxis.set_major_formatter(EngFormatter(unit="B"))
    sizes.grid(alpha=0.3, axis="x")
    sizes.legend(frameon=False, fontsize="small", loc="lower right")
    content = BytesIO()
    figure.savefig(content, format=kind)
    return content.getvalue()


def _literal(text: str) -> str:
    """Escape `$`, which starts a formula in matplotlib, and a leading `_`, which hides a legend entry."""
    return ("\u200b" if text.startswith("_") else "") + text.replace("$", r"\$")


def _html(topics: Sequence[ChartTopic]) -> bytes:
    import html

    from plotly.graph_objects import Bar, Figure, Scatter
    from plotly.subplots import make_subplots

    step, counts = _common_rates(topics)
    figure: Figure = make_subplots(
        rows=2, cols=1, row_heights=[0.6, 0.4], subplot_titles=("Records over time", "Size of each topic")
    )
    names = [html.escape(_name(t)) for t in topics]
    for name, found in zip(names, counts, strict=True):
        times, records = _series(found, step)
        figure.add_trace(Scatter(x=times, y=records, name=name, mode="lines", line_shape="hv"), row=1, col=1)
    sizes = [t.bytes for t in topics]
    figure.add_trace(Bar(y=names, x=sizes, orientation="h", name="on disk", marker_color="steelblue"), row=2, col=1)
    if any(t.bytes_uncompressed is not None for t in topics):
        uncompressed = [t.bytes_uncompressed for t in topics]
        figure.add_trace(
            Bar(y=names, x=uncompressed, orientation="h", name="after decompression", marker_color="lightgray"),
            row=2,
            col=1,
        )
    figure.update_xaxes(title_text="time (UTC)", row=1, col=1)
    figure.update_yaxes(title_text=f"records per {_period(step)}", rangemode="tozero", row=1, col=1)
    figure.update_xaxes(title_text="bytes", row=2, col=1)
    figure.update_yaxes(autorange="reversed", type="category", row=2, col=1)
    figure.update_layout(template="plotly_white", height=800)
    return str(figure.to_html()).encode()

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
from typing import TYPE_CHECKING, Any, NamedTuple

from ...support.paths import output_path
from ...support.text import counted, plain, shown
from ..storage import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".html")
MOST_TOPICS = 10  # Largest number of topics in a chart. The topics with the most bytes are shown.
LONGEST_NAME = 40
MOST_BARS = 400  # largest number of time periods in a chart
MOST_ROWS = 3  # If there are more topics, the panels of the topics are in two columns.
SINGLE_HEIGHT, PANEL_HEIGHT, BAR_HEIGHT = 300, 150, 30
"""Heights in pixels: the panel of a single topic, the panel of one of several topics, and the bars of one topic."""
LEAST_WIDTH = 1100  # on a narrower screen, the page scrolls
LEAST_WINDOW = 720  # A chart of a smaller height fills the window of a browser.
COLOUR, PALE = "#1f77b4", "#d9d9d9"
ON_DISK, DECOMPRESSED = "on disk", "after decompression"
OVER_TIME, SIZES = "Records over time (UTC)", "Size of each topic"
NO_TIMES = "no timestamps"
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


def plot(topics: Sequence[ChartTopic], path: str | os.PathLike[str], omitted: int = 0) -> None:
    """Write charts of the given topics to a file. See `StatsReport.plot`.

    `omitted` is the number of other topics. The chart contains a note about them.
    """
    target = check_plot_path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind == "html":
        content = _html(topics, omitted)
    else:
        saved = BytesIO()
        picture(topics, omitted).savefig(saved, format=kind)
        content = saved.getvalue()
    replace_file(target, content)


def _name(t: ChartTopic) -> str:
    # The ends of long names often differ, and so do the starts.
    name, half = plain(t.name), LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[: half - 1]}…{name[-half:]}"


def _heights(topics: Sequence[ChartTopic]) -> tuple[int, int, list[int]]:
    """Return the numbers of rows and columns of the topics' panels, and the height of each row in pixels.

    The last height is that of the chart of sizes.
    """
    columns = 1 if len(topics) <= MOST_ROWS else 2
    rows = -(-len(topics) // columns)
    return rows, columns, [SINGLE_HEIGHT if len(topics) == 1 else PANEL_HEIGHT] * rows + [BAR_HEIGHT * len(topics)]


def _note(omitted: int) -> str:
    return f"Not shown: {counted(omitted, 'topic')}, smaller or internal" if omitted else ""


def _rates(t: ChartTopic) -> tuple[int, list[datetime], list[int]]:
    """Return the period length in milliseconds, the limits of all periods, and the number of records in each."""
    counts = {time: n for time, n in t.records.items() if EARLIEST <= time <= LATEST}
    if not counts:
        return t.bucket_ms, [], []
    wanted = max(t.bucket_ms, (max(counts) - min(counts)) // MOST_BARS)
    step = next((p for p in PERIODS if p % t.bucket_ms == 0 and p >= wanted), PERIODS[-1])
    sums: dict[int, int] = {}
    for time, n in counts.items():
        sums[time // step * step] = sums.get(time // step * step, 0) + n
    starts = range(min(sums), max(sums) + step, step)
    limits = [datetime.fromtimestamp(time / 1000, UTC) for time in (*starts, starts[-1] + step)]
    return step, limits, [sums.get(time, 0) for time in starts]


def _period(ms: int) -> str:
    for name, unit in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if ms >= unit and ms % unit == 0:
            n = ms // unit
            return name if n == 1 else f"{n} {name}s"
    return "second" if ms == 1000 else f"{ms // 1000} seconds"


def picture(topics: Sequence[ChartTopic], omitted: int = 0) -> Figure:
    """Draw the charts with matplotlib."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    rows, columns, heights = _heights(topics)
    # Titles and the labels of axes need about 70 pixels a row, and the legend 20.
    figure: Any = Figure(figsize=(10, (sum(heights) + 70 * rows + 90) / 100), layout="constrained", dpi=120)
    # Each part has a separate layout, so that the names of topics before the bars do not make the panels narrow.
    upper, lower = figure.subfigures(2, 1, height_ratios=(sum(heights[:-1]) + 70 * rows, heights[-1] + 90))
    upper.suptitle(OVER_TIME, x=0.01, ha="left", weight="bold")
    for i, t in enumerate(topics):
        panel = upper.add_subplot(rows, columns, i + 1)
        step, limits, records = _rates(t)
        panel.set_title(_literal(_name(t)), loc="left", fontsize="small")
        if not limits:
            panel.text(0.5, 0.5, NO_TIMES, ha="center", va="center", color="0.4", transform=panel.transAxes)
            panel.set(xticks=[], yticks=[])
            continue
        panel.set_title(f"records per {_period(step)}", loc="right", fontsize="small", color="0.3")
        panel.stairs(records, limits, fill=True, color=COLOUR)
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_locator(
            MaxNLocator(4, integer=True)
        )  # without integer=True, labels such as "500 m" appear
        panel.yaxis.set_major_formatter(EngFormatter())
        # With less than 7 as maxticks, AutoDateLocator finds no interval for 60 to 72 hours.
        ticks = {} if columns == 1 else {"minticks": 3, "maxticks": 7}
        locator = AutoDateLocator(**ticks)  # type: ignore[no-untyped-call]
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        panel.grid(alpha=0.3)
    sizes, places = lower.add_subplot(), range(len(topics))
    if any(t.bytes_uncompressed is not None for t in topics):
        uncompressed = [t.bytes_uncompressed or 0 for t in topics]
        sizes.barh(places, uncompressed, height=0.8, color=PALE, label=DECOMPRESSED)
    sizes.barh(places, [t.bytes for t in topics], height=0.5, color=COLOUR, label=ON_DISK)
    sizes.set_yticks(list(places), [_literal(_name(t)) for t in topics])
    sizes.set_ylim(len(topics) - 0.5, -0.5)
    lower.suptitle(SIZES, x=0.01, ha="left", weight="bold")
    sizes.xaxis.set_major_formatter(EngFormatter(unit="B"))
    sizes.grid(alpha=0.3, axis="x")
    # The legend is above the bars: inside, it would cover them, or would be as grey as they are.
    sizes.legend(frameon=False, fontsize="small", loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2)
    if omitted:
        sizes.set_xlabel(_note(omitted), loc="left", fontsize="small", color="0.3")
    drawn: Figure = figure
    return drawn


def _literal(text: str) -> str:
    """Escape `$`, which starts a formula in matplotlib, and a leading `_`, which hides a legend entry."""
    return ("\u200b" if text.startswith("_") else "") + text.replace("$", r"\$")


def _html(topics: Sequence[ChartTopic], omitted: int) -> bytes:
    import html

    from plotly.graph_objects import Bar, Scatter
    from plotly.subplots import make_subplots

    rows, columns, heights = _heights(topics)
    names, rates = [html.escape(_name(t)) for t in topics], [_rates(t) for t in topics]
    titles = [
        f"<b>{name}</b>: " + (f"records per {_period(step)}" if limits else NO_TIMES)
        for name, (step, limits, _) in zip(names, rates, strict=True)
    ]
    gap, top = 80, 80
    height = sum(heights) + gap * rows
    whole = height + top + gap
    figure: Any = make_subplots(
        rows=rows + 1,
        cols=columns,
        row_heights=heights,
        vertical_spacing=gap / height,
        horizontal_spacing=0.08,
        specs=[[{}] * columns] * rows + [[{"colspan": columns}, *[None] * (columns - 1)]],
        subplot_titles=[*titles, *[""] * (rows * columns - len(topics)), f"<b>{SIZES}</b>"],
    )
    figure.update_annotations(x=0, xanchor="left", font_size=14)
    for i, (_, limits, records) in enumerate(rates):
        row, column = i // columns + 1, i % columns + 1
        figure.layout.annotations[i].x = next(figure.select_xaxes(row=row, col=column)).domain[0]
        area = Scatter(x=limits, y=[*records, 0] if limits else [], fill="tozeroy", line={"shape": "hv", "width": 1})
        area.update(mode="lines", line_color=COLOUR, fillcolor=COLOUR, showlegend=False, name=names[i])
        figure.add_trace(area, row=row, col=column)
        counts = {"tickformat": "~s", "nticks": 5} if max(records, default=0) >= 5 else {"dtick": 1}
        figure.update_yaxes(rangemode="tozero", visible=bool(limits), **counts, row=row, col=column)
        figure.update_xaxes(type="date", visible=bool(limits), row=row, col=column)
    places = list(range(len(topics)))
    bars = [(ON_DISK, [t.bytes for t in topics], 0.5, COLOUR)]
    if any(t.bytes_uncompressed is not None for t in topics):
        bars.insert(0, (DECOMPRESSED, [t.bytes_uncompressed or 0 for t in topics], 0.8, PALE))
    for name, values, width, colour in bars:
        bar = Bar(
            y=places, x=values, orientation="h", name=name, width=width, marker={"color": colour, "line_width": 0}
        )
        figure.add_trace(bar, row=rows + 1, col=1)
    size_axes = {"row": rows + 1, "col": 1}
    figure.update_xaxes(tickformat="~s", ticksuffix="B", title_text=_note(omitted) or None, **size_axes)
    figure.update_xaxes(domain=[min(0.25, 0.006 * max(map(len, names), default=0)), 1], **size_axes)
    figure.update_yaxes(range=[len(topics) - 0.5, -0.5], tickvals=places, ticktext=names, **size_axes)
    legend = {"orientation": "h", "x": 1, "xanchor": "right", "y": heights[-1] / height, "yanchor": "bottom"}
    title = {"text": f"<b>{OVER_TIME}</b>", "x": 0.01, "y": 1 - 25 / whole, "font_size": 16}
    figure.update_layout(template="plotly_white", title=title, legend=legend, barmode="overlay")
    # A few topics fill the window. More topics need a page that scrolls.
    fills = whole < LEAST_WINDOW
    figure.update_layout(height=None if fills else whole, margin={"t": top, "b": gap, "r": 30})
    page = str(figure.to_html(default_height="96vh" if fills else "100%"))
    return page.replace("<body>", f'<body style="min-width: {LEAST_WIDTH}px">', 1).encode()

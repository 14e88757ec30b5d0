"""Format and save the results of benchmarks: our figure, the figure of a peer, and their ratio.

The ratio is the median, over all rounds, of peer / ours, or of ours / peer if more is better. The
quartiles show its spread.

`save` adds results to results.json, and writes RESULTS.md, the page for users, with its chart.
`python benchmarks/report.py` writes the page and the chart again.
"""

from __future__ import annotations

import datetime
import io
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DATA = HERE / "results.json"
PAGE = HERE / "RESULTS.md"
CHART = HERE / "ratios.svg"
HEAD = ("question", "case", "ours", "peer", "", "ratio", "spread")
HEADLINES = {
    ("Read records into columns", "Kafka's Java code"): ("Kafka's Java", "columns, topic none", "Java, columns"),
    ("Read records into Arrow", "Kafka's Java code"): ("Kafka's Java", "arrow, topic none", "Java, arrow"),
    ("Read records into Arrow", "aiokafka, pyarrow"): ("Arrow, keys and values gathered", "a", "aiokafka into pyarrow"),
    ("Read records as objects", "aiokafka"): ("Record objects, four fields", "a", "aiokafka"),
    ("Read lz4 into columns", "Kafka's Java code"): ("Kafka's Java", "columns, topic lz4", "Java, columns"),
    ("Read zstd into columns", "Kafka's Java code"): ("Kafka's Java", "columns, topic zstd", "Java, columns"),
    ("Build batches, record by record", "aiokafka"): ("building batches", "a, one record at a time", "aiokafka"),
    ("Read a Metadata response", "kio"): ("Messages: read", "Metadata, 10,000 partitions", "kio"),
    ("Print records as JSON", "Python's json"): ("cat: formats", "json", "the same in Python"),
    ("Search values for a word", "DuckDB"): ("cat: search", "literal without matches", "DuckDB"),
    ("Export to Parquet", "Spark's Kafka source"): ("export", "Parquet (zstd)", "Spark's Kafka source"),
}
"""The results in the chart, by what is measured and the name of the peer. Both programs return the same kind of result."""
GREY, BLUE = "#768390", "#3b82c4"
"""Colours that are legible on a white and on a dark page."""
INTRODUCTION = """\
# Performance

The chart shows how many times as fast kafkafmt is as another program that does the same work on the
same machine. At 1, both are equally fast.

![{alt}](ratios.svg)

Each row compares like with like: columns with columns, Arrow with Arrow, and Python objects with
Python objects. Records have values of 100 bytes, and batches are uncompressed unless the row names a
codec. Python's module json and DuckDB get the records from kafkafmt, and both exports run on Spark.
Both programs take turns in one run. *Spread* is the range between the first and the third
quartile of the ratio. [Benchmarks](README.md) explains the method, and how to measure on your machine.

Machine: {machine}. Measured from {first} to {last}.
"""
EXPLANATION = """\

## All results

*Ours* and *peer* are medians. If the unit is a time, the ratio is the peer's time divided by ours.
If the unit is a rate, the ratio is our rate divided by the peer's. aiokafka has no columns: if it is
compared with columns, it reads offset, timestamp, key and value of each record from an object. Some
peers do less work than kafkafmt, for example only read or copy the bytes. Their ratios below 1 show
what kafkafmt costs in addition.
"""


@dataclass(frozen=True)
class Row:
    """One result. `unit` is the unit of `ours` and `peer`."""

    question: str
    case: str
    ours: float
    peer_name: str
    peer: float
    unit: str
    ratio: float
    low: float
    high: float
    date: str = datetime.date.today().isoformat()

    @property
    def key(self) -> tuple[str, str, str]:
        return self.question, self.case, self.peer_name

    def cells(self) -> tuple[str, ...]:
        ours, spread = f"{rounded(self.ours)} {self.unit}", f"{self.low:.2f}–{self.high:.2f}"
        return self.question, self.case, ours, rounded(self.peer), self.peer_name, f"{self.ratio:.2f}", spread


ROWS: list[Row] = []
"""All results of this run, in order."""


def rounded(number: float) -> str:
    """Return a number with about three digits."""
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f}"


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the first quartile, the median and the third quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table for terminals."""
    cells = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEAD))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown. The first line is its head."""
    head, *others = lines
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *others))


def headlines(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """Return the results in the chart."""
    found = {row.key: row for row in rows}
    return {label: found[key] for label, key in HEADLINES.items() if key in found}


def times(row: Row) -> str:
    return f"{row.ratio:.1f}×"


def chart(shown: dict[tuple[str, str], Row]) -> str:
    """Draw a bar chart of ratios as an SVG image with a transparent background."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "kafkafmt", "text.color": GREY, "font.size": 11}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(8, 0.36 * len(shown) + 0.6))
        axes = figure.add_axes((0.47, 0.01, 0.46, 0.9))
        axes.axis("off")
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xlim(0, max(row.ratio for row in shown.values()))
        axes.axvline(1, color=GREY, linewidth=1, linestyle=(0, (2, 2)))
        beside: Any = {"va": "center", "transform": axes.get_yaxis_transform()}
        for place, ((what, peer), row) in enumerate(shown.items()):
            (bar,) = axes.barh(place, row.ratio, height=0.62, color=BLUE)
            bar.set_gid(f"bar{place}")
            axes.text(-1.02, place, what, ha="left", **beside)
            axes.text(-0.03, place, peer, ha="right", **beside)
            axes.annotate(
                times(row), (row.ratio, place), (5, 0), textcoords="offset points", va="center", weight="bold"
            )
        figure.text(0.001, 0.955, "what kafkafmt does", weight="bold", va="center")
        figure.text(0.456, 0.955, "compared with", weight="bold", va="center", ha="right")
        figure.text(0.47, 0.955, "how many times as fast (dashed: equal)", weight="bold", va="center")
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines()) + "\n"


def page(machine: str, rows: Sequence[Row]) -> str:
    """Return the page for users, in Markdown."""
    shown = headlines(rows)
    dates = sorted(row.date for row in rows)
    alt = "; ".join(f"{what}, compared with {peer}: {times(row)}" for (what, peer), row in shown.items())
    text = INTRODUCTION.format(machine=machine, first=dates[0], last=dates[-1], alt=alt)
    head = ("what", "compared with", "kafkafmt", "peer", "ratio", "spread")
    lines = [(what, peer, *(row.cells()[i] for i in (2, 3, 5, 6))) for (what, peer), row in shown.items()]
    text += "\n" + markdown([head, *lines]) + EXPLANATION
    return text + "\n" + markdown([HEAD, *(row.cells() for row in rows)])


def save(rows: Sequence[Row]) -> None:
    """Replace or add results in results.json, and write the page for users with its chart."""
    saved = json.loads(DATA.read_text(encoding="utf-8"))
    merged = {row.key: row for row in (*(Row(**fields) for fields in saved["rows"]), *rows)}
    order = {question: i for i, question in enumerate(dict.fromkeys(row.question for row in merged.values()))}
    kept = sorted(merged.values(), key=lambda row: order[row.question])
    lines = ",\n".join(json.dumps(asdict(row), ensure_ascii=False) for row in kept)
    DATA.write_text(f'{{"machine": {json.dumps(saved["machine"])}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    PAGE.write_text(page(saved["machine"], kept), encoding="utf-8")
    CHART.write_text(chart(headlines(kept)), encoding="utf-8")


if __name__ == "__main__":
    save(())

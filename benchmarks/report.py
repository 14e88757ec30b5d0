"""Format and save the results of benchmarks: our figure, the figure of a peer, and their ratio.

The ratio is the median, over all rounds, of peer / ours, or of ours / peer if more is better. The
quartiles show its spread.

`save` adds results to results.json, and writes RESULTS.md, the page for users.
"""

from __future__ import annotations

import datetime
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE / "results.json"
PAGE = HERE / "RESULTS.md"
HEAD = ("question", "case", "ours", "peer", "", "ratio", "spread")
HEADLINES = {
    "Read records of 100 B into columns": ("columns", "a: 100 B values, 10 B keys, 16 KiB batches", "aiokafka"),
    "Read records of 100 B into Arrow": ("Arrow, keys and values gathered", "a", "aiokafka into pyarrow"),
    "Read them as Python objects": ("Record objects, four fields", "a", "aiokafka"),
    "Read lz4 batches into columns": ("compressed into columns", "a, lz4", "aiokafka"),
    "Read zstd batches into columns": ("compressed into columns", "a, zstd", "aiokafka"),
    "Read into columns, as in Java": ("Kafka's Java", "columns, topic none", "Java, columns"),
    "Read into Arrow, as in Java": ("Kafka's Java", "arrow, topic none", "Java, arrow"),
    "Build batches from columns": ("building batches", "a, from columns", "aiokafka"),
    "Decode a Fetch response of 1 MB": ("Fetch response of 1 MB to columns", "a", "aiokafka"),
    "Read a Metadata response": ("Messages: read", "Metadata, 10,000 partitions", "kafka-python"),
    "Print records as JSON (`cat`)": ("cat: formats", "json", "the same in Python"),
    "Search values for a literal": ("cat: search", "literal without matches", "DuckDB"),
    "Export to Parquet on Spark": ("export", "Parquet (zstd)", "Spark's Kafka source"),
}
"""The results at the start of the page, by label."""
INTRODUCTION = """\
# Performance

Each ratio compares kafkafmt with another program (the peer) that does the same work on the same
machine. Above 1, kafkafmt is faster. Both programs take turns in one run.
[Benchmarks](README.md) explains the method, and how to measure on your machine.

Machine: {machine}. Measured from {first} to {last}.
"""
EXPLANATION = """\

## All results

*Ours* and *peer* are medians. If the unit is a time, the ratio is the peer's time divided by ours.
If the unit is a rate, the ratio is our rate divided by the peer's. *Spread* is the range between
the first and the third quartile of the ratio. Some peers do less work than kafkafmt, for example
only read or copy the bytes. Their ratios below 1 show what kafkafmt costs in addition.
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


def chart(bars: dict[str, float]) -> str:
    """Return a bar chart of ratios as a block of code. A ratio of 1 is one character wide."""
    width = max(map(len, bars))
    lines = [f"{label.ljust(width)}  {ratio:5.1f}  {'█' * max(round(ratio), 1)}" for label, ratio in bars.items()]
    return "\n".join(["```text", *lines, "```\n"])


def page(machine: str, rows: Sequence[Row]) -> str:
    """Return the page for users, in Markdown."""
    found = {row.key: row for row in rows}
    shown = {label: found[key] for label, key in HEADLINES.items() if key in found}
    dates = sorted(row.date for row in rows)
    text = INTRODUCTION.format(machine=machine, first=dates[0], last=dates[-1])
    text += "\n" + chart({label.replace("`", ""): row.ratio for label, row in shown.items()})
    head = ("what", "compared with", "kafkafmt", "peer", "ratio", "spread")
    lines = [(label, row.peer_name, *(row.cells()[i] for i in (2, 3, 5, 6))) for label, row in shown.items()]
    text += "\n" + markdown([head, *lines]) + EXPLANATION
    return text + "\n" + markdown([HEAD, *(row.cells() for row in rows)])


def save(rows: Sequence[Row]) -> None:
    """Replace or add results in results.json, and write the page for users."""
    saved = json.loads(DATA.read_text(encoding="utf-8"))
    merged = {row.key: row for row in (*(Row(**fields) for fields in saved["rows"]), *rows)}
    order = {question: i for i, question in enumerate(dict.fromkeys(row.question for row in merged.values()))}
    kept = sorted(merged.values(), key=lambda row: order[row.question])
    lines = ",\n".join(json.dumps(asdict(row), ensure_ascii=False) for row in kept)
    DATA.write_text(f'{{"machine": {json.dumps(saved["machine"])}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")
    PAGE.write_text(page(saved["machine"], kept), encoding="utf-8")

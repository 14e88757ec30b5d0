"""Format the results of a benchmark: our figure, the figure of a peer, and their ratio.

The ratio is the median, over all rounds, of peer / ours, or of ours / peer if more is better. The
quartiles show its spread.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

HEAD = ("question", "case", "ours", "peer", "", "ratio", "spread", "target", "")


@dataclass(frozen=True)
class Row:
    """One result.

    `unit` is the unit of `ours` and `peer`. `target` applies to the ratio, or to `ours` if
    `absolute` is True.
    """

    question: str
    case: str
    ours: float
    peer_name: str
    peer: float
    unit: str
    ratio: float
    low: float
    high: float
    target: float | None = None
    absolute: bool = False

    @property
    def verdict(self) -> str:
        """Compare a result with its target, or return "" if it has none.

        Up to 15 % below the target is "close".
        """
        if self.target is None:
            return ""
        reached = (self.ours if self.absolute else self.ratio) / self.target
        return "ok" if reached >= 1 else f"close, {reached:.0%}" if reached >= 0.85 else f"MISSED, {reached:.0%}"

    def cells(self) -> tuple[str, ...]:
        target = "" if self.target is None else f"{self.target:g} {self.unit if self.absolute else '×'}"
        places = 1 if self.ours < 1000 else 0
        return (
            self.question,
            self.case,
            f"{self.ours:.{places}f} {self.unit}",
            f"{self.peer:.{places}f}",
            self.peer_name,
            f"{self.ratio:.2f}",
            f"{self.low:.2f}–{self.high:.2f}",
            target,
            self.verdict,
        )


ROWS: list[Row] = []
"""All results of this run, in order."""


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


def markdown(rows: Sequence[Row]) -> str:
    """Return a table in Markdown."""
    lines = [HEAD, tuple("---" for _ in HEAD), *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)

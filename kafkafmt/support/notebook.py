"""Build HTML tables for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from .text import plain

MOST_ROWS = 20
"""Largest number of rows in an HTML table. A line after the table contains the number of omitted rows."""

UNKNOWN = "unknown"
"""A cell for a number that is not known."""

NUMBER = re.compile(rf"((at most )?-?[0-9][0-9,]*(\.[0-9]+)?|{UNKNOWN}|)\Z")
"""Columns of such cells are aligned to the right."""


def html_table(caption: str, header: Sequence[str], rows: Sequence[Iterable[object]]) -> str:
    # All text is escaped: the names of files and topics can contain HTML tags or control
    # characters.
    shown = [["" if cell is None else str(cell) for cell in row] for row in rows[:MOST_ROWS]]
    columns = zip(*shown, strict=True) if shown else [()] * len(header)
    sides = ["right" if all(map(NUMBER.match, column)) else "left" for column in columns]
    head = _row("th", header, sides)
    body = "".join(_row("td", row, sides) for row in shown)
    more = f"<p>… and {len(rows) - MOST_ROWS} more</p>" if len(rows) > MOST_ROWS else ""
    return f"<table><caption>{_text(caption)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>{more}"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    # The alignment is explicit, because notebooks align all cells to the right.
    made = (f'<{tag} style="text-align: {side}">{_text(cell)}</{tag}>' for cell, side in zip(cells, sides, strict=True))
    return f"<tr>{''.join(made)}</tr>"


def _text(cell: str) -> str:
    return escape(plain(cell))

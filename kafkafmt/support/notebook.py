"""Build HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from .text import plain

MOST_ROWS = 20
"""Largest number of rows in an HTML table. A line after the table contains the number of omitted rows."""


def html_table(caption: str, header: Sequence[str], rows: Sequence[Iterable[object]]) -> str:
    # All text is escaped: the names of files and topics can contain HTML tags or control
    # characters.
    head = _row("th", header)
    body = "".join(_row("td", row) for row in rows[:MOST_ROWS])
    more = f"<p>… and {len(rows) - MOST_ROWS} more</p>" if len(rows) > MOST_ROWS else ""
    return f"<table><caption>{_text(caption)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>{more}"


def _row(tag: str, cells: Iterable[object]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _text(cell: object) -> str:
    return escape(plain(str(cell)))

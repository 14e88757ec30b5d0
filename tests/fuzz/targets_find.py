"""Fuzz what `find` and `cat` do with user input: patterns, JSON members, formats, and columns with wrong spans."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np

from kafkafmt import _backend
from kafkafmt.cli.record_lines import FORMATS, line_format, line_template
from kafkafmt.constants import BYTE_ENCODINGS, RECORD_FIELDS, TEXT_STYLES
from kafkafmt.log.finding.byte_pattern import BytePattern
from kafkafmt.log.finding.json_paths import JsonEquals, json_path, values_of_text
from kafkafmt.types import RecordColumns

from .case import Case
from .mutate_bytes import NUMBERS
from .outcome import attempt, same
from .target import target

PIECES = [
    "a",
    "b",
    "ab",
    "1",
    ".",
    "\\d",
    "\\",
    "[ab]",
    "[^",
    "]",
    "(",
    ")",
    "(?:",
    "|",
    "*",
    "+",
    "?",
    "{2}",
    "{",
    "}",
    "^",
    "$",
    "ä",
    "\n",
    "(?i)",
]
"""Parts of patterns. Nested quantifiers are rare in short patterns, so few searches take long."""
JSON_PIECES = [
    '"n"',
    ":",
    "5",
    '"5"',
    "{",
    "}",
    "[",
    "]",
    ",",
    "null",
    "-0",
    "1e0",
    '"\\u006e"',
    " ",
    '"a": {"n": 5}',
    '{"n": 5}',
    "\xff",
]
FORMAT_PIECES = [
    "%s",
    "%k",
    "%o",
    "%t",
    "%p",
    "%T",
    "%h",
    "%K",
    "%S",
    "%R",
    "%%",
    "%",
    "%y",
    "\\n",
    "\\x4",
    "\\x",
    "\\012",
    "\\300",
    "ä",
    "\udcff",
    " ",
]


def text_of(chance: Random, pieces: list[str], most: int) -> str:
    return "".join(chance.choice(pieces) for _ in range(chance.randint(0, most)))


def values_of(chance: Random, pieces: list[str]) -> list[str | None]:
    return [None if chance.random() < 0.1 else text_of(chance, pieces, 6) for _ in range(chance.randint(0, 12))]


def spans_of(values: list[str | None]) -> tuple[bytes, Any, Any, list[bytes | None]]:
    """Return the values as spans of a buffer, and as bytes."""
    raw = [None if v is None else v.encode("latin-1", "replace") for v in values]
    source, positions = b"ab", []
    for value in raw:
        positions.append(len(source))
        source += (value or b"") + b"a1"
    return source, np.array(positions, np.int64), np.array([-1 if v is None else len(v) for v in raw], np.int32), raw


def pattern_case(chance: Random) -> Case:
    return Case({"pattern": text_of(chance, PIECES, 6), "values": values_of(chance, PIECES[:5])})


@target("find-pattern", pattern_case, quick=150)
def find_pattern(case: Case) -> Any:
    """Check that a pattern is found in the spans in which the module re finds it."""
    pattern = attempt(lambda: BytePattern(case.params["pattern"]).pattern.pattern, also=(ValueError,))
    if not isinstance(pattern, bytes):
        return pattern
    *spans, values = spans_of(case.params["values"])
    expected = [i for i, v in enumerate(values) if v is not None and re.search(pattern, v)]
    found = BytePattern(case.params["pattern"]).find(*spans).tolist()
    same(found, expected, "matching spans")
    return found


def json_case(chance: Random) -> Case:
    path = chance.choice(("n", "a.n", "0", "0.n", "n.n", "a\\.n", "", ".", "\\"))
    wanted = chance.choice(("5", '"5"', "null", "n", "[5]", "NaN", "1e400", ""))
    return Case({"path": path, "value": wanted, "values": values_of(chance, JSON_PIECES)})


@target("find-json", json_case, quick=150)
def find_json(case: Case) -> Any:
    """Check that the search before the JSON is parsed omits no match."""
    path = attempt(json_path, case.params["path"], also=(ValueError,))
    if not isinstance(path, list | tuple):
        return path
    member = JsonEquals(tuple(path), values_of_text(case.params["value"]))
    *spans, values = spans_of(case.params["values"])
    found = member.find(*spans).tolist()
    same(found, [i for i, v in enumerate(values) if v is not None and member.matches(v)], "matching values")
    return found


def format_case(chance: Random) -> Case:
    form = chance.choice(FORMATS) if chance.random() < 0.2 else text_of(chance, FORMAT_PIECES, 6)
    return Case({"format": form.encode("utf-8", "surrogateescape").hex(), "terminal": chance.random() < 0.5})


@target("line-format", format_case, quick=100)
def line_formats(case: Case) -> Any:
    """Check that every format is rejected with a ValueError, or writes a record."""
    text = bytes.fromhex(case.params["format"]).decode("utf-8", "surrogateescape")
    template = attempt(
        lambda: line_template(line_format(text, case.params["terminal"]), "t\udcff", 3), also=(ValueError,)
    )
    if not isinstance(template, list):
        return template
    columns = RecordColumns(1, ["offset"])
    columns.rows, columns.offset[:] = 1, 7  # type: ignore[index]
    chosen = line_format(text, case.params["terminal"])
    return _backend.core.format_records(b"", columns, template, chosen.style, "utf8", chosen.separator.encode())


ARRAYS = ("key_position", "key_length", "value_position", "value_length", "header_start", "header_count",
          "header_key_position", "header_key_length", "header_value_position", "header_value_length")  # fmt: skip


def columns_case(chance: Random) -> Case:
    changes = [
        [chance.choice(ARRAYS), chance.randrange(3), chance.choice((*NUMBERS, 0, 1, 5, 11, 12))]
        for _ in range(chance.randint(0, 3))
    ]
    options = chance.choice(TEXT_STYLES), chance.choice(BYTE_ENCODINGS)
    return Case({"changes": changes, "options": options}, {"data": bytes(chance.randrange(256) for _ in range(12))})


@target("format-columns", columns_case, quick=150)
def format_columns(case: Case) -> Any:
    """Check that spans outside the buffer raise a ValueError."""
    columns: Any = RecordColumns(3)
    for name in ARRAYS:
        getattr(columns, name)[:3] = 1
    columns.header_start[:3] = range(3)
    columns.offset[:], columns.timestamp[:], columns.timestamp_type[:], columns.rows, columns.headers = 1, 2, 1, 3, 3
    for name, at, value in case.params["changes"]:
        array = getattr(columns, name)
        array[at] = np.array(value & (1 << 64) - 1, np.uint64).astype(array.dtype)
    template = [part for name in RECORD_FIELDS for part in (name, b" ")]
    return attempt(
        _backend.core.format_records, case.data, columns, template, *case.params["options"], b";", also=(ValueError,)
    )

"""Parse the offset ranges (`FROM:TO`) in command-line arguments."""

from __future__ import annotations

from ..log.reading import OffsetBound, OffsetRange
from ..support.text import shown
from ..support.times import parse_time

WORDS = {"beginning": OffsetBound("offset", 0), "end": OffsetBound("before_end", 0)}
"""Bounds that kcat names."""


def parse_offsets(text: str) -> OffsetRange:
    """Parse `FROM:TO`; both may be omitted."""
    # Each is an offset, `-N` (N before the log end), or `@TIME` (see `parse_time`). FROM without a
    # colon means `FROM:`.
    start, rest = _bound(text)
    if rest and not rest.startswith(":"):
        raise ValueError(f"{shown(text)} does not have the form FROM:TO")
    end, rest = _bound(rest[1:])
    if rest:
        raise ValueError(f"{shown(text)} does not have the form FROM:TO, because {shown(rest)} follows TO")
    return OffsetRange(start, end)


def parse_bound(text: str) -> OffsetBound:
    """Parse an offset, `-N` (N before the log end) or `@TIME`. Raise ValueError if the text has another form."""
    bound, rest = _bound(text)
    if bound is None or rest:
        raise ValueError(f"{shown(text)} is not a valid bound; a bound is an offset, -N or @TIME")
    return bound


def _bound(text: str) -> tuple[OffsetBound | None, str]:
    """Parse an offset or time at the start of `text`. Return it with the remaining text."""
    # A time can contain colons, so the longest prefix that is a valid time is parsed.
    if text.startswith("@"):
        ends = [len(text), *(i for i in range(len(text) - 1, 0, -1) if text[i] == ":")]
        for end in ends:
            try:
                return OffsetBound("time", parse_time(text[1:end])), text[end:]
            except ValueError:
                continue
        raise ValueError(
            f"{shown(text)} does not begin with a valid time; a time has the form @MILLISECONDS, @ISO-TIME or @-N and a unit, such as @-7d"
        )
    word, colon, rest = text.partition(":")
    if not word:
        return None, colon + rest
    if word in WORDS:
        return WORDS[word], colon + rest
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{shown(word)} is not a valid bound; a bound is an offset, -N or @TIME, as in 100:200")
    return OffsetBound("before_end" if word.startswith("-") else "offset", int(digits)), colon + rest

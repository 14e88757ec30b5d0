"""Parse the offset ranges (`FROM:TO`) and times in command-line arguments."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from ..arguments import to_millis
from ..log.reading.record_selection import OffsetBound, OffsetRange

ISO_TIME = re.compile(r"[0-9W-]+([Tt ].*)?\Z")


def parse_time(text: str) -> int:
    """Return the time that `text` specifies, in milliseconds since 1970-01-01 UTC.

    `text` is a number of milliseconds, or an ISO date or time. A time without a time zone is in
    UTC. Any other text raises ValueError.
    """
    if text.lstrip("-").isdigit() and text.isascii():
        return int(text)
    # datetime.fromisoformat() accepts any character in place of the T, even a colon.
    if not ISO_TIME.match(text):
        raise ValueError(f"{text!r} is neither a number of milliseconds nor an ISO date or time")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None and (offset := moment.utcoffset()) is not None and offset.seconds % 60:
        # datetime.fromisoformat() accepts time zones with seconds.
        raise ValueError(f"{text!r} has a time zone with seconds, which ISO 8601 does not allow")
    return to_millis(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)


def parse_offsets(text: str) -> OffsetRange:
    """Parse an offset range of the form `FROM:TO`, or raise ValueError.

    FROM and TO have one of these forms: an offset, `-N` (N before the log end), `@MS` or
    `@ISO-TIME`. Both may be omitted.
    """
    start, rest = _bound(text)
    if rest and not rest.startswith(":"):
        raise ValueError(f"{text!r} does not have the form FROM:TO")
    end, rest = _bound(rest[1:])
    if rest:
        raise ValueError(f"{text!r} does not have the form FROM:TO, because {rest!r} follows TO")
    return OffsetRange(start, end)


def parse_bound(text: str) -> OffsetBound:
    """Parse an offset, `-N` (N before the log end), `@MS` or `@ISO-TIME`, or raise ValueError."""
    bound, rest = _bound(text)
    if bound is None or rest:
        raise ValueError(f"{text!r} is not a valid bound; a bound is an offset, -N or @TIME")
    return bound


def _bound(text: str) -> tuple[OffsetBound | None, str]:
    """Parse the bound at the start of a text, and return the bound and the remaining text.

    A time can contain colons, so the longest prefix that can be parsed as a time is used.
    """
    if text.startswith("@"):
        ends = [len(text), *(i for i in range(len(text) - 1, 0, -1) if text[i] == ":")]
        for end in ends:
            try:
                return OffsetBound("time", parse_time(text[1:end])), text[end:]
            except ValueError:
                continue
        raise ValueError(f"{text!r} does not begin with a valid time; a time has the form @MILLISECONDS or @ISO-TIME")
    word, colon, rest = text.partition(":")
    if not word:
        return None, colon + rest
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{word!r} is not a valid bound; a bound is an offset, -N or @TIME")
    return OffsetBound("before_end" if word.startswith("-") else "offset", int(digits)), colon + rest

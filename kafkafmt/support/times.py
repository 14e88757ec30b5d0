"""Convert times to milliseconds since 1970-01-01 UTC."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from .text import shown

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ISO_TIME = re.compile(r"[0-9W-]+([Tt ].*)?\Z")
MILLISECONDS = re.compile(r"-?[0-9]{1,1000}\Z")
RELATIVE_TIME = re.compile(r"-([0-9]{1,30})([wdhms])\Z")
UNIT_MILLIS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
"""Number of milliseconds in each unit of a relative time such as "-7d"."""
VALID_FORMS = (
    "valid forms are a number of milliseconds, an ISO date or time, and -N followed by w, d, h, m or s, such as -7d"
)


def now_millis() -> int:
    """Return the current time in milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def to_millis(moment: datetime) -> int:
    """Convert a timezone-aware datetime to milliseconds since 1970-01-01 UTC, rounded down."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def to_datetime(millis: int) -> datetime | None:
    """Convert milliseconds to a datetime in UTC; None if `millis` is -1, or no datetime can represent it."""
    if millis == -1:
        return None
    try:
        return EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None


def parse_time(text: str) -> int:
    """Return the time that `text` specifies, in milliseconds since 1970-01-01 UTC."""
    # It is a number of ms since 1970-01-01 UTC; an ISO 8601 date or time such as
    # ``2026-01-05T12:30+01:00``, by default in UTC; or relative to now, such as ``-7d``, with the
    # units w, d, h, m and s.
    if MILLISECONDS.match(text):
        return int(text)
    if relative := RELATIVE_TIME.match(text):
        return now_millis() - int(relative[1]) * UNIT_MILLIS[relative[2]]
    # datetime.fromisoformat() accepts any character in place of the T, even a colon.
    if not ISO_TIME.match(text):
        raise ValueError(f"{shown(text)} is not a time; {VALID_FORMS}")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        # Include only messages such as "month must be in 1..12", which help the user.
        # Other messages of datetime.fromisoformat() describe Python's implementation, so they are omitted.
        reason = f": {error}" if re.match("(year|month|day|hour|minute|second) ", str(error)) else f"; {VALID_FORMS}"
        raise ValueError(f"{shown(text)} is not a time{reason}") from None
    if moment.tzinfo is not None and (offset := moment.utcoffset()) is not None and offset.seconds % 60:
        # datetime.fromisoformat() accepts time zones with seconds.
        raise ValueError(f"{shown(text)} has a time zone with seconds, which ISO 8601 does not allow")
    return to_millis(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)

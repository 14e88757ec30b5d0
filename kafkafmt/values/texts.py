"""Write dates, times and numbers as in the JSON of decoded values."""

from __future__ import annotations

import math
from datetime import date, timedelta
from typing import Any


def clock_text(number: int, unit: int, digits: int) -> str:
    """Return a time of day, which is given in units of 1/`unit` seconds."""
    seconds, fraction = divmod(number, unit)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"


def day_text(days: int) -> str:
    """Return a date in the proleptic Gregorian calendar. Years outside 0 to 9999 have a sign (ISO 8601)."""
    cycles, rest = divmod(days, 146_097)  # the calendar repeats every 400 years
    day = date(2000, 1, 1) + timedelta(rest - 10_957 % 146_097)
    year = day.year + 400 * cycles
    return f"{year:04}{day:-%m-%d}" if 0 <= year <= 9999 else f"{'+' if year > 0 else '-'}{abs(year):05}{day:-%m-%d}"


def json_float(number: float, digits: int) -> Any:
    """Return a number for JSON, with the shortest text that has so many digits. NaN and infinities are texts."""
    if math.isfinite(number):
        return float(format(number, f".{digits}g")) if digits < 17 else number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def duration_text(seconds: int, nanos: int) -> str:
    """Return a duration as in Protobuf's JSON, for example 1.5s."""
    total = seconds * 10**9 + nanos
    whole, fraction = divmod(abs(total), 10**9)
    digits = next(n for n in (0, 3, 6, 9) if fraction % 10 ** (9 - n) == 0)
    part = f".{fraction // 10 ** (9 - digits):0{digits}}" if digits else ""
    return f"{'-' if total < 0 else ''}{whole}{part}s"

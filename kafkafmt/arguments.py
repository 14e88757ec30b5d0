"""What users pass in, checked where it comes in: TypeError or ValueError that names the argument and says what it can be."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def integer(name: str, value: Any, low: int | None = None, kind: str = "a whole number") -> int:
    """A whole number, of Python's or NumPy's types, that is not below `low`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {kind}, not {value!r}") from None
    if low is not None and number < low:
        raise ValueError(
            f"{name} is {number}; it cannot be below {low}" if low else f"{name} is {number}; it cannot be negative"
        )
    return number


def optional_integer(name: str, value: Any, low: int | None = None, kind: str = "a whole number") -> int | None:
    return None if value is None else integer(name, value, low, kind)


def fitting(name: str, value: Any, bits: int) -> int:
    """A whole number that a field of so many bits holds."""
    number = integer(name, value)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError(f"{name} is {number}, which does not fit into {bits} bits")
    return number


def one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} is {value!r}; it can be {' or '.join(map(repr, allowed))}")
    return value


def names(name: str, value: Iterable[str] | None, allowed: Sequence[str]) -> list[str] | None:
    """Several of some words, in any iterable but a string; None for all that are there unless asked for otherwise."""
    if value is None:
        return None
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is a list of names, [{value!r}] perhaps, not {value!r}")
    given = list(value)
    for word in given:
        if word not in allowed:
            raise ValueError(f"there is no column {word!r}; there are {', '.join(allowed)}")
    return given


def millis(name: str, time: Any) -> int:
    """A point in time as milliseconds since 1970 UTC, given as such or as a datetime that knows its zone."""
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise ValueError(
                f"{name} is {time!r}, which names no zone: .replace(tzinfo=timezone.utc), or another, says which is meant"
            )
        return to_millis(time)
    return integer(name, time, kind="a time: milliseconds since 1970 (UTC), or a datetime with a zone")


def now_millis() -> int:
    """Return the current time in milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def to_millis(moment: datetime) -> int:
    """Milliseconds since 1970 UTC, cut off."""
    return (moment - EPOCH) // timedelta(milliseconds=1)

"""Check the arguments of public functions.

If an argument is wrong, the error message names the argument and describes its valid values.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, TypeVar, cast

from .text import shown
from .times import now_millis, parse_time, to_millis

Word = TypeVar("Word", bound=str)


def integer(name: str, value: Any, low: int | None = None, kind: str = "a whole number") -> int:
    """Return `value` as an int of at least `low`. `kind` describes valid values in the error message."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be {kind}, not {shown(value)}") from None
    if low is not None and number < low:
        raise ValueError(
            f"{name} is {number}; it must be at least {low}" if low else f"{name} is {number}; it cannot be negative"
        )
    return number


def optional_integer(name: str, value: Any, low: int | None = None, kind: str = "a whole number") -> int | None:
    return None if value is None else integer(name, value, low, kind)


def fitting(name: str, value: Any, bits: int) -> int:
    """Return `value` as an int. OverflowError: it does not fit into a signed integer of `bits` bits."""
    number = integer(name, value)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError(f"{name} is {number}, which does not fit into {bits} bits")
    return number


def one_of(name: str, value: Any, allowed: Collection[Word]) -> Word:
    """Return `value`, or raise ValueError if it is not one of the two or more strings in `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"{name} is {shown(value)}; it must be {', '.join(others)} or {last}")
    return cast("Word", value)


def names(name: str, value: Iterable[str] | None, allowed: Sequence[str]) -> list[str] | None:
    """Return column names as a list; None selects the default columns. ValueError: a name is not in `allowed`."""
    if value is None:
        return None
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of names, such as [{shown(value)}], not {shown(value)}")
    given = list(value)
    for word in given:
        if word not in allowed:
            raise ValueError(f"there is no column {shown(word)}; the columns are {', '.join(allowed)}")
    return given


def millis(name: str, time: Any) -> int:
    """Convert a time (int in ms, datetime with a time zone, timedelta before now, or text for `parse_time`) to ms."""
    if isinstance(time, str):
        try:
            return parse_time(time)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if isinstance(time, datetime):
        if time.utcoffset() is None:
            raise ValueError(
                f"{name} is {shown(time)}, which has no time zone; add a time zone, for example with .replace(tzinfo=timezone.utc)"
            )
        return to_millis(time)
    if isinstance(time, timedelta):
        return now_millis() - abs(time) // timedelta(milliseconds=1)
    return integer(name, time, kind="a time: milliseconds since 1970-01-01 UTC, a datetime with a time zone, or a text")


def check_buffer(buffer: Any) -> None:
    """Raise TypeError if `buffer` is not bytes-like."""
    try:
        memoryview(buffer)
    except TypeError:
        advice = "; kafkafmt.open reads files" if isinstance(buffer, str | PathLike) or hasattr(buffer, "read") else ""
        raise TypeError(f"a bytes-like object with batches is required, not {shown(buffer)}{advice}") from None

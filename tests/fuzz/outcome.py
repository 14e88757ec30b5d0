"""Convert the results of calls to values that can be compared between cores."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from kafkafmt.errors import KafkaFormatError

CLOCK = re.compile(r"\b1[0-9]{12}\b")
"""Regular expression for a time in milliseconds in an error message."""


class OracleError(AssertionError):
    """Raised if a condition does not hold that must hold for every input."""


class Failed:
    """An error that a call raised. Two errors are equal if their types, positions and messages are equal."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.what: tuple[Any, ...] = (type(error).__name__,)
        if isinstance(error, KafkaFormatError):  # the messages of Python's own errors differ between the cores
            self.what += error.position, error.base_offset, error.resume, error.code, CLOCK.sub("TIME", str(error))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Failed) and self.what == other.what

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self.error).__name__}{self.what[1:]} {self.error}"


def attempt(call: Callable[..., Any], *args: Any, also: tuple[type[Exception], ...] = (), **options: Any) -> Any:
    """Call a function as `attempt_raw` does, and convert its value to plain Python objects."""
    return plain(attempt_raw(call, *args, also=also, **options))


def attempt_raw(call: Callable[..., Any], *args: Any, also: tuple[type[Exception], ...] = (), **options: Any) -> Any:
    """Call a function, and return its value or a `Failed`.

    A `Failed` is returned for errors about bad data, and for the error types in `also`.

    Raises
    ------
    OracleError
        The attribute `position` or `resume` of an error is impossible.
    """
    try:
        return call(*args, **options)
    except KafkaFormatError as error:
        check(error.position >= 0, f"{error!r} has position {error.position}")
        check(error.resume is None or error.resume >= 0, f"{error!r} has resume {error.resume}")
        check(bool(str(error)), f"{type(error).__name__} has no message")
        return Failed(error)
    except also as error:
        return Failed(error)


def check(holds: bool, message: str) -> None:
    """Raise OracleError with a message unless `holds` is True."""
    if not holds:
        raise OracleError(message)


def same(got: Any, expected: Any, what: str) -> None:
    """Raise OracleError unless two values are equal."""
    if got != expected:
        raise OracleError(f"{what}: {shortened(got)} is not {shortened(expected)}")


def shortened(value: Any) -> str:
    """Return at most 400 characters of the `repr` of a value."""
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:200]} … {text[-200:]}"


def plain(value: Any) -> Any:
    """Convert a value to plain Python objects that do not depend on the core."""
    if value is None or isinstance(value, str | int | bytes | bool):
        return value
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return [[plain(k), plain(v)] for k, v in value.items()]
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, KafkaFormatError):
        return Failed(value)
    if type(value).__name__ == "Record":
        return plain((value.offset, value.timestamp, value.timestamp_type, value.key, value.value, value.headers))
    if hasattr(value, "SCHEMA"):
        names = [f.name for f in value.SCHEMA.fields]
        return [
            type(value).__name__,
            *((n, plain(getattr(value, n))) for n in names),
            plain(value.unknown_tagged_fields),
        ]
    return value


def drained(items: Any, limit: int = 1_000_000) -> tuple[list[Any], Failed | None]:
    """Return the items of an iterator up to its end or its failure, and the failure.

    Raises
    ------
    OracleError
        The iterator returned more than `limit` items.
    """
    found: list[Any] = []

    def take() -> None:
        for item in items:
            found.append(plain(item))
            check(len(found) <= limit, f"more than {limit} items")

    failure = attempt(take)
    return found, failure

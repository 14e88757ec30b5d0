"""Check the arguments of the method `find`, which select records by key, value and headers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from ..log.finding import BytePattern, Conditions, HeaderEquals, JsonEquals, json_path
from ..support import arguments
from ..support.text import shown

Pattern = str | bytes | re.Pattern[bytes]
"""Type of the arguments `key_regex` and `value_regex`."""
HeaderConditions = str | Mapping[str, str | bytes | None] | Iterable[str | tuple[str, str | bytes | None]]
"""Type of the argument `headers`, which describes the headers that a record must have."""


class FindArguments(TypedDict, total=False):
    """Arguments of `Partition.find` that select records by key, value and headers."""

    key: str | bytes | None
    key_regex: Pattern | None
    value_regex: Pattern | None
    headers: HeaderConditions | None
    value_json: Mapping[str, Any] | None


def parse_conditions(given: FindArguments) -> Conditions:
    """Convert arguments of `find` to the conditions that a record must meet."""
    key = given.get("key")
    return Conditions(
        None if key is None else _bytes("key", key),
        _pattern("key_regex", given.get("key_regex")),
        _pattern("value_regex", given.get("value_regex")),
        _headers(given.get("headers")),
        _members(given.get("value_json")),
    )


def parse_limit(limit: int | None) -> int | None:
    """Check and return the argument `limit`. Raise TypeError or ValueError if it is wrong."""
    return arguments.optional_integer("limit", limit, 0)


def _bytes(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{name} must be str or bytes, not {shown(value)}")


def _pattern(name: str, pattern: Pattern | None) -> BytePattern | None:
    if pattern is None:
        return None
    try:
        return BytePattern(pattern)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _headers(given: HeaderConditions | None) -> tuple[HeaderEquals, ...]:
    if given is None:
        return ()
    pairs: Iterable[Any] = [given] if isinstance(given, str) else given.items() if isinstance(given, Mapping) else given
    found = []
    for pair in pairs:
        if isinstance(pair, str):
            found.append(HeaderEquals(pair, any_value=True))
        elif isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str):
            found.append(HeaderEquals(pair[0], None if pair[1] is None else _bytes("the value of a header", pair[1])))
        else:
            raise TypeError(f"each item of headers must be a key, or a tuple of a key and a value, not {shown(pair)}")
    return tuple(found)


def _members(given: Mapping[str, Any] | None) -> tuple[JsonEquals, ...]:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise TypeError(f"value_json must be a dict that maps paths to values, not {shown(given)}")
    for path, value in given.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise type(error)(f"value_json: the value {shown(value)} for {shown(path)} is not JSON: {error}") from None
    return tuple(JsonEquals(json_path(path), (value,)) for path, value in given.items())

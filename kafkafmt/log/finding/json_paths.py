"""Search for record values that are JSON and contain an expected value at a given path."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...support.text import shown
from ...types import Buffer, IntArray, LengthArray, byte_view
from .byte_pattern import BytePattern, find_spans

SCHEMA_ID_BYTES = 5
"""Size of a schema id before a value: a zero byte, and the id in 4 bytes. No JSON text begins with a zero byte."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = re.compile(r"[ !#-\[\]-~]+")
"""Matches a string that requires no escape sequences in JSON."""


@dataclass(frozen=True)
class JsonEquals:
    """Selects record values that contain JSON with one of the expected values at `path`."""

    path: tuple[str, ...]  # names of nested members, or indexes of items in arrays
    expected: tuple[Any, ...]  # any of them matches, as `json.loads` returns it

    def find(self, source: Buffer, positions: IntArray, lengths: LengthArray) -> IntArray:
        """Return the indexes of the record values that meet the condition. A value that is not JSON never meets it."""
        found = self._candidates(source, positions, lengths)
        view, starts, sizes = byte_view(source), positions[found].tolist(), lengths[found].tolist()
        matching = [self.matches(bytes(view[s : s + n])) for s, n in zip(starts, sizes, strict=True)]
        rows: IntArray = found[np.array(matching, bool)]
        return rows

    def matches(self, value: bytes) -> bool:
        try:
            node = _parse_value(value)
        except (ValueError, RecursionError):
            return False
        for name in self.path:
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isascii() and name.isdigit() and int(name) < len(node):
                node = node[int(name)]
            else:
                return False
        return any(equal(node, value) for value in self.expected)

    def _candidates(self, source: Buffer, positions: IntArray, lengths: LengthArray) -> IntArray:
        """Return the indexes of the record values that may meet the condition, without parsing any value as JSON."""
        # Any character can be escaped in JSON. Therefore, the result includes every value that contains a backslash.
        pattern = self._pattern
        if pattern is None:
            return np.flatnonzero(lengths >= 0)
        found = pattern.find(source, positions, lengths), find_spans(source, positions, lengths, b"\\")
        candidates: IntArray = np.union1d(*found)
        return candidates

    @cached_property
    def _pattern(self) -> BytePattern | None:
        """Pattern, if there is one, of all values that meet the condition, except values with backslashes."""
        name = self.path[-1]
        if not _PLAIN.fullmatch(name) or name.isdigit():  # the index of an array item is not in the JSON text
            return None
        values = b"|".join(_written(value) for value in self.expected)
        return BytePattern(re.escape(f'"{name}"').encode() + rb"[ \t\r\n]*:[ \t\r\n]*(?:" + values + b")")


def count_not_json(source: Buffer, positions: IntArray, lengths: LengthArray) -> int:
    """Return the number of record values, except null, that are not JSON."""
    # A value that begins with ``{"`` and ends with ``}`` counts as JSON: parsing would take most of a search's time.
    view = byte_view(source)
    data = np.frombuffer(view, np.uint8)
    unclear = lengths >= 0
    for prefix in (0, SCHEMA_ID_BYTES):
        long = np.flatnonzero(unclear & (lengths >= prefix + len('{""}')))
        starts, ends = positions[long], positions[long] + lengths[long]
        found = (
            (data[starts + prefix] == ord("{")) & (data[starts + prefix + 1] == ord('"')) & (data[ends - 1] == ord("}"))
        )
        if prefix:
            found &= data[starts] == 0
        unclear[long[found]] = False
    rest = np.flatnonzero(unclear)
    values = zip(positions[rest].tolist(), lengths[rest].tolist(), strict=True)
    return sum(not _is_json(bytes(view[start : start + size])) for start, size in values)


def _is_json(value: bytes) -> bool:
    try:
        _parse_value(value)
    except ValueError:
        return False
    except RecursionError:  # The value is nested deeply, but may be valid.
        return True
    return True


def _parse_value(value: bytes) -> Any:
    """Parse a record value as JSON, without the schema id that serializers of schema registries write before it."""
    return _parse((value[SCHEMA_ID_BYTES:] if value[:1] == b"\0" else value).decode())


def _written(value: Any) -> bytes:
    """Return a regular expression that matches the first bytes of `value` in a JSON text without escape sequences."""
    if value is None or isinstance(value, bool):
        return json.dumps(value).encode()
    if isinstance(value, str):
        return re.escape(f'"{value}"').encode("utf-8", "surrogatepass") if _PLAIN.fullmatch(value) else b'"'
    if isinstance(value, int):
        return rb"-?%d(?![0-9])|-?[0-9]+[.eE]" % value
    return rb"[-0-9]" if isinstance(value, float) else rb"[\[{]"


def json_path(text: str) -> tuple[str, ...]:
    """Split a path such as ``order.items.0.sku`` at its dots. ValueError: a name is empty."""
    # A backslash escapes a dot or backslash in a name.
    parts = [""]
    for token in re.findall(r"\\.|[^\\]|\\", text, re.DOTALL):
        if token == ".":
            parts.append("")
        else:
            parts[-1] += _ESCAPED.sub(r"\1", token)
    if not all(parts):
        raise ValueError(f"{shown(text)} is not a path such as customer.country or items.0.sku")
    return tuple(parts)


def values_of_text(text: str) -> tuple[Any, ...]:
    """Return a tuple that contains `text` and, if it is valid JSON, also the decoded JSON value."""
    try:
        return text, _parse(text)
    except (ValueError, RecursionError):
        return (text,)


def equal(a: Any, b: Any) -> bool:
    """Return whether two decoded JSON values are equal. 1 and true are not equal, although 1 == True in Python."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    if _is_array(a) and _is_array(b):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return bool(a == b)


def _is_array(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _reject(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _integer(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # Python limits the number of digits of an int
        return float(text)


def _parse(text: str) -> Any:
    """Parse a JSON text. If it is not valid JSON, raise ValueError or RecursionError."""
    try:
        return json.loads(text, parse_constant=_reject)
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError) or "digits" not in str(error):
            raise
    return json.loads(text, parse_constant=_reject, parse_int=_integer)

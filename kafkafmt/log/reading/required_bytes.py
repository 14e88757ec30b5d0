"""Find positions at which a regular expression can match. Search for bytes that every match must contain.

For example, every match of ``id-?[0-9]{12}x`` contains twelve digits and an ``x`` after them. This
is represented as a sequence of byte sets: each set contains the allowed values of one byte. NumPy
finds such a sequence in less than 1 ns per byte, and the module ``re`` needs up to 20 ns.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from ...types import ByteArray, IntArray

# An import statement would cause a type error, because the type stubs do not contain `re._parser`.
_parser: Any = importlib.import_module("re._parser")
_codes: Any = importlib.import_module("re._constants")

MOST_SETS = 64
"""Largest length of a sequence of byte sets. Longer sequences are truncated."""
RARE = 0.02
"""A sequence of byte sets is used only if it matches at most this estimated share of all positions."""
TEXT_BYTES = 64
"""Number of byte values that are frequent in text. It is used to estimate how often a set of byte values matches."""
LEAST_SHARE = 0.05
"""Lower limit for the estimated share of bytes that are in a set of byte values.

Even a single byte value, such as a space, can be frequent.
"""
BLOCK = 1 << 17
"""Number of bytes that are searched at once. It is small enough for all arrays to stay in the CPU cache."""

ByteSet = frozenset[int]
_ALL: ByteSet = frozenset(range(256))
_CATEGORIES = {
    f"CATEGORY_{name}": frozenset(b for b in range(256) if re.match(text, bytes([b])))
    for name, text in (
        ("DIGIT", rb"\d"),
        ("NOT_DIGIT", rb"\D"),
        ("SPACE", rb"\s"),
        ("NOT_SPACE", rb"\S"),
        ("WORD", rb"\w"),
        ("NOT_WORD", rb"\W"),
    )
}


def required_sets(pattern: re.Pattern[bytes]) -> tuple[ByteSet, ...]:
    """Find a byte pattern that occurs in every match of a regular expression, and is rare in typical data.

    A byte pattern is a tuple of sets. Each set contains the allowed values of one byte. If every
    byte pattern that occurs in all matches is frequent in typical data, return an empty tuple.
    """
    if pattern.flags & re.LOCALE:
        return ()
    try:
        items = _flat(_parser.parse(pattern.pattern, pattern.flags))
        sequences = _sequences(items, bool(pattern.flags & re.IGNORECASE))
    except RecursionError:
        return ()
    best = min((sequence[:MOST_SETS] for sequence in sequences), key=_frequency, default=[])
    return tuple(best) if _frequency(best) <= RARE else ()


def find_sequence(data: ByteArray, sets: tuple[ByteSet, ...]) -> IntArray:
    """Return the sorted positions at which a byte pattern matches. `sets` contains the allowed values of each byte."""
    runs = [(found, len(list(group))) for found, group in groupby(sets)]
    rarest = min(range(len(runs)), key=lambda i: _frequency([runs[i][0]] * runs[i][1]))
    before = sum(length for _, length in runs[:rarest])
    others = [(i, byte_set) for i, byte_set in enumerate(sets) if not before <= i < before + runs[rarest][1]]
    parts: list[IntArray] = []
    for start in range(0, len(data), BLOCK):
        block = data[start : start + BLOCK + len(sets) - 1]
        at = np.flatnonzero(_runs_of(_members(block, runs[rarest][0]), runs[rarest][1])) - before
        at = at[(at >= 0) & (at < BLOCK) & (at + len(sets) <= len(block))]
        for i, byte_set in others:
            at = at[_members(block[at + i], byte_set)]
        parts.append(at + start)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _frequency(sets: Iterable[ByteSet]) -> float:
    """Estimate the share of positions in typical data at which a byte pattern matches. It is 1 for an empty pattern."""
    return float(np.prod([min(1.0, max(LEAST_SHARE, len(found) / TEXT_BYTES)) for found in sets]))


def _members(data: ByteArray, byte_set: ByteSet) -> npt.NDArray[np.bool_]:
    """Return a mask of the bytes in `data` whose values are in `byte_set`."""
    found = np.zeros(len(data), np.bool_)
    ordered = sorted(byte_set)
    for _, group in groupby(enumerate(ordered), key=lambda item: item[1] - item[0]):
        values = [value for _, value in group]
        found |= (data - np.uint8(values[0])) <= np.uint8(values[-1] - values[0])
    return found


def _runs_of(members: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the positions at which `length` consecutive items of `members` are True."""
    known = 1
    while known < length:
        step = min(known, length - known)
        members = members[:-step] & members[step:]
        known += step
    return members


def _flat(items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the items of a parsed regular expression. Groups without flags are replaced by their content."""
    for code, value in items:
        if code is _codes.SUBPATTERN and not value[1] and not value[2]:
            yield from _flat(value[3])
        else:
            yield code, value


def _sequences(items: Iterable[tuple[Any, Any]], ignore_case: bool) -> list[list[ByteSet]]:
    """Return all byte patterns that occur in every match of a parsed regular expression.

    Each item of a byte pattern is the set of allowed values for one byte.
    """
    found: list[list[ByteSet]] = [[]]
    for code, value in items:
        least, most = 1, 1
        if code in (_codes.MAX_REPEAT, _codes.MIN_REPEAT, _codes.POSSESSIVE_REPEAT):
            least, most, body = value
            single = list(_flat(body))
            code, value = single[0] if len(single) == 1 else (None, None)
        byte_set = _set_of(code, value, ignore_case)
        if byte_set is None:
            found.append([])
            continue
        copies = [byte_set] * min(least, MOST_SETS)
        found[-1] += copies
        if most != len(copies):
            # After a variable number of repetitions, begin a new byte pattern with copies of the repeated item.
            found.append(list(copies))
    return found


def _set_of(code: Any, value: Any, ignore_case: bool) -> ByteSet | None:
    """Return a set with at least all byte values that an item of a regular expression can match.

    If the item can match an empty string, or more than one byte, return None.
    """
    if code is _codes.LITERAL:
        found: set[int] = {value}
    elif code is _codes.NOT_LITERAL:
        found = set(_ALL - {value})
    elif code is _codes.ANY:
        found = set(_ALL)
    elif code is _codes.IN:
        found = set()
        for part, argument in value:
            if part is _codes.LITERAL:
                found.add(argument)
            elif part is _codes.RANGE:
                found.update(range(argument[0], argument[1] + 1))
            elif part is _codes.CATEGORY:
                found |= _CATEGORIES[str(argument)]
        if value[0][0] is _codes.NEGATE:
            found = set(_ALL - found)
    else:
        return None
    if ignore_case:
        found = found | {b ^ 0x20 for b in found if bytes([b]).isalpha()}
    return frozenset(found)

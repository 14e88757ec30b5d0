"""Find where a regular expression without a literal can match, before the expression itself is searched.

Every match of ``id-?[0-9]{12}x`` contains twelve digits and an ``x`` after them. Such a sequence of
byte sets is required: bytes that do not contain the sequence cannot be a match. NumPy finds the
sequence in a whole buffer in less than 1 ns per byte, and the module ``re`` needs up to 20 ns.
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

# The module is imported by its name, because the type stubs do not contain `re._parser`.
_parser: Any = importlib.import_module("re._parser")
_codes: Any = importlib.import_module("re._constants")

MOST_SETS = 64
"""Largest number of byte sets in a sequence. Longer sequences are truncated."""
RARE = 0.02
"""A sequence is used if it is estimated to begin at no more than this share of all positions."""
TEXT_BYTES = 64
"""Number of byte values that are frequent in text. It is used to estimate how frequent a set is."""
LEAST_SHARE = 0.05
"""Lower limit for the estimated frequency of a set.

Even a set of a single byte value, such as a space, can be frequent.
"""
BLOCK = 1 << 17
"""Number of bytes that are searched at once, so that all arrays remain in the cache of the processor."""

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
    """Return byte sets that every match contains as consecutive bytes, or () if no rare sequence is known."""
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
    """Return the positions in `data` at which a sequence of byte sets begins, in ascending order."""
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
    """Return an estimate of the share of positions at which a sequence begins. It is 1 for an empty sequence."""
    return float(np.prod([min(1.0, max(LEAST_SHARE, len(found) / TEXT_BYTES)) for found in sets]))


def _members(data: ByteArray, byte_set: ByteSet) -> npt.NDArray[np.bool_]:
    """Return a mask of the bytes that are in a set. A set has few ranges of values, which NumPy compares quickly."""
    found = np.zeros(len(data), np.bool_)
    ordered = sorted(byte_set)
    for _, group in groupby(enumerate(ordered), key=lambda item: item[1] - item[0]):
        values = [value for _, value in group]
        found |= (data - np.uint8(values[0])) <= np.uint8(values[-1] - values[0])
    return found


def _runs_of(members: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the positions at which at least `length` consecutive items of `members` are True."""
    known = 1
    while known < length:
        step = min(known, length - known)
        members = members[:-step] & members[step:]
        known += step
    return members


def _flat(items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the items of a parsed expression. Each group without flags is replaced by its items."""
    for code, value in items:
        if code is _codes.SUBPATTERN and not value[1] and not value[2]:
            yield from _flat(value[3])
        else:
            yield code, value


def _sequences(items: Iterable[tuple[Any, Any]], ignore_case: bool) -> list[list[ByteSet]]:
    """Return the sequences of byte sets that every match contains. An item without a known byte set ends a sequence."""
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
            # The last repetitions directly precede the next items, so they also begin a new sequence.
            found.append(list(copies))
    return found


def _set_of(code: Any, value: Any, ignore_case: bool) -> ByteSet | None:
    """Return the bytes that an item can match, or a larger set. Return None if it does not match one byte."""
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

"""Search the keys or values of many records for matches of a regular expression.

All keys or values are in one buffer, and are given by their positions and lengths. Regular
expressions are encoded as UTF-8 and match bytes. Four fast paths avoid a separate search in each
key or value:

- A pattern without special characters is found by a fast search for its bytes.
- If every match must contain one of a few literals, a fast search for bytes first finds the keys or
  values that contain such a literal.
- If every match must contain a rare kind of text, such as twelve digits, only keys or values that
  contain such text are searched (required_bytes.py).
- If matches have a limited length and do not depend on the bytes around them, the whole buffer is
  searched at once. Then only keys or values in which a match starts are searched separately.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from ..._backend import core
from ...text import shown
from ...types import Buffer, IntArray, LengthArray, byte_view, distinct
from .required_bytes import find_sequence, required_sets

FEW = 8
"""If fewer than 1 in FEW values contain a required literal, each of these values is searched separately."""
MOST_LITERALS = 16
"""Maximum number of required literals that are searched first. With more literals, searching only
for the regular expression is faster.
"""
_QUANTIFIER = re.compile(r"[*+?]|\{(?=[\d,])\d*,?\d*\}")
_LIMITED = re.compile(r"\?|\{\d*,?\d{1,2}\}")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")
_KNOWN_FLAGS = re.DOTALL | re.IGNORECASE
_SPECIAL = set("\\.^$*+?{}[]|()")


@dataclass
class _Facts:
    """Properties of a regular expression that determine which fast path can be used.

    Attributes
    ----------
    literals : tuple of bytes
        Every match contains at least one of these byte strings. Empty if no such byte strings are
        known.
    exact : bool
        True if the expression matches the byte strings in `literals`, and no others.
    local : bool
        True if matches have a limited length, and do not depend on the bytes before and after them.
    """

    literals: tuple[bytes, ...] = ()
    exact: bool = False
    local: bool = False


class BytePattern:
    """A regular expression that is applied to the bytes of keys and values.

    Parameters
    ----------
    pattern : str, bytes or re.Pattern of bytes
        The regular expression, in the syntax of Python's module ``re``. A str is encoded as UTF-8.
        A character class, such as ``[a-z]``, must contain only ASCII characters.

    Raises
    ------
    ValueError
        The regular expression is invalid.
    TypeError
        `pattern` has another type.
    """

    def __init__(self, pattern: str | bytes | re.Pattern[bytes]) -> None:
        flags = 0
        if isinstance(pattern, re.Pattern):
            if not isinstance(pattern.pattern, bytes):
                raise TypeError(f"a compiled pattern must be a pattern of bytes, not {shown(pattern)}")
            self.pattern: re.Pattern[bytes] = pattern
            source, flags = pattern.pattern, pattern.flags
        elif isinstance(pattern, str | bytes):
            source = _encoded(pattern) if isinstance(pattern, str) else pattern
            self.pattern = _compiled(source, pattern)
        else:
            raise TypeError(f"a pattern must be str, bytes or a compiled pattern of bytes, not {shown(pattern)}")
        self._facts = _facts_of(source, flags)
        self._required = () if self._facts.exact else required_sets(self.pattern)
        self._matches_empty = self._facts.local and self.pattern.search(b"") is not None

    def __eq__(self, other: object) -> bool:
        return self.pattern == other.pattern if isinstance(other, BytePattern) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __repr__(self) -> str:
        return f"BytePattern({self.pattern.pattern!r})"

    def find(self, source: Buffer, positions: IntArray, lengths: LengthArray) -> IntArray:
        """Return the indexes of the keys or values that contain a match. Null never matches.

        Parameters
        ----------
        source : bytes-like
            Buffer that contains the keys or values.
        positions, lengths : int64 array, int32 array
            Position and length of each key or value in `source`. The length of null is -1.
        """
        facts, count = self._facts, len(lengths)
        if facts.literals:
            found = find_spans(source, positions, lengths, facts.literals[0])
            for literal in facts.literals[1:]:
                found = np.union1d(found, find_spans(source, positions, lengths, literal))
        else:
            found = np.flatnonzero(lengths >= 0)
        if facts.exact or self._matches_empty or not len(found):
            return found
        view, positions = byte_view(source), positions[found]
        ends = positions + lengths[found]
        ascending = not (ends[:-1] > positions[1:]).any()
        few = bool(facts.literals) and len(found) * FEW < count
        if self._required and ascending and not few:
            chosen = self._possible(view, positions, ends)
            found, positions, ends = found[chosen], positions[chosen], ends[chosen]
            few = len(found) * FEW < count
        if not len(found):
            return found
        if not facts.local or few or not ascending:
            return found[self._each(view, positions.tolist(), ends.tolist())]
        return found[self._together(view, positions.tolist(), ends.tolist())]

    def _possible(self, view: memoryview, starts: IntArray, ends: IntArray) -> IntArray:
        """Return the indexes of the byte ranges that can contain a match. `starts` and `ends` must be ascending."""
        first, last = int(starts[0]), int(ends[-1])
        at = find_sequence(np.frombuffer(view, np.uint8)[first:last], self._required) + first
        spans = np.searchsorted(starts, at, "right") - 1
        return distinct(spans[at + len(self._required) <= ends[spans]])

    def _each(self, view: memoryview, starts: list[int], ends: list[int]) -> IntArray:
        search = self.pattern.search
        return np.array([i for i, (s, e) in enumerate(zip(starts, ends, strict=True)) if search(view[s:e])], np.int64)

    def _together(self, view: memoryview, starts: list[int], ends: list[int]) -> IntArray:
        """Return the indexes of the byte ranges that contain a match. `starts` and `ends` must be ascending."""
        search, found, i, last = self.pattern.search, [], 0, ends[-1]
        while i < len(starts) and (match := search(view, starts[i], last)):
            # `search` has found the first match, so all byte ranges that end before this match contain no match.
            i = bisect_right(ends, match.start(), i)
            if i < len(starts) and match.start() >= starts[i]:
                if match.end() <= ends[i] or search(view, match.start(), ends[i]):
                    found.append(i)
                i += 1
        return np.array(found, np.int64)


def find_spans(
    source: Buffer, positions: IntArray, lengths: LengthArray, needle: bytes, whole: bool = False
) -> IntArray:
    """Search byte ranges of a buffer for the bytes `needle`, and return the indexes of the matching byte ranges.

    If `whole` is True, a byte range must be equal to `needle`. Otherwise, it must contain `needle`.
    """
    found: IntArray = np.empty(len(lengths), np.int64)
    return found[: core.find_spans(source, positions, lengths, len(lengths), needle, whole, found)]


def _compiled(source: bytes, given: str | bytes) -> re.Pattern[bytes]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ignore warnings about syntax that may change in later versions of Python
            return re.compile(source)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{shown(given)} is not a valid regular expression: {error}") from None


def _encoded(pattern: str) -> bytes:
    """Encode a pattern as UTF-8. If a quantifier follows a character of several bytes, put the bytes into a group."""
    parts, at = [], 0
    while at < len(pattern):
        found = _CLASS.match(pattern, at)
        if found and not found[0].isascii():
            raise ValueError(
                f"{shown(found[0])} contains a character that is not ASCII, but a character class matches single bytes; "
                "use alternatives, such as (?:ä|ö)"
            )
        token = found[0] if found else pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        at += len(token)
        if not token.isascii():
            token = token.removeprefix("\\")
            if pattern[at : at + 1] in ("*", "+", "?", "{"):
                token = f"(?:{token})"
        parts.append(token)
    return "".join(parts).encode("utf-8", "surrogateescape")  # command-line arguments can contain malformed UTF-8


def _facts_of(source: bytes, flags: int) -> _Facts:
    """Find out which fast paths can be used for a regular expression. With unusual syntax, none can be used."""
    text = source.decode("latin-1")
    if text.startswith("(?i)"):
        text, flags = text[4:], flags | re.IGNORECASE
    if flags & ~_KNOWN_FLAGS:
        return _Facts()
    literals: list[str] = []
    runs: list[str] = [""]
    exact, local, depth, at = True, True, 0, 0
    while at < len(text):
        char, size, literal = text[at], 1, False
        if char == "\\":
            escaped = text[at + 1 : at + 2]
            size, char = 2, escaped
            if not escaped.isalnum():
                literal = True
            elif escaped in "AZbBz":
                local = False
            elif escaped not in "dDsSwW":
                return _Facts()
        elif char == "[":
            found = _CLASS.match(text, at)
            if found is None:
                return _Facts()
            size = len(found[0])
        elif char == "(":
            found = _GROUP.match(text, at)
            if found is None:
                return _Facts()
            size, depth = len(found[0]), depth + 1
        elif char == ")":
            depth -= 1
        elif char == "|":
            if depth == 0:
                # A `|` outside of groups ends an alternative.
                literals.append(max(runs, key=len))
                runs, at = [""], at + 1
                continue
        elif char in "^$":
            local = False
        elif found := _QUANTIFIER.match(text, at):
            size = len(found[0])
            limited = _LIMITED.fullmatch(found[0]) is not None and (found[0] == "?" or text[at - 1] != ")")
            local = local and limited
            if found[0] != "+" and depth == 0 and runs[-1]:
                runs[-1] = runs[-1][:-1]
            if text[at + size : at + size + 1] == "+":  # a possessive quantifier, such as `a++`
                return _Facts()
        else:
            literal = char != "."
        if literal and depth == 0:
            runs[-1] += char
        else:
            runs.append("")
        exact = exact and literal
        at += size
    literals.append(max(runs, key=len))
    if flags & re.IGNORECASE or not (all(literals) or exact) or len(literals) > MOST_LITERALS:
        return _Facts(local=local)
    return _Facts(tuple(literal.encode("latin-1") for literal in literals), exact, local)

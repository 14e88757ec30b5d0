"""Search the keys or values of many records for matches of a regular expression.

All keys or values are in one buffer, and are given by their positions and lengths. Regular
expressions are encoded as UTF-8 and match bytes. Patterns and alternatives without special
characters are found by a fast search. If every match must contain one of a few literals, the fast
search first selects the keys or values that contain them.
"""

from __future__ import annotations

import re
import warnings

import numpy as np

from ..._backend import core
from ...support.text import shown
from ...types import Buffer, IntArray, LengthArray, byte_view, distinct

MOST_LITERALS = 16  # Maximum number of literals that are searched first. Each of them takes one search.
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_TOKEN = re.compile(rf"{_CLASS.pattern}|\\.|\{{[\d,]*\}}|.", re.DOTALL)
_SPECIAL = frozenset("\\.^$*+?{}[]|()")


class BytePattern:
    """A regular expression that is applied to the bytes of keys and values. A str is encoded as UTF-8."""

    # A character class, such as ``[a-z]``, must contain only ASCII characters. ValueError: the expression is invalid.
    # TypeError: `pattern` is no str, bytes or re.Pattern of bytes.

    def __init__(self, pattern: str | bytes | re.Pattern[bytes]) -> None:
        if isinstance(pattern, re.Pattern):
            if not isinstance(pattern.pattern, bytes):
                raise TypeError(f"a compiled pattern must be a pattern of bytes, not {shown(pattern)}")
            self.pattern: re.Pattern[bytes] = pattern
        elif isinstance(pattern, str | bytes):
            self.pattern = _compiled(_encoded(pattern) if isinstance(pattern, str) else pattern, pattern)
        else:
            raise TypeError(f"a pattern must be str, bytes or a compiled pattern of bytes, not {shown(pattern)}")
        self._literals = _literals_of(self.pattern)
        self._is_literal = b"|".join(self._literals) == self.pattern.pattern

    def __eq__(self, other: object) -> bool:
        return self.pattern == other.pattern if isinstance(other, BytePattern) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __repr__(self) -> str:
        return f"BytePattern({self.pattern.pattern!r})"

    def find(self, source: Buffer, positions: IntArray, lengths: LengthArray) -> IntArray:
        """Return the indexes of the keys or values that contain a match. Null (length -1) never matches."""
        if self._literals:
            each = [find_spans(source, positions, lengths, literal) for literal in self._literals]
            found = each[0] if len(each) == 1 else distinct(np.concatenate(each))
        else:
            found = np.flatnonzero(lengths >= 0)
        if self._is_literal:
            return found
        view, search, starts = byte_view(source), self.pattern.search, positions[found]
        spans = zip(starts.tolist(), (starts + lengths[found]).tolist(), strict=True)
        return found[np.fromiter((search(view[s:e]) is not None for s, e in spans), np.bool_, len(found))]


def find_spans(
    source: Buffer, positions: IntArray, lengths: LengthArray, needle: bytes, whole: bool = False
) -> IntArray:
    """Return the indexes of the byte ranges that contain `needle`, or if `whole`, are equal to it."""
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


def _literals_of(pattern: re.Pattern[bytes]) -> tuple[bytes, ...]:
    """Return literals of which every match contains at least one, or nothing if they are unknown."""
    text = pattern.pattern.decode("latin-1")
    if pattern.flags & ~re.DOTALL or "(?" in text.replace("(?:", "("):
        return ()  # inline flags and comments can change the meaning of all other text
    found, runs, depth = [], [""], 0
    for token in [*_TOKEN.findall(text), "|"]:
        if token in "()":
            depth += 1 if token == "(" else -1
        if depth:  # text in groups is not used
            runs.append("")
        elif token == "|":
            found.append(max(runs, key=len).encode("latin-1"))
            runs = [""]
        elif token[0] == "\\" and token[1] in "x0123456789":  # an escape of several characters
            return ()
        elif token not in _SPECIAL if len(token) == 1 else token[0] == "\\" and not token[1].isalnum():
            runs[-1] += token[-1]
        else:
            if token[0] in "*+?" or (len(token) > 1 and token[0] == "{"):
                runs[-1] = runs[-1][:-1]  # the quantifier applies to the last byte
            runs.append("")
    return tuple(found) if all(found) and len(found) <= MOST_LITERALS else ()

"""Decide which records to drop from a rewritten log, based on their keys and timestamps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import NO_TIMESTAMP
from ...types import RecordColumns, Spans, byte_view


@dataclass(frozen=True)
class RecordRules:
    """Rules that select the records to drop. A record is dropped if at least one rule matches it.

    Attributes
    ----------
    keys : frozenset of bytes
        Drop records with one of these keys.
    pattern : re.Pattern of str or None
        Drop records whose key contains a match. Bytes that are not UTF-8 match only `.` and negated
        sets.
    before : int or None
        Drop records with a timestamp before this time, in ms. Records without a timestamp are kept.
    """

    keys: frozenset[bytes] = frozenset()
    pattern: re.Pattern[str] | None = None
    before: int | None = None

    def __bool__(self) -> bool:
        return bool(self.keys) or self.pattern is not None or self.before is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that `dropped` reads."""
        return ("key", "timestamp")

    def dropped(self, source: Any, columns: RecordColumns) -> np.ndarray:
        """Return a mask of the records that a rule matches.

        `source` is the buffer that contains the keys, at the positions in `columns`.
        """
        n = columns.rows
        drop = np.zeros(n, bool)
        if self.before is not None:
            assert columns.timestamp is not None
            times = columns.timestamp[:n]
            drop |= (times < self.before) & (times != NO_TIMESTAMP)
        if not self.keys and self.pattern is None:
            return drop
        assert columns.key_position is not None
        assert columns.key_length is not None
        keys = Spans(source, columns.key_position[:n], columns.key_length[:n])
        view = byte_view(source)
        rows = self._candidates(keys)
        starts, ends = keys.positions[rows], keys.positions[rows] + keys.lengths[rows]
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        drop[rows] |= np.fromiter((self._matches(bytes(view[a:b])) for a, b in spans), bool, len(rows))
        return drop

    def _matches(self, key: bytes) -> bool:
        if key in self.keys:
            return True
        return self.pattern is not None and self.pattern.search(key.decode(errors="surrogateescape")) is not None

    def _candidates(self, keys: Spans) -> np.ndarray:
        """Return the rows whose keys must be compared with the rules.

        If there is a pattern, all rows with a key are returned. Otherwise, the rows whose key has
        the same hash as one of `keys` are returned.
        """
        present = keys.lengths >= 0
        if self.pattern is not None:
            return np.flatnonzero(present)
        hashes = np.empty(len(keys.lengths), np.int32)
        core.murmur2_spans(*keys, len(hashes), hashes)
        return np.flatnonzero(present & np.isin(hashes, self._hashes))

    @property
    def _hashes(self) -> np.ndarray:
        return np.array([core.murmur2(key) for key in self.keys], np.int32)


def record_rules(
    drop_keys: str | bytes | Iterable[str | bytes] | None,
    drop_key_regex: str | re.Pattern[str] | None,
    before: int | None,
) -> RecordRules:
    """Convert arguments of `rewrite` to rules. Raise TypeError or ValueError if an argument is invalid."""
    given = [drop_keys] if isinstance(drop_keys, str | bytes) else list(drop_keys or ())
    for key in given:
        if not isinstance(key, str | bytes):
            raise TypeError(f"drop_keys must contain str or bytes, not {key!r}")
    try:
        pattern = None if drop_key_regex is None else re.compile(drop_key_regex)
    except re.error as error:
        raise ValueError(f"drop_key_regex is {drop_key_regex!r}, which is not a regular expression: {error}") from None
    keys = frozenset(key.encode() if isinstance(key, str) else key for key in given)
    return RecordRules(keys, pattern, before)

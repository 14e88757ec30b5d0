"""Decide which records to drop from a rewritten log, based on their keys and timestamps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import NO_TIMESTAMP
from ...support.text import shown
from ...types import IntArray, RecordColumns, Spans, byte_view
from ..finding import BytePattern


@dataclass(frozen=True)
class RecordRules:
    """Rules that select the records to drop. A record is dropped if at least one rule matches it."""

    keys: frozenset[bytes] = frozenset()
    pattern: BytePattern | None = None
    before: int | None = None  # ms; records without a timestamp are kept

    def __bool__(self) -> bool:
        return bool(self.keys) or self.pattern is not None or self.before is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that must be decoded for `dropped()`."""
        return ("key", "timestamp")

    def dropped(self, source: Any, columns: RecordColumns) -> np.ndarray:
        """Return a mask of the records to remove. `source` contains the keys, at the positions in `columns`."""
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
        if self.pattern is not None:
            drop[self.pattern.find(*keys)] = True
        if self.keys:
            drop[self._with_key(keys)] = True
        return drop

    def _with_key(self, keys: Spans) -> IntArray:
        """Return the indexes of the keys that are equal to one of the keys to drop."""
        hashes = np.empty(len(keys.lengths), np.int32)
        core.murmur2_spans(*keys, len(hashes), hashes)
        rows = np.flatnonzero((keys.lengths >= 0) & np.isin(hashes, self._hashes))
        view = byte_view(keys.buffer)
        starts = keys.positions[rows].tolist()
        ends = (keys.positions[rows] + keys.lengths[rows]).tolist()
        equal = (bytes(view[a:b]) in self.keys for a, b in zip(starts, ends, strict=True))
        found: IntArray = rows[np.fromiter(equal, bool, len(rows))]
        return found

    @property
    def _hashes(self) -> np.ndarray:
        return np.array([core.murmur2(key) for key in self.keys], np.int32)


def record_rules(
    drop_keys: str | bytes | Iterable[str | bytes] | None,
    drop_key_regex: str | bytes | re.Pattern[bytes] | None,
    before: int | None,
) -> RecordRules:
    """Convert arguments of `rewrite` to rules. Raise TypeError or ValueError if an argument is invalid."""
    given = [drop_keys] if isinstance(drop_keys, str | bytes) else list(drop_keys or ())
    for key in given:
        if not isinstance(key, str | bytes):
            raise TypeError(f"drop_keys must contain str or bytes, not {shown(key)}")
    try:
        pattern = None if drop_key_regex is None else BytePattern(drop_key_regex)
    except (TypeError, ValueError) as error:
        raise type(error)(f"drop_key_regex: {error}") from None
    keys = frozenset(key.encode() if isinstance(key, str) else key for key in given)
    return RecordRules(keys, pattern, before)

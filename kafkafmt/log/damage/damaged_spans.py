"""Store the damaged byte ranges of a segment in arrays, and compute which offsets may be missing because of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import MAX_OFFSET
from ...types import IntArray
from ..findings import Damage, Joined, Rows, field_setters, objects_of
from .parts import OFFSET_PROBLEM, PROBLEM_CODES, UNKNOWN_COUNT, BadColumns, Parts, RunColumns

_DAMAGE_SETTERS = field_setters(Damage)


@dataclass
class DamageColumns:
    """Damaged byte ranges of a segment, with one array for each property."""

    position: IntArray
    length: IntArray
    first: IntArray  # offset that may be missing; 0 if not known
    last: IntArray  # offset that may be missing; MAX_OFFSET if not known
    known: npt.NDArray[np.bool_]  # whether both offsets are known
    records: IntArray  # data records, or -1
    whole: npt.NDArray[np.bool_]  # exactly one batch; False if not known
    # valid batches that can have overwritten others: copies, and those whose number of offsets is not the missing one
    misplaced: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, damaged: Sequence[Damage]) -> DamageColumns:
        """Convert a sequence of `Damage` objects to arrays. Those of a `DamagedSpans`, alone, are not copied."""
        if isinstance(damaged, DamagedSpans):
            return damaged.columns
        if isinstance(damaged, Joined) and len(damaged.parts) == 1:
            return cls.of(damaged.parts[0])
        if isinstance(damaged, Joined) and damaged.parts:
            if damaged.columns is None:
                parts = map(_FIELDS, map(cls.of, damaged.parts))
                damaged.columns = cls(*map(np.concatenate, zip(*parts, strict=True)))
            columns: DamageColumns = damaged.columns
            return columns
        return cls(
            np.array([d.position for d in damaged], np.int64),
            np.array([d.length for d in damaged], np.int64),
            np.array([d.first_offset or 0 for d in damaged], np.int64),
            np.array([MAX_OFFSET if d.last_offset is None else d.last_offset for d in damaged], np.int64),
            np.array([d.first_offset is not None and d.last_offset is not None for d in damaged], bool),
            np.array([UNKNOWN_COUNT if d.records is None else d.records for d in damaged], np.int64),
            np.zeros(len(damaged), bool),
            np.array([d.code == PROBLEM_CODES[OFFSET_PROBLEM] for d in damaged], bool),
        )

    @property
    def end(self) -> IntArray:
        return self.position + self.length

    @property
    def empty(self) -> npt.NDArray[np.bool_]:
        """Mask that is True for each damaged byte range without missing offsets."""
        empty: npt.NDArray[np.bool_] = self.known & (self.last < self.first)
        return empty

    def at(self, rows: slice | IntArray) -> DamageColumns:
        return DamageColumns(*(column[rows] for column in _FIELDS(self)))


# `vars` would create a dict for each object.
_FIELDS = attrgetter(*(field.name for field in fields(DamageColumns)))

_NONE = np.empty(0, np.int64)
_NO_FLAGS = np.empty(0, np.bool_)
NO_DAMAGE = DamageColumns(_NONE, _NONE, _NONE, _NONE, _NO_FLAGS, _NONE, _NO_FLAGS, _NO_FLAGS)


class DamagedSpans(Rows[Damage]):
    """Damage of one segment, as a sequence of `Damage` objects. Each object is created when it is accessed."""

    # The first offset of each object is always known. If the last offset is not known, it is None.

    def __init__(self, file: str, columns: DamageColumns, bads: BadColumns, start: int = 0) -> None:
        self.file = file
        self.columns = columns
        self._bads = bads
        self._start = start
        """Index in `_bads` at which the damage of this sequence begins. `_bads` contains the error messages."""

    def __len__(self) -> int:
        return len(self.columns.position)

    def _build(self, start: int, stop: int) -> list[Damage]:
        if stop - start == 1:
            # For a single object, direct creation takes half the time of `objects_of`.
            return [self._at(start)]
        c, a, b = self.columns.at(slice(start, stop)), self._start + start, self._start + stop
        last: list[int | None] = c.last.tolist()
        for i in np.flatnonzero(~c.known).tolist():
            last[i] = None
        codes, messages, records = self._bads.codes(a, b), self._bads.messages(a, b), self._bads.counts(a, b)
        places = ([self.file] * len(last), c.position.tolist(), c.length.tolist(), c.first.tolist(), last)
        return objects_of(Damage, _DAMAGE_SETTERS, *places, codes, messages, records)

    def _at(self, i: int) -> Damage:
        c, bads, row = self.columns, self._bads, self._start + i
        last, records = int(c.last[i]) if c.known[i] else None, int(c.records[i])
        return Damage(
            self.file,
            int(c.position[i]),
            int(c.length[i]),
            int(c.first[i]),
            last,
            bads.code(row),
            bads.message(row),
            None if records == UNKNOWN_COUNT else records,
        )

    def _sliced(self, start: int, stop: int) -> DamagedSpans:
        return DamagedSpans(self.file, self.columns.at(slice(start, stop)), self._bads, self._start + start)

    def bads(self) -> BadColumns:
        return self._bads.at(np.arange(self._start, self._start + len(self)))

    def at(self, rows: IntArray) -> DamagedSpans:
        """Return the items with the indexes `rows`, in this order, without creating the items."""
        return DamagedSpans(self.file, self.columns.at(rows), self._bads.at(rows + self._start))

    def within(self, start: int, end: int) -> DamagedSpans:
        """Return only the damaged byte ranges whose possibly missing offsets overlap [start, end)."""
        first, last = self.columns.first, self.columns.last
        overlaps = np.maximum(first, last) >= start
        if end <= MAX_OFFSET:
            overlaps &= first < end
        return self if overlaps.all() else self.at(np.flatnonzero(overlaps))


NOT_DAMAGED = DamagedSpans("", NO_DAMAGE, BadColumns())  # the damage of each segment without damage


def by_position(parts: Iterable[Sequence[Damage]]) -> Sequence[Damage]:
    """Join sequences of damage of one segment, and sort the result by position."""
    joined = Joined(parts)
    if len(joined) < 2:
        return joined.parts[0] if joined.parts else joined
    columns = DamageColumns.of(joined)
    if len(joined.parts) == 1 and bool((columns.position[1:] >= columns.position[:-1]).all()):
        return joined.parts[0]
    spans = [part for part in joined.parts if isinstance(part, DamagedSpans)]
    if len(spans) < len(joined.parts):
        return sorted(joined, key=attrgetter("position"))
    order, bads = np.argsort(columns.position, kind="stable"), BadColumns()
    for part in spans:
        bads.extend(part.bads())
    return DamagedSpans(spans[0].file, columns.at(order), bads.at(order))


def damaged_spans(
    file: str, parts: Parts, n: int, bounds: OffsetBounds, delivered: RunColumns | None = None
) -> DamagedSpans:
    """Return the first `n` damaged byte ranges of a segment, with the offsets that may be missing because of them."""
    # `delivered` is needed if valid batches contradict each other: the offsets of those not read may be missing.
    bads = parts.bads
    if not n:
        return NOT_DAMAGED
    first, last, known = bounds.of(parts.bad_at[:n])
    length, flags = np.empty(n, np.int64), np.empty((2, n), np.bool_)
    whole, misplaced = flags
    core.describe_damage(bads.rows, n, first, last, length, whole, misplaced)
    columns = DamageColumns(bads.position[:n], length, first, last, known, bads.records[:n], whole, misplaced)
    if delivered is None or not len(delivered):
        return DamagedSpans(file, columns, bads)
    rows = np.flatnonzero(bads.magic[:n] == OFFSET_PROBLEM)
    low, high = _missing(bads.crc[rows], bads.stored[rows], delivered, bounds.lower)
    rows, low, high = rows[low <= high], low[low <= high], high[low <= high]
    empty = columns.empty[rows]
    first[rows] = np.where(empty, low, np.minimum(first[rows], low))
    last[rows] = np.where(empty, high, np.maximum(last[rows], high))
    misplaced[rows] = True
    return DamagedSpans(file, columns, bads)


def _missing(first: IntArray, last: IntArray, delivered: RunColumns, lower: int) -> tuple[IntArray, IntArray]:
    """Return the first and last offset of each misplaced batch that no other batch has, or a first above the last."""
    before = np.searchsorted(delivered.first, first, "right")
    after = np.searchsorted(delivered.last, last)
    low = np.maximum(first, np.append(lower, delivered.last + 1)[before])
    high = np.minimum(last, delivered.first[np.minimum(after, len(delivered) - 1)] - 1)
    return low, np.where(after < len(delivered), high, low - 1)


class OffsetBounds:
    """Computes the offsets between the valid batches before and after damage, which may be missing."""

    def __init__(
        self,
        parts: Parts,
        chosen: IntArray | None,
        lower: int,
        next_base: int | None,
    ) -> None:
        self._at, self._first, self._last = parts.run_at, parts.runs.first, parts.runs.last
        if chosen is not None:
            self._at, self._first, self._last = self._at[chosen], self._first[chosen], self._last[chosen]
        self.lower: int = lower
        self._upper = None if next_base is None else next_base - 1

    def of(self, at: IntArray) -> tuple[IntArray, IntArray, npt.NDArray[np.bool_]]:
        """Return the first and last offsets that may be missing at the ranges `at`, and whether the last is known."""
        found = np.empty((3, len(at)), np.int64)
        core.offsets_around(self._at, self._first, self._last, self.lower, self._upper, at, found)
        return found[0], found[1], found[2] != 0

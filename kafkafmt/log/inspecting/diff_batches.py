"""Compare the batches of two copies of a partition, and the records of batches that differ.

Both copies are read in offset order. The CRC of every batch is checked. Batches with the same
offsets, size and CRC are equal, and are not decompressed. If batches differ, their records are
compared, because the same records can be in different batches, for example after compaction.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import chain, islice, pairwise
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import MAGIC_V2, MIN_OFFSET
from ...records import RecordReader
from ...records.batch_errors import BatchErrors
from ...types import BatchTable, Buffer, IntArray, last_offset, last_offsets
from ..findings import Damage
from ..reading import BatchDamage, Part, PartitionLog
from .diff_report import BYTES, DAMAGED, LEADER_EPOCH, MISSING, RECORDS, Span

MOST_SPANS = 10_000
"""Largest number of differences of one kind in one copy. Further differences are merged into the last one."""
MOST_UNITS = 1 << 16  # largest number of offset ranges whose records are compared in one pass
BYTES_BETWEEN = 1 << 19  # largest size of the batches between two such ranges, which are read, but not compared
SMALLEST_WINDOW = 64
"""Number of batches of each copy that are first compared at once. While they are equal, the number is doubled."""
COMPARED = np.dtype([("crc", "u4"), ("size", "i4"), ("magic", "i1")])


class Spans:
    """Collects differences, and joins adjacent differences of the same kind."""

    # `limited`: there were more than `MOST_SPANS` differences of a kind.

    def __init__(self) -> None:
        self._spans: dict[tuple[str, int], list[Span]] = {}
        self.limited: bool = False

    def add(self, kind: str, first: int, last: int, side: int = -1) -> None:
        """Add a difference. Differences of the same kind must be added in offset order."""
        spans = self._spans.setdefault((kind, side), [])
        previous = spans[-1].last if spans else None
        full = len(spans) >= MOST_SPANS
        if previous is not None and (first <= previous + 1 or full):
            self.limited |= first > previous + 1
            spans[-1] = spans[-1]._replace(last=max(previous, last))
        else:
            spans.append(Span(kind, first, last, side))

    def damage_of(self, side: int) -> Callable[[Damage], None]:
        """Return a function that adds damage of a copy. `side` is the number of the copy: 0 or 1."""
        spans = self._spans.setdefault((DAMAGED, side), [])

        def add(damage: Damage) -> None:
            if len(spans) < MOST_SPANS:
                spans.append(Span(DAMAGED, damage.first_offset, damage.last_offset, side))
            else:
                self.limited = True
                spans[-1] = spans[-1]._replace(last=damage.last_offset)

        return add

    def result(self) -> list[Span]:
        """Return all differences. Offsets that are damaged in a copy are not reported as missing from that copy."""
        found: list[Span] = []
        for (kind, side), spans in self._spans.items():
            if kind != MISSING:
                found += spans
                continue
            damaged = _combined(self._spans.get((DAMAGED, 1 - side), []))
            found += chain.from_iterable(_without(span, *damaged) for span in spans)
        return found


def _combined(damaged: list[Span]) -> tuple[list[int], list[float]]:
    """Combine damage with adjacent or overlapping offsets. Return the first and last offsets, in ascending order."""
    firsts: list[int] = []
    lasts: list[float] = []
    for first, last in sorted((d.first or 0, inf if d.last is None else d.last) for d in damaged):
        if lasts and first <= lasts[-1] + 1:
            lasts[-1] = max(lasts[-1], last)
        else:
            firsts.append(first)
            lasts.append(last)
    return firsts, lasts


def _without(span: Span, firsts: list[int], lasts: list[float]) -> Iterator[Span]:
    """Yield the parts of the offset range `span` that do not overlap damage, which `firsts` and `lasts` contain."""
    assert span.first is not None
    assert span.last is not None
    first: float = span.first
    for i in range(bisect_left(lasts, first), bisect_right(firsts, span.last)):
        if firsts[i] > first:
            yield span._replace(first=int(first), last=firsts[i] - 1)
        first = max(first, lasts[i] + 1)
    if first <= span.last:
        yield span._replace(first=int(first))


class _Batches:
    """The batches of one copy from offset `low` to `high` (exclusive), read on demand into arrays."""

    # The arrays contain the batches that were read but not yet processed. `same` contains CRC, size and magic.

    def __init__(self, log: PartitionLog, low: int, high: int, on_damage: Any) -> None:
        self._parts = log.parts(low, high, on_damage)
        self._low, self._high = low, high
        self._before = low - 1
        self.first: IntArray = np.empty(0, np.int64)
        self.last: IntArray = np.empty(0, np.int64)
        self.epoch: IntArray = np.empty(0, np.int64)
        self.same = np.empty(0, COMPARED)

    def fill(self) -> bool:
        """Read more batches of the copy if none are in memory. Return False if the copy has no more batches."""
        while not len(self.first):
            part = next(self._parts, None)
            if part is None:
                return False
            self._take(part.table)
        return True

    def _take(self, table: BatchTable) -> None:
        first, last = _offset_ranges(table, self._before)
        wanted = (last >= self._low) & (first < self._high)
        self.first, self.last = np.maximum(first, self._low)[wanted], last[wanted]
        self.epoch = table["leader_epoch"].astype(np.int64)[wanted]
        self.same = np.empty(len(self.first), COMPARED)
        for name in COMPARED.names or ():
            self.same[name] = table[name][wanted]
        if len(last):
            self._before = int(last[-1])

    def skip(self, n: int) -> None:
        """Remove the first `n` batches from the arrays."""
        self.first, self.last, self.epoch, self.same = self.first[n:], self.last[n:], self.epoch[n:], self.same[n:]

    def take_one(self) -> int:
        """Remove the first batch from the arrays, and return its last offset."""
        last = int(self.last[0])
        self.skip(1)
        return last


class _Comparison:
    """Collects the offset ranges from `low` to `high` in which two copies contain different batches."""

    # Each range starts and ends at a batch boundary of both copies. The records of adjacent ranges are compared in one
    # pass, because each pass has a fixed cost.

    def __init__(self, logs: tuple[PartitionLog, PartitionLog], spans: Spans) -> None:
        self._logs = logs
        self._spans = spans
        self._firsts: list[int] = []
        self._lasts: list[int] = []  # Collected offset ranges. The records in these ranges have not been compared yet.
        self._missing: list[tuple[int, int, int]] = []
        """Offset ranges that only one copy contains, after the first collected range: first offset, last offset, copy."""
        self._between = 0  # total size of the batches after the last of these ranges
        self._window = SMALLEST_WINDOW

    def compare(self, low: int, high: int) -> None:
        """Compare the batches of both copies from the offset `low` to `high` (exclusive)."""
        sides = [_Batches(log, low, high, self._spans.damage_of(side)) for side, log in enumerate(self._logs)]
        a, b = sides
        while True:
            more = [side.fill() for side in sides]
            if not all(more):
                break
            if self._skip_equal(a, b):
                continue
            n = min(len(a.first), len(b.first))
            aligned = (a.first[:n] == b.first[:n]) & (a.last[:n] == b.last[:n])
            k = n if aligned.all() else int(np.argmin(aligned))
            if k:
                self._compare_aligned(a, b, k)
            elif a.last[0] < b.first[0] or b.last[0] < a.first[0]:
                self._only_in_one(sides)
            else:
                self._compare_unaligned(a, b)
        self._flush()
        for side, has_more in enumerate(more):
            if has_more:
                end = min(high, max(self._logs[side].next_offset, int(sides[side].last[-1]) + 1))
                self._spans.add(MISSING, int(sides[side].first[0]), end - 1, side)

    def _skip_equal(self, a: _Batches, b: _Batches) -> bool:
        """Skip equal batches, and batches that only one copy contains. Return whether any were skipped."""
        # If damage separates each valid batch from the next one, this takes a twentieth of the time of the other
        # methods, which handle one range of batches after the other.
        counts = _equal_batches(a, b, self._window)
        if counts == (0, 0):
            self._window = SMALLEST_WINDOW
            return False
        firsts = [side.first[:n] for side, n in zip((a, b), counts, strict=True)]
        for side, batches in enumerate((a, b)):
            first, others = firsts[side], firsts[1 - side]
            at = np.searchsorted(others, first)
            alone = np.flatnonzero(~_contained(others, first, at))
            # Missing batches form one range if the other copy has no batch between them.
            starts = np.flatnonzero(np.diff(at[alone], prepend=-1))
            ends = np.append(starts[1:], len(alone))[: len(starts)] - 1
            for low, high in zip(first[alone[starts]].tolist(), batches.last[alone[ends]].tolist(), strict=True):
                self._add_missing(low, high, side)
        self._pass(a, counts[0])
        self._pass(b, counts[1])
        self._window *= 2
        return True

    def _compare_aligned(self, a: _Batches, b: _Batches, n: int) -> None:
        """Compare the first `n` batches of `a` and `b` in pairs. Both batches of a pair have the same offset range."""
        other_epoch = a.epoch[:n] != b.epoch[:n]
        other = a.same[:n] != b.same[:n]
        for first, last in _runs(other_epoch, a.first, a.last):
            self._spans.add(LEADER_EPOCH, first, last)
        for i in np.flatnonzero(other).tolist():
            self._unit(int(a.first[i]), int(a.last[i]))
        for side in (a, b):
            if other[-1]:
                side.skip(n)
            else:
                self._pass(side, n)

    def _compare_unaligned(self, a: _Batches, b: _Batches) -> None:
        """Queue the next offset range in which the two copies have different batch boundaries for comparison."""
        # The range ends at a gap, or at the first offset at which a batch ends in both copies.
        first = int(min(a.first[0], b.first[0]))
        ends = [a.take_one(), b.take_one()]
        while ends[0] != ends[1]:
            behind = 0 if ends[0] < ends[1] else 1
            side = (a, b)[behind]
            if not side.fill() or side.first[0] > ends[1 - behind]:
                break
            ends[behind] = side.take_one()
        self._unit(first, max(ends))

    def _only_in_one(self, sides: list[_Batches]) -> None:
        """Report the batches of one copy that end before the next batch of the other as missing, and skip them."""
        one = 0 if sides[0].last[0] < sides[1].first[0] else 1
        batches = sides[one]
        n = int(np.searchsorted(batches.last, sides[1 - one].first[0]))
        self._add_missing(int(batches.first[0]), int(batches.last[n - 1]), one)
        self._pass(batches, n)

    def _add_missing(self, first: int, last: int, side: int) -> None:
        if self._firsts:
            self._missing.append((first, last, side))
        else:
            self._spans.add(MISSING, first, last, side)

    def _pass(self, batches: _Batches, n: int) -> None:
        """Skip the first `n` batches of a copy, whose records need not be compared."""
        if self._firsts:
            self._between += int(batches.same["size"][:n].sum())
        batches.skip(n)
        if self._between > BYTES_BETWEEN:
            self._flush()

    def _unit(self, first: int, last: int) -> None:
        if len(self._firsts) >= MOST_UNITS:
            self._flush()
        self._firsts.append(first)
        self._lasts.append(last)
        self._between = 0

    def _flush(self) -> None:
        """Compare the records of all offset ranges that were collected for comparison."""
        if not self._firsts:
            return
        starts, ends, missing = self._firsts, self._lasts, self._missing
        self._firsts, self._lasts, self._missing, self._between = [], [], [], 0
        unequal = np.zeros(len(starts), bool)
        for kind, offset, side in self._record_differences(starts, ends):
            if kind == MISSING:
                missing.append((offset, offset, side))
            else:
                self._spans.add(kind, offset, offset, side)
            unequal[bisect_right(starts, offset) - 1] = True
        for first, last, side in sorted(missing):
            self._spans.add(MISSING, first, last, side)
        firsts, lasts = np.array(starts, np.int64), np.array(ends, np.int64)
        borders = np.flatnonzero(firsts[1:] != lasts[:-1] + 1) + 1
        for i, j in pairwise([0, *borders.tolist(), len(starts)]):
            for first, last in _runs(~unequal[i:j], firsts[i:j], lasts[i:j]):
                self._spans.add(BYTES, first, last)

    def _record_differences(self, firsts: list[int], lasts: list[int]) -> Iterator[tuple[str, int, int]]:
        """Yield kind, offset and side of each difference between the records in some offset ranges, in offset order."""
        damage = [BatchDamage(), BatchDamage()]
        sides = [_records_in(log, firsts, lasts, found) for log, found in zip(self._logs, damage, strict=True)]
        a, b = (next(side, None) for side in sides)
        while a is not None or b is not None:
            if b is None or (a is not None and a[0] < b[0]):
                assert a is not None
                yield MISSING, a[0], 0
                a = next(sides[0], None)
            elif a is None or b[0] < a[0]:
                yield MISSING, b[0], 1
                b = next(sides[1], None)
            else:
                if a != b:
                    yield RECORDS, a[0], -1
                a, b = (next(side, None) for side in sides)
        for side, collected in enumerate(damage):
            add = self._spans.damage_of(side)
            for each in collected.found:
                add(each)


def _records_in(
    log: PartitionLog, firsts: list[int], lasts: list[int], damage: BatchDamage
) -> Iterator[tuple[int, core.Record[Any]]]:
    """Yield the records in some offset ranges, with increasing offsets, decoding only the batches that overlap."""
    # If an odd batch has other record offsets, the nearest offset of the batch is yielded.
    low, high, i = firsts[0], lasts[-1] + 1, 0
    starts, ends = np.array(firsts, np.int64), np.array(lasts, np.int64)
    reader = RecordReader(capacity=1024, first_offset=low, end_offset=high, max_batch_bytes=log.max_batch_bytes)
    for part in log.parts(low, high, damage):
        table = part.table
        first, last = _offset_ranges(table, low - 1)
        at = np.minimum(np.searchsorted(ends, first), len(ends) - 1)
        chosen = (ends[at] >= first) & (starts[at] <= last)
        for offset, record in _in_order(reader, part, table.compress(chosen), damage):
            while lasts[i] < offset:
                i += 1
            if firsts[i] <= offset:
                yield offset, record


def _in_order(
    reader: RecordReader, part: Part, table: BatchTable, damage: BatchDamage
) -> Iterator[tuple[int, core.Record[Any]]]:
    """Yield the records of batches, each with the offset at which it is compared."""
    done, errors = 0, BatchErrors()
    reader.columns.take_unusual()
    for source, columns in reader.read(part.buffer, table, errors):
        if columns.odd_offsets:
            break
        done += columns.rows
        yield from ((record.offset, record) for record in core.make_records(source, columns))
    if reader.columns.odd_offsets:  # read the batches again one by one, because the headers limit the offsets
        errors = BatchErrors()
        yield from islice(_within_headers(reader, part.buffer, table, errors), done, None)
    if errors:
        damage.add(part.damage_of(errors))


def _within_headers(
    reader: RecordReader, buffer: Buffer, table: BatchTable, errors: BatchErrors
) -> Iterator[tuple[int, core.Record[Any]]]:
    for i in range(len(table)):
        reached = int(table["base_offset"][i]) if table["count"][i] >= 0 else MIN_OFFSET
        for source, columns in reader.read(buffer, table[i : i + 1], errors):
            for record in core.make_records(source, columns):
                reached = max(reached, min(record.offset, last_offset(table[i])))
                yield reached, record


def _offset_ranges(table: BatchTable, before: int) -> tuple[IntArray, IntArray]:
    """Return the lowest possible and the last offset of each batch, after batches that end at `before`."""
    # A wrapper message's header does not contain its first offset.
    last = last_offsets(table)
    first = table["base_offset"].copy()
    wrappers = (table["magic"] < MAGIC_V2) & (table["count"] < 0)
    if wrappers.any():
        first[wrappers] = np.concatenate(([before], last[:-1]))[wrappers] + 1
    return first, last


def _equal_batches(a: _Batches, b: _Batches, most: int) -> tuple[int, int]:
    """Return the number of batches at the start of each copy that need not be compared record by record."""
    # Such a batch is equal to a batch of the other copy, or overlaps none. The last range of batches that only one copy
    # contains is not counted, because more batches of this range may follow.
    first, last = (a.first[:most], b.first[:most]), (a.last[:most], b.last[:most])
    if any((low > high).any() or (low[1:] <= high[:-1]).any() for low, high in zip(first, last, strict=True)):
        return 0, 0
    at = np.searchsorted(first[1], first[0])
    pairs = _contained(first[1], first[0], at)
    i, j = np.flatnonzero(pairs), at[pairs]
    different = (last[0][i] != last[1][j]) | (a.epoch[i] != b.epoch[j]) | (a.same[i] != b.same[j])
    alone = np.flatnonzero(~pairs)
    before, after = alone[at[alone] > 0], alone[at[alone] < len(first[1])]
    overlapped = at[before[last[1][at[before] - 1] >= first[0][before]]] - 1
    overlapping = after[first[1][at[after]] <= last[0][after]]
    ends = [first[0][i[different]], first[1][overlapped], first[0][overlapping]]
    end = min([last[0][-1] + 1, last[1][-1] + 1, *(found[0] for found in ends if len(found))])
    n, m = (int(np.searchsorted(low, end)) for low in first)
    lows = first[0][n - 1] if n else -1, first[1][m - 1] if m else -1
    if lows[0] > lows[1]:
        n = int(np.searchsorted(first[0], lows[1], "right"))
    elif lows[1] > lows[0]:
        m = int(np.searchsorted(first[1], lows[0], "right"))
    return n, m


def _contained(values: IntArray, wanted: IntArray, at: IntArray) -> npt.NDArray[np.bool_]:
    """Return a mask of the numbers in `wanted` that `values` contains. `at` is ``np.searchsorted(values, wanted)``."""
    found: npt.NDArray[np.bool_] = at < len(values)
    found[found] = values[at[found]] == wanted[found]
    return found


def _runs(chosen: np.ndarray, firsts: IntArray, lasts: IntArray) -> Iterator[tuple[int, int]]:
    """Group consecutive batches for which the mask `chosen` is True. Yield the first and last offset of each group."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8)))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield int(firsts[start]), int(lasts[end - 1])


def compare_batches(a: PartitionLog, b: PartitionLog, low: int, high: int, spans: Spans) -> None:
    """Compare the batches of two copies from offset `low` to `high` (exclusive), and add differences to `spans`."""
    _Comparison((a, b), spans).compare(low, high)

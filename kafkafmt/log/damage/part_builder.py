"""Combine adjacent valid batches of a segment into ranges, and adjacent damaged batches into larger byte ranges."""

from __future__ import annotations

import itertools

import numpy as np

from ..._backend import core
from ...types import BATCH_DTYPE, TABLE_ROWS, BatchTable, IntArray
from ..scanning import Stats
from .parts import CRC_UNKNOWN, UNKNOWN_COUNT, Bad, BadColumns, Parts, Run, RunColumns, problem_message

CRC_INTERVAL = 4096  # Damaged batches of a group. Messages contain CRCs only for the first SINGLE_SPANS of each group.
SINGLE_SPANS = 16
"""Number of adjacent damaged byte ranges that are stored separately. All further adjacent ranges are merged."""
MERGED_BYTES = 4 << 20
"""Largest size of a merged damaged byte range. Merging limits the number of ranges that are stored and reported."""

NOWHERE = np.empty(0, np.int64)
NO_RUNS = RunColumns(NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE.astype(bool))


class PartBuilder:
    """Combines adjacent valid batches of a segment into ranges, and collects the damaged byte ranges."""

    def __init__(self, stats: Stats, rows: int, run_bytes: int, cut_gaps: bool, cut_at: IntArray | None) -> None:
        self.stats = stats
        self.run_bytes = run_bytes
        self.cut_gaps = cut_gaps
        self.cut_at: IntArray = NOWHERE if cut_at is None else cut_at
        self._count = 0
        self._rows = np.empty(rows, BATCH_DTYPE)
        self._firsts = np.empty(rows, np.int64)
        self._bads = BadColumns()  # damaged byte ranges that were added since the last call of `_take`
        self._bad_rows: list[int] = []
        """For each damaged byte range in `_bads`, the number of collected batches before it."""
        self._consecutive = self._merged = 0
        self._first_message = ""
        self._runs: list[RunColumns] = []
        self._run_at: list[IntArray] = []
        self._all_bads = BadColumns()
        self._bad_at: list[IntArray] = []
        self._parts = 0

    def limit(self) -> None:
        """Combine the collected batches into ranges if there are many damaged byte ranges, to limit the memory use."""
        if len(self._bads) >= TABLE_ROWS:
            self._take()

    def _make_room(self, rows: BatchTable, start: int) -> None:
        """If the header array is full, or the batches reach `run_bytes`, combine the collected batches into ranges."""
        n = self._count
        if n and (n + len(rows) > len(self._rows) or start - int(self._rows["position"][0]) >= self.run_bytes):
            self._take()

    def damage(self, bad: Bad, row: int | None = None) -> None:
        """Add a damaged byte range after `row` (all) of the collected batches."""
        # Merge ranges if too many follow each other.
        bads = self._bads
        row = self._count if row is None else row
        follows = self._follows(row, bad.position)
        self._consecutive = self._consecutive + 1 if follows else 1
        if (
            not follows
            or self._consecutive <= SINGLE_SPANS
            or bad.records is not None
            or bads.records[-1] != UNKNOWN_COUNT
        ):
            self._add_bad(bad, row)
        elif self._consecutive == SINGLE_SPANS + 1 or bad.end - bads.position[-1] > MERGED_BYTES:
            self._merged, self._first_message = 1, bad.message
            self._add_bad(bad, row)
        else:
            self._merge(1, bad.end)

    def _follows(self, row: int, position: int) -> bool:
        """Return whether the last damaged byte range ends at `position` and no batch was added after it."""
        return bool(self._bad_rows) and self._bad_rows[-1] == row and self._bads.end[-1] == position

    def _add_bad(self, bad: Bad, row: int) -> None:
        self._bad_rows.append(row)
        self._bads.add(bad.position, bad.end, bad.code, bad.message, bad.records)

    def _merge(self, n: int, end: int) -> None:
        """Extend the last damaged byte range up to the position `end`, so that it includes `n` more damaged batches."""
        bads = self._bads
        i = len(bads) - 1
        self._merged += n
        bads.end[i] = end
        bads.describe(i, f"{self._merged} damaged batches; error of the first one: {self._first_message}")

    def add(self, rows: BatchTable, firsts: IntArray, start: int) -> None:
        """Add valid batches. Their positions in `rows` are relative to the file position `start`."""
        self._make_room(rows, start)
        n, end = self._count, self._count + len(rows)
        self._rows[n:end].view(np.uint8)[:] = rows.view(np.uint8)
        self._rows["position"][n:end] += start
        self._firsts[n:end] = firsts
        self._count = end

    def add_scan(self, rows: BatchTable, firsts: IntArray, spans: IntArray, start: int) -> None:
        """Add the valid batches and damaged byte ranges that `core.scan_damaged` found in a buffer at `start`."""
        if len(rows):
            self._make_room(rows, start)
        n = self._count
        if len(rows):
            self.add(rows, firsts, start)
        if not len(spans):
            return
        at = spans[:, 6] + n
        borders, longest = np.array([0, 1]), 1
        if len(spans) > 1:
            borders = np.concatenate(([0], np.flatnonzero(at[1:] != at[:-1]) + 1, [len(at)]))
            longest = int((borders[1:] - borders[:-1]).max())
        if not self._follows(int(at[0]), int(spans[0, 0])):
            self._consecutive = 0
        if self._consecutive + longest <= SINGLE_SPANS:
            self._add_single(spans, at)
            if len(borders) > 2:
                self._consecutive = len(spans) - int(borders[-2])
        else:
            self._add_long(spans, at, borders)
        self.limit()

    def _add_single(self, spans: IntArray, rows: IntArray) -> None:
        self._bads.add_spans(spans)
        self._bad_rows += rows.tolist()
        self._consecutive += len(spans)

    def _add_long(self, spans: IntArray, rows: IntArray, borders: IntArray) -> None:
        """Add damaged byte ranges, and merge them if too many directly follow each other."""
        known = spans[:, 5] != UNKNOWN_COUNT
        corrupted = ~known & (spans[:, 2] >= 0)
        kinds = np.flatnonzero((np.diff(known) != 0) | (np.diff(corrupted) != 0)) + 1
        for a, b in itertools.pairwise(np.union1d(borders, kinds).tolist()):
            if a and rows[a] != rows[a - 1]:
                self._consecutive = 0
            if known[a]:
                self._add_single(spans[a:b], rows[a:b])
            else:
                self._add_consecutive(spans[a:b], int(rows[a]))

    def _add_consecutive(self, spans: IntArray, row: int) -> None:
        """Add a sequence of adjacent damaged byte ranges. The number of records is not known for any of them."""
        n, bads = len(spans), self._bads
        i = max(min(SINGLE_SPANS - self._consecutive, n), 0)
        if i:
            self._add_single(spans[:i], np.full(i, row))
        far = np.flatnonzero(spans[:, 7])
        while i < n:
            known = bads.records[-1] != UNKNOWN_COUNT
            if self._consecutive == SINGLE_SPANS or known or int(spans[i, 1]) - bads.position[-1] > MERGED_BYTES:
                head = spans[i : i + 1].copy()
                k = int(np.searchsorted(far, i))
                begin = int(far[k - 1]) + 1 if k else 0
                if spans[i, 2] >= 0 and not spans[i, 7] and (i - begin) % CRC_INTERVAL >= SINGLE_SPANS:
                    head[0, 2] = CRC_UNKNOWN
                bads.add_spans(head)
                self._bad_rows.append(row)
                if not known:
                    self._merged, self._first_message = 1, problem_message(*head[0, 2:5].tolist())
                merged = 1
            else:
                merged = max(int(np.searchsorted(spans[:, 1], bads.position[-1] + MERGED_BYTES, "right")) - i, 1)
                self._merge(merged, int(spans[i + merged - 1, 1]))
            self._consecutive += merged
            i += merged

    def _take(self) -> None:
        """Combine the collected batches into ranges. Store these ranges and the damaged byte ranges in file order."""
        n, bads = self._count, self._bads
        before = np.array(self._bad_rows, np.int64) if self._bad_rows else NOWHERE
        merged, starts, bad_at = 0, 0, np.arange(len(before))
        if n:
            rows = self._rows[:n]
            self.stats.add(n, core.summarize_batches(rows))
            runs, run_at, bad_at = columns_of(rows, self._firsts[:n], self.cut_gaps, self.cut_at, before)
            starts = len(runs)
            if self._runs and (not len(before) or before[0] != 0) and self._continue_last(runs):
                merged, runs, run_at = 1, runs.at(slice(1, None)), run_at[1:]
            if len(runs):
                self._runs.append(runs)
                self._run_at.append(run_at + (self._parts - merged))
        if len(bads):
            self._bad_at.append(bad_at + (self._parts - merged))
            self._all_bads.extend(bads)
            self._bads, self._bad_rows = BadColumns(), []
        self._parts += starts - merged + len(before)
        self._count = 0

    def _continue_last(self, runs: RunColumns) -> bool:
        """Merge the first range of `runs` into the last stored one if it adjoins it in order, and return whether."""
        before = self._runs[-1]
        if int(self._run_at[-1][-1]) != self._parts - 1:  # damaged bytes follow the last range
            return False
        first, last = int(runs.first[0]), int(before.last[-1])
        rises = first == last + 1 if self.cut_gaps else first > last
        at = int(np.searchsorted(self.cut_at, first))
        cut = at < len(self.cut_at) and int(self.cut_at[at]) == first
        if cut or not rises or int(runs.end[0]) - int(before.position[-1]) > self.run_bytes:
            return False
        before.dense[-1] &= runs.dense[0] and first == last + 1
        before.end[-1], before.last[-1] = runs.end[0], runs.last[0]
        before.batches[-1] += runs.batches[0]
        known = before.records[-1] != UNKNOWN_COUNT and runs.records[0] != UNKNOWN_COUNT
        before.records[-1] = before.records[-1] + runs.records[0] if known else UNKNOWN_COUNT
        return True

    def parts(self) -> Parts:
        """Return everything that was added, as ranges of valid batches and damaged byte ranges, in file order."""
        self._take()
        runs = self._runs[0] if self._runs else NO_RUNS
        if len(self._runs) > 1:
            runs = RunColumns.joined(self._runs)
        return Parts(runs, self._all_bads, _concatenated(self._run_at), _concatenated(self._bad_at))


def _concatenated(arrays: list[IntArray]) -> IntArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate([NOWHERE, *arrays])


def runs_of(rows: BatchTable, firsts: IntArray, start: int, cut_gaps: bool) -> list[Run]:
    """Divide batch headers, with positions relative to `start`, into ranges of adjacent batches."""
    runs, _, _ = columns_of(rows, firsts, cut_gaps)
    runs.position += start
    runs.end += start
    return runs.objects()


def parts_of_scan(rows: BatchTable, spans: IntArray, cut_gaps: bool) -> Parts:
    """Return the parts of a segment that `core.scan_damaged` has scanned completely."""
    before = spans[:, 6].copy() if len(spans) else NOWHERE
    runs, run_at, bad_at = columns_of(rows, None, cut_gaps, cut_before=before)
    return Parts(runs, BadColumns(spans), run_at, bad_at)


def columns_of(
    rows: BatchTable,
    firsts: IntArray | None,
    cut_gaps: bool,
    cut_at: IntArray = NOWHERE,
    cut_before: IntArray = NOWHERE,
) -> tuple[RunColumns, IntArray, IntArray]:
    """Divide an array of headers of valid batches into ranges of adjacent batches, with `core.combine_batches`."""
    # Also return the indexes of the ranges, and of the items of `cut_before`, among both in file order.
    found, before = np.empty((9, len(rows)), np.int64), np.empty(len(cut_before), np.int64)
    firsts = None if firsts is None else np.ascontiguousarray(firsts)
    n = core.combine_batches(rows, firsts, cut_gaps, cut_at, cut_before, found, before)
    _, position, end, first, last, batches, records, dense, at = found[:, :n].copy()
    return RunColumns(position, end, first, last, batches, records, dense != 0), at, before

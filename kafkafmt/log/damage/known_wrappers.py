"""Remember the offsets and timestamps inside the wrapper messages of a file, because the file can be read several times."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from ...constants import MAGIC_V2
from ...records.wrappers import InnerMessages, WrapperReader
from ...types import BatchSummary, BatchTable, Buffer, IntArray
from .parts import DELTA_PROBLEM, PROBLEM_CODES, WRAPPER_PROBLEM, Bad, problem_message

COLUMNS = 1 + len(InnerMessages._fields)
MOST_WRAPPERS = 1 << 20  # Largest number of wrapper messages that are remembered. They take 40 MiB.


class KnownWrappers:
    """Reads and remembers the inner offsets and timestamps of the wrapper messages in one file."""

    def __init__(self, max_batch_bytes: int) -> None:
        self._reader = WrapperReader(max_batch_bytes)
        self._rows = np.empty((0, COLUMNS), np.int64)
        self._count = 0

    @property
    def found_odd_ends(self) -> bool:
        """Whether the compressed data of a wrapper message had an odd end."""
        return self._reader.found_odd_ends

    @property
    def _known(self) -> IntArray:
        """One row for each wrapper message, in file order: file position, and the items of `InnerMessages`."""
        return self._rows[: self._count]

    def inner(self, start: int, buffer: Buffer, wrappers: BatchTable) -> InnerMessages:
        """Describe the inner messages of wrapper messages in a buffer from `start`. Decompress only unknown ones."""
        positions, known = wrappers["position"] + start, self._known
        at = np.searchsorted(known[:, 0], positions)
        new = np.ones(len(positions), bool)
        inside = at < len(known)
        new[inside] = known[at[inside], 0] != positions[inside]
        found = np.empty((len(positions), COLUMNS - 1), np.int64)
        found[~new] = known[at[~new], 1:]
        if new.any():
            found[new] = np.stack(self._reader.read(buffer, wrappers.compress(new)), axis=1)
            self._add(np.column_stack((positions[new], found[new])))
        return InnerMessages(*found.T)

    def _add(self, rows: IntArray) -> None:
        if self._count + len(rows) > MOST_WRAPPERS:
            self._count = 0
        n, end = self._count, self._count + len(rows)
        if end > len(self._rows):
            larger = np.empty((2 * end, COLUMNS), np.int64)
            larger[:n] = self._known
            self._rows = larger
        self._rows[n:end] = rows
        self._count = end
        if n and rows[0, 0] < self._rows[n - 1, 0]:
            self._rows[:end] = self._rows[np.argsort(self._rows[:end, 0])]

    def within(self, start: int, end: int) -> IntArray:
        """Return the known wrapper messages in a range, relative to `start`, in the format of `core.scan_damaged`."""
        first, stop = np.searchsorted(self._known[:, 0], (start, end))
        inner = self._known[first:stop, :4].copy()
        inner[:, 0] -= start
        return inner

    def first_offsets(self, start: int, buffer: Buffer, table: BatchTable) -> IntArray:
        """Return the first offset of each batch: of an undecodable wrapper message, that in its header."""
        firsts = table["base_offset"].copy()
        wrappers = wrappers_of(table)
        if len(wrappers):
            firsts[wrappers] = self.inner(start, buffer, table.take(wrappers)).first
        return firsts


def wrappers_of(table: BatchTable) -> IntArray:
    return np.flatnonzero((table["count"] < 0) & (table["magic"] < MAGIC_V2))


def split_at_wrong_offsets(
    known: KnownWrappers, start: int, buffer: Buffer, table: BatchTable, summary: BatchSummary
) -> Iterator[tuple[BatchTable, IntArray, Bad | None]]:
    """Divide an array of batch headers into groups. Each batch with inconsistent offset fields separates two groups.

    Yield a tuple for each group. The first two items are arrays: the batch headers, and the first
    offset of each batch. The third item is a `Bad` object that describes the inconsistent batch
    after the group. It is None for the last group.

    The offset fields of a batch are inconsistent if its last offset delta is negative. The offset
    fields of a wrapper message are inconsistent if the offsets of its inner messages do not
    increase, or if the last of them is not equal to the offset of the wrapper message.
    """
    firsts = table["base_offset"]
    if not (summary.wrappers or summary.negative_delta):  # usually, all offsets are correct
        yield table, firsts, None
        return
    wrappers = wrappers_of(table)
    # The `Bad` objects are created one by one, because the caller often stops at the first one.
    negative = np.flatnonzero(table["last_offset_delta"] < 0).tolist()
    bads = [(at, partial(_negative_delta, table, at, start)) for at in negative]
    if len(wrappers):
        firsts = firsts.copy()
        inner = known.inner(start, buffer, table.take(wrappers))
        firsts[wrappers] = inner.first
        wrong = np.flatnonzero((inner.last != table["base_offset"][wrappers]) | (inner.first > inner.last))
        for i, at in zip(wrong.tolist(), wrappers[wrong].tolist(), strict=True):
            bads.append((at, partial(_contradicted_wrapper, table, at, start, inner, i)))
        bads.sort(key=itemgetter(0))
    begin = 0
    for at, bad in bads:
        yield table[begin:at], firsts[begin:at], bad()
        begin = at + 1
    yield table[begin:], firsts[begin:], None


def _contradicted_wrapper(table: BatchTable, at: int, start: int, inner: InnerMessages, i: int) -> Bad:
    """Describe the damage of a wrapper message whose offset contradicts its inner messages."""
    row: Any = table[at]
    position, offset = start + int(row["position"]), int(row["base_offset"])
    message = problem_message(WRAPPER_PROBLEM, offset, int(inner.last[i]))
    end = position + int(row["size"])
    return Bad(position, end, PROBLEM_CODES[WRAPPER_PROBLEM], message, int(inner.count[i]))


def _negative_delta(table: BatchTable, at: int, start: int) -> Bad:
    """Describe the damage of a batch whose last offset delta is negative."""
    row: Any = table[at]
    position, first, delta = start + int(row["position"]), int(row["base_offset"]), int(row["last_offset_delta"])
    message = problem_message(DELTA_PROBLEM, first, delta)
    return Bad(position, position + int(row["size"]), PROBLEM_CODES[DELTA_PROBLEM], message)

"""Compare each entry of a segment's offset index and time index with the segment's batches.

A missing entry is not an error, because an index only speeds up lookups. But every existing entry
must be correct, because a broker trusts the entries.

An entry of the offset index contains the position of a batch and an offset. Which offset is stored
depends on the Kafka release:

- Kafka 4.1 and later: the last offset of the batch.
- Kafka 2.0 to 4.0: the last offset of all batches that were appended together.
- Up to Kafka 1.1: the first offset of all batches that were appended together.
- After compaction: any offset of the batch.

An entry of the time index contains the largest timestamp so far, and the last offset of the batch
that contains this timestamp. Some releases store the offset of the record with the largest
timestamp instead of the last offset.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

import numpy as np

from ..._backend import core
from ...errors import StructureError
from ...text import offset_range
from ...types import BatchTable, last_offset
from ..format import file_view, files
from ..format.index_entries import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    Columns,
    all_offset_entries,
    all_time_entries,
    partial_entry_message,
    read_offset_index,
    read_time_index,
)
from ..reading.damaged_spans import DamageColumns
from ..reading.models import Finding
from ..reading.partition_dir import SegmentFile
from ..reading.parts import RunColumns
from ..reading.plan import SegmentPlan

MANY = np.iinfo(np.int64).max
NO_ENTRIES = np.empty(0, np.int64), np.empty(0, np.int64)


@dataclass
class _File:
    """The entries and findings of one index file. Unused entries at the end of the file are omitted."""

    name: str
    columns: Columns
    findings: list[Finding]

    def __len__(self) -> int:
        return len(self.columns[0])


def _load(
    segment: SegmentFile,
    names: Container[str] | None,
    suffix: str,
    entry: int,
    base: int,
    used: Callable[[bytes, int], Columns],
    whole: Callable[[bytes, int], Columns],
) -> _File:
    name, data = segment.sibling_name(suffix), b""
    if names is None or name in names:
        try:
            data = file_view.read_bytes(files.joined(segment.folder, name)) or b""
        except StructureError as error:
            return _File(name, NO_ENTRIES, [Finding(name, "unreadable_index", error.message)])
    if not data:
        return _File(name, NO_ENTRIES, [])
    columns, found = used(data, base), []
    n = len(columns[0])
    if len(data) % entry:
        found.append(Finding(name, "index_length", partial_entry_message(len(data), entry)))
    rest = data[n * entry : len(data) // entry * entry]
    if rest.strip(b"\0"):
        first, second = (int(c[n]) for c in whole(data, base))
        message = f"entry {n} ({first}, {second}) is not larger than the previous entry, and is not one of the zeros at the end"
        found.append(Finding(name, "index_garbage", message))
    return _File(name, columns, found)


class IndexAudit:
    """Compares the offset index and the time index of a segment with its batches.

    First, call `add` for all batches, in offset order. Then, call `findings`. `names` contains the
    names of all files in the partition directory. An index file that is not in `names` is not
    opened.
    """

    def __init__(self, segment: SegmentFile, base: int, names: Container[str] | None = None) -> None:
        self._segment = segment
        size = OFFSET_ENTRY.itemsize
        self._offset = _load(segment, names, ".index", size, base, read_offset_index, all_offset_entries)
        size = TIME_ENTRY.itemsize
        self._time = _load(segment, names, ".timeindex", size, base, read_time_index, all_time_entries)
        self._base = base
        self.begin()

    def begin(self) -> None:
        """Reset the state, so that `add` can start again with the first batch of the segment."""
        self._largest = -1
        self._expected = self._base
        self._empty = not (len(self._offset) or len(self._time))
        if self._empty:
            return
        # `core.match_index_entries` overwrites these initial values for each entry that refers to a batch.
        self._matches = np.empty((3, len(self._offset)), np.int64)
        self._matches[0], self._matches[1:] = MANY, -1
        self._time_matches = np.empty((3, len(self._time)), np.int64)
        self._time_matches[:2], self._time_matches[2] = -2, 0

    def add(self, table: BatchTable, position: int) -> None:
        """Add batches of the segment, given as a table of their headers.

        Parameters
        ----------
        table : BatchTable
            The batch headers, with positions relative to a buffer.
        position : int
            File position of the first byte of that buffer.
        """
        if self._empty:
            self._expected = last_offset(table[-1]) + 1
            return
        self._expected, self._largest = core.match_index_entries(
            table,
            position,
            self._expected,
            self._largest,
            *self._offset.columns,
            self._matches,
            self._time.columns[1],
            self._time_matches,
        )

    def findings(self, plan: SegmentPlan) -> list[Finding]:
        """Return all findings. Call this after all batches have been passed to `add`."""
        if self._empty:
            return self._offset.findings + self._time.findings
        end = self._segment.next_base if self._segment.next_base is not None else self._expected
        if self._agrees(plan, end):
            return self._offset.findings + self._time.findings
        return (
            self._offset.findings + self._time.findings + self._wrong_offsets(plan, end) + self._wrong_times(plan, end)
        )

    def _agrees(self, plan: SegmentPlan, end: int) -> bool:
        """Return True if each index entry matches a batch or refers to damaged data.

        If the result is False, some entries may be wrong. `_wrong_offsets` and `_wrong_times` then check
        all entries.
        """
        damaged = DamageColumns.of(plan.damaged)
        return core.index_entries_agree(
            *self._offset.columns,
            self._matches,
            *self._time.columns,
            self._time_matches,
            end,
            damaged.first,
            damaged.last,
            damaged.position,
            damaged.length,
        )

    def _wrong_offsets(self, plan: SegmentPlan, end: int) -> list[Finding]:
        offsets, positions = self._offset.columns
        first_of, last_at, last_of = self._matches
        known = ~_unknown(plan, offsets, positions)
        beyond = known & ((positions >= plan.size) | (offsets >= end))
        following = np.append(positions[1:], MANY)[: len(positions)]
        appended_together = (last_of >= positions) & (last_of < following)
        right = appended_together & (first_of <= offsets) | (first_of == offsets)
        # In a compacted segment, an index entry may contain any offset of a batch instead of its last offset.
        if len(plan.damaged) or not RunColumns.of(plan.extents).dense.all():
            right |= (first_of <= offsets) & (offsets <= last_at)
        wrong = known & ~right & ~beyond

        def why(i: int) -> str:
            entry = f"has offset {offsets[i]} at position {positions[i]}"
            if first_of[i] == MANY:
                return f"{entry}, but no batch starts at that position"
            if last_of[i] < 0:
                return f"{entry}, but the batch at that position has {offset_range(first_of[i], last_at[i])}"
            return f"{entry}, but the batch that ends with that offset starts at position {last_of[i]}"

        return _findings(self._offset, wrong, beyond, why, lambda i: f"offset {offsets[i]} at position {positions[i]}")

    def _wrong_times(self, plan: SegmentPlan, end: int) -> list[Finding]:
        times, offsets = self._time.columns
        timestamp_of, largest_upto, untimed = self._time_matches
        known = ~_unknown(plan, offsets)
        beyond = known & (offsets >= end)
        right = (timestamp_of == times) & (largest_upto <= times)
        wrong = known & ~right & (untimed == 0) & ~beyond

        def why(i: int) -> str:
            entry = f"has timestamp {times[i]} at offset {offsets[i]}"
            if timestamp_of[i] == -2:
                return f"{entry}, but no batch contains that offset"
            if timestamp_of[i] != times[i]:
                return f"{entry}, but the batch with that offset has timestamp {timestamp_of[i]}"
            return f"{entry}, but an earlier batch has timestamp {largest_upto[i]}"

        return _findings(self._time, wrong, beyond, why, lambda i: f"timestamp {times[i]} at offset {offsets[i]}")


def _findings(
    file: _File, wrong: np.ndarray, beyond: np.ndarray, why: Callable[[int], str], what: Callable[[int], str]
) -> list[Finding]:
    found = []
    if wrong.any():
        first = int(np.argmax(wrong))
        found.append(Finding(file.name, "index_mismatch", f"entry {first} {why(first)}" + _others(wrong)))
    if beyond.any():
        first = int(np.argmax(beyond))
        message = f"entry {first}, {what(first)}, is beyond the end of the segment"
        found.append(Finding(file.name, "index_beyond_end", message + _others(beyond)))
    return found


def _others(mask: np.ndarray) -> str:
    n = int(mask.sum())
    return f"; {n} of {len(mask)} entries have this problem" if n > 1 else ""


def _unknown(plan: SegmentPlan, offsets: np.ndarray, positions: np.ndarray | None = None) -> np.ndarray:
    """Return a mask of the index entries that refer to damaged data. Such entries cannot be checked."""
    if not len(offsets) or not len(plan.damaged):
        return np.zeros(len(offsets), bool)
    damaged = DamageColumns.of(plan.damaged)
    unknown = _inside(offsets, damaged.first, damaged.last)
    if positions is not None:
        unknown |= _inside(positions, damaged.position, damaged.end - 1)
    return unknown


def _inside(values: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
    """Return a mask of the values that are in at least one of the ranges from `lows[i]` to `highs[i]`."""
    order = np.argsort(lows, kind="stable")
    at = np.searchsorted(lows[order], values, "right") - 1
    highest = np.maximum.accumulate(highs[order])
    inside: np.ndarray = (at >= 0) & (values <= highest[at])
    return inside

"""Compare each entry of a segment's offset index and time index with the segment's batches.

A missing entry is not an error, because an index only speeds up lookups. But every existing entry
must be correct, because a broker trusts the entries.

An entry of the offset index contains the position of a batch and an offset:

- Kafka 4.1 and later: the last offset of the batch.
- Kafka 2.0 to 4.0: the last offset of all batches that were appended together.
- Up to Kafka 1.1: the first offset of all batches that were appended together.
- After compaction: any offset of the batch.

An entry of the time index contains the largest timestamp so far, and the last offset of its batch
or, in some releases, the offset of its record.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import numpy as np

from ..._backend import core
from ...errors import StructureError
from ...support.text import offset_range
from ...types import BatchTable, IntArray
from ..catalog import SegmentFile
from ..damage import DamageColumns, RunColumns, SegmentPlan
from ..findings import Finding
from ..formats import OFFSET_ENTRY, TIME_ENTRY, all_offset_entries, all_time_entries, partial_entry_message
from ..storage import joined, read_bytes

MANY = np.iinfo(np.int64).max


def _read(segment: SegmentFile, names: Container[str] | None, suffix: str) -> tuple[bytes, list[Finding]]:
    """Return the content of an index file. If it cannot be read, return b"" and a finding."""
    name = segment.sibling_name(suffix)
    if names is not None and name not in names:
        return b"", []
    try:
        return read_bytes(joined(segment.folder, name)) or b"", []
    except StructureError as error:
        return b"", [Finding(name, "unreadable_index", error.message)]


def _trailing(name: str, data: bytes, entry: int, n: int, base: int) -> list[Finding]:
    """Return findings about the bytes after the `n` valid entries of an index file. An entry has `entry` bytes."""
    found: list[Finding] = []
    if n * entry == len(data):
        return found
    if len(data) % entry:
        found.append(Finding(name, "index_length", partial_entry_message(len(data), entry)))
    rest = data[n * entry : len(data) // entry * entry]
    if rest.strip(b"\0"):
        whole = all_offset_entries if entry == OFFSET_ENTRY.itemsize else all_time_entries
        first, second = (int(c[n]) for c in whole(data, base))
        message = f"entry {n} ({first}, {second}) is not larger than the previous entry, and is not one of the zeros at the end"
        found.append(Finding(name, "index_garbage", message))
    return found


class IndexAudit:
    """Compares the offset index and the time index of a segment with its batches."""

    # Call `add` for all batches, in offset order, then `findings`. An index file that is not in `names` is not opened.

    def __init__(self, segment: SegmentFile, base: int, names: Container[str] | None = None) -> None:
        self._segment = segment
        offset_data, offset_findings = _read(segment, names, ".index")
        time_data, time_findings = _read(segment, names, ".timeindex")
        self._matches = matches = core.IndexMatches(offset_data, time_data, base)
        offset_name, time_name = segment.sibling_name(".index"), segment.sibling_name(".timeindex")
        self._found = [
            *offset_findings,
            *_trailing(offset_name, offset_data, OFFSET_ENTRY.itemsize, matches.offset_entries, base),
            *time_findings,
            *_trailing(time_name, time_data, TIME_ENTRY.itemsize, matches.time_entries, base),
        ]

    def begin(self) -> None:
        """Remove all batches, so that `add` can start again with the first batch of the segment."""
        self._matches.begin()

    def add(self, table: BatchTable, position: int) -> None:
        """Add batches of the segment. Their positions are relative to `position`."""
        self._matches.add(table, position)

    def findings(self, plan: SegmentPlan) -> list[Finding]:
        """Return all findings. Call this after all batches have been passed to `add`."""
        matches = self._matches
        if not (matches.offset_entries or matches.time_entries):
            return self._found
        end = self._segment.next_base if self._segment.next_base is not None else matches.next_offset
        damaged = DamageColumns.of(plan.damaged)
        # If `agree` returns False, some entries may be wrong. Then all entries are checked.
        if matches.agree(end, damaged.first, damaged.last, damaged.position, damaged.length):
            return self._found
        offset_rows = np.empty((5, matches.offset_entries), np.int64)
        time_rows = np.empty((5, matches.time_entries), np.int64)
        matches.copy_to(offset_rows, time_rows)
        return self._found + self._wrong_offsets(plan, end, offset_rows) + self._wrong_times(plan, end, time_rows)

    def _wrong_offsets(self, plan: SegmentPlan, end: int, rows: IntArray) -> list[Finding]:
        """Return findings about entries of the offset index. For `rows`, see `core.IndexMatches.copy_to`."""
        offsets, positions, first_of, last_at, last_of = rows
        known = ~_unknown(plan, offsets, positions)
        beyond = known & ((positions >= plan.size) | (offsets >= end))
        following = np.append(positions[1:], MANY)[: len(positions)]
        appended_together = (last_of >= positions) & (last_of < following)
        right = appended_together & (first_of <= offsets) | (first_of == offsets)
        # In a compacted segment, an index entry may contain any offset of a batch instead of its last offset.
        if len(plan.damaged) or not RunColumns.of(plan.runs).dense.all():
            right |= (first_of <= offsets) & (offsets <= last_at)
        wrong = known & ~right & ~beyond

        def why(i: int) -> str:
            entry = f"has offset {offsets[i]} at position {positions[i]}"
            if first_of[i] == MANY:
                return f"{entry}, but no batch starts at that position"
            if last_of[i] < 0:
                return f"{entry}, but the batch at that position has {offset_range(first_of[i], last_at[i])}"
            return f"{entry}, but the batch that ends with that offset starts at position {last_of[i]}"

        name = self._segment.sibling_name(".index")
        return _findings(name, wrong, beyond, why, lambda i: f"offset {offsets[i]} at position {positions[i]}")

    def _wrong_times(self, plan: SegmentPlan, end: int, rows: IntArray) -> list[Finding]:
        """Return findings about entries of the time index. For `rows`, see `core.IndexMatches.copy_to`."""
        times, offsets, timestamp_of, largest_upto, untimed = rows
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

        name = self._segment.sibling_name(".timeindex")
        return _findings(name, wrong, beyond, why, lambda i: f"timestamp {times[i]} at offset {offsets[i]}")


def _findings(
    name: str, wrong: np.ndarray, beyond: np.ndarray, why: Callable[[int], str], what: Callable[[int], str]
) -> list[Finding]:
    found = []
    if wrong.any():
        first = int(np.argmax(wrong))
        found.append(Finding(name, "index_mismatch", f"entry {first} {why(first)}" + _others(wrong)))
    if beyond.any():
        first = int(np.argmax(beyond))
        message = f"entry {first}, {what(first)}, is beyond the end of the segment"
        found.append(Finding(name, "index_beyond_end", message + _others(beyond)))
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

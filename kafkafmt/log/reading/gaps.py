"""Find missing offsets inside ranges of valid batches that contain wrapper messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...constants import NO_END
from ...records.wrappers import WrapperReader
from ...types import BatchTable, Buffer, IntArray, last_offsets
from .events import Events
from .known_wrappers import wrappers_of
from .part import GroupReader
from .parts import Extents, Run
from .plan import SegmentPlan
from .segment_walker import Walker


def has_gap(walker: Walker, plan: SegmentPlan, extents: Extents) -> bool:
    """Return whether offsets are missing in at least one of the ranges of valid batches in `extents`.

    The wrapper messages are decompressed, because their headers contain only their last offsets. Each
    range is read once. Small ranges are read and decompressed together.
    """
    events, reader = Events(replace(plan, extents=extents), 0, NO_END), WrapperReader(walker.max_batch_bytes)
    group, k = GroupReader(events, walker, ends_at_damage=False), 0
    while k < len(events.extents):
        part = group.read(k)
        if part is None:
            if _has_gap_in_large(walker, events.extents[k], reader):
                return True
            k += 1
        else:
            if _has_gap_in_table(reader, part.buffer, part.table, part.group_rows):
                return True
            k += len(part.group)
    return False


def _has_gap_in_large(walker: Walker, run: Run, reader: WrapperReader) -> bool:
    """Return whether offsets are missing in a range of valid batches that does not fit into one buffer."""
    expected = run.first_offset
    for _, buffer, table, _ in walker.tables(run.position, run.end):
        if not len(table):
            continue
        if int(_first_offsets(reader, buffer, table[:1])[0][0]) > expected or _has_gap_in_table(reader, buffer, table):
            return True
        expected = int(last_offsets(table[-1:])[0]) + 1
    return False


def _has_gap_in_table(reader: WrapperReader, buffer: Buffer, table: BatchTable, begins: Sequence[int] = ()) -> bool:
    """Return whether offsets are missing inside a batch or between two batches.

    `begins` contains the rows of `table` at which a range of adjacent batches begins.
    """
    first, count = _first_offsets(reader, buffer, table)
    last = last_offsets(table)
    gaps = first[1:] > last[:-1] + 1
    gaps[[row - 1 for row in begins[1:]]] = False
    return bool(gaps.any() or ((count >= 0) & (count <= last - first)).any())


def _first_offsets(reader: WrapperReader, buffer: Buffer, table: BatchTable) -> tuple[IntArray, IntArray]:
    """Return the first offset and the number of records of each batch. The number is -1 if it is not known."""
    first, count, wrappers = table["base_offset"].copy(), table["count"].astype("int64"), wrappers_of(table)
    if len(wrappers):
        inner = reader.read(buffer, table.take(wrappers))
        first[wrappers], count[wrappers] = inner.first, inner.count
    return first, count

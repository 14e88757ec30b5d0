"""Find the damage that may affect the selected offsets, and write the damaged bytes to a Parquet file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ..constants import MAX_OFFSET
from ..log import Damage, PartitionDir
from ..log.format.file_view import FileView
from ..log.format.unreadable import overlapping
from ..log.reading.offset_interval import OffsetInterval
from ..log.reading.plan import SegmentPlan
from .options import ExportOptions
from .parquet import open_writer

MAX_SPAN_BYTES = 16 << 20
"""Largest number of damaged bytes in one row of the quarantine file.

For a longer damaged byte range, the row contains only the first bytes, and a message states this.
"""

GROUP_ROWS = 4096
"""Largest number of rows in a row group. A row group for each row would need 25 KB of memory per row."""

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("length", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("error", pa.string()),
        ("message", pa.string()),
        ("bytes", pa.binary()),
    ]
)


def damage_in_range(plans: Iterable[SegmentPlan], interval: OffsetInterval) -> Iterator[Damage]:
    """For each segment in `plans`, yield the damage that may have destroyed offsets in `interval`."""
    for plan in plans:
        for damage in sorted(plan.damaged, key=lambda d: d.position):
            first, last = damage.first_offset or 0, MAX_OFFSET if damage.last_offset is None else damage.last_offset
            if first < interval.damage_high and max(first, last) >= interval.low:
                yield damage


def in_context(plans: Iterable[SegmentPlan], damage: Damage) -> Damage:
    """Narrow the range of offsets that damage may have destroyed, based on the offsets of the surrounding batches.

    A task reads only a part of the segment, so it cannot determine the exact range of destroyed
    offsets.
    """
    plan = next(p for p in plans if p.segment.name == damage.file)
    end = damage.position + damage.length
    extent = next(e for e in plan.extents if e.position <= damage.position < e.end)
    first, last = damage.first_offset, damage.last_offset
    if damage.position == extent.position:
        before = [
            e.last_offset for e in plan.extents if e.end == extent.position and e.last_offset < extent.first_offset
        ]
        first = before[0] + 1 if before else first
    if end == extent.end:
        after = [e.first_offset for e in plan.extents if e.first_offset > extent.last_offset]
        following = min(after) if after else plan.segment.next_base
        last = None if following is None else following - 1
    return replace(damage, first_offset=first, last_offset=last)


def write_quarantine(sink: Any, damaged: Iterable[tuple[PartitionDir, Damage]], options: ExportOptions) -> int:
    """Write one row for each damaged byte range to the Parquet file `sink`.

    The rows are ordered by topic, partition, file and position. Return the total number of damaged
    bytes that were written.
    """
    size = 0
    ordered = sorted(damaged, key=lambda item: (*item[0].key, item[1].file, item[1].position))
    with open_writer(sink, SCHEMA, options.compression, options.compression_level) as writer:
        for rows in _row_groups(_rows(ordered)):
            size += sum(len(row["bytes"] or b"") for row in rows)
            # `from_pylist` and `empty_table` import pandas, even if there are no rows.
            writer.write_table(pa.Table.from_pylist(rows, SCHEMA) if rows else pa.Table.from_batches([], SCHEMA))
    return size


def _row_groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Divide rows into row groups. There is at least one group, which can be empty."""
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row["bytes"] or b"")
        if len(group) == GROUP_ROWS or size >= MAX_SPAN_BYTES:
            yield group
            group, size = [], 0
    yield group


def _rows(damaged: Iterable[tuple[PartitionDir, Damage]]) -> Iterator[dict[str, Any]]:
    """Yield the row of each damaged byte range. Each file is opened once."""
    for _, items in itertools.groupby(damaged, lambda item: (item[0].key, item[1].file)):
        view: FileView | OSError | None = None
        try:
            for directory, damage in items:
                if view is None:
                    view = _opened(directory, damage)
                yield _row(directory, damage, view)
        finally:
            if isinstance(view, FileView):
                view.close()


def _opened(directory: PartitionDir, damage: Damage) -> FileView | OSError:
    try:
        return FileView(directory.path / damage.file, fill_unreadable=True)
    except OSError as error:
        return error


def _with_zeros(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return a copy of `data` in which the given ranges are filled with zeros. Positions outside `data` are ignored."""
    changed = bytearray(data)
    for start, end in spans:
        start, end = max(start, 0), min(end, len(data))
        changed[start:end] = bytes(end - start)
    return bytes(changed)


def _row(directory: PartitionDir, damage: Damage, view: FileView | OSError) -> dict[str, Any]:
    message, data = damage.message, None
    try:
        if isinstance(view, OSError):
            raise view
        data = view.read(damage.position, min(damage.length, MAX_SPAN_BYTES))
        if inside := overlapping(view.unreadable, damage.position, damage.position + len(data)):
            data = _with_zeros(data, [(start - damage.position, end - damage.position) for start, end in inside])
            message += " (the stored bytes contain zeros instead of the bytes that the disk cannot read)"
    except OSError as error:
        message += f" (the damaged bytes could not be stored: {error.strerror})"
    if data is not None and damage.length > len(data):
        message += f" (only the first {len(data)} of {damage.length} damaged bytes were stored)"
    return {
        "topic": directory.topic,
        "partition": directory.partition,
        "file": damage.file,
        "position": damage.position,
        "length": damage.length,
        "first_offset": damage.first_offset,
        "last_offset": damage.last_offset,
        "error": damage.code,
        "message": message,
        "bytes": data,
    }

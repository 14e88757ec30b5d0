"""Find the damage that may affect the selected offsets, and write the damaged bytes to a Parquet file."""

from __future__ import annotations

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
        for directory, damage in ordered:
            row = _row(directory, damage)
            size += len(row["bytes"] or b"")
            writer.write_table(pa.Table.from_pylist([row], SCHEMA))
        if not ordered:
            writer.write_table(pa.Table.from_batches([], SCHEMA))
    return size


def _with_zeros(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return a copy of `data` in which the given ranges are filled with zeros. Positions outside `data` are ignored."""
    changed = bytearray(data)
    for start, end in spans:
        start, end = max(start, 0), min(end, len(data))
        changed[start:end] = bytes(end - start)
    return bytes(changed)


def _row(directory: PartitionDir, damage: Damage) -> dict[str, Any]:
    message, data = damage.message, None
    try:
        with FileView(directory.path / damage.file, fill_unreadable=True) as view:
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

"""Find the damage that may affect the selected offsets, and write the damaged bytes to a Parquet file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..log import Damage, PartitionDir
from ..log.damage import DamageColumns, SegmentPlan
from ..log.reading import OffsetInterval
from ..log.storage import FileView, overlapping
from .options import ExportOptions
from .parquet import open_writer

MAX_SPAN_BYTES = 16 << 20
"""Largest number of bytes in one row. Of a longer damaged byte range, only the first bytes are stored."""

BLOCK_BYTES = 1 << 16
"""Number of bytes that are read at once. A block usually contains several damaged byte ranges."""

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


Row = tuple[Any, ...]
"""The values of one row, in the order of `SCHEMA`."""


def damage_in_range(plans: Iterable[SegmentPlan], interval: OffsetInterval) -> Iterator[Damage]:
    """For each segment in `plans`, yield the damage that may have destroyed offsets in `interval`."""
    for plan in plans:
        found = DamageColumns.of(plan.damaged)
        chosen = (found.first < interval.damage_high) & (np.maximum(found.first, found.last) >= interval.low)
        order = np.argsort(found.position, kind="stable")
        damaged = list(plan.damaged)
        yield from (damaged[i] for i in order[chosen[order]].tolist())


def in_context(plans: Iterable[SegmentPlan], damage: Damage) -> Damage:
    """Narrow the range of offsets that damage may have destroyed to the gap between the surrounding batches."""
    # A task reads only a part of the segment, so it cannot determine the exact range.
    plan = next(p for p in plans if p.segment.name == damage.file)
    end = damage.position + damage.length
    run = next(e for e in plan.runs if e.position <= damage.position < e.end)
    first, last = damage.first_offset, damage.last_offset
    if damage.position == run.position:
        before = [e.last_offset for e in plan.runs if e.end == run.position and e.last_offset < run.first_offset]
        first = before[0] + 1 if before else first
    if end == run.end:
        after = [e.first_offset for e in plan.runs if e.first_offset > run.last_offset]
        following = min(after) if after else plan.segment.next_base
        last = None if following is None else following - 1
    return replace(damage, first_offset=first, last_offset=last)


def write_quarantine(sink: Any, damaged: Iterable[tuple[PartitionDir, Damage]], options: ExportOptions) -> int:
    """Write one row per damaged byte range, by topic, partition, file and position."""
    # Return the number of damaged bytes.
    size = 0
    ordered = sorted(damaged, key=lambda item: (*item[0].key, item[1].file, item[1].position))
    with open_writer(sink, SCHEMA, options.compression, options.compression_level) as writer:
        for rows in _row_groups(_rows(ordered)):
            size += sum(len(row[-1] or b"") for row in rows)
            writer.write_table(_table(rows))
    return size


def _table(rows: list[Row]) -> pa.Table:
    if not rows:  # `pa.array` imports pandas
        return pa.Table.from_batches([], SCHEMA)
    columns = zip(*rows, strict=True)
    return pa.Table.from_arrays(
        [pa.array(c, type) for c, type in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA
    )


def _row_groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Divide rows into row groups. There is at least one group, which can be empty."""
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row[-1] or b"")
        if len(group) == GROUP_ROWS or size >= MAX_SPAN_BYTES:
            yield group
            group, size = [], 0
    yield group


def _rows(damaged: Iterable[tuple[PartitionDir, Damage]]) -> Iterator[Row]:
    """Yield the row of each damaged byte range. Each file is opened once."""
    for _, items in itertools.groupby(damaged, lambda item: (item[0].key, item[1].file)):
        file: _DamagedFile | OSError | None = None
        try:
            for directory, damage in items:
                if file is None:
                    file = _opened(directory, damage)
                yield _row(directory, damage, file)
        finally:
            if isinstance(file, _DamagedFile):
                file.view.close()


class _DamagedFile:
    """Reads damaged byte ranges of a file, in the order of their positions. Small ranges are read together."""

    def __init__(self, view: FileView) -> None:
        self.view = view
        self._at = 0
        self._block = b""

    def read(self, position: int, size: int) -> bytes:
        """Return the `size` bytes that start at `position`. The result is shorter if the file ends first."""
        at = position - self._at
        if not 0 <= at <= len(self._block) - size:
            if size >= BLOCK_BYTES or self.view.unreadable:
                return self.view.read(position, size)
            self._at, self._block, at = position, self.view.read(position, BLOCK_BYTES), 0
        return self._block[at : at + size]


def _opened(directory: PartitionDir, damage: Damage) -> _DamagedFile | OSError:
    try:
        return _DamagedFile(FileView(directory.path / damage.file, fill_unreadable=True))
    except OSError as error:
        return error


def _with_zeros(data: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return a copy of `data` in which the given ranges are filled with zeros. Positions outside `data` are ignored."""
    changed = bytearray(data)
    for start, end in spans:
        start, end = max(start, 0), min(end, len(data))
        changed[start:end] = bytes(end - start)
    return bytes(changed)


def _row(directory: PartitionDir, damage: Damage, file: _DamagedFile | OSError) -> Row:
    message, data = damage.message, None if damage.length else b""
    try:
        if not damage.length:
            return _values(directory, damage, message, data)
        if isinstance(file, OSError):
            raise file
        data = file.read(damage.position, min(damage.length, MAX_SPAN_BYTES))
        if inside := overlapping(file.view.unreadable, damage.position, damage.position + len(data)):
            data = _with_zeros(data, [(start - damage.position, end - damage.position) for start, end in inside])
            message += " (the stored bytes contain zeros instead of the bytes that the disk cannot read)"
    except OSError as error:
        message += f" (the damaged bytes could not be stored: {error.strerror})"
    if data is not None and damage.length > len(data):
        message += f" (only the first {len(data)} of {damage.length} damaged bytes were stored)"
    return _values(directory, damage, message, data)


def _values(directory: PartitionDir, damage: Damage, message: str, data: bytes | None) -> Row:
    first, last = damage.first_offset, damage.last_offset
    place = directory.topic, directory.partition, damage.file, damage.position, damage.length
    return (*place, first, last, damage.code, message, data)

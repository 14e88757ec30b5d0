"""Select the byte ranges of a segment to copy, and the places of other batches between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import MAGIC_V2
from ...records import RecordReader
from ...types import BatchTable, Buffer, IntArray, last_offsets
from ..damage import DamageColumns, DamagedSpans, Scratch, Walker
from ..findings import Damage, Joined
from ..storage import SpanCopier
from .span_tables import tables_of


class Restored(NamedTuple):
    """A batch that is not a copy: a marker in place of a lost one, or a rebuilt batch in place of the original."""

    offset: int  # offset in the header of the batch
    data: bytes


def paired(starts: IntArray, ends: IntArray) -> IntArray:
    """Return spans as an array with two columns: `starts` and `ends`."""
    spans = np.empty((len(starts), 2), np.int64)
    spans[:, 0], spans[:, 1] = starts, ends
    return spans


def outside(holes: IntArray, spans: IntArray) -> IntArray:
    """Return the parts of the byte ranges `spans` that are outside the sorted byte ranges `holes`."""
    found = np.empty((len(spans) + len(holes), 2), np.int64)
    return found[: core.spans_outside(holes, spans, found)]


def holes_of(damaged: Sequence[Damage]) -> dict[str, IntArray]:
    """Return the start and end positions of the damage in each file, sorted by position."""
    columns = DamageColumns.of(damaged)
    spans, start = paired(columns.position, columns.end), 0
    found: dict[str, list[IntArray]] = defaultdict(list)
    for part in damaged.parts if isinstance(damaged, Joined) else [damaged]:
        if isinstance(part, DamagedSpans):
            found[part.file].append(spans[start : start + len(part)])
        else:
            for i, damage in enumerate(part, start):
                found[damage.file].append(spans[i : i + 1])
        start += len(part)
    return {file: _sorted(parts) for file, parts in found.items()}


def _sorted(parts: list[IntArray]) -> IntArray:
    """Join arrays of spans, and sort the spans by position."""
    spans = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return spans if len(spans) == 1 else spans[np.lexsort((spans[:, 1], spans[:, 0]))]


def offsets_of(buffer: Buffer, table: BatchTable, max_batch_bytes: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return three arrays: first offset, last offset and number of records of each batch in `table`."""
    # The header of a wrapper message contains only its last offset. To find the first offset, it is decompressed. If it
    # is empty, or contradicts its last inner message, the first offset is set to the last offset + 1.
    firsts, lasts, counts = table["base_offset"].copy(), last_offsets(table), table["count"].astype(np.int64)
    reader = RecordReader(("offset",), max_batch_bytes=max_batch_bytes)
    for i in np.flatnonzero((table["count"] < 0) & (table["magic"] < MAGIC_V2)).tolist():
        inner: list[int] = []
        for _, columns in reader.read(buffer, table[i : i + 1], lambda _, __: None):
            assert columns.offset is not None
            inner += columns.offset[: columns.rows].tolist()
        counts[i] = len(inner)
        # If the inner offsets contradict the wrapper's offset, use the wrapper's offset, as brokers and indexes do.
        firsts[i] = inner[0] if inner and inner[-1] == lasts[i] else lasts[i] + 1
    return firsts, lasts, counts


def bytes_before(
    tables: Iterable[tuple[IntArray, BatchTable]], spans: IntArray, restored: Sequence[Restored]
) -> list[int]:
    """Return, for each restored batch, how many bytes of the byte ranges `spans` are copied before it."""
    sizes = spans[:, 1] - spans[:, 0]
    found = np.full(len(restored), sizes.sum(), np.int64)
    # In each byte range, a byte's position in the copy is its position in the file plus the shift of the range.
    shifts = np.cumsum(sizes) - sizes - spans[:, 0]
    order = np.argsort(spans[:, 0], kind="stable")
    starts, shifts = spans[order, 0], shifts[order]
    offsets, waiting = np.array([batch.offset for batch in restored], np.int64), 0
    for positions, table in tables:
        bases = table["base_offset"]
        stop = waiting + int(np.searchsorted(offsets[waiting:], bases[-1]))
        at = positions[np.searchsorted(bases, offsets[waiting:stop], "right")]
        found[waiting:stop] = at + shifts[np.searchsorted(starts, at, "right") - 1]
        waiting = stop
        if waiting == len(restored):
            break
    counts: list[int] = found.tolist()
    return counts


def insertions(
    walker: Walker, spans: IntArray, restored: Sequence[Restored], copier: SpanCopier
) -> list[tuple[int, bytes]]:
    """Return each restored batch, and how many bytes of `spans` are copied before it. `copier` reads small byte ranges."""
    if not restored:
        return []
    places = bytes_before(tables_of(walker, spans, copier, Scratch()), spans, restored)
    return [(place, batch.data) for place, batch in zip(places, restored, strict=True)]

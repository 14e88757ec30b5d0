"""Write offsets and leader epochs into batches in place.

In magic 2, the CRC does not cover the base offset and the leader epoch. Therefore, the CRC of a
changed batch remains valid.
"""

from __future__ import annotations

import itertools

from ..constants import ENTRY_OVERHEAD, MAGIC_END, MAGIC_V2, MAX_OFFSET
from ..types import BatchTable, Buffer
from .batch import INT32, INT64
from .varint import view_of


def writable(buffer: Buffer) -> memoryview:
    view = view_of(buffer)
    if view.readonly:
        raise ValueError("a C-contiguous writable array is needed")
    return view


def positions_of(view: memoryview, batches: BatchTable) -> list[int]:
    positions: list[int] = batches["position"].tolist()
    for i, position in enumerate(positions):
        if not 0 <= position <= len(view) - MAGIC_END:
            raise ValueError(f"the batch in row {i} of the table is outside the buffer")
    return positions


def write_offsets(buffer: Buffer, batches: BatchTable) -> None:
    view = writable(buffer)
    columns = (batches[name].tolist() for name in ("base_offset", "leader_epoch", "magic"))
    for position, base_offset, leader_epoch, magic in zip(positions_of(view, batches), *columns, strict=True):
        INT64.pack_into(view, position, base_offset)
        if magic == MAGIC_V2:
            INT32.pack_into(view, position + ENTRY_OVERHEAD, leader_epoch)


def check_numbers(next_offset: int, leader_epoch: int | None) -> None:
    if next_offset < 0:
        raise ValueError(f"next_offset is {next_offset}; it cannot be negative")
    if next_offset > MAX_OFFSET or (leader_epoch is not None and not -(2**31) <= leader_epoch < 2**31):
        raise OverflowError(f"next_offset {next_offset} or leader epoch {leader_epoch} does not fit into its field")


def number_batches(buffer: Buffer, batches: BatchTable, next_offset: int, leader_epoch: int | None = None) -> int:
    view = writable(buffer)
    check_numbers(next_offset, leader_epoch)
    starts: list[int]
    deltas, counts, magics = (batches[name].tolist() for name in ("last_offset_delta", "count", "magic"))
    starts = list(itertools.accumulate((delta + 1 for delta in deltas), initial=next_offset))
    positions = positions_of(view, batches)
    for i, (delta, end) in enumerate(zip(deltas, starts[1:], strict=True)):
        if delta < 0 or end > MAX_OFFSET:
            raise ValueError(
                f"the batch in row {i} of the table is outside the buffer, or its offsets do not fit into 64 bits"
            )
    for i, position in enumerate(positions):
        INT64.pack_into(view, position, starts[i] + deltas[i] if counts[i] < 0 else starts[i])
        if leader_epoch is not None and magics[i] == MAGIC_V2:
            INT32.pack_into(view, position + ENTRY_OVERHEAD, leader_epoch)
    return starts[-1]

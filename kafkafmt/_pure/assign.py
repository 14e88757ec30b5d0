"""Offsets and leader epochs written into batches where they lie: the fields that no CRC of format 2 covers."""

from __future__ import annotations

from ..constants import ENTRY_OVERHEAD, MAGIC_END, MAGIC_V2
from ..types import BatchTable, Buffer
from .batch import INT32, INT64
from .varint import view_of


def write_offsets(buffer: Buffer, batches: BatchTable) -> None:
    view = view_of(buffer)
    if view.readonly:
        raise ValueError("a C-contiguous writable array is needed")
    columns = (batches[name].tolist() for name in ("position", "base_offset", "leader_epoch", "magic"))
    rows = list(zip(*columns, strict=True))
    for i, (position, *_) in enumerate(rows):
        if not 0 <= position <= len(view) - MAGIC_END:
            raise ValueError(f"row {i} of the table: its batch does not lie in the buffer")
    for position, base_offset, leader_epoch, magic in rows:
        INT64.pack_into(view, position, base_offset)
        if magic == MAGIC_V2:
            INT32.pack_into(view, position + ENTRY_OVERHEAD, leader_epoch)

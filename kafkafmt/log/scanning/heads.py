"""Read batch headers without reading whole batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    ENTRY_OVERHEAD,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_V2,
    MIN_LEGACY_LENGTH,
)
from ...errors import KafkaFormatError, StructureError, TruncatedError
from ...types import BATCH_DTYPE, TABLE_ROWS, last_offsets
from ..storage import FileView, aligned_buffer

GROWTH = 4  # each read of batch headers is this many times as large as the previous one, up to a limit
HEADERS_READ = 64 << 10
"""Smallest number of bytes that are read at once for headers. Only larger batches can be skipped."""
MAX_HEADERS_READ = 1 << 20


class Reached(NamedTuple):
    """Result of `reach`: the position of a batch, and the position and last offset of the previous batch."""

    position: int
    last: int
    before: int  # the found batch if there is no previous batch


def reach(view: FileView, offset: int, position: int, end: int, last: int, gaps: bool = True) -> Reached | None:
    """Search for the first batch at or after `position` that contains `offset` or a later offset."""
    # CRCs are not checked. A batch must begin at `position`, after one whose last offset is `last`. None: a header is
    # damaged, the offsets do not increase, or offsets are missing and `gaps` is False.
    buffer, table = aligned_buffer(MAX_HEADERS_READ), np.empty(TABLE_ROWS, BATCH_DTYPE)
    step, before = HEADERS_READ, position
    while position < end:
        got = view.read_into(buffer[: min(step, len(buffer), end - position)], position)
        scan = core.scan_batches(buffer, table, 0, got, False)
        if view.unreadable or (scan.error is not None and not scan.count):
            return None
        if scan.count:
            rows = table[: scan.count]
            starts, firsts, consumed = rows["position"], rows["base_offset"], scan.position
            lasts = last_offsets(rows)
        else:  # the batch is longer than the bytes that were read
            try:
                first, reached, consumed = read_head(view, position)
            except KafkaFormatError:
                return None
            starts, firsts, lasts = (np.array([n]) for n in (0, first, reached))
        n = int(np.argmax(lasts >= offset)) if (lasts >= offset).any() else len(lasts)
        befores = np.concatenate(([last], lasts))
        wrong = (firsts <= befores[:-1]) | (lasts < firsts)
        if not gaps:
            wrong |= firsts != befores[:-1] + 1
        if wrong[: n + 1].any():
            return None
        last = int(befores[n])
        before = position + int(starts[n - 1]) if n else before
        if n < len(lasts):
            return Reached(position + int(starts[n]), last, before)
        position += consumed
        step = min(step * GROWTH, MAX_HEADERS_READ) if scan.count else HEADERS_READ
    return Reached(position, last, before)


def read_head(view: FileView, position: int) -> tuple[int, int, int]:
    """Read a batch header, and return the first offset, the last offset and the size in bytes of the batch."""
    # The header of a wrapper message contains only its last offset, which is returned twice.
    head = view.read(position, BATCH_HEADER_SIZE)
    if view.is_filler(position, position + len(head)):
        raise StructureError("the disk cannot read the batch header at this position", position)
    size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True) + ENTRY_OVERHEAD
    if len(head) <= MAGIC_AT or size > view.size - position:
        raise TruncatedError("the file ends inside a batch", position)
    if size < MIN_LEGACY_LENGTH + ENTRY_OVERHEAD or not 0 <= head[MAGIC_AT] <= MAGIC_V2:
        raise StructureError("there is no batch at this position, because the size or magic is impossible", position)
    base = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
    delta = (
        int.from_bytes(head[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4], "big", signed=True)
        if head[MAGIC_AT] == MAGIC_V2
        else 0
    )
    return base, base + max(delta, 0), size

"""Read the batches of an offset range without reading the whole segment.

The first batch is found by reading batch headers only. Batches are accepted only if their CRCs
match and their offsets are consistent.
"""

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
    MAX_OFFSET,
    MAX_RELATIVE_OFFSET,
    MIN_LEGACY_LENGTH,
)
from ...errors import KafkaFormatError, StructureError, TruncatedError
from ...types import BATCH_DTYPE, last_offsets
from ..format.file_view import FileView, aligned_buffer
from .part_builder import TABLE_ROWS
from .parts import Run
from .segment_stats import total
from .segment_tables import GROWTH
from .segment_walker import Walker

HEADERS_READ = 64 << 10
"""Smallest number of bytes that are read at once if only batch headers are needed. Only larger
batches can be skipped without being read completely.
"""
MAX_HEADERS_READ = 1 << 20


class Reached(NamedTuple):
    """Result of the function `reach`: the position of a batch, and the position and last offset of the previous batch.

    Attributes
    ----------
    position : int
        Position of the found batch, in bytes.
    last : int
        Last offset of the previous batch.
    before : int
        Position of the previous batch, or of the found batch if there is no previous batch.
    """

    position: int
    last: int
    before: int


def reach(view: FileView, offset: int, position: int, end: int, last: int, gaps: bool = True) -> Reached | None:
    """Search for the first batch at or after `position` that contains `offset` or a later offset.

    Only batch headers are read, and CRCs are not checked.

    Parameters
    ----------
    offset : int
        The offset to search for.
    position, end : int
        Start and end of the byte range to search. A batch must begin at `position`.
    last : int
        Last offset of the batch before `position`.
    gaps : bool, default True
        Whether offsets may be missing between two batches.

    Returns
    -------
    Reached or None
        None if a header is damaged, if the offsets do not increase, or if offsets are missing and
        `gaps` is False.
    """
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


def sound_runs(walker: Walker, position: int, start: int, end: int, gaps: bool = False) -> list[Run] | None:
    """Read and check the batches with offsets in [start, end). The first batch is at the file position `position`.

    The batches may begin before `start` and end after `end`. If the file ends before offset `end`,
    all batches up to the end of the file are read.

    Parameters
    ----------
    position : int
        Position of the first batch, in bytes.
    start, end : int
        Offsets; `end` is exclusive.
    gaps : bool, default False
        Whether offsets may be missing between two batches.

    Returns
    -------
    list of Run or None
        Ranges of adjacent batches. None if a batch is damaged, if offsets are missing and `gaps` is
        False, or if the header of the next batch contradicts the offsets.
    """
    runs: list[Run] = []
    for at, _, rows, error in walker.tables(position, walker.size):
        if ((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).any():
            return None  # the offsets of wrapper messages can be checked only if the whole segment is read
        for part in walker.runs(rows, at, cut_gaps=True) if len(rows) else []:
            expected = runs[-1].last_offset + 1 if runs else min(start, part.first_offset)
            follows = part.dense and part.first_offset == expected
            if (
                part.first_offset < max(expected, walker.base_offset)
                or not (follows or gaps)
                or part.last_offset == MAX_OFFSET
                or part.last_offset - (expected or part.first_offset) > MAX_RELATIVE_OFFSET
            ):
                return None
            if runs and part.end - runs[-1].position <= walker.run_bytes:
                runs[-1].dense = runs[-1].dense and follows
                runs[-1].end, runs[-1].last_offset = part.end, part.last_offset
                runs[-1].batches += part.batches
                runs[-1].records = total(runs[-1].records, part.records)
            else:
                runs.append(part)
            if part.last_offset + 1 >= end:
                sure = follows and (gaps or part.batches > 1 or runs[0] is not part)
                return None if _contradicted(walker.view, part, sure, gaps) else runs
        if error is not None:
            return None
    return runs


def _contradicted(view: FileView, run: Run, sure: bool, gaps: bool) -> bool:
    """Return whether the next batch header shows that the last offsets in `run` are wrong.

    `sure` is True if the offsets of the last batch in `run` agree with the preceding batch.
    """
    if run.end == view.size:
        return False
    try:
        first, _, _ = read_head(view, run.end)
    except KafkaFormatError:
        return not sure
    return first <= run.last_offset or not (sure or gaps or first == run.last_offset + 1)


def read_head(view: FileView, position: int) -> tuple[int, int, int]:
    """Read a batch header, and return the first offset, the last offset and the size in bytes of the batch.

    The header of a wrapper message contains only its last offset. For a wrapper message, the last
    offset is returned as the first offset too.
    """
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

"""A range of a segment without the rest of it: where it begins, by headers alone, and whether it is sound by itself."""

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
    MIN_LEGACY_LENGTH,
)
from ...errors import KafkaFormatError, StructureError, TruncatedError
from ...types import BATCH_DTYPE, last_offsets
from ..format.files import FileView, aligned_buffer
from .segment_walker import GROWTH, TABLE_ROWS, Run, Walker, total

HEADERS_READ = 64 << 10
"""What is read at least where headers alone are wanted: only a batch that is longer is jumped over."""
MAX_HEADERS_READ = 1 << 20


class Reached(NamedTuple):
    """Where a batch begins, the last offset in front of it, and where the batch in front of it begins (or itself, if it is the first)."""

    position: int
    last: int
    before: int


def reach(view: FileView, offset: int, position: int, end: int, last: int, gaps: bool = True) -> Reached | None:
    """The first batch from `position` on that reaches an offset, told by headers alone: no CRC is checked.

    last: the last offset in front of `position`. None where the headers lead to no batch's, or the offsets do not rise, or
    (without `gaps`) leave one out.
    """
    buffer, table = aligned_buffer(MAX_HEADERS_READ), np.empty(TABLE_ROWS, BATCH_DTYPE)
    step, before = HEADERS_READ, position
    while position < end:
        got = view.read_into(buffer[: min(step, len(buffer), end - position)], position)
        scan = core.scan_batches(buffer, table, 0, got, False)
        if scan.error is not None and not scan.count:
            return None
        if scan.count:
            rows = table[: scan.count]
            starts, firsts, consumed = rows["position"], rows["base_offset"], scan.position
            lasts = last_offsets(rows)
        else:  # a batch that is longer than what was read
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
    """Runs from a position on that reach from `start` to `end` or the end of the file, sound and (unless `gaps` are no wonder) gapless.

    None where they do not, or where the next header's offset contradicts them. They may begin before `start` and end behind
    `end`.
    """
    runs: list[Run] = []
    for at, _, rows, error in walker.tables(position, walker.size):
        if ((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).any():
            return None  # only the plan of the whole segment compares the offsets of wrapper messages with what they contain
        for part in walker.runs(rows, at, cut_gaps=True) if len(rows) else []:
            expected = runs[-1].last_offset + 1 if runs else min(start, part.first_offset)
            follows = part.dense and part.first_offset == expected
            if (
                part.first_offset < max(expected, walker.base_offset)
                or not (follows or gaps)
                or part.last_offset == MAX_OFFSET
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
    """Does the header behind a run say that the run's own offsets are wrong? sure: the batch before it has said that they are right."""
    if run.end == view.size:
        return False
    try:
        first, _, _ = read_head(view, run.end)
    except KafkaFormatError:
        return not sure
    return first <= run.last_offset or not (sure or gaps or first == run.last_offset + 1)


def read_head(view: FileView, position: int) -> tuple[int, int, int]:
    """First offset (of a wrapper message: its last), last offset and size of a batch, by its header."""
    head = view.read(position, BATCH_HEADER_SIZE)
    size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True) + ENTRY_OVERHEAD
    if len(head) <= MAGIC_AT or size > view.size - position:
        raise TruncatedError("the file ends inside a batch", position)
    if size < MIN_LEGACY_LENGTH + ENTRY_OVERHEAD or not 0 <= head[MAGIC_AT] <= MAGIC_V2:
        raise StructureError("no batch can be told from what stands here", position)
    base = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
    delta = (
        int.from_bytes(head[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4], "big", signed=True)
        if head[MAGIC_AT] == MAGIC_V2
        else 0
    )
    return base, base + max(delta, 0), size

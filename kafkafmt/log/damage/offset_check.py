"""Find batches whose offset fields are wrong although the CRC matches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from ...records.wrappers import InnerMessages
from ...types import BatchSummary, BatchTable, Buffer, IntArray
from .known_wrappers import KnownWrappers, wrappers_of
from .parts import DELTA_PROBLEM, PROBLEM_CODES, WRAPPER_PROBLEM, Bad, problem_message


def split_at_wrong_offsets(
    known: KnownWrappers, start: int, buffer: Buffer, table: BatchTable, summary: BatchSummary
) -> Iterator[tuple[BatchTable, IntArray, Bad | None]]:
    """Divide batch headers into groups. Each batch with inconsistent offset fields separates two groups."""
    # Yield for each group the headers, the first offsets, and a `Bad` for the batch after it (None at the end). A
    # negative last offset delta is inconsistent, as are inner messages whose offsets do not increase, or whose last
    # offset is not that of the wrapper message.
    firsts = table["base_offset"]
    if not (summary.wrappers or summary.negative_delta):  # usually, all offsets are correct
        yield table, firsts, None
        return
    wrappers = wrappers_of(table)
    # The `Bad` objects are created one by one, because the caller often stops at the first one.
    negative = np.flatnonzero(table["last_offset_delta"] < 0).tolist()
    bads = [(at, partial(_negative_delta, table, at, start)) for at in negative]
    if len(wrappers):
        firsts = firsts.copy()
        inner = known.inner(start, buffer, table.take(wrappers))
        firsts[wrappers] = inner.first
        wrong = np.flatnonzero((inner.last != table["base_offset"][wrappers]) | (inner.first > inner.last))
        for i, at in zip(wrong.tolist(), wrappers[wrong].tolist(), strict=True):
            bads.append((at, partial(_contradicted_wrapper, table, at, start, inner, i)))
        bads.sort(key=itemgetter(0))
    begin = 0
    for at, bad in bads:
        yield table[begin:at], firsts[begin:at], bad()
        begin = at + 1
    yield table[begin:], firsts[begin:], None


def _contradicted_wrapper(table: BatchTable, at: int, start: int, inner: InnerMessages, i: int) -> Bad:
    """Describe the damage of a wrapper message whose offset contradicts its inner messages."""
    row: Any = table[at]
    position, offset = start + int(row["position"]), int(row["base_offset"])
    message = problem_message(WRAPPER_PROBLEM, offset, int(inner.last[i]))
    end = position + int(row["size"])
    return Bad(position, end, PROBLEM_CODES[WRAPPER_PROBLEM], message, int(inner.count[i]))


def _negative_delta(table: BatchTable, at: int, start: int) -> Bad:
    """Describe the damage of a batch whose last offset delta is negative."""
    row: Any = table[at]
    position, first, delta = start + int(row["position"]), int(row["base_offset"]), int(row["last_offset_delta"])
    message = problem_message(DELTA_PROBLEM, first, delta)
    return Bad(position, position + int(row["size"]), PROBLEM_CODES[DELTA_PROBLEM], message)

"""Read the headers of the batches in many ranges of adjacent batches, with one read call for ranges that are close together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...types import BATCH_DTYPE, TABLE_ROWS, BatchTable, Buffer, IntArray
from ..format.file_view import aligned_buffer
from .parts import RunColumns
from .segment_tables import TableReader

WINDOW_BYTES = 1 << 20


class RangeBatches(NamedTuple):
    """Batches of one or more ranges that are in one buffer. They are valid until the next ones are read.

    Attributes
    ----------
    start : int
        File position of the first byte of the buffer.
    buffer : bytes-like
        The bytes of the batches.
    table : BatchTable
        The batch headers, with positions in the buffer.
    ranges : array of int64
        For each batch, the index of its range.
    """

    start: int
    buffer: Buffer
    table: BatchTable
    ranges: IntArray


def batches_of(reader: TableReader, runs: RunColumns) -> Iterator[RangeBatches]:
    """Yield the batches of the given ranges. The ranges must be sorted by position, and must not overlap.

    If the bytes of a range have changed since they were checked, only its valid batches up to the
    first damaged batch are returned.
    """
    view = reader.view
    buffer = aligned_buffer(min(WINDOW_BYTES, max(view.size, 1)))
    table = np.empty(TABLE_ROWS, BATCH_DTYPE)
    columns = runs.as_extents()
    k = 0
    while k < len(runs):
        start = int(columns[k, 0])
        near = columns[k : k + TABLE_ROWS]
        near = near[: int(np.searchsorted(near[:, 1], start + len(buffer), "right"))].copy()
        n = 0
        if len(near):
            near[:, :2] -= start
            got = view.read_into(buffer[: int(near[-1, 1])], start)
            n, count = core.scan_extents(buffer[:got], table, near)
        if n:
            yield RangeBatches(start, buffer, table[:count], np.repeat(np.arange(k, k + n), near[:n, 2]))
        else:
            for at, data, rows, _ in reader.tables(start, int(columns[k, 1])):
                yield RangeBatches(at, data, rows, np.full(len(rows), k))
        k += max(n, 1)

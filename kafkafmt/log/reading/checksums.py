"""Compute CRCs of spans of a file in time that is linear in its size, also for batches that extend
beyond the bytes read.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import (
    CRC_AT,
    CRC_START,
    ENTRY_OVERHEAD,
    LEGACY_CRC_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_V2,
)
from ...types import IntArray
from ..format.files import FileView

STEP = 1 << 12
"""Distance of the positions for which CRCs are kept, in bytes. The CRC of a shorter span is
computed directly.
"""
FEW = 8
"""Number of batches with the same end below which scalar arithmetic is faster than a table."""


class SpanCrcs:
    """CRCs of spans of one open file. For long spans, each byte of the file is read and summed once."""

    def __init__(self, view: FileView) -> None:
        self.view = view
        self.bytes_summed: int = 0
        self._start = 0
        self._known: dict[bool, list[int]] = {True: [0], False: [0]}

    def span(self, castagnoli: bool, start: int, end: int) -> int:
        """Return the CRC-32C (`castagnoli`) or CRC-32 of the bytes in [start, end)."""
        if end - start <= STEP:
            return self.update(castagnoli, start, end)
        if not self._start <= start <= self._start + max(map(len, self._known.values())) * STEP:
            self._start = start
            self._known = {True: [0], False: [0]}
        rest = core.crc32c_of_rest if castagnoli else core.crc32_of_rest
        crc: int = rest(self._prefix(castagnoli, end), self._prefix(castagnoli, start), end - start)
        return crc

    def _prefix(self, castagnoli: bool, end: int) -> int:
        crcs = self._known[castagnoli]
        steps = (end - self._start) // STEP
        while len(crcs) <= steps:
            at = self._start + (len(crcs) - 1) * STEP
            crcs.append(self.update(castagnoli, at, at + STEP, crcs[-1]))
        return self.update(castagnoli, self._start + steps * STEP, end, crcs[steps])

    def update(self, castagnoli: bool, start: int, end: int, value: int = 0) -> int:
        """Return the CRC of bytes whose CRC is `value`, followed by the bytes of the file in
        [start, end).
        """
        self.bytes_summed += end - start
        return (self.view.crc32c if castagnoli else self.view.crc32)(start, end, value)

    def valid(self, size: int, window: npt.NDArray[np.uint8], window_at: int, beyond: IntArray) -> list[int]:
        """Return the positions of the batches in `beyond` that are valid.

        Parameters
        ----------
        size : int
            Size of the file, in bytes. A batch that claims to end after it is not valid.
        window : array of uint8
            Bytes of the file that hold the headers.
        window_at : int
            Position of the window in the file.
        beyond : array of int64, shape (n, 2)
            Positions in the window of headers whose batches end after it, and CRCs up to the
            window's end, from `core.find_batches`.
        """
        starts = beyond[:, 0]
        ends = starts + window_at + ENTRY_OVERHEAD + _int32(window, starts + LENGTH_AT)
        fits = ends <= size
        if not fits.any():
            return []
        order = np.argsort(ends[fits], kind="stable")
        starts, ends, crcs = starts[fits][order], ends[fits][order], beyond[fits, 1][order]
        window_end = window_at + len(window)
        found: list[int] = []
        for castagnoli in (True, False):
            rows = np.flatnonzero((window[starts + MAGIC_AT] == MAGIC_V2) == castagnoli)
            if not len(rows):
                continue
            stored = _int32(window, starts[rows] + (CRC_AT if castagnoli else LEGACY_CRC_AT)) & 0xFFFFFFFF
            borders = np.flatnonzero(np.diff(ends[rows], prepend=-1, append=-1)).tolist()
            for a, b in itertools.pairwise(borders):  # one group for each position at which batches end
                end = int(ends[rows[a]])
                moved = _append(castagnoli, crcs[rows[a:b]], self.span(castagnoli, window_end, end), end - window_end)
                found += (starts[rows[a:b]][moved == stored[a:b]] + window_at).tolist()
        return sorted(found)


def crc_covers(position: int, magic: int) -> int:
    """Return the position of the first byte that the crc field of the batch at `position` covers."""
    return position + (CRC_START if magic == MAGIC_V2 else MAGIC_AT)


def _append(castagnoli: bool, crcs: IntArray, rest: int, size: int) -> IntArray:
    """Return the CRCs of data with the CRCs `crcs`, each followed by the same `size` bytes with the
    CRC `rest`.
    """
    append = core.crc32c_of_rest if castagnoli else core.crc32_of_rest
    if len(crcs) < FEW:
        return np.array([append(rest, crc, size) for crc in crcs.tolist()], np.int64)
    result = np.full(len(crcs), rest, np.int64)  # the formula is linear in the CRC: one table for each of its bytes
    for shift in range(0, 32, 8):
        table = np.zeros(256, np.int64)
        for bit in range(8):
            table[1 << bit : 2 << bit] = table[: 1 << bit] ^ append(0, 1 << (shift + bit), size)
        result ^= table[crcs >> shift & 0xFF]
    return result


def _int32(window: npt.NDArray[np.uint8], positions: IntArray) -> IntArray:
    """Return the big-endian int32 at each position."""
    high = window[positions].astype(np.int8).astype(np.int64) << 24
    return (
        high
        | window[positions + 1].astype(np.int64) << 16
        | window[positions + 2].astype(np.int64) << 8
        | window[positions + 3]
    )

"""Compute CRCs of many byte ranges of a file. The total time is linear in the size of the file.

The CRC of a long byte range is computed from two other CRCs. Both begin at the same earlier
position. One ends at the start of the byte range, and the other at its end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import CRC_AT, CRC_START, ENTRY_OVERHEAD, LEGACY_CRC_AT, LENGTH_AT, MAGIC_AT, MAGIC_V2
from ...types import IntArray
from ..storage import FileView

STEP = 1 << 12  # Distance in bytes between the cached CRCs. The CRC of a shorter range is computed directly.
BLOCK = 1 << 18  # largest number of bytes that are read at once to fill a cache


class _Prefixes:
    """CRCs of byte ranges that start at one fixed position of a file and have a multiple of STEP bytes."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.known: dict[bool, list[int]] = {True: [0], False: [0]}

    def near(self, position: int) -> bool:
        """Return whether `position` is not before `start`, and at most STEP bytes after the longest byte range."""
        return self.start <= position <= self.start + max(map(len, self.known.values())) * STEP


class SpanCrcs:
    """Computes CRCs of byte ranges of one open file."""

    # The CRC of any long byte range is computed from two cached CRCs, so overlapping ones are read only once. A search
    # alternates between the damaged batch and batches that end after the bytes in memory. With only one cache, each
    # change of the place would discard the cached CRCs.

    def __init__(self, view: FileView) -> None:
        self.view = view
        self.bytes_summed: int = 0
        self._caches = [_Prefixes(0), _Prefixes(0)]  # the cache that was used last is the first one

    def span(self, castagnoli: bool, start: int, end: int) -> int:
        """Return the CRC-32C (`castagnoli`) or CRC-32 of the bytes [start, end)."""
        if end - start <= STEP:
            return self.update(castagnoli, start, end)
        latest, other = self._caches
        if not latest.near(start):
            latest, other = other if other.near(start) else _Prefixes(start), latest
            self._caches = [latest, other]
        rest = core.crc32c_of_rest if castagnoli else core.crc32_of_rest
        whole, before = (self._prefix(latest, castagnoli, at) for at in (end, start))
        crc: int = rest(whole, before, end - start)
        return crc

    def _prefix(self, cache: _Prefixes, castagnoli: bool, end: int) -> int:
        crcs = cache.known[castagnoli]
        steps = (end - cache.start) // STEP
        compute = core.crc32c if castagnoli else core.crc32
        while len(crcs) <= steps:
            block = self.view.read(cache.start + (len(crcs) - 1) * STEP, min((steps + 1 - len(crcs)) * STEP, BLOCK))
            self.bytes_summed += len(block)
            for at in range(0, max(len(block), 1), STEP):
                crcs.append(compute(block, crcs[-1], at, min(at + STEP, len(block))))
        return self.update(castagnoli, cache.start + steps * STEP, end, crcs[steps])

    def update(self, castagnoli: bool, start: int, end: int, value: int = 0) -> int:
        """Update the CRC `value` with the bytes [start, end) of the file, and return the new CRC."""
        self.bytes_summed += end - start
        return (self.view.crc32c if castagnoli else self.view.crc32)(start, end, value)

    def valid(self, size: int, window: npt.NDArray[np.uint8], window_at: int, beyond: IntArray) -> list[int]:
        """Check the CRCs of batches that are only partly in `window`. Return the positions of the valid ones."""
        # `beyond` (`core.find_batches`) is the position in the window, and the CRC up to its end.
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
            if len(rows):
                stored = _int32(window, starts[rows] + (CRC_AT if castagnoli else LEGACY_CRC_AT)) & 0xFFFFFFFF
                valid = self._continued(castagnoli, crcs[rows], window_end, ends[rows]) == stored
                found += (starts[rows][valid] + window_at).tolist()
        return sorted(found)

    def _continued(self, castagnoli: bool, crcs: IntArray, start: int, ends: IntArray) -> IntArray:
        """Return the CRCs of byte ranges up to the sorted positions `ends`; `crcs` are those up to `start`."""
        # If the file has been truncated, the CRC is -1.
        result = np.full(len(ends), -1, np.int64)
        far = [*(np.flatnonzero(np.diff(ends) > STEP) + 1).tolist(), len(ends)]
        i = 0
        for stop in far:
            while i < stop:
                first = int(ends[i])
                j = min(stop, int(np.searchsorted(ends, first + BLOCK, "right")))
                value, data = self.span(castagnoli, start, first), self.view.read(first, int(ends[j - 1]) - first)
                self.bytes_summed += len(data)
                if first + len(data) >= ends[j - 1]:
                    result[i:j] = crcs[i:j]
                    core.append_crcs(castagnoli, data, value, first - start, ends[i:j] - first, result[i:j])
                i = j
        return result


def crc_covers(position: int, magic: int) -> int:
    """Return the position of the first byte that is covered by the CRC of the batch at `position`."""
    return position + (CRC_START if magic == MAGIC_V2 else MAGIC_AT)


def _int32(window: npt.NDArray[np.uint8], positions: IntArray) -> IntArray:
    """Decode the big-endian int32 at each position."""
    high = window[positions].astype(np.int8).astype(np.int64) << 24
    return (
        high
        | window[positions + 1].astype(np.int64) << 16
        | window[positions + 2].astype(np.int64) << 8
        | window[positions + 3]
    )

"""Search a file for batches whose CRC matches. A batch can begin at any byte position.

Each byte of the file is searched once, and each CRC is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CRC_AT,
    ENTRY_OVERHEAD,
    LEGACY_CRC_AT,
    LENGTH_AT,
    MAGIC_END,
    MAGIC_V2,
    MIN_LEGACY_LENGTH,
    MIN_LENGTHS,
)
from ...types import IntArray
from ..scanning import Head
from ..storage import FileView, end_of_content
from .checksums import STEP, SpanCrcs, crc_covers

FIRST_WINDOW = 1 << 16  # number of bytes that are read into memory for the first step of a search
LARGEST_WINDOW = 1 << 20  # limit up to which FIRST_WINDOW doubles as long as the steps of a search are contiguous
OVERLAP = 1 << 15  # bytes that are kept of the previous step, so that damaged and next batches are in memory together
NEAR = 1 << 12  # the bytes between the headers of two batches that are closer are read too, for fewer reads
ROWS = 1 << 16


class Window:
    """A byte range of a file that is kept in memory."""

    def __init__(self) -> None:
        self.at = 0
        self.length = 0  # number of new bytes, which were not yet in memory before the last read
        self.data: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    @property
    def end(self) -> int:
        """Position in the file after the last byte of `data`."""
        return self.at + len(self.data)


class BatchFinder:
    """Finds batches in an open file at any byte position, by their CRCs."""

    def __init__(self, view: FileView) -> None:
        self.view = view
        self.size: int = view.size
        self.crcs: SpanCrcs = SpanCrcs(view)
        self.bytes_scanned: int = 0
        self._scanned, self._looked = Window(), Window()
        self._from = self._to = self._lowest = 0
        self._found = np.empty(0, np.int64)
        self._n_found = 0
        self._first = 0  # index in `_found` of the first file position that is at least `_from`
        self._zero_tail: int | None = None

    @cached_property
    def _rows(self) -> IntArray:
        return np.empty(ROWS, np.int64)

    @cached_property
    def _beyond(self) -> IntArray:
        return np.empty((ROWS, 2), np.int64)

    def find(self, start: int, end: int) -> Iterator[int]:
        """Yield the file positions in [start, end) at which a batch with a matching CRC begins."""
        if not self._from <= start <= self._to:
            self._from = self._to = start
            self._first = self._n_found = 0
        self._from = start
        self._first = self._index_of(start)
        yield from self._later(start, end)

    def _later(self, start: int, end: int) -> Iterator[int]:
        """Yield the positions that `find` yields, from `start` on, not below that of the last call of `find`."""
        while self._to < start:
            self._scan_on(start)
        i = self._index_of(start) - self._first
        while True:
            while self._first + i < self._n_found:
                at = int(self._found[self._first + i])
                if at >= end:
                    return
                yield at
                i += 1
            if self._to >= min(end, self.size):
                return
            self._scan_on(end)

    def _index_of(self, position: int) -> int:
        """Return the index in `_found` of the first file position that is at least `position`."""
        return self._first + int(np.searchsorted(self._found[self._first : self._n_found], position))

    def _scan_on(self, end: int) -> None:
        """Continue the search up to `end`, or up to the end of the bytes in memory."""
        start, window = self._to, self._scanned
        kept = start - max(self._from, start - OVERLAP, window.at) if window.at <= start <= window.end else 0
        self._around(window, start, BATCH_HEADER_SIZE, kept)
        if start >= window.end:
            self._to = max(end, start)
            return
        stop = len(window.data) if window.end == self.size else len(window.data) - BATCH_HEADER_SIZE + 1
        stop = min(stop, end - window.at)
        n, n_beyond, at = core.find_batches(
            window.data, self._rows, self._beyond, start - window.at, stop, self._lowest
        )
        found = self._rows[:n] + window.at
        if n_beyond and (more := self.crcs.valid(self.size, window.data, window.at, self._beyond[:n_beyond])):
            found = np.sort(np.concatenate((found, np.array(more, np.int64))))
        self._keep(found)
        self._to = window.at + at
        self.bytes_scanned += self._to - start

    def _keep(self, found: IntArray) -> None:
        n = self._n_found + len(found)
        if n > len(self._found):
            kept = self._found[self._first : self._n_found]
            n = len(kept) + len(found)
            larger = np.empty(max(2 * n, ROWS), np.int64)
            larger[: len(kept)] = kept
            self._found, self._first = larger, 0
        self._found[n - len(found) : n] = found
        self._n_found = n

    def valid(self, position: int) -> bool:
        """Return whether a complete batch or message with a matching CRC begins at `position`."""
        if self._from <= position < self._to:
            i = self._index_of(position)
            return i < self._n_found and int(self._found[i]) == position
        head = Head(position, self.head(position))
        if (
            len(head.data) < MAGIC_END
            or head.magic > MAGIC_V2
            or head.length < MIN_LENGTHS[head.magic]
            or head.end > self.size
        ):
            return False
        return OwnCrc(self, head).matches(head.end)

    def _around(self, window: Window, position: int, size: int, kept: int = 0) -> None:
        """Read a part of the file into `window`, so that it contains the `size` bytes at `position`."""
        # If they are not there yet, the `kept` bytes before are read too. `window` can end at the end of the file.
        if window.at <= position and min(position + size, self.size) <= window.end:
            return
        follows = window.at <= position <= window.end
        length = 8 + max(size, min(2 * window.length, LARGEST_WINDOW) if follows else FIRST_WINDOW)
        start = max(position - 8, 0)
        window.at = min(start, max(position - kept, 0))
        window.data = np.frombuffer(self.view.read(window.at, start + length - window.at), np.uint8)
        window.length = window.end - start
        if window.length < min(length, self.size - start):
            self.size = window.end  # the file has been truncated since it was opened

    def _bytes(self, position: int, size: int) -> bytes:
        """Return the `size` bytes at `position`. If they are already in memory, the file is not read."""
        for window in (self._scanned, self._looked):
            at = position - window.at
            if 0 <= at and at + size <= len(window.data):
                return window.data[at : at + size].tobytes()
        return self.view.read(position, size)

    def offsets_of(self, positions: Iterable[int]) -> Iterator[int]:
        """Yield the offset field of each batch at the ascending `positions`."""
        previous = -NEAR
        for at in positions:
            if at - previous < NEAR and not self._scanned.at <= at <= self._scanned.end - LENGTH_AT:
                self._around(self._looked, at, LENGTH_AT)  # Reading many headers at once needs fewer system calls.
            previous = at
            yield int.from_bytes(self._bytes(at, LENGTH_AT), "big", signed=True)

    def head(self, position: int) -> bytes:
        """Read the 61 bytes of a batch header at `position`, or fewer at the end of the file."""
        return self._bytes(position, min(BATCH_HEADER_SIZE, max(self.size - position, 0)))

    def update_crc(self, castagnoli: bool, start: int, end: int, value: int) -> int:
        """Update the CRC `value` with the bytes [start, end) of the file, and return the new CRC."""
        size = end - start
        for window in (self._scanned, self._looked):
            at = start - window.at
            if 0 <= at and at + size <= len(window.data):
                self.crcs.bytes_summed += size
                crc: int = (core.crc32c if castagnoli else core.crc32)(window.data, value, at, at + size)
                return crc
        return self.crcs.update(castagnoli, start, end, value)

    def zero_tail(self) -> int:
        """Return the position after the last nonzero byte of the file, or 0 if all bytes are zero."""
        if self._zero_tail is None:
            self._zero_tail = end_of_content(self.view)
        return self._zero_tail


class OwnCrc:
    """Compares the crc field of a batch with CRCs that are computed for different end positions of the batch."""

    def __init__(self, finder: BatchFinder, head: Head) -> None:
        legacy = head.magic < MAGIC_V2
        self.usable: bool = len(head.data) >= (ENTRY_OVERHEAD + MIN_LEGACY_LENGTH if legacy else BATCH_HEADER_SIZE)
        at = LEGACY_CRC_AT if legacy else CRC_AT
        self.stored: int = int.from_bytes(head.data[at : at + 4], "big")
        self._start: int = crc_covers(head.position, head.magic if legacy else MAGIC_V2)
        self.at: int = self._start
        self.crc: int = 0
        self._castagnoli = not legacy
        self._finder = finder

    def matches(self, end: int) -> bool:
        """Compute the CRC of the batch up to the file position `end`, and return whether it equals the crc field."""
        if not self.usable or end < self._start:
            return False
        if 0 <= end - self.at <= STEP:
            self.crc = self._finder.update_crc(self._castagnoli, self.at, end, self.crc)
        else:
            self.crc = self._finder.crcs.span(self._castagnoli, self._start, end)
        self.at = end
        return self.crc == self.stored

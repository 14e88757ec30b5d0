"""Find out which batches of a segment are identical copies of other batches, in the same or in an adjacent segment."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...types import BatchTable, IntArray, distinct
from ..format.file_view import FileView
from ..format.files import list_directory
from ..format.names import base_offset_of, file_name
from .batches_of_ranges import batches_of
from .partition_dir import SegmentFile
from .parts import RunColumns
from .segment_walker import Walker

COMPARED_BYTES = 1 << 20
"""Largest number of bytes of adjacent batches that are compared at once."""


class _Originals:
    """Finds the batches with the same base offset, size and CRC as given batches.

    Parameters
    ----------
    base_offset, size, crc : array of int64
        Base offset in the header, size in bytes, and CRC of each given batch.

    Attributes
    ----------
    position : array of int64
        For each given batch, the file position of the last batch with the same values that was
        added, or -1 if there is none.
    """

    def __init__(self, base_offset: IntArray, size: IntArray, crc: IntArray) -> None:
        self._order = np.argsort(base_offset, kind="stable")
        self._base_offset = base_offset[self._order]
        self._size, self._crc = size[self._order], crc[self._order]
        self._found = np.full(len(base_offset), -1, np.int64)

    @property
    def position(self) -> IntArray:
        positions = np.empty_like(self._found)
        positions[self._order] = self._found
        return positions

    def add(self, start: int, table: BatchTable) -> None:
        """Add batches. Their positions in `table` are relative to the file position `start`."""
        offsets = table["base_offset"]
        low, high = (np.searchsorted(self._base_offset, offsets, side) for side in ("left", "right"))
        row = np.repeat(np.arange(len(table)), high - low)
        if not len(row):
            return
        # Several given batches can have the same base offset. `at` contains the index of each of them.
        at = np.arange(len(row)) - np.repeat(np.cumsum(high - low) - (high - low), high - low) + low[row]
        size, crc = table["size"][row], table["crc"][row]
        same = (self._size[at] == size) & (self._crc[at] == crc)
        self._found[at[same]] = start + table["position"][row[same]]


class Copies:
    """Finds identical copies among the batches of one segment.

    Parameters
    ----------
    segment : SegmentFile
        The segment.
    walker : Walker
        Reader of the segment's file.
    batches : RunColumns
        Single batches, in file order.
    """

    def __init__(self, segment: SegmentFile, walker: Walker, batches: RunColumns) -> None:
        self._segment = segment
        self._walker = walker
        self._batches = batches
        self._size = batches.end - batches.position
        self._crc = np.full(len(batches), -1, np.int64)
        """CRC of each batch, or -1 if it has not been read yet."""
        self._base_offset = np.full(len(batches), -1, np.int64)
        """Base offset in the header of each batch. The header of a wrapper message contains its last inner offset."""

    def within(self, chosen: npt.NDArray[np.bool_], ranges: RunColumns, around: IntArray) -> npt.NDArray[np.bool_]:
        """Return a mask that is True for each batch in `chosen` that is a copy of a batch in the same segment.

        For each batch, `around` contains the index of the only item in `ranges` that can contain the
        original.
        """
        chosen = chosen.copy()
        where = around[chosen]
        # The only batch of a range has the size of the range.
        chosen[chosen] = (ranges.batches[where] > 1) | ((ranges.end - ranges.position)[where] == self._size[chosen])
        if not chosen.any():
            return chosen
        originals, candidates = self._originals(chosen), ranges.at(distinct(around[chosen]))
        for found in batches_of(self._walker, candidates.at(np.argsort(candidates.position, kind="stable"))):
            originals.add(found.start, found.table)
        return self._identical(chosen, originals.position, self._walker.view)

    def in_adjacent_segments(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return a mask that is True for each batch in `chosen` that is a copy of a batch in an adjacent segment.

        The file names of segments determine the offset range of each segment. Only batches with
        offsets outside the range of their segment are compared.
        """
        base, next_base = self._segment.base_offset, self._segment.next_base
        found = np.zeros(len(chosen), bool)
        if base is None:
            return found
        if next_base is not None:
            after = chosen & (self._batches.first >= next_base)
            found |= self._in_segment(after, next_base)
            chosen = chosen & ~after
        before = chosen & (self._batches.last < base)
        if before.any():
            _, names = list_directory(self._segment.path.parent)
            previous = max((b for n in names if (b := base_offset_of(n)) is not None and b < base), default=base)
            if previous < base:
                found |= self._in_segment(before & (self._batches.first >= previous), previous)
        return found

    def _in_segment(self, chosen: npt.NDArray[np.bool_], base: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the batches in `chosen` that are copies of batches in the segment with base offset `base`."""
        if not chosen.any():
            return chosen
        originals = self._originals(chosen)

        def see(start: int, _: Any, table: BatchTable, *__: Any) -> None:
            originals.add(start, table)

        try:
            with FileView(self._segment.path.with_name(file_name(base)), fill_unreadable=True) as view:
                Walker(view, base).walk(see=see)
                return self._identical(chosen, originals.position, view)
        except FileNotFoundError:
            return np.zeros(len(chosen), bool)

    def _originals(self, chosen: npt.NDArray[np.bool_]) -> _Originals:
        unread = np.flatnonzero(chosen & (self._crc < 0))
        for found in batches_of(self._walker, self._batches.at(unread)):
            self._crc[unread[found.ranges]] = found.table["crc"]
            self._base_offset[unread[found.ranges]] = found.table["base_offset"]
        return _Originals(self._base_offset[chosen], self._size[chosen], self._crc[chosen])

    def _identical(self, chosen: npt.NDArray[np.bool_], originals: IntArray, view: FileView) -> npt.NDArray[np.bool_]:
        """Compare the bytes of each batch in `chosen` with the bytes at a position of another file.

        `originals` contains the positions in the file `view`, or -1 for a batch without an original.
        """
        found = np.zeros(len(chosen), bool)
        at = np.flatnonzero(chosen)[originals >= 0]
        if not len(at):
            return found
        original, copy, size = originals[originals >= 0], self._batches.position[at], self._size[at]
        # Adjacent copies of adjacent batches are compared together.
        apart = (copy[1:] != copy[:-1] + size[:-1]) | (original[1:] != original[:-1] + size[:-1])
        apart |= (np.cumsum(size)[1:] // COMPARED_BYTES) != (np.cumsum(size)[:-1] // COMPARED_BYTES)
        starts = np.concatenate(([0], np.flatnonzero(apart) + 1))
        ends = np.append(starts[1:], len(at))
        places = zip(starts.tolist(), ends.tolist(), copy[starts].tolist(), original[starts].tolist(), strict=True)
        lengths = np.add.reduceat(size, starts).tolist()
        mine, other = _Window(self._walker.view), _Window(view)
        for (i, j, here, there), length in zip(places, lengths, strict=True):
            if mine.read(here, length) == other.read(there, length):
                found[at[i:j]] = True
            elif j - i > 1:
                for k in range(i, j):
                    n = int(size[k])
                    found[at[k]] = mine.read(int(copy[k]), n) == other.read(int(original[k]), n)
        return found


class _Window:
    """Reads parts of a file. The bytes after the last part are kept in memory, because the next part is often there."""

    BYTES = 1 << 16

    def __init__(self, view: FileView) -> None:
        self._view = view
        self._at = 0
        self._data = b""

    def read(self, position: int, size: int) -> bytes:
        at = position - self._at
        if at < 0 or at + size > len(self._data):
            self._at, at = position, 0
            self._data = self._view.read(position, max(size, self.BYTES))
        return self._data[at : at + size]

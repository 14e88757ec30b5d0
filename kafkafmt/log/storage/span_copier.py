"""Copy many byte ranges of a file to another file with few system calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...types import Buffer, ByteArray, IntArray, LengthArray
from .file_view import FileView
from .local_files import truncated, write_all
from .span_buffer import GROUP_BYTES, PAGE_BYTES, SpanBuffer, window_of

SMALL = 1 << 16  # ranges up to this size are read and written together: in a third of the time of copy_file_range
FEW = 16  # largest number of byte ranges for which Python lists are faster than NumPy
MOST_SPANS = 8192  # largest number of byte ranges that are copied together


class SpanCopier:
    """Copies byte ranges of a file, in a given order."""

    # Large ranges are copied inside the kernel. Small ranges are read together, and written with one call.

    @cached_property
    def _read(self) -> SpanBuffer:
        return SpanBuffer()

    @cached_property
    def _gathered(self) -> npt.NDArray[np.uint8]:
        return np.empty(GROUP_BYTES, np.uint8)

    @cached_property
    def _positions(self) -> IntArray:
        return np.empty(MOST_SPANS, np.int64)

    @cached_property
    def _lengths(self) -> LengthArray:
        return np.empty(MOST_SPANS, np.int32)

    @cached_property
    def _offsets(self) -> npt.NDArray[np.int32]:
        return np.empty(MOST_SPANS + 1, np.int32)

    def copy(
        self, view: FileView, target: int, spans: IntArray, inserted: Sequence[tuple[int, bytes]] = ()
    ) -> Buffer | None:
        """Write byte ranges of `view` to the file descriptor `target`, at its current position."""
        # If they were written with one call and nothing was inserted, return the bytes, which are valid until the next
        # call; otherwise None. `inserted` contains other data, each with the number of bytes from `spans` before it, in
        # ascending order. OSError: a byte range is past the end of `view` (EIO), or a system call fails.
        if not inserted and (few := self._read_few(view, spans)) is not None:
            write_all(target, few)
            return few
        windows, data, waiting, copied = 0, None, 0, 0
        for start, end, data in self.windows(view, spans):
            windows += 1
            size = end - start if data is None else len(data)
            parts: list[Any] = []
            at = 0
            while waiting < len(inserted) and inserted[waiting][0] < copied + size:
                before, other = inserted[waiting][0] - copied, inserted[waiting][1]
                if data is None:
                    if at < before:
                        view.transfer(target, start + at, start + before)
                    write_all(target, other)
                else:
                    parts += [data[at:before], other]
                at, waiting = before, waiting + 1
            if data is None:
                view.transfer(target, start + at, end)
            else:
                parts.append(data[at:])
                write_all(target, b"".join(parts) if len(parts) > 1 else data)
            copied += size
        if waiting < len(inserted):
            write_all(target, b"".join(other for _, other in inserted[waiting:]))
        if inserted or windows > 1:
            return None
        return data if windows else b""

    def _read_few(self, view: FileView, spans: IntArray) -> Buffer | None:
        """Return the bytes of a few close byte ranges, or None if they are many, distant or not in order."""
        # For a small segment, this takes half the time of `windows`.
        if not 0 < len(spans) <= FEW:
            return None
        rows = spans.tolist()
        start, size = rows[0][0], rows[-1][1] - rows[0][0]
        gaps = [after - end for (_, end), (after, _) in itertools.pairwise(rows)]
        if size > SMALL or min(gaps, default=0) < 0 or sum(gaps) > PAGE_BYTES:
            return None
        if self._read.fill_all(view, start, size) < size:
            raise truncated(view.path)
        data = self._read.data[:size]
        parts: list[Any] = [data[a - start : b - start] for a, b in rows] if any(gaps) else []
        return b"".join(parts) if parts else data

    def windows(self, view: FileView, spans: IntArray) -> Iterator[tuple[int, int, ByteArray | None]]:
        """Divide byte ranges of `view` into ranges that are processed together: (start, end, bytes or None)."""
        # For a group of small byte ranges, the bytes are the concatenated ones of the group, and valid until the next
        # item is requested. For a large byte range, they are None.
        at = 0
        while at < len(spans):
            taken, count, start, size = core.next_spans(
                spans, at, SMALL, GROUP_BYTES, window_of(view), self._positions, self._lengths
            )
            self._count, self._start = count, start
            yield start, start + size, self._together(view, count, start, size) if count else None
            at += taken

    def file_positions(self, positions: IntArray) -> IntArray:
        """Convert positions in the latest bytes from `windows` to file positions."""
        i = np.searchsorted(self._offsets[: self._count], positions, "right") - 1
        found: IntArray = positions - self._offsets[i] + self._positions[i] + self._start
        return found

    def _together(self, view: FileView, count: int, start: int, size: int) -> ByteArray:
        """Return the concatenated bytes of `count` byte ranges of `_positions` in [start, start + size)."""
        positions, lengths = self._positions[:count], self._lengths[:count]
        total = sum(lengths.tolist()) if count <= FEW else int(lengths.sum())
        if size <= GROUP_BYTES and size - total <= PAGE_BYTES:
            got = self._read.fill_all(view, start, size)
        else:
            got = self._read.fill(view, start, np.stack((positions, positions + lengths), axis=1))
        if got < size:
            raise truncated(view.path)
        read = self._read.data
        if count == 1:
            self._offsets[0] = 0
            return read[:size]
        filled, _ = core.gather(read, positions, lengths, count, self._offsets, self._gathered, None)
        return self._gathered[:filled]

"""Copy many byte ranges of a file to another file with few system calls."""

from __future__ import annotations

import errno
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...types import Buffer, IntArray
from .file_view import FileView, aligned_buffer
from .local_files import write_all

WINDOW = 1 << 20
"""Largest number of bytes that are read at once when small byte ranges are copied."""
SMALL = 1 << 16
"""Byte ranges up to this size are read and written together.

For such ranges, reading and writing takes a third of the time of copy_file_range.
"""
MOST_SPANS = 8192
"""Largest number of byte ranges that are copied together."""
FEW_SPANS = 16
"""Up to this number of byte ranges, Python lists are faster than NumPy arrays."""


class SpanCopier:
    """Copies byte ranges of a file, in a given order.

    Large ranges are copied inside the kernel. Small ranges that are close to each other are read
    with one call and written with one call.
    """

    @cached_property
    def _read(self) -> npt.NDArray[np.uint8]:
        return aligned_buffer(WINDOW)

    @cached_property
    def _written(self) -> npt.NDArray[np.uint8]:
        return np.empty(WINDOW, np.uint8)

    @cached_property
    def _offsets(self) -> npt.NDArray[np.int32]:
        return np.empty(MOST_SPANS + 1, np.int32)

    def copy(self, view: FileView, target: int, spans: IntArray) -> Buffer | None:
        """Write byte ranges of `view` to the file descriptor `target`, at its current position.

        If all byte ranges were written with one call, return the written bytes. They are valid until
        the next call of this method. Otherwise, return None.

        Parameters
        ----------
        view : FileView
            The file that contains the byte ranges.
        target : int
            A file descriptor that is open for writing.
        spans : array of int64, shape (n, 2)
            Start and end position of each byte range in `view`.

        Raises
        ------
        OSError
            A byte range is past the end of `view` (EIO), or a system call fails.
        """
        spans = joined(spans)
        if not len(spans):
            return b""
        n = self._close_to(spans[:MOST_SPANS])
        if n == len(spans):
            return self._copy_together(view, target, spans)
        k = 0
        while k < len(spans):
            n = self._close_to(spans[k : k + MOST_SPANS])
            if n == 0:
                view.transfer(target, *spans[k].tolist())
                k += 1
            else:
                self._copy_together(view, target, spans[k : k + n])
                k += n
        return None

    def _close_to(self, spans: IntArray) -> int:
        """Return how many byte ranges at the start of `spans` are so small and so close together that one read covers them."""
        if len(spans) <= FEW_SPANS:
            return _few_close_to(spans.tolist())
        near = spans[:, 1] - spans[:, 0] <= SMALL
        low = np.minimum.accumulate(spans[:, 0])
        near &= np.maximum.accumulate(spans[:, 1]) - low <= WINDOW
        near &= np.cumsum(spans[:, 1] - spans[:, 0]) <= WINDOW
        return len(near) if near.all() else int(np.argmin(near))

    def _copy_together(self, view: FileView, target: int, spans: IntArray) -> Buffer:
        """Copy byte ranges with one read call and one write call, and return the written bytes."""
        n = len(spans)
        starts, ends = zip(*spans.tolist(), strict=True)
        start = min(starts)
        size = max(ends) - start
        if view.read_into(self._read[:size], start) < size:
            raise OSError(errno.EIO, "the file was truncated while it was read", str(view.path))
        if n <= FEW_SPANS:
            read = self._read.data
            parts = [read[a - start : b - start] for a, b in zip(starts, ends, strict=True)]
            data = parts[0] if n == 1 else b"".join(parts)
            write_all(target, data)
            return data
        lengths = (spans[:, 1] - spans[:, 0]).astype(np.int32)
        positions = np.ascontiguousarray(spans[:, 0] - start)
        filled, _ = core.gather(self._read, positions, lengths, n, self._offsets, self._written, None)
        write_all(target, self._written[:filled])
        return self._written[:filled]


def _few_close_to(spans: list[list[int]]) -> int:
    """Return the same result as `_close_to`. For a few byte ranges, this function is faster than NumPy."""
    low, high, total = spans[0][0], 0, 0
    for n, (start, end) in enumerate(spans):
        low, high, total = min(low, start), max(high, end), total + end - start
        if end - start > SMALL or high - low > WINDOW or total > WINDOW:
            return n
    return len(spans)


def joined(spans: IntArray) -> IntArray:
    """Merge successive byte ranges if the second one starts at the end of the first one."""
    if len(spans) < 2:
        return spans
    if (spans[1:, 0] != spans[:-1, 1]).all():
        return spans
    begins = np.flatnonzero(np.concatenate(([True], spans[1:, 0] != spans[:-1, 1])))
    ends = np.append(begins[1:], len(spans)) - 1
    return np.stack((spans[begins, 0], spans[ends, 1]), axis=1)

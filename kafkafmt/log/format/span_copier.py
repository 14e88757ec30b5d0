"""Copy many byte ranges of a file to another file with few system calls."""

from __future__ import annotations

import errno
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...types import Buffer, IntArray, LengthArray
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
    def _positions(self) -> IntArray:
        return np.empty(MOST_SPANS, np.int64)

    @cached_property
    def _lengths(self) -> LengthArray:
        return np.empty(MOST_SPANS, np.int32)

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
        if not len(spans):
            return b""
        at = 0
        while at < len(spans):
            taken, count, start, size = core.next_spans(spans, at, SMALL, WINDOW, self._positions, self._lengths)
            if count:
                data = self._copy_together(view, target, count, start, size)
                if taken == len(spans):
                    return data
            else:
                view.transfer(target, start, start + size)
            at += taken
        return None

    def _copy_together(self, view: FileView, target: int, count: int, start: int, size: int) -> Buffer:
        """Copy `count` byte ranges with one read call and one write call, and return the written bytes.

        `_positions` and `_lengths` contain the byte ranges. All of them are in [start, start + size).
        """
        if view.read_into(self._read[:size], start) < size:
            raise OSError(errno.EIO, "the file was truncated while it was read", str(view.path))
        read, written, offsets = self._read, self._written, self._offsets
        filled, _ = core.gather(read, self._positions, self._lengths, count, offsets, written, None)
        write_all(target, written[:filled])
        return written[:filled]

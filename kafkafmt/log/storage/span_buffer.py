"""Read many small spans of a file into one buffer, although they can be far apart in the file."""

from __future__ import annotations

import mmap
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from ...types import IntArray
from .file_view import FileView, aligned_buffer

GROUP_BYTES = 1 << 20  # largest total size of spans that are read together, in bytes
WINDOW_BYTES = 2 << 30  # largest part of a local file whose spans are read together: by default, a whole segment
PAGE_BYTES = 4096  # largest gap between two spans of a local file that are read with one system call, in bytes


def window_of(view: FileView) -> int:
    """Return the size of the largest part of a file whose spans can be read together."""
    # In a remote file, one request reads the whole part. Therefore, the part must be small.
    return GROUP_BYTES if view.least_read else _buffer_size(WINDOW_BYTES)


@cache
def _buffer_size(size: int) -> int:
    """Return `size`, halved until the operating system provides a sparse buffer of this size."""
    # It can limit the address space of a process, or refuse buffers that are larger than the memory.
    while size > GROUP_BYTES:
        try:
            _sparse_memory(size).close()
            break
        except (OSError, OverflowError):
            size //= 2
    return size


def _sparse_memory(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _sparse_buffer(size: int) -> npt.NDArray[np.uint8]:
    """Return an array of `size` bytes whose pages take memory only after they were written."""
    memory = _sparse_memory(size)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # with huge pages, a small span would take 2 MiB on most machines
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8)


class SpanBuffer:
    """A buffer for spans of a file. In the buffer, the spans are as far apart as in the file."""

    # The bytes between distant spans are not read. They do not take memory either, because the operating system
    # provides a page only when it is written. `data` is valid until the next call of `fill`.

    data: npt.NDArray[np.uint8]

    @cached_property
    def _small(self) -> npt.NDArray[np.uint8]:
        return aligned_buffer(2 * GROUP_BYTES)

    def fill_all(self, view: FileView, position: int, size: int) -> int:
        """Read `size` bytes (at most GROUP_BYTES) from `position`, and return their number."""
        # This is faster than `fill` if there are only small gaps between the spans.
        self.data = self._small
        return view.read_into(self.data[:size], position)

    def fill(self, view: FileView, position: int, spans: IntArray) -> int:
        """Read spans (positions in the buffer). Return the position after the last one or at the end of the file."""
        starts, ends = spans[np.argsort(spans[:, 0], kind="stable")].T
        ends = np.maximum.accumulate(ends)
        size = int(ends[-1])
        # A new buffer releases the memory of earlier spans.
        self.data = self._small if size <= len(self._small) else _sparse_buffer(size)
        last = np.append(starts[1:] - ends[:-1] > (GROUP_BYTES if view.least_read else PAGE_BYTES), True)
        first = np.append(True, last[:-1])
        for start, end in zip(starts[first].tolist(), ends[last].tolist(), strict=True):
            got = view.read_into(self.data[start:end], position + start)
            if got < end - start:
                return int(start + got)
        return size

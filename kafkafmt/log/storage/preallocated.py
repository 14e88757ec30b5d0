"""Find the preallocated space at the end of a segment without reading the holes of a sparse file.

A broker can create a segment with its final size. The unused bytes are zeros. On most file systems,
the unused bytes are a hole, which occupies no disk space.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from .file_view import FileView

STEP = 1 << 20  # largest number of bytes that are read at once to find bytes other than zeros
FIRST_STEP = 1 << 12  # Number of bytes that are read first. Few files end with more zeros than that.
BLOCK_BYTES = 512  # unit of `st_blocks`, in bytes
_ZEROS = bytes(STEP)


def end_of_content(view: FileView) -> int:
    """Return the position after the last nonzero byte of a file, or 0 if all bytes are zero."""
    step = FIRST_STEP
    for begin, end in reversed(list(_data_ranges(view, 0))):
        while end > begin:
            start, step = max(begin, end - step), STEP
            part = bytearray(end - start)
            got = view.read_into(part, start)
            # Comparing the block with a block of zeros is ten times as fast as calling rstrip().
            if got < len(part) or part != _ZEROS[:got]:
                rest = part[:got].rstrip(b"\0")
                if rest:
                    return start + len(rest)
            end = start
    return 0


def only_zeros(view: FileView, position: int) -> bool:
    """Return whether a file contains only zeros from `position` on."""
    part = bytearray(STEP)
    for start, end in _data_ranges(view, position):
        while start < end:
            got = view.read_into(memoryview(part)[: end - start], start)
            if not got:  # the file was truncated
                return True
            if part[:got] != _ZEROS[:got]:
                return False
            start += got
    return True


def start_of_last_hole(view: FileView) -> int:
    """Return the start of the hole at the end of the file, or the size of the file if there is no such hole."""
    return max((end for _, end in _data_ranges(view, 0)), default=0)


def is_hole(view: FileView) -> bool:
    """Return whether the file is empty or consists of one hole. No data is read. If it is not local, return False."""
    try:
        os.lseek(view.fileno(), 0, os.SEEK_DATA)
    except OSError as error:
        return error.errno == errno.ENXIO
    return False


def occupied(view: FileView) -> int:
    """Return how many bytes of a file occupy disk space. Without holes, this is the size of the file."""
    # If the file system compresses the file, the result can be smaller. If the file is not local, it is its size.
    return view.size if view.status is None else min(view.size, view.status.st_blocks * BLOCK_BYTES)


def _data_ranges(view: FileView, start: int) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges from `start` on that are not holes: the rest of the file if holes are not reported."""
    handle = view.fileno()
    while start < view.size:
        try:
            start = os.lseek(handle, start, os.SEEK_DATA)
            end = min(os.lseek(handle, start, os.SEEK_HOLE), view.size)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data after `start`, or the file was truncated
                return
            end = view.size
        if start < end:
            yield start, end
        start = end

"""Replace unreadable disk sectors of a file with filler bytes, and keep a list of these sectors.

The last 16 bytes of a filled sector have the value 0xFF, and all its other bytes are zeros. A batch
that begins in such a sector has a negative base offset or length, and a batch that contains other
filler does not match its CRC. Therefore, no filled sector is accepted as a valid batch or as
preallocated space, which contains only zeros.
"""

from __future__ import annotations

import errno
from bisect import bisect_left

from ...support.text import counted

SECTOR = 4096  # Number of bytes that are read at once after a read error. It is the page size of the kernel's cache.
MOST_IN_A_ROW = 256  # reading a file fails if this number of consecutive sectors cannot be read
MOST_SECTORS = 1024  # with more unreadable sectors, reading a file fails: each can take a failing disk seconds
MOST_NAMED = 3
DISK_ERRORS = (errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA)
"""Error numbers that a damaged disk or file system causes."""
NO_PERMISSION = (errno.EACCES, errno.EPERM)  # error numbers for a file that the process may not read
UNREACHABLE = (errno.ESTALE, errno.ENOTCONN)
"""Error numbers for a file on a remote file system, such as NFS or FUSE, if its server does not provide the file."""
_END = b"\xff" * 16


class UnreadableSectors:
    """The unreadable sectors of one open file, which is `size` bytes long."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._starts: list[int] = []
        self._in_a_row = 0

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Unreadable byte ranges, as sorted pairs (start, end). Adjacent sectors are merged."""
        found: list[tuple[int, int]] = []
        for start in self._starts:
            end = min(start + SECTOR, self._size)
            if found and found[-1][1] == start:
                found[-1] = found[-1][0], end
            else:
                found.append((start, end))
        return found

    def next_from(self, position: int) -> int:
        """Return the start of the first unreadable sector that ends after `position`, or 2**63 if none does."""
        i = bisect_left(self._starts, position - position % SECTOR)
        return self._starts[i] if i < len(self._starts) else 1 << 63

    def add(self, position: int, error: OSError, path: str) -> None:
        """Add the sector at `position`. Raise OSError if too many sectors are unreadable."""
        start = position - position % SECTOR
        i = bisect_left(self._starts, start)
        previous = i > 0 and self._starts[i - 1] == start - SECTOR
        self._in_a_row = self._in_a_row + 1 if previous else 1
        if self._in_a_row >= MOST_IN_A_ROW or len(self._starts) >= MOST_SECTORS:
            where = f"in {len(self._starts) + 1} sectors of {SECTOR} bytes, the last one at position {start}"
            raise OSError(error.errno, f"{error.strerror} {where}", path) from error
        self._starts.insert(i, start)

    def fill(self, target: memoryview, position: int) -> int:
        """Write the filler of the sector at `position` to the start of `target`. Return the number of written bytes."""
        end = min(position - position % SECTOR + SECTOR, self._size)
        filler = (bytes(SECTOR - len(_END)) + _END)[-max(end - position, 0) :] if end > position else b""
        count = min(len(filler), len(target))
        target[:count] = filler[:count]
        return count


def raise_if_intact(error: BaseException) -> None:
    """Raise the cause of `error` if it is a missing permission or an unreachable file system."""
    # The file may then be intact, so a writer must not replace it.
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno in (*NO_PERMISSION, *UNREACHABLE):
        raise cause from None


def overlapping(spans: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Return the byte ranges in `spans` that overlap [start, end). `spans` must be sorted and disjoint."""
    first = bisect_left(spans, start, key=lambda span: span[1] - 1)
    return spans[first : bisect_left(spans, end, key=lambda span: span[0])]


def named(spans: list[tuple[int, int]]) -> str:
    """Describe the positions of unreadable bytes for an error message."""
    ranges = [f"{start} to {end - 1}" for start, end in spans[:MOST_NAMED]]
    if len(spans) > MOST_NAMED:
        ranges.append(counted(len(spans) - MOST_NAMED, "more range"))
    before = ", ".join(ranges[:-1])
    return f"the disk cannot read bytes {f'{before} and ' if before else ''}{ranges[-1]}"

"""Read bytes of files that are given by a path or a URL.

remote.py and stores.py read files that have a URL. Local files are read with `preadv` into reused
buffers. No file is memory-mapped: a broker can truncate a file at any time, and reading a truncated
mapping kills the process. A deleted file stays readable while it is open. If a file is truncated,
reads return fewer bytes, and callers treat this as the end of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...errors import StructureError
from ...support.paths import Location, UrlPath
from ...types import BatchTable, ByteArray
from ..formats import segment_name_of
from . import remote
from .files import file_size, stamp_of
from .local_files import COPY_STEP, copy_range, open_regular, truncated, write_all
from .packed import SequentialReader, open_unpacked
from .remote import RemoteFile
from .unreadable import DISK_ERRORS, NO_PERMISSION, SECTOR, UNREACHABLE, UnreadableSectors, overlapping

ALIGNMENT = 64
CRC_STEP = 1 << 20
SEQUENTIAL_BYTES = 16 << 20
"""Smallest range of a local file for which the operating system is asked to read more bytes in advance."""
MAX_TEXT_BYTES = 64 << 20
MAX_TEXT_LINES = 1 << 20  # A checkpoint has a line for each partition. A parsed line takes about 250 bytes of memory.
MAX_INDEX_BYTES = 1 << 28  # Largest number of bytes that `read_bytes` returns. Valid index files are smaller than this.
_LINE_ENDS = (b"\n", b"\r", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
"""The line endings that `str.splitlines` recognizes, encoded in UTF-8."""


def _open_whole(path: Location) -> SequentialReader:
    return SequentialReader(FileView(path, whole=True))


def aligned_buffer(size: int) -> npt.NDArray[np.uint8]:
    """Return an uninitialized array whose address is a multiple of 64: the kernel copies into it five times as fast."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT  # `raw.ctypes.data` is three times slower
    return raw[start : start + size]


def _read_whole(path: Location | str, limit: int) -> tuple[int, bytes]:
    """Return the size of a file, and the first `limit` bytes of its content."""
    # StructureError: a local file cannot be read because of a damaged disk, a missing permission, or a remote file
    # system that does not provide it.
    if isinstance(path, UrlPath):
        with FileView(path) as view:
            return view.size, view.read(0, min(view.size, limit))
    try:
        return _read_local(path, limit)
    except OSError as error:
        if error.errno in (*DISK_ERRORS, *NO_PERMISSION, *UNREACHABLE):
            raise StructureError(f"{os.path.basename(path)} cannot be read: {error.strerror}") from error
        raise


def _read_local(path: Path | str, limit: int) -> tuple[int, bytes]:
    handle, status = open_regular(path)
    try:
        left = min(status.st_size, limit)
        data = os.read(handle, left) if left else b""  # usually the whole file
        if data and len(data) < left:
            parts, left = [data], left - len(data)
            while left > 0 and (part := os.read(handle, left)):
                parts.append(part)
                left -= len(part)
            data = b"".join(parts)
        return status.st_size, data
    finally:
        os.close(handle)


class FileView:
    """Reads byte ranges of an open file. A compressed segment is decompressed, except with `whole`."""

    # `fill_unreadable`: if the disk cannot read a sector, return filler bytes (see unreadable.py) and add the sector to
    # `unreadable`, instead of an OSError. Not for writers: filler bytes look like the end of the log.

    least_read: int = 0  # smallest number of bytes that one request fetches

    def __init__(
        self,
        path: str | os.PathLike[str] | UrlPath,
        whole: bool = False,
        fill_unreadable: bool = False,
    ) -> None:
        self.bytes_read: int = 0
        self.reads: int = 0
        self.seconds: float = 0.0  # total duration of all calls of `read_into`, in seconds
        self.status: os.stat_result | None = None
        """Status of the file when it was opened. None for a URL and for a compressed segment."""
        self._fd = -1
        self._remote: RemoteFile | None = None
        self._given = path
        self._fills = fill_unreadable
        self._sectors: UnreadableSectors | None = None
        name = path.name if isinstance(path, UrlPath) else os.fspath(path)
        if not whole and segment_name_of(name) is not None:
            self._fills = False
            self._fd = open_unpacked(self.path, stamp_of(self.path), partial(_open_whole, self.path))
            self.size: int = os.fstat(self._fd).st_size
            return
        if isinstance(path, UrlPath):
            self._remote = remote.open_file(path)
            self.size = self._remote.size
            self.least_read = remote.LEAST_BYTES
            self._count_requests(self._remote)
            return
        self._fd, self.status = open_regular(path)
        self.size = self.status.st_size

    @cached_property
    def path(self) -> Location:
        return self._given if isinstance(self._given, UrlPath) else Path(self._given)

    def expect(self, start: int, end: int) -> None:
        """Prepare for sequential reads of the bytes [start, end)."""
        # Reads of a URL request the next bytes in advance; for a large local range, the operating system reads ahead.
        if self._remote is not None:
            self._remote.expect(start, end)
        elif self._fd >= 0 and end - start >= SEQUENTIAL_BYTES and hasattr(os, "posix_fadvise"):  # not on macOS
            # On Linux, this advice doubles the read-ahead. A scan from a disk then takes about 0.7 times as long.
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def read_into(self, view: Any, position: int) -> int:
        """Fill the buffer `view` from `position`, and return the number of bytes: fewer only at the end of the file."""
        target, got, started = memoryview(view).cast("B"), 0, perf_counter()
        if self._remote is not None:
            got = self._remote.read_into(target, position)
            self._count_requests(self._remote)
            self.seconds += perf_counter() - started
            return got
        if self._sectors is not None:
            got = self._read_or_fill(target, position)
        while got < len(target) and self._sectors is None:
            try:
                n = os.preadv(self._fd, [target[got:]], position + got)
            except OSError as error:
                if not self._fills or error.errno not in DISK_ERRORS:
                    # Add the path, because the error of `os.preadv` does not contain it.
                    raise OSError(error.errno, error.strerror, str(self.path)) from error
                self._sectors = UnreadableSectors(self.size)
                got += self._read_sector(target[got:], position + got, error)
                got += self._read_or_fill(target[got:], position + got)
                break
            self.reads += 1
            if n == 0:
                break
            got += n
        self.bytes_read += got
        self.seconds += perf_counter() - started
        return got

    def scan(self, buffer: ByteArray, table: BatchTable, start: int, end: int) -> int | None:
        """Read the headers of the batches in [start, end) into `table`, check the CRCs, and return their number."""
        # The file is read block by block into `buffer`. Return None if the range contains invalid or incomplete
        # batches, if a batch is larger than `buffer`, or if the file is not local.
        if self._fd < 0:
            return None
        started = perf_counter()
        found = core.scan_file(self._fd, buffer, table, start, end)
        self.reads += 1
        self.bytes_read += found.position - start
        self.seconds += perf_counter() - started
        return found.count if found.position == end else None

    @property
    def unreadable(self) -> list[tuple[int, int]]:
        """Byte ranges for which reading from the disk has failed, as sorted pairs (start, end) of file positions."""
        return [] if self._sectors is None else self._sectors.spans

    def is_filler(self, start: int, end: int) -> bool:
        """Return whether some of the bytes [start, end) are unreadable on disk and were replaced with filler."""
        return self._sectors is not None and bool(overlapping(self._sectors.spans, start, end))

    def _read_or_fill(self, target: memoryview, position: int) -> int:
        """Read bytes like `read_into`, but replace unreadable sectors with filler bytes."""
        assert self._sectors is not None
        got = 0
        while got < len(target):
            at = position + got
            left = self._sectors.next_from(at) - at
            n = self._read_readable(target[got : got + left], at) if left > 0 else self._sectors.fill(target[got:], at)
            if n == 0:
                break
            got += n
        return got

    def _read_readable(self, target: memoryview, position: int) -> int:
        """Read bytes into `target`, and return their number. If the read fails, read only the first sector."""
        try:
            self.reads += 1
            return os.preadv(self._fd, [target], position)
        except OSError as error:
            return self._read_sector(target, position, error)

    def _read_sector(self, target: memoryview, position: int, error: OSError) -> int:
        """After a failed read of several sectors, read only the sector at `position`, or write filler bytes."""
        assert self._sectors is not None
        part = target[: SECTOR - position % SECTOR]
        try:
            if error.errno in DISK_ERRORS and len(part) < len(target):
                self.reads += 1
                return os.preadv(self._fd, [part], position)
        except OSError as caught:
            error = caught
        if error.errno not in DISK_ERRORS:
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._sectors.add(position, error, str(self.path))
        return self._sectors.fill(target, position)

    def _count_requests(self, remote: RemoteFile) -> None:
        """Copy the number of fetched bytes and the number of requests from the remote file to `bytes_read` and `reads`."""
        self.bytes_read, self.reads = remote.bytes_fetched, remote.requests

    def read(self, position: int, size: int) -> bytes:
        """Return the `size` bytes that start at `position`. The result is shorter if the file ends first."""
        if size <= 0:
            return b""
        data = bytearray(min(size, max(self.size - position, 0)))
        got = self.read_into(data, position)
        return bytes(data[:got])

    def crc32c(self, start: int, end: int, value: int = 0) -> int:
        """Compute the CRC-32C of the bytes [start, end), read in blocks, continuing the CRC `value`."""
        return self._checksum(core.crc32c, start, end, value)

    def crc32(self, start: int, end: int, value: int = 0) -> int:
        """Compute the CRC-32 of the bytes [start, end), read in blocks, continuing the CRC `value`."""
        return self._checksum(core.crc32, start, end, value)

    def _checksum(self, update: Callable[[bytes, int], int], start: int, end: int, value: int) -> int:
        while start < end:
            part = self.read(start, min(CRC_STEP, end - start))
            if not part:
                break
            value = update(part, value)
            start += len(part)
        return value

    def transfer(self, target: int, start: int, end: int) -> None:
        """Write the bytes [start, end) to the blocking file descriptor `target`."""
        # OSError: the file ends before `end`.
        if self._remote is not None:
            self.expect(start, end)
            while start < end:
                data = self.read(start, min(COPY_STEP, end - start))
                if not data:
                    raise truncated(self.path)
                write_all(target, data)
                start += len(data)
            return
        copy_range(self._fd, target, start, end, self.path)

    def fileno(self) -> int:
        """Return the file descriptor, or -1 if the file is closed or is not local."""
        return self._fd

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> FileView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_ahead(path: Location, index: Location, size: int) -> None:
    """Begin to open a segment and its offset index in the background, if their paths are URLs."""
    if isinstance(path, UrlPath) and isinstance(index, UrlPath):
        remote.open_ahead(index, remote.WHOLE_BYTES)
        remote.open_ahead(path, max(size, remote.FIRST_BYTES) if size <= remote.WHOLE_BYTES else remote.FIRST_BYTES)


def fetch_ahead(path: Location, size: int) -> None:
    """Request the first `size` bytes of a segment that `open_ahead` has opened."""
    if isinstance(path, UrlPath):
        remote.fetch_ahead(path, size)


def forget_ahead(path: Location, index: Location) -> None:
    """Close the segment and the offset index that `open_ahead` has opened, unless a reader already uses them."""
    for place in (path, index):
        if isinstance(place, UrlPath):
            remote.forget_ahead(place)


def content_size(path: Location | str) -> int | None:
    """Return the size of a file (of a compressed segment: decompressed) in bytes, or None if it does not exist."""
    if segment_name_of(path if isinstance(path, str) else path.name) is None:
        return file_size(path)
    try:
        with FileView(path) as view:
            return view.size
    except FileNotFoundError:
        return None


def read_text(path: Location) -> str | None:
    """Return the content of a small text file, with U+FFFD for invalid UTF-8, or None if it does not exist."""
    # StructureError: the path is a directory, the file exceeds MAX_TEXT_BYTES or MAX_TEXT_LINES, or a local file cannot
    # be read (see `_read_whole`).
    try:
        size, data = _read_whole(path, MAX_TEXT_BYTES)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise StructureError(f"{path.name} is a directory, not a file") from None
    if size > MAX_TEXT_BYTES:
        raise StructureError(f"{path.name} has {size} bytes; the limit is {MAX_TEXT_BYTES}")
    lines = sum(map(data.count, _LINE_ENDS))
    if lines > MAX_TEXT_LINES:
        raise StructureError(f"{path.name} has {lines} lines; the limit is {MAX_TEXT_LINES}")
    return data.decode(errors="replace")


def file_differs(path: Location | str, data: bytes) -> bool:
    """Return whether the content of a file is not `data`, or the file is missing or cannot be read."""
    try:
        return read_bytes(path) != data
    except StructureError:
        return True


def read_bytes(path: Location | str) -> bytes | None:
    """Return the first MAX_INDEX_BYTES bytes of a file, or None if there is no such file."""
    # The limit is larger than any valid index file. StructureError: see `_read_whole`.
    try:
        return _read_whole(path, MAX_INDEX_BYTES)[1]
    except (FileNotFoundError, IsADirectoryError):
        return None

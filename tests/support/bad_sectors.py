"""Simulate a disk that cannot read some sectors of files."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafkafmt._backend import core
from kafkafmt.types import Scan

SECTOR = 4096
FILLER = bytes(SECTOR - 16) + b"\xff" * 16


@dataclass(frozen=True)
class _Calls:
    """The calls of the operating system, before they are replaced."""

    read = staticmethod(os.read)
    pread = staticmethod(os.pread)
    preadv = staticmethod(os.preadv)
    copy_file_range = staticmethod(os.copy_file_range)
    sendfile = staticmethod(os.sendfile)


_real = _Calls()


class BadSectors:
    """Makes sectors of files unreadable, as the kernel reports them.

    A call that starts before an unreadable sector returns the bytes before it. A call that starts
    in an unreadable sector raises an OSError.

    Attributes
    ----------
    failed : Counter
        Number of failed calls for each file and sector.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int = errno.EIO) -> None:
        self._bad: dict[str, set[int]] = {}
        self._code = code
        self.failed: Counter[tuple[str, int]] = Counter()

        def preadv(handle: int, buffers: Any, position: int) -> int:
            (target,) = buffers
            return _real.preadv(handle, [memoryview(target)[: self._readable(handle, position, len(target))]], position)

        def pread(handle: int, size: int, position: int) -> bytes:
            return _real.pread(handle, self._readable(handle, position, size), position)

        def read(handle: int, size: int) -> bytes:
            if os.readlink(f"/proc/self/fd/{handle}") not in self._bad:
                return _real.read(handle, size)
            return _real.read(handle, self._readable(handle, os.lseek(handle, 0, os.SEEK_CUR), size))

        def copy_file_range(
            source: int, target: int, count: int, offset_src: int | None = None, offset_dst: int | None = None
        ) -> int:
            position = os.lseek(source, 0, os.SEEK_CUR) if offset_src is None else offset_src
            return _real.copy_file_range(
                source, target, self._readable(source, position, count), offset_src, offset_dst
            )

        def sendfile(target: int, source: int, position: int, count: int) -> int:
            return _real.sendfile(target, source, position, self._readable(source, position, count))

        scan = core.scan_file

        def scan_file(handle: int, buffer: Any, table: Any, start: int, end: int) -> Scan:
            """Simulate failures of `pread` in the native core. Python code cannot replace the core's calls of `pread`."""
            try:
                return scan(handle, buffer, table, start, start + self._readable(handle, start, end - start))
            except OSError:
                return Scan(0, start, None)

        monkeypatch.setattr(core, "scan_file", scan_file)
        for replacement in (preadv, pread, read, copy_file_range, sendfile):
            monkeypatch.setattr(os, replacement.__name__, replacement)

    def add(self, path: Path, sectors: Iterable[int]) -> None:
        """Make sectors of a file unreadable. Sector 0 contains the first 4096 bytes."""
        self._bad.setdefault(os.path.realpath(path), set()).update(sectors)

    def heal(self) -> None:
        self._bad.clear()

    def _readable(self, handle: int, position: int, size: int) -> int:
        """Return how many of `size` bytes at `position` can be read, or raise OSError if there are none."""
        if not self._bad:
            return size
        path = os.readlink(f"/proc/self/fd/{handle}")
        bad = self._bad.get(path)
        if not bad:
            return size
        after = [s for s in bad if (s + 1) * SECTOR > position]
        first = min(after, default=None)
        if first is None or first * SECTOR >= position + size or position >= os.fstat(handle).st_size:
            return size
        if first * SECTOR <= position:
            self.failed[path, first] += 1
            raise OSError(self._code, os.strerror(self._code))
        return first * SECTOR - position


def overwritten(path: Path, sectors: Iterable[int], filler: bytes = FILLER) -> None:
    """Replace the content of sectors. The end of the filler is at the end of a short last sector."""
    data = bytearray(path.read_bytes())
    for sector in sectors:
        start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(data))
        if start < end:
            data[start:end] = filler[-(end - start) :]
    path.write_bytes(data)

"""Decompress compressed copies of segments, such as `00000000000000000000.log.gz`.

Readers access a segment at any position. Therefore, it is decompressed once into an unnamed
temporary file. The most recent files are kept for later readers.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from ...support.paths import FULL_DISK, Location, TemporaryFilesError
from ...support.text import quantity
from ..formats import PACKED_FORMATS
from .process import ForkSafeLock

KEPT = 2  # number of decompressed files that a process keeps open
STEP = 1 << 20

_kept: dict[tuple[int, Location], tuple[object, int]] = {}
"""By process id and path: version of the compressed file, and descriptor of the decompressed one."""
_lock = ForkSafeLock()


def open_unpacked(path: Location, version: object, open_source: Callable[[], SequentialReader]) -> int:
    """Return a descriptor of a file with the decompressed content of a segment. `version` changes with its content."""
    key = os.getpid(), path
    with _lock:
        known = _kept.get(key)
        if known is not None and known[0] == version:
            return os.dup(known[1])
    made = _unpacked(path, open_source)
    with _lock:
        old = [_kept.pop(key)] if key in _kept else []
        while len(_kept) >= KEPT:
            old.append(_kept.pop(next(iter(_kept))))
        for process_file in old:
            os.close(process_file[1])
        _kept[key] = version, made
        return os.dup(made)


def _unpacked(path: Location, open_source: Callable[[], SequentialReader]) -> int:
    # The module `unpacking` is imported only here, because it imports the compression packages.
    from ...codecs.unpacking import UNPACKING_ERRORS, unpacking_reader

    kind = PACKED_FORMATS[os.path.splitext(path.name)[1]]
    with tempfile.TemporaryFile(prefix="kafkafmt-", suffix=".log") as target:
        try:
            with open_source() as source, unpacking_reader(cast(BinaryIO, source), kind) as reader:
                if not source.size:
                    raise EOFError("the file is empty")
                shutil.copyfileobj(reader, target, STEP)
        except UNPACKING_ERRORS as error:
            if isinstance(error, OSError) and error.errno in FULL_DISK:
                raise TemporaryFilesError(error.errno, os.strerror(error.errno), tempfile.gettempdir()) from error
            if isinstance(error, OSError) and error.errno is not None:
                raise
            size = target.tell()
            what = f"the {kind} data is damaged or incomplete after {quantity(size, 'byte')} of the segment: {error}"
            raise OSError(errno.EIO, what, str(path)) from error
        target.flush()
        return os.dup(target.fileno())


class SequentialReader(io.RawIOBase):
    """File object that reads a `FileView` from start to end."""

    def __init__(self, view: Any) -> None:
        self.size: int = view.size
        self._view, self._position = view, 0
        view.expect(0, view.size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got: int = self._view.read_into(buffer, self._position)
        self._position += got
        return got

    def close(self) -> None:
        self._view.close()
        super().close()

"""Decompress compressed copies of segments, such as `00000000000000000000.log.gz`.

Readers access a segment at any position. Therefore, it is decompressed once into an unnamed
temporary file. The most recent files are kept for later readers.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, cast

from ...support.paths import FULL_DISK, Location, TemporaryFilesError
from ...support.text import quantity
from ..formats import base_offset_of
from .process import ForkSafeLock

FORMATS = {".gz": "gzip", ".zst": "zstd"}
_NAME = re.compile(r"(?:\A|/)([0-9]{20}\.log)(\.gz|\.zst)\Z")
_PACKED = tuple(FORMATS)
_SUFFIXES = (".log", *FORMATS)
KEPT = 2  # number of decompressed files that a process keeps open
STEP = 1 << 20

_kept: dict[tuple[int, Location], tuple[object, int]] = {}
"""By process id and path: version of the compressed file, and descriptor of the decompressed one."""
_lock = ForkSafeLock()


def segment_name_of(name: str) -> str | None:
    """Remove `.gz` or `.zst` from the name or path of a compressed segment, or return None for another name."""
    found = _NAME.search(name) if name.endswith(_PACKED) else None
    return found[1] if found else None


def base_of(name: str) -> int | None:
    """Return the base offset in the name of a plain or compressed segment, or None for another name."""
    return base_offset_of(segment_name_of(name) or name)


def bases_in(names: Iterable[str]) -> list[tuple[int, str]]:
    """Return the base offset and the name of each plain or compressed segment in a list of file names."""
    return [
        (base, n)
        for n in names
        if n.endswith(_SUFFIXES) and (base := base_offset_of(n) if n.endswith(".log") else base_of(n)) is not None
    ]


def is_log_name(name: str) -> bool:
    """Return whether a file name ends with `.log` or is the name of a compressed segment."""
    return name.endswith(".log") or segment_name_of(name) is not None


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

    kind = FORMATS[os.path.splitext(path.name)[1]]
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

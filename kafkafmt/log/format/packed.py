"""Decompress compressed copies of segments, such as `00000000000000000000.log.gz`.

Readers need the bytes of a segment at any position. Therefore, a compressed segment is decompressed
once, from start to end, into a temporary file without a name. This file needs as much disk space as
the decompressed segment. The most recently decompressed files are kept for later readers.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from ...paths import Location
from .names import base_offset_of

FORMATS = {".gz": "gzip", ".zst": "zstd"}
_NAME = re.compile(r"([0-9]{20}\.log)(\.gz|\.zst)\Z")
KEPT = 2
"""Number of decompressed files that a process keeps."""
STEP = 1 << 20

_kept: dict[tuple[int, str], tuple[object, int]] = {}
"""Maps (process id, path of a compressed file) to the version of that file and the descriptor of the
decompressed file.
"""
_lock = threading.Lock()


def segment_name_of(name: str) -> str | None:
    """Return the name of a compressed segment without `.gz` or `.zst`, or None for any other name."""
    found = _NAME.match(name) if name.endswith((".gz", ".zst")) else None
    return found[1] if found else None


def base_of(name: str) -> int | None:
    """Return the base offset in the name of a segment or of its compressed copy, or None for any other name."""
    return base_offset_of(segment_name_of(name) or name)


def is_log_name(name: str) -> bool:
    """Return whether a file name belongs to a `.log` file or to a compressed segment."""
    return name.endswith(".log") or segment_name_of(name) is not None


def open_unpacked(path: Location, version: object, open_source: Callable[[], SequentialReader]) -> int:
    """Return a descriptor of a file with the decompressed content of a segment.

    Parameters
    ----------
    path : Path or UrlPath
        The compressed file.
    version : object
        A value that differs if the compressed file has changed.
    open_source : callable
        Function that opens the compressed file, to read it from start to end.

    Raises
    ------
    OSError
        The file cannot be read or decompressed.
    """
    key = os.getpid(), str(path)
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
    from ...unpacking import UNPACKING_ERRORS, unpacking_reader

    kind = FORMATS[os.path.splitext(path.name)[1]]
    with tempfile.TemporaryFile(prefix="kafkafmt-", suffix=".log") as target:
        try:
            with open_source() as source, unpacking_reader(cast(BinaryIO, source), kind) as reader:
                if not source.size:
                    raise EOFError("the file is empty")
                shutil.copyfileobj(reader, target, STEP)
        except UNPACKING_ERRORS as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            what = f"the {kind} data is damaged or incomplete after {target.tell()} bytes of the segment: {error}"
            raise OSError(errno.EIO, what, str(path)) from error
        target.flush()
        return os.dup(target.fileno())


class SequentialReader(io.RawIOBase):
    """Reads an open `FileView` from start to end, as a file object."""

    def __init__(self, view: Any) -> None:
        self.size: int = view.size
        self._view, self._position = view, 0
        view.expect(0, view.size)

    def readable(self) -> bool:
        """Return True, because the file can always be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with the next bytes, and return the number of bytes."""
        got: int = self._view.read_into(buffer, self._position)
        self._position += got
        return got

    def close(self) -> None:
        """Close the reader and its view."""
        self._view.close()
        super().close()

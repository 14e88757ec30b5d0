"""Decompress gzip and zstd files, such as archived segments, while they are read."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any, BinaryIO, cast

from .packages import zstandard, zstd_file_frame

STREAM_BYTES = 1 << 17
UNPACKING_ERRORS: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    zlib.error,
    zstandard.ZstdError,
)
"""Errors that `read` of a decompressing file object can raise if the data is damaged or incomplete."""


def unpacking_reader(source: BinaryIO, kind: str) -> BinaryIO:
    """Return a file object that reads and decompresses `source`. `kind` is "gzip" or "zstd"."""
    if kind == "gzip":
        return cast(BinaryIO, gzip.GzipFile(fileobj=source))
    return cast(BinaryIO, _WholeFrames(source))


class _WholeFrames(io.RawIOBase):
    """Decompresses zstd frames, and raises EOFError if the last frame is incomplete."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self._left, self._ready = source, b"", memoryview(b"")
        self._frame: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if self._frame is None or self._frame.eof:
                self._left = (self._frame.unused_data if self._frame is not None else b"") or self._source.read(
                    STREAM_BYTES
                )
                if not self._left:
                    return 0
                self._frame = zstd_file_frame()
            elif not (data := self._source.read(STREAM_BYTES)):
                raise EOFError("the last zstd frame is incomplete")
            else:
                self._left = data
            self._ready = memoryview(self._frame.decompress(self._left))
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n

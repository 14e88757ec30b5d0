"""Compress and decompress zstd data with Python's `compression.zstd`, through names of the package zstandard."""

from __future__ import annotations

from typing import Any

from compression import zstd  # type: ignore[import-not-found]  # since Python 3.14

from ..types import Buffer, byte_view
from .zstd_frames import content_frames, content_size

ZstdError: type[Exception] = zstd.ZstdError


class ZstdCompressor:
    """Compresses data to one frame, whose header states the size of the data."""

    def __init__(self, level: int) -> None:
        self._level = level

    def compress(self, data: Buffer) -> bytes:
        packed: bytes = zstd.compress(data, self._level)
        return packed


def frame_content_size(data: Buffer) -> int:
    try:
        return content_size(byte_view(data))
    except ValueError as error:
        raise ZstdError(str(error)) from None


class ZstdDecompressor:
    """Creates objects that decompress frames."""

    def decompressobj(self) -> Any:
        return zstd.ZstdDecompressor()

    def decompress(self, data: Buffer, max_output_size: int) -> bytes:
        frame = zstd.ZstdDecompressor()
        part: bytes = frame.decompress(data, max_output_size)
        if not frame.eof:
            raise ZstdError("the content of the frame is larger than its header states")
        return part

    def stream_reader(self, data: Buffer, *, read_across_frames: bool) -> _Reader:
        return _Reader(byte_view(data))


class _Reader:
    """Reads the content of all frames."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._frames = data, iter(content_frames(data))
        self._frame: Any = None

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._frame = None

    def readinto(self, room: memoryview) -> int:
        while True:
            data: bytes | memoryview = b""
            if self._frame is None or self._frame.eof:
                place = next(self._frames, None)
                if place is None:
                    return 0
                self._frame, data = zstd.ZstdDecompressor(), self._data[place.start : place.end]
            part = self._frame.decompress(data, len(room))
            if part:
                room[: len(part)] = part
                return len(part)
            if not self._frame.eof and self._frame.needs_input:
                raise ZstdError("the frame is incomplete")

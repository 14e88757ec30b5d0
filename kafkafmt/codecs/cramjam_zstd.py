"""Compress and decompress zstd data with cramjam, through names of the package zstandard.

cramjam decompresses only complete frames. Therefore, there is no `decompressobj`, which files need.
"""

from __future__ import annotations

from typing import Any

import cramjam
import numpy as np

from ..types import Buffer, byte_view, view_of
from .zstd_frames import LARGEST_BLOCK, content_frames, content_size

ZstdError: type[Exception] = cramjam.DecompressionError
_FULL = "failed to write whole buffer"
"""Error of cramjam if the content is larger than the buffer, which is then full."""
_LAST_EMPTY_BLOCK = b"\x01\0\0"


class ZstdCompressor:
    """Compresses data to one frame, whose header states the size of the data."""

    def __init__(self, level: int) -> None:
        self._level = level

    def compress(self, data: Buffer) -> bytes:
        return bytes(cramjam.zstd.compress(byte_view(data), level=self._level))


def frame_content_size(data: Buffer) -> int:
    try:
        return content_size(byte_view(data))
    except ValueError as error:
        raise ZstdError(str(error)) from None


class ZstdDecompressor:
    """Decompresses frames of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def decompress(self, data: Buffer, max_output_size: int) -> bytes:
        room: Any = np.empty(max_output_size, np.uint8)
        n = cramjam.zstd.decompress_into(byte_view(data), room)
        content: bytes = room[:n].tobytes()
        return content

    def stream_reader(self, data: Buffer, *, read_across_frames: bool) -> _Reader:
        return _Reader(byte_view(data), self._limit)


class _Reader:
    """Reads the content of all frames."""

    def __init__(self, data: memoryview, limit: int) -> None:
        self._data, self._frames, self._room = data, iter(content_frames(data)), limit + 1
        self._ready = memoryview(b"")

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._ready = memoryview(b"")

    def readinto(self, room: memoryview) -> int:
        """Read the next part of the content. If it exceeds the limit, return a size above the limit instead."""
        while not self._ready:
            frame = next(self._frames, None)
            if frame is None:
                return 0
            most = min(frame.most, self._room)
            # On a free-threaded Python, cramjam writes to arrays, but not to memoryviews.
            direct = most <= len(room)
            target: Any = np.frombuffer(room, np.uint8) if direct else np.empty(most, np.uint8)
            try:
                n = cramjam.zstd.decompress_into(self._data[frame.start : frame.end], target)
            except ZstdError as error:
                if len(target) < self._room or str(error) != _FULL:
                    raise
                return self._room
            self._room -= n
            if not direct:
                self._ready = view_of(target)[:n]
            elif n:
                return int(n)
        n = min(len(room), len(self._ready))
        room[:n], self._ready = self._ready[:n], self._ready[n:]
        return int(n)


def read_blocks(data: memoryview, ends: list[int], limit: int) -> tuple[bytes, int]:
    """Do what `packages.read_blocks` does, in O(n log n)."""
    # The frame is decompressed up to an end, and the last end at which this succeeds is searched.
    if len(data) < ends[0]:
        return b"", len(ends)
    last = next((i + 1 for i in range(len(ends) - 1) if data[ends[i]] & 1), len(ends))
    content, good, bad, i = b"", 0, len(ends) + 1, len(ends)
    while good + 1 < bad:
        found = _content(data, ends[:i], last, limit)
        if found is None:
            bad = i
        else:
            content, good = found, i
        i = (good + bad) // 2
    return content, good


def _content(data: memoryview, ends: list[int], last: int, limit: int) -> bytes | None:
    """Return the content of the blocks up to the last end, or None. `last` is the index of the end of the last block."""
    header, end = bytearray(data[: ends[0]]), b""
    if len(ends) - 1 <= last:
        header[4] &= ~4  # there is no checksum
    if len(ends) - 1 < last:
        header, end = _without_size(header), _LAST_EMPTY_BLOCK
    room: Any = np.empty(min(limit + 1, LARGEST_BLOCK * len(ends)), np.uint8)
    try:
        n = cramjam.zstd.decompress_into(b"".join((header, data[ends[0] : ends[-1]], end)), room)
    except ZstdError as error:
        if len(room) <= limit or str(error) != _FULL:
            return None
        n = len(room)
    content: bytes = room[:n].tobytes()
    return content


def _without_size(header: bytearray) -> bytearray:
    """Return the header of a frame that does not state the size of its content, but has the same window."""
    descriptor, p = header[4], 5
    if descriptor & 0x20:  # a single segment, whose window is its size
        window = min((content_size(memoryview(header)) - 1).bit_length() - 10, 31)
        header.insert(p, max(window, 0) << 3)
    return bytearray(header[:4] + bytes([descriptor & 0x1F]) + header[5 : 6 + (0, 1, 2, 4)[descriptor & 3]])

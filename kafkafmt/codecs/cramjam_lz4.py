"""Compress and decompress lz4 frames with cramjam, through functions with the names and errors of `lz4.frame`.

cramjam cannot decompress a frame in parts. Therefore, this module reads the structure of the frames, and cramjam
decompresses the blocks. cramjam's own frames contain block checksums, which this module leaves out.
"""

from __future__ import annotations

from typing import Any

import cramjam
import numpy as np

from ..types import Buffer, byte_view

BLOCKSIZE_MAX64KB = 4
_LARGEST = 64 * 1024
_SKIPPABLE = 0x184D2A50
_HEADER = bytes.fromhex("04224d18604082")  # independent blocks of at most 64 KiB, and nothing optional
_CHECKED_HEADER = bytes.fromhex("04224d186440a7")  # with a content checksum
_END = 4
"""Size of the end mark."""
_STORED = 0x80000000
"""Bit in the size of a block that is not compressed."""
_WINDOW = 0xFFFF
"""Largest distance between a match and the bytes that it repeats."""


def compress(data: Buffer, level: int, *, block_size: int, block_linked: bool, store_size: bool) -> bytes:
    """Return a frame of independent 64 KiB blocks. Level 0 is the fast mode, and others are the high-compression mode."""
    assert (block_size, block_linked, store_size) == (BLOCKSIZE_MAX64KB, False, False)
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    frame = memoryview(bytes(compressor.finish()))
    out: list[bytes | memoryview] = [_HEADER]
    p = len(_HEADER)
    while p < len(frame) - _END:
        end = p + 4 + (int.from_bytes(frame[p : p + 4], "little") & ~_STORED)
        out.append(frame[p:end])
        p = end + 4  # without the checksum of the block
    return b"".join((*out, bytes(_END)))


class _Context:
    """The state between two parts of a frame."""

    flags: int
    largest: int
    stated: int
    size: int
    window: bytes
    content: bytearray
    room: Any  # On a free-threaded Python, cramjam writes to arrays, but not to memoryviews.

    def __init__(self) -> None:
        self.room = np.empty(0, np.uint8)
        self.begin()

    def begin(self) -> None:
        self.flags = self.largest = self.stated = self.size = 0
        self.window = b""  # the last bytes of linked blocks
        self.content = bytearray()  # of a frame with a checksum of its content

    def read_header(self, data: memoryview) -> int:
        """Read the header of a frame. Return its size, or 0 if it is incomplete."""
        flags = data[4]
        size = 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
        if len(data) < size:
            return 0
        try:  # cramjam checks the header before it notices that the blocks are missing
            cramjam.lz4.decompress_into(data[:size], bytearray(1))
        except cramjam.DecompressionError as error:
            _, code, name = str(error).partition("ERROR_")
            if code:
                raise _failed(code + name) from None
        self.flags, self.largest = flags, 1 << 8 + 2 * (data[5] >> 4 & 7)
        self.stated = int.from_bytes(data[6:14], "little") if flags & 8 else 0  # 0 if the size is unknown
        if len(self.room) != _WINDOW + 4 + self.largest:
            self.room = np.empty(_WINDOW + 4 + self.largest, np.uint8)
        return size

    def read_block(self, block: memoryview, is_stored: bool) -> bytes:
        """Return the content of a block."""
        part = bytes(block) if is_stored else self._decompress(block)
        if not self.flags & 0x20:
            self.window = (self.window + part)[-_WINDOW:]
        if self.flags & 4:
            self.content += part
        self.size += len(part)
        return part

    def _decompress(self, block: memoryview) -> bytes:
        # A linked block repeats bytes of the window. cramjam has no function for this, so the block is preceded by
        # instructions that produce the window: literals, and a match of 4 bytes, with which a sequence must end.
        window, skip = self.window, 0
        packed: bytes | memoryview = block
        if window:
            window = window.rjust(4, b"\0")
            n, skip = len(window), 4 + len(window)
            length = bytes([n << 4]) if n < 15 else b"\xf0" + b"\xff" * ((n - 15) // 255) + bytes([(n - 15) % 255])
            packed = b"".join((length, window[-4:], window[:-4], n.to_bytes(2, "little"), block))
        try:
            size = cramjam.lz4.decompress_block_into(packed, self.room[: skip + self.largest])
        except cramjam.DecompressionError:
            raise _failed("ERROR_decompressionFailed") from None
        content: bytes = self.room[skip:size].tobytes()
        return content


create_decompression_context = _Context


def decompress_chunk(context: _Context, data: Buffer, max_length: int = -1) -> tuple[bytes, int, bool]:
    """Return the content of complete blocks, the size of what was read, and whether the frame has ended."""
    # The content has at most one block more than `max_length` bytes. RuntimeError: the frame is invalid.
    view, parts, made, p = byte_view(data), list[bytes](), 0, 0
    if not context.largest:
        if len(view) < len(_HEADER):
            return b"", 0, False
        if int.from_bytes(view[:4], "little") & 0xFFFFFFF0 == _SKIPPABLE:
            end = 8 + int.from_bytes(view[4:8], "little")
            return (b"", end, True) if 8 <= len(view) >= end else (b"", 0, False)
        if view[:4] != _HEADER[:4]:
            raise _failed("ERROR_frameType_unknown")
        p = context.read_header(view)
        if not p:
            return b"", 0, False
    done = False
    while len(view) - p >= 4 and (max_length < 0 or made < max_length):
        word = int.from_bytes(view[p : p + 4], "little")
        begin, end = p + 4, p + 4 + (word & ~_STORED)
        if not word:
            if context.flags & 4 and len(view) - begin < 4:
                break
            if context.stated not in (0, context.size):
                raise _failed("ERROR_frameSize_wrong")
            if context.flags & 4:
                if not _is_checksum(view[begin : begin + 4], context.content):
                    raise _failed("ERROR_contentChecksum_invalid")
                end += 4
            p, done = end, True
            context.begin()
            break
        if end - begin > context.largest:
            raise _failed("ERROR_maxBlockSize_invalid")
        checksum = 4 if context.flags & 0x10 else 0
        if len(view) - end < checksum:
            break
        if checksum and not _is_checksum(view[end : end + 4], view[begin:end]):
            raise _failed("ERROR_blockChecksum_invalid")
        part = context.read_block(view[begin:end], bool(word & _STORED))
        parts.append(part)
        made, p = made + len(part), end + checksum
    return b"".join(parts), p, done


def _is_checksum(checksum: memoryview, data: bytearray | memoryview) -> bool:
    """Return whether a checksum is the xxHash-32 of data."""
    # cramjam has no function for it. It verifies the checksum of a frame whose blocks are not compressed.
    view, parts = memoryview(data), [_CHECKED_HEADER]
    for start in range(0, len(view), _LARGEST):
        block = view[start : start + _LARGEST]
        parts += (len(block) | _STORED).to_bytes(4, "little"), bytes(block)
    try:
        cramjam.lz4.decompress_into(b"".join((*parts, bytes(4), checksum)), bytearray(max(1, len(view))))
    except cramjam.DecompressionError:
        return False
    return True


def _failed(name: str) -> RuntimeError:
    return RuntimeError(f"LZ4F_decompress failed with code: {name}")

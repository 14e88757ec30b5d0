"""Compress the records of batches.

Data is compressed as in Kafka's Java client: one gzip member, one xerial stream of 32 KiB blocks,
one lz4 frame of independent 64 KiB blocks, or one zstd frame. gzip data is always compressed by
zlib, because the compression levels of isal differ.
"""

from __future__ import annotations

import struct
import zlib
from threading import Lock
from typing import Any

import snappy

from ..constants import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NAMES,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    GZIP_WBITS,
    XERIAL_HEADER_SIZE,
    XERIAL_MAGIC,
)
from ..types import Buffer
from .packages import lz4_frame, zstandard

XERIAL_BLOCK = 32 * 1024
LZ4_BLOCK = 64 * 1024
LEVELS = {CODEC_GZIP: (1, 9, -1), CODEC_LZ4: (1, 17, 9), CODEC_ZSTD: (-131072, 22, 3)}
"""Lowest, highest and default level, as in Kafka's ``compression.gzip.level``. For gzip, -1 is the default of zlib."""


class Compressor:
    """Compresses batches with a fixed codec and compression level, by default Kafka's. snappy has no levels."""

    # Contexts are reused, so `compress` raises RuntimeError if another thread is using the same
    # object.

    def __init__(self, codec: int, level: int | None = None) -> None:
        if codec not in range(CODEC_GZIP, CODEC_ZSTD + 1):
            raise ValueError(f"codec is {codec}; it must be 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd)")
        if level is not None:
            lowest, highest, default = LEVELS.get(codec, (0, -1, 0))
            if level != default and not lowest <= level <= highest:
                levels = f"the levels are {lowest} to {highest}" if codec in LEVELS else "it has no levels"
                raise ValueError(f"{CODEC_NAMES[codec]} has no level {level}; {levels}")
        self.codec = codec
        self._busy = Lock()  # zstandard crashes if two threads use the same context
        self._level = LEVELS[codec][2] if level is None and codec in LEVELS else level or 0
        if codec == CODEC_ZSTD:
            self._zstd = zstandard.ZstdCompressor(level=self._level)
        elif codec == CODEC_LZ4:
            # Level 0 selects the fast mode of lz4. Levels 3 to 12 select its high-compression mode.
            self._level = 0 if self._level == LEVELS[codec][2] else min(max(self._level, 3), 12)

    def compress(self, data: Buffer) -> bytes:
        """Compress the records of a batch, or the message set of a wrapper message."""
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("another thread is using this Compressor")
        try:
            return self._compress(data)
        finally:
            self._busy.release()

    def _compress(self, data: Buffer) -> bytes:
        raw: Any = data
        if self.codec == CODEC_GZIP:
            stream = zlib.compressobj(self._level, zlib.DEFLATED, GZIP_WBITS)
            return stream.compress(raw) + stream.flush()
        if self.codec == CODEC_SNAPPY:
            return _xerial(memoryview(raw).cast("B"))
        if self.codec == CODEC_LZ4:
            packed: bytes = lz4_frame.compress(
                raw, self._level, block_size=lz4_frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
            )
            return packed
        compressed: bytes = self._zstd.compress(raw)
        return compressed

    def max_size(self, n: int) -> int:
        """Return an upper limit for the compressed size of `n` bytes of data, in bytes."""
        if self.codec == CODEC_GZIP:
            return n + (n >> 12) + (n >> 14) + (n >> 25) + 64
        if self.codec == CODEC_SNAPPY:
            return XERIAL_HEADER_SIZE + n + n // 6 + -(-n // XERIAL_BLOCK) * 36
        if self.codec == CODEC_LZ4:
            return n + 4 * -(-n // LZ4_BLOCK) + 32
        return n + (n >> 8) + 128


def _xerial(data: memoryview) -> bytes:
    out = [XERIAL_MAGIC + struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), XERIAL_BLOCK):
        part = data[start : start + XERIAL_BLOCK]
        block = snappy.compress(bytes(part))
        out += len(block).to_bytes(4, "big"), block
    return b"".join(out)

"""Compression and decompression of a batch's records by Kafka's codec ids: 1 gzip, 2 snappy, 3 lz4, 4 zstd.

The one address of the compression packages. What comes out goes into an `Arena`, one growing buffer that many
batches share, so that the core decodes them in one call; contexts and buffers are reused. No output passes the
caller's limit: where the data tells its size it is checked before anything is produced, and else while it is.

Read as Kafka's Java reads: concatenated gzip members (what follows the last is ignored if it is no gzip header),
zstd frames and skippable frames in a row, snappy in xerial's framing (streams in a row) or as one raw block, one lz4
frame. isal takes zlib's place where it is installed (about 1.3 times as fast). Written as Kafka's Java writes: one
member, one xerial stream of 32 KiB blocks, one frame of independent 64 KiB blocks, one frame; by zlib, since isal has
other levels.
"""

from __future__ import annotations

import struct
import zlib as plain_zlib
from threading import Lock
from typing import Any

import lz4.frame
import numpy as np
import numpy.typing as npt
import zstandard

from .constants import CODEC_GZIP, CODEC_LZ4, CODEC_NAMES, CODEC_SNAPPY, CODEC_ZSTD, DEFAULT_MAX_BATCH_BYTES
from .errors import KafkaFormatError, StructureError, TooLargeError, UnsupportedError
from .types import Buffer, view_of

try:
    from isal import isal_zlib as zlib
except ImportError:
    import zlib  # type: ignore[no-redef]

_raw_snappy: Any
try:
    from cramjam import snappy as _raw_snappy  # what python-snappy wraps: it writes straight into the arena
except ImportError:
    import snappy as _snappy

    _raw_snappy = None

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE = 16
XERIAL_BLOCK = 32 * 1024
LZ4_BLOCK = 64 * 1024
GZIP_MAGIC = b"\x1f\x8b"
GZIP_WBITS = 31
GZIP_WINDOW = 128
"""Bytes of the second and every later gzip member that are fed at first."""
ZSTD_MAGIC, ZSTD_SKIPPABLE = 0xFD2FB528, 0x184D2A50
ZSTD_SMALLEST = 8
"""Bytes of the smallest frame that one can meet: a skippable one that skips nothing."""
ZSTD_RLE_BLOCK = 2
_ZSTD_START = struct.Struct("<IB")
_ZSTD_AT_ONCE = 256 * 1024
_ROOM = 64 * 1024


LEVELS = {CODEC_GZIP: (1, 9, -1), CODEC_LZ4: (1, 17, 9), CODEC_ZSTD: (-131072, 22, 3)}
"""Lowest, highest and default level, as Kafka's compression.gzip.level and the like have them; gzip's -1 leaves it to zlib."""


class Arena:
    """A growing buffer for decompressed batches: `data[:filled]`. Growing moves it, so keep positions, not views."""

    def __init__(self, capacity: int = 1 << 20) -> None:
        self._replace(np.empty(capacity, np.uint8))
        self.filled = 0

    def _replace(self, data: npt.NDArray[np.uint8]) -> None:
        self.data, self.view = data, view_of(data)

    def room(self, n: int) -> memoryview:
        """`n` writable bytes behind what is filled."""
        end = self.filled + n
        if end > len(self.view):
            grown = np.empty(max(end, len(self.data) * 2), np.uint8)
            grown[: self.filled] = self.data[: self.filled]
            self._replace(grown)
        return self.view[self.filled : end]

    def append(self, part: bytes) -> None:
        end = self.filled + len(part)
        if end > len(self.view):
            self.room(len(part))
        self.view[self.filled : end] = part
        self.filled = end


class Compressor:
    """Compress batch after batch with one codec and level. Contexts are reused, so two threads at once get a RuntimeError."""

    def __init__(self, codec: int, level: int | None = None) -> None:
        if codec not in range(CODEC_GZIP, CODEC_ZSTD + 1):
            raise ValueError(f"there is no codec {codec} that compresses")
        if level is not None:
            lowest, highest, default = LEVELS.get(codec, (0, -1, 0))
            if level != default and not lowest <= level <= highest:
                there = f"{lowest} to {highest}" if codec in LEVELS else "none"
                raise ValueError(f"{CODEC_NAMES[codec]} has no level {level}; there are: {there}")
        self.codec = codec
        self._busy = Lock()  # zstandard crashes if two threads use one context
        self._level = LEVELS[codec][2] if level is None and codec in LEVELS else level or 0
        if codec == CODEC_ZSTD:
            self._zstd = zstandard.ZstdCompressor(level=self._level)
        elif (
            codec == CODEC_LZ4
        ):  # the default is lz4's fast way, any other its slow one, which begins at 3 and ends at 12
            self._level = 0 if self._level == LEVELS[codec][2] else min(max(self._level, 3), 12)

    def compress(self, data: Buffer) -> bytes:
        """Return the data as the records of a batch, or the value of a wrapper message.

        Raise RuntimeError if another thread is compressing with this object.
        """
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("another thread is compressing with this Compressor")
        try:
            return self._compress(data)
        finally:
            self._busy.release()

    def _compress(self, data: Buffer) -> bytes:
        raw: Any = data
        if self.codec == CODEC_GZIP:
            stream = plain_zlib.compressobj(self._level, plain_zlib.DEFLATED, GZIP_WBITS)
            return stream.compress(raw) + stream.flush()
        if self.codec == CODEC_SNAPPY:
            return _xerial(memoryview(raw).cast("B"))
        if self.codec == CODEC_LZ4:
            packed: bytes = lz4.frame.compress(
                raw, self._level, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
            )
            return packed
        return self._zstd.compress(raw)

    def max_size(self, n: int) -> int:
        """What `n` bytes become at the most."""
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
        block = bytes(_snappy.compress(part.tobytes()) if _raw_snappy is None else _raw_snappy.compress_raw(part))
        out += len(block).to_bytes(4, "big"), block
    return b"".join(out)


class Decompressor:
    """Decompress batch after batch into an arena, none to more than `max_batch_bytes`. Two threads at once get a RuntimeError."""

    def __init__(self, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        if max_batch_bytes < 1:
            raise ValueError("max_batch_bytes must be at least 1")
        self.limit = max_batch_bytes
        self._busy = Lock()  # zstandard crashes if two threads use one context
        self._zstd = zstandard.ZstdDecompressor()
        self._zstd_ratio = 4.0  # what to expect of the next batch, by one before it
        self._lz4: Any = lz4.frame.create_decompression_context()

    def decompress(self, codec: int, payload: Buffer, arena: Arena) -> int:
        """Append the decompressed payload to the arena. Return its size in bytes.

        Raise UnsupportedError for an unknown codec, TooLargeError beyond the limit, StructureError for data that
        does not decompress. The arena is then filled as before. Raise RuntimeError if another thread is decompressing with this object.
        """
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("another thread is decompressing with this Decompressor or RecordReader")
        try:
            return self._decompress(codec, payload, arena)
        finally:
            self._busy.release()

    def _decompress(self, codec: int, payload: Buffer, arena: Arena) -> int:
        start = arena.filled
        raw: Any = payload
        view = raw if type(raw) is memoryview and raw.format == "B" and raw.ndim == 1 else memoryview(raw).cast("B")
        try:
            if codec == CODEC_GZIP:
                self._gzip(view, arena, start)
            elif codec == CODEC_SNAPPY:
                self._snappy(view, arena, start)
            elif codec == CODEC_LZ4:
                self._lz4_frame(view, arena, start)
            elif codec == CODEC_ZSTD:
                self._zstd_frames(view, arena, start)
            else:
                raise UnsupportedError(f"codec {codec} is not supported")
        except KafkaFormatError:
            arena.filled = start
            raise
        except MemoryError:
            arena.filled = start
            raise TooLargeError(f"{CODEC_NAMES[codec]} data asks for more memory than there is") from None
        except Exception as error:  # every package has errors of its own, some none but Exception
            arena.filled = start
            raise StructureError(f"{CODEC_NAMES[codec]} data does not decompress: {error}") from error
        return arena.filled - start

    def _room(self, done: int, expected: int) -> int:
        """How much to ask for next: never more than one byte beyond the limit."""
        room = self.limit + 1 - done
        if expected < _ROOM:
            expected = _ROOM
        return expected if expected < room else room

    def _check(self, size: int, codec: int) -> None:
        if size > self.limit:
            raise TooLargeError(f"{CODEC_NAMES[codec]} data decompresses to more than the limit of {self.limit} bytes")

    def _gzip(self, data: memoryview, arena: Arena, start: int) -> None:
        """Decompress the members of gzip data, one after the other.

        zlib copies the input that it leaves unread. So the data of the second and later members are fed in windows, which begin
        small and double: a member of n bytes costs O(n), however many members follow it.
        """
        position, window = 0, len(data)
        while True:
            member = zlib.decompressobj(GZIP_WBITS)
            while not member.eof:
                if position == len(data):
                    part = member.decompress(b"", self._room(arena.filled - start, 4 * len(data)))
                    if not part:
                        raise StructureError("gzip data ends before its end mark")
                    left = 0
                else:
                    part = member.decompress(
                        data[position : position + window], self._room(arena.filled - start, 4 * len(data))
                    )
                    left = len(member.unused_data) if member.eof else len(member.unconsumed_tail)
                position = min(position + window, len(data)) - left
                arena.append(part)
                if arena.filled - start > self.limit:
                    self._check(arena.filled - start, CODEC_GZIP)
                if not left:
                    window *= 2
            if data[position : position + 2] != GZIP_MAGIC:
                return
            window = GZIP_WINDOW

    def _snappy(self, data: memoryview, arena: Arena, start: int) -> None:
        if data[:8] != XERIAL_MAGIC:
            self._snappy_block(data, arena, start)
            return
        p = XERIAL_HEADER_SIZE
        if len(data) < p:
            raise StructureError("snappy data ends inside xerial's header")
        while len(data) - p >= 4:  # Java takes no notice of up to 3 bytes behind the last block
            if data[p : p + 8] == XERIAL_MAGIC:
                p += XERIAL_HEADER_SIZE
                continue
            size = int.from_bytes(data[p : p + 4], "big", signed=True)
            p += 4
            if size < 0 or size > len(data) - p:
                raise StructureError(f"xerial block of {size} bytes does not lie in the snappy data")
            self._snappy_block(data[p : p + size], arena, start)
            p += size

    def _snappy_block(self, block: memoryview, arena: Arena, start: int) -> None:
        size = shift = 0
        for byte in block[:5].tobytes():
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        else:
            raise StructureError("snappy block ends inside its length")
        self._check(arena.filled - start + size, CODEC_SNAPPY)
        if size > 64 * len(block):  # a copy element of 2 bytes gives at most 64
            raise StructureError(f"snappy block of {len(block)} bytes claims to hold {size}")
        if _raw_snappy is None:
            arena.append(_snappy.uncompress(block.tobytes()))
        else:
            arena.filled += _raw_snappy.decompress_raw_into(block, arena.room(size))

    def _lz4_frame(self, data: memoryview, arena: Arena, start: int) -> None:
        context, pending, done = self._lz4, data, False
        try:
            while not done:
                part, used, done = lz4.frame.decompress_chunk(
                    context, pending, max_length=self._room(arena.filled - start, 4 * len(data))
                )
                arena.append(part)
                if arena.filled - start > self.limit:
                    self._check(arena.filled - start, CODEC_LZ4)
                if not done:
                    if not (part or used):
                        raise StructureError("lz4 data ends before its end mark")
                    pending = pending[used:]
        finally:
            if not done:  # a context that ends a frame is as good as new; a reset would not clear all that half a frame leaves behind
                self._lz4 = lz4.frame.create_decompression_context()

    def _zstd_frames(self, data: memoryview, arena: Arena, start: int) -> None:
        known = zstandard.frame_content_size(data)
        self._check(known, CODEC_ZSTD)
        single = _check_zstd_frames(data)
        room = known if known > 0 else int(self._zstd_ratio * len(data)) + _ROOM
        if single and known and room <= _ZSTD_AT_ONCE:  # for 16 KiB a tenth faster than the stream reader
            try:
                part = self._zstd.decompress(data, min(room, self.limit))
            except zstandard.ZstdError:  # broken or larger: it does not say which
                pass
            else:
                arena.append(part)
                return
        expected = known if known > 0 else 4 * len(data)
        with self._zstd.stream_reader(data, read_across_frames=True) as reader:
            while True:
                got = reader.readinto(arena.room(self._room(arena.filled - start, expected)))
                if not got:
                    break
                arena.filled += got
                expected = 0
                self._check(arena.filled - start, CODEC_ZSTD)
        self._zstd_ratio = 1.25 * (arena.filled - start) / len(data)


def _check_zstd_frames(data: memoryview) -> bool:
    """Frames, one behind the other, up to the end, which the decompressor does not check. Whether there is one, and no more."""
    p, n, frames = 0, len(data), 0
    while n - p >= ZSTD_SMALLEST:
        magic, descriptor = _ZSTD_START.unpack_from(data, p)
        frames += 1
        if magic != ZSTD_MAGIC:
            if magic & 0xFFFFFFF0 != ZSTD_SKIPPABLE:
                raise StructureError("zstd data goes on with what is no frame")
            p += 8 + int.from_bytes(data[p + 4 : p + 8], "little")
            frames += 1
            continue
        p += _ZSTD_HEADER_SIZES[descriptor]
        last = 0
        while not last:
            if n - p < 3:
                raise StructureError("zstd data ends inside a frame")
            block = data[p] | data[p + 1] << 8 | data[p + 2] << 16
            last = block & 1
            p += 3 + (1 if block & 6 == ZSTD_RLE_BLOCK else block >> 3)
        p += descriptor & 4  # the checksum
    if p != n:
        raise StructureError("zstd data ends inside a frame")
    return frames == 1


def _zstd_header_size(descriptor: int) -> int:
    """Bytes of a frame's header by its fifth: up to that one, window, dictionary, content size."""
    size = 6 + (0, 1, 2, 4)[descriptor & 3] + (0, 2, 4, 8)[descriptor >> 6]
    if descriptor & 0x20:  # a single segment: no window byte, and a content size of at least a byte
        size -= descriptor >= 0x40
    return size


_ZSTD_HEADER_SIZES = [_zstd_header_size(descriptor) for descriptor in range(256)]

"""Decompression of a batch's records by Kafka's codec ids: 1 gzip, 2 snappy, 3 lz4, 4 zstd.

The one address of the compression packages. What comes out goes into an `Arena`, one growing buffer that many
batches share, so that the core decodes them in one call; contexts and buffers are reused. No output passes the
caller's limit: where the data tells its size it is checked before anything is produced, and else while it is.

Read as Kafka's Java reads: concatenated gzip members (what follows the last is ignored if it is no gzip header),
zstd frames and skippable frames in a row, snappy in xerial's framing (streams in a row) or as one raw block, one lz4
frame. isal takes zlib's place where it is installed (about 1.3 times as fast).
"""

from __future__ import annotations

from typing import Any

import lz4.frame
import numpy as np
import numpy.typing as npt
import zstandard

from .constants import CODEC_GZIP, CODEC_LZ4, CODEC_NAMES, CODEC_SNAPPY, CODEC_ZSTD, DEFAULT_MAX_BATCH_BYTES
from .errors import KafkaFormatError, StructureError, TooLargeError, UnsupportedError
from .types import Buffer

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
GZIP_MAGIC = b"\x1f\x8b"
GZIP_WBITS = 31
ZSTD_MAGIC, ZSTD_SKIPPABLE = 0xFD2FB528, 0x184D2A50
ZSTD_SMALLEST = 8
"""Bytes of the smallest frame that one can meet: a skippable one that skips nothing."""
ZSTD_RLE_BLOCK = 2
_ROOM = 64 * 1024


class Arena:
    """A growing buffer for decompressed batches: `data[:filled]`. Growing moves it, so keep positions, not views."""

    def __init__(self, capacity: int = 1 << 20) -> None:
        self.data: npt.NDArray[np.uint8] = np.empty(capacity, np.uint8)
        self.filled = 0

    def room(self, n: int) -> memoryview:
        """Writable bytes behind what is filled, at least `n`."""
        if len(self.data) - self.filled < n:
            grown = np.empty(max(self.filled + n, len(self.data) * 2), np.uint8)
            grown[: self.filled] = self.data[: self.filled]
            self.data = grown
        data: Any = self.data
        return memoryview(data)[self.filled :]

    def append(self, part: bytes) -> None:
        self.room(len(part))[: len(part)] = part
        self.filled += len(part)


class Decompressor:
    """Decompresses batch after batch into an arena, none to more than `max_batch_bytes`. Not for two threads at once."""

    def __init__(self, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        if max_batch_bytes < 1:
            raise ValueError("max_batch_bytes must be at least 1")
        self.limit = max_batch_bytes
        self._zstd = zstandard.ZstdDecompressor()
        self._lz4: Any = lz4.frame.LZ4FrameDecompressor()

    def decompress(self, codec: int, payload: Buffer, arena: Arena) -> int:
        """Append the decompressed payload to the arena; its size in bytes.

        Raises UnsupportedError for an unknown codec, TooLargeError beyond the limit, StructureError for data that
        does not decompress. The arena is then filled as before.
        """
        start = arena.filled
        raw: Any = payload
        view = memoryview(raw).cast("B")
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
        return min(max(expected, _ROOM), self.limit + 1 - done)

    def _check(self, size: int, codec: int) -> None:
        if size > self.limit:
            raise TooLargeError(f"{CODEC_NAMES[codec]} data decompresses to more than the limit of {self.limit} bytes")

    def _gzip(self, data: memoryview, arena: Arena, start: int) -> None:
        while True:
            member = zlib.decompressobj(GZIP_WBITS)
            pending: Any = data
            while not member.eof:
                part = member.decompress(pending, self._room(arena.filled - start, 4 * len(data)))
                arena.append(part)
                self._check(arena.filled - start, CODEC_GZIP)
                pending = member.unconsumed_tail
                if not part and not pending and not member.eof:
                    raise StructureError("gzip data ends before its end mark")
            data = memoryview(member.unused_data)
            if data[:2] != GZIP_MAGIC:
                return

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
        for byte in block[:5]:
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
            part = _snappy.uncompress(bytes(block))
            arena.append(part)
        else:
            arena.filled += _raw_snappy.decompress_raw_into(block, arena.room(size)[:size])

    def _lz4_frame(self, data: memoryview, arena: Arena, start: int) -> None:
        context = self._lz4
        context.reset()
        pending: Any = data
        try:
            while not context.eof:
                part = context.decompress(pending, self._room(arena.filled - start, 4 * len(data)))
                arena.append(part)
                self._check(arena.filled - start, CODEC_LZ4)
                if not (part or context.eof) and context.needs_input:
                    raise StructureError("lz4 data ends before its end mark")
                pending = b""  # the context keeps what it has not used yet
        finally:
            if not context.eof:  # a reset does not clear all that a frame left halfway leaves behind
                self._lz4 = lz4.frame.LZ4FrameDecompressor()

    def _zstd_frames(self, data: memoryview, arena: Arena, start: int) -> None:
        _check_zstd_frames(data)
        known = zstandard.frame_content_size(data)
        self._check(known, CODEC_ZSTD)
        expected = known if known > 0 else 4 * len(data)
        with self._zstd.stream_reader(data, read_across_frames=True) as reader:
            while True:
                room = self._room(arena.filled - start, expected)
                got = reader.readinto(arena.room(room)[:room])
                if not got:
                    return
                arena.filled += got
                expected = 0
                self._check(arena.filled - start, CODEC_ZSTD)


def _check_zstd_frames(data: memoryview) -> None:
    """Frames, one behind the other, up to the end: the stream reader takes an end inside a frame for the end of all."""
    p, n = 0, len(data)
    while n - p >= ZSTD_SMALLEST:
        magic = int.from_bytes(data[p : p + 4], "little")
        if magic & 0xFFFFFFF0 == ZSTD_SKIPPABLE:
            p += 8 + int.from_bytes(data[p + 4 : p + 8], "little")
            continue
        if magic != ZSTD_MAGIC:
            raise StructureError("zstd data goes on with what is no frame")
        descriptor = data[p + 4]
        p += 6 + (0, 1, 2, 4)[descriptor & 3] + (0, 2, 4, 8)[descriptor >> 6]
        if descriptor & 0x20:  # a single segment: no window byte, and a content size of at least a byte
            p -= descriptor >= 0x40
        last = 0
        while not last:
            if n - p < 3:
                raise StructureError("zstd data ends inside a frame")
            block = int.from_bytes(data[p : p + 3], "little")
            last = block & 1
            p += 3 + (1 if block & 6 == ZSTD_RLE_BLOCK else block >> 3)
        p += descriptor & 4  # the checksum
    if p != n:
        raise StructureError("zstd data ends inside a frame")

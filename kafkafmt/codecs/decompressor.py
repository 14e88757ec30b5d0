"""Decompress the records of batches.

Kafka's codec ids are 1 (gzip), 2 (snappy), 3 (lz4) and 4 (zstd).

Only the modules of this folder import third-party compression packages; `packages.py` says what replaces a missing one. The
decompressed data of many batches is appended to an `Arena`, a buffer that grows as needed. One call of
the native core can then decode all these batches. Contexts and buffers for decompression are reused.

Usually, the core decompresses many batches in one call, with the C functions of the packages; see
`functions`. A batch that it refuses is decompressed here, through the Python API of the packages,
which names the error.

The caller sets a limit for the decompressed size. The limit is checked before decompression if the
compressed data contains its decompressed size. Otherwise, it is checked during decompression.

Data is decompressed as in Kafka's Java client:

- gzip data consists of consecutive members. Data after a member is ignored if it does not begin
  with a gzip header.
- zstd data consists of consecutive frames and skippable frames.
- snappy data consists of consecutive streams in the format of xerial's snappy-java, or of one raw
  block.
- lz4 data consists of one frame.

If isal is installed, it is used to decompress gzip data. It is about 1.3 times as fast as zlib, unless
the data is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter
from typing import Any

import cramjam
import numpy as np
import numpy.typing as npt

from .._backend import core
from ..constants import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_NAMES,
    CODEC_SNAPPY,
    CODEC_ZSTD,
    DEFAULT_MAX_BATCH_BYTES,
    FAULT_SNAPPY_ELEMENT,
    FAULT_SNAPPY_LENGTH,
    FAULT_SNAPPY_LIMIT,
    FAULT_SNAPPY_SIZE,
    FAULT_XERIAL_BLOCK,
    FAULT_XERIAL_HEADER,
    GZIP_WBITS,
    MAX_VARINT_BYTES,
    SNAPPY_FAULTS,
    SNAPPY_MAX_RATIO,
    XERIAL_HEADER_SIZE,
    XERIAL_MAGIC,
)
from ..errors import KafkaFormatError, StructureError, TooLargeError, UnsupportedError
from ..types import BatchTable, Buffer, byte_view, view_of
from .functions import codec_functions
from .packages import lz4_frame, zlib, zstandard, zstd_decompressor
from .zstd_frames import content_frames

GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 128
"""Bytes that are passed to zlib in the first call for a gzip member, except for the first member, which gets all."""
_ZSTD_AT_ONCE = 256 * 1024
_ROOM = 64 * 1024


class Arena:
    """A growing buffer for decompressed batches. The used part of the buffer is `data[:filled]`."""

    # Growth reallocates the memory, so callers must store positions instead of views.

    data: npt.NDArray[np.uint8]
    view: memoryview

    def __init__(self, capacity: int = 1 << 20) -> None:
        self._replace(np.empty(capacity, np.uint8))
        self.filled: int = 0

    def _replace(self, data: npt.NDArray[np.uint8]) -> None:
        self.data, self.view = data, view_of(data)

    def room(self, n: int) -> memoryview:
        """Return a writable view of the next `n` unused bytes. Enlarge the buffer if necessary."""
        end = self.filled + n
        if end > len(self.view):
            grown = np.empty(max(end, len(self.data) * 2), np.uint8)
            grown[: self.filled] = self.data[: self.filled]
            self._replace(grown)
        return self.view[self.filled : end]

    def append(self, part: bytes | memoryview) -> None:
        """Append bytes to the buffer. Enlarge the buffer if necessary."""
        end = self.filled + len(part)
        if end > len(self.view):
            self.room(len(part))
        self.view[self.filled : end] = part
        self.filled = end


def too_large(codec: int, limit: int) -> TooLargeError:
    """Create the error for data that has more than `limit` bytes after decompression."""
    return TooLargeError(f"{CODEC_NAMES[codec]} data decompresses to more than the limit of {limit} bytes")


def snappy_error(fault: int, limit: int) -> KafkaFormatError:
    """Create the error for snappy data. `fault` is an index of SNAPPY_FAULTS. `limit` is the limit of the Decompressor."""
    return too_large(CODEC_SNAPPY, limit) if fault == FAULT_SNAPPY_LIMIT else StructureError(SNAPPY_FAULTS[fault])


class Decompressor:
    """Decompresses batches into an `Arena`. A batch may have at most `max_batch_bytes` after decompression."""

    # Contexts are reused, so `decompress` raises RuntimeError if another thread is using the same
    # object.

    def __init__(self, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        if max_batch_bytes < 1:
            raise ValueError(f"max_batch_bytes is {max_batch_bytes}; it must be at least 1")
        self.limit = max_batch_bytes
        self.seconds: float = 0.0
        """Total time that calls of `decompress` have taken, in seconds."""
        self._busy = Lock()  # zstandard crashes if two threads use the same context
        self._zstd = zstd_decompressor(max_batch_bytes)
        self._zstd_ratio = 4.0  # expected compression ratio, for batches that do not contain their decompressed size
        self._lz4: Any = lz4_frame.create_decompression_context()
        self._decoder = core.PayloadDecoder(codec_functions().addresses)

    def append(
        self, view: memoryview, table: BatchTable, moved: BatchTable, row: int, arena: Arena, enough: int
    ) -> int:
        """Append the payloads of batches from `row` on to `arena`, until it has `enough` bytes. Store the rows in `moved`."""
        # Return the row of the first payload that was not appended. If `enough` is not reached, this
        # payload must be passed to the function of `reserved`, which names its error.
        while True:
            row, arena.filled, needed = self._decoder.append(
                view, table, moved, row, arena.view, arena.filled, enough, self.limit
            )
            if not needed:
                return row
            arena.room(needed - arena.filled)

    def decompress(self, codec: int, payload: Buffer, arena: Arena) -> int:
        """Decompress `payload`, and append the result to `arena`. Return its size in bytes."""
        # After an error, the contents of the arena are as before. TooLargeError: the limit is
        # exceeded. StructureError: the data cannot be decompressed. RuntimeError: another thread
        # uses this object.
        with self.reserved() as decompress:
            result = decompress(codec, byte_view(payload), arena)
        if isinstance(result, KafkaFormatError):
            raise result
        return result

    @contextmanager
    def reserved(self) -> Iterator[Callable[[int, memoryview, Arena], int | KafkaFormatError]]:
        """Return a function for a `with` block that decompresses many small payloads faster than `decompress`."""
        # The payloads must be one-dimensional memoryviews of bytes. Errors are returned instead of
        # raised, because there can be many. Other threads cannot use this object during the block.
        # `seconds` is updated at its end.
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("another thread is using this Decompressor or RecordReader")
        started = perf_counter()
        try:
            yield self._decompress
        finally:
            self.seconds += perf_counter() - started
            self._busy.release()

    def _decompress(self, codec: int, view: memoryview, arena: Arena) -> int | KafkaFormatError:
        start = arena.filled
        failed: KafkaFormatError
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
            return arena.filled - start
        except KafkaFormatError as error:
            failed = error.with_traceback(None)  # a traceback would keep frames in memory
        except MemoryError:
            failed = TooLargeError(f"{CODEC_NAMES[codec]} data needs more memory than is available")
        except Exception as error:  # Compression packages raise different errors, including plain Exception.
            # lz4's messages begin with the name of a C function. This name depends on the size of the data.
            message = str(error).rpartition(" failed with code: ")[2] if codec == CODEC_LZ4 else error
            failed = StructureError(f"{CODEC_NAMES[codec]} data cannot be decompressed: {message}")
        arena.filled = start
        return failed

    def _room(self, done: int, expected: int) -> int:
        """Return the number of bytes to decompress next; `done` were decompressed."""
        # One byte more than the limit is sufficient to detect that it is exceeded.
        room = self.limit + 1 - done
        if expected < _ROOM:
            expected = _ROOM
        return expected if expected < room else room

    def _check(self, size: int, codec: int) -> None:
        if size > self.limit:
            raise too_large(codec, self.limit)

    def _gzip(self, data: memoryview, arena: Arena, start: int) -> None:
        """Decompress one gzip member after another. Usually, there is only one."""
        member = zlib.decompressobj(GZIP_WBITS)
        arena.append(member.decompress(data, self._room(0, 4 * len(data))))
        if arena.filled - start > self.limit:
            self._check(arena.filled - start, CODEC_GZIP)
        if not member.eof or member.unused_data:
            self._rest_of_gzip(member, data, arena, start)

    def _rest_of_gzip(self, member: Any, data: memoryview, arena: Arena, start: int) -> None:
        """Decompress the rest of the first gzip member, and all later members."""
        # `member` is the decompressor of the first member. It was called once, with all of `data`.
        # In each call, zlib copies the part of the input that it does not consume. Therefore, later
        # members are passed to zlib in several calls, whose input is small at first and then
        # doubles. So a member of n bytes takes O(n), regardless of the number of members that
        # follow.
        position, window = len(data) - len(member.unused_data if member.eof else member.unconsumed_tail), len(data)
        while True:
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
            if position == len(data) or data[position : position + 2] != GZIP_MAGIC:
                return
            member, window = zlib.decompressobj(GZIP_WBITS), GZIP_WINDOW

    def _snappy(self, data: memoryview, arena: Arena, start: int) -> None:
        """Decompress one raw block, or the blocks of xerial streams. `core.check_snappy` makes the same checks."""
        if data[:8] != XERIAL_MAGIC:
            self._snappy_block(data, arena, start)
            return
        p = XERIAL_HEADER_SIZE
        if len(data) < p:
            raise snappy_error(FAULT_XERIAL_HEADER, self.limit)
        while len(data) - p >= 4:  # Kafka's Java client also ignores up to 3 bytes after the last snappy block.
            if data[p] == XERIAL_MAGIC[0] and data[p : p + 8] == XERIAL_MAGIC:
                p += XERIAL_HEADER_SIZE
                continue
            size = int.from_bytes(data[p : p + 4], "big", signed=True)
            p += 4
            if size < 0 or size > len(data) - p:
                raise snappy_error(FAULT_XERIAL_BLOCK, self.limit)
            self._snappy_block(data[p : p + size], arena, start)
            p += size

    def _snappy_block(self, block: memoryview, arena: Arena, start: int) -> None:
        size = shift = 0
        for byte in block[:MAX_VARINT_BYTES].tobytes():
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        else:
            raise snappy_error(FAULT_SNAPPY_LENGTH, self.limit)
        self._check(arena.filled - start + size, CODEC_SNAPPY)
        if size > SNAPPY_MAX_RATIO * len(block):
            raise snappy_error(FAULT_SNAPPY_SIZE, self.limit)
        arena.room(size)
        # Unlike python-snappy, which is a wrapper of it, cramjam can write directly into the arena. On a free-threaded
        # Python, it writes to arrays, but not to memoryviews.
        room: Any = arena.data[arena.filled : arena.filled + size]
        try:
            arena.filled += cramjam.snappy.decompress_raw_into(block, room)
        except cramjam.DecompressionError:  # Its message describes internals of the decompressor.
            raise snappy_error(FAULT_SNAPPY_ELEMENT, self.limit) from None

    def _lz4_frame(self, data: memoryview, arena: Arena, start: int) -> None:
        context, pending, done = self._lz4, data, False
        try:
            while not done:
                part, used, done = lz4_frame.decompress_chunk(
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
            if not done:  # A reset would not clear the whole state that an incomplete frame leaves in the context.
                self._lz4 = lz4_frame.create_decompression_context()

    def _zstd_frames(self, data: memoryview, arena: Arena, start: int) -> None:
        known = zstandard.frame_content_size(data)
        self._check(known, CODEC_ZSTD)
        frames = content_frames(data)
        single = len(frames) == 1 and frames[0][:2] == (0, len(data))
        room = known if known > 0 else int(self._zstd_ratio * len(data)) + _ROOM
        # For 16 KiB of data, decompress() is 10 % faster than the stream reader.
        if single and known and room <= _ZSTD_AT_ONCE:
            try:
                part = self._zstd.decompress(data, min(room, self.limit))
            except zstandard.ZstdError:  # Retry with the stream reader, which reports corrupted data.
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

"""Read the batches of one open segment as tables of their headers.

The buffer for the bytes and the array for the batch headers are reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    DEFAULT_MAX_BATCH_BYTES,
    ENTRY_OVERHEAD,
    MAGIC_END,
    MAGIC_V2,
    MIN_LEGACY_LENGTH,
)
from ...errors import ChecksumError, KafkaFormatError, TooLargeError, TruncatedError
from ...support.text import quantity
from ...types import BATCH_DTYPE, TABLE_ROWS, BatchTable, ByteArray, IntArray
from ..scanning import Head
from ..storage import FileView, aligned_buffer, occupied
from .batch_finder import OwnCrc
from .known_wrappers import KnownWrappers
from .parts import SPAN_COLUMNS
from .search import Search

BUFFER_BYTES = 4 << 20
FIRST_READ = 32 << 10
"""Bytes that are read first for a lookup. Each further read is four times as large, up to BUFFER_BYTES."""
GROWTH = 4
SPAN_ROWS = 8192
SMALLEST_MESSAGE = ENTRY_OVERHEAD + MIN_LEGACY_LENGTH
Table = tuple[int, Any, BatchTable, KafkaFormatError | None]
"""File position of a buffer, the buffer, the headers of its valid batches, and the error after these."""


SMALLEST_BUFFER = 64 << 10  # smallest size of a buffer in bytes, for small and empty files


class Scratch:
    """Memory that several `Walker` objects use, one after the other."""

    # Allocating new memory takes longer than reading the batches of a small segment.

    def __init__(self) -> None:
        self._buffer = aligned_buffer(0)

    def buffer(self, size: int) -> ByteArray:
        """Return a buffer of at least `size` bytes, but of at most BUFFER_BYTES."""
        # The buffer grows with the files. For a large one, NumPy requests huge pages: slow for one small file.
        if len(self._buffer) < min(size, BUFFER_BYTES):
            self._buffer = aligned_buffer(min(2 * size, BUFFER_BYTES))
        return self._buffer

    @cached_property
    def table(self) -> BatchTable:
        return np.zeros(TABLE_ROWS, BATCH_DTYPE)

    @cached_property
    def spans(self) -> IntArray:
        """An array for damaged byte ranges, with one row per byte range."""
        return np.empty((SPAN_ROWS, SPAN_COLUMNS), np.int64)


class TableReader:
    """Reads the batches of one open segment in tables. No offset is below `base_offset`."""

    # No other walker uses `scratch` at the same time. `first_read` is the number of bytes that are read at first.

    def __init__(
        self,
        view: FileView,
        base_offset: int,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        first_read: int = BUFFER_BYTES,
        scratch: Scratch | None = None,
    ) -> None:
        self.view = view
        self.size: int = view.size
        self.base_offset = base_offset
        self.max_batch_bytes = max_batch_bytes
        self.first_read = first_read
        if scratch is not None:
            # A file can have become smaller after it was planned, so the buffer must be large enough for a header.
            self._buffer, self._table = scratch.buffer(max(view.size, SMALLEST_BUFFER)), scratch.table
        self._buffer_at = self._buffered = 0
        """File position of the first byte in the buffer, and number of bytes of the file in the buffer."""
        self._before_read: Callable[[], None] = lambda: None
        """Function that is called before other bytes are read into the buffer."""

    @cached_property
    def search(self) -> Search:
        """Finds the position after damaged bytes at which reading can resume."""
        return Search(self.view)

    @property
    def has_wrappers(self) -> bool:
        """Whether `wrappers` was used. If not, no batch that was read is a wrapper message."""
        return "wrappers" in vars(self)

    @cached_property
    def wrappers(self) -> KnownWrappers:
        """The inner offsets of the wrapper messages in the file."""
        return KnownWrappers(self.max_batch_bytes)

    @cached_property
    def _buffer(self) -> ByteArray:
        return aligned_buffer(min(BUFFER_BYTES, max(self._content, 1)))

    @cached_property
    def _table(self) -> BatchTable:
        # Limit the array to the size of the segment. Creating a large array takes longer than reading a small segment.
        return np.zeros(min(TABLE_ROWS, self._content // SMALLEST_MESSAGE + 1), BATCH_DTYPE)

    @cached_property
    def _content(self) -> int:
        """Estimated total size of the batches, in bytes. It is small for a preallocated segment, which is mostly a hole."""
        return min(self.size, max(occupied(self.view), FIRST_READ))

    def tables(self, position: int, end: int) -> Iterator[Table]:
        """Read tables of valid batches from `position` to `end`, and stop at the first damaged batch with its error."""
        step = self.first_read
        # Request bytes in advance only if the first read is large. A caller that begins with small reads may stop soon.
        if step >= len(self._buffer):
            self.view.expect(position, end)
        while position < end:
            at = position - self._buffer_at
            read = not 0 <= at < self._buffered
            if read:
                self._before_read()
                at, asked = 0, min(step, len(self._buffer), end - position)
                self._buffer_at, self._buffered = position, 0
                self._buffered = self.view.read_into(self._buffer[:asked], position)
                step *= GROWTH
            start, stop, error, full = at, min(self._buffered, end - self._buffer_at), None, True
            # The buffer can contain more small batches than the array can hold. The array is then filled several times.
            while full:
                scan = core.scan_batches(self._buffer, self._table, at, stop)
                full = scan.count == len(self._table)
                at, error = scan.position, scan.error
                if error is not None:
                    error.position += self._buffer_at
                    error.resume = None if error.resume is None else error.resume + self._buffer_at
                elif at == start and read:
                    size = self._size_of_unread(position, end, stop, asked)
                    if isinstance(size, KafkaFormatError):
                        error = size
                    else:
                        step = max(step, size)
                if scan.count or error is not None:
                    yield self._buffer_at, self._buffer, self._table[: scan.count], error
                if error is not None:
                    return
            if at == start:  # the buffer does not contain the complete batch at `position`
                known = (
                    self._buffered > 0 and stop - at >= MAGIC_END
                )  # the buffer is empty if it has just been replaced by a larger one
                if known and (error := self._too_long(self._head(position, at, stop), end)):
                    yield self._buffer_at, self._buffer, self._table[:0], error
                    return
                self._buffered = 0
            position = self._buffer_at + at

    def read(self, position: int, size: int) -> bytes:
        """Return the `size` bytes at `position`, or fewer at the end of the file, from the buffer if possible."""
        at = position - self._buffer_at
        if 0 <= at <= self._buffered - size:
            return bytes(self._buffer[at : at + size])
        return self.view.read(position, size)

    def _head(self, position: int, at: int, stop: int) -> Head:
        """Return the header of the batch at index `at` of the buffer, or else at `position` of the file."""
        whole = stop - at >= BATCH_HEADER_SIZE
        return Head(
            position,
            bytes(self._buffer[at : at + BATCH_HEADER_SIZE]) if whole else self.view.read(position, BATCH_HEADER_SIZE),
        )

    def _size_of_unread(self, position: int, end: int, got: int, asked: int) -> int | KafkaFormatError:
        """Return the size of a batch that is only partly in the buffer, or the error if it is invalid."""
        # If the batch is larger than the buffer, the buffer is replaced by a larger one.
        if got < asked:
            return TruncatedError("the file was truncated while it was read", position)
        head = Head(position, bytes(self._buffer[: min(got, BATCH_HEADER_SIZE)]))
        if error := self._too_long(head, end):
            return error
        if head.size > len(self._buffer):
            self._buffer, self._buffered = aligned_buffer(head.size), 0
        return head.size

    def _too_long(self, head: Head, end: int) -> KafkaFormatError | None:
        """Return an error if a large batch exceeds the file or the size limit, or if its CRC does not match."""
        # The CRC is computed, in blocks, only if the batch is larger than the buffer.
        left = end - head.position
        if left < MAGIC_END:
            return TruncatedError(f"the file ends {quantity(left, 'byte')} into a batch", head.position)
        if head.size > left:
            message = f"the file ends {quantity(left, 'byte')} into a batch of {head.size}"
            return TruncatedError(message, head.position, head.first_offset)
        if head.size > min(len(self._buffer), BUFFER_BYTES) and not OwnCrc(self.search, head).matches(head.end):
            return ChecksumError("the CRC does not match the crc field", head.position, head.first_offset, head.end)
        if head.size > max(self.max_batch_bytes, len(self._buffer)):
            message = f"the batch has {head.size} bytes; the limit is {self.max_batch_bytes}"
            return TooLargeError(message, head.position, head.first_offset, head.end)
        return None

    def first_offset_at(self, position: int) -> int:
        """Return the first offset of a batch: of an undecodable wrapper message, that in its header."""
        head = Head(position, self.view.read(position, ENTRY_OVERHEAD))
        entry, row = self.view.read(position, head.size), np.zeros(1, BATCH_DTYPE)
        if core.scan_batches(entry, row).count and row["magic"][0] < MAGIC_V2 and row["count"][0] < 0:
            return int(self.wrappers.inner(position, entry, row).first[0])
        return head.first_offset

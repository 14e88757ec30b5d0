"""Walk a segment: find its runs of valid batches and the damaged spans between them.

Batches are not decompressed. Wrapper messages (formats 0 and 1) are an exception: the CRC does not
cover their offset field, and only their inner messages contain their first offset. One buffer and
one table are reused for all batches. Besides these, memory is used for runs and damaged spans only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CONTROL_BIT,
    DEFAULT_MAX_BATCH_BYTES,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V2,
    MAX_OFFSET,
)
from ...errors import ChecksumError, KafkaFormatError, TooLargeError, TruncatedError
from ...records.wrappers import WrapperReader
from ...types import BATCH_DTYPE, BatchTable, Buffer, IntArray, last_offset
from ..format.files import FileView, aligned_buffer
from .batch_finder import OwnCrc
from .batch_head import Head
from .offset_check import split_at_wrong_offsets
from .part_builder import TABLE_ROWS, PartBuilder, runs_of
from .parts import Bad, Parts, Run
from .search import Search
from .segment_stats import Stats

BUFFER_BYTES = 4 << 20
FIRST_READ = 32 << 10
"""Size of the first read of a lookup, in bytes. Each further read is four times as large, up to
BUFFER_BYTES.
"""
GROWTH = 4
SPAN_ROWS = 8192
Table = tuple[int, Any, BatchTable, KafkaFormatError | None]
"""File position of a buffer, the buffer, a table of valid batches in it, and the error after the
last of them.
"""


See = Callable[[int, Any, np.ndarray], None]


class Walker:
    """Walks one open segment.

    Parameters
    ----------
    view : FileView
        The open file.
    base_offset : int
        Lowest offset that the segment can contain.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression.
    run_bytes : int, optional
        Size at which a run is cut although the next batch continues it, in bytes.
    first_read : int, default 4194304 (4 MiB)
        Size of the first read, in bytes.
    """

    def __init__(
        self,
        view: FileView,
        base_offset: int,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        run_bytes: int = sys.maxsize,
        first_read: int = BUFFER_BYTES,
    ) -> None:
        self.view = view
        self.size: int = view.size
        self.base_offset = base_offset
        self.max_batch_bytes = max_batch_bytes
        self.run_bytes = run_bytes
        self.first_read = first_read
        self.search: Search = Search(view)
        self.stats: Stats = Stats()
        self._wrappers = WrapperReader(max_batch_bytes)
        self._buffer = aligned_buffer(0 if view.data is not None else min(BUFFER_BYTES, max(self.size, 1)))
        self._buffer_at = self._buffered = 0
        """Position in the file of the buffer, and how many of its bytes are the file's."""
        self._table = np.zeros(TABLE_ROWS, BATCH_DTYPE)
        self._spans = np.empty((SPAN_ROWS, 7), np.int64)
        self._before_read: Callable[[], None] = lambda: None
        """Called before the buffer is filled again."""

    def tables(self, position: int, end: int) -> Iterator[Table]:
        """Yield tables of the valid batches from `position` to `end`, or to the first damaged
        batch.

        The last table may be empty. Its error is None if `end` was reached; otherwise its position
        is that in the file.
        """
        if self.view.data is not None:
            yield from self._mapped_tables(self.view.data, position, end)
            return
        step = self.first_read
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
            while full:  # a buffer of small batches fills the table several times
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
            if at == start:  # the batch at `position` is not whole in the buffer
                known = (
                    self._buffered > 0 and stop - at >= MAGIC_END
                )  # a buffer that was just replaced by a larger one is empty
                if known and (error := self._too_long(position, end, self._head(position, at, stop))):
                    yield self._buffer_at, self._buffer, self._table[:0], error
                    return
                self._buffered = 0
            position = self._buffer_at + at

    def _head(self, position: int, at: int, stop: int) -> bytes:
        """Return a batch's header: from the buffer, at `at`, or from the file if the buffer's bytes
        end before the header does.
        """
        if stop - at >= BATCH_HEADER_SIZE:
            return bytes(self._buffer[at : at + BATCH_HEADER_SIZE])
        return self.view.read(position, BATCH_HEADER_SIZE)

    def _mapped_tables(self, data: np.ndarray, position: int, end: int) -> Iterator[Table]:
        """Yield the tables of a memory-mapped file, in which every batch is complete. The buffer is
        the file.
        """
        self._buffer, self._buffered = data, len(data)
        step, planned_end, end = self.first_read, end, min(end, len(data))
        while position < end:
            window = min(step, end - position)
            scan = core.scan_batches(data, self._table, position, position + window)
            step *= GROWTH
            error = scan.error
            if error is None and scan.count == 0 and window < end - position:
                error = self._too_long(position, end, bytes(data[position : min(position + BATCH_HEADER_SIZE, end)]))
                if error is None:
                    continue
            if error is None and scan.count == 0:
                error = self._cut_off(position, end, bytes(data[position : min(position + BATCH_HEADER_SIZE, end)]))
            yield 0, data, self._table[: scan.count], error
            if error is not None:
                return
            position = scan.position
        if end < planned_end:  # the file has shrunk since it was planned
            yield 0, data, self._table[:0], TruncatedError("the file was truncated while it was read", position)

    def _size_of_unread(self, position: int, end: int, got: int, asked: int) -> int | KafkaFormatError:
        """Return the size of a batch that was read only in part, or what is wrong with it.

        The buffer is enlarged if necessary, so that the batch fits.
        """
        if got < asked:
            return TruncatedError("the file was truncated while it was read", position)
        head = bytes(self._buffer[: min(got, BATCH_HEADER_SIZE)])
        if error := self._too_long(position, end, head):
            return error
        size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big") + ENTRY_OVERHEAD
        if size > len(self._buffer):
            self._buffer, self._buffered = aligned_buffer(size), 0
        return size

    def _too_long(self, position: int, end: int, head: bytes) -> KafkaFormatError | None:
        """Return the error of a batch that is too large to read, or None.

        The file may end inside the batch. If the batch is larger than the buffer, its CRC is
        checked without reading it whole. It may also exceed the limit.
        """
        size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big") + ENTRY_OVERHEAD
        base_offset = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        if end - position < MAGIC_END or size > end - position:
            return self._cut_off(position, end, head)
        if size > min(len(self._buffer), BUFFER_BYTES) and not OwnCrc(self.search, Head(position, head)).matches(
            position + size
        ):
            return ChecksumError("the CRC does not match the crc field", position, base_offset, position + size)
        if size > max(self.max_batch_bytes, len(self._buffer)):
            message = f"a batch of {size} bytes is more than the limit of {self.max_batch_bytes}"
            return TooLargeError(message, position, base_offset, position + size)
        return None

    def _cut_off(self, position: int, end: int, head: bytes) -> KafkaFormatError:
        """Return the error of a batch inside which the file ends."""
        left = end - position
        if left < MAGIC_END:
            return TruncatedError(f"the file ends {left} bytes into a batch", position)
        size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big") + ENTRY_OVERHEAD
        base_offset = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        return TruncatedError(f"the file ends {left} bytes into a batch of {size}", position, base_offset)

    def walk(self, cut_gaps: bool = False, cut_at: set[int] | None = None, see: See | None = None) -> Parts:
        """Return all bytes of the segment, as runs and damaged spans in the order of the file.

        Parameters
        ----------
        cut_gaps : bool, default False
            End a run at every gap in the offsets too, not only if they decrease.
        cut_at : set of int, optional
            Start a run at every batch whose first offset is one of these.
        see : callable, optional
            Called with the position of each buffer, the buffer, and the valid batches in it. Damage
            may be between these.
        """
        self.stats = Stats()
        self.search.among_plain = None
        pending, seen = PartBuilder(self.stats, self.run_bytes, cut_gaps, cut_at), _Seen(see)
        self._before_read = seen.show
        position, expected = 0, self.base_offset
        last: int | None = self.base_offset - 1
        damaged, scanned_to = False, -1
        while position < self.size:
            error = None
            if (
                damaged
                and self._in_buffer(position)
                and 0 <= expected <= MAX_OFFSET
                and (last is None or last <= MAX_OFFSET)
            ):
                at = self._buffer_at
                rows, spans, position, expected, last, error = self._scan_damaged(position, expected, last)
                if len(rows):
                    seen.add(at, self._buffer, rows)
                    self.search.note(rows)
                pending.add_scan(rows, spans, at)
                scanned_to = position
                if len(rows) == TABLE_ROWS or len(spans) == SPAN_ROWS:
                    continue
            if error is None:
                for start, buffer, table, error in self.tables(position, self.size):  # noqa: B007 (the last one, below)
                    for rows, firsts, wrong in split_at_wrong_offsets(self._wrappers, start, buffer, table):
                        if len(rows):
                            seen.add(start, buffer, rows)
                            pending.add(rows, firsts, start)
                            self.search.note(rows)
                            expected, last = _expected(rows, firsts, last, expected)
                            position = start + int(rows["position"][-1]) + int(rows["size"][-1])
                        if wrong is not None:
                            pending.damage(wrong)
                            position, last = wrong.end, None
                if error is None:
                    break
                damaged = True
                if isinstance(error, ChecksumError) and position != scanned_to and self._in_buffer(position):
                    scanned_to = position
                    continue
            bad = self._bad(position, error, expected)
            pending.damage(bad)
            position, last = bad.end, None
            pending.limit()
        seen.show()
        return pending.parts()

    def _in_buffer(self, position: int) -> bool:
        """Return whether a position of the file is in the buffer."""
        return 0 <= position - self._buffer_at < self._buffered

    def _scan_damaged(
        self, position: int, expected: int, last: int | None
    ) -> tuple[BatchTable, IntArray, int, int, int | None, KafkaFormatError | None]:
        """Scan the rest of the buffer with `core.scan_damaged`.

        The positions returned are those in the file, except in the rows, where they are those in
        the buffer.
        """
        start, at = position - self._buffer_at, self._buffer_at
        stop = min(self._buffered, self.size - at)
        n, m, end, expected, last, error = core.scan_damaged(
            self._buffer, self._table, self._spans, start, stop, self.size - at, expected, last
        )
        spans = self._spans[:m]
        spans[:, :2] += at
        return self._table[:n], spans, end + at, expected, last, error

    def runs(self, rows: BatchTable, start: int, cut_gaps: bool = False) -> list[Run]:
        """Return the runs of a table of valid batches, whose positions count from `start`."""
        firsts = rows["base_offset"].copy()
        for i in np.flatnonzero((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).tolist():
            firsts[i] = self.first_offset_at(start + int(rows["position"][i]))
        return runs_of(rows, firsts, start, cut_gaps)

    def first_offset_at(self, position: int) -> int:
        """Return the first offset of the batch or message at a position.

        For a wrapper message that cannot be read, this is its own offset.
        """
        size = int.from_bytes(self.view.read(position + LENGTH_AT, 4), "big") + ENTRY_OVERHEAD
        entry, row = self.view.read(position, size), np.zeros(1, BATCH_DTYPE)
        if core.scan_batches(entry, row).count and row["magic"][0] < MAGIC_V2 and row["count"][0] < 0:
            return int(self._wrappers.offsets(entry, row).first[0])
        return int.from_bytes(entry[:LENGTH_AT], "big", signed=True)

    def _bad(self, position: int, error: KafkaFormatError, expected: int) -> Bad:
        """Return the damaged span from `position` to where reading resumes."""
        end, own_crc_matches = self.search.resume(position, expected)
        known = own_crc_matches or isinstance(error, TooLargeError)
        return Bad(position, end, error.code, error.message, self._count(position) if known else None)

    def _count(self, position: int) -> int | None:
        """Return the number of data records that a header states, or None if it is impossible."""
        head = self.view.read(position, BATCH_HEADER_SIZE)
        if head[MAGIC_AT] < MAGIC_V2:
            return None if head[LEGACY_ATTRIBUTES_AT] & CODEC_MASK else 1
        count, last_delta = (
            int.from_bytes(head[57:61], "big", signed=True),
            int.from_bytes(head[23:27], "big", signed=True),
        )
        if not 0 <= count <= last_delta + 1:
            return None
        return 0 if head[22] & CONTROL_BIT else count


class _Seen:
    """Passes valid batches to the `see` function of a walk, as many at a time as are in one buffer."""

    def __init__(self, see: See | None) -> None:
        self._see = see
        self._rows = np.empty(TABLE_ROWS if see else 0, BATCH_DTYPE)
        self._count = 0
        self._start = 0
        self._buffer: Buffer | None = None

    def add(self, start: int, buffer: Buffer, rows: BatchTable) -> None:
        if self._see is None:
            return
        if self._count and (self._count + len(rows) > TABLE_ROWS or start != self._start or buffer is not self._buffer):
            self.show()
        n, self._start, self._buffer = self._count, start, buffer
        self._rows[n : n + len(rows)].view(np.uint8)[:] = rows.view(np.uint8)
        self._count += len(rows)

    def show(self) -> None:
        if self._see is not None and self._count:
            self._see(self._start, self._buffer, self._rows[: self._count])
        self._count = 0


def _expected(rows: BatchTable, firsts: IntArray, before: int | None, expected: int) -> tuple[int, int]:
    """Return the lowest offset to expect after a table of batches, and the last offset of its last
    batch.

    If the last batch does not continue the one before it, its base offset may be corrupted, so the
    end of the one before counts.

    Parameters
    ----------
    before : int or None
        The last offset before the table. None directly after damage.
    expected : int
        The lowest offset to expect before the table.
    """
    last = last_offset(rows[-1])
    if len(rows) > 1:
        before = last_offset(rows[-2])
    elif before is None:
        before = expected - 1
    if int(firsts[-1]) == before + 1:
        return last + 1, last
    return min(before, last) + 1, last

"""Read all batches of a segment, and find the damaged byte ranges between them.

Only wrapper messages (formats 0 and 1) are decompressed: their inner messages must confirm the
offset, which no CRC covers, and only these contain the lowest offset. Adjacent valid batches are
stored as one range, so memory use does not depend on the number of batches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CONTROL_BIT,
    DEFAULT_MAX_BATCH_BYTES,
    MAGIC_V2,
    MAX_OFFSET,
)
from ...errors import ChecksumError, KafkaFormatError, TooLargeError
from ...types import BATCH_DTYPE, BatchSummary, BatchTable, Buffer, IntArray, last_offset
from ..scanning import Head, Stats
from ..storage import FileView
from .known_wrappers import split_at_wrong_offsets
from .part_builder import SINGLE_SPANS, PartBuilder, parts_of_scan, runs_of
from .parts import SPAN_COLUMNS, Bad, Parts, Run
from .segment_tables import BUFFER_BYTES, SMALLEST_MESSAGE, SPAN_ROWS, Scratch, TableReader

SMALL_SEGMENT = 128 << 10  # Size in bytes. A segment of at most this size is scanned with one native call if possible.

See = Callable[[int, Any, BatchTable, BatchSummary, TableReader], None]
"""Called with valid batches: file position of a buffer, the buffer, headers, their summary, and the reader."""


class Walker(TableReader):
    """Reads the batches of one open segment, and divides the segment into valid and damaged byte ranges."""

    # A range of adjacent valid batches has at most `run_bytes`. For other parameters, see `TableReader`.

    def __init__(
        self,
        view: FileView,
        base_offset: int,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        run_bytes: int = sys.maxsize,
        first_read: int = BUFFER_BYTES,
        scratch: Scratch | None = None,
    ) -> None:
        super().__init__(view, base_offset, max_batch_bytes, first_read, scratch)
        if scratch is not None:
            self._spans = scratch.spans
        self.run_bytes = run_bytes

    @cached_property
    def stats(self) -> Stats:
        """Summary of the batch headers that the last call of `walk` has read."""
        return Stats()

    @cached_property
    def _spans(self) -> IntArray:
        return np.empty((min(SPAN_ROWS, self._content // SMALLEST_MESSAGE + 1), SPAN_COLUMNS), np.int64)

    def walk(self, cut_gaps: bool = False, cut_at: IntArray | None = None, see: See | None = None) -> Parts:
        """Divide the whole segment into ranges of adjacent valid batches and damaged byte ranges."""
        # A range ends if the offsets do not increase, with `cut_gaps` also if an offset is missing, and before a batch
        # whose first offset is in `cut_at` (sorted). `see` is called with the valid batches in each buffer.
        if cut_at is None and (small := self._small(cut_gaps, see)) is not None:
            return small
        self.stats = Stats()
        self.search.restart()
        capacity = len(self._table)
        pending, seen = PartBuilder(self.stats, capacity, self.run_bytes, cut_gaps, cut_at), _Seen(self, see, capacity)
        self._before_read = seen.show
        position, expected = 0, self.base_offset
        last: int | None = self.base_offset - 1
        damaged, scanned_to = False, -1
        tried = (-1, -1)  # position at which the last native scan ended, and position of its buffer
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
                    self.search.note(core.summarize_batches(rows))
                pending.add_scan(rows, self.wrappers.first_offsets(at, self._buffer, rows), spans, at)
                scanned_to, tried = position, (position, at)
                # The native scan is repeated only if it has advanced far, because each call has a cost.
                if 2 * (len(rows) + len(spans)) >= len(self._table) or len(spans) == len(self._spans):
                    continue
            if error is None:
                again = False
                for start, buffer, table, error in self.tables(position, self.size):  # noqa: B007 (the last one, below)
                    found = core.summarize_batches(table)
                    again = damaged and (found.wrappers or found.negative_delta) and tried != (position, start)
                    if again:
                        tried = position, start
                        break  # the buffer has been filled, so it can be scanned
                    for rows, firsts, wrong in split_at_wrong_offsets(self.wrappers, start, buffer, table, found):
                        if len(rows):
                            seen.add(start, buffer, rows)
                            pending.add(rows, firsts, start)
                            self.search.note(found if len(rows) == len(table) else core.summarize_batches(rows))
                            expected, last = _expected_after(rows, int(firsts[-1]), expected, last)
                            position = start + int(rows["position"][-1]) + int(rows["size"][-1])
                        if wrong is not None:
                            pending.damage(wrong)
                            position, last = wrong.end, None
                            again, damaged = not damaged, True
                            if again:
                                break  # the native scan is faster if more offsets are wrong
                    if again:
                        break
                if again:
                    continue
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

    def _small(self, cut_gaps: bool, see: See | None) -> Parts | None:
        """Divide a small segment into valid batches and damage with a native call, or return None if it cannot."""
        if self.size > self.run_bytes or not self._read_small():
            return None
        base = self.base_offset
        n, m, end, _, _, _ = core.scan_damaged(
            self._buffer, self._table, self._spans, 0, self.size, self.size, base, base - 1
        )
        if end < self.size or not n or m > SINGLE_SPANS:
            return None
        rows, spans = self._table[:n], self._spans[:m]
        found = core.summarize_batches(rows)
        self.stats = Stats.of(n, found)
        if see is not None:
            see(0, self._buffer, rows, found, self)
        return parts_of_scan(rows, spans, cut_gaps)

    def _read_small(self) -> bool:
        """If the segment is small, read it completely into the buffer. Return whether it was read."""
        if self.size > SMALL_SEGMENT:
            return False
        if self._buffered < self.size:
            self.view.expect(0, self.size)
            self._buffer_at, self._buffered = 0, self.view.read_into(self._buffer[: self.size], 0)
            if self._buffered < self.size:  # the file was truncated after it was opened
                self._buffered = 0
                return False
        return True

    def _in_buffer(self, position: int) -> bool:
        """Return whether the buffer contains the byte at the file position `position`."""
        return 0 <= position - self._buffer_at < self._buffered

    def _scan_damaged(
        self, position: int, expected: int, last: int | None
    ) -> tuple[BatchTable, IntArray, int, int, int | None, KafkaFormatError | None]:
        """Find the valid batches and the damage in the rest of the buffer with `core.scan_damaged`."""
        # Positions in the returned array of batch headers are relative to the buffer, all others to the file.
        start, at = position - self._buffer_at, self._buffer_at
        stop = min(self._buffered, self.size - at)
        scan = partial(
            core.scan_damaged,
            self._buffer,
            self._table,
            self._spans,
            start,
            stop,
            self.size - at,
            expected,
            last,
        )
        inner = self.wrappers.within(position, at + stop)
        inner[:, 0] += start
        n, m, end, expected, last, error = scan(inner, False)
        if error is None and end < stop and n < len(self._table) and m < len(self._spans):
            # The scan may have ended at a wrapper message. Read all wrapper messages that follow at once.
            n, *_ = scan(inner, True)
            self.wrappers.first_offsets(at, self._buffer, self._table[:n])
            inner = self.wrappers.within(position, at + stop)
            inner[:, 0] += start
            n, m, end, expected, last, error = scan(inner, False)
        spans = self._spans[:m]
        spans[:, :2] += at
        return self._table[:n], spans, end + at, expected, last, error

    def runs(self, rows: BatchTable, start: int, cut_gaps: bool = False) -> list[Run]:
        """Divide batch headers, with positions relative to `start`, into ranges of adjacent batches."""
        firsts = rows["base_offset"].copy()
        for i in np.flatnonzero((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).tolist():
            firsts[i] = self.first_offset_at(start + int(rows["position"][i]))
        return runs_of(rows, firsts, start, cut_gaps)

    def _bad(self, position: int, error: KafkaFormatError, expected: int) -> Bad:
        """Describe the damage from `position` to the next position at which reading can continue."""
        end, own_crc_matches = self.search.resume(position, expected)
        known = own_crc_matches or isinstance(error, TooLargeError)
        return Bad(position, end, error.code, error.message, self._count(position) if known else None)

    def _count(self, position: int) -> int | None:
        """Return the number of data records in the batch header at `position`, or None if missing or impossible."""
        head = Head(position, self.view.read(position, BATCH_HEADER_SIZE))
        if head.magic < MAGIC_V2:
            return None if head.message_codec else 1
        if not 0 <= head.count <= head.delta + 1:
            return None
        return 0 if head.attributes & CONTROL_BIT else head.count


def _expected_after(rows: BatchTable, first: int, expected: int, last: int | None) -> tuple[int, int]:
    """Return the lowest offset that the batch after adjacent valid batches can have, and their last offset."""
    # `first` is the first offset of the last batch. After a gap, it may be corrupted, so the lower offset counts.
    before = last_offset(rows[-2]) if len(rows) > 1 else expected - 1 if last is None else last
    end = last_offset(rows[-1])
    return min(1 + (end if first == before + 1 else min(before, end)), MAX_OFFSET), end


class _Seen:
    """Collects the valid batches in one buffer, and passes them to the function `see` in one call."""

    def __init__(self, reader: TableReader, see: See | None, rows: int) -> None:
        self._reader = reader
        self._see = see
        self._rows = np.empty(rows if see else 0, BATCH_DTYPE)
        self._count = 0
        self._start = 0
        self._buffer: Buffer | None = None

    def add(self, start: int, buffer: Buffer, rows: BatchTable) -> None:
        if self._see is None:
            return
        if self._count and (
            self._count + len(rows) > len(self._rows) or start != self._start or buffer is not self._buffer
        ):
            self.show()
        n, self._start, self._buffer = self._count, start, buffer
        self._rows[n : n + len(rows)].view(np.uint8)[:] = rows.view(np.uint8)
        self._count += len(rows)

    def show(self) -> None:
        if self._see is not None and self._count:
            rows = self._rows[: self._count]
            self._see(self._start, self._buffer, rows, core.summarize_batches(rows), self._reader)
        self._count = 0

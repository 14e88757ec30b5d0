"""Walk a segment: runs of valid batches, and the damaged spans between them.

Batches are not decompressed, except wrapper messages (formats 0 and 1), whose offset field the CRC does not cover and whose first offset
only their messages contain. A reused buffer and table hold the batches; besides these, memory is used for runs and damaged spans.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CONTROL_BIT,
    DEFAULT_MAX_BATCH_BYTES,
    DELETE_HORIZON_BIT,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V2,
    MAX_OFFSET,
    MIN_OFFSET,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ...errors import ChecksumError, KafkaFormatError, TooLargeError, TruncatedError
from ...records.reader import offset_range_error
from ...records.wrappers import WrapperReader
from ...types import BATCH_DTYPE, BatchTable, Buffer, IntArray, last_offsets
from ..format.files import FileView, aligned_buffer
from .parts import UNKNOWN_COUNT, UNTOLD, Bad, BadColumns, Parts, RunColumns, corrupted_message
from .parts import Run as Run  # for the modules that read extents
from .search import Head, OwnCrc, Search

BUFFER_BYTES = 4 << 20
FIRST_READ = 32 << 10
"""What a lookup reads first; each further read is four times the one before, up to BUFFER_BYTES."""
GROWTH = 4
TABLE_ROWS = 8192
SPAN_ROWS = 8192
TOLD_AGAIN = 4096
"""Of so many consecutive damaged batches, the message of the first can contain its CRCs."""
SINGLE_SPANS = 16
"""Number of consecutive damaged spans that are reported one by one."""
MERGED_BYTES = 4 << 20
"""The damaged spans after those are merged up to this size, so that their number is bounded."""

NOWHERE = np.empty(0, np.int64)

Table = tuple[int, Any, BatchTable, KafkaFormatError | None]
"""File position of a buffer, the buffer, a table of batches in it, and what is wrong behind the last of them."""


See = Callable[[int, Buffer, BatchTable], None]


@dataclass
class Stats:
    """What the headers of a segment tell. Timestamps in ms, -1 where there are none. records: control records too; None where
    a wrapper message does not say.
    """

    batches: int = 0
    records: int | None = 0
    codecs: int = 0
    magics: int = 0
    min_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    transactional: bool = False

    def add(self, rows: BatchTable) -> None:
        attributes = rows["attributes"]
        self.batches += len(rows)
        wrappers = bool(((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).any())
        self.records = total(self.records, None if wrappers else int(np.maximum(rows["count"], 0).sum(dtype=np.int64)))
        self.transactional = self.transactional or bool((attributes & TRANSACTIONAL_BIT).any())
        for codec in np.unique(attributes & CODEC_MASK).tolist():
            self.codecs |= 1 << codec
        for magic in np.unique(rows["magic"]).tolist():
            self.magics |= 1 << magic
        self.max_timestamp = max(self.max_timestamp, int(rows["max_timestamp"].max()))
        starts = rows["base_timestamp"][((attributes & DELETE_HORIZON_BIT) == 0) & (rows["base_timestamp"] >= 0)]
        if len(starts):
            low = int(starts.min())
            self.min_timestamp = low if self.min_timestamp < 0 else min(self.min_timestamp, low)


class Walker:
    """Walks one open segment.

    run_bytes: where a run is cut although the next batch would continue it. first_read: bytes of the first read.
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
        """The batches from `position` to `end` or the first that is not sound.

        The last table may be empty; its error, whose position is the file's, is None at the end.
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
                known = self._buffered > 0 and stop - at >= MAGIC_END  # a buffer that was just replaced by a larger one is empty
                if known and (error := self._too_long(position, end, self._head(position, at, stop))):
                    yield self._buffer_at, self._buffer, self._table[:0], error
                    return
                self._buffered = 0
            position = self._buffer_at + at

    def _head(self, position: int, at: int, stop: int) -> bytes:
        """Return a batch's header: from the buffer, at `at`, or from the file if the buffer's bytes end before the header does."""
        if stop - at >= BATCH_HEADER_SIZE:
            return bytes(self._buffer[at : at + BATCH_HEADER_SIZE])
        return self.view.read(position, BATCH_HEADER_SIZE)

    def _mapped_tables(self, data: np.ndarray, position: int, end: int) -> Iterator[Table]:
        """The same over a mapped file, where a batch of any size lies whole: the buffer is the file."""
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
        """The size of a batch of which only a part was read, for which the buffer is then large enough; or what is wrong with it."""
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
        """Return the error of a batch that the file cuts off, or that is so large that it is not read because of its CRC or the limit."""
        size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big") + ENTRY_OVERHEAD
        base_offset = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        if end - position < MAGIC_END or size > end - position:
            return self._cut_off(position, end, head)
        if size > min(len(self._buffer), BUFFER_BYTES) and not OwnCrc(self.search, Head(position, head)).matches(position + size):
            return ChecksumError("the CRC does not match the crc field", position, base_offset, position + size)
        if size > max(self.max_batch_bytes, len(self._buffer)):
            message = f"a batch of {size} bytes is more than the limit of {self.max_batch_bytes}"
            return TooLargeError(message, position, base_offset, position + size)
        return None

    def _cut_off(self, position: int, end: int, head: bytes) -> KafkaFormatError:
        left = end - position
        if left < MAGIC_END:
            return TruncatedError(f"the file ends {left} bytes into a batch", position)
        size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big") + ENTRY_OVERHEAD
        base_offset = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        return TruncatedError(f"the file ends {left} bytes into a batch of {size}", position, base_offset)

    def walk(self, cut_gaps: bool = False, cut_at: set[int] | None = None, see: See | None = None) -> Parts:
        """Return every byte of the segment, as runs and damaged spans in the order of the file.

        Parameters
        ----------
        cut_gaps : bool, default False
            End a run at every gap in the offsets too, not only if they fall back.
        cut_at : set of int, optional
            Begin a run at every batch that begins at one of these offsets.
        see : callable, optional
            Called with the position of each buffer, the buffer, and the valid batches in it. Damage may be between these.
        """
        self.stats = Stats()
        self.search.among_plain = None
        pending, seen = _Pending(self, cut_gaps, cut_at), _Seen(see)
        self._before_read = seen.show
        position, expected = 0, self.base_offset
        last: int | None = self.base_offset - 1
        damaged, scanned_to = False, -1
        while position < self.size:
            error = None
            if damaged and self._in_buffer(position) and 0 <= expected <= MAX_OFFSET and (last is None or last <= MAX_OFFSET):
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
                    for rows, firsts, wrong in self._split(start, buffer, table):
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
        return 0 <= position - self._buffer_at < self._buffered

    def _scan_damaged(
        self, position: int, expected: int, last: int | None
    ) -> tuple[BatchTable, IntArray, int, int, int | None, KafkaFormatError | None]:
        """Scan the rest of the buffer with `core.scan_damaged`. Positions are the file's, but the buffer's in the rows."""
        start, at = position - self._buffer_at, self._buffer_at
        stop = min(self._buffered, self.size - at)
        n, m, end, expected, last, error = core.scan_damaged(
            self._buffer, self._table, self._spans, start, stop, self.size - at, expected, last
        )
        spans = self._spans[:m]
        spans[:, :2] += at
        return self._table[:n], spans, end + at, expected, last, error

    def _split(self, start: int, buffer: Buffer, table: BatchTable) -> Iterator[tuple[BatchTable, IntArray, Bad | None]]:
        """Yield the rows of a table with their first offsets, up to each batch whose own offsets are wrong, and that one.

        These are wrapper messages whose messages have other offsets, and batches with a negative last offset delta.
        """
        firsts = table["base_offset"]
        wrappers = np.flatnonzero((table["count"] < 0) & (table["magic"] < MAGIC_V2))
        bads = [(at, _negative_delta(table[at], start)) for at in np.flatnonzero(table["last_offset_delta"] < 0).tolist()]
        if len(wrappers):
            firsts = firsts.copy()
            inner = self._wrappers.offsets(buffer, table[wrappers])
            firsts[wrappers] = inner.first
            wrong = np.flatnonzero((inner.last != table["base_offset"][wrappers]) | (inner.first > inner.last))
            for i, at in zip(wrong.tolist(), wrappers[wrong].tolist(), strict=True):
                bads.append((at, _contradicted_wrapper(table[at], start, int(inner.last[i]), int(inner.count[i]))))
            bads.sort(key=itemgetter(0))
        begin = 0
        for at, bad in bads:
            yield table[begin:at], firsts[begin:at], bad
            begin = at + 1
        yield table[begin:], firsts[begin:], None

    def runs(self, rows: BatchTable, start: int, cut_gaps: bool = False) -> list[Run]:
        """Return the runs of a table of batches that were found valid; their positions count from `start`."""
        firsts = rows["base_offset"].copy()
        for i in np.flatnonzero((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).tolist():
            firsts[i] = self.first_offset_at(start + int(rows["position"][i]))
        return _runs_of(rows, firsts, start, cut_gaps)

    def first_offset_at(self, position: int) -> int:
        """Return the first offset of the batch or message at a position; of a wrapper message that cannot be read, its own."""
        size = int.from_bytes(self.view.read(position + LENGTH_AT, 4), "big") + ENTRY_OVERHEAD
        entry, row = self.view.read(position, size), np.zeros(1, BATCH_DTYPE)
        if core.scan_batches(entry, row).count and row["magic"][0] < MAGIC_V2 and row["count"][0] < 0:
            return int(self._wrappers.offsets(entry, row).first[0])
        return int.from_bytes(entry[:LENGTH_AT], "big", signed=True)

    def _bad(self, position: int, error: KafkaFormatError, expected: int) -> Bad:
        """Return the damaged span from `position` on, up to where reading resumes."""
        end, own_crc_matches = self.search.resume(position, expected)
        known = own_crc_matches or isinstance(error, TooLargeError)
        return Bad(position, end, error.code, error.message, self._count(position) if known else None)

    def _count(self, position: int) -> int | None:
        """The number of data records that a header states, None where that cannot be."""
        head = self.view.read(position, BATCH_HEADER_SIZE)
        if head[MAGIC_AT] < MAGIC_V2:
            return None if head[LEGACY_ATTRIBUTES_AT] & CODEC_MASK else 1
        count, last_delta = int.from_bytes(head[57:61], "big", signed=True), int.from_bytes(head[23:27], "big", signed=True)
        if not 0 <= count <= last_delta + 1:
            return None
        return 0 if head[22] & CONTROL_BIT else count


class _Seen:
    """Shows valid batches to the caller of a walk, as many as are in one buffer together."""

    def __init__(self, see: See | None) -> None:
        self._see = see
        self._rows = np.empty(TABLE_ROWS if see else 0, BATCH_DTYPE)
        self._count = 0
        self._start = 0
        self._buffer: Buffer = b""

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


class _Pending:
    """Valid batches and damaged spans that a walk has met. Many batches are turned into runs together."""

    def __init__(self, walker: Walker, cut_gaps: bool, cut_at: set[int] | None) -> None:
        self.walker = walker
        self.cut_gaps = cut_gaps
        self.cut_at = cut_at or set()
        self._cut_at = np.array(sorted(o for o in self.cut_at if o <= MAX_OFFSET), np.int64)
        self._count = 0
        self._rows = np.empty(TABLE_ROWS, BATCH_DTYPE)
        self._firsts = np.empty(TABLE_ROWS, np.int64)
        self._bads = BadColumns.empty()
        """Damaged spans since the last `_take`."""
        self._bad_rows: list[int] = []
        """The number of pending batches before each of them."""
        self._consecutive = self._merged = 0
        self._first_message = ""
        self._runs: list[RunColumns] = []
        self._run_at: list[IntArray] = []
        self._all_bads = BadColumns.empty()
        self._bad_at: list[IntArray] = []
        self._parts = 0

    def limit(self) -> None:
        """Limit the number of damaged spans that are pending."""
        if len(self._bads) >= TABLE_ROWS:
            self._take()

    def _make_room(self, rows: BatchTable, start: int) -> None:
        n = self._count
        if n and (n + len(rows) > TABLE_ROWS or start - int(self._rows["position"][0]) >= self.walker.run_bytes):
            self._take()

    def damage(self, bad: Bad) -> None:
        """Add a damaged span, or merge it into the one before it if that directly precedes it and many do."""
        bads = self._bads
        follows = self._follows(self._count, bad.position)
        self._consecutive = self._consecutive + 1 if follows else 1
        if not follows or self._consecutive <= SINGLE_SPANS or bad.records is not None or bads.records[-1] != UNKNOWN_COUNT:
            self._add_bad(bad)
        elif self._consecutive == SINGLE_SPANS + 1 or bad.end - bads.position[-1] > MERGED_BYTES:
            self._merged, self._first_message = 1, bad.message
            self._add_bad(bad)
        else:
            self._merge(1, bad.end)

    def _follows(self, row: int, position: int) -> bool:
        """Return whether a damaged span is directly before `position`."""
        return bool(self._bad_rows) and self._bad_rows[-1] == row and self._bads.end[-1] == position

    def _add_bad(self, bad: Bad) -> None:
        self._bad_rows.append(self._count)
        self._bads.add(bad.position, bad.end, bad.code, bad.message, bad.records)

    def _merge(self, n: int, end: int) -> None:
        """Extend the last damaged span by `n` more, up to `end`."""
        bads = self._bads
        i = len(bads) - 1
        self._merged += n
        bads.end[i] = end
        bads.problems[i] = bads.code(i), f"{self._merged} damaged batches; the first: {self._first_message}"

    def add(self, rows: BatchTable, firsts: IntArray, start: int) -> None:
        """Add valid batches of a buffer that begins at `start`."""
        self._make_room(rows, start)
        n, end = self._count, self._count + len(rows)
        self._rows[n:end].view(np.uint8)[:] = rows.view(np.uint8)
        self._rows["position"][n:end] += start
        self._firsts[n:end] = firsts
        self._count = end

    def add_scan(self, rows: BatchTable, spans: IntArray, start: int) -> None:
        """Add what `core.scan_damaged` has found in a buffer that begins at `start`."""
        if len(rows):
            self._make_room(rows, start)
        n = self._count
        if len(rows):
            self.add(rows, rows["base_offset"], start)
        if not len(spans):
            return
        at = spans[:, 2] + n
        borders = np.flatnonzero(np.diff(at, prepend=-1, append=-1))
        longest = int(np.diff(borders).max())
        before = self._consecutive if self._follows(int(at[0]), int(spans[0, 0])) else 0
        if before + longest <= SINGLE_SPANS:
            self._bads.add_corrupted(spans)
            self._bad_rows += at.tolist()
            self._consecutive = len(spans) - int(borders[-2]) + (before if len(borders) == 2 else 0)
        else:
            for a, b in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
                self._add_consecutive(spans[a:b], int(at[a]), before)
                before = 0
        self.limit()

    def _add_consecutive(self, spans: IntArray, row: int, before: int) -> None:
        """Add damaged batches directly after each other; `before` is the number of damaged spans directly before them."""
        n, bads = len(spans), self._bads
        i = max(min(SINGLE_SPANS - before, n), 0)
        if i:
            bads.add_corrupted(spans[:i])
            self._bad_rows += [row] * i
        self._consecutive = before + i
        far = np.flatnonzero(spans[:, 6])
        while i < n:
            known = bads.records[-1] != UNKNOWN_COUNT
            if self._consecutive == SINGLE_SPANS or known or int(spans[i, 1]) - bads.position[-1] > MERGED_BYTES:
                head = spans[i : i + 1].copy()
                k = int(np.searchsorted(far, i))
                begin = int(far[k - 1]) + 1 if k else 0
                if not spans[i, 6] and (i - begin) % TOLD_AGAIN >= SINGLE_SPANS:
                    head[0, 3] = UNTOLD
                bads.add_corrupted(head)
                self._bad_rows.append(row)
                if not known:
                    self._merged, self._first_message = 1, corrupted_message(*head[0, 3:6].tolist())
                merged = 1
            else:
                merged = max(int(np.searchsorted(spans[:, 1], bads.position[-1] + MERGED_BYTES, "right")) - i, 1)
                self._merge(merged, int(spans[i + merged - 1, 1]))
            self._consecutive += merged
            i += merged

    def _take(self) -> None:
        """Turn what is pending into parts."""
        n, bads = self._count, self._bads
        at = np.array(self._bad_rows, np.int64)
        starts = np.empty(0, np.int64)
        if n:
            rows, firsts = self._rows[:n], self._firsts[:n]
            self.walker.stats.add(rows)
            starts, runs = _columns_of(rows, firsts, self.cut_gaps, self._cut_at, at)
            if self._runs and not len(at[:1][at[:1] == 0]) and self._continue_last(runs):
                starts = starts[1:]
                runs = RunColumns(*(column[1:] for column in vars(runs).values()))
            if len(runs):
                self._runs.append(runs)
                self._run_at.append(np.arange(len(runs)) + np.searchsorted(at, starts, "right") + self._parts)
        if len(bads):
            self._bad_at.append(np.arange(len(bads)) + np.searchsorted(starts, at) + self._parts)
            self._all_bads.extend(bads)
            self._bads, self._bad_rows = BadColumns.empty(), []
        self._parts += len(starts) + len(at)
        self._count = 0

    def _continue_last(self, runs: RunColumns) -> bool:
        """Extend the last run by the first one of `runs`, if that continues it."""
        before = self._runs[-1]
        if int(self._run_at[-1][-1]) != self._parts - 1:  # damage follows it
            return False
        first, last = int(runs.first[0]), int(before.last[-1])
        rises = first == last + 1 if self.cut_gaps else first > last
        if first in self.cut_at or not rises or int(runs.end[0]) - int(before.position[-1]) > self.walker.run_bytes:
            return False
        before.dense[-1] &= runs.dense[0] and first == last + 1
        before.end[-1], before.last[-1] = runs.end[0], runs.last[0]
        before.batches[-1] += runs.batches[0]
        known = before.records[-1] != UNKNOWN_COUNT and runs.records[0] != UNKNOWN_COUNT
        before.records[-1] = before.records[-1] + runs.records[0] if known else UNKNOWN_COUNT
        return True

    def parts(self) -> Parts:
        """Return everything that was added."""
        self._take()
        none = np.empty(0, np.int64)
        empty = RunColumns(none, none, none, none, none, none, none.astype(bool))
        columns = [vars(runs).values() for runs in self._runs or [empty]]
        runs = RunColumns(*map(np.concatenate, zip(*columns, strict=True)))
        run_at, bad_at = np.concatenate([none, *self._run_at]), np.concatenate([none, *self._bad_at])
        return Parts(runs, self._all_bads, run_at, bad_at)


def _contradicted_wrapper(row: Any, start: int, last: int, count: int) -> Bad:
    """Return the damaged span of a wrapper message whose offset is not that of its last message."""
    position, offset = start + int(row["position"]), int(row["base_offset"])
    end = position + int(row["size"])
    what = f"its last message has {last}" if last != MIN_OFFSET else "the offsets of its messages do not increase"
    return Bad(position, end, "contradicting_offsets", f"the wrapper message has offset {offset}, but {what}", count)


def _negative_delta(row: Any, start: int) -> Bad:
    """Return the damaged span of a batch whose last offset delta is negative."""
    position, error = start + int(row["position"]), offset_range_error(row)
    return Bad(position, position + int(row["size"]), error.code, error.message)


def _expected(rows: BatchTable, firsts: IntArray, before: int | None, expected: int) -> tuple[int, int]:
    """Return the lowest offset to expect after a table of batches, and the last offset of its last batch.

    If the last batch does not continue the one before it, its base offset may be corrupted, so the end of the one before counts.

    Parameters
    ----------
    before : int or None
        The last offset before the table. None directly after damage.
    expected : int
        The lowest offset to expect before the table.
    """
    last = int(rows["base_offset"][-1]) + max(int(rows["last_offset_delta"][-1]), 0)
    if len(rows) > 1:
        before = int(rows["base_offset"][-2]) + max(int(rows["last_offset_delta"][-2]), 0)
    elif before is None:
        before = expected - 1
    if int(firsts[-1]) == before + 1:
        return last + 1, last
    return min(before, last) + 1, last


def _runs_of(rows: BatchTable, firsts: IntArray, start: int, cut_gaps: bool) -> list[Run]:
    """Return the runs of a table of valid batches, given the first offset of each; `start` is the file position of their buffer."""
    if len(rows) == 1:
        return [_run_of_one(rows[0], int(firsts[0]), start)]
    _, runs = _columns_of(rows, firsts, cut_gaps)
    runs.position += start
    runs.end += start
    return runs.objects()


def _columns_of(
    rows: BatchTable, firsts: IntArray, cut_gaps: bool, cut_at: IntArray = NOWHERE, cut_before: IntArray = NOWHERE
) -> tuple[IntArray, RunColumns]:
    """Return the first row of each run of valid batches, and the runs.

    Parameters
    ----------
    firsts : array of int64
        The first offset of each batch.
    cut_at : array of int64
        First offsets at which a run begins.
    cut_before : array of int64
        Rows at which a run begins.
    """
    last = last_offsets(rows)
    cut = np.empty(len(rows) + 1, bool)
    cut[1:-1] = firsts[1:] != last[:-1] + 1 if cut_gaps else firsts[1:] <= last[:-1]
    if len(cut_at):
        cut[1:-1] |= np.isin(firsts[1:], cut_at)
    cut[cut_before] = True
    cut[0] = True
    starts = np.flatnonzero(cut[:-1])
    ends = np.append(starts[1:], len(rows)) - 1
    control = (rows["attributes"] & CONTROL_BIT) != 0
    counts = np.add.reduceat(rows["count"], starts, dtype=np.int64)
    records = np.add.reduceat(np.where(control, 0, np.maximum(rows["count"], 0)), starts, dtype=np.int64)
    unknown = np.logical_or.reduceat((rows["count"] < 0) & (rows["magic"] < MAGIC_V2), starts)
    records[unknown] = UNKNOWN_COUNT
    return starts, RunColumns(
        rows["position"][starts],
        rows["position"][ends] + rows["size"][ends],
        firsts[starts],
        last[ends],
        ends - starts + 1,
        records,
        counts == last[ends] - firsts[starts] + 1,
    )


def _run_of_one(row: Any, first: int, start: int) -> Run:
    """Return the run that consists of one batch; much faster than `_runs_of`."""
    (position, base, _, _, _, _, _, size, _, _, delta, _, count, attributes, _, magic) = row.item()
    last = min(base + max(delta, 0), MAX_OFFSET)
    records = None if count < 0 and magic < MAGIC_V2 else 0 if attributes & CONTROL_BIT else max(count, 0)
    return Run(start + position, start + position + size, first, last, 1, records, count == last - first + 1)


def total(a: int | None, b: int | None) -> int | None:
    """Return the sum of two counts; None if one of them is not known."""
    return None if a is None or b is None else a + b

"""Walk a segment: runs of valid batches, and the damaged spans between them.

Batches are not decompressed, except wrapper messages (formats 0 and 1), whose offset field the CRC does not cover and whose first offset
only their messages contain. A reused buffer and table hold the batches; besides these, memory is used for runs and damaged spans.
"""

from __future__ import annotations

import itertools
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
from ...errors import (
    ChecksumError,
    KafkaFormatError,
    StructureError,
    TooLargeError,
    TruncatedError,
)
from ...records.reader import offset_range_error
from ...records.wrappers import WrapperReader
from ...types import BATCH_DTYPE, BatchTable, IntArray, last_offsets
from ..format.files import FileView, aligned_buffer
from .search import Head, OwnCrc, Search

BUFFER_BYTES = 4 << 20
FIRST_READ = 32 << 10
"""What a lookup reads first; each further read is four times the one before, up to BUFFER_BYTES."""
GROWTH = 4
TABLE_ROWS = 8192
SKIPPED_ROWS = 4096
SINGLE_SPANS = 16
"""Number of consecutive damaged spans that are reported one by one."""
MERGED_BYTES = 4 << 20
"""The damaged spans after those are merged up to this size, so that their number is bounded."""

NOWHERE = np.empty(0, np.int64)

Table = tuple[int, Any, BatchTable, KafkaFormatError | None]
"""File position of a buffer, the buffer, a table of batches in it, and what is wrong behind the last of them."""


See = Callable[[int, Any, np.ndarray], None]


@dataclass(slots=True)
class Run:
    """Sound batches that lie back to back with rising offsets.

    records: data records, as the headers count them; None where a wrapper message does not say. dense: there is a
    record for every offset, so nothing was compacted.
    """

    position: int
    end: int
    first_offset: int
    last_offset: int
    batches: int
    records: int | None
    dense: bool = True


@dataclass(slots=True)
class Bad:
    """A span that is not sound batches. records: how many data records it holds, where its own CRC vouches for the count."""

    position: int
    end: int
    error: KafkaFormatError
    records: int | None = None


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

    def add(self, rows: np.ndarray) -> None:
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
        self.size = view.size
        self.base_offset = base_offset
        self.max_batch_bytes = max_batch_bytes
        self.run_bytes = run_bytes
        self.first_read = first_read
        self.search = Search(view)
        self.stats = Stats()
        self._wrappers = WrapperReader(max_batch_bytes)
        self._buffer = aligned_buffer(0 if view.data is not None else min(BUFFER_BYTES, max(self.size, 1)))
        self._buffer_at = self._buffered = 0
        """Position in the file of the buffer, and how many of its bytes are the file's."""
        self._table = np.zeros(TABLE_ROWS, BATCH_DTYPE)
        self._skipped = np.empty(SKIPPED_ROWS, np.int64)
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
                if stop - at >= MAGIC_END and (
                    error := self._too_long(position, end, bytes(self._buffer[at : at + BATCH_HEADER_SIZE]))
                ):
                    yield self._buffer_at, self._buffer, self._table[:0], error
                    return
                self._buffered = 0
            position = self._buffer_at + at

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
        if size > min(len(self._buffer), BUFFER_BYTES) and not OwnCrc(self.search, Head(position, head)).matches(
            position + size
        ):
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

    def walk(
        self, cut_gaps: bool = False, cut_at: set[int] | None = None, see: See | None = None
    ) -> Iterator[Run | Bad]:
        """Yield every byte of the segment, as runs and damaged spans in the order of the file.

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
        while position < self.size:
            error = None
            for start, buffer, table, error in self.tables(position, self.size):  # noqa: B007 (the last one, below)
                for rows, firsts, wrong in self._split(start, buffer, table):
                    if len(rows):
                        seen.add(start, buffer, rows)
                        if pending.full(rows, start):
                            yield from pending.take()
                        pending.add(rows, firsts, start)
                        self.search.note(rows)
                        expected, last = _expected(rows, firsts, last, expected)
                        position = start + int(rows["position"][-1]) + int(rows["size"][-1])
                    if wrong is not None:
                        pending.damage(wrong)
                        position, last = wrong.end, None
            if error is None:
                break
            for bad in self._bad(position, error, expected):
                pending.damage(bad)
                position = bad.end
            last = None
            if len(pending.bad) >= TABLE_ROWS:
                yield from pending.take()
        seen.show()
        yield from pending.take(last=True)

    def _split(self, start: int, buffer: Any, table: BatchTable) -> Iterator[tuple[BatchTable, IntArray, Bad | None]]:
        """Yield the rows of a table with their first offsets, up to each batch whose own offsets are wrong, and that one.

        These are wrapper messages whose messages have other offsets, and batches with a negative last offset delta.
        """
        firsts = table["base_offset"]
        wrappers = np.flatnonzero((table["count"] < 0) & (table["magic"] < MAGIC_V2))
        bads = [
            (at, _negative_delta(table[at], start)) for at in np.flatnonzero(table["last_offset_delta"] < 0).tolist()
        ]
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

    def _bad(self, position: int, error: KafkaFormatError, expected: int) -> list[Bad]:
        """Return the damaged spans from `position` on, up to where reading resumes."""
        if isinstance(error, ChecksumError) and 0 <= (at := position - self._buffer_at) < self._buffered:
            count, end = core.skip_corrupted(self._buffer, self._skipped, at, self._buffered, expected)
            if count:
                return self._corrupted(
                    [*(self._skipped[:count] + self._buffer_at).tolist(), self._buffer_at + end], error
                )
        end, own_crc_matches = self.search.resume(position, expected)
        known = own_crc_matches or isinstance(error, TooLargeError)
        return [Bad(position, end, error, self._count(position) if known else None)]

    def _corrupted(self, borders: list[int], error: KafkaFormatError) -> list[Bad]:
        """Return the spans of batches whose CRC does not match. Only the first few can be reported one by one, with their CRCs."""
        bads = [Bad(borders[0], borders[1], error)]
        for start, end in itertools.pairwise(borders[1:]):
            problem = None
            if len(bads) < SINGLE_SPANS:
                problem = core.scan_batches(
                    self._buffer, self._table[:1], start - self._buffer_at, self._buffered
                ).error
            problem = problem or ChecksumError("the CRC does not match the crc field", start)
            problem.position, problem.resume = start, end
            bads.append(Bad(start, end, problem))
        return bads

    def _count(self, position: int) -> int | None:
        """The number of data records that a header states, None where that cannot be."""
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
    """Shows valid batches to the caller of a walk, as many as are in one buffer together."""

    def __init__(self, see: See | None) -> None:
        self._see = see
        self._rows = np.empty(TABLE_ROWS if see else 0, BATCH_DTYPE)
        self._count = 0
        self._start = 0
        self._buffer: Any = None

    def add(self, start: int, buffer: Any, rows: BatchTable) -> None:
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
    """Valid batches and damaged spans that a walk has met but not yet yielded. Many batches are turned into runs together."""

    def __init__(self, walker: Walker, cut_gaps: bool, cut_at: set[int] | None) -> None:
        self.walker = walker
        self.cut_gaps = cut_gaps
        self.cut_at = cut_at or set()
        self._cut_at = np.array(sorted(o for o in self.cut_at if o <= MAX_OFFSET), np.int64)
        self.count = 0
        self.bad: list[tuple[int, Bad]] = []
        """Damaged spans, each with the number of pending batches before it."""
        self._rows = np.empty(TABLE_ROWS, BATCH_DTYPE)
        self._firsts = np.empty(TABLE_ROWS, np.int64)
        self._run: Run | None = None
        self._consecutive = self._merged = 0
        self._first_message = ""

    def full(self, rows: BatchTable, start: int) -> bool:
        """Return whether `take` has to be called before these rows are added."""
        if self.count == 0:
            return False
        return self.count + len(rows) > TABLE_ROWS or start - int(self._rows["position"][0]) >= self.walker.run_bytes

    def damage(self, bad: Bad) -> None:
        """Add a damaged span, or merge it into the one before it if that directly precedes it and many do."""
        previous = self.bad[-1][1] if self.bad and self.bad[-1][0] == self.count else None
        self._consecutive = self._consecutive + 1 if previous is not None and previous.end == bad.position else 1
        if (
            previous is None
            or self._consecutive <= SINGLE_SPANS
            or bad.records is not None
            or previous.records is not None
        ):
            self.bad.append((self.count, bad))
        elif self._consecutive == SINGLE_SPANS + 1 or bad.end - previous.position > MERGED_BYTES:
            self._merged, self._first_message = 1, bad.error.message
            self.bad.append((self.count, bad))
        else:
            self._merged += 1
            previous.end = previous.error.resume = bad.end
            previous.error.message = f"{self._merged} damaged batches; the first: {self._first_message}"

    def add(self, rows: BatchTable, firsts: IntArray, start: int) -> None:
        n, end = self.count, self.count + len(rows)
        self._rows[n:end].view(np.uint8)[:] = rows.view(np.uint8)
        self._rows["position"][n:end] += start
        self._firsts[n:end] = firsts
        self.count = end

    def take(self, last: bool = False) -> Iterator[Run | Bad]:
        """Yield what is pending, except the last run, which may continue; with `last` that too."""
        if self.count:
            self.walker.stats.add(self._rows[: self.count])
        begin = 0
        for at, bad in [*self.bad, (self.count, None)]:
            if at > begin:
                yield from self._runs(begin, at)
                begin = at
            if bad is not None:
                if self._run is not None:
                    yield self._run
                    self._run = None
                yield bad
        self.count = 0
        self.bad = []
        if last and self._run is not None:
            yield self._run

    def _runs(self, begin: int, end: int) -> Iterator[Run]:
        for part in _runs_of(self._rows[begin:end], self._firsts[begin:end], 0, self.cut_gaps, self._cut_at):
            run = self._run
            if run is not None and part.first_offset not in self.cut_at and self._continues(run, part):
                run.dense = run.dense and part.dense and part.first_offset == run.last_offset + 1
                run.end, run.last_offset = part.end, part.last_offset
                run.batches += part.batches
                run.records = total(run.records, part.records)
            else:
                if run is not None:
                    yield run
                self._run = part

    def _continues(self, run: Run, part: Run) -> bool:
        rises = part.first_offset == run.last_offset + 1 if self.cut_gaps else part.first_offset > run.last_offset
        return rises and part.end - run.position <= self.walker.run_bytes


def _contradicted_wrapper(row: Any, start: int, last: int, count: int) -> Bad:
    """Return the damaged span of a wrapper message whose offset is not that of its last message."""
    position, offset = start + int(row["position"]), int(row["base_offset"])
    end = position + int(row["size"])
    what = f"its last message has {last}" if last != MIN_OFFSET else "the offsets of its messages do not increase"
    error = StructureError(f"the wrapper message has offset {offset}, but {what}", position, offset, end)
    error.code = "contradicting_offsets"
    return Bad(position, end, error, count)


def _negative_delta(row: Any, start: int) -> Bad:
    """Return the damaged span of a batch whose last offset delta is negative."""
    position, error = start + int(row["position"]), offset_range_error(row)
    error.position, error.base_offset, error.resume = position, int(row["base_offset"]), position + int(row["size"])
    return Bad(position, error.resume, error)


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


def _runs_of(rows: BatchTable, firsts: IntArray, start: int, cut_gaps: bool, cut_at: IntArray = NOWHERE) -> list[Run]:
    """Return the runs of a table of valid batches, given the first offset of each; `start` is the file position of their buffer."""
    if len(rows) == 1:
        return [_run_of_one(rows[0], int(firsts[0]), start)]
    last = last_offsets(rows)
    cut = firsts[1:] != last[:-1] + 1 if cut_gaps else firsts[1:] <= last[:-1]
    if len(cut_at):
        cut |= np.isin(firsts[1:], cut_at)
    starts = np.concatenate(([0], np.flatnonzero(cut) + 1))
    ends = np.concatenate((starts[1:], [len(rows)])) - 1
    control = (rows["attributes"] & CONTROL_BIT) != 0
    counts = np.add.reduceat(rows["count"], starts, dtype=np.int64)
    records = np.add.reduceat(np.where(control, 0, np.maximum(rows["count"], 0)), starts, dtype=np.int64)
    unknown = np.logical_or.reduceat((rows["count"] < 0) & (rows["magic"] < MAGIC_V2), starts)
    columns = (
        rows["position"][starts] + start,
        rows["position"][ends] + rows["size"][ends] + start,
        firsts[starts],
        last[ends],
        ends - starts + 1,
        records,
        counts == last[ends] - firsts[starts] + 1,
    )
    runs = [Run(*fields) for fields in zip(*(column.tolist() for column in columns), strict=True)]
    for i in np.flatnonzero(unknown).tolist():
        runs[i].records = None
    return runs


def _run_of_one(row: Any, first: int, start: int) -> Run:
    """Return the run that consists of one batch; much faster than `_runs_of`."""
    (position, base, _, _, _, _, _, size, _, _, delta, _, count, attributes, _, magic) = row.item()
    last = min(base + max(delta, 0), MAX_OFFSET)
    records = None if count < 0 and magic < MAGIC_V2 else 0 if attributes & CONTROL_BIT else max(count, 0)
    return Run(start + position, start + position + size, first, last, 1, records, count == last - first + 1)


def total(a: int | None, b: int | None) -> int | None:
    """Return the sum of two counts; None if one of them is not known."""
    return None if a is None or b is None else a + b

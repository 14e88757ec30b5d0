"""The shallow walk of a segment: runs of sound batches, and the spans between them that are not.

Constant memory whatever the segment's size: a reused buffer, a reused table, and a few numbers a run.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._backend import core
from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NONE,
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
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ..errors import ChecksumError, KafkaFormatError, TooLargeError, TruncatedError
from ..records import RecordReader
from ..types import BATCH_DTYPE
from .files import FileView, aligned_buffer
from .search import OwnCrc, Search

BUFFER_BYTES = 4 << 20
FIRST_READ = 32 << 10
"""What a lookup reads first; each further read is four times the one before, up to BUFFER_BYTES."""
GROWTH = 4
TABLE_ROWS = 8192

Table = tuple[int, np.ndarray, np.ndarray, KafkaFormatError | None]
"""File position of a buffer, the buffer, a table of batches in it, and what is wrong behind the last of them."""


See = Callable[[int, Any, np.ndarray], None]


@dataclass
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


@dataclass
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
        self._inner = RecordReader(("offset",), capacity=1, max_batch_bytes=max_batch_bytes)
        self.stats = Stats()
        self._buffer = aligned_buffer(0 if view.data is not None else min(BUFFER_BYTES, max(self.size, 1)))
        self._table = np.zeros(TABLE_ROWS, BATCH_DTYPE)

    def tables(self, position: int, end: int) -> Iterator[Table]:
        """The batches from `position` to `end` or the first that is not sound.

        The last table may be empty; its error, whose position is the file's, is None at the end.
        """
        if self.view.data is not None:
            yield from self._mapped_tables(self.view.data, position, end)
            return
        step = self.first_read
        while position < end:
            asked = min(step, len(self._buffer), end - position)
            got = self.view.read_into(self._buffer[:asked], position)
            step *= GROWTH
            at, full = 0, True
            while full:  # a buffer of small batches fills the table several times
                scan = core.scan_batches(self._buffer, self._table, at, got)
                full = scan.count == len(self._table)
                at, error = scan.position, scan.error
                if error is not None:
                    error.position += position
                    error.resume = None if error.resume is None else error.resume + position
                elif at == 0:
                    size = self._size_of_unread(position, end, got, asked)
                    if isinstance(size, KafkaFormatError):
                        error = size
                    else:
                        step = max(step, size)
                if scan.count or error is not None:
                    yield position, self._buffer, self._table[: scan.count], error
                if error is not None:
                    return
            position += at

    def _mapped_tables(self, data: np.ndarray, position: int, end: int) -> Iterator[Table]:
        """The same over a mapped file, where a batch of any size lies whole: the buffer is the file."""
        self._buffer = data
        step = self.first_read
        while position < end:
            window = min(step, end - position)
            scan = core.scan_batches(data, self._table, position, position + window)
            step *= GROWTH
            error = scan.error
            if error is None and scan.count == 0 and window < end - position:
                continue
            if error is None and scan.count == 0:
                error = self._cut_off(position, end, bytes(data[position : min(position + BATCH_HEADER_SIZE, end)]))
            yield 0, data, self._table[: scan.count], error
            if error is not None:
                return
            position = scan.position

    def _size_of_unread(self, position: int, end: int, got: int, asked: int) -> int | KafkaFormatError:
        """The size of a batch of which only a part was read, for which the buffer is then large enough; or what is wrong with it."""
        left = end - position
        if got < asked:
            return TruncatedError("the file was truncated while it was read", position)
        head = bytes(self._buffer[: min(got, BATCH_HEADER_SIZE)])
        size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big") + ENTRY_OVERHEAD
        base_offset = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        if left < MAGIC_END or size > left:
            return self._cut_off(position, end, head)
        if size > max(self.max_batch_bytes, len(self._buffer)):
            message = f"a batch of {size} bytes is more than the limit of {self.max_batch_bytes}"
            if not OwnCrc(self.view, position, head).holds(position + size):
                return ChecksumError("the CRC does not match the crc field", position, base_offset, position + size)
            return TooLargeError(message, position, base_offset, position + size)
        if size > len(self._buffer):
            self._buffer = aligned_buffer(size)
        return size

    def _cut_off(self, position: int, end: int, head: bytes) -> KafkaFormatError:
        left = end - position
        if left < MAGIC_END:
            return TruncatedError(f"the file ends {left} bytes into a batch", position)
        size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big") + ENTRY_OVERHEAD
        base_offset = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        return TruncatedError(f"the file ends {left} bytes into a batch of {size}", position, base_offset)

    def _many(self, position: int, see: See | None) -> Iterator[tuple[np.ndarray, KafkaFormatError | None]]:
        """The batches from a position on, as `tables` has them, but more of them together; their positions are the file's."""
        many, n = np.empty(TABLE_ROWS, BATCH_DTYPE), 0
        for start, buffer, rows, error in self.tables(position, self.size):
            if n + len(rows) > len(many) or (n and start - int(many["position"][0]) >= self.run_bytes):
                yield many[:n], None
                n = 0
            if len(rows):
                if see is not None:
                    see(start, buffer, rows)
                many[n : n + len(rows)].view(np.uint8)[:] = rows.view(np.uint8)
                many["position"][n : n + len(rows)] += start
                n += len(rows)
            if error is not None:
                yield many[:n], error
                return
        yield many[:n], None

    def walk(self, cut_gaps: bool = False, cut_at: Collection[int] = (), see: See | None = None) -> Iterator[Run | Bad]:
        """Every byte of the segment, as runs and bad spans in the order of the file.

        cut_gaps: a run ends at every gap in the offsets too, not only where they fall back. cut_at: and before every
        batch that begins at one of these offsets. see: called with the position of each buffer, it, and the batches in it.
        """
        self.stats = Stats()
        position, run, expected = 0, None, self.base_offset
        last: int | None = self.base_offset - 1
        while position < self.size:
            error = None
            for rows, error in self._many(position, see):  # noqa: B007 (the last one, below)
                if len(rows):
                    self.stats.add(rows)
                    expected, last = _expected(rows, last, expected)
                    for part in self.runs(rows, 0, cut_gaps, cut_at):
                        if run is not None and part.first_offset not in cut_at and self._continues(run, part, cut_gaps):
                            run.dense = run.dense and part.dense and part.first_offset == run.last_offset + 1
                            run.end, run.last_offset = part.end, part.last_offset
                            run.batches += part.batches
                            run.records = total(run.records, part.records)
                        else:
                            if run is not None:
                                yield run
                            run = part
                    position = run.end if run else position
            if error is None:
                break
            if run is not None:
                yield run
                run, last = None, None
            bad = self._bad(position, error, expected)
            yield bad
            position = bad.end
        if run is not None:
            yield run

    def _continues(self, run: Run, part: Run, cut_gaps: bool) -> bool:
        rises = part.first_offset == run.last_offset + 1 if cut_gaps else part.first_offset > run.last_offset
        return rises and part.end - run.position <= self.run_bytes

    def runs(self, rows: np.ndarray, start: int, cut_gaps: bool = False, cut_at: Collection[int] = ()) -> list[Run]:
        """Runs of a table of batches, whose positions count from `start`; a wrapper message is opened where one begins with it, since its
        offset is its last.
        """
        runs = _runs_of(rows, start, cut_gaps, cut_at)
        for run in runs:
            if run.records is None:
                run.first_offset = self.first_offset_at(run.position)
        return runs

    def first_offset_at(self, position: int) -> int:
        """The first offset of the batch or message at a position of the file; of a wrapper that cannot be opened, its own."""
        size = int.from_bytes(self.view.read(position + LENGTH_AT, 4), "big") + ENTRY_OVERHEAD
        entry, row = self.view.read(position, size), np.zeros(1, BATCH_DTYPE)
        if core.scan_batches(entry, row).count and row["magic"][0] < MAGIC_V2:
            for _, columns in self._inner.read(entry, row, lambda _, __: None):
                assert columns.offset is not None
                return int(columns.offset[0])
        return int.from_bytes(entry[:LENGTH_AT], "big", signed=True)

    def _bad(self, position: int, error: KafkaFormatError, expected: int) -> Bad:
        self.search.among_plain = self.stats.codecs == 1 << CODEC_NONE and self.stats.magics & 1 << MAGIC_V2 == 0
        end, own_crc_holds = self.search.resume(position, expected)
        known = own_crc_holds or isinstance(error, TooLargeError)
        return Bad(position, end, error, self._count(position) if known else None)

    def _count(self, position: int) -> int | None:
        """The number of data records that a header states, None where that cannot be."""
        head = self.view.read(position, BATCH_HEADER_SIZE)
        if head[MAGIC_AT] < MAGIC_V2:
            return None if head[LEGACY_ATTRIBUTES_AT] & CODEC_MASK else 1
        count, last_delta = int.from_bytes(head[57:61], "big", signed=True), int.from_bytes(head[23:27], "big", signed=True)
        if not 0 <= count <= last_delta + 1:
            return None
        return 0 if head[22] & CONTROL_BIT else count


def _expected(rows: np.ndarray, before: int | None, expected: int) -> tuple[int, int]:
    """The least offset to expect behind a table of batches, and the last one's last offset.

    before: the offset before them, None directly behind damage. expected: what was to be expected so far. Where the last batch does
    not go on where the one before it ended, its base offset may be hurt, and that one's end is the surer sign.
    """
    firsts, lasts = rows["base_offset"], rows["base_offset"] + np.maximum(rows["last_offset_delta"], 0)
    last = int(lasts[-1])
    before = int(lasts[-2]) if len(rows) > 1 else expected - 1 if before is None else before
    if int(firsts[-1]) == before + 1:
        return last + 1, last
    return min(before, last) + 1, last


def _runs_of(rows: np.ndarray, start: int, cut_gaps: bool, cut_at: Collection[int] = ()) -> list[Run]:
    """A table of sound batches as runs; `start` is the file position of the buffer."""
    first = rows["base_offset"]
    last = first + np.maximum(rows["last_offset_delta"], 0)
    last[last < first] = MAX_OFFSET  # past what 64 bits hold
    wrappers = (rows["count"] < 0) & (rows["magic"] < MAGIC_V2)
    cut = first[1:] != last[:-1] + 1 if cut_gaps else first[1:] <= last[:-1]
    if cut_at:
        cut |= np.isin(first[1:], list(cut_at))
    borders = [0, *(np.flatnonzero(cut) + 1).tolist(), len(rows)]
    data = np.where((rows["attributes"] & CONTROL_BIT) == 0, np.maximum(rows["count"], 0), 0)
    return [
        Run(
            start + int(rows["position"][a]),
            start + int(rows["position"][b - 1]) + int(rows["size"][b - 1]),
            int(first[a]),
            int(last[b - 1]),
            b - a,
            None if wrappers[a:b].any() else int(data[a:b].sum(dtype=np.int64)),
            int(rows["count"][a:b].sum(dtype=np.int64)) == int(last[b - 1]) - int(first[a]) + 1,
        )
        for a, b in itertools.pairwise(borders)
    ]


def total(a: int | None, b: int | None) -> int | None:
    """Of two counts that may not be known."""
    return None if a is None or b is None else a + b

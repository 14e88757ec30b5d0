"""The shallow walk of a segment: runs of sound batches, and the spans between them that are not.

Constant memory whatever the segment's size: a reused buffer, a reused table, and a few numbers a run. Going on behind
damage follows the rules of the documentation (README, "Damage"): by the damaged batch's length where another header
or the end of the file stands there, unless its CRC holds up to a sound batch before that; else by searching.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from .._backend import core
from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    CRC_START,
    DEFAULT_MAX_BATCH_BYTES,
    DELETE_HORIZON_BIT,
    ENTRY_OVERHEAD,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V2,
    MIN_BATCH_LENGTH,
    MIN_LEGACY_LENGTH,
    NO_TIMESTAMP,
)
from ..errors import ChecksumError, KafkaFormatError, TooLargeError, TruncatedError
from ..types import BATCH_DTYPE
from .files import FileView, aligned_buffer

BUFFER_BYTES = 4 << 20
TABLE_ROWS = 8192
SEARCH_STEP = 1 << 20
OWN_CRC_REACH = 16 << 20
"""How far behind the first good find a batch whose length was hurt is still looked for the end that its CRC confirms."""


@dataclass
class Run:
    """Sound batches that lie back to back with rising offsets.

    records: data records, as the headers count them. dense: there is a record for every offset, so nothing was compacted.
    """

    position: int
    end: int
    first_offset: int
    last_offset: int
    batches: int
    records: int
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
    """What the headers of a segment tell. Timestamps in ms, -1 where there are none."""

    batches: int = 0
    codecs: int = 0
    magics: int = 0
    min_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP

    def add(self, rows: np.ndarray) -> None:
        attributes = rows["attributes"]
        self.batches += len(rows)
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
    """Walks one open segment. run_bytes: where a run is cut although the next batch would continue it."""

    def __init__(
        self, view: FileView, base_offset: int, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES, run_bytes: int = sys.maxsize
    ) -> None:
        self.view = view
        self.size = view.size
        self.base_offset = base_offset
        self.max_batch_bytes = max_batch_bytes
        self.run_bytes = run_bytes
        self.stats = Stats()
        self._buffer = aligned_buffer(min(BUFFER_BYTES, max(self.size, 1)))
        self._table = np.zeros(TABLE_ROWS, BATCH_DTYPE)

    def tables(self, position: int, end: int) -> Iterator[tuple[int, np.ndarray, np.ndarray, KafkaFormatError | None]]:
        """(file position of the buffer, buffer, table, error): the batches from `position` to `end` or the first that is not sound.

        The last table may be empty; its error, whose position is the file's, is None at the end.
        """
        while position < end:
            got = self.view.read_into(self._buffer[: min(len(self._buffer), end - position)], position)
            scan = core.scan_batches(self._buffer, self._table, 0, got)
            error = scan.error
            if error is not None:
                error.position += position
                error.resume = None if error.resume is None else error.resume + position
            elif scan.count == 0:
                error = self._not_scanned(position, end, got)
                if error is None:
                    continue
            yield position, self._buffer, self._table[: scan.count], error
            if error is not None:
                return
            position += scan.position

    def _not_scanned(self, position: int, end: int, got: int) -> KafkaFormatError | None:
        """Why no batch was taken at `position`; None once the buffer has been made large enough for it."""
        left = end - position
        if got < min(left, len(self._buffer)):
            return TruncatedError("the file was truncated while it was read", position)
        head = bytes(self._buffer[: min(got, BATCH_HEADER_SIZE)])
        if left < MAGIC_END:
            return TruncatedError(f"the file ends {left} bytes into a batch", position)
        size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big") + ENTRY_OVERHEAD
        base_offset = int.from_bytes(head[:LENGTH_AT], "big", signed=True)
        if size > left:
            return TruncatedError(f"the file ends {left} bytes into a batch of {size}", position, base_offset)
        if size > max(self.max_batch_bytes, len(self._buffer)):
            message = f"a batch of {size} bytes is more than the limit of {self.max_batch_bytes}"
            if self.view.crc32c(position + CRC_START, position + size) != int.from_bytes(head[CRC_AT:CRC_START], "big"):
                return ChecksumError("CRC-32C does not match the crc field", position, base_offset, position + size)
            return TooLargeError(message, position, base_offset, position + size)
        self._buffer = aligned_buffer(size)
        return None

    def walk(self, cut_gaps: bool = False, cut_at: Collection[int] = ()) -> Iterator[Run | Bad]:
        """Every byte of the segment, as runs and bad spans in the order of the file.

        cut_gaps: a run ends at every gap in the offsets too, not only where they fall back. cut_at: and before every
        batch that begins at one of these offsets.
        """
        self.stats = Stats()
        position, run, expected = 0, None, self.base_offset
        while position < self.size:
            error = None
            for start, _, rows, error in self.tables(position, self.size):
                if len(rows):
                    self.stats.add(rows)
                    for part in runs_of(rows, start, cut_gaps, cut_at):
                        if run is not None and part.first_offset not in cut_at and self._continues(run, part, cut_gaps):
                            run.dense = run.dense and part.dense and part.first_offset == run.last_offset + 1
                            run.end, run.last_offset = part.end, part.last_offset
                            run.batches += part.batches
                            run.records += part.records
                        else:
                            if run is not None:
                                yield run
                            run = part
                    position = run.end if run else start
            if error is None:
                break
            if run is not None:
                expected = run.last_offset + 1
                yield run
                run = None
            bad = self._bad(position, error, expected)
            yield bad
            position = bad.end
        if run is not None:
            yield run

    def sound_runs(self, position: int, start: int, end: int) -> list[Run] | None:
        """Runs from a position on that reach from `start` to `end` or the end of the file, sound and without a gap.

        None where they do not. They may begin before `start` and end behind `end`.
        """
        runs: list[Run] = []
        for at, _, rows, error in self.tables(position, self.size):
            for part in runs_of(rows, at, False) if len(rows) else []:
                if not part.dense or part.first_offset != (runs[-1].last_offset + 1 if runs else min(start, part.first_offset)):
                    return None
                if runs and part.end - runs[-1].position <= self.run_bytes:
                    runs[-1].end, runs[-1].last_offset = part.end, part.last_offset
                    runs[-1].batches += part.batches
                    runs[-1].records += part.records
                else:
                    runs.append(part)
            if runs and runs[-1].last_offset + 1 >= end:
                return runs
            if error is not None:
                return None
        return runs

    def _continues(self, run: Run, part: Run, cut_gaps: bool) -> bool:
        rises = part.first_offset == run.last_offset + 1 if cut_gaps else part.first_offset > run.last_offset
        return rises and part.end - run.position <= self.run_bytes

    def _bad(self, position: int, error: KafkaFormatError, expected: int) -> Bad:
        end, own_crc_holds = self.resume(position, expected)
        known = own_crc_holds or isinstance(error, TooLargeError)
        return Bad(position, end, error, self._count(position) if known else None)

    def _count(self, position: int) -> int | None:
        """The number of data records that a header states, None where that cannot be."""
        head = self.view.read(position, BATCH_HEADER_SIZE)
        count, last_delta = int.from_bytes(head[57:61], "big", signed=True), int.from_bytes(head[23:27], "big", signed=True)
        if not 0 <= count <= last_delta + 1:
            return None
        return 0 if head[22] & CONTROL_BIT else count

    def resume(self, position: int, expected: int) -> tuple[int, bool]:
        """Where reading goes on behind the bad batch at `position`, and whether that batch's own CRC holds up to there."""
        head = self.view.read(position, BATCH_HEADER_SIZE)
        crc = _OwnCrc(self.view, position, head)
        by_length = None
        if len(head) >= MAGIC_END and header_stands(head, expected):
            claimed = position + ENTRY_OVERHEAD + int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True)
            by_length = claimed if self.header_at(claimed, expected, or_end=True) else None
        confirmed = by_length is not None and (by_length == self.size or self.sound(by_length, self.view.read(by_length, BATCH_HEADER_SIZE)))
        finds: list[_Find] = []
        followed = None
        for at in self.find(position + 1, by_length if by_length is not None and confirmed else self.size):
            if crc.usable and crc.holds(at):
                return at, True
            find = _Find(at, self.view.read(at, BATCH_HEADER_SIZE))
            if by_length is not None and not confirmed and at < by_length < find.end:
                by_length = None  # a sound batch lies across what the length claims to be the end
            if followed is None:
                finds.append(find)
                if self.header_at(find.end, expected, or_end=True):
                    followed = find
            good = by_length if by_length is not None else followed.position if followed is not None else None
            if good is not None and not confirmed and (not crc.usable or at > good + OWN_CRC_REACH):
                break
        if by_length is None or not confirmed:
            finds = finds if by_length is None else [f for f in finds if f.position < by_length]
            by_length = self._best(finds, followed, expected, by_length)
        end = by_length
        return end, crc.usable and crc.holds(end)

    def _best(self, finds: list[_Find], followed: _Find | None, expected: int, by_length: int | None) -> int:
        """Where to go on: by the length if a header stands there, else at the first find that is followed by a header or the end,
        else at the first, else nowhere before the end.

        A find that nothing follows may still be an intact batch between two damaged ones: it is taken before all that
        where its offsets fit what is around it, unless the bytes before it say that it is the whole of some record's value.
        """
        for find in finds:
            fits = find.first_offset >= expected and (followed is None or find is followed or find.last_offset < followed.first_offset)
            if find is followed and by_length is None or fits and not self._is_value(find):
                return find.position
        if by_length is not None:
            return by_length
        return finds[0].position if finds else self.size

    def _is_value(self, find: _Find) -> bool:
        """Does a varint of just its size stand before it?"""
        reach = min(5, find.position)
        before = self.view.read(find.position - reach, reach)
        return any(_varint_is(before[-n:], find.end - find.position) for n in range(1, reach + 1))

    def find(self, start: int, end: int) -> Iterator[int]:
        """Positions from `start` on, below `end`, where a batch lies whose CRC holds."""
        position = start
        while position < end:
            window = self.view.read(position, min(SEARCH_STEP + BATCH_HEADER_SIZE - 1, self.size - position))
            at = 0
            while (hit := core.find_batch(window, at, len(window), False)) is not None and position + hit < end:
                found = position + hit
                if self.sound(found, window[hit : hit + BATCH_HEADER_SIZE]):
                    yield found
                at = hit + 1
            position += SEARCH_STEP

    def sound(self, position: int, head: bytes) -> bool:
        """Does a whole batch, its CRC right, lie at `position`?"""
        size = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True) + ENTRY_OVERHEAD
        if size < BATCH_HEADER_SIZE or size > self.size - position:
            return False
        return self.view.crc32c(position + CRC_START, position + size) == int.from_bytes(head[CRC_AT:CRC_START], "big")

    def header_at(self, position: int, expected: int, or_end: bool = False) -> bool:
        if position >= self.size:
            return or_end and position == self.size
        return header_stands(self.view.read(position, BATCH_HEADER_SIZE), expected) or (or_end and self.zeros_from(position))

    def zeros_from(self, position: int) -> bool:
        """Is there nothing but zeros from `position` to the end?"""
        while position < self.size:
            part = self.view.read(position, SEARCH_STEP)
            if not part or part.count(0) != len(part):
                return False
            position += len(part)
        return True

    def zero_tail(self) -> int:
        """Where the zeros at the end of the file begin."""
        end = self.size
        while end > 0:
            start = max(0, end - SEARCH_STEP)
            part = self.view.read(start, end - start).rstrip(b"\0")
            if part:
                return start + len(part)
            end = start
        return 0


class _Find:
    """A sound batch that a search came upon."""

    def __init__(self, position: int, head: bytes) -> None:
        self.position = position
        self.end = position + ENTRY_OVERHEAD + int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big")
        self.first_offset = int.from_bytes(head[:LENGTH_AT], "big")
        self.last_offset = self.first_offset + int.from_bytes(head[23:27], "big")


def _varint_is(raw: bytes, value: int) -> bool:
    try:
        return core.read_varint(raw) == (value, len(raw))  # type: ignore[no-any-return]
    except KafkaFormatError:
        return False


class _OwnCrc:
    """A damaged batch's crc field against what follows it, up to positions that only rise."""

    def __init__(self, view: FileView, position: int, head: bytes) -> None:
        self.view = view
        self.usable = len(head) == BATCH_HEADER_SIZE
        self.stored = int.from_bytes(head[CRC_AT:CRC_START], "big")
        self.at = position + CRC_START
        self.value = 0

    def holds(self, end: int) -> bool:
        if end < self.at:
            return False
        self.value, self.at = self.view.crc32c(self.at, end, self.value), end
        return self.value == self.stored


def header_stands(head: bytes, expected: int) -> bool:
    """Could a batch or message begin with these bytes (at most a header's, fewer at the end of a file)?

    As far as they reach: a base offset at or after the one expected, a length that a batch can have, a known magic.
    """
    if not head:
        return False
    offset = head[:LENGTH_AT]
    if offset[0] & 0x80 or int.from_bytes(offset.ljust(LENGTH_AT, b"\xff"), "big") < expected:
        return False
    if len(head) < ENTRY_OVERHEAD:
        return True
    length = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True)
    magic = head[MAGIC_AT] if len(head) >= MAGIC_END else None
    if magic is not None and magic > MAGIC_V2:
        return False
    return length >= (MIN_BATCH_LENGTH if magic == MAGIC_V2 else MIN_LEGACY_LENGTH)


def runs_of(rows: np.ndarray, start: int, cut_gaps: bool, cut_at: Collection[int] = ()) -> list[Run]:
    """A table of sound batches as runs; `start` is the file position of the buffer."""
    first = rows["base_offset"]
    last = first + np.maximum(rows["last_offset_delta"], 0)
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
            int(data[a:b].sum(dtype=np.int64)),
            int(rows["count"][a:b].sum(dtype=np.int64)) == int(last[b - 1]) - int(first[a]) + 1,
        )
        for a, b in itertools.pairwise(borders)
    ]



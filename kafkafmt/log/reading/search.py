"""Find the position at which reading resumes after a damaged batch: the first of these that exists.

1. A valid batch up to which the damaged batch's own CRC matches. Then only its length field is corrupted, which the CRC does not cover.
2. The end according to the length field, if a plausible header, only zeros, or the end of the file is there, and no valid batch spans it.
3. A valid batch, found by scanning, that is confirmed by what follows it (see `Search._confirmed`).
4. The end of the file.

A record value can itself contain batches. A batch inside a value or inside a wrapper message is therefore no candidate, as far as this
can be recognized; the rest of it is what rule 3 excludes. Each part of the file is scanned once, and each CRC is computed once.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CRC_AT,
    ENTRY_OVERHEAD,
    LAST_OFFSET_DELTA_AT,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_KEY_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V1,
    MAGIC_V2,
    MAX_RELATIVE_OFFSET,
    MIN_LEGACY_LENGTH,
    MIN_LENGTHS,
)
from ...errors import KafkaFormatError
from ...types import BATCH_DTYPE, BatchTable, IntArray
from ..format.files import FileView
from .checksums import STEP, SpanCrcs, crc_covers

FIRST_WINDOW = 1 << 16
LARGEST_WINDOW = 1 << 20
"""Bytes that are read at once. A window that continues the one before is twice as large."""
ROWS = 1 << 16
OWN_CRC_FINDS = 64
"""Number of valid batches at which the damaged batch's own CRC is tried before its length field is trusted."""
LATER_FINDS = 16
"""Number of valid batches after the first confirmed one at which the damaged batch's own CRC is still tried."""
SPANNING_FINDS = 256
"""Number of valid batches before a position that are looked at to find one that spans it."""
CHAIN_ROWS = 1 << 14
LONG_CHAIN = 1 << 16
"""Consecutive valid batches of this size in bytes are taken for the log's, whatever follows them."""
MANY_MESSAGES = 1 << 20
"""No wrapper message contains so many messages, so a larger offset is no relative one."""


class Search:
    """Finds where reading of an open segment resumes after damage.

    among_plain : bool or None
        Whether all valid batches so far were messages of formats 0 and 1 without compression; None before the first.
    """

    def __init__(self, view: FileView) -> None:
        self.view = view
        self.size: int = view.size
        self.among_plain: bool | None = None
        self.crcs: SpanCrcs = SpanCrcs(view)
        self.bytes_scanned: int = 0
        self._scanned, self._looked = Window(), Window()
        self._from = self._to = self._lowest = 0
        self._found = np.empty(ROWS, np.int64)
        self._n_found = 0
        self._first = 0
        """Index of the first position in `_found` that is not before `_from`."""
        self._chained = 0
        self._zero_tail: int | None = None

    @cached_property
    def _rows(self) -> IntArray:
        return np.empty(ROWS, np.int64)

    @cached_property
    def _beyond(self) -> IntArray:
        return np.empty((ROWS, 2), np.int64)

    @cached_property
    def _chain(self) -> BatchTable:
        return np.empty(CHAIN_ROWS, BATCH_DTYPE)

    def note(self, rows: BatchTable) -> None:
        """Take note of valid batches before the next damage."""
        if self.among_plain is not False:
            self.among_plain = not ((rows["magic"] == MAGIC_V2) | ((rows["attributes"] & CODEC_MASK) != 0)).any()

    def resume(self, position: int, expected: int) -> tuple[int, bool]:
        """Return where reading resumes after the damaged batch at `position`, and whether its own CRC matches up to there.

        `expected` is the lowest offset that the damaged batch can have.
        """
        self._lowest = expected
        if self._from <= position < self._to and (known := self._resume_in_window(position, expected)):
            return known
        bad = Head(position, self.head(position))
        own = OwnCrc(self, bad)
        if bad.may_be_right(expected) and self._header_or_end(bad.end, expected):
            for at in itertools.islice(self.find(position + 1, bad.end), OWN_CRC_FINDS):
                if own.matches(at):
                    return at, True
            if not self._is_spanned(bad.end):
                return bad.end, own.matches(bad.end)
        end = self._scan(bad, own, expected)
        return end, own.matches(end)

    def _resume_in_window(self, position: int, expected: int) -> tuple[int, bool] | None:
        """Return what `resume` returns if the window that was scanned last is enough to decide, and the case is a common one."""
        window = self._scanned
        self._first += int(np.searchsorted(self._found[self._first : self._n_found], position + 1))
        found = self._found[self._first : self._n_found]
        known: tuple[int, bool] | None = core.resume_after(
            window.data, found, position, window.at, self._to, self.size, self.zero_tail(), expected
        )
        return known

    def _is_spanned(self, position: int) -> bool:
        """Return whether a valid batch that begins after the damaged one ends after `position`."""
        while self._to < min(position, self.size):
            self._scan_on(position)
        end = self._index_of(position)
        near = self._found[max(end - SPANNING_FINDS, self._first) : end].tolist()
        return any(Head(at, self.head(at)).end > position for at in near) and not self.valid(position)

    def _scan(self, bad: Head, own: OwnCrc, expected: int) -> int:
        """Return the position of the first confirmed batch after a damaged one; the end of the file if there is none."""
        covered = 0
        for at in self.find(bad.position + 1, self.size):
            if own.matches(at):
                return at
            if at < covered:
                continue
            find = Head(at, self.head(at))
            covered = self._value_end(find) or self._covered_end(find, bad, expected) or self._inner_messages_end(find, bad, expected)
            if not covered:
                below = find.first_offset < expected and (find.plain_message or bad.continues(expected))
                if not below and self._confirmed(find, bad, expected):
                    return self._end_by_crc(bad, own, find)
                covered = find.end
        return self.view.size

    def _end_by_crc(self, bad: Head, own: OwnCrc, find: Head) -> int:
        """Return the position of a valid batch after `find` if the damaged batch's own CRC and offsets lead there, else that of `find`."""
        if find.first_offset == bad.next_offset:
            return find.position
        reach = min(find.position + LARGEST_WINDOW, self.size)
        for at in itertools.islice(self.find(find.position + 1, reach), LATER_FINDS):
            if int.from_bytes(self._bytes(at, LENGTH_AT), "big") == bad.next_offset and own.matches(at):
                return at
        return find.position

    def _confirmed(self, find: Head, bad: Head, expected: int) -> bool:
        """Return whether what follows a valid batch shows that it is one of the log's, not part of a record value.

        After it there must be the end of the file, zeros up to the end, a plausible header whose offset continues, the offset that
        comes next at the place of a header's offset, or a valid batch. In the last case, and if the damaged batch's header is the
        log's next one, `find` must be the batch after it, or the last of a few valid batches must be confirmed likewise.
        """
        if bad.continues(expected) and find.first_offset != bad.next_offset:
            ends, last_offset = self._chain_from(find, LARGEST_WINDOW)
            end, next_offset = int(ends[-1]), last_offset + 1
            if end - find.position > LONG_CHAIN:
                return True
        else:
            end, next_offset = find.end, find.next_offset
        return self._continued(end, next_offset, find.magic) or (end == find.end and self.valid(end))

    def _continued(self, end: int, next_offset: int, magic: int) -> bool:
        if self._log_continues(end, next_offset):
            return True
        offset = self.head(end)[:LENGTH_AT]
        distance = int.from_bytes(offset, "big") - next_offset
        reach = 0xFFFF if magic < MAGIC_V2 else 0  # a wrapper message has its last offset
        return len(offset) == LENGTH_AT and 0 <= distance <= reach

    def _log_continues(self, position: int, expected: int) -> bool:
        """Return whether the end of the file, zeros up to it, or a plausible header whose offset continues is at `position`."""
        head = self.head(position)
        return self._ends_at(position) or (len(head) >= LENGTH_AT and header_continues(head, expected))

    def _value_end(self, find: Head) -> int:
        """Return the end of the record value that consists of `find` and the valid batches directly after it, or 0.

        The value's length precedes it and must equal the size of these batches. In format 2 the length is a varint, which can match
        by chance. So nothing that continues the log may follow: in a real record, at least the header count does. In formats 0 and
        1 the length has four bytes; a match by chance is as unlikely as with a CRC.
        """
        reach = min(5, find.position)
        before = self._bytes(find.position - reach, reach)
        lengths = {n for k in range(1, reach + 1) if (n := _whole_varint(before[-k:])) is not None}
        legacy = int.from_bytes(before[-4:], "big") if reach >= 4 else 0
        longest = max(legacy, *lengths, 0)
        if longest < find.end - find.position:
            return 0
        ends, last_offset = self._chain_from(find, longest)
        sizes = ends - find.position
        if (sizes == legacy).any():
            return find.position + legacy
        end = int(ends[-1])
        if int(sizes[-1]) in lengths and not self._log_continues(end, last_offset + 1):
            return end
        return 0

    def _covered_end(self, find: Head, bad: Head, expected: int) -> int:
        """Return the end of the batches from `find` on if their offsets are those that the damaged batch's own header claims, or 0.

        Nothing after a batch of the log has its offsets, so these batches are inside it. The header counts if it continues the log.
        """
        if bad.continues(expected) and expected <= find.first_offset <= bad.last_offset:
            ends, _ = self._chain_from(find, LARGEST_WINDOW)
            following = self._chain["base_offset"][: self._chained] >= bad.next_offset
            if bad.magic < MAGIC_V2 and following.any():  # a message ends with its value, so the log's next batch is directly after that
                return int(ends[max(int(np.argmax(following)) - 1, 0)])
            return int(ends[-1])
        return 0

    def _inner_messages_end(self, find: Head, bad: Head, expected: int) -> int:
        """Return the end of the messages from `find` on if they can be inside a damaged wrapper message, or 0.

        Compression can leave inner messages as they were. In format 1 their offsets count from 0. In format 0 they are absolute, so
        such a message is delivered like any other: its offset and its CRC are its own.
        """
        if not find.plain_message or find.magic != MAGIC_V1 or bad.magic == MAGIC_V2 or bad.plain_message:
            return 0
        if bad.wrapper:
            known = expected <= bad.first_offset <= expected + MANY_MESSAGES
            highest = bad.first_offset - expected if known else MANY_MESSAGES
        elif self.among_plain:
            return 0
        else:
            end = self._plain_end(find, MANY_MESSAGES)
            following = Head(end, self.head(end))
            highest = following.first_offset - expected if following.wrapper and self.valid(end) else -1
        return self._plain_end(find, highest) if find.first_offset <= highest else 0

    def _plain_end(self, find: Head, highest: int) -> int:
        """Return the end of the messages without compression, with consecutive offsets up to `highest`, from `find` on."""
        self._chain_from(find, LARGEST_WINDOW)
        rows = self._chain[: self._chained]
        other = (rows["magic"] == MAGIC_V2) | ((rows["attributes"] & CODEC_MASK) != 0) | (rows["base_offset"] > highest)
        other[1:] |= np.diff(rows["base_offset"]) != 1
        rows = rows[: int(np.argmax(other))] if other.any() else rows
        return int(rows["position"][-1]) + int(rows["size"][-1]) + self._looked.at if len(rows) else find.end

    def _chain_from(self, find: Head, reach: int) -> tuple[npt.NDArray[np.int64], int]:
        """Return the ends of `find` and of the valid batches directly after it, and the last one's last offset.

        At most the batches of one window are looked at, a larger one if the first is too small for `reach` bytes.
        """
        window = self._looked
        for size in (FIRST_WINDOW, LARGEST_WINDOW):
            self._around(window, find.position, size)
            scan = core.scan_batches(window.data, self._chain, find.position - window.at)
            end = scan.position + window.at
            if scan.error is not None or end >= min(find.position + reach, self.size) or not self.valid(end):
                break
        self._chained = scan.count
        rows = self._chain[: scan.count]
        if not len(rows):  # larger than the window
            return np.array([find.end]), find.last_offset
        ends = rows["position"].astype(np.int64) + rows["size"] + window.at
        return ends, int(rows["base_offset"][-1]) + max(int(rows["last_offset_delta"][-1]), 0)

    def find(self, start: int, end: int) -> Iterator[int]:
        """Yield the positions in [start, end) at which a valid batch begins. Each part of the file is scanned once."""
        if not self._from <= start <= self._to:
            self._from = self._to = start
            self._first = self._n_found = 0
        self._from = start
        self._first = self._index_of(start)
        i = self._first
        while True:
            while i < self._n_found:
                if self._found[i] >= end:
                    return
                yield int(self._found[i])
                i += 1
            if self._to >= min(end, self.size):
                return
            i -= self._first
            self._scan_on(end)
            i += self._first

    def _index_of(self, position: int) -> int:
        """Return the index in `_found` of the first position that is not before `position`."""
        return self._first + int(np.searchsorted(self._found[self._first : self._n_found], position))

    def _scan_on(self, end: int) -> None:
        """Scan from where the last scan ended, up to `end` or the end of a window."""
        start, window = self._to, self._scanned
        self._around(window, start, BATCH_HEADER_SIZE)
        if start >= window.end:
            self._to = max(end, start)
            return
        stop = len(window.data) if window.end == self.size else len(window.data) - BATCH_HEADER_SIZE + 1
        stop = min(stop, end - window.at)
        n, n_beyond, at = core.find_batches(window.data, self._rows, self._beyond, start - window.at, stop, self._lowest)
        found = self._rows[:n] + window.at
        if n_beyond and (more := self.crcs.valid(self.size, window.data, window.at, self._beyond[:n_beyond])):
            found = np.sort(np.concatenate((found, np.array(more, np.int64))))
        self._keep(found)
        self._to = window.at + at
        self.bytes_scanned += self._to - start

    def _keep(self, found: IntArray) -> None:
        """Append positions to those that were found."""
        n = self._n_found + len(found)
        if n > len(self._found):
            kept = self._found[self._first : self._n_found]
            n = len(kept) + len(found)
            larger = np.empty(max(2 * n, ROWS), np.int64)
            larger[: len(kept)] = kept
            self._found, self._first = larger, 0
        self._found[n - len(found) : n] = found
        self._n_found = n

    def valid(self, position: int) -> bool:
        """Return whether a batch or message, whole and with a matching CRC, begins at `position`."""
        if self._from <= position < self._to:
            i = self._index_of(position)
            return i < self._n_found and int(self._found[i]) == position
        head = Head(position, self.head(position))
        if len(head.data) < MAGIC_END or head.magic > MAGIC_V2 or head.length < MIN_LENGTHS[head.magic] or head.end > self.size:
            return False
        return OwnCrc(self, head).matches(head.end)

    def _around(self, window: Window, position: int, size: int) -> None:
        """Move a window so that it has at least `size` bytes from `position` on, or all up to the end of the file."""
        if window.at <= position and min(position + size, self.size) <= window.end:
            return
        follows = window.at <= position <= window.end
        length = max(size, min(2 * len(window.data), LARGEST_WINDOW) if follows else FIRST_WINDOW)
        window.at = max(position - 8, 0)
        window.data = np.frombuffer(self.view.read(window.at, length + 8), np.uint8)
        if len(window.data) < min(length + 8, self.size - window.at):
            self.size = window.end  # the file was truncated meanwhile

    def _bytes(self, position: int, size: int) -> bytes:
        for window in (self._scanned, self._looked):
            at = position - window.at
            if 0 <= at and at + size <= len(window.data):
                return window.data[at : at + size].tobytes()
        return self.view.read(position, size)

    def head(self, position: int) -> bytes:
        """Return up to 61 bytes from `position` on; fewer at the end of the file."""
        return self._bytes(position, min(BATCH_HEADER_SIZE, max(self.size - position, 0)))

    def update_crc(self, castagnoli: bool, start: int, end: int, value: int) -> int:
        """Return the CRC of some bytes, whose CRC is `value`, and the bytes in [start, end) after them."""
        size = end - start
        for window in (self._scanned, self._looked):
            at = start - window.at
            if 0 <= at and at + size <= len(window.data):
                self.crcs.bytes_summed += size
                crc: int = (core.crc32c if castagnoli else core.crc32)(window.data, value, at, at + size)
                return crc
        return self.crcs.update(castagnoli, start, end, value)

    def _ends_at(self, position: int) -> bool:
        """Return whether the file ends at `position`, or has only zeros from there on; a few zeros can be the rest of a record."""
        return position == self.size or (position + LENGTH_AT <= self.size and position >= self.zero_tail())

    def _header_or_end(self, position: int, expected: int) -> bool:
        if position >= self.size:
            return position == self.size
        head = self.head(position)
        return header_continues(head, expected) or self._ends_at(position) or (header_stands(head, expected) and self.valid(position))

    def zero_tail(self) -> int:
        """Return the position at which the zeros at the end of the file begin."""
        if self._zero_tail is None:
            end = self.size
            while end > 0:
                start = max(0, end - LARGEST_WINDOW)
                part = self.view.read(start, end - start).rstrip(b"\0")
                end = start
                if part:
                    end = start + len(part)
                    break
            self._zero_tail = end
        return self._zero_tail


CONSISTENT_FIELDS = struct.Struct(">iqqqhii")
"""Last offset delta, base and maximum timestamp, producer id, producer epoch, base sequence and record count of a header."""
FAR_FUTURE = 1 << 53
"""A timestamp in ms that no record has: the year 287396."""


class Window:
    """Bytes of the file that were read together."""

    def __init__(self) -> None:
        self.at = 0
        self.data: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    @property
    def end(self) -> int:
        return self.at + len(self.data)


class Head:
    """What the first bytes of a batch or message say, as far as they are there."""

    def __init__(self, position: int, data: bytes) -> None:
        self.position = position
        self.data = data
        self.magic: int = data[MAGIC_AT] if len(data) >= MAGIC_END else MAGIC_V2 + 1
        self.length: int = int.from_bytes(data[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True)
        self.end: int = position + ENTRY_OVERHEAD + self.length
        self.first_offset: int = int.from_bytes(data[:LENGTH_AT], "big", signed=True)
        """Of a wrapper message, the last offset."""
        delta = 0
        self.dense: bool = self.magic < MAGIC_V2
        """The fields agree with each other, and there is one record for each offset."""
        if self.magic == MAGIC_V2 and len(data) == BATCH_HEADER_SIZE:
            delta, base_time, max_time, producer_id, epoch, sequence, count = CONSISTENT_FIELDS.unpack_from(data, LAST_OFFSET_DELTA_AT)
            no_producer = (producer_id, epoch, sequence) == (-1, -1, -1)
            times = -1 <= base_time <= max_time < FAR_FUTURE
            self.dense = 0 <= delta == count - 1 and times and (no_producer or min(producer_id, epoch) >= 0)
        self.last_offset: int = self.first_offset + max(delta, 0)
        self.next_offset: int = self.last_offset + 1
        legacy = self.magic < MAGIC_V2 and len(data) > LEGACY_ATTRIBUTES_AT
        self.wrapper: bool = legacy and 0 < data[LEGACY_ATTRIBUTES_AT] & CODEC_MASK < 4
        self.plain_message: bool = legacy and data[LEGACY_ATTRIBUTES_AT] & CODEC_MASK == 0

    def may_be_right(self, expected: int) -> bool:
        """Return whether offset and length are possible, whatever the magic."""
        return len(self.data) >= MAGIC_END and self.first_offset >= expected and self.length >= MIN_LEGACY_LENGTH

    def continues(self, expected: int) -> bool:
        """Return whether this header is the next one of a log without gaps, as far as its fields agree with each other."""
        return self.dense and self.first_offset == expected


class OwnCrc:
    """A batch's crc field, compared with the CRC of what follows the field."""

    def __init__(self, search: Search, head: Head) -> None:
        legacy = head.magic < MAGIC_V2
        self.usable: bool = len(head.data) >= (ENTRY_OVERHEAD + MIN_LEGACY_LENGTH if legacy else BATCH_HEADER_SIZE)
        at = LEGACY_CRC_AT if legacy else CRC_AT
        self.stored: int = int.from_bytes(head.data[at : at + 4], "big")
        self._start = self._at = crc_covers(head.position, head.magic if legacy else MAGIC_V2)
        self._value = 0
        self._castagnoli = not legacy
        self._search = search

    def matches(self, end: int) -> bool:
        """Return whether the CRC of the covered bytes up to `end` equals the crc field."""
        if not self.usable or end < self._start:
            return False
        if 0 <= end - self._at <= STEP:
            self._value = self._search.update_crc(self._castagnoli, self._at, end, self._value)
        else:
            self._value = self._search.crcs.span(self._castagnoli, self._start, end)
        self._at = end
        return self._value == self.stored


def _whole_varint(raw: bytes) -> int | None:
    """Return the number if these bytes are one varint and nothing else."""
    try:
        value, end = core.read_varint(raw)
    except KafkaFormatError:
        return None
    return value if end == len(raw) else None


def header_continues(head: bytes, expected: int) -> bool:
    """Return whether a header can begin with these bytes, and has the expected offset or one within a segment's reach after it."""
    if not header_stands(head, expected):
        return False
    return len(head) < LENGTH_AT or int.from_bytes(head[:LENGTH_AT], "big") - expected <= MAX_RELATIVE_OFFSET


def header_stands(head: bytes, expected: int) -> bool:
    """Return whether a batch or message can begin with these bytes (at most a header's, fewer at the end of a file).

    As far as they reach, they must contain a base offset of at least `expected`, a possible length and a known magic.
    """
    if not head:
        return False
    offset = head[:LENGTH_AT]
    if offset[0] & 0x80 or int.from_bytes(offset.ljust(LENGTH_AT, b"\xff"), "big") < expected:
        return False
    if len(head) < ENTRY_OVERHEAD:
        return True
    length = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True)
    if len(head) < MAGIC_END:
        return length >= MIN_LEGACY_LENGTH
    magic = head[MAGIC_AT]
    if magic > MAGIC_V2 or length < MIN_LENGTHS[magic]:
        return False
    if magic == MAGIC_V2 or len(head) < LEGACY_KEY_AT[magic] + 4:
        return True
    key_at = LEGACY_KEY_AT[magic]
    key_length = int.from_bytes(head[key_at : key_at + 4], "big", signed=True)
    return head[LEGACY_ATTRIBUTES_AT] & 0xF0 == 0 and -1 <= key_length <= length - MIN_LENGTHS[magic]

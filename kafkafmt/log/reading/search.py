"""Find the position at which a segment can be read again after a damaged batch.

There are four candidates for this position. The first candidate that meets its condition is used.

1. The start of a valid batch, if the CRC of the damaged batch matches up to there. In this case,
   only the length field of the damaged batch is wrong. The CRC does not cover this field.
2. The end of the damaged batch according to its length field. It must be followed by a plausible
   header, by zeros up to the end of the file, or by the end of the file. It must not be inside a
   valid batch.
3. The start of the first valid batch in the following bytes that is confirmed by the bytes after it
   (see `Search._confirmed`).
4. The end of the file.

A record value can contain batches, which must not be treated as batches of the log. The search
skips batches that it recognizes as part of a record value or of a wrapper message. Other batches
inside a record value are not confirmed by the bytes after them.
"""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import (
    CODEC_MASK,
    LENGTH_AT,
    MAGIC_V1,
    MAGIC_V2,
)
from ...types import BATCH_DTYPE, BatchSummary, BatchTable, SearchWindow, last_offset
from ..format.file_view import FileView
from .batch_finder import FIRST_WINDOW, LARGEST_WINDOW, BatchFinder, OwnCrc
from .batch_head import Head, header_continues, header_stands, whole_varint

OWN_CRC_FINDS = 64
"""Maximum number of possible end positions at which the CRC of a damaged batch is tested before its
length field is trusted.
"""
LATER_FINDS = 16
"""Maximum number of possible end positions after the first confirmed batch at which the CRC of a
damaged batch is tested.
"""
SPANNING_FINDS = 256
"""Maximum number of valid batches before a position that are checked to find out whether the
position is inside a valid batch.
"""
CHAIN_ROWS = 1 << 14
LONG_CHAIN = 1 << 16
"""Total size of consecutive valid batches, in bytes. If they are larger, they are accepted without
a check of the bytes after them.
"""
MANY_MESSAGES = 1 << 20
"""Upper limit for the number of messages in a wrapper message. A higher offset is therefore not a relative offset."""


class Search(BatchFinder):
    """Finds the position after damage at which a segment can be read again.

    Attributes
    ----------
    among_plain : bool or None
        Whether all valid batches so far were uncompressed messages of format 0 or 1. None if there
        was no valid batch yet.
    """

    def __init__(self, view: FileView) -> None:
        super().__init__(view)
        self.among_plain: bool | None = None
        self._chained = 0

    @cached_property
    def _chain(self) -> BatchTable:
        return np.empty(CHAIN_ROWS, BATCH_DTYPE)

    def note(self, found: BatchSummary) -> None:
        """Record in `among_plain` whether all valid batches so far are uncompressed messages (format 0 or 1)."""
        if self.among_plain is not False:
            self.among_plain = not (found.magics & 1 << MAGIC_V2 or found.codecs & ~1)

    def resume(self, position: int, expected: int) -> tuple[int, bool]:
        """Find the position after the damaged batch at `position` at which reading can resume.

        Return two items: the position at which reading can resume, and whether the CRC of the
        damaged batch matches if the batch ends there.

        `expected` is the lowest offset that the damaged batch can have.
        """
        self._lowest = expected
        if self._to and 0 <= position - self._to < FIRST_WINDOW:
            # After two damaged batches, more damage is probable. Therefore, search many bytes at once.
            self._search_ahead(position + 1)
        if self._from <= position < self._to and (known := self._resume_in_window(position, expected)):
            return known
        bad = Head(position, self.head(position))
        if not any(bad.data) and position >= self.zero_tail():
            return self.view.size, False  # the rest of the file contains only zeros
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
        """Compute the result of `resume` from the bytes in memory. If these bytes are not sufficient, return None."""
        self._first, self._from = self._index_of(position + 1), position + 1
        data, at, found, _, searched_to, size, zero_tail = self._window()
        known: tuple[int, bool] | None = core.resume_after(
            data, found, position, at, searched_to, size, zero_tail, expected
        )
        return known

    def window(self) -> SearchWindow | None:
        """Return the bytes that are in memory after the latest search, and the positions of valid batches in them.

        If nothing has been searched yet, return None.
        """
        return self._window() if self._from < self._to else None

    def _window(self) -> SearchWindow:
        window, found = self._scanned, self._found[self._first : self._n_found]
        return SearchWindow(window.data, window.at, found, self._from, self._to, self.size, self.zero_tail())

    def _is_spanned(self, position: int) -> bool:
        """Return whether `position` is inside a valid batch that begins after the damaged batch."""
        while self._to < min(position, self.size):
            self._scan_on(position)
        end = self._index_of(position)
        near = self._found[max(end - SPANNING_FINDS, self._first) : end].tolist()
        return any(Head(at, self.head(at)).end > position for at in near) and not self.valid(position)

    def _scan(self, bad: Head, own: OwnCrc, expected: int) -> int:
        """Return the position of the first confirmed batch after a damaged batch.

        If there is no confirmed batch, return the file size.
        """
        covered = 0
        for at in self.find(bad.position + 1, self.size):
            if own.matches(at):
                return at
            if at < covered:
                continue
            find = Head(at, self.head(at))
            covered = (
                self._value_end(find)
                or self._covered_end(find, bad, expected)
                or self._inner_messages_end(find, bad, expected)
            )
            if not covered:
                below = find.first_offset < expected and (find.plain_message or bad.continues(expected))
                if not below and self._confirmed(find, bad, expected):
                    return self._end_by_crc(bad, own, find)
                covered = find.end
        return self.view.size

    def _end_by_crc(self, bad: Head, own: OwnCrc, find: Head) -> int:
        """Return the position of the valid batch that directly follows the damaged batch.

        The result is the position of the batch `find`, with one exception. If only a later batch
        has the offset after the damaged batch, and the CRC of the damaged batch matches up to this
        later batch, return the position of the later batch.
        """
        if find.first_offset == bad.next_offset:
            return find.position
        reach = min(find.position + LARGEST_WINDOW, self.size)
        for at in itertools.islice(self.find(find.position + 1, reach), LATER_FINDS):
            if int.from_bytes(self._bytes(at, LENGTH_AT), "big") == bad.next_offset and own.matches(at):
                return at
        return find.position

    def _confirmed(self, find: Head, bad: Head, expected: int) -> bool:
        """Check by the bytes after the valid batch `find` whether it is a batch of the log, or part of a record value.

        A batch inside a record value is not a batch of the log. Usually, a batch is accepted only
        if one of three items follows it: the end of the file (or only zeros up to the end), a
        plausible header with a higher offset, or eight bytes that contain the next offset.

        The conditions are stricter if the damaged batch has the expected offset, but the batch
        `find` does not have the offset after it. In this case, all consecutive valid batches from
        `find` on are read. The bytes after the last of these batches are checked, unless the total
        size of these batches exceeds LONG_CHAIN. If one of these batches has an offset between the
        damaged batch and `find`, the batch `find` is rejected.

        If `find` has the next offset after the damaged batch, it is sufficient that any valid batch
        follows `find`. The offset of this following batch is not checked, because it can be
        corrupted.
        """
        end, next_offset = find.end, find.next_offset
        if bad.continues(expected):
            if find.first_offset == bad.next_offset:
                return self._continued(end, next_offset, find.magic) or self.valid(end)
            ends, last_offset = self._chain_from(find, LARGEST_WINDOW)
            end, next_offset = int(ends[-1]), last_offset + 1
            offsets = self._chain["base_offset"][: self._chained]
            if ((bad.next_offset <= offsets) & (offsets < find.first_offset)).any():
                # Later batches must have higher offsets, so `find` is only a copy of a batch inside the damaged batch.
                return False
            if end - find.position > LONG_CHAIN:
                return True
        return self._continued(end, next_offset, find.magic)

    def _continued(self, end: int, next_offset: int, magic: int) -> bool:
        """Return whether a plausible header, only the next offset, or the end of the log is at the position `end`."""
        if self._log_continues(end, next_offset):
            return True
        offset = self.head(end)[:LENGTH_AT]
        distance = int.from_bytes(offset, "big") - next_offset
        # If a wrapper message follows, its first offset is `next_offset`, but its header contains its last offset.
        reach = 0xFFFF if magic < MAGIC_V2 else 0
        return len(offset) == LENGTH_AT and 0 <= distance <= reach

    def _log_continues(self, position: int, expected: int) -> bool:
        """Return whether a plausible batch header or the end of the log is at the position `position`.

        A header is plausible if its offset is between `expected` and `expected` +
        MAX_RELATIVE_OFFSET. The end of the log is the end of the file, or the start of zeros that
        continue up to the end of the file.
        """
        head = self.head(position)
        return self._ends_at(position) or (len(head) >= LENGTH_AT and header_continues(head, expected))

    def _value_end(self, find: Head) -> int:
        """If a record value begins with the valid batch `find`, return the end of the value. Otherwise, return 0.

        A record value can consist of valid batches. In this case, the bytes before the value
        contain its length, which is the total size of these batches.

        In format 2, the length is a varint, so other bytes can look like a matching length by
        chance. Therefore, the record value is rejected if the file ends after the value, or if a
        header that continues the log follows the value. At least a header count follows each real
        record value. The header count can be zero, so zeros after the value are accepted.

        In formats 0 and 1, the length has four bytes. A match by chance is as unlikely as for a
        CRC.
        """
        reach = min(5, find.position)
        before = self._bytes(find.position - reach, reach)
        lengths = {n for k in range(1, reach + 1) if (n := whole_varint(before[-k:])) is not None}
        legacy = int.from_bytes(before[-4:], "big") if reach >= 4 else 0
        longest = max(legacy, *lengths, 0)
        if longest < find.end - find.position:
            return 0
        ends, last_offset = self._chain_from(find, longest)
        sizes = ends - find.position
        if (sizes == legacy).any():
            return find.position + legacy
        end = int(ends[-1])
        head = self.head(end)
        continued = end == self.size or (len(head) >= LENGTH_AT and header_continues(head, last_offset + 1))
        if int(sizes[-1]) in lengths and not continued:
            return end
        return 0

    def _covered_end(self, find: Head, bad: Head, expected: int) -> int:
        """If the damaged batch contains the valid batch `find`, return the end of all batches in it, otherwise 0.

        The header of the damaged batch contains an offset range. No batch after the damaged batch
        can have an offset in this range. Therefore, a valid batch with such an offset is inside the
        damaged batch. The header is trusted only if its first offset is `expected` and its fields
        are consistent.
        """
        if bad.continues(expected) and expected <= find.first_offset <= bad.last_offset:
            ends, _ = self._chain_from(find, LARGEST_WINDOW)
            following = self._chain["base_offset"][: self._chained] >= bad.next_offset
            if (
                bad.magic < MAGIC_V2 and following.any()
            ):  # a message ends with its value, so the next batch directly follows the value
                return int(ends[max(int(np.argmax(following)) - 1, 0)])
            return int(ends[-1])
        return 0

    def _inner_messages_end(self, find: Head, bad: Head, expected: int) -> int:
        """Return the end of the inner messages from `find` on in a damaged wrapper message, or 0 if there are none.

        The data of a wrapper message can contain its inner messages in uncompressed form, although
        a codec is used. In format 1, inner messages are recognized by their offsets, which start at
        0. In format 0, inner messages have absolute offsets, so they cannot be distinguished from
        other messages.
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
        """Return the end of a sequence of uncompressed messages with consecutive offsets.

        The message at the start of the sequence is `find`. All offsets in the sequence are at most
        `highest`.
        """
        self._chain_from(find, LARGEST_WINDOW)
        rows = self._chain[: self._chained]
        other = (rows["magic"] == MAGIC_V2) | ((rows["attributes"] & CODEC_MASK) != 0) | (rows["base_offset"] > highest)
        other[1:] |= np.diff(rows["base_offset"]) != 1
        rows = rows[: int(np.argmax(other))] if other.any() else rows
        return int(rows["position"][-1]) + int(rows["size"][-1]) + self._looked.at if len(rows) else find.end

    def _chain_from(self, find: Head, reach: int) -> tuple[npt.NDArray[np.int64], int]:
        """Return the end positions and the last offset of the consecutive valid batches that begin with `find`.

        At first, FIRST_WINDOW bytes are read. If further batches follow these bytes, LARGEST_WINDOW
        bytes are read. The result need not contain batches that begin more than `reach` bytes after
        the start of `find`.
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
        if not len(rows):  # the first batch is larger than the bytes that were read
            return np.array([find.end]), find.last_offset
        ends = rows["position"].astype(np.int64) + rows["size"] + window.at
        return ends, last_offset(rows[-1])

    def _ends_at(self, position: int) -> bool:
        """Return whether the file ends at `position`, or contains only zeros from there on.

        At least eight zero bytes are required, because fewer zeros can be the end of a record.
        """
        return position == self.size or (position + LENGTH_AT <= self.size and position >= self.zero_tail())

    def _header_or_end(self, position: int, expected: int) -> bool:
        """Return whether a plausible header or the end of the segment's data is at the position `position`."""
        if position >= self.size:
            return position == self.size
        head = self.head(position)
        return (
            header_continues(head, expected)
            or self._ends_at(position)
            or (header_stands(head, expected) and self.valid(position))
        )

"""Find the position at which a segment can be read again after a damaged batch.

There are four candidates for this position. The first candidate that meets its condition is used.

1. The start of a valid batch or the end of the file, if the CRC of the damaged batch matches up to
   there. In this case, only the length field of the damaged batch is wrong. The CRC does not cover
   this field.
2. The end of the damaged batch according to its length field. It must be followed by a plausible
   header, by zeros up to the end of the file, or by the end of the file. It must not be inside a
   valid batch.
3. The start of the first valid batch in the following bytes that is confirmed by the bytes after it
   (see `Search._unconfirmed_end`).
4. The end of the file. This is also used if the end of the file cuts off the damaged batch (see
   `Search.is_cut_off`).

A record value can contain batches, which must not be treated as batches of the log. The search
skips batches that it recognizes as part of a record value or of a wrapper message. Other batches
inside a record value are not confirmed by the bytes after them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ..._backend import core
from ...constants import LENGTH_AT, MAGIC_V2, MAX_OFFSET
from ...types import SearchWindow
from ..scanning import Head, header_continues, header_stands, offset_in_reach
from ..storage import FileView
from .batch_finder import FIRST_WINDOW, LARGEST_WINDOW, OwnCrc
from .embedded import LONG_CHAIN, EmbeddedBatches

OWN_CRC_FINDS = 64
"""Maximum number of possible end positions at which the CRC of a damaged batch is tested before its
length field is trusted.
"""
LATER_FINDS = 16
"""Maximum number of possible end positions after the first confirmed batch at which the CRC of a
damaged batch is tested. One of them can be the end of the file.
"""
SPANNING_FINDS = 256
"""Maximum number of valid batches before a position that are checked to find out whether the
position is inside a valid batch.
"""


class Search(EmbeddedBatches):
    """Finds the position after damage at which a segment can be read again."""

    def __init__(self, view: FileView, first_offset_at: Callable[[int], int]) -> None:
        super().__init__(view, first_offset_at)
        self._last_bytes: bytes = b""
        """The last LARGEST_WINDOW bytes of the file. Empty before they are needed."""

    def resume(self, position: int, expected: int) -> tuple[int, bool]:
        """Find the position after the damaged batch at `position` at which reading can resume.

        Return the position at which reading can resume. Also return whether the bytes up to that
        position match the CRC of the damaged batch.

        `expected` is the lowest offset that the damaged batch can have.
        """
        expected = min(expected, MAX_OFFSET)  # a larger number would not fit into the core's int64 argument
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
        if own.matches(end):
            return end, True
        return self.size if end < self.size and self._is_found_inside(bad, end, expected) else end, False

    def _is_found_inside(self, bad: Head, found: int, expected: int) -> bool:
        """Return whether the file ends inside the damaged batch `bad`, so that the valid batch at `found` is in it."""
        if not header_continues(bad.data, expected) or self.size - bad.position > LARGEST_WINDOW:
            return False
        return Head(found, self.head(found)).first_offset != bad.next_offset and bool(self.is_cut_off(bad))

    def is_cut_off(self, bad: Head) -> bool | None:
        """Return whether the file ends inside the damaged batch `bad`, according to `core.is_cut_off`.

        Return None if this depends on more than LARGEST_WINDOW bytes.
        """
        start = max(0, self.size - LARGEST_WINDOW)
        if bad.position < start:
            start, data = bad.position, self._bytes(bad.position, LARGEST_WINDOW)
        else:
            data = self._last_bytes = self._last_bytes or self._bytes(start, self.size - start)
        return core.is_cut_off(data, bad.position - start, bad.end - start, self.size - start)

    def _resume_in_window(self, position: int, expected: int) -> tuple[int, bool] | None:
        """Compute the result of `resume` from the bytes in memory. If these bytes are not sufficient, return None."""
        self._first, self._from = self._index_of(position + 1), position + 1
        data, at, found, _, searched_to, size, zero_tail, magics, _ = self._window()
        plain = self.among_plain if magics else None
        known: tuple[int, bool] | None = core.resume_after(
            data, found, position, at, searched_to, size, zero_tail, expected, plain
        )
        return known

    def window(self) -> SearchWindow | None:
        """Return the bytes that are in memory after the latest search, and the positions of valid batches in them.

        If nothing has been searched yet, return None.
        """
        return self._window() if self._from < self._to else None

    def _window(self) -> SearchWindow:
        window, found = self._scanned, self._found[self._first : self._n_found]
        return SearchWindow(
            window.data,
            window.at,
            found,
            self._from,
            self._to,
            self.size,
            self.zero_tail(),
            self._magics,
            self._codecs,
        )

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
        covered = self._after_inner = 0
        undecided = bad.position + 1
        for at in self.find(bad.position + 1, self.size):
            if at < undecided:
                continue
            undecided, covered = self._rejected_in_window(bad, own, expected, at, covered)
            if at < undecided:
                continue
            if own.matches(at):
                return at
            if at < covered:
                continue
            find = Head(at, self.head(at))
            covered = (
                self.value_end(find)
                or self._covered_end(find, bad, expected)
                or self._inner_messages_end(find, bad, expected)
            )
            if not covered:
                below = find.first_offset < expected and (find.plain_message or bad.continues(expected))
                covered = find.end if below else self._unconfirmed_end(find, bad, expected)
                if not covered:
                    return self._end_by_crc(bad, own, find, expected)
        return self.view.size

    def _rejected_in_window(self, bad: Head, own: OwnCrc, expected: int, at: int, covered: int) -> tuple[int, int]:
        """Reject valid batches from `at` on that do not belong to the log. Only the bytes in memory are checked.

        Return the position of the first valid batch that is not rejected, and the position up to which
        valid batches are inside rejected batches.
        """
        data, origin, found, _, searched_to, size, zero_tail, magics, _ = self._window()
        state = np.array([at, covered, self._after_inner, own.at, own.crc], np.int64)
        plain = self.among_plain if magics else None
        core.reject_candidates(
            data, found, bad.data, state, bad.position, origin, searched_to, size, zero_tail, expected, plain
        )
        undecided, covered, self._after_inner, own.at, own.crc = state.tolist()
        return undecided, covered

    def _end_by_crc(self, bad: Head, own: OwnCrc, find: Head, expected: int) -> int:
        """Return the position of the valid batch that directly follows the damaged batch.

        Usually, the result is the position of the valid batch `find`. If only the length field of the
        damaged batch is wrong, `find` can be part of a value. Therefore, the CRC of the damaged batch is
        also tested at the starts of later valid batches, and at the end of the file. If it matches there,
        the result is that position. The CRC is not tested if the header of the damaged batch is
        destroyed.
        """
        if not offset_in_reach(bad.first_offset, expected):
            return find.position
        reach = min(find.position + LARGEST_WINDOW, self.size)
        ends = itertools.chain(self._later(find.position + 1, reach), [self.size] if reach == self.size else [])
        for at in itertools.islice(ends, LATER_FINDS):
            if own.matches(at):
                return at
        return find.position

    def _unconfirmed_end(self, find: Head, bad: Head, expected: int) -> int:
        """Check whether the valid batch `find` is a batch of the log, or part of a record value.

        Return 0 if it is a batch of the log. Otherwise, return the end of the valid batches that
        can be part of a record value.

        Usually, a batch is accepted only if one of three items follows it: the end of the file (or
        only zeros up to the end), a plausible header with a higher offset, or eight bytes that
        contain the next offset.

        The conditions are stricter if the damaged batch has the expected offset, but the batch
        `find` does not have the offset after it. In this case, all consecutive valid batches from
        `find` on are read. The bytes after the last of these batches are checked, unless the total
        size of these batches exceeds LONG_CHAIN. If one of these batches has an offset between the
        damaged batch and `find`, the batch `find` is rejected. If these batches are not followed by
        one of the three items, `_continued_later` decides.

        If `find` has the next offset after the damaged batch, or is a complete copy of the damaged
        batch, it is sufficient that any valid batch follows `find`. The offset of this following batch
        is not checked, because it can be corrupted.
        """
        if not bad.continues(expected):
            return 0 if self._continued(find.end, find.next_offset, find.magic) else find.end
        if find.first_offset == bad.next_offset or find.repeats(bad):
            return 0 if self._continued(find.end, find.next_offset, find.magic) or self.valid(find.end) else find.end
        ends, last = self._chain_from(find, LARGEST_WINDOW)
        end, offsets = int(ends[-1]), self._chain["base_offset"][: self._chained]
        if ((bad.next_offset <= offsets) & (offsets < find.first_offset)).any():
            # A batch after `find` has a lower offset than `find`. Therefore, `find` is part of a record value.
            return find.end
        if end - find.position > LONG_CHAIN or self._continued(end, last + 1, find.magic):
            return 0
        if not (np.diff(offsets) > 0).all():
            return find.end
        return end

    def _continued(self, end: int, next_offset: int, magic: int) -> bool:
        """Return whether the log ends at `end`, or a plausible batch header or the next offset begins at `end`."""
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

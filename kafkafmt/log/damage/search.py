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
4. The end of the file. This is also used if the file ends inside the damaged batch according to its
   length field.

A record value can contain batches, and compressed data can contain the inner messages of a wrapper
message in uncompressed form. These must not be treated as batches of the log. Where this cannot be
decided, the bytes are damage: `unconfirmed` accepts some of these batches when the whole segment is
known.
"""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    LEGACY_KEY_AT,
    LENGTH_AT,
    MAGIC_V1,
    MAGIC_V2,
    MAX_OFFSET,
    MIN_RECORD_SIZE,
)
from ...errors import StructureError, TruncatedError
from ...types import BATCH_DTYPE, BatchSummary, BatchTable, IntArray, last_offset
from ..scanning import Head, header_continues, header_stands, offset_in_reach, whole_varint
from ..storage import FileView
from .batch_finder import FIRST_WINDOW, LARGEST_WINDOW, BatchFinder, OwnCrc

CHAIN_ROWS = 1 << 15
LONG_CHAIN = 1 << 16
"""Total size of adjacent valid batches, in bytes. If they are larger, they are accepted without a
check of the bytes after them.
"""
MANY_MESSAGES = 1 << 20
"""Upper limit for the number of messages in a wrapper message. A higher offset is therefore not a relative offset."""
OWN_CRC_FINDS = 64
"""Maximum number of possible end positions at which the CRC of a damaged batch is tested before its
length field is trusted.
"""
MOST_CHECKED_RECORDS = 1 << 14
"""Maximum number of records whose lengths are read to find out whether the file ends inside a batch."""
LATER_FINDS = 16
"""Maximum number of possible end positions after the first confirmed batch at which the CRC of a
damaged batch is tested. One of them can be the end of the file.
"""
SPANNING_FINDS = 256
"""Maximum number of valid batches before a position that are checked to find out whether the
position is inside a valid batch.
"""


class Search(BatchFinder):
    """Finds the position after damage at which a segment can be read again."""

    def __init__(self, view: FileView) -> None:
        super().__init__(view)
        self.restart()

    def restart(self) -> None:
        """Forget the valid batches so far, because the segment is read again from its start."""
        self._magics = self._codecs = 0

    def note(self, found: BatchSummary) -> None:
        """Record the formats and codecs of valid batches."""
        self._magics |= found.magics
        self._codecs |= found.codecs

    @property
    def among_plain(self) -> bool:
        """Whether there are valid batches so far, all of them are uncompressed, and some have format 0 or 1."""
        return bool(self._magics & ~(1 << MAGIC_V2)) and not self._codecs & ~1

    def resume(self, position: int, expected: int) -> tuple[int, bool]:
        """Find the position after the damaged batch at `position` at which reading can resume.

        Return the position at which reading can resume. Also return whether the bytes up to that
        position match the CRC of the damaged batch.

        `expected` is the lowest offset that the damaged batch can have.
        """
        expected = min(expected, MAX_OFFSET)  # a larger number would not fit into the core's int64 argument
        self._lowest = expected
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
        end = self._confirmed(bad, own, expected)
        if own.matches(end):
            return end, True
        return self.size if end < self.size and self._is_found_inside(bad, end, expected) else end, False

    def _is_found_inside(self, bad: Head, found: int, expected: int) -> bool:
        """Return whether the file ends inside the damaged batch `bad`, so that the valid batch at `found` is in it."""
        if not header_continues(bad.data, expected) or self.size - bad.position > LARGEST_WINDOW:
            return False
        return Head(found, self.head(found)).first_offset != bad.next_offset and self.is_cut_off(bad)

    def is_cut_off(self, bad: Head) -> bool:
        """Return whether the file ends inside the damaged batch `bad`, according to all lengths in the batch.

        The length field of the batch can be corrupted. Therefore, the value of a message must end
        where the message ends, and the lengths of uncompressed records must lead to the end of the file.
        """
        if bad.end <= self.size or len(bad.data) < BATCH_HEADER_SIZE or bad.magic > MAGIC_V2:
            return False
        if bad.magic < MAGIC_V2:
            key_at = LEGACY_KEY_AT[bad.magic]
            value_at = (
                bad.position + key_at + 4 + max(int.from_bytes(bad.data[key_at : key_at + 4], "big", signed=True), 0)
            )
            head = self._bytes(value_at, 4)
            return len(head) == 4 and value_at + 4 + int.from_bytes(head, "big", signed=True) == bad.end
        if bad.attributes & CODEC_MASK or not 0 < bad.count <= MOST_CHECKED_RECORDS:
            return False
        at = bad.position + BATCH_HEADER_SIZE
        for left in range(bad.count - 1, -1, -1):
            try:
                length, used = core.read_varint(self._bytes(at, min(5, self.size - at)))
            except TruncatedError:
                return True
            except StructureError:
                return False
            at += used + length
            if length < MIN_RECORD_SIZE - 1 or at > bad.end - left * MIN_RECORD_SIZE or (not left and at != bad.end):
                return False
            if at >= self.size:
                return True
        return False

    def _is_spanned(self, position: int) -> bool:
        """Return whether `position` is inside a valid batch that begins after the damaged batch."""
        while self._to < min(position, self.size):
            self._scan_on(position)
        end = self._index_of(position)
        near = self._found[max(end - SPANNING_FINDS, self._first) : end].tolist()
        return any(Head(at, self.head(at)).end > position for at in near) and not self.valid(position)

    def _confirmed(self, bad: Head, own: OwnCrc, expected: int) -> int:
        """Return the position of the first confirmed batch after a damaged batch, or the file size."""
        rejected = bad.position
        for at in self.find(bad.position + 1, self.size):
            if own.matches(at):
                return at
            if at < rejected:
                continue
            find = Head(at, self.head(at))
            rejected = (
                self.value_end(find)
                or self._covered_end(find, bad, expected)
                or self._inner_messages_end(find, bad, expected)
            )
            if not rejected:
                below = at < bad.end and find.first_offset < expected and bad.continues(expected)
                rejected = find.end if below else self._unconfirmed_end(find, bad, expected)
                if not rejected:
                    return self._end_by_crc(bad, own, find, expected)
        return self.view.size

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

    def value_end(self, find: Head) -> int:
        """If a record value begins with the valid batch `find`, return the end of the value. Otherwise, return 0.

        A record value can consist of valid batches. In this case, the bytes before the value
        contain its length, which is the total size of these batches.

        In format 2, the length is a varint, so other bytes can look like a matching length by
        chance. A real record value is followed by at least the header count of its record.
        Therefore, the record value is rejected if the file ends after the value, or if a plausible
        batch header follows the value. Zeros after the value are accepted, because the header count
        can be zero.

        In formats 0 and 1, the length has four bytes. A match by chance is as unlikely as for a
        CRC.
        """
        reach = min(5, find.position)
        before = self._bytes(find.position - reach, reach)
        lengths = {n for k in range(1, reach + 1) if (n := whole_varint(before[-k:])) is not None}
        legacy = int.from_bytes(before[-4:], "big") if reach >= 4 else 0
        size = find.end - find.position
        if not any(size <= n <= max(LARGEST_WINDOW, size) for n in (legacy, *lengths)):
            return 0  # at most LARGEST_WINDOW bytes of adjacent batches are read
        ends, last, _ = self._chain_from(find, max(legacy, *lengths, 0))
        sizes = ends - find.position
        if (sizes == legacy).any():
            return find.position + legacy
        end = int(ends[-1])
        head = self.head(end)
        continued = end == self.size or (len(head) >= LENGTH_AT and header_continues(head, last + 1))
        if int(sizes[-1]) in lengths and not continued:
            return end
        return 0

    def _covered_end(self, find: Head, bad: Head, expected: int) -> int:
        """Return the end of the valid batches that are inside the damaged batch and begin with the batch `find`.

        If the batch `find` is not inside the damaged batch, return 0.

        The header of the damaged batch contains an offset range. No batch after the damaged batch
        can have an offset in this range. Therefore, a valid batch with such an offset is inside the
        damaged batch. The header is trusted only if its fields are consistent, and one segment can
        contain its first offset and `expected`. In a compacted log, offsets can be missing before it.
        The offset of a wrapper message is its last one, so it is trusted only if it is `expected`.
        If the damaged batch is incomplete, a complete copy of it can follow.
        """
        if find.repeats(bad):
            return 0
        reachable = bad.dense and not bad.message_codec and offset_in_reach(bad.first_offset, expected)
        if (reachable or bad.continues(expected)) and bad.first_offset <= find.first_offset <= bad.last_offset:
            ends, _, rows = self._chain_from(find, LARGEST_WINDOW)
            following = rows["base_offset"] >= bad.next_offset
            if bad.magic < MAGIC_V2 and following.any():
                # A message ends with its value, so the next batch directly follows the value.
                return int(ends[max(int(np.argmax(following)) - 1, 0)])
            return int(ends[-1])
        return 0

    def _inner_messages_end(self, find: Head, bad: Head, expected: int) -> int:
        """If the message `find` can be an inner message of a damaged wrapper message, return the end of these messages.

        Otherwise, return 0. The inner messages of format 1 have relative offsets, which start at 0. If
        there are wrapper messages in the segment, other messages with a low offset cannot be
        distinguished from them. More than LONG_CHAIN bytes of adjacent messages are not inner messages,
        because no codec stores so many bytes uncompressed in one block.
        """
        if not find.plain_message or find.magic != MAGIC_V1 or find.first_offset > MANY_MESSAGES:
            return 0
        if bad.continues(expected) and (bad.magic == MAGIC_V2 or bad.plain_message):
            return 0
        plain = self.among_plain and not bad.wrapper
        if plain and not find.first_offset == 0 < expected:
            return 0
        ends, _, rows = self._chain_from(find, LARGEST_WINDOW)
        offsets = rows["base_offset"].astype(np.int64)
        inner = (rows["magic"] == MAGIC_V1) & (rows["attributes"] & CODEC_MASK == 0) & (offsets <= MANY_MESSAGES)
        inner[1:] &= np.diff(offsets) == 1 if plain else np.diff(offsets) > 0
        end = int(ends[len(ends) - 1 if inner.all() else int(np.argmin(inner)) - 1])
        return end if plain or end - find.position <= LONG_CHAIN else 0

    def _unconfirmed_end(self, find: Head, bad: Head, expected: int) -> int:
        """Check whether the valid batch `find` is a batch of the log, or part of a record value.

        Return 0 if it is a batch of the log. Otherwise, return the end of the valid batches that
        can be part of a record value.

        Usually, a batch is accepted only if one of three items follows it: the end of the file (or
        only zeros up to the end), a plausible header with a higher offset, or eight bytes that
        contain the next offset.

        The conditions are stricter if the damaged batch has the expected offset, but the batch
        `find` does not have the offset after it. In this case, all adjacent valid batches from
        `find` on are read. The bytes after the last of these batches are checked, unless the total
        size of these batches exceeds LONG_CHAIN. If one of these batches has an offset between the
        damaged batch and `find`, the batch `find` is rejected.

        If `find` has the next offset after the damaged batch, or is a complete copy of the damaged
        batch, it is sufficient that any valid batch follows `find`. The offset of this following batch
        is not checked, because it can be corrupted.
        """
        if not bad.continues(expected):
            return 0 if self._continued(find.end, find.next_offset, find.magic) else find.end
        if find.first_offset == bad.next_offset or find.repeats(bad):
            return 0 if self._continued(find.end, find.next_offset, find.magic) or self.valid(find.end) else find.end
        ends, last, rows = self._chain_from(find, LARGEST_WINDOW)
        end, offsets = int(ends[-1]), rows["base_offset"]
        if ((bad.next_offset <= offsets) & (offsets < find.first_offset)).any():
            return find.end
        if end - find.position > LONG_CHAIN or self._continued(end, last + 1, find.magic):
            return 0
        return end if (np.diff(offsets) > 0).all() else find.end

    def _continued(self, end: int, next_offset: int, magic: int) -> bool:
        """Return whether the log ends at `end`, or a plausible batch header or the next offset begins at `end`."""
        head = self.head(end)
        if self._ends_at(end) or (len(head) >= LENGTH_AT and header_continues(head, next_offset)):
            return True
        distance = int.from_bytes(head[:LENGTH_AT], "big") - next_offset
        # If a wrapper message follows, its first offset is `next_offset`, but its header contains its last offset.
        reach = 0xFFFF if magic < MAGIC_V2 else 0
        return len(head) >= LENGTH_AT and 0 <= distance <= reach

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

    def _ends_at(self, position: int) -> bool:
        """Return whether the file ends at `position`, or contains only zeros from there on.

        At least eight zero bytes are required, because fewer zeros can be the end of a record.
        """
        return position == self.size or (position + LENGTH_AT <= self.size and position >= self.zero_tail())

    @cached_property
    def _chain(self) -> BatchTable:
        return np.empty(CHAIN_ROWS, BATCH_DTYPE)

    def _chain_from(self, find: Head, reach: int) -> tuple[IntArray, int, BatchTable]:
        """Return the ends, the last offset and the headers of the adjacent valid batches that begin with `find`.

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
        rows = self._chain[: scan.count]
        if not len(rows):  # the first batch is larger than the bytes that were read
            alone = np.zeros(1, BATCH_DTYPE)
            alone["base_offset"], alone["magic"] = find.first_offset, find.magic
            return np.array([find.end]), find.last_offset, alone
        return rows["position"].astype(np.int64) + rows["size"] + window.at, last_offset(rows[-1]), rows

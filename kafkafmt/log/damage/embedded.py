"""Recognize valid batches that are part of a record value or of a wrapper message.

A record value can contain batches, and compressed data can contain the inner messages of a wrapper
message in uncompressed form. After damage, the search finds such batches too. They are not batches
of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...constants import CODEC_MASK, ENTRY_OVERHEAD, LENGTH_AT, MAGIC_V1, MAGIC_V2, MAX_OFFSET, MIN_LENGTHS
from ...types import BATCH_DTYPE, BatchSummary, BatchTable, IntArray, last_offset
from ..scanning import Head, header_continues, offset_in_reach, whole_varint
from ..storage import FileView
from .batch_finder import FIRST_WINDOW, LARGEST_WINDOW, BatchFinder

CHAIN_ROWS = 1 << 14
LONG_CHAIN = 1 << 16
"""Total size of consecutive valid batches, in bytes. If they are larger, they are accepted without
a check of the bytes after them.
"""
MANY_MESSAGES = 1 << 20
"""Upper limit for the number of messages in a wrapper message. A higher offset is therefore not a relative offset."""
SMALLEST_MESSAGE = ENTRY_OVERHEAD + MIN_LENGTHS[MAGIC_V1]


class EmbeddedBatches(BatchFinder):
    """Recognizes valid batches that are part of a record value or of a wrapper message.

    Parameters
    ----------
    view : FileView
        The open file.
    first_offset_at : callable
        Returns the first offset of the valid batch at a file position.
    """

    def __init__(self, view: FileView, first_offset_at: Callable[[int], int]) -> None:
        super().__init__(view)
        self._first_offset_at = first_offset_at
        self._chained = 0
        self._after_inner = 0
        """Offset after the inner messages that were recognized last in the same damaged bytes."""
        self.restart()

    def restart(self) -> None:
        """Forget the valid batches so far, because the segment is read again from its start."""
        self._magics = self._codecs = 0
        self._wrapped = False
        """Whether the damage contains a wrapper message."""

    @cached_property
    def _chain(self) -> BatchTable:
        return np.empty(CHAIN_ROWS, BATCH_DTYPE)

    def note(self, found: BatchSummary) -> None:
        """Record the formats and codecs of valid batches."""
        self._magics |= found.magics
        self._codecs |= found.codecs

    @property
    def among_plain(self) -> bool | None:
        """Whether all valid batches so far were uncompressed, and some of them were messages of format 0 or 1.

        None if there was no valid batch yet, and the damage contains no wrapper message.
        """
        if self._magics:
            return bool(self._magics & ~(1 << MAGIC_V2)) and not self._codecs & ~1
        return False if self._wrapped else None

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
            return 0  # at most LARGEST_WINDOW bytes of consecutive batches are read
        ends, last_offset = self._chain_from(find, max(legacy, *lengths, 0))
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
            ends, _ = self._chain_from(find, LARGEST_WINDOW)
            following = self._chain["base_offset"][: self._chained] >= bad.next_offset
            if (
                bad.magic < MAGIC_V2 and following.any()
            ):  # a message ends with its value, so the next batch directly follows the value
                return int(ends[max(int(np.argmax(following)) - 1, 0)])
            return int(ends[-1])
        return 0

    def _inner_messages_end(self, find: Head, bad: Head, expected: int) -> int:
        """Return the end of the inner messages that begin with the message `find` in a damaged wrapper message.

        If `find` is not an inner message of a damaged wrapper message, return 0.

        The data of a wrapper message can contain its inner messages in uncompressed form, although
        a codec is used. In format 1, inner messages have relative offsets, which start at 0. In
        format 0, inner messages have absolute offsets, so they cannot be distinguished from other
        messages.

        If the header of the wrapper message is intact, it limits the relative offsets. The messages
        are divided into sequences with consecutive offsets. A sequence consists of inner messages
        in these cases:

        - Its offsets are possible relative offsets in the wrapper message with the intact header.
        - Its first offset is lower than `expected`. If there were only uncompressed messages so
          far, its first offset must be 0, because lower offsets can also be repeated messages.
        - There are other batches before or after the sequences, and the offset of the next sequence
          is high enough for a wrapper message between `expected` and that offset.
        - It is the last sequence, and `_absolute` does not confirm that its offsets are absolute.
        """
        if not find.plain_message or find.magic != MAGIC_V1 or find.first_offset > MANY_MESSAGES:
            return 0
        if bad.continues(expected) and (bad.magic == MAGIC_V2 or bad.plain_message):
            return 0
        self._wrapped |= bad.wrapper or find.first_offset < max(expected, self._after_inner)
        plain, highest = self.among_plain, -1
        if plain and not bad.wrapper and 0 < find.first_offset < expected:
            return 0
        ends, offsets = self._plain_messages(find)
        if bad.wrapper:
            known = expected <= bad.first_offset <= expected + MANY_MESSAGES
            highest = bad.first_offset - expected if known else MANY_MESSAGES
        begins = np.flatnonzero((np.diff(offsets, prepend=-2) != 1) | (offsets == highest + 1))
        first, ends = offsets[begins], ends[np.append(begins[1:], len(ends)) - 1]
        inner = (first <= highest) | ((first == 0) & (expected > 0) if plain else first < expected)
        following = Head(end, self.head(end)) if self.valid(end := int(ends[-1])) else None
        if plain is False or (plain and following is not None and not following.plain_message):
            inner[:-1] |= first[:-1] <= first[1:] - expected
        if not inner[-1]:
            # At the start of a segment, the gaps between sequences can result from compaction.
            i = int(np.argmin(inner)) if plain is None else len(first) - 1
            if not self._absolute(find, bad, offsets[begins[i] :], following, end, expected):
                inner[i:] = True
        count = len(inner) if inner.all() else int(np.argmin(inner))
        if not count:
            return 0
        self._after_inner = min(int(offsets[begins[count] - 1 if count < len(begins) else -1]) + 1, MAX_OFFSET)
        return int(ends[count - 1])

    def _absolute(
        self, find: Head, bad: Head, offsets: IntArray, following: Head | None, end: int, expected: int
    ) -> bool:
        """Return whether the offsets of uncompressed messages of format 1 are absolute, and not relative.

        The messages with `offsets` are the last ones of the consecutive messages from `find` on,
        and end at the file position `end`. If a valid batch begins there, `following` is its header.
        The damaged batch `bad` can be a wrapper message that contains the messages.
        """
        plain, size, damaged = self.among_plain, end - find.position, find.position - bad.position
        # If no offset is missing, the damaged bytes do not contain messages of the log.
        missing = int(offsets[0]) > expected
        if self._ends_at(end):
            if size > LONG_CHAIN or (plain and not self._after_inner):
                return True  # compressed data does not end with so many uncompressed bytes
            if plain is False:
                return False
            first_in_file = plain is None and damaged < 2 * SMALLEST_MESSAGE
            return first_in_file or (missing and len(offsets) > 1 and damaged <= size)
        if following is not None:
            if following.plain_message and following.magic == MAGIC_V1 and following.first_offset > offsets[-1]:
                return True  # there are more messages than were read
            # If the messages come from a wrapper message, their offsets are relative. The offset after
            # the wrapper message then continues theirs only if its first message has offset 0.
            after = self._first_offset_at(end) == int(offsets[-1]) + 1
            return after or int(offsets[0]) > following.first_offset - expected
        return plain is True and (missing or size > LONG_CHAIN)

    def _plain_messages(self, find: Head) -> tuple[IntArray, IntArray]:
        """Return the ends and the offsets of the consecutive uncompressed messages of format 1 from `find` on.

        The result ends before the first message whose offset is not higher than the offset before
        it.
        """
        ends, _ = self._chain_from(find, LARGEST_WINDOW)
        if not self._chained:
            return ends, np.array([find.first_offset])
        rows = self._chain[: self._chained]
        offsets = rows["base_offset"].astype(np.int64)
        other = (rows["magic"] != MAGIC_V1) | ((rows["attributes"] & CODEC_MASK) != 0)
        other[1:] |= offsets[1:] <= offsets[:-1]
        count = int(np.argmax(other)) if other.any() else len(rows)
        return ends[:count], offsets[:count]

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

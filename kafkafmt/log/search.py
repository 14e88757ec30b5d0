"""Going on behind damage: where the next sound batch of a segment lies.

By the damaged batch's length where another header or the end of the file stands there, unless its CRC holds up to a
sound batch elsewhere: then the length was hurt. Else by a search for batches whose CRC holds. Of several finds that one
up to which the damaged batch's own CRC holds, else the first that is followed by another header or the end, since a
record's value may itself hold a batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from .._backend import core
from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CRC_AT,
    CRC_START,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_KEY_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V2,
    MIN_LEGACY_LENGTH,
    MIN_LENGTHS,
)
from ..errors import KafkaFormatError
from .files import FileView

SEARCH_STEP = 1 << 20
OWN_CRC_REACH = 16 << 20
"""How far behind the first good find a batch whose length was hurt is still looked for the end that its CRC confirms."""

VALUE_BATCHES = 64


class Search:
    """Looks for batches in an open segment. among_plain: what was sound so far was messages of formats 0 and 1, all of them plain."""

    def __init__(self, view: FileView) -> None:
        self.view = view
        self.size = view.size
        self.among_plain = False

    def resume(self, position: int, expected: int) -> tuple[int, bool]:
        """Where reading goes on behind the bad batch at `position`, and whether that batch's own CRC holds up to there."""
        head = self.view.read(position, BATCH_HEADER_SIZE)
        crc = OwnCrc(self.view, position, head)
        by_length = None
        if len(head) >= MAGIC_END and header_stands(head, expected):
            claimed = position + ENTRY_OVERHEAD + int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True)
            by_length = claimed if self.header_at(claimed, expected, or_end=True) else None
        confirmed = by_length is not None and (by_length == self.size or self.sound(by_length))
        finds: list[_Find] = []
        followed, value_end, covered = None, 0, 0
        for at in self.find(position + 1, by_length if by_length is not None and confirmed else self.size):
            if crc.usable and crc.holds(at):
                return at, True
            find = _Find(at, self.view.read(at, BATCH_HEADER_SIZE))
            if by_length is not None and not confirmed and at < by_length < find.end:
                by_length = None  # a sound batch lies across what the length claims to be the end
            value_end = max(value_end, self._value_end(find))
            if followed is None and at >= max(value_end, covered):
                finds.append(find)
                below = find.plain_message and find.first_offset < expected  # as inside a wrapper, which counts from 0
                if not below and self.header_at(find.end, expected, or_end=True):
                    followed = find
            covered = max(covered, find.end)  # what lies inside a sound batch is its own
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
        else at the first, else nowhere before the end. Finds that are a record's value count for nothing.

        A find that nothing follows may still be an intact batch between two damaged ones: it is taken before all that
        where its offsets fit what is around it.
        """
        for find in finds:
            if find is followed and by_length is None:
                return find.position
            if find.plain_message and not self.among_plain and not (followed is not None and followed.plain_message):
                continue  # compression leaves many an inner message as it was; only beside plain ones it is one itself
            if find.first_offset >= expected and (followed is None or find is followed or find.last_offset < followed.first_offset):
                return find.position
        if by_length is not None:
            return by_length
        return next((f.position for f in finds if not f.plain_message), self.size)

    def _value_end(self, find: _Find) -> int:
        """Where the value ends that just this batch is, or it and sound ones right behind it, by its length before it; else 0.

        That is a varint, behind whose value comes the rest of the record, at least its count of headers: no sound batch. Or, in a
        message of format 0 or 1, four bytes, which no more chance upon it than a CRC.
        """
        reach = min(5, find.position)
        before = self.view.read(find.position - reach, reach)
        lengths = {n for k in range(1, reach + 1) if (n := _whole_varint(before[-k:])) is not None}
        legacy = int.from_bytes(before[-4:], "big") if reach >= 4 else 0
        end = find.end
        for _ in range(VALUE_BATCHES):
            if end - find.position == legacy:
                return end
            followed = self.sound(end)
            if end - find.position in lengths and not followed:
                return end
            if end - find.position > max({legacy, *lengths}) or not followed:
                break
            end += int.from_bytes(self.view.read(end + LENGTH_AT, 4), "big") + ENTRY_OVERHEAD
        return 0

    def find(self, start: int, end: int) -> Iterator[int]:
        """Positions from `start` on, below `end`, where a batch lies whose CRC holds."""
        position = start
        while position < end:
            window = self.view.read(position, min(SEARCH_STEP + BATCH_HEADER_SIZE - 1, self.size - position))
            at = 0
            while (hit := core.find_batch(window, at, len(window), False)) is not None and position + hit < end:
                found = position + hit
                if hit < SEARCH_STEP and self.sound(found):
                    yield found
                at = hit + 1
            position += SEARCH_STEP

    def sound(self, position: int) -> bool:
        """Does a whole batch or message, its CRC right, lie at `position`?"""
        head = self.view.read(position, BATCH_HEADER_SIZE)
        if len(head) < MAGIC_END or head[MAGIC_AT] > MAGIC_V2:
            return False
        length = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True)
        end = position + ENTRY_OVERHEAD + length
        return MIN_LENGTHS[head[MAGIC_AT]] <= length and end <= self.size and OwnCrc(self.view, position, head).holds(end)

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
        spans = int.from_bytes(head[23:27], "big") if head[MAGIC_AT] == MAGIC_V2 else 0
        self.last_offset = self.first_offset + spans
        self.plain_message = head[MAGIC_AT] < MAGIC_V2 and head[LEGACY_ATTRIBUTES_AT] & CODEC_MASK == 0


def _whole_varint(raw: bytes) -> int | None:
    """The number, if these bytes are one varint and no more."""
    try:
        value, end = core.read_varint(raw)
    except KafkaFormatError:
        return None
    return value if end == len(raw) else None


class OwnCrc:
    """A batch's or message's crc field against what follows it, up to positions that only rise."""

    def __init__(self, view: FileView, position: int, head: bytes) -> None:
        legacy = len(head) >= MAGIC_END and head[MAGIC_AT] < MAGIC_V2
        self.usable = len(head) >= (ENTRY_OVERHEAD + MIN_LEGACY_LENGTH if legacy else BATCH_HEADER_SIZE)
        at, start = (LEGACY_CRC_AT, MAGIC_AT) if legacy else (CRC_AT, CRC_START)
        self.stored = int.from_bytes(head[at : at + 4], "big")
        self.at = position + start
        self.value = 0
        self._update = view.crc32 if legacy else view.crc32c

    def holds(self, end: int) -> bool:
        if end < self.at:
            return False
        self.value, self.at = self._update(self.at, end, self.value), end
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

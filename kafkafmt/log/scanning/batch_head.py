"""Decode the header of a batch or message, and check whether its fields are plausible."""

from __future__ import annotations

import struct

from ..._backend import core
from ...constants import (
    BASE_TIMESTAMP_AT,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_KEY_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V2,
    MAX_RELATIVE_OFFSET,
    MIN_LEGACY_LENGTH,
    MIN_LENGTHS,
)
from ...errors import KafkaFormatError

_HEADER = struct.Struct(">qi9xhi30xi")
"""Base offset, length, attributes, last offset delta and record count of a batch."""
_CONSISTENT_FIELDS = struct.Struct(">qqqhi")
"""Base and maximum timestamp, producer id and epoch, base sequence."""
FAR_FUTURE = 1 << 53
"""Limit for plausible timestamps in ms, in the year 287396. A header with a later timestamp is implausible."""


class Head:
    """Header fields of a batch or message. The header may be truncated."""

    def __init__(self, position: int, data: bytes) -> None:
        self.position = position
        self.data = data
        self.magic: int = data[MAGIC_AT] if len(data) >= MAGIC_END else MAGIC_V2 + 1
        attributes = delta = count = 0
        if self.magic == MAGIC_V2 and len(data) == BATCH_HEADER_SIZE:
            base, length, attributes, delta, count = _HEADER.unpack(data)
        else:
            base = int.from_bytes(data[:LENGTH_AT], "big", signed=True)
            length = int.from_bytes(data[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True)
        self.attributes: int = attributes  # 0 in formats 0 and 1, as are the next two
        self.delta: int = delta
        self.count: int = count
        self.first_offset: int = base  # of a wrapper message: the last offset
        self.last_offset: int = base + max(delta, 0)
        self.next_offset: int = self.last_offset + 1
        self.length: int = length
        self.size: int = length + ENTRY_OVERHEAD
        self.end: int = position + self.size

    @property
    def possible(self) -> bool:
        """Whether the magic is known, and the batch length is at least the minimum for it."""
        return self.magic <= MAGIC_V2 and self.length >= MIN_LENGTHS[self.magic]

    @property
    def dense(self) -> bool:
        """Whether the fields do not contradict each other, and no offsets are missing in the batch."""
        if self.magic < MAGIC_V2:
            # If a disk has lost the header, its fields are zeros, which look like a message of format 0.
            return any(self.data[LENGTH_AT:MAGIC_AT])
        if self.magic > MAGIC_V2 or len(self.data) < BATCH_HEADER_SIZE:
            return False
        base_time, max_time, *producer = _CONSISTENT_FIELDS.unpack_from(self.data, BASE_TIMESTAMP_AT)
        times = -1 <= base_time <= max_time < FAR_FUTURE
        no_producer = producer == [-1, -1, -1]
        return 0 <= self.delta == self.count - 1 and times and (no_producer or min(producer[:2]) >= 0)

    @property
    def message_codec(self) -> int:
        """The codec of a message of format 0 or 1, or 0 for a batch of format 2."""
        legacy = self.magic < MAGIC_V2 and len(self.data) > LEGACY_ATTRIBUTES_AT
        return self.data[LEGACY_ATTRIBUTES_AT] & CODEC_MASK if legacy else 0

    @property
    def wrapper(self) -> bool:
        return self.possible and 0 < self.message_codec < 4

    @property
    def plain_message(self) -> bool:
        legacy = self.magic < MAGIC_V2 and len(self.data) > LEGACY_ATTRIBUTES_AT
        return legacy and self.possible and self.message_codec == 0

    def may_be_right(self, expected: int) -> bool:
        """Return whether the batch length is at least the minimum, and the first offset is at least `expected`."""
        return len(self.data) >= MAGIC_END and self.first_offset >= expected and self.length >= MIN_LEGACY_LENGTH

    def repeats(self, other: Head) -> bool:
        """Return whether both headers have the same offset and length, so that they belong to copies of one batch."""
        # A batch cannot contain one of its length. The CRC is not compared: an incomplete batch may not have it.
        return len(self.data) >= ENTRY_OVERHEAD and self.data[:ENTRY_OVERHEAD] == other.data[:ENTRY_OVERHEAD]

    def continues(self, expected: int) -> bool:
        """Return whether the header fields are consistent and the first offset is `expected`."""
        return self.dense and self.first_offset == expected


def whole_varint(raw: bytes) -> int | None:
    """Return the value of the varint in `raw`. If the bytes are not exactly one varint, return None."""
    try:
        value, end = core.read_varint(raw)
    except KafkaFormatError:
        return None
    return value if end == len(raw) else None


def offset_in_reach(offset: int, expected: int) -> bool:
    """Return whether an offset is between `expected` and `expected` + MAX_RELATIVE_OFFSET, so that one segment can contain both."""
    return 0 <= offset - expected <= MAX_RELATIVE_OFFSET


def header_continues(head: bytes, expected: int) -> bool:
    """Return whether `head` can be the header of the next batch of a log."""
    # The base offset must be between `expected` and `expected` + MAX_RELATIVE_OFFSET.
    if not header_stands(head, expected):
        return False
    return len(head) < LENGTH_AT or offset_in_reach(int.from_bytes(head[:LENGTH_AT], "big"), expected)


def header_stands(head: bytes, expected: int) -> bool:
    """Return whether `head` can be the header of a batch or message, which can be incomplete at the end of a file."""
    # Only complete fields are checked: a base offset from `expected` on, a possible length, a known magic.
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

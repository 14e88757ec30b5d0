"""Decode the header of a batch or message, and check whether its fields are plausible."""

from __future__ import annotations

import struct

from ..._backend import core
from ...constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    ENTRY_OVERHEAD,
    LAST_OFFSET_DELTA_AT,
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

CONSISTENT_FIELDS = struct.Struct(">iqqqhii")
"""Last offset delta, base and maximum timestamp, producer id and epoch, base sequence, record count."""
FAR_FUTURE = 1 << 53
"""Limit for plausible timestamps in ms, in the year 287396. A header with a later timestamp is implausible."""


class Head:
    """Header fields of a batch or message. The header may be truncated."""

    def __init__(self, position: int, data: bytes) -> None:
        self.position = position
        self.data = data
        self.magic: int = data[MAGIC_AT] if len(data) >= MAGIC_END else MAGIC_V2 + 1
        self.length: int = int.from_bytes(data[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True)
        self.end: int = position + ENTRY_OVERHEAD + self.length
        # of a wrapper message: the last offset
        self.first_offset: int = int.from_bytes(data[:LENGTH_AT], "big", signed=True)

        delta = 0
        # If a disk has lost the header, its fields are zeros, which look like a message of format 0.
        # False: fields contradict each other, or offsets are missing, or length and CRC are 0
        self.dense: bool = self.magic < MAGIC_V2 and any(data[LENGTH_AT:MAGIC_AT])

        if self.magic == MAGIC_V2 and len(data) == BATCH_HEADER_SIZE:
            delta, base_time, max_time, producer_id, epoch, sequence, count = CONSISTENT_FIELDS.unpack_from(
                data, LAST_OFFSET_DELTA_AT
            )
            no_producer = (producer_id, epoch, sequence) == (-1, -1, -1)
            times = -1 <= base_time <= max_time < FAR_FUTURE
            self.dense = 0 <= delta == count - 1 and times and (no_producer or min(producer_id, epoch) >= 0)
        self.last_offset: int = self.first_offset + max(delta, 0)
        self.next_offset: int = self.last_offset + 1
        legacy = self.magic < MAGIC_V2 and len(data) > LEGACY_ATTRIBUTES_AT
        self.message_codec: int = data[LEGACY_ATTRIBUTES_AT] & CODEC_MASK if legacy else 0  # 0 in format 2
        possible = legacy and self.length >= MIN_LENGTHS[self.magic]
        self.wrapper: bool = possible and 0 < self.message_codec < 4
        self.plain_message: bool = possible and self.message_codec == 0

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

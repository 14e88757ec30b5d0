"""Decode messages of magic 0 and 1.

A plain (uncompressed) message is treated as a message set with one message. The decompressed value
of a wrapper message is also a message set.

Each message set is checked before its messages are returned. The bounds and magic of each message
must be valid, the CRC-32 of inner messages must match, and inner messages must not be compressed.
The check also finds the last offset, which is needed to convert the relative offsets of magic 1 to
absolute offsets.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any, NamedTuple

from ..constants import (
    CODEC_MASK,
    ENTRY_OVERHEAD,
    FAULT_EMPTY_SET,
    FAULT_INNER_OFFSET,
    FAULT_MESSAGE_CRC,
    FAULT_MESSAGE_END,
    FAULT_MESSAGE_FIELDS,
    FAULT_MESSAGE_MAGIC,
    FAULT_NESTED,
    FAULTS,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_KEY_AT,
    LEGACY_TIMESTAMP_AT,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MAGIC_V1,
    MAX_OFFSET,
    MIN_LENGTHS,
    MIN_OFFSET,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_NONE,
)
from ..errors import StructureError
from ..types import BatchTable, Buffer, IntArray
from .batch import INT32, INT64, checksums
from .varint import view_of


class Message(NamedTuple):
    """A message with the positions and lengths of its key and value.

    `offset` is the offset that is stored in this message. `next` is the position of the message
    that follows.
    """

    offset: int
    timestamp: int
    key: tuple[int, int]
    value: tuple[int, int]
    next: int


class MessageSet:
    """A message set that consists of a plain message, or of the messages inside a wrapper message."""

    def __init__(self, row: Any) -> None:
        self.magic = int(row["magic"])
        self.base_offset = int(row["base_offset"])
        attributes = int(row["attributes"])
        self.wrapped = bool(attributes & CODEC_MASK)
        self.max_timestamp = int(row["max_timestamp"])
        self.timestamp_type = TIMESTAMP_TYPE_NONE if self.magic == 0 else int(bool(attributes & LOG_APPEND_TIME_BIT))
        self.start = int(row["payload_position"])
        self.end = self.start + int(row["payload_size"])

    def fault(self, code: int, position: int) -> StructureError:
        return StructureError(FAULTS[code], position, self.base_offset)

    def read(self, view: memoryview, p: int) -> Message:
        """Read the message at `p`. Raise StructureError if the message is corrupted."""
        if self.end - p < ENTRY_OVERHEAD + MIN_LENGTHS[self.magic]:
            raise self.fault(FAULT_MESSAGE_END, p)
        if view[p + MAGIC_AT] != self.magic:
            raise self.fault(FAULT_MESSAGE_MAGIC, p)
        if self.wrapped and view[p + LEGACY_ATTRIBUTES_AT] & CODEC_MASK:
            raise self.fault(FAULT_NESTED, p)
        (size,) = INT32.unpack_from(view, p + LENGTH_AT)
        if not MIN_LENGTHS[self.magic] <= size <= self.end - p - ENTRY_OVERHEAD:
            raise self.fault(FAULT_MESSAGE_END, p)
        stop, q = p + ENTRY_OVERHEAD + size, p + LEGACY_KEY_AT[self.magic]
        spans = []
        try:
            # The value's length field (4 bytes) must fit after the key. No field follows the value.
            for trailing in (4, 0):
                (length,) = INT32.unpack_from(view, q)
                q += 4
                if length > stop - q - trailing:
                    raise struct.error
                spans.append((q, max(length, -1)))
                q += max(length, 0)
            if q != stop:
                raise struct.error
        except struct.error:
            raise self.fault(FAULT_MESSAGE_FIELDS, p) from None
        if self.wrapped:
            stored, actual = checksums(view, p, size)
            if stored != actual:
                raise self.fault(FAULT_MESSAGE_CRC, p)
        timestamp = INT64.unpack_from(view, p + LEGACY_TIMESTAMP_AT)[0] if self.magic else NO_TIMESTAMP
        if self.timestamp_type == 1:
            timestamp = self.max_timestamp
        return Message(INT64.unpack_from(view, p)[0], timestamp, spans[0], spans[1], stop)

    def check(self, view: memoryview) -> tuple[int, int]:
        """Check all messages.

        Return the number of messages, and the number to add to each stored offset to get the
        absolute offset.
        """
        p, count, last = self.start, 0, 0
        while p < self.end:
            message = self.read(view, p)
            count, last, p = count + 1, message.offset, message.next
        if not count:
            raise self.fault(FAULT_EMPTY_SET, p)
        if not self.wrapped or self.magic != MAGIC_V1 or self.base_offset == 0:
            return count, 0
        if last > self.base_offset:
            raise self.fault(FAULT_INNER_OFFSET, self.start)
        return count, self.base_offset - last


def message_offsets(
    buffer: Buffer, batches: BatchTable, first: IntArray, last: IntArray, count: IntArray, latest: IntArray
) -> None:
    view = view_of(buffer)
    if min(map(len, (first, last, count, latest))) < len(batches):
        raise ValueError(f"an array of at least {len(batches)} items is needed")
    for i, row in enumerate(batches):
        first[i] = last[i] = row["base_offset"]
        count[i] = latest[i] = -1
        start, size = int(row["payload_position"]), int(row["payload_size"])
        if not 0 <= row["magic"] <= MAGIC_V1 or start < 0 or size < 0 or start + size > len(view):
            continue
        messages = MessageSet(row)
        try:
            found, added = messages.check(view)
        except StructureError:
            continue
        offsets, times, p = [], [], messages.start
        while p < messages.end:
            message = messages.read(view, p)
            offsets.append(message.offset)
            times.append(message.timestamp)
            p = message.next
        first[i], last[i] = _wrapped(added + offsets[0]), _wrapped(added + max(offsets))
        count[i], latest[i] = found, max(times)
        if any(b <= a for a, b in itertools.pairwise(offsets)):
            first[i], last[i] = MAX_OFFSET, MIN_OFFSET


def _wrapped(value: int) -> int:
    """Wrap a value around to 64 bits, as int64 arithmetic does on overflow."""
    return (value + 2**63) % 2**64 - 2**63

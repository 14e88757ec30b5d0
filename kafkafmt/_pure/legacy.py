"""Decode messages of magic 0 and 1.

A plain (uncompressed) message is treated as a message set with one message. The decompressed value
of a wrapper message is also a message set.

Each message set is checked before its messages are returned. The bounds and magic of each message
must be valid, the CRC-32 of inner messages must match, and inner messages must not be compressed.
The check also finds the last offset, which is needed to convert the relative offsets of magic 1 to
absolute offsets.

As in Kafka's Java code, an inner message can have another magic than its wrapper, bytes can follow
the value of a message, and a message that is truncated by the end of its message set is ignored.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
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
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MAGIC_V0,
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
    """A message with the positions and lengths of its key and value."""

    offset: int  # as stored in this message
    timestamp: int
    timestamp_type: int
    key: tuple[int, int]
    value: tuple[int, int]
    next: int  # position of the message that follows


class MessageSet:
    """A message set that consists of a plain message, or of the messages inside a wrapper message."""

    def __init__(self, row: Any) -> None:
        self.magic = int(row["magic"])
        self.base_offset = int(row["base_offset"])
        attributes = int(row["attributes"])
        self.wrapped = bool(attributes & CODEC_MASK)
        self.max_timestamp = int(row["max_timestamp"])
        self.timestamp_type = (
            TIMESTAMP_TYPE_NONE if self.magic == MAGIC_V0 else int(bool(attributes & LOG_APPEND_TIME_BIT))
        )
        self.start = int(row["payload_position"])
        self.end = self.start + int(row["payload_size"])

    def fault(self, code: int, position: int) -> StructureError:
        return StructureError(FAULTS[code], position, self.base_offset)

    def messages(self, view: memoryview, p: int) -> Iterator[Message]:
        """Yield the messages from position `p` on. Raise StructureError if a message is corrupted."""
        while p < self.end:
            if self.wrapped and self.end - p < ENTRY_OVERHEAD:
                return
            if not self.wrapped and self.end - p < ENTRY_OVERHEAD + MIN_LENGTHS[self.magic]:
                raise self.fault(FAULT_MESSAGE_END, p)
            (size,) = INT32.unpack_from(view, p + LENGTH_AT)
            if self.wrapped and MIN_LENGTHS[MAGIC_V0] <= size and size > self.end - p - ENTRY_OVERHEAD:
                return  # the message set ends inside this message
            message = self.read(view, p, size)
            yield message
            p = message.next

    def read(self, view: memoryview, p: int, size: int) -> Message:
        """Read the message at `p`, which has `size` bytes after its length field."""
        magic = view[p + MAGIC_AT]
        if self.wrapped and size < MIN_LENGTHS[MAGIC_V0]:
            raise self.fault(FAULT_MESSAGE_END, p)
        if magic > MAGIC_V1 or (magic != self.magic and not self.wrapped):
            raise self.fault(FAULT_MESSAGE_MAGIC, p)
        if not MIN_LENGTHS[magic] <= size <= self.end - p - ENTRY_OVERHEAD:
            raise self.fault(FAULT_MESSAGE_END, p)
        if self.wrapped and view[p + LEGACY_ATTRIBUTES_AT] & CODEC_MASK:
            raise self.fault(FAULT_NESTED, p)
        stop, q = p + ENTRY_OVERHEAD + size, p + LEGACY_KEY_AT[magic]
        spans = []
        # The value's length field (4 bytes) must fit after the key. No field follows the value.
        for trailing in (4, 0):
            (length,) = INT32.unpack_from(view, q)
            q += 4
            if length > stop - q - trailing:
                raise self.fault(FAULT_MESSAGE_FIELDS, p)
            spans.append((q, max(length, -1)))
            q += max(length, 0)
        if self.wrapped:
            stored, actual = checksums(view, p, size)
            if stored != actual:
                raise self.fault(FAULT_MESSAGE_CRC, p)
        timestamp, timestamp_type = NO_TIMESTAMP, TIMESTAMP_TYPE_NONE
        if magic == MAGIC_V1:
            (timestamp,) = INT64.unpack_from(view, p + LEGACY_TIMESTAMP_AT)
            timestamp_type = self.timestamp_type
            if timestamp_type == LOG_APPEND_TIME:
                timestamp = self.max_timestamp
        return Message(INT64.unpack_from(view, p)[0], timestamp, timestamp_type, spans[0], spans[1], stop)

    def check(self, view: memoryview) -> tuple[int, int]:
        # Return their number, and the number to add to each stored offset to get the absolute one.
        count = last = 0
        for message in self.messages(view, self.start):
            count, last = count + 1, message.offset
        if not count:
            raise self.fault(FAULT_EMPTY_SET, self.start)
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
        read = list(messages.messages(view, messages.start))
        offsets = [message.offset for message in read]
        first[i], last[i] = _wrapped(added + offsets[0]), _wrapped(added + max(offsets))
        count[i], latest[i] = found, max(message.timestamp for message in read)
        if any(b <= a for a, b in itertools.pairwise(offsets)):
            first[i], last[i] = MAX_OFFSET, MIN_OFFSET


def _wrapped(value: int) -> int:
    """Wrap a value around to 64 bits, as int64 arithmetic does on overflow."""
    return (value + 2**63) % 2**64 - 2**63

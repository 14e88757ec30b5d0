"""Recognize a batch that is cut off by the end of the file.

A broker that crashes leaves such a batch. Its values can contain whole batches, which must not be
treated as batches of the log.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._backend import core
from ...constants import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    COUNT_AT,
    LEGACY_KEY_AT,
    MAGIC_V2,
    MIN_RECORD_SIZE,
)
from ...errors import KafkaFormatError
from .batch_head import Head

MAX_VARINT_SIZE = 5
Read = Callable[[int, int], bytes]
"""Function that returns the bytes of the file at a position. Its second argument is their number."""


def is_cut_off(bad: Head, size: int, read: Read) -> bool:
    """Return whether the file ends inside the damaged batch `bad`.

    `size` is the size of the file. The length field of the batch must exceed it. In addition, other
    lengths in the batch must agree with the length field, because the length field can be corrupted:

    - In formats 0 and 1, the value must end where the message ends.
    - In format 2, the records must reach the end of the file. This cannot be checked if they are
      compressed.
    """
    if bad.end <= size or len(bad.data) < BATCH_HEADER_SIZE or bad.magic > MAGIC_V2:
        return False
    return _message_is_cut_off(bad, size, read) if bad.magic < MAGIC_V2 else _batch_is_cut_off(bad, size, read)


def _message_is_cut_off(bad: Head, size: int, read: Read) -> bool:
    key_at = LEGACY_KEY_AT[bad.magic]
    key_length = int.from_bytes(bad.data[key_at : key_at + 4], "big", signed=True)
    value_at = bad.position + key_at + 4 + max(key_length, 0)
    if key_length < -1 or value_at + 4 > size:
        return False
    return value_at + 4 + int.from_bytes(read(value_at, 4), "big", signed=True) == bad.end


def _batch_is_cut_off(bad: Head, size: int, read: Read) -> bool:
    if bad.data[ATTRIBUTES_AT + 1] & CODEC_MASK:
        return False
    position, left = bad.position + BATCH_HEADER_SIZE, int.from_bytes(bad.data[COUNT_AT:], "big", signed=True)
    while left > 0:
        left -= 1
        try:
            length, prefix = core.read_varint(read(position, min(MAX_VARINT_SIZE, size - position)))
        except KafkaFormatError:
            return False
        position += prefix + length
        if length < MIN_RECORD_SIZE - 1 or position > bad.end - left * MIN_RECORD_SIZE:
            return False
        if not left and position != bad.end:
            return False
        if position >= size:
            return True
    return False

"""Recognize a damaged batch that the end of the file cuts off. A broker that crashes leaves such a batch."""

from __future__ import annotations

from ..constants import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    COUNT_AT,
    LEGACY_KEY_AT,
    MAGIC_AT,
    MAGIC_V2,
    MIN_RECORD_SIZE,
)
from ..errors import StructureError, TruncatedError
from ..types import Buffer
from .batch import INT32
from .varint import read_varint, view_of

MOST_CHECKED_RECORDS = 1 << 14


def is_cut_off(buffer: Buffer, position: int, end: int, file_end: int) -> bool | None:
    view = view_of(buffer)
    size = len(view)
    if position + BATCH_HEADER_SIZE > size:
        return None if size < file_end else False
    magic = view[position + MAGIC_AT]
    if end <= file_end or magic > MAGIC_V2:
        return False
    if magic < MAGIC_V2:
        (key_length,) = INT32.unpack_from(view, position + LEGACY_KEY_AT[magic])
        value = position + LEGACY_KEY_AT[magic] + 4 + max(key_length, 0)
        if key_length < -1 or value + 4 > file_end:
            return False
        return None if value + 4 > size else value + 4 + INT32.unpack_from(view, value)[0] == end
    (left,) = INT32.unpack_from(view, position + COUNT_AT)
    if view[position + ATTRIBUTES_AT + 1] & CODEC_MASK or not 0 < left <= MOST_CHECKED_RECORDS:
        return False
    at = position + BATCH_HEADER_SIZE
    while left > 0:
        if at >= file_end:
            return True
        if at >= size:
            return None
        try:
            length, at = read_varint(view, at, min(size, file_end))
        except StructureError:
            return False
        except TruncatedError:
            return None if size < file_end else True
        left -= 1
        at += length
        if length < MIN_RECORD_SIZE - 1 or at > end - left * MIN_RECORD_SIZE or (not left and at != end):
            return False
    return True  # The last record ends exactly at the end of the batch, which is after the end of the file.

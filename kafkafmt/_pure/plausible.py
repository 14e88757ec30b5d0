"""Check whether arbitrary bytes at a position can be the header of a batch or message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..constants import (
    CODEC_LZ4,
    CODEC_MASK,
    CODEC_NAMES,
    CRC_AT,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_KEY_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_V2,
    MAX_BATCH_LENGTH,
    MAX_RELATIVE_OFFSET,
    MIN_LENGTHS,
)
from .batch import HEADER, INT32, INT64, UINT32

CHUNK = 1 << 20
MAGICS = re.compile(rb"[\x00-\x02](?<!\x00\x00\x00\x00.....)", re.DOTALL)
"""Pattern that finds the magic byte of possible headers. It skips headers with length 0, because files often end
with many zeros.
"""


def stored_crc(view: memoryview, p: int) -> int:
    crc: int = UINT32.unpack_from(view, p + (CRC_AT if view[p + MAGIC_AT] == MAGIC_V2 else LEGACY_CRC_AT))[0]
    return crc


def header_plausible(view: memoryview, p: int, end: int) -> bool:
    """Return whether the bytes at `p` can be the header of a valid batch or message.

    Only bytes before `end` can be read.
    """
    magic, readable = view[p + MAGIC_AT], end - p
    if readable < ENTRY_OVERHEAD + MIN_LENGTHS[magic]:
        return False
    (offset,), (length,) = INT64.unpack_from(view, p), INT32.unpack_from(view, p + LENGTH_AT)
    if offset < 0 or not MIN_LENGTHS[magic] <= length <= MAX_BATCH_LENGTH:
        return False
    return plausible_batch(view, p) if magic == MAGIC_V2 else plausible_message(view, p, readable, length, magic)


def plausible_batch(view: memoryview, p: int) -> bool:
    _, _, _, _, _, attributes, last_delta, _, _, _, _, _, count = HEADER.unpack_from(view, p)
    return bool(
        0 <= attributes < 0x80 and attributes & CODEC_MASK < len(CODEC_NAMES) and last_delta >= 0 and count >= 0
    )


def plausible_message(view: memoryview, p: int, readable: int, length: int, magic: int) -> bool:
    """Return whether the header of a message of format 0 or 1 is plausible.

    The key and the value must exactly fill the message. Random bytes rarely meet this condition.
    """
    attributes, key_at = view[p + LEGACY_ATTRIBUTES_AT], LEGACY_KEY_AT[magic]
    (key_length,) = INT32.unpack_from(view, p + key_at)
    if attributes & 0xF0 or attributes & CODEC_MASK > CODEC_LZ4 or not -1 <= key_length <= length - MIN_LENGTHS[magic]:
        return False
    value_at = key_at + 4 + max(key_length, 0)
    if readable - 4 < value_at:
        return True
    (value_length,) = INT32.unpack_from(view, p + value_at)
    rest = ENTRY_OVERHEAD + length - value_at - 4
    return bool(value_length == rest or (value_length == -1 and rest == 0))


def plausible_positions(view: memoryview, start: int, stop: int, end: int) -> Iterator[int]:
    """Yield the positions from `start` to `stop` (exclusive) at which a plausible header begins.

    Only bytes before `end` can be read.
    """
    # Copy the bytes, because a memoryview is searched more slowly. To limit memory use, copy CHUNK bytes at a time.
    for a in range(start + MAGIC_AT, min(stop + MAGIC_AT, end), CHUNK):
        for hit in MAGICS.finditer(bytes(view[a : min(a + CHUNK, stop + MAGIC_AT, end)])):
            p = a + hit.start() - MAGIC_AT
            if header_plausible(view, p, end):
                yield p


def whole(view: memoryview, p: int, end: int) -> bool:
    return bool(INT32.unpack_from(view, p + LENGTH_AT)[0] <= end - p - ENTRY_OVERHEAD)


def batch_end(view: memoryview, p: int) -> int:
    length: int = INT32.unpack_from(view, p + LENGTH_AT)[0]
    return p + ENTRY_OVERHEAD + length


def in_reach(view: memoryview, p: int, expected: int) -> bool:
    """Return whether the offset in the header at `p` is between `expected` and `expected` + 2**31 - 1.

    In a segment, the difference between two offsets is at most 2**31 - 1.
    """
    return bool(0 <= INT64.unpack_from(view, p)[0] - expected <= MAX_RELATIVE_OFFSET)


def continues_log(view: memoryview, p: int, expected: int) -> bool:
    """Return whether the bytes at `p` look like a header with an offset from `expected` to `expected` + 2**31 - 1."""
    return in_reach(view, p, expected) and possible(view, p)


def possible(view: memoryview, p: int) -> bool:
    """Return whether the bytes at `p` can be a header. The offset field is not checked."""
    (length,), magic = INT32.unpack_from(view, p + LENGTH_AT), view[p + MAGIC_AT]
    if magic > MAGIC_V2 or length < MIN_LENGTHS[magic]:
        return False
    if magic == MAGIC_V2:
        return True
    (key_length,) = INT32.unpack_from(view, p + LEGACY_KEY_AT[magic])
    return not view[p + LEGACY_ATTRIBUTES_AT] & 0xF0 and -1 <= key_length <= length - MIN_LENGTHS[magic]

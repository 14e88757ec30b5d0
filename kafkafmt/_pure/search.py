"""Find valid batches in bytes that may hold anything.

A header can claim any length. So that many headers with large lengths do not take quadratic time, the CRC of a long span is derived
from the CRCs of two prefixes of the buffer (as zlib's `crc32_combine` does), which are computed once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_LZ4,
    CODEC_MASK,
    CODEC_NAMES,
    CRC_AT,
    CRC_START,
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
from ..types import Buffer, IntArray
from .batch import HEADER, INT32, INT64, UINT32, checksums
from .crc import crc32, crc32c
from .varint import check_range, view_of

CHUNK = 1 << 20
MAGICS = re.compile(rb"[\x00-\x02]")
SMALLEST_MESSAGE = 26
PREFIX_STEP = 1 << 12
DIRECT_LENGTH = 1 << 14
POLYNOMIALS = {True: 0x82F63B78, False: 0xEDB88320}
"""Reflected polynomials of CRC-32C (True) and CRC-32 (False)."""


class PrefixCrcs:
    """CRCs of spans of one buffer, each byte of which is summed once for long spans."""

    def __init__(self, view: memoryview, start: int) -> None:
        self.view = view
        self.start = start
        self._known: dict[bool, list[int]] = {True: [0], False: [0]}

    def prefix(self, castagnoli: bool, end: int) -> int:
        """Return the CRC of the bytes from `self.start` to `end`."""
        crcs, update = self._known[castagnoli], crc32c if castagnoli else crc32
        steps = (end - self.start) // PREFIX_STEP
        while len(crcs) <= steps:
            at = self.start + (len(crcs) - 1) * PREFIX_STEP
            crcs.append(update(self.view, crcs[-1], at, at + PREFIX_STEP))
        return update(self.view, crcs[steps], self.start + steps * PREFIX_STEP, end)

    def span(self, castagnoli: bool, start: int, end: int) -> int:
        """Return the CRC of the bytes from `start` to `end`."""
        if end - start <= DIRECT_LENGTH:
            return (crc32c if castagnoli else crc32)(self.view, 0, start, end)
        return _of_rest(castagnoli, self.prefix(castagnoli, end), self.prefix(castagnoli, start), end - start)

    def of_batch(self, p: int, end: int) -> int:
        """Return the CRC of what the crc field of the batch at `p` covers, up to `end`."""
        castagnoli = self.view[p + MAGIC_AT] == MAGIC_V2
        return self.span(castagnoli, p + (CRC_START if castagnoli else MAGIC_AT), end)


def multiply(castagnoli: bool, a: int, b: int) -> int:
    """Return the product of two polynomials modulo the CRC's."""
    a, b = a & 0xFFFFFFFF, b & 0xFFFFFFFF
    product, polynomial = 0, POLYNOMIALS[castagnoli]
    while a:
        if a & 0x80000000:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (polynomial if b & 1 else 0)
    return product


@lru_cache(4096)
def power_of_x(castagnoli: bool, n: int) -> int:
    """Return x**n modulo the CRC's polynomial."""
    if n == 0:
        return 0x80000000
    half = power_of_x(castagnoli, n // 2)
    square = multiply(castagnoli, half, half)
    return multiply(castagnoli, square, 0x40000000) if n & 1 else square


def stored_crc(view: memoryview, p: int) -> int:
    crc: int = UINT32.unpack_from(view, p + (CRC_AT if view[p + MAGIC_AT] == MAGIC_V2 else LEGACY_CRC_AT))[0]
    return crc


def plausible(view: memoryview, p: int, end: int) -> bool:
    """Return whether the bytes from `p` to `end` can begin with the header of a valid batch or message."""
    magic, readable = view[p + MAGIC_AT], end - p
    if readable < ENTRY_OVERHEAD + MIN_LENGTHS[magic]:
        return False
    (offset,), (length,) = INT64.unpack_from(view, p), INT32.unpack_from(view, p + LENGTH_AT)
    if offset < 0 or not MIN_LENGTHS[magic] <= length <= MAX_BATCH_LENGTH:
        return False
    return plausible_batch(view, p) if magic == MAGIC_V2 else plausible_message(view, p, readable, length, magic)


def plausible_batch(view: memoryview, p: int) -> bool:
    _, _, _, _, _, attributes, last_delta, _, _, _, _, _, count = HEADER.unpack_from(view, p)
    return bool(0 <= attributes < 0x80 and attributes & CODEC_MASK < len(CODEC_NAMES) and last_delta >= 0 and count >= 0)


def plausible_message(view: memoryview, p: int, readable: int, length: int, magic: int) -> bool:
    """Return whether key and value fill the message exactly, which is unlikely by chance."""
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
    """Yield the positions in [start, stop) at which a plausible header begins; the bytes end at `end`."""
    for a in range(start + MAGIC_AT, min(stop + MAGIC_AT, end), CHUNK):  # a bounded copy, in which the pattern finds magic bytes fast
        for hit in MAGICS.finditer(bytes(view[a : min(a + CHUNK, stop + MAGIC_AT, end)])):
            p = a + hit.start() - MAGIC_AT
            if plausible(view, p, end):
                yield p


def whole(view: memoryview, p: int, end: int) -> bool:
    return bool(INT32.unpack_from(view, p + LENGTH_AT)[0] <= end - p - ENTRY_OVERHEAD)


def batch_end(view: memoryview, p: int) -> int:
    length: int = INT32.unpack_from(view, p + LENGTH_AT)[0]
    return p + ENTRY_OVERHEAD + length


def crc32c_of_rest(whole: int, prefix: int, size: int) -> int:
    return _of_rest(True, whole, prefix, size)


def crc32_of_rest(whole: int, prefix: int, size: int) -> int:
    return _of_rest(False, whole, prefix, size)


def _of_rest(castagnoli: bool, whole: int, prefix: int, size: int) -> int:
    if size < 0:
        raise ValueError(f"{size} is not a count or position in memory")
    return (whole ^ multiply(castagnoli, power_of_x(castagnoli, 8 * size), prefix)) & 0xFFFFFFFF


def find_batch(buffer: Buffer, start: int = 0, end: int | None = None, check_crc: bool = True) -> int | None:
    view = view_of(buffer)
    last = check_range(view, start, end)
    crcs = PrefixCrcs(view, start)
    for p in plausible_positions(view, start, last, last):
        if not check_crc or (whole(view, p, last) and crcs.of_batch(p, batch_end(view, p)) == stored_crc(view, p)):
            return p
    return None


def find_batches(
    buffer: Buffer, found: IntArray, beyond: IntArray, start: int = 0, end: int | None = None, lowest_offset: int = 0
) -> tuple[int, int, int]:
    view = view_of(buffer)
    stop, last = check_range(view, start, end), len(view)
    crcs = PrefixCrcs(view, start)
    n = n_beyond = 0
    for p in plausible_positions(view, start, stop, last):
        if whole(view, p, last):
            if crcs.of_batch(p, batch_end(view, p)) == stored_crc(view, p):
                if n == len(found):
                    return n, n_beyond, p
                found[n] = p
                n += 1
        elif in_reach(view, p, lowest_offset):
            if n_beyond == len(beyond):
                return n, n_beyond, p
            beyond[n_beyond] = p, crcs.of_batch(p, last)
            n_beyond += 1
    return n, n_beyond, stop


def in_reach(view: memoryview, p: int, expected: int) -> bool:
    """Return whether a segment that contains offset `expected` can contain, after it, the offset of the header at `p`."""
    return bool(0 <= INT64.unpack_from(view, p)[0] - expected <= MAX_RELATIVE_OFFSET)


def continues(view: memoryview, p: int, expected: int) -> bool:
    """Return whether a header can begin at `p` whose offset is `expected`, or higher but within a segment's reach."""
    (length,), magic = INT32.unpack_from(view, p + LENGTH_AT), view[p + MAGIC_AT]
    if not in_reach(view, p, expected) or magic > MAGIC_V2 or length < MIN_LENGTHS[magic]:
        return False
    if magic == MAGIC_V2:
        return True
    (key_length,) = INT32.unpack_from(view, p + LEGACY_KEY_AT[magic])
    return not view[p + LEGACY_ATTRIBUTES_AT] & 0xF0 and -1 <= key_length <= length - MIN_LENGTHS[magic]


def may_begin(view: memoryview, p: int, following: int, expected: int) -> bool:
    """Return whether the plausible header at `p` begins a valid batch that ends by `following`, or one of the log that ends later."""
    if not whole(view, p, following):
        return continues(view, p, expected)
    stored, actual = checksums(view, p, INT32.unpack_from(view, p + LENGTH_AT)[0])
    return stored == actual


def skip_corrupted(buffer: Buffer, positions: IntArray, start: int = 0, end: int | None = None, expected: int = 0) -> tuple[int, int]:
    view = view_of(buffer)
    last = check_range(view, start, end)
    p, n = start, 0
    while n < len(positions) and last - p >= BATCH_HEADER_SIZE and continues(view, p, expected) and whole(view, p, last):
        following = batch_end(view, p)
        if last - following < BATCH_HEADER_SIZE or not continues(view, following, expected):
            break
        if any(may_begin(view, q, following, expected) for q in plausible_positions(view, p + 1, following, last)):
            break
        positions[n] = p
        n += 1
        p = following
        if whole(view, p, last):
            stored, actual = checksums(view, p, INT32.unpack_from(view, p + LENGTH_AT)[0])
            if stored == actual:
                break
    return n, p

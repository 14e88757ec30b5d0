"""Find valid batches in arbitrary bytes.

In arbitrary bytes, many positions look like a batch header, with any length. Computing the CRC of
each of these batches directly could take quadratic time. Instead, the CRC of a long span is derived
from the CRCs of two prefixes of the buffer, by the rule of zlib's `crc32_combine`. The CRC of each
prefix is computed only once.
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
    CONTROL_BIT,
    CRC_AT,
    CRC_START,
    ENTRY_OVERHEAD,
    LAST_OFFSET_DELTA_AT,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LEGACY_KEY_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V1,
    MAGIC_V2,
    MAX_BATCH_LENGTH,
    MAX_OFFSET,
    MAX_RELATIVE_OFFSET,
    MIN_LEGACY_LENGTH,
    MIN_LENGTHS,
)
from ..errors import ChecksumError, KafkaFormatError, StructureError, UnsupportedError
from ..types import BatchTable, Buffer, IntArray, SearchWindow, last_offsets
from .batch import HEADER, INT8_OF, INT32, INT64, UINT32, checksums, scan_batches
from .crc import crc32, crc32c
from .varint import check_range, view_of

CHUNK = 1 << 20
MAGICS = re.compile(rb"[\x00-\x02]")
SMALLEST_MESSAGE = 26
FAR_FUTURE = 1 << 53
"""Timestamp in ms, in the year 287396. Real records have lower timestamps."""
PREFIX_STEP = 1 << 12
DIRECT_LENGTH = 1 << 14
POLYNOMIALS = {True: 0x82F63B78, False: 0xEDB88320}
"""Reflected polynomials of CRC-32C (True) and CRC-32 (False)."""


class PrefixCrcs:
    """Computes the CRCs of spans of one buffer, from the CRCs of prefixes if the spans are long."""

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
        """Return the CRC of the batch at `p`, computed only over its bytes before `end`."""
        castagnoli = self.view[p + MAGIC_AT] == MAGIC_V2
        return self.span(castagnoli, p + (CRC_START if castagnoli else MAGIC_AT), end)


def multiply(castagnoli: bool, a: int, b: int) -> int:
    """Return the product of the polynomials `a` and `b` modulo the polynomial of the CRC."""
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
    """Return the polynomial x**n modulo the polynomial of the CRC."""
    if n == 0:
        return 0x80000000
    half = power_of_x(castagnoli, n // 2)
    square = multiply(castagnoli, half, half)
    return multiply(castagnoli, square, 0x40000000) if n & 1 else square


def stored_crc(view: memoryview, p: int) -> int:
    crc: int = UINT32.unpack_from(view, p + (CRC_AT if view[p + MAGIC_AT] == MAGIC_V2 else LEGACY_CRC_AT))[0]
    return crc


def header_plausible(view: memoryview, p: int, end: int) -> bool:
    """Return whether the bytes at `p` can be the header of a valid batch or message.

    Only the bytes before `end` are available.
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
    """Yield the positions from `start` up to `stop`, exclusive, at which a plausible header begins.

    Only the bytes before `end` are available.
    """
    # Magic bytes are found faster in a bytes object than in the memoryview. Copy only CHUNK bytes
    # at a time, to limit the memory.
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


def crc32c_of_rest(whole: int, prefix: int, size: int) -> int:
    return _of_rest(True, whole, prefix, size)


def crc32_of_rest(whole: int, prefix: int, size: int) -> int:
    return _of_rest(False, whole, prefix, size)


def _of_rest(castagnoli: bool, whole: int, prefix: int, size: int) -> int:
    if size < 0:
        raise ValueError(f"a count or position is {size}; it must be between 0 and 2**63 - 1")
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
    """Return whether the offset in the header at `p` can follow `expected` in one segment.

    The offset must be between `expected` and `expected` + 2**31 - 1, because gaps within one
    segment are not larger.
    """
    return bool(0 <= INT64.unpack_from(view, p)[0] - expected <= MAX_RELATIVE_OFFSET)


def continues_log(view: memoryview, p: int, expected: int) -> bool:
    """Return whether the bytes at `p` can be a header that continues the log at offset `expected`."""
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


def may_begin(
    view: memoryview, crcs: PrefixCrcs, p: int, following: int, file_end: int, expected: int
) -> tuple[bool, bool]:
    """Check whether the plausible header at `p` can be the header of a batch in the log.

    If the batch ends at or before `following`, it must be valid. If it ends later, its header must
    continue the log at offset `expected`, and the batch must not end after `file_end`.

    Return two bools: whether the header is accepted, and whether it is rejected only because its
    batch would end after `file_end`.
    """
    if not whole(view, p, following):
        continued, beyond = continues_log(view, p, expected), batch_end(view, p) > file_end
        return continued and not beyond, continued and beyond
    return crcs.of_batch(p, batch_end(view, p)) == stored_crc(view, p), False


def after_corrupted(
    view: memoryview, crcs: PrefixCrcs, p: int, stop: int, file_end: int, expected: int
) -> tuple[int | None, bool]:
    """Check whether the length field of a batch can be trusted although its CRC does not match.

    Return two values: the end of the batch, and whether the batch contains a plausible header whose
    own length field leads beyond the end of the file. If the length field cannot be trusted, return
    None and False.
    """
    if stop - p < BATCH_HEADER_SIZE or not continues_log(view, p, expected) or not whole(view, p, stop):
        return None, False
    following, any_beyond = batch_end(view, p), False
    if stop - following < BATCH_HEADER_SIZE or not continues_log(view, following, expected):
        return None, False
    for q in plausible_positions(view, p + 1, following, stop):
        begins, beyond = may_begin(view, crcs, q, following, file_end, expected)
        if begins:
            return None, False
        any_beyond |= beyond
    return following, any_beyond


def scan_extents(buffer: Buffer, table: BatchTable, extents: IntArray) -> tuple[int, int]:
    view, n = view_of(buffer), 0
    for i, (start, end, count, last) in enumerate(extents.tolist()):
        if not 0 <= start <= end <= len(view) or not 0 < count <= len(table) - n:
            return i, n
        scan = scan_batches(buffer, table[n:], start, end)
        if (
            scan.count != count
            or scan.position != end
            or int(last_offsets(table[n + count - 1 : n + count])[0]) != last
        ):
            return i, n
        n += count
    return len(extents), n


CHAIN_REACH = 1 << 16
LATER_REACH = 1 << 20
LATER_FINDS = 16
SPANNING_FINDS = 256
OWN_CRC_FINDS = 64
"""The limits from CHAIN_REACH to OWN_CRC_FINDS must equal the limits in log/reading/search.py,
where CHAIN_REACH is called LONG_CHAIN, and LATER_REACH is called LARGEST_WINDOW.
"""
WRAPPED_MESSAGES = 0xFFFF
"""Largest accepted gap in the offsets after a message of format 0 or 1. The next message can be a
wrapper, whose offset is the offset of its last inner message.
"""
HIGHEST = MAX_OFFSET - (1 << 32)
"""`resume_after` returns None for a header with a higher offset than this limit. Sums of offsets
therefore cannot overflow int64 in the native core.
"""


def may_follow(view: memoryview, p: int, expected: int) -> bool:
    """Return whether the bytes at `p` can be a header with an offset of at least `expected`."""
    return bool(INT64.unpack_from(view, p)[0] >= max(expected, 0)) and possible(view, p)


def header_is_dense(view: memoryview, p: int) -> bool:
    """Return whether the fields of a v2 header are consistent, and each offset has a record."""
    _, _, _, _, _, _, delta, base_time, max_time, producer_id, epoch, sequence, count = HEADER.unpack_from(view, p)
    if not 0 <= delta == count - 1 or not -1 <= base_time <= max_time < FAR_FUTURE:
        return False
    return (producer_id, epoch, sequence) == (-1, -1, -1) or min(producer_id, epoch) >= 0


def varint_before(view: memoryview, p: int, size: int) -> int:
    """Decode the `size` bytes before `p` as one 32-bit zigzag varint.

    Return -1 if the varint is negative, or if it does not have exactly `size` bytes.
    """
    raw = view[p - size : p]
    if raw[-1] & 0x80 or any(not b & 0x80 for b in raw[:-1]):
        return -1
    value = sum((b & 0x7F) << 7 * i for i, b in enumerate(raw)) & 0xFFFFFFFF
    return -1 if value & 1 else value >> 1


def batch_offsets(view: memoryview, p: int) -> tuple[int, int]:
    """Return the base offset of the batch or message at `p`, and the offset after its last offset."""
    (first,), (delta,) = INT64.unpack_from(view, p), INT32.unpack_from(view, p + LAST_OFFSET_DELTA_AT)
    return first, first + 1 + (max(delta, 0) if view[p + MAGIC_AT] == MAGIC_V2 else 0)


def is_plain(view: memoryview, p: int) -> bool:
    """Return whether the header at `p` belongs to an uncompressed message of format 0 or 1."""
    return view[p + MAGIC_AT] < MAGIC_V2 and not view[p + LEGACY_ATTRIBUTES_AT] & CODEC_MASK


def chain_end(
    view: memoryview,
    candidates: list[int],
    i: int,
    scanned_to: int,
    file_end: int,
    expected: int,
    reach: int,
    lengths: list[int],
) -> tuple[int, int] | None:
    """Return the end of a chain of adjacent batches, and the offset after its last offset.

    The chain begins with candidate `i`. It is followed until it has more than `reach` bytes, or
    until the next batch is not a candidate.

    Return None if the end is unknown, because the chain may continue after `scanned_to`, or with a
    batch that the search cannot find. Also return None if `lengths` contains the number of bytes
    from the start of the chain to the end of one of its batches.
    """
    known, start = set(candidates[i:]), candidates[i]
    p = start
    while True:
        first, next_offset = batch_offsets(view, p)
        if first > MAX_OFFSET - (1 << 31):
            return None
        p = batch_end(view, p)
        if p + BATCH_HEADER_SIZE > len(view) or p >= scanned_to or p - start in lengths:
            return None
        if p - start > reach:
            return p, next_offset
        if p not in known:
            break
    magic, (length,) = view[p + MAGIC_AT], INT32.unpack_from(view, p + LENGTH_AT)
    possible_batch = magic <= MAGIC_V2 and length >= MIN_LENGTHS[magic] and batch_end(view, p) <= file_end
    searched = possible_batch and in_reach(view, p, expected) and header_plausible(view, p, len(view))
    if possible_batch and not searched:  # the search skips this header, even if its batch is valid
        if not whole(view, p, len(view)):
            return None
        stored, actual = checksums(view, p, length)
        if stored == actual:
            return None
    return p, next_offset


def resume_after(
    buffer: Buffer,
    found: IntArray,
    position: int,
    origin: int,
    scanned_to: int,
    file_end: int,
    zero_tail: int,
    expected: int,
) -> tuple[int, bool] | None:
    view = view_of(buffer)
    scanned_to, file_end, zero_tail = scanned_to - origin, file_end - origin, zero_tail - origin
    candidates = [p - origin for p in found.tolist() if p > position]
    result = _resume_after(view, candidates, position - origin, scanned_to, file_end, zero_tail, expected)
    return None if result is None else (result[0] + origin, result[1])


def _resume_after(
    view: memoryview, candidates: list[int], bad: int, scanned_to: int, file_end: int, zero_tail: int, expected: int
) -> tuple[int, bool] | None:
    size = len(view)
    if bad < 0 or bad + BATCH_HEADER_SIZE > size or expected < 0:
        return None
    magic, (length,) = view[bad + MAGIC_AT], INT32.unpack_from(view, bad + LENGTH_AT)
    first_offset, next_offset = batch_offsets(view, bad)
    if first_offset > HIGHEST:
        return None
    dense = magic < MAGIC_V2 or (magic == MAGIC_V2 and header_is_dense(view, bad))
    continued = first_offset == expected and dense
    own = OwnCrc(view, bad)
    end = bad + ENTRY_OVERHEAD + length
    if first_offset >= expected and length >= MIN_LEGACY_LENGTH and end <= file_end:
        if end == file_end or end + BATCH_HEADER_SIZE > size or end >= zero_tail:
            return None
        if may_follow(view, end, expected):
            if end >= scanned_to:
                return None
            if continues_log(view, end, expected) or end in candidates:
                return _by_length(view, [p for p in candidates if p < end], end, own)
    covered = 0
    for i, candidate in enumerate(candidates):
        if candidate + BATCH_HEADER_SIZE > size:
            return None
        if own.matches(candidate):
            return candidate, True
        if candidate < covered:
            continue
        end = batch_end(view, candidate)
        (first, after) = batch_offsets(view, candidate)
        if candidate < 5 or end + BATCH_HEADER_SIZE > size or first > HIGHEST:
            return None
        plain, legacy = is_plain(view, candidate), view[candidate + MAGIC_AT] < MAGIC_V2
        if plain and view[candidate + MAGIC_AT] == MAGIC_V1 and magic != MAGIC_V2 and not is_plain(view, bad):
            return None  # the candidate may be inside a wrapper message
        lengths = [varint_before(view, candidate, k) for k in range(1, 6)] + [
            UINT32.unpack_from(view, candidate - 4)[0]
        ]
        if (
            max(lengths) >= end - candidate
            and chain_end(view, candidates, i, scanned_to, file_end, expected, max(lengths), lengths) is None
        ):
            return None
        if continued and expected <= first < next_offset:
            return None
        if first < expected and (continued or plain):
            covered = end
            continue
        at = end
        if continued and first != next_offset:
            chain = chain_end(view, candidates, i, scanned_to, file_end, expected, CHAIN_REACH, [])
            if chain is None:
                return None
            at, after = chain
        if at >= scanned_to or at >= zero_tail:
            return None
        (offset,) = INT64.unpack_from(view, at)
        if (
            at - candidate > CHAIN_REACH
            or continues_log(view, at, after)
            or 0 <= offset - after <= (WRAPPED_MESSAGES if legacy else 0)
            or (at == end and at in candidates)
        ):
            return (
                (candidate, False)
                if first == next_offset
                else _unless_later(view, candidates, i, scanned_to, file_end, next_offset)
            )
        covered = end
    return None


class OwnCrc:
    """Computes the CRC of a damaged batch up to several assumed ends, in ascending order."""

    def __init__(self, view: memoryview, p: int) -> None:
        legacy = view[p + MAGIC_AT] < MAGIC_V2
        self._view, self._update = view, crc32 if legacy else crc32c
        (self._stored,) = UINT32.unpack_from(view, p + (LEGACY_CRC_AT if legacy else CRC_AT))
        self._at, self._crc = p + (MAGIC_AT if legacy else CRC_START), 0

    def matches(self, end: int) -> bool:
        """Return whether the CRC matches if the batch is assumed to end at `end`."""
        if end < self._at:
            return False
        self._crc, self._at = self._update(self._view, self._crc, self._at, end), end
        return bool(self._crc == self._stored)


def _by_length(view: memoryview, inside: list[int], end: int, own: OwnCrc) -> tuple[int, bool] | None:
    """Return where reading resumes if the damaged batch's length field leads to a header at `end`.

    `inside` contains the candidates before `end`. Return None if one of these candidates ends after
    `end`. Otherwise, return the first candidate up to which the CRC of the damaged batch matches,
    or `end` if there is none. The second value is True if the CRC matches up to the returned
    position.
    """
    if any(p + BATCH_HEADER_SIZE > len(view) or batch_end(view, p) > end for p in inside[-SPANNING_FINDS:]):
        return None
    for p in inside[:OWN_CRC_FINDS]:
        if own.matches(p):
            return p, True
    return end, own.matches(end)


def _unless_later(
    view: memoryview, candidates: list[int], i: int, scanned_to: int, file_end: int, next_offset: int
) -> tuple[int, bool] | None:
    """Return candidate `i`, or None if a later candidate may have the offset `next_offset`."""
    reach = candidates[i] + LATER_REACH
    later = [p for p in candidates[i + 1 : i + 1 + LATER_FINDS] if p < reach]
    if any(p + BATCH_HEADER_SIZE > len(view) or INT64.unpack_from(view, p)[0] == next_offset for p in later):
        return None
    beyond = len(candidates) > i + 1 + len(later)  # the next candidate is more than LATER_REACH bytes away
    return (candidates[i], False) if len(later) == LATER_FINDS or beyond or scanned_to >= min(reach, file_end) else None


LENGTH_PROBLEM, MAGIC_PROBLEM, END_PROBLEM = -2, -3, -4
"""Values of the column `problem` of `scan_damaged`. They are the same as in log/reading/parts.py."""


def problem_of(
    view: memoryview, p: int, stop: int, file_end: int, error: KafkaFormatError | None
) -> tuple[int, int, int] | None:
    """Return the columns `problem`, `actual` and `stored` of `scan_damaged` for the batch at `p`.

    Return None if these columns cannot represent `error`.
    """
    if isinstance(error, ChecksumError):
        stored, actual = checksums(view, p, INT32.unpack_from(view, p + LENGTH_AT)[0])
        return view[p + MAGIC_AT], actual, stored
    if isinstance(error, StructureError):
        return LENGTH_PROBLEM, INT32.unpack_from(view, p + LENGTH_AT)[0], 0
    if isinstance(error, UnsupportedError):
        return MAGIC_PROBLEM, INT8_OF[view[p + MAGIC_AT]], 0
    if stop - p >= MAGIC_END and batch_end(view, p) > file_end:
        return END_PROBLEM, file_end - p, batch_end(view, p) - p
    return None


def records_of(view: memoryview, p: int) -> int:
    """Return the number of data records that the header at `p` states.

    Return -1 if the header states no number or an impossible one.
    """
    if view[p + MAGIC_AT] < MAGIC_V2:
        return 1 if is_plain(view, p) else -1
    _, _, _, _, _, attributes, last_delta, _, _, _, _, _, count = HEADER.unpack_from(view, p)
    if not 0 <= count <= last_delta + 1:
        return -1
    return 0 if attributes & CONTROL_BIT else int(count)


def scan_damaged(
    buffer: Buffer,
    table: BatchTable,
    spans: IntArray,
    start: int = 0,
    end: int | None = None,
    file_end: int | None = None,
    expected: int = 0,
    last: int | None = None,
    origin: int = 0,
    window: SearchWindow | None = None,
) -> tuple[int, int, int, int, int | None, KafkaFormatError | None]:
    view = view_of(buffer)
    stop = check_range(view, start, end)
    size = len(view) if file_end is None else file_end
    crcs = PrefixCrcs(view, start)
    p, n, m = start, 0, 0
    while n < len(table) and m < len(spans):
        count, at, error = scan_batches(buffer, table[n : n + 1], p, stop)
        if count:
            row = table[n]
            base, delta = int(row["base_offset"]), int(row["last_offset_delta"])
            if (row["count"] < 0 and row["magic"] < MAGIC_V2) or delta < 0 or base + delta >= MAX_OFFSET:
                return n, m, p, expected, last, None
            before = expected - 1 if last is None else last
            last = base + delta
            expected = (last if base == before + 1 else min(before, last)) + 1
            n, p = n + 1, int(row["position"]) + int(row["size"])
            continue
        problem = problem_of(view, p, stop, size, error)
        if problem is None:
            return n, m, at, expected, last, error
        following, other, records = None, False, -1
        if isinstance(error, ChecksumError):
            following, other = after_corrupted(view, crcs, p, stop, size, expected)
        if following is None and window is not None and window.searched_from <= origin + p < window.searched_to:
            found, own = _resume_in(window, origin + p, expected) or (-1, False)
            if 0 <= found <= origin + stop:
                following, other, records = found - origin, True, records_of(view, p) if own else -1
        if following is None:
            return n, m, at, expected, last, error
        spans[m] = p, following, n, *problem, other, records
        m, p, last = m + 1, following, None
    return n, m, p, expected, last, None


def _resume_in(window: SearchWindow, position: int, expected: int) -> tuple[int, bool] | None:
    buffer, at, found, _, searched_to, file_end, zero_tail = window
    return resume_after(buffer, found, position, at, searched_to, file_end, zero_tail, expected)

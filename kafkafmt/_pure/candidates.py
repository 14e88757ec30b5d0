"""Reject valid batches that a search has found after damage, and that do not belong to the log.

Such batches are part of record values or of wrapper messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_ZSTD,
    CRC_AT,
    CRC_START,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_CRC_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    MAX_OFFSET,
    MIN_LEGACY_LENGTH,
    MIN_LENGTHS,
)
from .batch import INT32, INT64, UINT32, checksums
from .crc import crc32, crc32c
from .plausible import (
    batch_end,
    batch_offsets,
    continues_log,
    header_is_dense,
    header_plausible,
    in_reach,
    is_plain,
    whole,
)

CHAIN_REACH = 1 << 16
LATER_REACH = 1 << 20
LATER_FINDS = 16
SPANNING_FINDS = 256
OWN_CRC_FINDS = 64
"""The limits from CHAIN_REACH to OWN_CRC_FINDS must be equal to the limits in
log/damage/search.py. CHAIN_REACH has the name LONG_CHAIN in log/damage/embedded.py, and
LATER_REACH has the name LARGEST_WINDOW in log/damage/batch_finder.py.
"""
WRAPPED_MESSAGES = 0xFFFF
"""Largest accepted gap in the offsets after a message of format 0 or 1. There can be a gap because
the offset of a wrapper message is the offset of its last inner message.
"""
MANY_MESSAGES = 1 << 20
"""Upper limit for the number of messages in a wrapper message. log/damage/embedded.py defines the same value."""
HIGHEST = MAX_OFFSET - (1 << 32)
"""Highest offset of a header that is judged. A batch with a higher offset is undecided, so that sums
of offsets cannot overflow int64 in the native core.
"""
ALL_REJECTED, ACCEPTED, UNDECIDED, OWN_END = range(4)


class Damage:
    """The damaged batch at the start of a search.

    Parameters
    ----------
    view, at
        The header is at the position `at` of `view`.
    position : int
        Position of the batch. The attributes `end` and `summed` are relative to the same origin.
    expected : int
        Lowest offset that the batch can have.

    Attributes
    ----------
    end : int or None
        End of the batch according to its length field. None if this field is implausible.
    continues : bool
        Whether the header is consistent, and its offset is `expected`.
    trusted : bool
        Whether the offset range of the header is trusted, see ``EmbeddedBatches._covered_end``.
    summed, crc : int
        A position, and the CRC of the batch's bytes up to this position.
    """

    def __init__(self, view: memoryview, at: int, position: int, expected: int) -> None:
        self.magic, (length,) = view[at + MAGIC_AT], INT32.unpack_from(view, at + LENGTH_AT)
        self.first_offset, self.next_offset = batch_offsets(view, at)
        legacy = self.magic < MAGIC_V2
        self.end: int | None = None
        if self.first_offset >= expected and length >= MIN_LEGACY_LENGTH:
            self.end = position + ENTRY_OVERHEAD + length
        # Zeros look like the header of a message of format 0.
        dense = (
            any(view[at + LENGTH_AT : at + MAGIC_AT])
            if legacy
            else self.magic == MAGIC_V2 and header_is_dense(view, at)
        )
        self.continues: bool = self.first_offset == expected and dense
        # A header of zeros has the magic and the codec of an uncompressed message, but its length is impossible.
        possible = legacy and length >= MIN_LENGTHS[self.magic]
        self.plain: bool = possible and is_plain(view, at)
        self.wrapper: bool = possible and 0 < view[at + LEGACY_ATTRIBUTES_AT] & CODEC_MASK < CODEC_ZSTD
        codec = view[at + LEGACY_ATTRIBUTES_AT] & CODEC_MASK if legacy else 0
        self.trusted: bool = self.continues or (dense and not codec and in_reach(view, at, expected))
        self._update = crc32 if legacy else crc32c
        (self._stored,) = UINT32.unpack_from(view, at + (LEGACY_CRC_AT if legacy else CRC_AT))
        self.summed, self.crc = position + (MAGIC_AT if legacy else CRC_START), 0

    def ends_before(self, view: memoryview, position: int) -> bool:
        """Return whether the CRC of the batch matches if the batch ends at `position` of `view`.

        Call the method with the positions in ascending order.
        """
        if position < self.summed:
            return False
        self.crc, self.summed = self._update(view, self.crc, self.summed, position), position
        return bool(self.crc == self._stored)


@dataclass
class Rejected:
    """The candidates that were rejected so far.

    Attributes
    ----------
    count : int
        Index of the first candidate that was not rejected.
    covered : int
        Candidates before this position are inside rejected candidates.
    after_inner : int
        Offset after the inner messages that were rejected last.
    """

    count: int = 0
    covered: int = 0
    after_inner: int = 0


def varint_before(view: memoryview, p: int, size: int) -> int:
    """Decode the `size` bytes before `p` as one 32-bit zigzag varint.

    Return the decoded number. Return -1 if the number is negative, or if the bytes are not exactly
    one varint.
    """
    raw = view[p - size : p]
    if raw[-1] & 0x80 or any(not b & 0x80 for b in raw[:-1]):
        return -1
    value = sum((b & 0x7F) << 7 * i for i, b in enumerate(raw)) & 0xFFFFFFFF
    return -1 if value & 1 else value >> 1


def may_be_missed(view: memoryview, p: int, file_end: int, expected: int) -> bool:
    """Return whether a valid batch may begin at `p` although the search has not found it.

    The search ignores implausible headers, even if their batches are valid.
    """
    magic, (length,) = view[p + MAGIC_AT], INT32.unpack_from(view, p + LENGTH_AT)
    if magic > MAGIC_V2 or length < MIN_LENGTHS[magic] or batch_end(view, p) > file_end:
        return False
    if in_reach(view, p, expected) and header_plausible(view, p, len(view)):
        return False
    if not whole(view, p, len(view)):
        return True
    stored, actual = checksums(view, p, length)
    return bool(stored == actual)


def chain_end(
    view: memoryview,
    candidates: list[int],
    i: int,
    scanned_to: int,
    file_end: int,
    expected: int,
    reach: int,
    stop_after: int,
) -> tuple[int, int] | None:
    """Return the end position of a sequence of adjacent valid batches, and the offset after the last record.

    `candidates` contains the positions of the valid batches that a search found. The sequence of
    adjacent batches starts at `candidates[i]`. It ends after the first batch that is not directly
    followed by another candidate, after more than `reach` bytes, or after exactly `stop_after` bytes.

    Return None if the offsets of the batches do not increase, or if the sequence may continue with a
    batch that the search has not reached or cannot find.
    """
    known, start = set(candidates[i:]), candidates[i]
    p = start
    while True:
        first, next_offset = batch_offsets(view, p)
        if first > MAX_OFFSET - (1 << 31):
            return None
        p = batch_end(view, p)
        if p + BATCH_HEADER_SIZE > len(view) or p >= scanned_to:
            return None
        if p - start > reach or p - start == stop_after:
            return p, next_offset
        if p not in known:
            break
        if INT64.unpack_from(view, p)[0] < next_offset:
            return None
    return None if may_be_missed(view, p, file_end, expected) else (p, next_offset)


def value_end(
    view: memoryview, candidates: list[int], i: int, scanned_to: int, file_end: int, zero_tail: int, expected: int
) -> int | None:
    """Return the end of the record value that begins with the candidate `i`, or 0 if no record value begins there.

    Return None if the decision depends on bytes that are not in memory. See
    ``EmbeddedBatches._value_end``.
    """
    start = candidates[i]
    extent = batch_end(view, start) - start
    (legacy,) = UINT32.unpack_from(view, start - 4)
    lengths = [varint_before(view, start, k) for k in range(1, 6)]
    # A longer value is not recognized.
    if not any(extent <= n <= max(LATER_REACH, extent) for n in (legacy, *lengths)):
        return 0
    chain = chain_end(view, candidates, i, scanned_to, file_end, expected, max(legacy, *lengths), legacy)
    if chain is None:
        return None
    end, next_offset = chain
    if end - start > LATER_REACH or end >= zero_tail:
        return None
    recognized = end - start == legacy or (end - start in lengths and not continues_log(view, end, next_offset))
    return end if recognized else 0


def inner_messages_end(
    view: memoryview,
    candidates: list[int],
    i: int,
    scanned_to: int,
    file_end: int,
    zero_tail: int,
    expected: int,
    among_plain: bool,
    bad: Damage,
    rejected: Rejected,
) -> int | None:
    """Return the end of the inner messages of a damaged wrapper message, or 0 if there are none.

    The uncompressed message of format 1 at ``candidates[i]`` is checked. `bad` is the damaged batch.
    Store the offset after the last inner message in `rejected`. Return None if the decision depends
    on bytes that are not in memory, or on compressed data. See
    ``EmbeddedBatches._inner_messages_end``.
    """
    wrapper_offset = bad.first_offset if bad.wrapper else None
    known, start = set(candidates[i:]), candidates[i]
    ends, offsets = [start], [INT64.unpack_from(view, start)[0]]
    if among_plain and wrapper_offset is None and 0 < offsets[0] < expected:
        return 0
    following: int | None = None
    while following is None:
        ends.append(batch_end(view, ends[-1]))
        end = ends[-1]
        if end - start > CHAIN_REACH or end + BATCH_HEADER_SIZE > len(view) or end >= min(scanned_to, zero_tail):
            return None
        if offsets[-1] == MAX_OFFSET:
            return None
        if end not in known:
            if may_be_missed(view, end, file_end, expected):
                return None
            break
        (offset,) = INT64.unpack_from(view, end)
        if view[end + MAGIC_AT] != MAGIC_V1 or not is_plain(view, end) or offset <= offsets[-1]:
            following = offset
        else:
            offsets.append(offset)
    end = ends.pop()
    highest = -1
    if wrapper_offset is not None:
        in_range = expected <= wrapper_offset <= expected + MANY_MESSAGES
        highest = wrapper_offset - expected if in_range else MANY_MESSAGES
    ahead = not among_plain or (following is not None and not is_plain(view, end))
    borders = [k for k, o in enumerate(offsets) if k == 0 or o != offsets[k - 1] + 1 or o == highest + 1]
    firsts = [offsets[k] for k in borders]
    covered = 0
    for first, after, end_at in zip(firsts, [*firsts[1:], None], [*(ends[k] for k in borders[1:]), end], strict=True):
        inner = first <= highest or (first == 0 < expected if among_plain else first < expected)
        if after is not None:
            inner = inner or (ahead and first <= after - expected)
        elif not inner and following is None:
            inner = not among_plain or first <= expected
        elif not inner and following is not None and first <= following - expected:
            if view[end + MAGIC_AT] < MAGIC_V2 and not is_plain(view, end):
                return None
            inner = following != offsets[-1] + 1
        if not inner:
            break
        covered = end_at
    if covered:
        rejected.after_inner = offsets[[*ends, end].index(covered) - 1] + 1
    return covered


def judge_candidates(
    view: memoryview,
    candidates: list[int],
    scanned_to: int,
    file_end: int,
    zero_tail: int,
    expected: int,
    among_plain: bool | None,
    bad: Damage,
    rejected: Rejected,
) -> int:
    """Reject candidates from ``rejected.count`` on, until one cannot be rejected.

    Return the reason for the end:

    - ACCEPTED: the next candidate belongs to the log.
    - UNDECIDED: the bytes in memory are not sufficient for the next candidate, or the case is rare.
    - OWN_END: the CRC of the damaged batch matches the bytes before the next candidate.
    - ALL_REJECTED: no candidate is left.
    """
    size = len(view)
    for i in range(rejected.count, len(candidates)):
        candidate, rejected.count = candidates[i], i
        # `view` must contain the header of the candidate, and the five bytes before it, which `value_end` reads.
        if candidate < 5 or candidate + BATCH_HEADER_SIZE > size:
            return UNDECIDED
        if bad.ends_before(view, candidate):
            return OWN_END
        if candidate < rejected.covered:
            continue
        end = batch_end(view, candidate)
        (first, after) = batch_offsets(view, candidate)
        if end + BATCH_HEADER_SIZE > size or first > HIGHEST:
            return UNDECIDED
        plain, legacy = is_plain(view, candidate), view[candidate + MAGIC_AT] < MAGIC_V2
        value = value_end(view, candidates, i, scanned_to, file_end, zero_tail, expected)
        if value is None:
            return UNDECIDED
        if value:
            rejected.covered = value
            continue
        if bad.trusted and bad.first_offset <= first < bad.next_offset:
            return UNDECIDED
        trusted = first > MANY_MESSAGES or (bad.continues and (bad.plain or bad.magic == MAGIC_V2))
        if plain and view[candidate + MAGIC_AT] == MAGIC_V1 and not trusted:
            if among_plain is None:
                return UNDECIDED
            inner = inner_messages_end(
                view, candidates, i, scanned_to, file_end, zero_tail, expected, among_plain, bad, rejected
            )
            if inner is None:
                return UNDECIDED
            if inner:
                rejected.covered = inner
                continue
        if first < expected and (bad.continues or plain):
            rejected.covered = end
            continue
        at, linked = end, bad.continues and first != bad.next_offset
        if linked:
            chain = chain_end(view, candidates, i, scanned_to, file_end, expected, CHAIN_REACH, -1)
            if chain is None:
                return UNDECIDED
            at, after = chain
        if at >= scanned_to or at >= zero_tail:
            return UNDECIDED
        (offset,) = INT64.unpack_from(view, at)
        if (
            (linked and at - candidate > CHAIN_REACH)
            or continues_log(view, at, after)
            or 0 <= offset - after <= (WRAPPED_MESSAGES if legacy else 0)
        ):
            return ACCEPTED
        if at == end and at in candidates:
            return UNDECIDED  # The valid batch at `end` has an offset that does not follow the offsets before it.
        rejected.covered = at
    rejected.count = len(candidates)
    return ALL_REJECTED

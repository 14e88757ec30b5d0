"""From the batches that a search has found, choose the one at which reading resumes after damage."""

from __future__ import annotations

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
from ..types import Buffer, IntArray
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
    may_follow,
    whole,
)
from .varint import view_of

CHAIN_REACH = 1 << 16
LATER_REACH = 1 << 20
LATER_FINDS = 16
SPANNING_FINDS = 256
OWN_CRC_FINDS = 64
"""The limits from CHAIN_REACH to OWN_CRC_FINDS must be equal to the limits in
log/reading/search.py. CHAIN_REACH has the name LONG_CHAIN in log/reading/embedded.py, and
LATER_REACH has the name LARGEST_WINDOW in log/reading/batch_finder.py.
"""
WRAPPED_MESSAGES = 0xFFFF
"""Largest accepted gap in the offsets after a message of format 0 or 1. There can be a gap because
the offset of a wrapper message is the offset of its last inner message.
"""
MANY_MESSAGES = 1 << 20
"""Upper limit for the number of messages in a wrapper message. log/reading/embedded.py defines the same value."""
HIGHEST = MAX_OFFSET - (1 << 32)
"""Highest offset of a header that `resume_after` handles. For a higher offset, `resume_after`
returns None, so that sums of offsets cannot overflow int64 in the native core.
"""


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
    lengths: list[int],
) -> tuple[int, int] | None:
    """Return the end position of a sequence of adjacent valid batches, and the offset after the last record.

    `candidates` contains the positions of the valid batches that a search found. The sequence of
    adjacent batches starts at `candidates[i]`. It ends after the first batch that is not directly
    followed by another candidate, or after more than `reach` bytes.

    Return None in these cases:

    - `lengths` contains the distance from the start of the sequence to the end of one of its
      batches. In this case, the batches may be part of a record.
    - The offsets of the batches do not increase.
    - The sequence may continue with a batch that the search has not reached or cannot find.
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
        if INT64.unpack_from(view, p)[0] < next_offset:
            return None
    return None if may_be_missed(view, p, file_end, expected) else (p, next_offset)


def inner_messages_end(
    view: memoryview,
    candidates: list[int],
    i: int,
    scanned_to: int,
    file_end: int,
    zero_tail: int,
    expected: int,
    among_plain: bool,
    wrapper_offset: int | None,
) -> int | None:
    """Return the end of the inner messages of a damaged wrapper message, or 0 if there are none.

    The uncompressed message of format 1 at ``candidates[i]`` is checked. If the damage begins with
    the header of a wrapper message, `wrapper_offset` is the offset in this header. Return None if
    the decision depends on bytes that are not in memory, or on compressed data. See
    ``EmbeddedBatches._inner_messages_end``.
    """
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
    return covered


def resume_after(
    buffer: Buffer,
    found: IntArray,
    position: int,
    origin: int,
    scanned_to: int,
    file_end: int,
    zero_tail: int,
    expected: int,
    among_plain: bool | None,
) -> tuple[int, bool] | None:
    view = view_of(buffer)
    scanned_to, file_end, zero_tail = scanned_to - origin, file_end - origin, zero_tail - origin
    candidates = [p - origin for p in found.tolist() if p > position]
    result = _resume_after(view, candidates, position - origin, scanned_to, file_end, zero_tail, expected, among_plain)
    return None if result is None else (result[0] + origin, result[1])


def _resume_after(
    view: memoryview,
    candidates: list[int],
    bad: int,
    scanned_to: int,
    file_end: int,
    zero_tail: int,
    expected: int,
    among_plain: bool | None,
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
    length_end = end if first_offset >= expected and length >= MIN_LEGACY_LENGTH else file_end
    if first_offset >= expected and length >= MIN_LEGACY_LENGTH and end <= file_end:
        if end == file_end or end + BATCH_HEADER_SIZE > size or end >= zero_tail:
            return None
        if may_follow(view, end, expected):
            if end >= scanned_to:
                return None
            if continues_log(view, end, expected) or end in candidates:
                inside = [p for p in candidates if p < end]
                if any(p + BATCH_HEADER_SIZE > size for p in inside[-SPANNING_FINDS:]):
                    return None
                if known := _by_length(view, inside, end, end in candidates, own):
                    return known
    # A destroyed header can contain zeros, which must not count as an uncompressed message.
    legacy_bad = magic < MAGIC_V2 and length >= MIN_LENGTHS[magic]
    plain_bad = legacy_bad and is_plain(view, bad)
    wrapper = legacy_bad and 0 < view[bad + LEGACY_ATTRIBUTES_AT] & CODEC_MASK < CODEC_ZSTD
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
        lengths = [varint_before(view, candidate, k) for k in range(1, 6)] + [
            UINT32.unpack_from(view, candidate - 4)[0]
        ]
        extent = end - candidate
        # EmbeddedBatches._value_end does not recognize longer values.
        if (
            any(extent <= n <= max(LATER_REACH, extent) for n in lengths)
            and chain_end(view, candidates, i, scanned_to, file_end, expected, max(lengths), lengths) is None
        ):
            return None
        if continued and expected <= first < next_offset:
            return None
        trusted = first > MANY_MESSAGES or (continued and (plain_bad or magic == MAGIC_V2))
        if plain and view[candidate + MAGIC_AT] == MAGIC_V1 and not trusted:
            if among_plain is None:
                return None
            inner = inner_messages_end(
                view,
                candidates,
                i,
                scanned_to,
                file_end,
                zero_tail,
                expected,
                among_plain,
                first_offset if wrapper else None,
            )
            if inner is None:
                return None
            if inner:
                covered = inner
                continue
        if first < expected and (continued or plain):
            covered = end
            continue
        at, linked = end, continued and first != next_offset
        if linked:
            chain = chain_end(view, candidates, i, scanned_to, file_end, expected, CHAIN_REACH, [])
            if chain is None:
                return None
            at, after = chain
        if at >= scanned_to or at >= zero_tail:
            return None
        (offset,) = INT64.unpack_from(view, at)
        if (
            (linked and at - candidate > CHAIN_REACH)
            or continues_log(view, at, after)
            or 0 <= offset - after <= (WRAPPED_MESSAGES if legacy else 0)
        ):
            return (
                (candidate, False)
                if first == next_offset
                else _unless_later(view, candidates, i, scanned_to, file_end, next_offset)
            )
        if at == end and at in candidates:
            return None  # The valid batch at `end` has an offset that does not follow the offsets before it.
        if at > end and length_end <= candidate:
            return None  # If several batches end with damage, a later batch may confirm them.
        covered = at
    return None


class OwnCrc:
    """Checks whether the CRC of a damaged batch matches if the batch ends at another position.

    Call `matches` with the positions in ascending order.
    """

    def __init__(self, view: memoryview, p: int) -> None:
        legacy = view[p + MAGIC_AT] < MAGIC_V2
        self._view, self._update = view, crc32 if legacy else crc32c
        (self._stored,) = UINT32.unpack_from(view, p + (LEGACY_CRC_AT if legacy else CRC_AT))
        self._at, self._crc = p + (MAGIC_AT if legacy else CRC_START), 0

    def matches(self, end: int) -> bool:
        """Return whether the batch's CRC matches the bytes up to the position `end`."""
        if end < self._at:
            return False
        self._crc, self._at = self._update(self._view, self._crc, self._at, end), end
        return bool(self._crc == self._stored)


def _by_length(view: memoryview, inside: list[int], end: int, valid: bool, own: OwnCrc) -> tuple[int, bool] | None:
    """Return the position at which reading resumes after a damaged batch, and whether the batch's CRC matches.

    According to its length field, the damaged batch ends at the position `end`, at which another
    header begins. If this is the header of a valid batch, `valid` is True. The list `inside`
    contains the positions of valid batches between the start of the damaged batch and `end`.

    If the CRC of the damaged batch matches the bytes up to a position in `inside`, return the first
    such position. Otherwise, return `end`. If one of the valid batches contains the header at `end`,
    and this is not the header of a valid batch, return None, because the length field is wrong.
    """
    for p in inside[:OWN_CRC_FINDS]:
        if own.matches(p):
            return p, True
    if not valid and any(batch_end(view, p) > end for p in inside[-SPANNING_FINDS:]):
        return None
    return end, own.matches(end)


def _unless_later(
    view: memoryview, candidates: list[int], i: int, scanned_to: int, file_end: int, next_offset: int
) -> tuple[int, bool] | None:
    """Accept candidate `i`, unless a later candidate may be the batch with the offset `next_offset`."""
    reach = candidates[i] + LATER_REACH
    later = [p for p in candidates[i + 1 : i + 1 + LATER_FINDS] if p < reach]
    if any(p + BATCH_HEADER_SIZE > len(view) or INT64.unpack_from(view, p)[0] == next_offset for p in later):
        return None
    # If True, another valid batch was found more than LATER_REACH bytes after `candidates[i]`.
    beyond = len(candidates) > i + 1 + len(later)
    return (candidates[i], False) if len(later) == LATER_FINDS or beyond or scanned_to >= min(reach, file_end) else None

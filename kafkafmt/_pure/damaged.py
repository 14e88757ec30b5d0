"""Find the valid batches and the damaged byte ranges in a buffer."""

from __future__ import annotations

from ..constants import (
    BATCH_HEADER_SIZE,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_V2,
    MAX_OFFSET,
)
from ..errors import ChecksumError, KafkaFormatError
from ..types import BatchTable, Buffer, IntArray
from .batch import INT32, checksums, scan_batches
from .plausible import batch_end, continues_log, plausible_positions, stored_crc, whole
from .prefix_crcs import PrefixCrcs
from .varint import check_range, view_of


def may_begin(
    view: memoryview, crcs: PrefixCrcs, p: int, following: int, stop: int, file_end: int, expected: int
) -> tuple[bool, bool]:
    """Check whether the bytes at `p`, which look like a batch header, are accepted as the header of a batch in the log.

    The CRC of the batch must match, unless the batch ends after the position `following`, and its base
    offset is between the expected next offset `expected` and `expected` + 2**31 - 1. In this case, the
    CRC need not match, but the batch must end at or before the position `file_end`.

    Return two bools: whether the header is accepted, and whether the header is rejected only
    because its batch would end after `file_end`.
    """
    if not whole(view, p, following):
        if continues_log(view, p, expected):
            beyond = batch_end(view, p) > file_end
            return not beyond, beyond
        if not whole(view, p, stop):
            return False, False
    return crcs.of_batch(p, batch_end(view, p)) == stored_crc(view, p), False


def after_corrupted(
    view: memoryview, crcs: PrefixCrcs, p: int, stop: int, file_end: int, expected: int
) -> tuple[int | None, bool]:
    """Check whether the length field of a damaged batch is plausible. The CRC of the batch does not match.

    Return the position at which the batch ends, and a bool. The bool is True if bytes inside the
    batch look like a batch header whose length exceeds the rest of the file. If the length field of
    the batch cannot be trusted, return None and False.
    """
    if stop - p < BATCH_HEADER_SIZE or not continues_log(view, p, expected) or not whole(view, p, stop):
        return None, False
    following, any_beyond = batch_end(view, p), False
    if stop - following < BATCH_HEADER_SIZE or not continues_log(view, following, expected):
        return None, False
    for q in plausible_positions(view, p + 1, following, stop):
        begins, beyond = may_begin(view, crcs, q, following, stop, file_end, expected)
        if begins:
            return None, False
        any_beyond |= beyond
    return following, any_beyond


WRAPPER_PROBLEM, DELTA_PROBLEM = -6, -8
"""Values of the column `problem` of `scan_damaged`. log/damage/parts.py defines the same values."""


def scan_damaged(
    buffer: Buffer,
    table: BatchTable,
    spans: IntArray,
    start: int = 0,
    end: int | None = None,
    file_end: int | None = None,
    expected: int = 0,
    last: int | None = None,
    wrappers: IntArray | None = None,
    prefetch: bool = False,
) -> tuple[int, int, int, int, int | None, KafkaFormatError | None]:
    view = view_of(buffer)
    stop = check_range(view, start, end)
    size = len(view) if file_end is None else file_end
    crcs = PrefixCrcs(view, start)
    p, n, m = start, 0, 0
    inner = {} if wrappers is None else {at: rest for at, *rest in wrappers.tolist()}
    while n < len(table) and m < len(spans):
        count, at, error = scan_batches(buffer, table[n : n + 1], p, stop)
        if count:
            row = table[n]
            base, delta = int(row["base_offset"]), int(row["last_offset_delta"])
            wrapper = row["count"] < 0 and row["magic"] < MAGIC_V2
            if delta < 0:
                spans[m] = p, at, DELTA_PROBLEM, base, delta, -1, n, True
                m, p, last = m + 1, at, None
                continue
            if (wrapper and wrappers is None) or base + delta >= MAX_OFFSET:
                return n, m, p, expected, last, None
            first = base
            if wrapper and p in inner:
                first, inner_last, records = inner[p]
                if inner_last != base or first > inner_last:
                    spans[m] = p, at, WRAPPER_PROBLEM, base, inner_last, records, n, True
                    m, p, last = m + 1, at, None
                    continue
            elif wrapper and not prefetch:
                return n, m, p, expected, last, None
            previous = expected - 1 if last is None else last
            last = base + delta
            # After a gap, the offset may be corrupted, so the lower offset counts.
            expected = 1 + (last if first == previous + 1 else min(last, previous))
            n, p = n + 1, at
            continue
        if not isinstance(error, ChecksumError):
            return n, m, at, expected, last, error
        following, other = after_corrupted(view, crcs, p, stop, size, expected)
        if following is None:
            return n, m, at, expected, last, error
        stored, actual = checksums(view, p, INT32.unpack_from(view, p + LENGTH_AT)[0])
        spans[m] = p, following, view[p + MAGIC_AT], actual, stored, -1, n, other
        m, p, last = m + 1, following, None
    return n, m, p, expected, last, None

"""Find the valid batches and the damaged byte ranges in a buffer."""

from __future__ import annotations

from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CODEC_NONE,
    CONTROL_BIT,
    LENGTH_AT,
    MAGIC_AT,
    MAGIC_END,
    MAGIC_V2,
    MAX_OFFSET,
)
from ..errors import ChecksumError, KafkaFormatError, StructureError, UnsupportedError
from ..types import BatchTable, Buffer, IntArray, SearchWindow
from .batch import HEADER, INT8_OF, INT32, checksums, scan_batches
from .expected import next_expected
from .plausible import batch_end, continues_log, is_plain, plausible_positions, stored_crc, whole
from .prefix_crcs import PrefixCrcs
from .resume import resume_after
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


LENGTH_PROBLEM, MAGIC_PROBLEM, END_PROBLEM, WRAPPER_PROBLEM, DELTA_PROBLEM = -2, -3, -4, -6, -8
"""Values of the column `problem` of `scan_damaged`. log/damage/parts.py defines the same values."""


def problem_of(
    view: memoryview, p: int, stop: int, file_end: int, error: KafkaFormatError | None
) -> tuple[int, int, int] | None:
    """Describe the error of the batch at `p` with a problem code, the actual value and the stored value.

    Return None for an error without a problem code.
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
    """Return the number of data records according to the header at `p`.

    Return -1 if the header does not contain a record count, or if the record count is impossible.
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
    wrappers: IntArray | None = None,
    prefetch: bool = False,
    anchor: IntArray | None = None,
) -> tuple[int, int, int, int, int | None, KafkaFormatError | None]:
    view = view_of(buffer)
    stop = check_range(view, start, end)
    size = len(view) if file_end is None else file_end
    crcs = PrefixCrcs(view, start)
    p, n, m = start, 0, 0
    inner = {} if wrappers is None else {at: rest for at, *rest in wrappers.tolist()}
    magics, codecs = (window.magics, window.codecs) if window is not None else (0, 0)
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
            end_at = int(row["position"]) + int(row["size"])
            expected = next_expected(first, base + delta, origin + p, origin + end_at, expected, last, anchor)
            last = base + delta
            magics |= 1 << int(row["magic"])
            codecs |= 1 << int(row["attributes"] & CODEC_MASK)
            n, p = n + 1, end_at
            continue
        problem = problem_of(view, p, stop, size, error)
        if problem is None:
            return n, m, at, expected, last, error
        following, other, records = None, False, -1
        if isinstance(error, ChecksumError):
            following, other = after_corrupted(view, crcs, p, stop, size, expected)
        if following is None and window is not None and window.searched_from <= origin + p < window.searched_to:
            among_plain = (magics != 1 << MAGIC_V2 and codecs == 1 << CODEC_NONE) if magics else None
            found, own = _resume_in(window, origin + p, expected, among_plain) or (-1, False)
            if 0 <= found <= origin + stop:
                following, other, records = found - origin, True, records_of(view, p) if own else -1
        if following is None:
            return n, m, at, expected, last, error
        spans[m] = p, following, *problem, records, n, other
        m, p, last = m + 1, following, None
    return n, m, p, expected, last, None


def _resume_in(window: SearchWindow, position: int, expected: int, among_plain: bool | None) -> tuple[int, bool] | None:
    buffer, at, found, _, searched_to, file_end, zero_tail, _, _ = window
    return resume_after(buffer, found, position, at, searched_to, file_end, zero_tail, expected, among_plain)

"""From the batches that a search has found, choose the one at which reading resumes after damage."""

from __future__ import annotations

from ..constants import BATCH_HEADER_SIZE
from ..types import Buffer, IntArray
from .batch import INT64
from .candidates import (
    ACCEPTED,
    HIGHEST,
    LATER_FINDS,
    LATER_REACH,
    OWN_CRC_FINDS,
    OWN_END,
    SPANNING_FINDS,
    Damage,
    Rejected,
    judge_candidates,
)
from .cut_off import is_cut_off
from .plausible import batch_end, continues_log, in_reach, may_follow
from .varint import view_of


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
    if bad < 0 or bad + BATCH_HEADER_SIZE > len(view) or expected < 0:
        return None
    damage = Damage(view, bad, bad, expected)
    if damage.first_offset > HIGHEST:
        return None
    end = damage.end
    if end is not None and end <= file_end:
        if end == file_end or end + BATCH_HEADER_SIZE > len(view) or end >= zero_tail:
            return None
        if may_follow(view, end, expected):
            if end >= scanned_to:
                return None
            if continues_log(view, end, expected) or end in candidates:
                inside = [p for p in candidates if p < end]
                if any(p + BATCH_HEADER_SIZE > len(view) for p in inside[-SPANNING_FINDS:]):
                    return None
                if known := _by_length(view, inside, end, end in candidates, damage):
                    return known
    rejected = Rejected()
    outcome = judge_candidates(
        view, candidates, scanned_to, file_end, zero_tail, expected, among_plain, damage, rejected
    )
    i = rejected.count
    if outcome == OWN_END:
        return candidates[i], True
    if outcome != ACCEPTED:
        return None
    if in_reach(view, bad, expected):
        at = _end_by_crc(view, candidates, i, scanned_to, file_end, damage)
        if at != 0:
            return (at, True) if at > 0 else None
    if INT64.unpack_from(view, candidates[i])[0] == damage.next_offset:
        return candidates[i], False
    if end is not None and file_end - bad <= LATER_REACH and is_cut_off(view, bad, end, file_end) is not False:
        return None
    return candidates[i], False


def reject_candidates(
    buffer: Buffer,
    found: IntArray,
    head: bytes,
    state: IntArray,
    position: int,
    origin: int,
    scanned_to: int,
    file_end: int,
    zero_tail: int,
    expected: int,
    among_plain: bool | None,
) -> None:
    start, covered, after_inner, summed, crc = state.tolist()
    if len(head) < BATCH_HEADER_SIZE or expected < 0 or summed < origin:
        return
    damage = Damage(view_of(head), 0, position - origin, expected)
    if damage.first_offset > HIGHEST:
        return
    damage.summed, damage.crc = summed - origin, crc
    rejected = Rejected(0, covered - origin, after_inner)
    candidates = [p - origin for p in found.tolist() if p >= start]
    to, end, zeros = scanned_to - origin, file_end - origin, zero_tail - origin
    judge_candidates(view_of(buffer), candidates, to, end, zeros, expected, among_plain, damage, rejected)
    left = candidates[rejected.count :]
    undecided = left[0] + origin if left else max(scanned_to, start)
    state[:] = undecided, rejected.covered + origin, rejected.after_inner, damage.summed + origin, damage.crc


def _by_length(view: memoryview, inside: list[int], end: int, valid: bool, damage: Damage) -> tuple[int, bool] | None:
    """Return the position at which reading resumes after a damaged batch, and whether the batch's CRC matches.

    According to its length field, the damaged batch ends at the position `end`, at which another
    header begins. If this is the header of a valid batch, `valid` is True. The list `inside`
    contains the positions of valid batches between the start of the damaged batch and `end`.

    If the CRC of the damaged batch matches the bytes up to a position in `inside`, return the first
    such position. Otherwise, return `end`. If one of the valid batches contains the header at `end`,
    and this is not the header of a valid batch, return None, because the length field is wrong.
    """
    for p in inside[:OWN_CRC_FINDS]:
        if damage.ends_before(view, p):
            return p, True
    if not valid and any(batch_end(view, p) > end for p in inside[-SPANNING_FINDS:]):
        return None
    return end, damage.ends_before(view, end)


def _end_by_crc(view: memoryview, candidates: list[int], i: int, scanned_to: int, file_end: int, damage: Damage) -> int:
    """Return the end of the damaged batch if its CRC matches there, and this end is after candidate `i`.

    The starts of later candidates and the end of the file are tested. Return 0 if the CRC matches
    nowhere, or -1 if the bytes in memory are not sufficient.
    """
    reach = min(candidates[i] + LATER_REACH, file_end)
    ends = [p for p in candidates[i + 1 : i + 1 + LATER_FINDS] if p < reach]
    # If False, another valid batch was found more than LATER_REACH bytes after `candidates[i]`.
    complete = len(candidates) == i + 1 + len(ends)
    if len(ends) < LATER_FINDS and complete and scanned_to < reach:
        ends.append(-1)  # these bytes were not searched completely
    elif len(ends) < LATER_FINDS and reach == file_end:
        ends.append(file_end)
    for end in ends:
        if not 0 <= end <= len(view):
            return -1
        if damage.ends_before(view, end):
            return end
    return 0

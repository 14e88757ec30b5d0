"""Find valid batches in arbitrary bytes, and read the headers of known ranges of adjacent batches."""

from __future__ import annotations

from ..types import Buffer, IntArray
from .plausible import batch_end, in_reach, plausible_positions, stored_crc, whole
from .prefix_crcs import PrefixCrcs
from .varint import check_range, view_of


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

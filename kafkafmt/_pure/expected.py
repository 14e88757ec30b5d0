"""Find the lowest offset that the batch after a valid batch can have.

Valid batches are doubtful if their offsets do not fit to their place. For example, a disk can store a
block of another file in a segment. Doubtful batches do not change the lowest offset that the next
batch can have. The native core documents the rules in `expected_after`.
"""

from __future__ import annotations

from ..constants import MAX_OFFSET
from ..types import BatchTable, IntArray
from ..types import last_offset as last_offset_of

FAR = 3
"""A batch is doubtful if FAR times the lost bytes could not contain the missing offsets."""
DOUBTFUL_BYTES = 1 << 20
"""Maximum size of the lost bytes and the doubtful batches after them."""


def is_far(first: int, last_offset: int, size: int, lost: int, expected: int, anchor: IntArray) -> bool:
    """Return whether `lost` bytes are too few for the offsets that are missing before a batch.

    The number of offsets that fit into these bytes is estimated from this batch, and from all bytes
    of the segment before the lost bytes.
    """
    position, base = anchor.tolist()
    before = float(max(expected - base, 0)) / float(position) if position > 0 else 0.0
    here = (float(max(last_offset - first, 0)) + 1.0) / float(size)
    return float(max(first - expected, 0)) > FAR * float(lost) * max(before, here)


def next_expected(
    first: int, last_offset: int, position: int, end: int, expected: int, last: int | None, anchor: IntArray | None
) -> int:
    """Return the lowest offset that the batch after a valid batch can have.

    The valid batch has the offsets from `first` to `last_offset`, and extends from the file position
    `position` to `end`. `expected` is the lowest offset that it can have. See `expected_after` for
    `last` and `anchor`.
    """
    before, continues = expected - 1 if last is None else last, last is not None and first == last + 1
    if anchor is not None:
        lost = end - int(anchor[0])
        certain = anchor[0] == position
        if lost <= DOUBTFUL_BYTES and (
            (not certain and (continues or first < expected))
            or (not continues and is_far(first, last_offset, end - position, lost, expected, anchor))
        ):
            return expected
        if not certain and not continues:
            before = expected - 1
        anchor[0] = end
    before = last_offset if first == before + 1 else min(before, last_offset)
    return min(before + 1, MAX_OFFSET)


def expected_after(
    rows: BatchTable, firsts: IntArray, start: int, expected: int, last: int | None, anchor: IntArray
) -> tuple[int, int | None]:
    for row, first in zip(rows, firsts.tolist(), strict=True):
        position = start + int(row["position"])
        end, last_offset = position + int(row["size"]), last_offset_of(row)
        expected = next_expected(first, last_offset, position, end, expected, last, anchor)
        last = last_offset
    return expected, last

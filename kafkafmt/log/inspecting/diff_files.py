"""Compare segment files, transaction indexes and leader epoch checkpoints of two copies of a partition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...constants import NO_END
from ..catalog import SegmentFile
from ..reading import PartitionLog
from ..storage import FileView, aligned_buffer
from ..transactions import IndexEntries
from .diff_report import EPOCH_CHECKPOINT, TRANSACTIONS, Span

BLOCK = 1 << 20  # number of bytes of each file that are read and compared in one step


def same_bytes(a: SegmentFile, b: SegmentFile) -> bool:
    if a.size != b.size:
        return False
    try:
        return _same_content(a, b)
    except FileNotFoundError:
        # Retention has deleted a file. Return False, so that the caller reads the batches and reports the missing file.
        return False


def _same_content(a: SegmentFile, b: SegmentFile) -> bool:
    with FileView(a.path, fill_unreadable=True) as view, FileView(b.path, fill_unreadable=True) as other:
        if view.size != other.size:
            return False
        left, right = (aligned_buffer(-(-min(BLOCK, max(view.size, 1)) // 8) * 8) for _ in range(2))
        view.expect(0, view.size)
        other.expect(0, other.size)
        for position in range(0, view.size, len(left)):
            got = view.read_into(left[: view.size - position], position)
            if other.read_into(right[: other.size - position], position) != got or view.unreadable or other.unreadable:
                return False
            words = got // 8 * 8
            if not np.array_equal(left[:words].view(np.int64), right[:words].view(np.int64)):
                return False
            if not np.array_equal(left[words:got], right[words:got]):
                return False
    return True


def differing_ranges(a: PartitionLog, b: PartitionLog, low: int) -> Iterator[tuple[int, int]]:
    """Yield the offset ranges from `low` that must be compared batch by batch, as pairs (start, exclusive end)."""
    # Segments of the same size and offset range are compared byte by byte first.
    others = {s.base_offset: s for s in b.segments}
    start = low
    for segment in a.segments:
        other = others.get(segment.base_offset)
        base, end = segment.base_offset, NO_END if segment.next_base is None else segment.next_base
        if base is None or end <= low or other is None or other.next_base != segment.next_base:
            continue
        if same_bytes(segment, other):
            if start < base:
                yield start, base
            start = max(start, end)
    if start < NO_END:
        yield start, NO_END


def compare_transactions(a: PartitionLog, b: PartitionLog, low: int, end: int) -> list[Span]:
    """Return the aborted transactions that only one of two transaction indexes lists."""
    # Only abort markers from `low` to `end` (exclusive) count. Nothing is compared if an index cannot be read.
    sides = []
    for log in (a, b):
        index = IndexEntries(log.directory)
        for name in sorted(index.unreadable):
            log.tell(f"{log.directory.path / name}: the file cannot be read, so transaction indexes are not compared")
        if index.unreadable:
            return []
        entries = index.all
        sides.append({(e.first, e.last, e.producer_id) for e in entries if low <= e.last < end})
    return [
        Span(TRANSACTIONS, first, last, side)
        for side in (0, 1)
        for first, last, _ in sorted(sides[side] - sides[1 - side])
    ]


def compare_epochs(a: PartitionLog, b: PartitionLog, low: int, end: int) -> list[Span]:
    """Return the offset ranges from `low` to `end` whose leader epochs differ between the checkpoints."""
    # Nothing is compared if a copy has no checkpoint, because copies may consist of `.log` files alone.
    epochs = [a.leader_epoch_checkpoint, b.leader_epoch_checkpoint]
    if epochs[0] is None or epochs[1] is None or low >= end:
        return []
    borders = sorted({low, *(o for found in epochs for _, o in found or () if low < o < end)})
    spans: list[Span] = []
    for first, last in zip(borders, [*(o - 1 for o in borders[1:]), end - 1], strict=True):
        assigned = [max((e for e, o in found or () if o <= first), default=None) for found in epochs]
        if assigned[0] == assigned[1]:
            continue
        if spans and spans[-1].last == first - 1:
            spans[-1] = spans[-1]._replace(last=last)
        else:
            spans.append(Span(EPOCH_CHECKPOINT, first, last))
    return spans

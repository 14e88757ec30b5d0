"""Batches as they lie, from segments to a file or socket, without passing through the program (Kafka: FileRecords.writeTo).

Only headers are read, to find where a batch ends. What is sent is what is on disk: nobody checks a CRC on the way, as no
broker does.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ...constants import NO_END
from ...errors import KafkaFormatError
from ..format.files import FileView
from .discovery import SegmentFile
from .index_lookup import position_before
from .partition import PartitionLog
from .ranges import read_head


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class Sent(NamedTuple):
    """bytes, and the offset to ask for next: where only a part of a batch was sent, that batch's."""

    bytes: int
    next_offset: int


class _Range(NamedTuple):
    """Batches of one segment; cut: where the batch behind them is cut, `end` where it is not sent at all. full: no more fits."""

    start: int
    end: int
    cut: int
    next_offset: int
    full: bool


def send(
    log: PartitionLog,
    target: int | HasFileno,
    offset: int,
    max_bytes: int | None = None,
    *,
    end: int = NO_END,
    whole_batches: bool = True,
) -> Sent:
    """Send the batches from the one that holds `offset` on, up to the log's end or the first one at or behind `end`.

    max_bytes: no more than these, but at least one batch. whole_batches: only such; else the last one may be cut, as in
    a fetch response. What is still being written is not sent. StructureError where no batch can be told from what
    stands in a file that is complete.
    """
    handle = target if isinstance(target, int) else target.fileno()
    sent, following = 0, max(offset, log.log_start_offset)
    for segment in log.segments[log.first_segment(following) :]:
        try:
            with log.view(segment) as view:
                room = None if max_bytes is None else max_bytes - sent
                found = _find(segment, view, following, end, room, sent == 0)
                stop = found.end if whole_batches else found.cut
                view.transfer(handle, found.start, stop)
        except FileNotFoundError:
            log.skip_missing(segment)
            continue
        sent, following = sent + stop - found.start, found.next_offset
        if found.full:
            break
    return Sent(sent, following)


def _find(segment: SegmentFile, view: FileView, offset: int, end: int, room: int | None, at_least_one: bool) -> _Range:
    """The batches of a segment that hold offsets in [offset, end), as far as there is room."""
    start = at = position_before(segment, view, offset)
    while at < view.size:
        try:
            base, last, size = read_head(view, at)
        except KafkaFormatError:
            if segment.last:
                break
            raise
        if last < offset and start == at:  # the index leads to a batch before the one that is meant
            start = at = at + size
        elif base >= end:
            return _Range(start, at, at, offset, True)
        elif room is not None and at + size - start > room and not (at_least_one and at == start):
            return _Range(start, at, max(start + room, at), offset, True)
        else:
            at, offset = at + size, last + 1
    return _Range(start, at, at, offset, False)

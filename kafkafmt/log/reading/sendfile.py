"""Send unchanged batches from segments to a file or socket.

If possible, the data is copied inside the kernel (Kafka: ``FileRecords.writeTo``). Only batch
headers are read, to find the end of each batch. As in a broker, CRCs are not checked.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ...constants import NO_END
from ...errors import KafkaFormatError
from ..catalog import SegmentFile
from ..scanning import read_head
from ..storage import FileView
from .index_lookup import position_before
from .partition import PartitionLog


class HasFileno(Protocol):
    """An object with a file descriptor, such as a file or a socket."""

    def fileno(self) -> int:
        """Return the file descriptor."""


class Sent(NamedTuple):
    """Result of `send`: the number of sent bytes, and the offset at which the next call continues."""

    bytes: int
    next_offset: int  # if the last batch was sent only partly, its offset


class _Range(NamedTuple):
    """Consecutive batches of one segment that are sent together."""

    start: int
    end: int
    cut: int  # position in the next batch if a part of it is also sent; otherwise `end`
    next_offset: int
    full: bool  # the size limit or the end offset was reached


def send(
    log: PartitionLog,
    target: int | HasFileno,
    offset: int,
    max_bytes: int | None = None,
    *,
    end: int = NO_END,
    whole_batches: bool = True,
) -> Sent:
    """Send batches from that with `offset` to `end` to a file or socket, but not an incomplete one at the end."""
    # The first batch is sent even if it is larger than `max_bytes`. Without `whole_batches`, the last one may be
    # truncated, as in a fetch response. KafkaFormatError: the header of a batch is damaged before the last segment.
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
    """Find batches of a segment with offsets in [offset, end) that have at most `room` bytes in total."""
    start = at = position_before(segment, view, offset)
    while at < view.size:
        try:
            head = read_head(view, at)
        except KafkaFormatError:
            if segment.last and not view.unreadable:
                break
            raise
        # The index entry can refer to an earlier batch. Skip batches before the batch that contains `offset`.
        if head.last_offset < offset and start == at:
            start = at = head.end
        elif head.first_offset >= end:
            return _Range(start, at, at, offset, True)
        elif room is not None and head.end - start > room and not (at_least_one and at == start):
            return _Range(start, at, max(start + room, at), offset, True)
        else:
            at, offset = head.end, head.next_offset
    return _Range(start, at, at, offset, False)

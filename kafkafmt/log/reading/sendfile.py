"""Send batches unchanged from segments to a file or socket, inside the kernel if possible (Kafka:
FileRecords.writeTo).

Only headers are read, to find where batches end. CRCs are not checked, as in a broker.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ...constants import NO_END
from ...errors import KafkaFormatError
from ..format.files import FileView
from .index_lookup import position_before
from .partition import PartitionLog
from .partition_dir import SegmentFile
from .ranges import read_head


class HasFileno(Protocol):
    """An object with a file descriptor, such as a file or a socket."""

    def fileno(self) -> int: ...


class Sent(NamedTuple):
    """The result of `send`.

    Attributes
    ----------
    bytes : int
        Number of bytes sent.
    next_offset : int
        Offset at which to continue. If only a part of a batch was sent, it is that of this batch.
    """

    bytes: int
    next_offset: int


class _Range(NamedTuple):
    """Batches of one segment.

    Attributes
    ----------
    start, end : int
        Positions of the batches, in bytes.
    cut : int
        Position at which the next batch is cut; equal to `end` if it is not sent at all.
    next_offset : int
        Offset after the batches.
    full : bool
        Whether the limit was reached.
    """

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
    """Send the batches from the one with `offset` on.

    Sending ends at the end of the log, or before the first batch that starts at or after `end`. An
    incomplete last batch is not sent.

    Parameters
    ----------
    log : PartitionLog
        The partition.
    target : int, or an object with ``fileno()``
        A file descriptor, file or blocking socket.
    offset : int
        First offset to send; at least the log start offset is used.
    max_bytes : int, optional
        Largest number of bytes. The first batch is sent even if it is larger.
    end : int, optional
        Offset, exclusive. By default the end of the log.
    whole_batches : bool, default True
        If False, the last batch may be cut, as in a fetch response.

    Raises
    ------
    KafkaFormatError
        The header of a batch is damaged, in a segment other than the last.
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
    """Return the batches of a segment with offsets in [offset, end) that fit into `room` bytes."""
    start = at = position_before(segment, view, offset)
    while at < view.size:
        try:
            base, last, size = read_head(view, at)
        except KafkaFormatError:
            if segment.last:
                break
            raise
        if last < offset and start == at:  # the index leads to a batch before the wanted one
            start = at = at + size
        elif base >= end:
            return _Range(start, at, at, offset, True)
        elif room is not None and at + size - start > room and not (at_least_one and at == start):
            return _Range(start, at, max(start + room, at), offset, True)
        else:
            at, offset = at + size, last + 1
    return _Range(start, at, at, offset, False)

"""Find a record by its timestamp, as a broker does, or by its offset. Find the batch that contains an offset.

A search by timestamp returns the record with the lowest offset that has this timestamp or a later
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...constants import CONTROL_BIT, MAGIC_V2, MAX_RELATIVE_OFFSET, NO_END, NO_TIMESTAMP
from ...errors import KafkaFormatError
from ...records import RecordReader
from ...records.reader import ALL_OFFSETS, OffsetLimits
from ...types import last_offsets
from ..catalog import SegmentFile
from ..damage import FIRST_READ, Walker
from ..scanning import read_head, whole_segment
from ..storage import FileView, is_hole, only_zeros
from .index_lookup import SCAN_BYTES, largest_timestamp, position_before, time_bounds
from .part import Part
from .partition import PartitionLog
from .planned_log import UNKNOWN


class Place(NamedTuple):
    """Offset and timestamp of a record, and file position of its batch."""

    offset: int
    timestamp: int  # in ms
    segment: str
    position: int  # of the batch, in bytes


def find_timestamp(log: PartitionLog, timestamp: int, below_log_start: bool = False) -> Place | None:
    """Find the first record whose timestamp is at least `timestamp` (in ms). If there is none, return None."""
    # The search starts at the log start offset or, with `below_log_start`, at the first record. It relies on the
    # maximum timestamps in batch headers. As in a broker (``UnifiedLog.fetchOffsetByTimestamp``), control batches and
    # aborted records are also searched. Damaged batches are skipped.
    low = 0 if below_log_start else log.log_start_offset
    reader = _reader(log, low)
    for segment in _segments_reaching(log, timestamp, low):
        first, upto = max(low, segment.base_offset or 0), None
        try:
            with log.view(segment) as view:
                bounds = time_bounds(segment, view, timestamp)
        except FileNotFoundError:
            log.skip_missing(segment)
            continue
        if bounds is not None:
            first, upto = max(first, bounds.after + 1), bounds.upto
        end = segment.next_base if segment.next_base is not None else NO_END
        hit = None
        if upto is not None:
            hit = _first_in_segment(log, segment, reader, timestamp, first, min(upto + 1, end))
        if hit is None:
            hit = _first_in_segment(log, segment, reader, timestamp, first, end)
        if hit is not None:
            return hit
    return None


def find_max_timestamp(log: PartitionLog, end: int = NO_END) -> Place | None:
    """Find the first record with the largest timestamp, according to batch headers, before `end`, or None."""
    first = log.first_segment(log.log_start_offset)
    largest = max((_largest_before(log, i, end) for i in range(first, len(log.segments))), default=NO_TIMESTAMP)
    return None if largest == NO_TIMESTAMP else find_timestamp(log, largest)


def _largest_before(log: PartitionLog, i: int, end: int) -> int:
    """Return the largest timestamp of those batches in segment `i` that begin before the offset `end`."""
    segment = log.segments[i]
    if end < NO_END and (segment.next_base is None or segment.next_base > end):
        base, largest = segment.base_offset or 0, NO_TIMESTAMP
        for part in log.parts(base, end, lambda _: None, headers_only=True) if base < end else ():
            times = part.table["max_timestamp"][part.table["base_offset"] < end]
            largest = max(largest, int(times.max(initial=NO_TIMESTAMP)))
        return largest
    if log.largest_timestamps[i] == UNKNOWN:
        log.largest_timestamps[i] = _largest(log, segment)
    return int(log.largest_timestamps[i])


def _segments_reaching(log: PartitionLog, timestamp: int, low: int) -> Iterator[SegmentFile]:
    """Yield the segments whose largest timestamp is at least `timestamp`, and that have offsets from `low` on."""
    # As in a broker, it is cached. Every segment must be checked, because timestamps need not increase.
    largest, at = log.largest_timestamps, log.first_segment(low)
    while len(ahead := np.flatnonzero((largest[at:] >= timestamp) | (largest[at:] == UNKNOWN))):
        at += int(ahead[0])
        if largest[at] == UNKNOWN:
            largest[at] = _largest(log, log.segments[at])
        else:
            yield log.segments[at]
            at += 1


def _largest(log: PartitionLog, segment: SegmentFile) -> int:
    try:
        with log.view(segment) as view:
            largest = NO_TIMESTAMP if is_hole(view) else largest_timestamp(segment, view)
    except FileNotFoundError:
        log.skip_missing(segment)
        return NO_TIMESTAMP
    return log.plan(segment).stats.max_timestamp if largest is None else largest


def find_offset(log: PartitionLog, offset: int) -> Place | None:
    """Find the first data record from `offset` and the log start offset on. If there is none, return None."""
    low = max(offset, log.log_start_offset)
    reader = _reader(log, low, (low, None))
    # A record with exactly the offset `low` usually exists. Search for higher offsets only if it does not.
    for end in (low + 1, NO_END):
        for part in log.parts(low, end, lambda _: None):
            for i in np.flatnonzero((part.table["attributes"] & CONTROL_BIT) == 0).tolist():
                place = _first_record(reader, part, i, None)
                if place is not None:
                    return place
            if part.plan.segment.last and part.run.end == part.plan.size and (part.plan.next_offset or 0) <= low:
                return None  # `low` is after the end of the log, so the last batches need not be read again
    return None


def find_batch_start(log: PartitionLog, offset: int) -> int:
    """Return the base offset of the batch that contains `offset`, or `offset` if no valid batch contains it."""
    for segment in log.segments_in(offset, offset + 1):
        try:
            with log.view(segment) as view:
                found = _batch_start_near_index(segment, view, offset, log.max_batch_bytes)
        except FileNotFoundError:
            found = None
        if found is not None:
            return found
    for part in log.parts(offset, offset + 1, lambda _: None):
        bases = part.table["base_offset"]
        for base in bases[(bases < offset) & (last_offsets(part.table) >= offset)].tolist():
            return int(base)
    return offset


def _batch_start_near_index(segment: SegmentFile, view: FileView, offset: int, max_batch_bytes: int) -> int | None:
    """Return the result of `find_batch_start` for one segment, read from the nearest index entry, or None."""
    # Only `PartitionLog.parts` can determine which batch is valid if the batches are damaged or have format 0 or 1,
    # offsets are missing between them, or `offset` is more than SCAN_BYTES after the index entry.
    if is_hole(view):
        return offset
    position = position_before(segment, view, offset, exactly=True)
    before = None if position else (segment.base_offset or 0) - 1
    walker = Walker(view, segment.base_offset or 0, max_batch_bytes, first_read=FIRST_READ)
    end = min(view.size, position + SCAN_BYTES)
    highest = min(whole_segment(segment, 0).end.upto, (segment.base_offset or 0) + MAX_RELATIVE_OFFSET)
    for start, _, rows, error in walker.tables(position, end):
        firsts, lasts = rows["base_offset"], last_offsets(rows)
        if len(rows):
            position = start + int(rows["position"][-1]) + int(rows["size"][-1])
            expected = np.concatenate((firsts[:1] if before is None else [before + 1], lasts[:-1] + 1))
            if (firsts != expected).any() or (lasts < firsts).any() or (rows["magic"] < MAGIC_V2).any():
                return None
            before = int(lasts[-1])
            if before > highest:
                return None
            if before >= offset:
                if position < view.size and not _continues(view, position, before + 1):
                    return None
                return min(int(firsts[np.argmax(lasts >= offset)]), offset)
        if error is not None:
            return offset if only_zeros(view, position) else None
    return offset if end == view.size else None


def _continues(view: FileView, position: int, offset: int) -> bool:
    """Return whether a batch with the base offset `offset` begins at `position`, or whether only zeros follow."""
    try:
        return read_head(view, position).first_offset == offset
    except KafkaFormatError:
        return only_zeros(view, position)


def _reader(log: PartitionLog, low: int, selected: OffsetLimits = ALL_OFFSETS) -> RecordReader:
    names, limit = ("offset", "timestamp"), log.max_batch_bytes
    return RecordReader(names, capacity=4096, first_offset=low, selected=selected, max_batch_bytes=limit)


def _first_in_segment(
    log: PartitionLog, segment: SegmentFile, reader: RecordReader, timestamp: int, first: int, end: int
) -> Place | None:
    for part in log.parts(first, end, lambda _: None):
        if part.plan.segment.name != segment.name:
            continue
        for i in np.flatnonzero(part.table["max_timestamp"] >= timestamp).tolist():
            place = _first_record(reader, part, i, timestamp)
            if place is not None:
                return place
    return None


def _first_record(reader: RecordReader, part: Part, i: int, timestamp: int | None) -> Place | None:
    """Return the place of the first record in batch `i` at `timestamp` (None: any) or later, or None."""
    batch = part.table[i : i + 1]
    for _, columns in reader.read(part.buffer, batch, lambda _, __: None):
        assert columns.timestamp is not None
        assert columns.offset is not None
        times = columns.timestamp[: columns.rows]
        hits = np.arange(columns.rows) if timestamp is None else np.flatnonzero(times >= timestamp)
        if len(hits):
            position = part.position + int(batch["position"][0])
            return Place(int(columns.offset[hits[0]]), int(times[hits[0]]), part.plan.segment.name, position)
    return None

"""Find out which transactions were committed or aborted, without reading the whole log.

The next marker of the same producer decides a transactional batch. Therefore, only the batch
headers of the requested range, and those up to the last marker that is needed, are read.

The last stable offset is computed from a producer snapshot, which lists the open transactions
(Kafka: ``ProducerStateManager``), and the headers from the first offset of the oldest of these on.
A broker writes a snapshot at the start of each segment and, when it is stopped, at the end of the
log. The latter is used only if the log still ends there.

The results are always those of `find_transactions`, which reads the whole log. If this cannot be
guaranteed, the functions return None: a header, or a batch as small as a marker, is damaged, a
segment is missing, or a transaction index contradicts the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ..._backend import core
from ...constants import CONTROL_ABORT, CONTROL_BIT, MAX_OFFSET, NO_END
from ...errors import KafkaFormatError
from ...types import BatchTable
from ..catalog import PartitionDir, SegmentFile
from ..damage import is_shown
from ..formats import ProducerEntry, file_name, offsets_in, read_snapshot, read_transaction_index
from ..scanning import HeaderWalk, ReadCounts, TransactionalBatches, UnclearHeadersError, read_batch, share_of
from ..storage import FileView, list_directory, read_bytes
from .transactions import Transactions

MOST_SNAPSHOTS = 2
"""Maximum number of producer snapshots that are tried until one can be read, starting with the latest."""


class _Unchecked(NamedTuple):
    """The first batch of an open transaction, if its CRC was not checked."""

    segment: SegmentFile
    position: int
    size: int


@dataclass
class _Outcomes:
    """Tracks open and aborted transactions while batches are added in offset order."""

    # first and last offset of the open transaction, by producer id
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    # first batch of the open transaction, by producer id, if its CRC was not checked
    unchecked: dict[int, _Unchecked] = field(default_factory=dict)
    aborted: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # first and last offsets, by producer id
    truncated: bool = False  # the log ends with an incomplete batch
    _indexed: list[tuple[int, int]] = field(default_factory=list)
    _abort_markers: set[tuple[int, int]] = field(default_factory=set)

    def add(self, segment: SegmentFile, rows: BatchTable, found: TransactionalBatches) -> None:
        """Add the next batches, which are the headers in `rows`. `found` contains their markers."""
        if not found.checked and len(rows) and (producer := int(rows["producer_id"][0])) not in self.spans:
            self.unchecked[producer] = _Unchecked(segment, int(rows["position"][0]), int(rows["size"][0]))
        for producer, first, _, kind, last in core.end_transactions(rows, found.markers, self.spans):
            self.unchecked.pop(producer, None)
            if kind == CONTROL_ABORT:
                self._abort_markers.add((producer, last))
                if first >= 0:
                    self.aborted.setdefault(producer, []).append((first, last))

    def add_index(self, segment: SegmentFile) -> None:
        """Read the entries of a segment's transaction index, if the index exists."""
        data = read_bytes(segment.sibling_place(".txnindex"))
        entries = read_transaction_index(data).tolist() if data else ()
        self._indexed += [(producer, last) for _, producer, _, last, _ in entries]

    def agrees_with_indexes(self, low: int, high: int) -> bool:
        """Return whether the log contains each abort marker that a transaction index lists for offsets in [low, high)."""
        return all(entry in self._abort_markers for entry in self._indexed if low <= entry[1] < high)


@contextmanager
def _counted_view(segment: SegmentFile, counts: ReadCounts | None) -> Iterator[FileView]:
    """Open the file of a segment. When the file is closed, add the numbers of read bytes and read calls to `counts`."""
    with FileView(segment.place, fill_unreadable=True) as view:
        try:
            yield view
        finally:
            if counts is not None:
                counts.bytes_read += view.bytes_read
                counts.reads += view.reads


def _batches(
    directory: PartitionDir,
    segments: Iterable[SegmentFile],
    position: int,
    walk: HeaderWalk,
    outcomes: _Outcomes,
    counts: ReadCounts | None,
) -> Iterator[tuple[SegmentFile, TransactionalBatches]]:
    """Yield the transactional batches and control batches that `walk` finds in consecutive segments."""
    # The transaction index of each segment is added to `outcomes`. UnclearHeadersError: a segment may be missing,
    # because offsets are missing between two segments and the log was not compacted.
    last: int | None = None
    for segment in segments:
        base = segment.base_offset or 0
        if last is not None and base != last + 1 and not directory.was_cleaned:
            raise UnclearHeadersError
        outcomes.add_index(segment)
        with _counted_view(segment, counts) as view:
            end = view.size if segment.next_base is None else segment.size
            before = base - 1 if last is None else last
            limit = MAX_OFFSET if segment.next_base is None else segment.next_base - 1
            walk.open(view, position, end, before, limit)
            while (found := walk.read()) is not None:
                if last is not None and walk.first is not None and walk.first > last + 1 and not directory.was_cleaned:
                    raise UnclearHeadersError
                yield segment, found
        if segment.next_base is None:
            outcomes.truncated = walk.truncated
        elif walk.truncated:
            raise UnclearHeadersError
        position, last = 0, walk.last


def outcomes_near(
    directory: PartitionDir,
    first: SegmentFile,
    position: int,
    end: int,
    counts: ReadCounts | None = None,
) -> Transactions | None:
    """Return the aborted transactions that have batches in a range, or None if the whole log must be read."""
    # The range begins at `position` in `first`. `end` is at most the last stable offset. Only `aborted` is set.
    base = first.base_offset
    if base is None:
        return None
    segments = [s for s in directory.segments if s.base_offset is not None and s.base_offset >= base]
    walk, outcomes = HeaderWalk(), _Outcomes()
    low: int | None = None
    high = base
    try:
        for segment, found in _batches(directory, segments, position, walk, outcomes, counts):
            low = walk.first if low is None else low
            rows = found.rows
            if walk.last >= end:
                rows = rows[(rows["base_offset"] < end) | ((rows["attributes"] & CONTROL_BIT) != 0)]
            outcomes.add(segment, rows, found)
            # The next header can show that the last offset is wrong, or that a marker is out of place. Therefore, an
            # offset or a marker is trusted only after the next header was read.
            at_marker = len(found.rows) and found.rows["attributes"][-1] & CONTROL_BIT
            if high >= end and not outcomes.spans and not at_marker:
                break
            high = walk.last + 1
    except (UnclearHeadersError, KafkaFormatError, OSError):
        return None
    if high < end or outcomes.spans or not outcomes.agrees_with_indexes(base if low is None else low, high):
        return None
    if (
        walk.gaps and not is_shown(walk.thinned, walk.gaps) and not directory.was_cleaned
    ):  # batches after a gap can be out of place
        return None
    result = Transactions()
    result.aborted.update(outcomes.aborted)
    return result


def open_at_end(
    directory: PartitionDir, ends_at: Callable[[int], bool], counts: ReadCounts | None = None
) -> Transactions | None:
    """Return the open transactions and the last stable offset, or None if the whole log must be read."""
    # Only `open` and `last_stable_offset` are set. `ends_at` is called only if the log ends with an incomplete batch.
    segments = directory.segments
    if not segments or any(s.base_offset is None for s in segments):
        return None
    at_end = _snapshot_after(directory, segments[-1].base_offset or 0)
    if at_end is not None:
        found = _open_after(directory, _first_open(*at_end), ends_at, counts, at_end[0])
        if found is not None:
            return found
    state = _latest_snapshot(directory)
    return None if state is None else _open_after(directory, _first_open(*state), ends_at, counts)


def _first_open(offset: int, entries: list[ProducerEntry]) -> int:
    """Return the first offset of the oldest open transaction in a producer snapshot at `offset`, or `offset`."""
    return min([offset, *(e.txn_first_offset for e in entries if e.txn_first_offset >= 0)])


def _snapshot_after(directory: PartitionDir, base: int) -> tuple[int, list[ProducerEntry]] | None:
    """Return the offset and entries of the latest producer snapshot, or None if not above `base` or not readable."""
    # `base` is the base offset of the last segment. When a broker stops, it writes a snapshot at the log end offset.
    # Usually, this is the one that is read.
    try:
        _, names = list_directory(directory.path)
    except OSError:
        return None
    offset = max(offsets_in(names, ".snapshot"), default=-1)
    if offset <= base:
        return None
    try:
        return offset, read_snapshot(read_bytes(directory.path / file_name(offset, ".snapshot")) or b"")
    except KafkaFormatError:
        return None


def _latest_snapshot(directory: PartitionDir) -> tuple[int, list[ProducerEntry]] | None:
    """Return the offset and entries of the latest producer snapshot at a segment's base offset, or None."""
    # A log that begins at offset 0 needs no snapshot, because no transaction is open at this offset.
    bases = {s.base_offset for s in directory.segments}
    try:
        _, names = list_directory(directory.path)
    except OSError:
        return None
    offsets = offsets_in(names, ".snapshot").keys() & bases
    for offset in sorted(offsets, reverse=True)[:MOST_SNAPSHOTS]:
        try:
            return offset, read_snapshot(read_bytes(directory.path / file_name(offset, ".snapshot")) or b"")
        except KafkaFormatError:
            continue
    return (0, []) if 0 in bases else None


def open_after(
    directory: PartitionDir,
    begin: int,
    known: Mapping[int, int],
    ends_at: Callable[[int], bool],
    counts: ReadCounts | None = None,
) -> Transactions | None:
    """Return what `open_at_end` returns, from batch headers from offset `begin` on."""
    if any(s.base_offset is None for s in directory.segments):
        return None
    return _open_after(directory, begin, ends_at, counts, known=known)


def _open_after(
    directory: PartitionDir,
    begin: int,
    ends_at: Callable[[int], bool],
    counts: ReadCounts | None,
    expected_end: int | None = None,
    known: Mapping[int, int] | None = None,
) -> Transactions | None:
    """Return the transactions that are open at the end of the log, from batches from the offset `begin` on."""
    bases = [s.base_offset or 0 for s in directory.segments]
    at = int(np.searchsorted(bases, begin, "right")) - 1
    if at < 0:
        return None
    segments = directory.segments[at:]
    position = share_of(segments[0], begin, NO_END, counts).start.position if begin > bases[at] else 0
    outcomes = _Outcomes({producer: (first, first) for producer, first in (known or {}).items()})
    end = bases[-1]
    try:
        walk = HeaderWalk(begin)
        for segment, found in _batches(directory, segments, position, walk, outcomes, counts):
            outcomes.add(segment, found.rows, found)
            end = max(end, walk.last + 1)
        for segment, group in itertools.groupby(outcomes.unchecked.values(), itemgetter(0)):
            with _counted_view(segment, counts) as view:
                for batch in group:
                    read_batch(view, batch.position, batch.size)
    except (UnclearHeadersError, KafkaFormatError, OSError):
        return None
    if not outcomes.agrees_with_indexes(begin, end) or (outcomes.truncated and not ends_at(end)):
        return None
    if expected_end is not None and end != expected_end:
        return None
    result = Transactions(open={producer: first for producer, (first, _) in outcomes.spans.items()})
    result.last_stable_offset = min([*result.open.values(), end])
    return result

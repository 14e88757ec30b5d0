"""Provide the offsets, the leader epochs and the batches of one served partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from ..constants import CODEC_MASK, CODEC_NONE, NO_END, READ_COMMITTED
from ..errors import KafkaFormatError
from ..log import PartitionDir, PartitionLog
from ..log.findings import DamagedLogError
from ..log.formats import Epochs, ProducerEntry
from ..log.reading import OffsetBound, Part, Place, find_batch_start, find_max_timestamp, find_timestamp
from ..records.java_reads import not_read_by_java
from ..support.paths import Location
from ..types import BATCH_DTYPE, BatchTable, last_offsets
from .checked_batches import CheckedBatches, Omitted, Span
from .growing_partition import MOST_REPORTED, GrowingPartition
from .open_files import inode_of
from .producer_states import read_producers
from .resources import Reader, Resources
from .settings import ServerSettings
from .transaction_state import Aborted, TransactionState

READ_BYTES = 1 << 20
"""Number of bytes of compressed batches that are read at a time to look for odd ends."""
_NOTHING = np.empty(0, BATCH_DTYPE)
READ_AHEAD = 2 << 20
"""Checked bytes after a response below which more are checked. Clients usually request at most 1 MiB."""
MOST_CLIENTS = 8
"""Largest number of clients of one partition for which batches are checked in advance."""


class Fetched(NamedTuple):
    spans: list[Span]
    size: int
    next_offset: int  # the offset from which to continue
    damaged: bool = False  # the next batch is damaged, so the server must return an error
    transactional: bool = False  # a batch may belong to a transaction or be a control batch
    converted: bool = False  # a batch may have to be converted first (see `CheckedBatches`)


def _epochs_below(epochs: Epochs, end: int) -> Epochs:
    """Return the leader epochs that begin before the offset `end`. The first epoch is always included."""
    return [(epoch, first) for epoch, first in epochs if first < end] or epochs[:1]


class ServedPartition(GrowingPartition):
    """One partition that is served. The methods block, and may be called in several threads."""

    # Methods with a parameter `known_only` neither block nor access files if it is True, so the
    # event loop can call them.

    def __init__(
        self, directory: PartitionDir, settings: ServerSettings, resources: Resources, missing: bool = False
    ) -> None:
        super().__init__(directory, settings, resources, missing)
        self._continuations: deque[int] = deque(maxlen=MOST_CLIENTS)
        """The offsets that clients will probably request next."""
        self._reading_ahead = False

    def high_watermark(self) -> int:
        """Return the offset after the last record that clients can read."""
        with self._lock:
            self._check()
            end = self._log_end()
            if self._settings.isolation == READ_COMMITTED:
                end = min(end, self._stable(end))
            return max(end, self.log_start_offset)

    def last_stable_offset(self) -> int:
        """Return the first offset of the oldest open transaction, or the high watermark if none is open."""
        with self._lock:
            end = self.high_watermark()
            return max(min(self._stable(end), end), self.log_start_offset)

    def known_offsets(self) -> tuple[int, int, int | None] | None:
        """Return the log start offset, high watermark and last stable offset (or None) without reading a file."""
        # Return None if the high watermark is unknown, or if the files may have changed and must be
        # read again.
        # Read self._tail and self._transactions only once, because another thread may replace them.
        tail, transactions = self._tail, self._transactions
        if tail is None or not self.seems_unchanged():
            return None
        if self._settings.at is not None or self._settings.isolation == READ_COMMITTED:
            return None
        start = self.directory.log_start_offset
        end = max(tail.end, start)
        return start, end, None if transactions is None else min(transactions.last_stable_offset(end), end)

    def leader_epoch(self) -> int:
        """Return the latest leader epoch, or -1 if the checkpoint of leader epochs is missing or damaged."""
        if self._epoch is not None:
            return self._epoch
        try:
            epochs = PartitionLog(self.directory).leader_epoch_checkpoint or []
            if self._settings.at is not None and len(epochs) > 1:
                with self._lock:
                    self._check()
                    end = self._end_before_last_segment()
                    epochs = self._until_end(epochs) if end is None else _epochs_below(epochs, end)
        except (KafkaFormatError, OSError):
            epochs = []
        found = epochs[-1][0] if epochs else -1
        if not self._cap_may_rise:
            self._epoch = found
        return found

    def leader_epochs(self) -> Epochs:
        """Return all leader epochs as pairs (epoch, first offset). Without the leader epoch checkpoint, read all batches to find them."""
        with self._lock:
            self._check()
            return self._until_end(self.log.leader_epochs)

    def _until_end(self, epochs: Epochs) -> Epochs:
        """Remove the leader epochs after the end that the option `at` selects. The first epoch is always kept."""
        if self._settings.at is None:
            return epochs
        return _epochs_below(epochs, self._log_end())

    def _end_before_last_segment(self) -> int | None:
        """Return the end that the option `at` selects, or None if the end is not an offset before the last segment."""
        # The last segment is not read. This saves time in Metadata requests, which determine the
        # leader epoch of every partition.
        at = self._settings.at
        if at is None or at.kind != "offset" or self._tail is not None:
            return None
        self._list_if_changed()
        self._check_log_start()
        last = self.directory.segments[-1].base_offset if self.directory.segments else None
        return None if last is None or at.n >= last else self._start_of_batch(at.n, last)

    def producers(self) -> list[ProducerEntry]:
        """Return the state of each producer at the end of the log, ordered by producer id."""
        with self._lock:
            self._check()
            end = NO_END if self._settings.at is None else self._log_end()
            self._list_again()
            return read_producers(self.log, self._settings.max_batch_bytes, end)

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch of an offset according to the checkpoint, or -1 if it is not known."""
        with self._lock:
            epochs = self.log.leader_epoch_checkpoint or []
            return next((epoch for epoch, first in reversed(epochs) if first <= offset), -1)

    def find_timestamp(self, timestamp: int) -> Place | None:
        """Find the first record whose timestamp in ms is `timestamp` or later."""
        with self._lock:
            end = self.high_watermark()
            self._list_again()
            found = find_timestamp(self.log, timestamp)
            return found if found is not None and found.offset < end else None

    def find_max_timestamp(self) -> Place | None:
        """Find the first record with the largest timestamp."""
        with self._lock:
            end = self.high_watermark()
            self._list_again()
            found = find_max_timestamp(self.log)
            if found is not None and found.offset >= end and self._settings.at is not None:
                found = find_max_timestamp(self.log, end)
            return found if found is not None and found.offset < end else None

    def aborted(self, start: int, end: int, known_only: bool = False) -> Aborted | None:
        """Return the aborted transactions in [start, end)."""
        # If `known_only`, return None instead of reading a file or waiting.
        if not self._lock.acquire(blocking=not known_only):
            return None
        try:
            if known_only and (self._transactions is None or not self._transactions.knows(start, end)):
                return None
            return self._state().aborted(start, end)
        finally:
            self._lock.release()

    def fetch(
        self, offset: int, end: int, max_bytes: int, at_least_one: bool, known_only: bool = False, omitted: Omitted = ()
    ) -> Fetched | None:
        """Select batches from the one that contains `offset`. Those that begin at or after `end` are not selected."""
        # If `at_least_one` is True, the first batch may be larger than `max_bytes`. If `known_only`
        # is True, return None instead of reading a file. `omitted` has the producer ids, first and
        # last offsets of transactions that are not selected. If no valid batch is left before
        # `end`, `spans` is empty and `next_offset` is `end`.
        if known_only:  # No lock is needed, because other threads replace items of `_lists` atomically.
            return self._fetch(offset, end, max_bytes, at_least_one, True, omitted)
        with self._lock:
            return self._fetch(offset, end, max_bytes, at_least_one, False, omitted)

    def _fetch(
        self, offset: int, end: int, max_bytes: int, at_least_one: bool, known_only: bool, omitted: Omitted
    ) -> Fetched | None:
        spans: list[Span] = []
        size, at, transactional, converted = 0, offset, False, False
        while at < end:
            batches = self._lists.find(at)
            if batches is None:
                if known_only:
                    if spans:
                        break
                    return None
                try:
                    batches = self._read(at, end)
                except DamagedLogError as error:
                    self._report(error.damage)
                    return Fetched(spans, size, at, not spans, transactional, converted)
            self._resources.batches.used(batches)
            found, got, following, full = batches.select(at, end, max_bytes - size, at_least_one and not spans, omitted)
            if not spans:
                spans = found
                found = []
            for span in found:
                last = spans[-1]
                if last[:2] == span[:2] and last.position + last.size == span.position:
                    spans[-1] = last._replace(size=last.size + span.size, converted=last.converted or span.converted)
                else:
                    spans.append(span)
            if got:
                transactional = transactional or batches.transactional
                converted = converted or batches.converted
            size, at = size + got, following
            if full or size >= max_bytes:
                break
        return Fetched(spans, size, at, False, transactional, converted)

    def to_read_ahead(self, offset: int, next_offset: int) -> int | None:
        """Return the offset at which reading ahead starts after a response with [offset, next_offset), or None."""
        # Batches are checked ahead only if a client reads the partition in order, that is, if an
        # earlier response ended at `offset`.
        continued = offset in self._continuations
        if continued:
            self._continuations.remove(offset)
        self._continuations.append(next_offset)
        tail, batches = self._tail, self._lists.find(next_offset)
        if not continued or self._reading_ahead or tail is None or self._settings.isolation == READ_COMMITTED:
            return None
        if batches is not None:
            if batches.bytes_after(next_offset) > READ_AHEAD:
                return None
            next_offset = batches.end
        if next_offset >= tail.end or self._lists.find(next_offset) is not None:
            return None
        self._reading_ahead = True
        return next_offset

    def read_ahead(self, offset: int) -> None:
        """Check the batches from `offset` on before a client requests them."""
        # Errors are ignored: they occur again then.
        try:
            with self._lock:
                end = self._log_end()
                if offset < end and self._lists.find(offset) is None:
                    self._read(offset, end)
        except (KafkaFormatError, OSError):
            return
        finally:
            self._reading_ahead = False

    def forget(self, span: Span) -> None:
        """Discard all cached data about the log, because the file of `span` has changed."""
        with self._lock:
            self._reset()

    def _log_end(self) -> int:
        """Return the log end offset that clients see. The option `at` can set it to an earlier offset."""
        end = self._known_tail().end
        if self._settings.at is None:
            return end
        if self._cap is None or (self._cap_may_rise and end > self._cap):
            self._list_again()
            offset = self._offset_of_bound(self._settings.at, end)
            self._cap = self._start_of_batch(offset, end)
            self._cap_may_rise = offset >= end and self._settings.at.kind != "before_end"
            # A Metadata request calls this method for every partition. Plans of all partitions would need too much memory.
            self.log.forget_plans()
        return min(self._cap, end)

    def _offset_of_bound(self, bound: OffsetBound, end: int) -> int:
        """Convert the option `at` to an offset."""
        # `OffsetBound.resolve` would check the whole last segment to find the end of the log, and
        # would keep the result in memory.
        if bound.kind == "before_end":
            return max(end - bound.n, 0)
        found = bound.find(self.log)
        return end if found is None else found

    def _start_of_batch(self, offset: int, end: int) -> int:
        """Return the base offset of the batch that contains `offset`, or `offset` if no batch contains it."""
        if not self.log_start_offset <= offset < end:
            return min(offset, end)
        return find_batch_start(self.log, offset)

    def _state(self) -> TransactionState:
        """Return the `TransactionState` of the log, which covers all batches up to the log end."""
        if self._transactions is None:
            end = self._log_end()
            self._list_again()
            capped = self._settings.at is not None and end < self._known_tail().end
            self._transactions = TransactionState(self.log, end, whole=capped)
        return self._transactions

    def _stable(self, end: int) -> int:
        return min(self._state().last_stable_offset(end), end)

    def _read(self, offset: int, end: int) -> CheckedBatches:
        """Read and check the batches from `offset` on, and cache their positions."""
        if offset >= self._listed_end:
            self._list_again()
        reader = self._resources.readers.take(self)
        if reader is None or reader.at != offset:
            if reader is not None:
                reader.parts.close()
            reader = Reader(offset, self._parts(offset))
        inode, path = 0, None
        limit = min(self._lists.limit(offset) or NO_END, max(self._listed_end, offset + 1))
        part = next(reader.parts, None)
        if part is None:
            reader.parts.close()
            table, position, following = _NOTHING, 0, limit
            path = self.directory.path
        else:
            path, position = part.plan.segment.path, part.position
            inode = inode_of(path)
            last = last_offsets(part.table)
            table = part.table if (last[:1] >= offset).all() else part.table[last >= offset]
            following = max(int(last.max(initial=offset)) + 1, offset + 1)
            reader.at = following
            self._resources.readers.keep(self, reader)
            if self._settings.isolation == READ_COMMITTED:
                following = min(following, max(end, offset + 1))
                table = self._state().committed(table[table["base_offset"] < end])
        odd = self._has_odd_batches(path, inode, position, table)
        made = CheckedBatches(path, inode, offset, following, position, table, odd)
        self._resources.batches.add(made, self._lists)
        return made

    def _has_odd_batches(self, path: Location, inode: int, position: int, table: BatchTable) -> bool:
        """Return whether Kafka's Java code does not read one of the batches to its end."""
        rows = table.compress((table["attributes"] & CODEC_MASK) != CODEC_NONE)
        files, start = self._resources.files, 0
        ends = rows["position"] + rows["size"]
        while start < len(rows):
            first = int(rows["position"][start])
            stop = max(int(np.searchsorted(ends, first + READ_BYTES, "right")), start + 1)
            part = rows[start:stop].copy()
            file = files.acquire(path, inode)
            try:
                data = file.read(position + first, int(ends[stop - 1]) - first)
            finally:
                files.release(file)
            if len(data) < int(ends[stop - 1]) - first:
                return False  # the file has changed
            part["position"] -= first
            part["payload_position"] -= first
            if not_read_by_java(data, part, self._settings.max_batch_bytes):
                return True
            start = stop
        return False

    def _parts(self, offset: int) -> Generator[Part, None, None]:
        skip = self._settings.on_error == "skip"
        yield from self.log.parts(offset, self._listed_end, self._report if skip else None, headers_only=True)

    def report_batch(self, span: Span, position: int, error: KafkaFormatError) -> None:
        """Report once that the records of a batch cannot be decoded."""
        key = span.path.name, position
        if key not in self._reported and len(self._reported) < MOST_REPORTED:
            self._reported.add(key)
            self._settings.on_message(f"damaged: {span.path} at {position}: {error}")

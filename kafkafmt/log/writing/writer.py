"""Write a partition as a broker does: append, roll, flush, truncate and delete.

Kafka's counterparts are ``UnifiedLog`` and ``LocalLog``. A batch is written completely or not at
all. Readers can read the log while batches are written; they see complete batches only. All other
files can be derived from the batches, so the batches alone determine the state after a crash:

- Index entries are written at the index interval, after the batches that they refer to.
- A new leader epoch is written to the checkpoint before the first batch of that epoch.
- When a segment is rolled, it is synced, and a producer snapshot is written.
"""

from __future__ import annotations

import errno
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn, Unpack

import numpy as np

from ...arguments import integer, now_millis
from ...constants import MAX_RELATIVE_OFFSET
from ...records import build_batches, build_marker
from ...records.assign import numbered, scan_all
from ...records.signatures import BuilderOptions, RecordLike
from ...types import BatchTable, Buffer, byte_view, view_of
from ..format import files
from ..format.checkpoints import LEADER_EPOCHS, leader_epochs_text
from ..format.files import FileView
from ..format.index_entries import OFFSET_ENTRY, TIME_ENTRY
from ..format.leader_epochs import Epochs, assigned, epochs_of, within
from ..format.names import snapshot_offset_of
from ..format.snapshots import ProducerEntry, snapshot_bytes
from ..reading.models import Damage
from ..reading.ranges import reach
from .active import ActiveSegment
from .incoming import check, check_transactions
from .index_builder import SegmentIndexes
from .process import OwnerLock, refuse_pickling
from .recovery import delete_segment, load, make_segment, path_of
from .retention import too_many, too_old
from .settings import LogSettings

WRITE_BYTES = 1 << 20
"""Number of bytes of encoded batches that `append` collects before it writes them."""
PRODUCER_EXPIRATION_MS = 24 * 3600 * 1000
"""Kafka's default of ``producer.id.expiration.ms``, in milliseconds.

The state of a producer that has been idle for this time is dropped.
"""


class Appended(NamedTuple):
    """Offsets of the appended records. If no record was appended, `first_offset` is `last_offset` + 1."""

    first_offset: int
    """Offset of the first appended record."""
    last_offset: int
    """Offset of the last appended record."""


class LogWriter:
    """A partition that is open for writing. Create it with `LogDirectory.writer`.

    Use the writer as a context manager, or call `close`. Closing the `LogDirectory` also closes its
    writers. Several threads can use a writer.

    Attributes
    ----------
    topic : str
        Name of the topic.
    partition : int
        Number of the partition.
    path : Path
        The partition directory.
    settings : LogSettings
        Settings of the writer.
    next_offset : int
        Offset that the next record will get; the log end offset.
    log_start_offset : int
        First offset that readers see.
    leader_epoch : int
        Leader epoch of the batches to which the writer assigns offsets.
    recovery_point : int
        All records below this offset are on disk.
    cut : list of Damage
        Invalid data that was truncated when the partition was opened.
    closed : bool
        Whether the writer is closed.

    Notes
    -----
    Kafka's counterparts are ``UnifiedLog`` and ``LocalLog``. If a method raises OSError, the log
    still consists of complete batches up to `next_offset`. If the writer could not restore that
    state, `in_doubt` is True, and all further operations fail. Opening the directory again then
    recovers the log.

    In a forked process, `close` does nothing, and all other methods raise `WrongProcessError`.
    """

    path: Path
    topic: str
    partition: int
    settings: LogSettings
    next_offset: int
    recovery_point: int

    def __init__(
        self,
        path: Path,
        topic: str,
        partition: int,
        settings: LogSettings,
        *,
        leader_epoch: int | None,
        log_start: int,
        recovery_point: int | None,
        changed: Callable[[], None],
        closed: Callable[[LogWriter, bool], None],
    ) -> None:
        self.path, self.topic, self.partition, self.settings = path, topic, partition, settings
        self.log_start_offset: int = log_start
        self._changed, self._on_close = changed, closed
        self._lock = OwnerLock(f"{topic}-{partition} in {str(path.parent)!r}")
        self.closed: bool = False
        self._unflushed, self._flushed_at = 0, _ticks()
        self.cut: list[Damage] = []
        self._epochs: Epochs = []
        self._open(recovery_point)
        if leader_epoch is not None and leader_epoch < self.latest_epoch:
            self._active.close()
            raise ValueError(
                f"leader epoch {leader_epoch} is below {self.latest_epoch}, the latest leader epoch of the log"
            )
        self.leader_epoch: int = max(self.latest_epoch, 0) if leader_epoch is None else leader_epoch

    def _open(self, recovery_point: int | None) -> None:
        """Load the partition directory.

        If the log ends before `log_start_offset`, all segments are deleted, and the next record
        gets the offset `log_start_offset`, as in a broker.
        """
        s = self.settings
        loaded = load(self.path, self.log_start_offset, recovery_point, s.index_interval_bytes, s.truncate_at_damage)
        if loaded.last.next_offset < self.log_start_offset:
            for base in reversed(loaded.bases):
                delete_segment(self.path, base)
            loaded = load(self.path, self.log_start_offset, None, s.index_interval_bytes, False)
        self.cut += loaded.cut
        self._bases, self._state = loaded.bases, loaded.state
        self.next_offset = loaded.last.next_offset
        self.log_start_offset = max(self.log_start_offset, self._bases[0])
        self._active = ActiveSegment(
            self.path, loaded.last.indexes, loaded.last.end, loaded.last.first_timestamp, now_millis()
        )
        self._write_epochs(loaded.epochs)
        # `load` has synced all segments that it recovered.
        self.recovery_point = self.next_offset

    def __repr__(self) -> str:
        return (
            f"<kafkafmt.LogWriter {self.topic}-{self.partition} at {str(self.path)!r}, next offset {self.next_offset}>"
        )

    @property
    def in_doubt(self) -> bool:
        """Whether the end of the log is unknown because of an error.

        If `in_doubt` is True, nothing more can be written. Opening the partition again recovers the
        log.
        """
        return self._active.broken

    @property
    def segments(self) -> list[int]:
        """Base offsets of the segments, in increasing order. The last one is the active segment."""
        return list(self._bases)

    @property
    def leader_epochs(self) -> Epochs:
        """Leader epochs of the log, as (epoch, first offset), in increasing order."""
        return list(self._epochs)

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction; `next_offset` if no transaction is open."""
        first = self._state.producers.first_unstable_offset
        return self.next_offset if first is None else first

    def append(self, records: Iterable[RecordLike], **options: Unpack[BuilderOptions]) -> Appended:
        """Append records.

        Parameters
        ----------
        records : iterable of tuple or Record
            Tuples (key, value[, timestamp[, headers[, offset]]]), as accepted by `build_batches`.
            Timestamps are in ms since 1970-01-01 UTC. Records without an offset get the next
            offsets. A Record, or a tuple with an offset, keeps its offset, which must be
            `next_offset` or higher. To give Records new offsets, append tuples of their fields.
        **options
            Keyword arguments of `build_batches`, such as `codec`. The defaults of `base_offset` and
            `leader_epoch` are `next_offset` and the writer's `leader_epoch`.

        Returns
        -------
        Appended
            First and last offset of the records.

        Raises
        ------
        InvalidError
            A record breaks a rule of Kafka, for example "offset_order" if its offset is too low.
        TooLargeError
            A batch is larger than ``segment_bytes``.
        OSError
            The records could not be written. Batches that were written before the error stay.
        TypeError, ValueError, OverflowError
            A record or an option is wrong, or the writer is closed.
        WrongProcessError
            Another process opened the writer.

        Notes
        -----
        Batches are written in groups of about 1 MiB. If a record is wrong, earlier records can
        therefore already be in the log. `next_offset` is the offset after the last record written.
        """
        with self._lock:
            first = self.next_offset
            pending, size = [], 0
            given: BuilderOptions = {"base_offset": first, "leader_epoch": self.leader_epoch, **options}
            for batch in build_batches(records, **given):
                pending.append(batch)
                size += len(batch)
                if size >= WRITE_BYTES:
                    self.append_batches(b"".join(pending), assign_offsets=False)
                    pending, size = [], 0
            if pending:
                self.append_batches(b"".join(pending), assign_offsets=False)
            return Appended(first, self.next_offset - 1)

    def end_transaction(
        self, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int = 0
    ) -> Appended:
        """Append the marker that ends a producer's transaction.

        Parameters
        ----------
        producer_id, producer_epoch : int Id and epoch of the producer. commit : bool
            True writes a commit marker, False an abort marker.
        coordinator_epoch : int, default 0
            Epoch of the transaction coordinator.

        Returns
        -------
        Appended
            The offset of the marker, as both the first and the last offset.

        Raises
        ------
        OSError
            The marker could not be written.
        TypeError, ValueError, OverflowError
            An argument is wrong or does not fit its field, or the writer is closed.
        WrongProcessError
            Another process opened the writer.

        Notes
        -----
        Kafka's counterpart is ``EndTransactionMarker``, written by the transaction coordinator.
        """
        self._lock.check()
        marker = build_marker(
            producer_id, producer_epoch, commit=commit, coordinator_epoch=coordinator_epoch, timestamp=now_millis()
        )
        return self.append_batches(marker)

    @property
    def open_transactions(self) -> list[ProducerEntry]:
        """State of each producer that has an open transaction, the oldest transaction first.

        The field ``txn_first_offset`` is the first offset of the producer's open transaction.
        """
        return self._state.producers.open_transactions

    def abort_open_transactions(self) -> list[tuple[ProducerEntry, int]]:
        """Append an abort marker for every open transaction.

        Use this for transactions that no coordinator will end (Kafka: ``kafka-transactions.sh
        abort``).

        Returns
        -------
        list of (ProducerEntry, int)
            The state of each producer before the call, and the offset of the producer's marker.

        Raises
        ------
        OSError
            A marker could not be written.
        ValueError
            The writer is closed.
        WrongProcessError
            Another process opened the writer.
        """
        with self._lock:
            hanging = self.open_transactions
            coordinators = [max(e.coordinator_epoch, 0) for e in hanging]
            markers = [
                build_marker(e.producer_id, e.epoch, commit=False, coordinator_epoch=c, timestamp=now_millis())
                for e, c in zip(hanging, coordinators, strict=True)
            ]
            first, _ = self.append_batches(b"".join(markers))
            return [(e, first + i) for i, e in enumerate(hanging)]

    def append_batches(self, buffer: Buffer, *, assign_offsets: bool = True) -> Appended:
        """Append encoded batches.

        Parameters
        ----------
        buffer : bytes-like
            Batches or messages (magic 0 to 2), back to back. It is not changed.
        assign_offsets : bool, default True
            If True, the batches get the next offsets and the writer's leader epoch, as on a leader.
            If False, the batches keep their offsets and leader epochs, as on a follower. Kept
            offsets must increase, and must start at `next_offset` or above.

        Returns
        -------
        Appended
            First and last offset of the batches. `first_offset` is the value that `next_offset` had
            before the call.

        Raises
        ------
        KafkaFormatError
            A batch is damaged or incomplete. Nothing is written.
        InvalidError
            The offsets are not above those in the log ("offsets_in_order"), or a non-transactional
            batch belongs to a producer with an open transaction ("transaction_state"). Nothing is
            written.
        TooLargeError
            A batch is larger than ``segment_bytes``. Nothing is written.
        OSError
            The batches could not be written. Batches that were written before the error stay.
        ValueError
            The writer is closed. `OffsetOverflowError`, a subclass, if an offset would exceed
            2**63 - 2.
        WrongProcessError
            Another process opened the writer.

        Notes
        -----
        Only the batches' CRCs and headers are checked. To apply all checks of a broker
        to batches from clients, call `validate_and_assign_offsets` first. Kafka's counterparts are
        ``UnifiedLog.appendAsLeader`` and ``UnifiedLog.appendAsFollower``.
        """
        with self._lock:
            self._check_open()
            data = bytearray(view_of(buffer)) if assign_offsets else buffer
            first = self.next_offset
            table = numbered(data, first, self.leader_epoch) if assign_offsets else scan_all(data)
            lasts = check(table, first, self.settings.segment_bytes)
            check_transactions(table, self._state.producers.open_producers)
            view, begin = byte_view(data), 0
            starts, sizes, times = (table[name].tolist() for name in ("position", "size", "max_timestamp"))
            for i, last in enumerate(lasts):
                # Assume one index entry per batch, because the exact number is known only after
                # writing.

                if i > begin and i - begin >= self._free_index_entries():
                    self._write(view, table[begin:i])
                    begin = i
                if self._must_roll(starts[i] - starts[begin], times[begin], sizes[i], times[i], last):
                    self._write(view, table[begin:i])
                    begin = i
                    self._roll(int(table["base_offset"][i]))
            self._write(view, table[begin:])
            return Appended(first, self.next_offset - 1)

    @property
    def latest_epoch(self) -> int:
        """Latest leader epoch of the log, or -1 if it has none."""
        return self._epochs[-1][0] if self._epochs else -1

    def _free_index_entries(self) -> int:
        """Return how many more entries fit in the active segment's indexes.

        One entry of the time index is reserved for closing the segment.
        """
        indexes, size = self._active.indexes, self.settings.segment_index_bytes
        return min(
            size // OFFSET_ENTRY.itemsize - indexes.offset_entries,
            size // TIME_ENTRY.itemsize - 1 - indexes.time_entries,
        )

    def _must_roll(self, bytes_before: int, first_timestamp: int, size: int, timestamp: int, last_offset: int) -> bool:
        """Return whether a batch must start a new segment (Kafka: ``LogSegment.shouldRoll``).

        Parameters
        ----------
        bytes_before : int
            Size of the batches that are to be written to the active segment before this batch.
        first_timestamp : int
            Largest timestamp in the first of these batches.
        size, timestamp, last_offset : int
            Size, largest timestamp and last offset of this batch.
        """
        s, active = self.settings, self._active
        if last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not active.size + bytes_before:
            return False
        first = first_timestamp if active.first_timestamp is None else active.first_timestamp
        age = timestamp - first if first >= 0 else now_millis() - active.created
        too_large = active.size + bytes_before + size > s.segment_bytes
        return too_large or age > s.segment_ms or self._free_index_entries() <= 0

    def _write(self, view: memoryview, table: BatchTable) -> None:
        """Append batches to the active segment, and flush the segment if a flush is due.

        The leader epochs, the indexes and the state of the producers are updated too.
        """
        if not len(table):
            return
        rows, start = table, int(table["position"][0])
        if start:
            rows = table.copy()
            rows["position"] -= start
        data = view[start : start + int(rows["position"][-1]) + int(rows["size"][-1])]
        if max(rows["leader_epoch"].tolist()) > self.latest_epoch:
            epochs = self._epochs
            for epoch, offset in epochs_of(rows):
                if not epochs or epoch > epochs[-1][0]:
                    epochs = assigned(epochs, epoch, offset)
            self._write_epochs(epochs)
        self._active.append(data, rows)
        self._active.add_aborted(self._state.add_producers(data, rows))
        self.next_offset = int(rows["base_offset"][-1]) + max(int(rows["last_offset_delta"][-1]), 0) + 1
        s, due = self.settings, False
        if s.flush_messages is not None:
            self._unflushed += int(np.maximum(rows["count"], 1).sum())
            due = self._unflushed >= s.flush_messages
        if due or (s.flush_ms is not None and _ticks() - self._flushed_at >= s.flush_ms):
            self.flush()

    def _write_epochs(self, epochs: Epochs) -> None:
        if epochs is not self._epochs:
            path, text = self.path / LEADER_EPOCHS, leader_epochs_text(epochs).encode()
            if files.read_bytes(path) != text:
                files.replace(path, text, self._active.mode)
            self._epochs = epochs

    def _roll(self, offset: int) -> None:
        """Complete and sync the active segment, and start a new one at `offset`."""
        self._active.finish()
        self.recovery_point = self.next_offset
        self._take_snapshot(offset)
        try:
            make_segment(self.path, offset, self._active.mode)
            active = ActiveSegment(
                self.path, SegmentIndexes(offset, self.settings.index_interval_bytes), 0, None, now_millis()
            )
        except OSError:
            # Refuse writes until all files of the new segment have been deleted.
            self._active.broken = True
            delete_segment(self.path, offset)
            self._active.broken = False
            raise
        self._active.close()
        self._active = active
        self._bases.append(offset)
        self._changed()

    def _take_snapshot(self, offset: int) -> None:
        files.replace(
            path_of(self.path, offset, ".snapshot"),
            snapshot_bytes(self._state.producers.entries.values()),
            self._active.mode,
        )

    def flush(self) -> None:
        """Sync the log. When this method returns, everything that was appended is on disk.

        Raises
        ------
        OSError
            The log could not be synced. The writer is then `in_doubt`.
        ValueError
            The writer is closed.
        WrongProcessError
            Another process opened the writer.
        """
        with self._lock:
            self._check_open()
            self._active.flush()
            self.recovery_point = self.next_offset
            self._unflushed, self._flushed_at = 0, _ticks()

    def truncate_to(self, offset: int) -> int:
        """Remove all records at `offset` and above, as a follower does.

        Only whole batches are removed. If `offset` is inside a batch, the whole batch is removed.

        Parameters
        ----------
        offset : int
            First offset to remove, 0 or higher. If it is `next_offset` or higher, nothing changes.

        Returns
        -------
        int
            The new `next_offset`, which is `offset` or lower.

        Raises
        ------
        OSError
            A file could not be changed, or was changed by another process. The writer can be
            `in_doubt`.
        TypeError, ValueError
            `offset` is not an integer or is negative, or the writer is closed.
        WrongProcessError
            Another process opened the writer.

        Notes
        -----
        Kafka's counterpart is ``UnifiedLog.truncateTo``.
        """
        with self._lock:
            self._check_open()
            if integer("offset", offset, 0) >= self.next_offset:
                return self.next_offset
            self.recovery_point = min(self.recovery_point, offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            # Save the lower recovery point before truncating, so that recovery after a crash starts
            # there.
            self._changed()
            kept = max(bisect_right(self._bases, offset - 1), 1)
            last = self._bases[kept - 1]
            position = self._position_of(last, offset) if offset >= last else 0
            self._active.broken = True  # refuse writes until the segment is truncated
            self._active.close()
            for base in reversed(self._bases[kept:]):
                delete_segment(self.path, base)
            if offset < self._bases[0]:
                delete_segment(self.path, self._bases[0])
            else:
                files.truncate(path_of(self.path, last), position)
            self._epochs = within(self._epochs, self.log_start_offset, offset)
            files.replace(self.path / LEADER_EPOCHS, leader_epochs_text(self._epochs).encode())
            self._open(self.recovery_point)
            self._changed()
            return self.next_offset

    def _position_of(self, base: int, offset: int) -> int:
        """Return the position of the first batch whose last offset is `offset` or higher.

        If the last offsets of all batches are below `offset`, return the size of the segment.
        """
        path = path_of(self.path, base)
        with FileView(path) as view:
            found = reach(view, offset, 0, view.size, base - 1)
        if found is None:
            raise OSError(
                errno.EIO,
                f"cannot find offset {offset}: another process changed the file, and its batch headers are invalid",
                str(path),
            )
        return found.position

    def delete_before(self, offset: int) -> None:
        """Raise the log start offset, as Kafka's DeleteRecords does.

        Readers no longer see records below the log start offset. Segments whose records are all
        below it are deleted, except the active segment.

        Parameters
        ----------
        offset : int
            The new log start offset, 0 to `next_offset`. If it is the current log start offset or
            lower, nothing changes.

        Raises
        ------
        OSError
            A file could not be deleted or written.
        TypeError, ValueError
            `offset` is not an integer or is out of range, or the writer is closed.
        WrongProcessError
            Another process opened the writer.

        Notes
        -----
        Kafka's counterpart is ``UnifiedLog.maybeIncrementLogStartOffset``.
        """
        with self._lock:
            self._check_open()
            if integer("offset", offset, 0) > self.next_offset:
                raise ValueError(f"offset is {offset}; it must be at most {self.next_offset}, the log end offset")
            if offset > self.log_start_offset:
                self.log_start_offset = offset
                self._changed()
                self._delete(self._below_start())

    def enforce_retention(self, now_ms: int | None = None) -> list[int]:
        """Delete the oldest segments that exceed ``retention_ms`` or ``retention_bytes``.

        Segments whose records are all below the log start offset are deleted too. As in a broker,
        the state of producers that have written nothing for a day is dropped.

        Parameters
        ----------
        now_ms : int, optional
            Current time in ms since 1970-01-01 UTC; by default the system clock.

        Returns
        -------
        list of int
            Base offsets of the deleted segments.

        Raises
        ------
        OSError
            A file could not be deleted or written.
        ValueError
            The writer is closed.
        WrongProcessError
            Another process opened the writer.

        Notes
        -----
        A writer never applies retention unless this method is called. Kafka's counterpart is
        ``UnifiedLog.deleteOldSegments``.
        """
        with self._lock:
            self._check_open()
            now = now_millis() if now_ms is None else now_ms
            self._state.producers.forget(now - PRODUCER_EXPIRATION_MS)
            s, largest = self.settings, self._active.indexes.largest_timestamp
            old = too_old(self.path, self._bases, now, s.retention_ms, largest)
            if self.next_offset == self._bases[-1]:
                old = min(old, len(self._bases) - 1)  # an empty active segment never expires
            n = max(old, too_many(self.path, self._bases, s.retention_bytes), self._below_start())
            gone = self._bases[:n]
            self._delete(n)
            return gone

    def _below_start(self) -> int:
        """Return the number of segments whose offsets are all below the log start offset.

        The active segment is not counted.
        """
        return max(bisect_right(self._bases, self.log_start_offset) - 1, 0)

    def _delete(self, n: int) -> None:
        """Delete the `n` oldest segments. To delete all segments, start a new, empty one first."""
        if not n:
            return
        if n == len(self._bases):
            self._roll(self.next_offset)
        self.log_start_offset = max(self.log_start_offset, self._bases[n])
        for base in self._bases[:n]:
            path_of(self.path, base).unlink(missing_ok=True)
            # Remove one base offset at a time, so that a segment that cannot be deleted stays
            # listed.
            self._bases.remove(base)
            delete_segment(self.path, base)
        for name in files.list_directory(self.path)[1]:
            offset = snapshot_offset_of(name)
            if offset is not None and offset < self._bases[0]:
                (self.path / name).unlink()
        self._write_epochs(within(self._epochs, self.log_start_offset, self.next_offset))
        self._changed()

    def close(self) -> None:
        """Sync everything, write a producer snapshot, and close the files.

        Closing twice does nothing. Closing in a forked process does nothing.

        Raises
        ------
        OSError
            A file could not be written or synced. The files are closed, and the partition is
            recovered when it is opened again.
        """
        if not self._lock.is_owner:
            return
        with self._lock:
            if self.closed:
                return
            self.closed, clean = True, False
            try:
                if not self._active.broken:
                    self._active.finish()
                    if self.next_offset > self._bases[-1]:
                        self._take_snapshot(self.next_offset)
                    files.sync_directory(self.path)
                    self.recovery_point, clean = self.next_offset, True
            finally:
                self._active.close()
                self._on_close(self, clean)

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"{self!r} is closed")
        if self._active.broken:
            raise OSError(
                errno.EIO,
                "an earlier write failed, so the end of the log is unknown; close this writer and open a new one, "
                "which recovers the log",
                str(self.path),
            )


def _ticks() -> int:
    """Return the time of a monotonic clock in milliseconds."""
    return time.monotonic_ns() // 1_000_000

"""Define `LogWriter`, which writes to one partition.

Kafka's counterpart is ``UnifiedLog``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn, Unpack

from ...records import build_batches, build_marker
from ...records.assign import numbered, scan_all
from ...records.signatures import BuilderOptions, RecordLike
from ...support.arguments import integer
from ...support.text import shown
from ...support.times import now_millis
from ...types import Buffer, view_of
from ..findings import Damage
from ..formats import Epochs, ProducerEntry
from ..storage import OwnerLock, refuse_pickling
from .incoming import check, check_transactions
from .local_log import LocalLog
from .settings import LogSettings

WRITE_BYTES = 1 << 20  # number of bytes of encoded batches that `append` collects before it writes them


class Appended(NamedTuple):
    """Offsets of the appended records. If no record was appended, `first_offset` is `last_offset` + 1."""

    first_offset: int
    """Offset of the first appended record."""
    last_offset: int
    """Offset of the last appended record."""


class LogWriter:
    """Writes to one partition. Create a `LogWriter` with `LogDirectory.writer`.

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
    leader_epoch : int
        Leader epoch of the batches to which the writer assigns offsets.
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
        self._on_close = closed
        self._lock = OwnerLock(f"{topic}-{partition} in {shown(str(path.parent))}")
        self.closed: bool = False
        self._log = LocalLog(path, settings, log_start, recovery_point, changed)
        if leader_epoch is not None and leader_epoch < self.latest_epoch:
            self._log.active.close()
            raise ValueError(
                f"leader epoch {leader_epoch} is below {self.latest_epoch}, the latest leader epoch of the log"
            )
        self.leader_epoch: int = max(self.latest_epoch, 0) if leader_epoch is None else leader_epoch

    def __repr__(self) -> str:
        return (
            f"<kafkafmt.LogWriter {self.topic}-{self.partition} at {str(self.path)!r}, next offset {self.next_offset}>"
        )

    @property
    def next_offset(self) -> int:
        """The log end offset, which is the offset that the next record will get."""
        return self._log.next_offset

    @property
    def log_start_offset(self) -> int:
        """First offset that readers see."""
        return self._log.log_start_offset

    @property
    def recovery_point(self) -> int:
        """The recovery point. All records below this offset are on disk."""
        return self._log.recovery_point

    @property
    def cut(self) -> list[Damage]:
        """Invalid data that was truncated when the partition was opened."""
        return self._log.cut

    @property
    def latest_epoch(self) -> int:
        """Latest leader epoch of the log, or -1 if the log has no leader epochs."""
        return self._log.latest_epoch

    @property
    def in_doubt(self) -> bool:
        """Whether the end of the log is unknown because of an error.

        If the end of the log is unknown, no more records can be written. Opening the partition
        again recovers the log.
        """
        return self._log.active.broken

    @property
    def segments(self) -> list[int]:
        """Base offsets of the segments, in increasing order. The last item is the base offset of the active segment."""
        return list(self._log.bases)

    @property
    def leader_epochs(self) -> Epochs:
        """Leader epochs of the log, as pairs (epoch, first offset) in increasing order."""
        return list(self._log.epochs)

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction, or `next_offset` if no transaction is open."""
        first = self._log.state.producers.first_unstable_offset
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
            self._check_open()
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
        producer_id, producer_epoch : int
            Id and epoch of the producer.
        commit : bool
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
        return self._log.state.producers.open_transactions

    def abort_open_transactions(self) -> list[tuple[ProducerEntry, int]]:
        """Append an abort marker for every open transaction.

        Use this method for transactions that no coordinator will end (Kafka:
        ``kafka-transactions.sh abort``).

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
            markers = [
                build_marker(
                    e.producer_id,
                    e.epoch,
                    commit=False,
                    coordinator_epoch=max(e.coordinator_epoch, 0),
                    timestamp=now_millis(),
                )
                for e in hanging
            ]
            first, _ = self.append_batches(b"".join(markers))
            return [(e, first + i) for i, e in enumerate(hanging)]

    def append_batches(self, buffer: Buffer, *, assign_offsets: bool = True) -> Appended:
        """Append encoded batches.

        Parameters
        ----------
        buffer : bytes-like
            Batches or messages (magic 0 to 2), back to back. The buffer is not changed.
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
            The writer is closed. The subclass `OffsetOverflowError` is raised if an offset would
            exceed ``2**63 - 2``.
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
            check_transactions(table, self._log.state.producers.open_among(table["producer_id"].tolist()))
            self._log.append(data, table, lasts)
            return Appended(first, self.next_offset - 1)

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
            self._log.flush()

    def truncate_to(self, offset: int) -> int:
        """Remove all records at `offset` and above, as a follower does.

        Only whole batches are removed. If `offset` is inside a batch, the whole batch is removed.

        Parameters
        ----------
        offset : int
            First offset to remove, 0 or higher. If `offset` is `next_offset` or higher, nothing
            changes.

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
            if integer("offset", offset, 0) < self.next_offset:
                self._log.truncate_to(offset)
            return self.next_offset

    def delete_before(self, offset: int) -> None:
        """Raise the log start offset, as Kafka's DeleteRecords does.

        Readers no longer see records below the log start offset. Segments whose records are all
        below this offset are deleted, except the active segment.

        Parameters
        ----------
        offset : int
            The new log start offset, 0 to `next_offset`. If `offset` is the current log start
            offset or lower, nothing changes.

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
                self._log.delete_before(offset)

    def enforce_retention(self, now_ms: int | None = None) -> list[int]:
        """Delete the oldest segments if the partition exceeds ``retention_ms`` or ``retention_bytes``.

        Segments whose records are all below the log start offset are deleted too. As in a broker,
        the state of a producer is dropped if it has written nothing for a day and has no open
        transaction.

        Parameters
        ----------
        now_ms : int, optional
            Current time in ms since 1970-01-01 UTC. By default, the system clock is used.

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
            return self._log.enforce_retention(now_millis() if now_ms is None else now_ms)

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
                if not self._log.active.broken:
                    self._log.finish()
                    clean = True
            finally:
                self._log.active.close()
                self._on_close(self, clean)

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"{shown(self)} is closed")
        if self._log.active.broken:
            raise OSError(
                errno.EIO,
                "an earlier write failed, so the end of the log is unknown; close this writer and open a new one, "
                "which recovers the log",
                str(self.path),
            )

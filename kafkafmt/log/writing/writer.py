"""A partition that a program writes: append, roll, flush, truncate, delete, as a broker does (Kafka: UnifiedLog, LocalLog).

A batch is written whole or not at all, and readers see whole batches only: they may read while this writes. Everything
beside the batches follows them: indexes at the interval, a snapshot of the producers and everything on disk when a
segment ends, leader epochs when one begins. So what a crash leaves can always be told from the batches alone.
"""

from __future__ import annotations

import errno
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn, Unpack

import numpy as np

from ...arguments import integer
from ...records import build_batches, build_marker
from ...records.assign import numbered, scan_all
from ...records.signatures import BuilderOptions, RecordLike
from ...types import Buffer, byte_view, view_of
from ..format import files
from ..format.checkpoints import LEADER_EPOCHS, leader_epochs_text
from ..format.files import FileView
from ..format.index_entries import OFFSET_ENTRY, TIME_ENTRY
from ..format.leader_epochs import Epochs, assigned, epochs_of, within
from ..format.names import snapshot_offset_of
from ..format.snapshots import ProducerEntry, snapshot_bytes
from ..reading.plan import Damage
from ..reading.ranges import reach
from .active import ActiveSegment
from .incoming import check, check_transactions
from .index_builder import MAX_RELATIVE_OFFSET, SegmentIndexes
from .process import OwnerLock, refuse_pickling
from .recovery import delete_segment, load, make_segment, path_of
from .retention import too_many, too_old
from .settings import LogSettings

AT_ONCE = 1 << 20
"""Bytes of built batches that `append` writes together."""
PRODUCER_EXPIRATION_MS = 24 * 3600 * 1000
"""How long Kafka remembers a producer that writes no more."""


class Appended(NamedTuple):
    """Where records went: first > last where there were none."""

    first_offset: int
    last_offset: int


class LogWriter:
    """One partition, open for writing. It comes from `LogDirectory.writer`, and is closed with the directory or by itself.

    Threads may share it. After an OSError the log holds whole batches only, and `next_offset` says how many; where
    even that could not be made sure the writer refuses to go on, and opening the directory anew recovers the log.

    topic, partition, path. next_offset: the next record's. log_start_offset: the first that a reader sees.
    recovery_point: everything below it is on disk. cut: what of the end was not sound when the log was opened.
    """

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
        self.log_start_offset = log_start
        self._changed, self._on_close = changed, closed
        self._lock = OwnerLock(f"{topic}-{partition} in {str(path.parent)!r}")
        self.closed = False
        self._unflushed, self._flushed_at = 0, _ticks()
        self.cut: list[Damage] = []
        self._epochs: Epochs = []
        self._open(recovery_point)
        if leader_epoch is not None and leader_epoch < self.latest_epoch:
            self._active.close()
            raise ValueError(f"leader epoch {leader_epoch} is below the log's latest, {self.latest_epoch}")
        self.leader_epoch = max(self.latest_epoch, 0) if leader_epoch is None else leader_epoch

    def _open(self, recovery_point: int | None) -> None:
        """Take up what lies in the directory; an end beyond which the log was said to start is given up, as by a broker."""
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
            self.path, loaded.last.indexes, loaded.last.end, loaded.last.first_timestamp, _now()
        )
        self._write_epochs(loaded.epochs)
        self.recovery_point = self.next_offset  # what had to be recovered is on disk now

    def __repr__(self) -> str:
        return (
            f"<kafkafmt.LogWriter {self.topic}-{self.partition} at {str(self.path)!r}, next offset {self.next_offset}>"
        )

    @property
    def in_doubt(self) -> bool:
        """Has an error left the log's end so that only the next opening can tell where it is? Then nothing more is written."""
        return self._active.broken

    @property
    def segments(self) -> list[int]:
        """The segments' base offsets; the last one is written to."""
        return list(self._bases)

    @property
    def leader_epochs(self) -> Epochs:
        """(epoch, first offset)"""
        return list(self._epochs)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, else the log's end."""
        first = self._state.producers.first_unstable_offset
        return self.next_offset if first is None else first

    def append(self, records: Iterable[RecordLike], **options: Unpack[BuilderOptions]) -> Appended:
        """Append records: tuples (key, value[, timestamp[, headers[, offset]]]), or Records. `options` are BatchBuilder's.

        Offsets go on from the last one. A tuple with an offset, and a Record, keep theirs, which must be `next_offset` or higher;
        InvalidError ("offset_order") if it is not. To give Records new offsets, append tuples of their fields.
        """
        with self._lock:
            first = self.next_offset
            pending, size = [], 0
            given: BuilderOptions = {"base_offset": first, "leader_epoch": self.leader_epoch, **options}
            for batch in build_batches(records, **given):
                pending.append(batch)
                size += len(batch)
                if size >= AT_ONCE:
                    self.append_batches(b"".join(pending), assign_offsets=False)
                    pending, size = [], 0
            if pending:
                self.append_batches(b"".join(pending), assign_offsets=False)
            return Appended(first, self.next_offset - 1)

    def end_transaction(
        self, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int = 0
    ) -> Appended:
        """Append the marker that ends a producer's transaction."""
        self._lock.check()
        marker = build_marker(
            producer_id, producer_epoch, commit=commit, coordinator_epoch=coordinator_epoch, timestamp=_now()
        )
        return self.append_batches(marker)

    @property
    def open_transactions(self) -> list[ProducerEntry]:
        """The producers that have a transaction open, from its txn_first_offset on; the oldest one first."""
        return self._state.producers.open_transactions

    def abort_open_transactions(self) -> list[tuple[ProducerEntry, int]]:
        """End every open transaction with an abort marker; the producers as they were, each with its marker's offset.

        For transactions that nobody will end any more (Kafka: `kafka-transactions.sh abort`).
        """
        with self._lock:
            hanging = self.open_transactions
            coordinators = [max(e.coordinator_epoch, 0) for e in hanging]
            markers = [
                build_marker(e.producer_id, e.epoch, commit=False, coordinator_epoch=c, timestamp=_now())
                for e, c in zip(hanging, coordinators, strict=True)
            ]
            first, _ = self.append_batches(b"".join(markers))
            return [(e, first + i) for i, e in enumerate(hanging)]

    def append_batches(self, buffer: Buffer, *, assign_offsets: bool = True) -> Appended:
        """Append encoded batches, back to back.

        assign_offsets: they get the next offsets and the writer's leader epoch, as by a leader. Else they keep theirs,
        as by a follower: they must rise, and begin at `next_offset` or above. KafkaFormatError, and nothing is written,
        where they are not sound. `validate_and_assign_offsets` does before what else a broker does to what clients send.
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
                if (
                    i > begin and i - begin >= self._index_room()
                ):  # only once they are written is it known how many entries they take
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
        """The last leader's epoch, -1 where there was none."""
        return self._epochs[-1][0] if self._epochs else -1

    def _index_room(self) -> int:
        """How many entries the active segment's indexes still take; one of the time index is kept for its end."""
        indexes, size = self._active.indexes, self.settings.segment_index_bytes
        return min(
            size // OFFSET_ENTRY.itemsize - indexes.offset_entries,
            size // TIME_ENTRY.itemsize - 1 - indexes.time_entries,
        )

    def _must_roll(self, bytes_before: int, first_timestamp: int, size: int, timestamp: int, last_offset: int) -> bool:
        """Does a batch begin a new segment, once those before it of the same call are in this one?"""
        s, active = self.settings, self._active
        if last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not active.size + bytes_before:
            return False
        first = first_timestamp if active.first_timestamp is None else active.first_timestamp
        waited = timestamp - first if first >= 0 else _now() - active.created
        return active.size + bytes_before + size > s.segment_bytes or waited > s.segment_ms or self._index_room() <= 0

    def _write(self, view: memoryview, table: np.ndarray) -> None:
        """Batches that belong into the active segment, and all that follows from them."""
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
        """Begin a new segment; the one before it is complete and on disk."""
        self._active.finish()
        self.recovery_point = self.next_offset
        self._take_snapshot(offset)
        try:
            make_segment(self.path, offset, self._active.mode)
            active = ActiveSegment(
                self.path, SegmentIndexes(offset, self.settings.index_interval_bytes), 0, None, _now()
            )
        except OSError:
            self._active.broken = True  # until it is certain that no file tells of the new segment
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
        """All that was appended is on disk once this returns."""
        with self._lock:
            self._check_open()
            self._active.flush()
            self.recovery_point = self.next_offset
            self._unflushed, self._flushed_at = 0, _ticks()

    def truncate_to(self, offset: int) -> int:
        """Drop the records from an offset on, and with a record its whole batch; the next offset that this leaves."""
        with self._lock:
            self._check_open()
            if integer("offset", offset, 0) >= self.next_offset:
                return self.next_offset
            self.recovery_point = min(self.recovery_point, offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self._changed()  # before anything is cut: after a crash in between recovery begins here
            kept = max(bisect_right(self._bases, offset - 1), 1)
            last = self._bases[kept - 1]
            position = self._position_of(last, offset) if offset >= last else 0
            self._active.broken = True  # until all is cut
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
        """Where the first batch begins that reaches an offset; the segment's end where none does."""
        path = path_of(self.path, base)
        with FileView(path) as view:
            found = reach(view, offset, 0, view.size, base - 1)
        if found is None:
            raise OSError(
                errno.EIO, "its batches do not lead to the offset: something else has changed the file", str(path)
            )
        return found.position

    def delete_before(self, offset: int) -> None:
        """Move the log's start up, as DeleteRecords does: readers see nothing below, and segments that end below it go."""
        with self._lock:
            self._check_open()
            if integer("offset", offset, 0) > self.next_offset:
                raise ValueError(f"offset {offset} is not within the log, which ends at {self.next_offset}")
            if offset > self.log_start_offset:
                self.log_start_offset = offset
                self._changed()
                self._delete(self._below_start())

    def enforce_retention(self, now_ms: int | None = None) -> list[int]:
        """Delete the oldest segments that retention_ms and retention_bytes let go; their base offsets.

        Producers that have written nothing for a day are forgotten too, as by a broker.
        """
        with self._lock:
            self._check_open()
            now = _now() if now_ms is None else now_ms
            self._state.producers.forget(now - PRODUCER_EXPIRATION_MS)
            s, largest = self.settings, self._active.indexes.largest_timestamp
            old = too_old(self.path, self._bases, now, s.retention_ms, largest)
            if self.next_offset == self._bases[-1]:
                old = min(old, len(self._bases) - 1)  # an empty segment is never too old
            n = max(old, too_many(self.path, self._bases, s.retention_bytes), self._below_start())
            gone = self._bases[:n]
            self._delete(n)
            return gone

    def _below_start(self) -> int:
        """How many segments end at or below the log's start; the active one never goes for that."""
        return max(bisect_right(self._bases, self.log_start_offset) - 1, 0)

    def _delete(self, n: int) -> None:
        """Delete the n oldest segments; of all of them the last is followed by a new, empty one first."""
        if not n:
            return
        if n == len(self._bases):
            self._roll(self.next_offset)
        self.log_start_offset = max(self.log_start_offset, self._bases[n])
        for base in self._bases[:n]:
            path_of(self.path, base).unlink(missing_ok=True)
            self._bases.remove(base)  # one by one: what could not be deleted is still there, and tried again
            delete_segment(self.path, base)
        for name in files.list_directory(self.path)[1]:
            offset = snapshot_offset_of(name)
            if offset is not None and offset < self._bases[0]:
                (self.path / name).unlink()
        self._write_epochs(within(self._epochs, self.log_start_offset, self.next_offset))
        self._changed()

    def close(self) -> None:
        """Put everything on disk and close the files. Closing twice does nothing; nor does closing in a forked process."""
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
            raise OSError(errno.EIO, "an earlier error left the log's end in doubt: open it anew", str(self.path))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _ticks() -> int:
    """Milliseconds that only rise, whatever is done to the clock."""
    return time.monotonic_ns() // 1_000_000

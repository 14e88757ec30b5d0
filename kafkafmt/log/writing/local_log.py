"""Change the files of a partition: append batches, and roll, flush, truncate and delete segments.

Kafka's counterpart is ``LocalLog``. A batch is written completely or not at all. Readers see only
complete batches. The batches alone determine the state after a crash. The other files are written
at these times:

- Index entries: at the index interval, after the batches that they refer to.
- A new leader epoch: before the first batch of that epoch.
- A producer snapshot: when a segment is rolled, which is then synced.
"""

from __future__ import annotations

import errno
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..._backend import core
from ...constants import MAGIC_V2, MAX_RELATIVE_OFFSET
from ...support.times import now_millis
from ...types import BatchTable, Buffer, byte_view
from ..findings import Damage
from ..formats import (
    LEADER_EPOCHS,
    OFFSET_ENTRY,
    TIME_ENTRY,
    Epochs,
    assigned,
    epochs_of,
    leader_epochs_text,
    snapshot_of,
    snapshot_offset_of,
    within,
)
from ..scanning import reach
from ..storage import FileView, file_differs, list_directory, replace_file, sync_directory, truncate_file
from .active import ActiveSegment, path_of
from .index_builder import SegmentIndexes, State
from .recovery import delete_segment, load, make_segment
from .retention import too_many, too_old
from .settings import LogSettings

PRODUCER_EXPIRATION_MS = 24 * 3600 * 1000  # Kafka's default of ``producer.id.expiration.ms``


class LocalLog:
    """The segments, leader epochs and producer states of a partition that is open for writing."""

    # `LogWriter` holds a lock during every call, and checks the arguments before the call. `changed` is called when the
    # segments or the offsets have changed, to write the checkpoints.

    path: Path
    settings: LogSettings
    bases: list[int]
    active: ActiveSegment
    state: State
    next_offset: int
    log_start_offset: int
    recovery_point: int

    def __init__(
        self,
        path: Path,
        settings: LogSettings,
        log_start: int,
        recovery_point: int | None,
        changed: Callable[[], None],
    ) -> None:
        self.path, self.settings = path, settings
        self.log_start_offset = log_start
        self.cut: list[Damage] = []
        self.epochs: Epochs = []
        self._changed = changed
        self._unflushed, self._flushed_at = 0, _ticks()
        self._load(recovery_point)

    def _load(self, recovery_point: int | None) -> None:
        """Load the partition directory."""
        # As in a broker, a log that ends before `log_start_offset` loses all segments, and continues there.
        s = self.settings
        loaded = load(self.path, self.log_start_offset, recovery_point, s.index_interval_bytes, s.truncate_at_damage)
        if loaded.last.next_offset < self.log_start_offset:
            for base in reversed(loaded.bases):
                delete_segment(self.path, base)
            loaded = load(self.path, self.log_start_offset, None, s.index_interval_bytes, False)
        self.cut += loaded.cut
        self.bases, self.state = loaded.bases, loaded.state
        self.next_offset = loaded.last.next_offset
        self.log_start_offset = max(self.log_start_offset, self.bases[0])
        self.active = ActiveSegment(
            self.path, loaded.last.indexes, loaded.last.end, loaded.last.first_timestamp, now_millis()
        )
        self._write_epochs(loaded.epochs)
        # All records are on disk now, because `load` has synced every segment that it recovered.
        self.recovery_point = self.next_offset

    @property
    def latest_epoch(self) -> int:
        """Latest leader epoch of the log, or -1 if the log has no leader epochs."""
        return self.epochs[-1][0] if self.epochs else -1

    def append(self, data: Buffer, table: BatchTable, lasts: list[int]) -> None:
        """Append valid batches, and start new segments when necessary. `lasts` are the last offsets of the batches."""
        view, begin = byte_view(data), 0
        starts, sizes, times = (table[name].tolist() for name in ("position", "size", "max_timestamp"))
        for i, last in enumerate(lasts):
            # Assume one index entry per batch: the exact number of entries is known only after the batches are written.
            if i > begin and i - begin >= self._free_index_entries():
                self._write(view, table[begin:i])
                begin = i
            if self._must_roll(starts[i] - starts[begin], times[begin], sizes[i], times[i], last):
                self._write(view, table[begin:i])
                begin = i
                self.roll(self._start_of_segment(table[i], last))
        self._write(view, table[begin:])

    def _start_of_segment(self, batch: Any, last_offset: int) -> int:
        """Return the base offset of a new segment that begins with `batch`."""
        # The header of a wrapper message contains only its last offset. As in Kafka, the log end offset then becomes
        # the base offset. It is raised if the last offset would be too far from it for an index entry, which stores the
        # distance in 31 bits.
        if batch["magic"] >= MAGIC_V2:
            return int(batch["base_offset"])
        return max(self.next_offset, last_offset - MAX_RELATIVE_OFFSET)

    def _free_index_entries(self) -> int:
        """Return how many more entries fit in the active segment's indexes."""
        # One entry of the time index is reserved for the entry that is written when the segment is closed.
        indexes, size = self.active.indexes, self.settings.segment_index_bytes
        return min(
            size // OFFSET_ENTRY.itemsize - indexes.offset_entries,
            size // TIME_ENTRY.itemsize - 1 - indexes.time_entries,
        )

    def _must_roll(self, bytes_before: int, first_timestamp: int, size: int, timestamp: int, last_offset: int) -> bool:
        """Return whether a batch must start a new segment, as ``LogSegment.shouldRoll`` does."""
        # `bytes_before` are yet to be written to the segment before this batch. Timestamps are the largest of a batch.
        s, active = self.settings, self.active
        if last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not active.size + bytes_before:
            return False
        first = first_timestamp if active.first_timestamp is None else active.first_timestamp
        age = timestamp - first if first >= 0 else now_millis() - active.created
        too_large = active.size + bytes_before + size > s.segment_bytes
        return too_large or age > s.segment_ms or self._free_index_entries() <= 0

    def _write(self, view: memoryview, table: BatchTable) -> None:
        """Append batches to the active segment, and flush the segment if a flush is due."""
        if not len(table):
            return
        rows, start = table, int(table["position"][0])
        if start:
            rows = table.copy()
            rows["position"] -= start
        data = view[start : start + int(rows["position"][-1]) + int(rows["size"][-1])]
        if max(rows["leader_epoch"].tolist()) > self.latest_epoch:
            epochs = self.epochs
            for epoch, offset in epochs_of(rows):
                if not epochs or epoch > epochs[-1][0]:
                    epochs = assigned(epochs, epoch, offset)
            self._write_epochs(epochs)
        self.active.append(data, rows)
        self.active.add_aborted(self.state.add_producers(data, rows, core.summarize_batches(rows)))
        self.next_offset = int(rows["base_offset"][-1]) + max(int(rows["last_offset_delta"][-1]), 0) + 1
        s, due = self.settings, False
        if s.flush_messages is not None:
            self._unflushed += int(np.maximum(rows["count"], 1).sum())
            due = self._unflushed >= s.flush_messages
        if due or (s.flush_ms is not None and _ticks() - self._flushed_at >= s.flush_ms):
            self.flush()

    def _write_epochs(self, epochs: Epochs) -> None:
        if epochs is not self.epochs:
            path, text = self.path / LEADER_EPOCHS, leader_epochs_text(epochs).encode()
            if file_differs(path, text):
                replace_file(path, text, self.active.mode)
            self.epochs = epochs

    def roll(self, offset: int) -> None:
        """Complete and sync the active segment, and start a new one at `offset`."""
        self.active.finish()
        self.recovery_point = self.next_offset
        self._take_snapshot(offset)
        try:
            make_segment(self.path, offset, self.active.mode)
            active = ActiveSegment(
                self.path, SegmentIndexes(offset, self.settings.index_interval_bytes), 0, None, now_millis()
            )
        except OSError:
            # Refuse writes until all files of the incomplete new segment have been deleted.
            self.active.broken = True
            delete_segment(self.path, offset)
            self.active.broken = False
            raise
        self.active.close()
        self.active = active
        self.bases.append(offset)
        self._changed()

    def _take_snapshot(self, offset: int) -> None:
        replace_file(
            path_of(self.path, offset, ".snapshot"),
            snapshot_of(self.state.producers.states),
            self.active.mode,
        )

    def flush(self) -> None:
        """Sync the active segment. Older segments have been synced already."""
        self.active.flush()
        self.recovery_point = self.next_offset
        self._unflushed, self._flushed_at = 0, _ticks()

    def truncate_to(self, offset: int) -> None:
        """Remove all batches that contain `offset`, which must be below `next_offset`, or a higher offset."""
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        # Save the recovery point before the truncation, so that after a crash, recovery starts at `offset` or earlier.
        self._changed()
        kept = max(bisect_right(self.bases, offset - 1), 1)
        last = self.bases[kept - 1]
        position = self._position_of(last, offset) if offset >= last else 0
        self.active.broken = True  # refuse writes until the segment is truncated
        self.active.close()
        for base in reversed(self.bases[kept:]):
            delete_segment(self.path, base)
        if offset < self.bases[0]:
            delete_segment(self.path, self.bases[0])
        else:
            truncate_file(path_of(self.path, last), position)
        self.epochs = within(self.epochs, self.log_start_offset, offset)
        replace_file(self.path / LEADER_EPOCHS, leader_epochs_text(self.epochs).encode())
        self._load(self.recovery_point)
        self._changed()

    def _position_of(self, base: int, offset: int) -> int:
        """Return the position of the first batch whose last offset is `offset` or higher, or the segment size."""
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
        """Raise the log start offset to `offset`, and delete the segments that end below this offset."""
        self.log_start_offset = offset
        self._changed()
        self._delete_oldest(self._below_start())

    def enforce_retention(self, now: int) -> list[int]:
        """Delete the segments that exceed the retention limits at `now` (ms), and return their base offsets."""
        # A producer's state is dropped if the producer has written nothing for a day and has no open transaction.
        self.state.producers.forget(now - PRODUCER_EXPIRATION_MS)
        s, largest = self.settings, self.active.indexes.largest_timestamp
        old = too_old(self.path, self.bases, now, s.retention_ms, largest)
        if self.next_offset == self.bases[-1]:
            old = min(old, len(self.bases) - 1)  # an empty active segment never expires
        n = max(old, too_many(self.path, self.bases, s.retention_bytes), self._below_start())
        gone = self.bases[:n]
        self._delete_oldest(n)
        return gone

    def _below_start(self) -> int:
        """Return the number of segments (without the active one) whose offsets are all below the log start offset."""
        return max(bisect_right(self.bases, self.log_start_offset) - 1, 0)

    def _delete_oldest(self, n: int) -> None:
        """Delete the `n` oldest segments. If no segment would remain, start a new, empty segment first."""
        if not n:
            return
        if n == len(self.bases):
            self.roll(self.next_offset)
        self.log_start_offset = max(self.log_start_offset, self.bases[n])
        for base in self.bases[:n]:
            path_of(self.path, base).unlink(missing_ok=True)
            # Remove one base offset at a time, so that a segment that cannot be deleted stays listed.
            self.bases.remove(base)
            delete_segment(self.path, base)
        for name in list_directory(self.path)[1]:
            offset = snapshot_offset_of(name)
            if offset is not None and offset < self.bases[0]:
                (self.path / name).unlink()
        self._write_epochs(within(self.epochs, self.log_start_offset, self.next_offset))
        self._changed()

    def finish(self) -> None:
        """Write the last index entries and a producer snapshot, and sync all files."""
        self.active.finish()
        if self.next_offset > self.bases[-1]:
            self._take_snapshot(self.next_offset)
        sync_directory(self.path)
        self.recovery_point = self.next_offset


def _ticks() -> int:
    return time.monotonic_ns() // 1_000_000

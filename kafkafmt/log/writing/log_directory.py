"""Open a log directory for writing, in one process at a time (Kafka: ``LogManager``).

This module locks the file `.lock` in the same way as a broker, so that both never use a directory
at the same time.

The file `.kafka_cleanshutdown` marks a clean shutdown. It is deleted when the directory is opened,
and created when it is closed, unless a partition still needs recovery.
"""

from __future__ import annotations

import errno
import fcntl
import os
import warnings
from collections.abc import Collection
from pathlib import Path
from threading import RLock
from typing import NoReturn, Unpack

from ...errors import StructureError
from ...support.arguments import integer
from ...support.paths import output_path
from ...support.text import counted, shown
from ..catalog import INCOMPLETE
from ..formats import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    MAX_PARTITION,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    can_be_checkpointed,
    clean_shutdown_text,
    is_topic_name,
    offset_checkpoint_text,
    parse_partition_name,
    partition_metadata_text,
    read_offset_checkpoint,
    read_partition_metadata,
    uuid_bytes,
)
from ..storage import (
    NEW_FILE,
    ForkSafeLock,
    OwnerLock,
    file_size,
    list_directory,
    narrowed_mode,
    raise_if_intact,
    read_text,
    refuse_pickling,
    replace_file,
    sync_directory,
)
from .append_journal import roll_back
from .mounting import StrayPartitionWarning, strays
from .settings import LogSettings, LogSettingsOptions
from .writer import LogWriter

LOCK = ".lock"
MAX_LEADER_EPOCH = 2**31 - 1
WRITTEN_CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS)
_locked: dict[tuple[int, int], int] = {}
"""Descriptors of lock files by device and inode: the system lets a process lock a file twice."""
_taking = ForkSafeLock()


def _forget_locks() -> None:
    """Close the lock file descriptors that a forked child process has inherited."""
    # If a child, which inherits no locks, locked a file again, closing an inherited descriptor would release the lock.
    for handle in _locked.values():
        os.close(handle)
    _locked.clear()


os.register_at_fork(after_in_child=_forget_locks)


class LogDirectory:
    """A log directory that is open for writing. The directory is created if it does not exist.

    Use a `LogDirectory` as a context manager, or call `close`.

    Parameters
    ----------
    path : str or os.PathLike
        The log directory.
    **settings
        Settings for all writers, as keyword arguments with the names of the `LogSettings` fields.
        The method `writer` can override them for one writer.

    Attributes
    ----------
    path : Path
        Absolute path of the directory.
    clean : bool
        Whether the last shutdown was clean. After an unclean shutdown, partitions are recovered
        from their recovery points when they are opened.

    Raises
    ------
    BlockingIOError
        The directory is already open, in this process or in another one, such as a broker.
    OSError
        The directory cannot be created, read or written. The errno is EBUSY if an interrupted
        `kafkafmt salvage`, `rewrite` or `make` left the directory incomplete.
    StructureError
        The journal of atomic appends (`kafkafmt-append.json`) is corrupted.
    DamagedLogError
        An interrupted atomic append must be undone in a partition where valid batches follow
        damage.
    TypeError, ValueError
        A setting is unknown or wrong.

    Notes
    -----
    Kafka's counterpart is ``LogManager``. The directory and its writers can be shared between
    threads, but cannot be pickled. They belong to the process that opened the directory. In a
    forked child process, `close` does nothing, and all other methods raise `WrongProcessError`.

    Examples
    --------
    >>> with kafkafmt.LogDirectory("/var/lib/app/log") as directory:
    ...     orders = directory.writer("orders", 0, segment_bytes=64 << 20)
    ...     orders.append([(b"key", b"value", 1_700_000_000_000)], codec="zstd")
    Appended(first_offset=0, last_offset=0)
    """

    def __init__(self, path: str | os.PathLike[str], **settings: Unpack[LogSettingsOptions]) -> None:
        self.path: Path = output_path(path)
        self.settings = settings
        LogSettings(**settings)
        if (self.path / INCOMPLETE).exists():
            why = (
                "incomplete, because the command that writes it was interrupted or is still running; delete it and run "
                "the command again"
            )
            raise OSError(errno.EBUSY, why, str(self.path))
        self.path.mkdir(parents=True, exist_ok=True)
        self._owner = OwnerLock(repr(str(self.path)))
        self._lock = take_lock(self.path / LOCK)
        # Lock order: a thread must acquire the lock of a writer before the lock of the directory.
        self._threads = RLock()
        self._closing = False
        self._closing_together = 0
        """Number of running calls of `close_writers`. While it is not 0, a closed writer does not write the checkpoints."""
        self._writers: dict[tuple[str, int], LogWriter] = {}
        self._opened: set[str] = set()
        self._in_doubt = False
        self._saved: dict[str, str] = {}
        try:
            self._offsets = {name: self._read(name) for name in WRITTEN_CHECKPOINTS}
            self.clean: bool = file_size(self.path / CLEAN_SHUTDOWN) is not None
            self._mark_mode = narrowed_mode(NEW_FILE, self.path / CLEAN_SHUTDOWN)
            if self.clean:
                (self.path / CLEAN_SHUTDOWN).unlink()
                sync_directory(self.path)
            roll_back(self.path, self.writer)
        except BaseException:
            release_lock(self._lock)
            self._lock = -1
            raise

    def __repr__(self) -> str:
        return f"<kafkafmt.LogDirectory {str(self.path)!r}, {counted(len(self._writers), 'writer')}>"

    def _read(self, name: str) -> dict[tuple[str, int], int]:
        """Return the valid entries of a checkpoint, or no entries if the file is corrupted."""
        # Invalid entries would make the next checkpoint unreadable. Without an entry, recovery reads the whole
        # partition.
        try:
            found = read_offset_checkpoint(read_text(self.path / name) or "", name)
        except StructureError as error:
            raise_if_intact(error)
            return {}
        return {key: offset for key, offset in found.items() if can_be_checkpointed(*key) and offset >= 0}

    def writer(
        self,
        topic: str,
        partition: int = 0,
        *,
        leader_epoch: int | None = None,
        topic_id: str | None = None,
        **settings: Unpack[LogSettingsOptions],
    ) -> LogWriter:
        """Open a partition for writing, and create it if it does not exist.

        After an unclean shutdown, the partition is recovered: invalid data at its end is truncated
        (see `LogWriter.cut`), and its indexes are rebuilt. If a broker was killed while it replaced
        segments with compacted ones, the replacement is completed, as a broker does when it starts.

        Parameters
        ----------
        topic : str
            Name of the topic: up to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'.
        partition : int, default 0
            Number of the partition, 0 to ``2**31 - 1``.
        leader_epoch : int, optional
            Leader epoch of the batches to which the writer assigns offsets. By default the latest
            leader epoch of the log, or 0 if the log has none.
        topic_id : str, optional
            Topic id to write to `partition.metadata`, as 22 characters of base64url. A broker needs
            it to mount the partition. By default the file is not written.
        **settings
            Settings of this writer, as keyword arguments with the names of the `LogSettings`
            fields. By default the settings of the directory are used.

        Returns
        -------
        LogWriter
            The writer, which is also closed when the directory is closed.

        Raises
        ------
        DamagedLogError
            Valid batches follow damage, and ``truncate_at_damage`` is False. This error is also raised
            if a `.log.swap` file, with which a broker was replacing segments, is damaged.
        StructureError
            `topic_id`, or the existing `partition.metadata`, is not valid.
        OSError
            A file cannot be read or written.
        TypeError, ValueError
            An argument is wrong, or one of these is true: the partition already has a writer, the
            topic id of the partition is not `topic_id`, `leader_epoch` is below the latest leader
            epoch of the log, or the directory is closed.
        WrongProcessError
            Another process opened the directory.
        """
        self._owner.check()
        with self._threads:
            return self._writer(topic, partition, leader_epoch, topic_id, settings)

    def _writer(
        self, topic: str, partition: int, leader_epoch: int | None, topic_id: str | None, settings: LogSettingsOptions
    ) -> LogWriter:
        key, folder = (topic, partition), self.path / f"{topic}-{partition}"
        if self._lock < 0 or self._closing:
            raise ValueError(f"{shown(self)} is closed")
        if not isinstance(topic, str) or not is_topic_name(topic):
            raise ValueError(
                f"topic is {shown(topic)}; a topic name has 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-', "
                "and is neither '.' nor '..'"
            )
        if not 0 <= integer("partition", partition) <= MAX_PARTITION:
            raise ValueError(f"partition is {partition}; it must be between 0 and {MAX_PARTITION}")
        if leader_epoch is not None and integer("leader_epoch", leader_epoch, -1) > MAX_LEADER_EPOCH:
            raise ValueError(f"leader_epoch is {leader_epoch}; it must be at most {MAX_LEADER_EPOCH}")
        if key in self._writers:
            raise ValueError(f"{topic}-{partition} already has an open writer; use it, or close it first")
        if topic_id is not None:
            uuid_bytes(topic_id)
        made = LogSettings(**self.settings | settings)
        new = not folder.is_dir()
        folder.mkdir(exist_ok=True)
        if new:
            sync_directory(self.path)
        if topic_id is not None:
            self._set_topic_id(folder, topic_id)
        opened = LogWriter(
            folder,
            topic,
            partition,
            made,
            leader_epoch=leader_epoch,
            log_start=self._offsets[LOG_STARTS].get(key, 0),
            recovery_point=None
            if new or (self.clean and folder.name not in self._opened)
            else self._offsets[RECOVERY_POINTS].get(key, 0),
            changed=self._save,
            closed=self._closed,
        )
        self._writers[key] = opened
        self._opened.add(folder.name)
        if opened.next_offset < self._offsets[RECOVERY_POINTS].get(key, 0):
            # A crash came between the truncation of the log and the checkpoint. Readers would call the end lost.
            self._save()
        return opened

    def _set_topic_id(self, folder: Path, topic_id: str) -> None:
        text = read_text(folder / PARTITION_METADATA)
        if text is None:
            replace_file(folder / PARTITION_METADATA, partition_metadata_text(topic_id).encode())
        elif (known := read_partition_metadata(text)["topic_id"]) != topic_id:
            raise ValueError(f"topic_id is {shown(topic_id)}, but {folder.name} has topic id {shown(known)}")

    def _closed(self, writer: LogWriter, clean: bool) -> None:
        with self._threads:
            self._note(writer)
            del self._writers[writer.topic, writer.partition]
            self._in_doubt = self._in_doubt or not clean
            if not self._closing_together:
                self._save()

    def close_writers(self, writers: Collection[LogWriter]) -> list[OSError]:
        """Close writers of this directory, write the checkpoints once, and return the errors that occurred.

        A checkpoint contains all partitions. If it was written for each writer, the time would be
        quadratic in the number of writers.
        """
        if not self.is_owner or not writers:
            return []
        errors = []
        with self._threads:
            self._closing_together += 1
        try:
            for writer in writers:
                try:
                    writer.close()
                except OSError as error:
                    errors.append(error)
        finally:
            with self._threads:
                self._closing_together -= 1
            try:
                self._save()
            except OSError as error:
                errors.append(error)
        return errors

    def _note(self, writer: LogWriter) -> None:
        key = writer.topic, writer.partition
        self._offsets[RECOVERY_POINTS][key] = writer.recovery_point
        self._offsets[HIGH_WATERMARKS][key] = writer.next_offset
        start = writer.log_start_offset
        if start > writer.segments[0]:
            self._offsets[LOG_STARTS][key] = start
        elif self._offsets[LOG_STARTS].get(key, 0) >= start:
            # With tiered storage, an entry below `start` is the first offset of the remote data. Keep such an entry.
            self._offsets[LOG_STARTS].pop(key, None)

    def _save(self) -> None:
        """Write the checkpoint files whose content has changed."""
        with self._threads:
            for writer in self._writers.values():
                self._note(writer)
            for name in WRITTEN_CHECKPOINTS:
                text = offset_checkpoint_text(self._offsets[name])
                if self._saved.get(name) != text:
                    replace_file(self.path / name, text.encode())
                    self._saved[name] = text

    @property
    def is_owner(self) -> bool:
        """Whether this process opened the directory."""
        return self._owner.is_owner

    def check_process(self) -> None:
        """Raise `WrongProcessError` if another process opened the directory."""
        self._owner.check()

    def close(self) -> None:
        """Close every writer, and mark the shutdown as clean unless a partition needs recovery.

        Closing twice does nothing.

        Raises
        ------
        OSError
            A writer could not be closed. The other writers are closed, and the shutdown is not
            marked as clean.

        Warns
        -----
        StrayPartitionWarning
            A KRaft broker would not serve some of the partitions that were written. A broker
            renames a partition directory to `…-stray` if its metadata log does not contain the
            topic id of the partition. Ignore this warning category if no broker will mount the
            directory.

        Notes
        -----
        In a forked process, `close` does nothing, because the directory belongs to the process that
        opened it.
        """
        self._close(stacklevel=3)

    def _close(self, stacklevel: int) -> None:
        if not self._owner.is_owner:
            return
        with self._threads:
            if self._lock < 0 or self._closing:
                return
            self._closing = True
        errors: list[OSError] = []
        try:
            errors = self.close_writers(list(self._writers.values()))
            existing = {d for d in list_directory(self.path)[0] if parse_partition_name(d)[2:] == ("live", True)}
            if not errors and not self._in_doubt and (self.clean or existing <= self._opened):
                self._save()
                replace_file(self.path / CLEAN_SHUTDOWN, clean_shutdown_text().encode(), self._mark_mode)
        finally:
            release_lock(self._lock)
            self._lock = -1
        if errors:
            raise errors[0]
        for message in strays(self.path, [parse_partition_name(name)[:2] for name in self._opened & existing]):
            warnings.warn(message, StrayPartitionWarning, stacklevel=stacklevel)

    def __enter__(self) -> LogDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self._close(stacklevel=3)

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)


def take_lock(path: Path) -> int:
    """Lock a file as Java's ``FileChannel.tryLock`` does, and return its file descriptor."""
    # A file that this process has locked is not opened again: closing a second descriptor would release the lock.
    with _taking:
        try:
            known = os.stat(path)
        except FileNotFoundError:
            known = None
        if known is not None and (known.st_dev, known.st_ino) in _locked:
            raise BlockingIOError(
                errno.EAGAIN, "this process already has the log directory open for writing", str(path.parent)
            )
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(
                    errno.EAGAIN, "another process, such as a broker, has locked the log directory", str(path.parent)
                ) from None
            raise
        status = os.fstat(handle)
        _locked[status.st_dev, status.st_ino] = handle
        return handle


def release_lock(handle: int) -> None:
    """Release a lock. `handle` is the file descriptor that `take_lock` returned."""
    status = os.fstat(handle)
    _locked.pop((status.st_dev, status.st_ino), None)
    os.close(handle)

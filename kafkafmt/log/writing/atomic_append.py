"""Append to several partitions of a log directory atomically, even if the process is killed.

A journal (`append_journal`) is written before the first append and after the last one. If it lists
appends in progress when the directory is opened, their partitions are truncated to their previous
end offsets, except after an append by another leader, such as a broker, with a higher leader epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from .append_journal import Journal, read_journal, write_journal
from .log_directory import LogDirectory
from .writer import LogWriter

Key = tuple[str, int]


@contextmanager
def all_or_nothing(
    directory: LogDirectory, keys: Iterable[Key], app: str | None = None, version: int | None = None
) -> Iterator[dict[Key, LogWriter] | None]:
    """Undo all appends of the block if it raises an error or the process is killed."""
    # The value is None if `app` has already completed a block with this `version` or a higher one.
    directory.check_process()
    versions = read_journal(directory.path).versions
    completed = versions
    if app is not None and version is not None:
        if versions.get(app, -1) >= version:
            yield None
            return
        completed = versions | {app: version}
    writers: dict[Key, LogWriter] = {}
    errors: list[OSError] = []
    try:
        for key in sorted(set(keys)):
            writers[key] = directory.writer(*key)
        ends = [(*key, writer.next_offset, writer.leader_epoch) for key, writer in writers.items()]
        write_journal(directory.path, Journal(ends, versions))
        try:
            yield writers
            directory.check_process()
            for writer in writers.values():
                writer.flush()
        except BaseException:
            if directory.is_owner:
                # If the rollback fails, the journal is kept.
                # The next process that opens the log directory uses the journal to undo the appends.
                with suppress(OSError):
                    for topic, partition, offset, _ in ends:
                        writers[topic, partition].truncate_to(offset)
                    write_journal(directory.path, Journal([], versions))
            raise
        write_journal(directory.path, Journal([], completed))
    finally:
        errors += directory.close_writers(writers.values())
    if errors:
        raise errors[0]

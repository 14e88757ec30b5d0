"""Append to several partitions of a log directory atomically, even if the process is killed.

The journal (`append_journal`) is written before the first append and after the last one. If it
lists appends in progress when the directory is opened, the directory is rolled back: each of these
partitions is truncated to its previous end, except those with a higher leader epoch, to which a
later leader, such as a broker, has appended since.
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
    """Return a context manager whose appends are all kept, or all undone on failure.

    The block does not complete if it raises an error, or if the process is killed.

    Parameters
    ----------
    directory : LogDirectory
        An open log directory.
    keys : iterable of (str, int)
        Topic and partition of the partitions to append to.
    app : str, optional
        Name of the application that appends.
    version : int, optional
        Number that increases from one block of `app` to the next. If `app` has already completed a
        block with this version or a higher one, the block gets None instead of writers.

    Returns
    -------
    context manager
        Its value is a dict with the `LogWriter` of each key. The writers are closed at the end of
        the block.
    """
    directory.check_process()
    versions = read_journal(directory.path).versions
    completed = versions
    if app is not None and version is not None:
        if versions.get(app, -1) >= version:
            yield None
            return
        completed = versions | {app: version}
    writers = {key: directory.writer(*key) for key in sorted(set(keys))}
    try:
        ends = [(*key, writer.next_offset, writer.leader_epoch) for key, writer in writers.items()]
        write_journal(directory.path, Journal(ends, versions))
        try:
            yield writers
            directory.check_process()
            for writer in writers.values():
                writer.flush()
        except BaseException:
            if directory.is_owner:
                with suppress(OSError):  # the journal stays, and the next process to open the directory rolls back
                    for topic, partition, offset, _ in ends:
                        writers[topic, partition].truncate_to(offset)
                    write_journal(directory.path, Journal([], versions))
            raise
        write_journal(directory.path, Journal([], completed))
    finally:
        for writer in writers.values():
            writer.close()

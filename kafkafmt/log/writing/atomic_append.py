"""Appends to several partitions of a log directory that happen all, or not at all, whatever is killed in between.

`kafkafmt-append.json` in the log directory, a file that a broker passes over, says where each partition ended before, and which
version of each application's appends was the last: noted before the first append, and again at once after the last. A directory
whose note tells of appends under way is rolled back when it is opened: its partitions are cut to where they ended, but for those
that a later leader, a broker say, has written since: nothing is taken from that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import StructureError
from ..format import files
from .writer import LogWriter

if TYPE_CHECKING:
    from .log_directory import LogDirectory

NOTE = "kafkafmt-append.json"
Key = tuple[str, int]


def read_note(path: Path) -> dict[str, Any]:
    """The note of a directory: `under_way`, topic, partition, next offset and leader epoch each; `versions` by application."""
    text = files.read_text(path / NOTE)
    if text is None:
        return {"under_way": [], "versions": {}}
    try:
        note = json.loads(text)
        ends = [
            (str(topic), int(partition), int(offset), int(epoch))
            for topic, partition, offset, epoch in note["under_way"]
        ]
        return {"under_way": ends, "versions": {str(app): int(version) for app, version in note["versions"].items()}}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StructureError(f"{path / NOTE} cannot be read: if its appends need not be undone, remove it", 0) from None


def write_note(path: Path, note: dict[str, Any]) -> None:
    if note["under_way"] or note["versions"]:
        files.replace(path / NOTE, json.dumps(note).encode())
    else:
        (path / NOTE).unlink(missing_ok=True)
        files.sync_directory(path)


def roll_back(directory: LogDirectory) -> None:
    """Undo the appends that were under way, if any were, before anything else is written."""
    note = read_note(directory.path)
    if note["under_way"]:
        for topic, partition, offset, epoch in note["under_way"]:
            writer = directory.writer(topic, partition)
            if writer.latest_epoch <= epoch:
                writer.truncate_to(offset)
            writer.close()
        write_note(directory.path, note | {"under_way": []})


@contextmanager
def all_or_nothing(
    directory: LogDirectory, keys: Iterable[Key], app: str | None = None, version: int | None = None
) -> Iterator[dict[Key, LogWriter] | None]:
    """Writers of these partitions; what is appended stays if the block ends, and all goes if it is left by an error, or killed.

    With the name of an application and a number that rises from one of its blocks to the next: None in place of the writers
    where that version, or a later one, was appended before.
    """
    directory.check_process()
    versions = read_note(directory.path)["versions"]
    done = versions
    if app is not None and version is not None:
        if versions.get(app, -1) >= version:
            yield None
            return
        done = versions | {app: version}
    writers = {key: directory.writer(*key) for key in sorted(set(keys))}
    try:
        under_way = [(*key, writer.next_offset, writer.leader_epoch) for key, writer in writers.items()]
        write_note(directory.path, {"under_way": under_way, "versions": versions})
        try:
            yield writers
            directory.check_process()
            for writer in writers.values():
                writer.flush()
        except BaseException:
            if directory.is_owner:
                with suppress(OSError):  # then the note stays, and the next to open the directory does it
                    for topic, partition, offset, _ in under_way:
                        writers[topic, partition].truncate_to(offset)
                    write_note(directory.path, {"under_way": [], "versions": versions})
            raise
        write_note(directory.path, {"under_way": [], "versions": done})
    finally:
        for writer in writers.values():
            writer.close()

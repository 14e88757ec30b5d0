"""Keep a journal of the atomic appends that are in progress, and undo these appends after a crash.

The journal is the file `kafkafmt-append.json` in the log directory, which brokers ignore. It
contains the end offset and the leader epoch of each partition before the appends in progress, and
the version of the last completed atomic append of each application (see `atomic_append`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import StructureError
from ..storage import read_text, replace_file, sync_directory
from .writer import LogWriter

JOURNAL_FILE = "kafkafmt-append.json"


@dataclass(frozen=True)
class Journal:
    """The content of the journal of atomic appends in a log directory."""

    in_progress: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(topic, partition, next offset, leader epoch) before each append in progress."""
    versions: dict[str, int] = field(default_factory=dict)  # version of each application's last atomic append


def read_journal(path: Path) -> Journal:
    """Return the journal of the log directory `path`, or an empty journal if the file is missing."""
    text = read_text(path / JOURNAL_FILE)
    if text is None:
        return Journal()
    try:
        content = json.loads(text)
        ends = [
            (str(topic), int(partition), int(offset), int(epoch))
            for topic, partition, offset, epoch in content["under_way"]
        ]
        return Journal(ends, {str(app): int(version) for app, version in content["versions"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StructureError(
            f"{path / JOURNAL_FILE} is not a valid journal, so interrupted appends cannot be undone; "
            "if no append was interrupted, delete the file",
            0,
        ) from None


def write_journal(path: Path, journal: Journal) -> None:
    """Write and sync the journal of the log directory `path`, or delete the file if the journal is empty."""
    if journal.in_progress or journal.versions:
        content = {"under_way": journal.in_progress, "versions": journal.versions}
        replace_file(path / JOURNAL_FILE, json.dumps(content).encode())
    else:
        (path / JOURNAL_FILE).unlink(missing_ok=True)
        sync_directory(path)


def roll_back(path: Path, open_writer: Callable[[str, int], LogWriter]) -> None:
    """Truncate each partition whose append is in progress in the journal to its end before the append."""
    # A partition is left unchanged if a later leader, such as a broker, has appended to it in the meantime.
    journal = read_journal(path)
    if journal.in_progress:
        for topic, partition, offset, epoch in journal.in_progress:
            writer = open_writer(topic, partition)
            if writer.latest_epoch <= epoch:
                writer.truncate_to(offset)
            writer.close()
        write_journal(path, replace(journal, in_progress=[]))

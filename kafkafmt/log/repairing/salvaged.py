"""Describe the copy of a partition that salvage has written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..findings import Finding, Rows
from ..formats import STATE_BYTES, ProducerEntry, entries_of
from ..storage import list_directory
from .salvage_source import ALL_FILE_BITS, LeftOut, restrict

OWNER = 0o600  # permissions that the owner needs for the files until the copy is complete


class SerializedProducers(Rows[ProducerEntry]):
    """The entries of a producer snapshot. Each object is created when it is accessed."""

    def __init__(self, states: bytes) -> None:
        self._states = states

    def __len__(self) -> int:
        return len(self._states) // STATE_BYTES

    def _build(self, start: int, stop: int) -> list[ProducerEntry]:
        return entries_of(self._states[start * STATE_BYTES : stop * STATE_BYTES])

    def _sliced(self, start: int, stop: int) -> SerializedProducers:
        return SerializedProducers(self._states[start * STATE_BYTES : stop * STATE_BYTES])


@dataclass
class Salvaged:
    """The copy of a partition, as written by `salvage_partition`."""

    topic: str
    partition: int
    path: Path
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    next_offset: int = 0  # log end offset of the copy
    offsets: dict[str, int] = field(default_factory=dict)  # for the offset checkpoints, by file name
    open: Sequence[ProducerEntry] = ()  # transactions at the end of the copy, the oldest first
    aborted: dict[int, int] = field(default_factory=dict)  # offset of the appended abort marker, by producer id
    findings: list[Finding] = field(default_factory=list)  # files that were not copied because they cannot be read
    restored: list[int] = field(default_factory=list)  # offsets of lost transaction markers that were written again
    rebuilt: int = 0  # number of batches that Kafka's Java code does not read
    left_out: list[LeftOut] = field(default_factory=list)  # links to places outside the source
    modes: dict[str, int] = field(default_factory=dict)  # final permissions of the copy's files, which `narrow` sets
    mode: int = ALL_FILE_BITS  # permissions that all segments of the source have in common

    @property
    def copied_end(self) -> int:
        """Offset after the last batch of the copy, not counting the abort markers that were appended."""
        return self.next_offset - len(self.aborted)

    def narrow(self, folder: Path) -> None:
        """Set the final permissions of the copy's files, which are now in `folder`."""
        # Files that were created later get the permissions that all segments have in common.
        for name in list_directory(folder)[1]:
            mode = self.modes.get(name)
            # A file with a known mode was created with this mode and the owner's permissions.
            if mode is None or mode & OWNER != OWNER:
                restrict(os.path.join(folder, name), self.mode if mode is None else mode)
        restrict(folder, self.modes[""])

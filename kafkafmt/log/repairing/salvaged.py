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

OWNER = 0o600
"""Permissions that the owner needs for the files until the copy is complete."""


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
    """The copy of a partition, as written by `salvage_partition`.

    Attributes
    ----------
    next_offset : int
        Log end offset of the copy.
    offsets : dict
        Maps the name of each offset checkpoint to the offset to write into this checkpoint.
    open : sequence of ProducerEntry
        Producers with a transaction that is open at the end of the copy, the oldest transaction
        first.
    aborted : dict
        Offset of the abort marker that was appended for each producer in `open`, by producer id.
    findings : list of Finding
        Files that were not copied because they cannot be read.
    restored : list of int
        Offsets of transaction markers that were lost in the source and written again.
    rebuilt : int
        Number of batches that were rebuilt, because Kafka's Java code does not read the originals.
    left_out : list of LeftOut
        Files that were not read because they are links to places outside the source.
    modes : dict
        The final permissions of the copy's files and of its directory. `narrow` sets them.
    """

    topic: str
    partition: int
    path: Path
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    next_offset: int = 0
    offsets: dict[str, int] = field(default_factory=dict)
    open: Sequence[ProducerEntry] = ()
    aborted: dict[int, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    rebuilt: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    modes: dict[str, int] = field(default_factory=dict)
    mode: int = ALL_FILE_BITS
    """Permissions that all segments of the source have in common."""

    @property
    def copied_end(self) -> int:
        """Offset after the last batch of the copy, not counting the abort markers that were appended."""
        return self.next_offset - len(self.aborted)

    def narrow(self, folder: Path) -> None:
        """Set the final permissions of the copy's files, which are now in `folder`.

        Files that were created after `salvage_partition` returned get the permissions that all
        segments have in common.
        """
        for name in list_directory(folder)[1]:
            mode = self.modes.get(name)
            # A file with a known mode was created with this mode and the owner's permissions.
            if mode is None or mode & OWNER != OWNER:
                restrict(os.path.join(folder, name), self.mode if mode is None else mode)
        restrict(folder, self.modes[""])

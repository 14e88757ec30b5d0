"""Read the producer snapshots of a partition."""

from __future__ import annotations

from ...paths import Location
from ..format import file_view, files
from ..format.snapshots import ProducerEntry, read_snapshot

KEPT_BYTES = 1 << 20
"""Largest total size of the snapshot files whose entries are kept in memory. The entries need about 8 times as much."""


class SnapshotFiles:
    """The producer snapshots in a partition directory.

    `salvage` needs the same snapshots twice: to verify the source, and to write the copy. Most
    snapshots are small, so the entries of the first ones are kept in memory.

    Parameters
    ----------
    folder : Path or UrlPath
        The partition directory.
    """

    def __init__(self, folder: Location) -> None:
        self._folder = folder
        self._kept: dict[str, list[ProducerEntry]] = {}
        self._left = KEPT_BYTES

    def read(self, name: str) -> list[ProducerEntry] | None:
        """Return the entries of a snapshot, or None if it does not exist. Do not change the returned list.

        If the file cannot be read, or its content is not valid, raise a `KafkaFormatError`.
        """
        if name in self._kept:
            return self._kept[name]
        data = file_view.read_bytes(files.joined(self._folder, name))
        if data is None:
            return None
        entries = read_snapshot(data)
        if len(data) <= self._left:
            self._kept[name] = entries
            self._left -= len(data)
        return entries

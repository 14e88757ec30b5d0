"""Read the producer snapshots of a partition."""

from __future__ import annotations

from ...paths import Location
from ..format import file_view, files

KEPT_BYTES = 1 << 20
"""Largest total size of the producer snapshots of a partition that are kept in memory."""


class SnapshotFiles:
    """The producer snapshots in a partition directory.

    `salvage` needs the same snapshots twice: to verify the source, and to write the copy. Most
    snapshots are small, so the first ones are kept in memory after they were read.

    Parameters
    ----------
    folder : Path or UrlPath
        The partition directory.
    """

    def __init__(self, folder: Location) -> None:
        self._folder = folder
        self._kept: dict[str, bytes] = {}
        self._left = KEPT_BYTES

    def read(self, name: str) -> bytes | None:
        """Return the content of a snapshot, or None if it does not exist. For errors, see `file_view.read_bytes`."""
        if name in self._kept:
            return self._kept[name]
        data = file_view.read_bytes(files.joined(self._folder, name))
        if data is not None and len(data) <= self._left:
            self._kept[name] = data
            self._left -= len(data)
        return data

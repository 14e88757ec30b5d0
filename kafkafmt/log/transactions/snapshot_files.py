"""Read the producer snapshots of a partition."""

from __future__ import annotations

from ...support.paths import Location
from ..formats import states_in
from ..storage import joined, read_bytes

KEPT_BYTES = 8 << 20  # largest total size of the snapshot files whose entries are kept in memory


class SnapshotFiles:
    """The producer snapshots in a partition directory."""

    # `salvage` needs them twice. Most are small, so the entries of the first ones are kept in memory.

    def __init__(self, folder: Location) -> None:
        self._folder = folder
        self._kept: dict[str, bytes] = {}
        self._left = KEPT_BYTES

    def read(self, name: str) -> bytes | None:
        """Return the serialized entries of a snapshot, or None if it does not exist."""
        # KafkaFormatError: it is not valid.
        if name in self._kept:
            return self._kept[name]
        data = read_bytes(joined(self._folder, name))
        if data is None:
            return None
        states = states_in(data)
        if len(data) <= self._left:
            self._kept[name] = states
            self._left -= len(data)
        return states

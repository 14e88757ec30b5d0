"""Find partitions whose topic was deleted and created again while a stream runs.

The new log of such a partition can be longer than the old log. Then the end offset does not show
that the log is new, and the stream would skip the first records of the new log. Only the topic id in
`partition.metadata` differs. Brokers have written this file since Kafka 2.8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ...log import PartitionLog
from ...log.formats import PARTITION_METADATA
from ...log.storage import Stamp, stamp_of
from ...support.paths import UrlPath
from .options import Key


class TopicIds:
    """Topic ids of the partitions that a stream reads. They are read again if `partition.metadata` has changed."""

    # Partitions in object stores are not checked. If the state of the file cannot be read, the
    # partition is checked in a later call, and `tell` gets a message.

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Stamp, str]] = {}

    def recreated(self, logs: Mapping[Key, PartitionLog], tell: Callable[[str], None]) -> list[Key]:
        """Return the partitions whose topic id has changed, in every call until `accept` is called for them."""
        found = []
        for key, log in logs.items():
            path = log.directory.path / PARTITION_METADATA
            stamp = None if isinstance(path, UrlPath) else _stamp(path, tell)
            known = self._known.get(key)
            if stamp is None or (known is not None and known[0] == stamp):
                continue
            topic_id = log.directory.read_topic_id()
            if known is not None and topic_id is not None and known[1] != topic_id:
                found.append(key)
            elif topic_id is not None:
                self._known[key] = stamp, topic_id
        return found

    def accept(self, key: Key) -> None:
        """Forget the earlier topic id of a partition, so that the next call of `recreated` stores the current one."""
        self._known.pop(key, None)


def _stamp(path: Path, tell: Callable[[str], None]) -> Stamp | None:
    """Return the state of a `partition.metadata` file, or None if the file does not exist or cannot be accessed."""
    try:
        return stamp_of(path)
    except OSError as error:
        # Records can still be read. Therefore, the stream does not fail.
        tell(
            f"{path} cannot be accessed: {error.strerror}; until it can be accessed, "
            "the stream does not detect that the topic was deleted and created again"
        )
        return None

"""Find the partitions of a log directory that a KRaft broker would not serve, and the reasons.

When a broker starts, it renames a partition directory to `…-stray` if the metadata log does not
contain its topic id, or assigns the partition only to other brokers (Kafka:
``LogManager.isStrayKraftReplica``).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

from ...errors import KafkaFormatError, StructureError
from ...internal_topics.decode import read_metadata_record
from ...records import read_records
from ..catalog import Discovery, PartitionDir
from ..formats import META_PROPERTIES, PARTITION_METADATA, read_meta_properties, read_partition_metadata, uuid_bytes
from ..reading import OffsetBound, PartitionLog, Selection, discover
from ..storage import list_directory, read_bytes, read_text, stamp_of

CLUSTER_METADATA = "__cluster_metadata"
METADATA_LOG = f"{CLUSTER_METADATA}-0"
GUIDE = "A broker's disk died"
"""Title of the guide in the documentation. A wheel does not contain the files of the documentation."""
TOPIC, PARTITION, PARTITION_CHANGE, REMOVE_TOPIC = 2, 3, 5, 9
"""Type numbers of the metadata records that affect topics and partitions."""
BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25
"""Type numbers of the metadata records that begin and end a transaction (KIP-868)."""
NO_LEADER_CHANGE = -2  # value of the field Leader in a PartitionChangeRecord that does not change the leader
MAX_NAMED = 5  # largest number of partitions that one message to the user lists
_SNAPSHOT = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint\Z")


class StrayPartitionWarning(UserWarning):
    """Warning of `LogDirectory.close`: a KRaft broker would treat written partitions as stray, and not serve them."""


@dataclass
class Metadata:
    """The topics and replicas that a metadata log describes."""

    topics: dict[str, UUID] = field(default_factory=dict)  # topic ids by name
    # ids of the brokers that have a replica, by topic id and partition number
    replicas: dict[tuple[UUID, int], list[int]] = field(default_factory=dict)
    leader_epochs: dict[tuple[UUID, int], int] = field(default_factory=dict)  # by topic id and partition number
    _names: dict[UUID, str] = field(default_factory=dict, repr=False)
    _transaction: list[bytes] | None = field(default=None, repr=False)
    """The records of the open transaction. None if no transaction is open."""

    def add(self, value: bytes | None) -> None:
        """Apply one record, or ignore it if it is unreadable or does not affect topics or partitions."""
        # The records of a transaction are applied at its end.
        if value is None or len(value) < 3:
            return
        kind = value[1]
        if kind == BEGIN_TRANSACTION:
            self._transaction = []
        elif kind in (END_TRANSACTION, ABORT_TRANSACTION):
            records, self._transaction = self._transaction or [], None
            for record in records if kind == END_TRANSACTION else ():
                self._apply(record)
        elif kind in (TOPIC, PARTITION, PARTITION_CHANGE, REMOVE_TOPIC):
            if self._transaction is None:
                self._apply(value)
            else:
                self._transaction.append(value)

    def _apply(self, value: bytes) -> None:
        record: Any  # the class depends on the type of the metadata record
        try:
            record = read_metadata_record(bytes(value))[0]
        except KafkaFormatError:
            return
        if value[1] == TOPIC:
            self.topics[record.name] = record.topic_id
            self._names[record.topic_id] = record.name
        elif value[1] == REMOVE_TOPIC:
            name = self._names.pop(record.topic_id, None)
            if name is not None and self.topics.get(name) == record.topic_id:
                del self.topics[name]
        else:
            self._add_partition(record, value[1] == PARTITION_CHANGE)

    def _add_partition(self, record: Any, changed: bool) -> None:
        """Apply a PartitionRecord or, if `changed` is true, a PartitionChangeRecord."""
        # A change of the leader increases the leader epoch (Kafka: ``PartitionRegistration.merge``).
        key = record.topic_id, record.partition_id
        if record.replicas is not None:
            self.replicas[key] = list(record.replicas)
        if not changed:
            self.leader_epochs[key] = record.leader_epoch
        elif record.leader != NO_LEADER_CHANGE:
            self.leader_epochs[key] = self.leader_epochs.get(key, -1) + 1


def read_metadata(root: Path) -> Metadata | None:
    """Read the metadata log in a log directory. Return None if there is no metadata log."""
    folder = root / METADATA_LOG
    try:
        names = list_directory(folder)[1]
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _read(folder, tuple((name, stamp_of(folder / name)) for name in names))


@lru_cache(maxsize=4)
def _read(folder: Path, stamps: Sequence[tuple[str, Any]]) -> Metadata:
    """Read the newest snapshot of the metadata log, and the records after it. `stamps` are part of the cache key."""
    found, start = Metadata(), 0
    snapshots = sorted(name for name, _ in stamps if _SNAPSHOT.match(name))
    if snapshots:
        try:
            data = read_bytes(folder / snapshots[-1])
            start = int(snapshots[-1][:20]) if data else 0
            for record in read_records(data) if data else ():
                found.add(record.value)
        except KafkaFormatError:
            start = 0  # the snapshot is unreadable, so read the whole log instead
    for directory in discover([folder]).partitions if any(name.endswith(".log") for name, _ in stamps) else ():
        log = PartitionLog(directory)
        interval = Selection(OffsetBound("offset", start)).resolve(log)
        for record in log.records(interval, on_damage=lambda _: None):
            found.add(record.value)
    return found


def base64_uuid(topic_id: UUID) -> str:
    """Return a topic id as in the file `partition.metadata`: 22 characters of base64url."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def metadata_logs(found: Discovery, chosen: Iterable[PartitionDir]) -> list[PartitionDir]:
    """Return the metadata logs in the log directories of the chosen partitions, except those that are chosen."""
    mine = list(chosen)
    roots = {d.path.parent for d in mine}
    live = (d for d in found.partitions if d.topic == CLUSTER_METADATA and d.state == "live" and d.path.parent in roots)
    return [d for d in live if d not in mine]


def strays(root: Path, partitions: Iterable[tuple[str, int]]) -> list[str]:
    """Return messages to the user about the partitions that a KRaft broker would not serve."""
    wanted = [key for key in partitions if key[0] != CLUSTER_METADATA]
    if not wanted:
        return []
    metadata = read_metadata(root)
    reasons: dict[str, list[str]] = {}
    for topic, partition in sorted(wanted):
        if reason := _why_stray(root, metadata, topic, partition):
            reasons.setdefault(reason, []).append(f"{topic}-{partition}")
    return list(_messages(root, reasons))


def _messages(root: Path, reasons: dict[str, list[str]]) -> Iterator[str]:
    for reason, names in reasons.items():
        whose = "its directory" if len(names) == 1 else "their directories"
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        yield (
            f"{root}: {reason}, so a KRaft broker does not serve {', '.join(names[:MAX_NAMED])}{more}, "
            f"and renames {whose} to '…-stray'. To mount the partitions, create the topics on a broker, "
            f'stop it, and run `kafkafmt restore`: see "{GUIDE}" in the documentation'
        )


def _why_stray(root: Path, metadata: Metadata | None, topic: str, partition: int) -> str | None:
    """Return the reason why a broker would not serve a partition, or None if it would serve the partition."""
    if metadata is None:
        return f"there is no metadata log ({METADATA_LOG}) with the topics"
    topic_id = metadata.topics.get(topic)
    if topic_id is None:
        return "the metadata log does not contain the topics"
    try:
        text = read_text(root / f"{topic}-{partition}" / PARTITION_METADATA)
        own = None if text is None else UUID(bytes=uuid_bytes(read_partition_metadata(text)["topic_id"]))
    except StructureError:
        own = None
    if own is None:
        return f"{PARTITION_METADATA} is missing or unreadable"
    if own != topic_id:
        return f"{PARTITION_METADATA} contains a different topic id than the metadata log"
    replicas = metadata.replicas.get((topic_id, partition))
    if replicas is None:
        return "the metadata log contains the topics, but not these partitions"
    node = node_id(root)
    if node is not None and node not in replicas:
        return f"the metadata log does not assign the partitions to broker {node}"
    return None


def node_id(root: Path) -> int | None:
    """Return the id of the broker that owns a log directory, or None if it is unknown."""
    try:
        values = read_meta_properties(read_text(root / META_PROPERTIES) or "")
        return int(values.get("node.id") or values["broker.id"])
    except (StructureError, KeyError):
        return None

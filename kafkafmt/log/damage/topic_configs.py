"""Read the configs of topics from the metadata log of a KRaft cluster, and the names of topics with remote segments.

Only the few records that loss and remote storage need are applied. `kafkafmt.kraft` rebuilds the
whole state of a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from math import inf
from typing import Any

from ..._backend import core
from ...constants import CONTROL_BIT
from ...errors import KafkaFormatError
from ...internal_topics.decode import read_metadata_record
from ...records import RecordReader
from ...support.paths import Location
from ..catalog import CLUSTER_METADATA, PartitionDir
from ..formats import base_of
from ..storage import FileView, file_size, list_directory
from .segment_walker import Walker

METADATA_PARTITION = f"{CLUSTER_METADATA}-0"
REMOTE_METADATA = "__remote_log_metadata-"
"""Name of the partition directories of the topic in which brokers list remote segments, without the number."""
CLEANUP_POLICY, REMOTE_STORAGE = "cleanup.policy", "remote.storage.enable"
TOPIC_RESOURCE = 2
MAX_BATCH_BYTES = 16 << 20
_SNAPSHOT = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint\Z")

CREATED = "created"
"""Key in `Configs` of the time at which the topic was created, in ms. No config of Kafka has this name."""
Configs = dict[str, dict[str, Any]]  # maps the name of a topic to its configs
_USED = (".checkpoint", ".log")
_Files = tuple[tuple[str, int | None], ...]


def cleanup_policy(directory: PartitionDir) -> str:
    """Return the `cleanup.policy` of a topic, or an empty string if the metadata log does not contain it."""
    return str(_config(directory, CLEANUP_POLICY))


def has_remote_storage(directory: PartitionDir) -> bool:
    """Return whether a topic has remote segments, according to the metadata log or `__remote_log_metadata`."""
    return _config(directory, REMOTE_STORAGE) == "true" or directory.topic in _remote_topics(directory.path.parent)


def created_at(directory: PartitionDir) -> float | None:
    """Return the time at which a topic was created, in ms: infinity for a deleted one, None without a metadata log."""
    found = [configs for folder in _folders(directory) if (configs := _configs_in(folder))]
    return max((configs.get(directory.topic, {}).get(CREATED, inf) for configs in found), default=None)


def _config(directory: PartitionDir, name: str) -> Any:
    if directory.topic == CLUSTER_METADATA:
        return ""
    for folder in _folders(directory):
        value = _configs_in(folder).get(directory.topic, {}).get(name)
        if value is not None:
            return value
    return ""


def _folders(directory: PartitionDir) -> list[Location]:
    """Return the directories that may contain the metadata log."""
    return list(dict.fromkeys([*directory.metadata_logs, directory.path.parent / METADATA_PARTITION]))


def _configs_in(folder: Location) -> Configs:
    try:
        names = sorted(list_directory(folder)[1])
        return _configs(folder, tuple((n, file_size(folder / n)) for n in names if n.endswith(_USED)))
    except OSError:
        return {}


@lru_cache(maxsize=4)
def _configs(folder: Location, listed: _Files) -> Configs:
    """Return the configs and the creation times of all topics. `listed` contains the names and sizes of the files in the metadata log."""
    names = [name for name, _ in listed]
    snapshots = [name for name in names if _SNAPSHOT.match(name)]
    paths, end = [folder / name for name in snapshots[-1:]], int(snapshots[-1][:20]) if snapshots else 0
    bases = [(base, name) for name in names if (base := base_of(name)) is not None]
    paths += [folder / name for i, (_, name) in enumerate(bases) if i + 1 == len(bases) or bases[i + 1][0] > end]
    configs: Configs = {}
    topics: dict[Any, str] = {}
    for path in paths:
        start = end if path.name.endswith(".log") else 0
        for record in _records(path, start):
            try:
                message: Any = read_metadata_record(record.value or b"")[0]
            except KafkaFormatError:
                continue
            kind = type(message).__name__
            if kind == "TopicRecord":
                topics[message.topic_id] = message.name
                configs[message.name] = {CREATED: record.timestamp}
            elif kind == "RemoveTopicRecord":
                configs.pop(topics.pop(message.topic_id, ""), None)
            elif kind == "ConfigRecord" and message.resource_type == TOPIC_RESOURCE:
                configs.setdefault(message.resource_name, {})[message.name] = message.value
    return configs


def _remote_topics(root: Location) -> set[str]:
    """Return the names of the topics in `__remote_log_metadata`."""
    try:
        folders = [root / name for name in list_directory(root)[0] if name.startswith(REMOTE_METADATA)]
        logs = [
            (folder / name, file_size(folder / name))
            for folder in folders
            for name in sorted(list_directory(folder)[1])
            if base_of(name) is not None
        ]
    except OSError:
        return set()
    return {topic for path, size in logs for topic in _topics_named_in(path, size)}


@lru_cache(maxsize=256)
def _topics_named_in(path: Location, _size: int | None) -> frozenset[str]:
    return frozenset(filter(None, (_topic_of(record.value or b"") for record in _records(path, 0))))


def _topic_of(value: bytes) -> str:
    """Return the topic in a record of `__remote_log_metadata` (Kafka: ``RemoteLogMetadataSerde``)."""
    # The first three bytes are the frame version, the record type and its version. In the record types 0 to 2, the name
    # of the topic follows as a compact string, of which only the length matters here.
    if len(value) < 5 or value[1] > 2:
        return ""
    size, at = (value[3], 4) if value[3] < 0x80 else (value[3] & 0x7F | value[4] << 7, 5)
    return value[at : at + size - 1].decode("utf-8", "replace")


def _records(path: Location, start: int) -> Iterator[core.Record]:
    """Yield the data records of a file from the offset `start` on. Stop at the first damage."""
    reader = RecordReader(("value", "timestamp"), first_offset=start, max_batch_bytes=MAX_BATCH_BYTES, capacity=1024)
    try:
        with FileView(path) as view:
            for _, buffer, rows, _ in Walker(view, 0, MAX_BATCH_BYTES).tables(0, view.size):
                data = rows.compress((rows["attributes"] & CONTROL_BIT) == 0)
                for source, columns in reader.read(buffer, data, lambda _, __: None):
                    yield from core.make_records(source, columns)
    except (OSError, KafkaFormatError):
        return

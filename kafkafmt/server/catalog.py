"""List the topics and partitions that a server serves, and detect new and deleted ones."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import ParamSpec, TypeVar
from uuid import UUID

from ..errors import StructureError
from ..log import NoLogError, PartitionDir, discover
from ..log.catalog import choose_partitions, select_partitions
from ..log.formats import META_PROPERTIES, PARTITION_METADATA, read_meta_properties, read_partition_metadata, uuid_bytes
from ..log.storage import read_text
from ..messages.as_json import uuid_text
from ..support.paths import UrlPath, input_path
from ..support.text import plain
from .fetch_request import TopicKey
from .resources import Resources
from .served_partition import ServedPartition
from .settings import ServerSettings

P = ParamSpec("P")
R = TypeVar("R")
THREADS = 8
"""Number of threads that read files. There are several, because reading a damaged segment can take seconds."""
MOST_MISSING = 10_000
"""Largest number of missing partitions of a topic that are served as empty partitions."""
MOST_NAMED = 5
LARGEST_NODE_ID = 2**31 - 1
RESCAN = 3.0
"""Minimum time in seconds between two searches for new and deleted partitions."""
METADATA_TOPIC = "__cluster_metadata"
FULL_RESCAN = 60.0
"""Seconds after which the server searches for partitions even if no directory has a new modification time."""


@dataclass
class Cluster:
    """The cluster that clients see. It consists of one broker."""

    cluster_id: str
    node_id: int
    host: str = ""  # the advertised address, which `Server.start` sets
    port: int = 0


class Topic:
    def __init__(self, name: str) -> None:
        self.name = name
        self.partitions: dict[int, ServedPartition] = {}

    @property
    def internal(self) -> bool:
        return self.name in ("__consumer_offsets", "__transaction_state", "__share_group_state")

    @cached_property
    def topic_id(self) -> UUID:
        """The topic id in ``partition.metadata``, or an id derived from the name if the file is missing."""
        for served in self.partitions.values():
            try:
                served.remember_metadata()
                text = read_text(served.directory.path / PARTITION_METADATA)
                if text:
                    found = UUID(bytes=uuid_bytes(read_partition_metadata(text)["topic_id"]))
                    if found.int:
                        return found
            except (StructureError, OSError):
                continue
        return UUID(bytes=hashlib.sha256(f"kafkafmt topic {self.name}".encode()).digest()[:16], version=4)

    def keep_id(self, before: Topic) -> None:
        """Reuse the topic id of `before`, an earlier `Topic` object, if `self` contains all partitions of `before`."""
        # A `Topic` object creates its topic id when the id is first read. If the id of `before` was
        # never read, no id is reused.
        known = before.__dict__.get("topic_id")
        if known is not None and all(self.partitions.get(n) is served for n, served in before.partitions.items()):
            self.__dict__["topic_id"] = known


def existing(topic: Topic | None, number: int) -> ServedPartition | None:
    """Return a partition of a topic, or None if it does not exist or was deleted."""
    found = None if topic is None else topic.partitions.get(number)
    return None if found is None or found.deleted else found


def is_encodable(name: str) -> bool:
    """Return whether a name can be sent to clients. The names of files can have bytes that are not valid UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class Catalog:
    """The topics and partitions of the served directories."""

    # Most methods block, so request handlers call them through `run`.

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.resources: Resources = Resources(settings.limits.max_open_files)
        self._pool = ThreadPoolExecutor(THREADS, "kafkafmt-serve")
        found = discover(settings.paths, settings.replicas)
        self.messages: list[str] = found.messages
        self._topics: dict[str, Topic] = {}
        self.generation: int = 0
        self._refreshing = Lock()
        self._by_id: tuple[dict[str, Topic] | None, dict[bytes, Topic]] = None, {}
        """The value of `_topics` that was indexed last, and its topics by the bytes of their ids."""
        self._scanned = time.monotonic()
        self._stamps = self._root_stamps()
        chosen = choose_partitions(
            found, settings.topics, settings.partitions, settings.internal, on_message=self.messages.append
        )
        served = self._without_secrets(chosen)
        if len(served) < len(chosen):
            self.messages.append(
                f"{METADATA_TOPIC} is not served, because it contains secrets; only a topic with exactly this name selects it"
            )
        self._set(served)
        self.cluster: Cluster = self._identify()

    async def run(self, function: Callable[P, R], *args: P.args, **keywords: P.kwargs) -> R:
        """Call a blocking function in a thread and return its result."""
        call = partial(function, *args, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def start(self, function: Callable[P, object], *args: P.args, **keywords: P.kwargs) -> None:
        """Call a function in a thread, and ignore its result."""
        self._pool.submit(function, *args, **keywords)

    @property
    def topics(self) -> list[Topic]:
        """All topics, ordered by name. No file is accessed."""
        return [self._topics[name] for name in sorted(self._topics)]

    @property
    def partitions(self) -> list[ServedPartition]:
        """All partitions that exist, ordered by topic and number. No file is accessed."""
        return [served for topic in self.topics for served in topic.partitions.values() if not served.missing]

    def topic(self, name: str | None) -> Topic | None:
        """Return the topic with this name, or None if it is not served. No file is accessed."""
        return self._topics.get(name or "")

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic with this id, or None. The ids of all topics are read after each change of the topics."""
        return self.topic_by_key(topic_id.bytes)

    def topic_by_key(self, key: TopicKey) -> Topic | None:
        """Return the topic with the name or the topic id (as bytes) `key`, or None if the topic is not served."""
        topics, (indexed, by_id) = self._topics, self._by_id
        if isinstance(key, str):
            return topics.get(key)
        if indexed is not topics:
            by_id = {topic.topic_id.bytes: topic for topic in topics.values()}
            self._by_id = topics, by_id
        return by_id.get(key)

    def partition(self, topic: str | None, number: int) -> ServedPartition | None:
        """Return a partition, or None if it is not served or was deleted. No file is accessed."""
        return existing(self._topics.get(topic or ""), number)

    def refresh(self) -> None:
        """Search for new and deleted partitions, at most every RESCAN seconds."""
        # If a directory exists but cannot be listed, its known partitions are kept. If another
        # thread already runs `refresh`, return at once.
        if self._refreshing.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._refreshing.release()

    def compare_replicas(self) -> None:
        """Serve another replica of a partition if it has become the longest one. Called periodically."""
        # Other searches for partitions run only if a client requests metadata, and a client that
        # waits at the end of a replica may send no Metadata request for minutes. URLs are not
        # searched, because each search sends requests to the object store.
        if self.settings.replicas is not None and not self._remote:
            self.refresh()

    @property
    def _remote(self) -> bool:
        return any(isinstance(input_path(path), UrlPath) for path in self.settings.paths)

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._scanned < (FULL_RESCAN if self._remote else RESCAN):
            return
        stamps = self._root_stamps()
        if stamps == self._stamps and stamps is not None and now - self._scanned < FULL_RESCAN:
            return
        self._scanned, self._stamps = now, stamps
        try:
            found = discover(self.settings.paths, self.settings.replicas)
        except (NoLogError, FileNotFoundError):
            self._set([])
            return
        except (OSError, ValueError) as error:
            self.settings.on_message(f"the directories cannot be listed: {error}")
            return
        s = self.settings
        self._set(self._without_secrets(select_partitions(found.partitions, s.topics, s.partitions, s.internal)))

    def _without_secrets(self, partitions: list[PartitionDir]) -> list[PartitionDir]:
        """Omit the metadata log unless the topics name it."""
        # It contains passwords and SCRAM credentials. A broker never sends it to consumers.
        return [p for p in partitions if p.topic != METADATA_TOPIC or METADATA_TOPIC in self.settings.topics]

    def close(self) -> None:
        """Wait until the running calls have ended, stop the threads, and close all files."""
        self._pool.shutdown(cancel_futures=True)
        for served in self.partitions:
            served.close()
        self.resources.close()

    def _root_stamps(self) -> tuple[int, ...] | None:
        """Return the modification times of the served paths, or None if one is missing, a pattern or a URL."""
        # If a partition directory is created, deleted or renamed, the time of its log directory
        # changes.
        try:
            return tuple(os.stat(os.fspath(path)).st_mtime_ns for path in self.settings.paths)
        except OSError:
            return None

    def _set(self, directories: list[PartitionDir]) -> None:
        """Serve the partitions in `directories`. Partitions that were served before keep their state."""
        before, topics = self._topics, dict[str, Topic]()
        for directory in directories:
            old = before[directory.topic].partitions.get(directory.partition) if directory.topic in before else None
            known = old is not None and old.directory.path == directory.path and not old.missing
            if not is_encodable(directory.topic):
                self.settings.on_message(
                    f"{plain(str(directory.path))}: the partition is not served, because its name is not valid UTF-8"
                )
                continue
            if directory.error is not None and not known:
                self.settings.on_message(
                    f"{directory.path}: the partition is not served, because it cannot be read: {directory.error}"
                )
                continue
            topic = topics.setdefault(directory.topic, Topic(directory.topic))
            if old is not None and directory.error is not None:
                topic.partitions[directory.partition] = old  # clients get an error while the directory is unreadable
            elif (
                old is not None
                and (old.directory.path, old.directory.inode) == (directory.path, directory.inode)
                and not old.is_replaced()
            ):
                topic.partitions[directory.partition] = old
                old.raise_log_start(directory.log_start)
            else:
                topic.partitions[directory.partition] = ServedPartition(directory, self.settings, self.resources)
        for topic in topics.values():
            self._add_missing(topic, before.get(topic.name))
            topic.partitions = dict(sorted(topic.partitions.items()))
            if topic.name in before:
                topic.keep_id(before[topic.name])
        kept = {id(served) for topic in topics.values() for served in topic.partitions.values()}
        self._topics = topics
        self.generation += 1
        for topic in before.values():
            for served in topic.partitions.values():
                if id(served) not in kept:
                    served.close()

    def _add_missing(self, topic: Topic, before: Topic | None) -> None:
        """Add an empty partition for each missing partition number below the highest one."""
        # Many clients, such as librdkafka, require partition numbers that begin at 0 and have no
        # gaps.
        highest = max(topic.partitions)
        if highest - len(topic.partitions) >= MOST_MISSING:
            return
        missing = [number for number in range(highest) if number not in topic.partitions]
        known = {} if before is None else before.partitions
        folder = topic.partitions[highest].directory.path.parent
        for number in missing:
            old = known.get(number)
            if old is None or not old.missing:
                directory = PartitionDir(topic.name, number, folder / f"{topic.name}-{number}", "live", [])
                old = ServedPartition(directory, self.settings, self.resources, missing=True)
            topic.partitions[number] = old
        if missing and before is None:
            numbers = ", ".join(map(str, missing[:MOST_NAMED])) + (", …" if len(missing) > MOST_NAMED else "")
            what = f"partition {numbers} is" if len(missing) == 1 else f"partitions {numbers} are"
            self.settings.on_message(f"{topic.name}: {what} missing in the directories, so clients see no records")

    def _node_id(self, text: str) -> int:
        """Convert a broker id from ``meta.properties`` to int. Return 0 if the id is out of range."""
        if 0 <= int(text) <= LARGEST_NODE_ID:
            return int(text)
        self.messages.append(f"{META_PROPERTIES}: {text} is not a valid broker id; the server uses 0")
        return 0

    def _identify(self) -> Cluster:
        """Return the ids in ``meta.properties``."""
        # By default, the cluster id is derived from the paths, and the broker id is 0.
        node = 0
        for served in self.partitions:
            if isinstance(served.directory.path, UrlPath):
                break
            try:
                text = read_text(served.directory.path.parent / META_PROPERTIES)
                values = read_meta_properties(text) if text else {}
            except (StructureError, OSError) as error:
                self.messages.append(f"{served.directory.path.parent / META_PROPERTIES}: ignored: {error}")
                values = {}
            if values:
                node = self._node_id(values.get("node.id", values.get("broker.id", "0")))
                if values.get("cluster.id"):
                    return Cluster(values["cluster.id"], node)
            break
        paths = "\n".join(sorted(os.fspath(path) for path in self.settings.paths))
        return Cluster(uuid_text(UUID(bytes=hashlib.sha256(os.fsencode(paths)).digest()[:16], version=4)), node)

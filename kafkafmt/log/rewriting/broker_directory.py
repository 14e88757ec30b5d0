"""Restore partitions into the log directory of a stopped broker.

Each partition is restored into a directory such as `orders-0.<id>-delete`, which is then renamed.
When a broker starts, it deletes such directories. Therefore, it serves either its empty partition
or the completely restored one.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from ...errors import StructureError
from ..formats import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    base_offset_of,
    offset_checkpoint_text,
    read_leader_epochs,
    read_meta_properties,
    read_offset_checkpoint,
    read_partition_metadata,
)
from ..storage import (
    file_size,
    list_directory,
    mode_of,
    raise_if_intact,
    read_bytes,
    read_text,
    replace_file,
    sync_directory,
    sync_tree,
)
from ..writing import LOCK, METADATA_LOG, Metadata, base64_uuid, node_id, read_metadata, release_lock, take_lock
from .restore_partition import Restored, Target

MAX_NAME = 255
KRAFT_VERSION = "1"  # value of `version` in the `meta.properties` of a broker without ZooKeeper


class RestoreError(ValueError):
    """Raised if a partition cannot be restored, because of the state of the broker's log directory."""


class BrokerDirectory:
    """Locks the log directory of a broker. Use an instance as a context manager."""

    # `metadata_directory` contains the metadata log. RestoreError: `path` is not a log directory of a broker, the
    # metadata log is missing, or it belongs to another cluster. BlockingIOError: another process uses the directory.

    def __init__(self, path: Path, metadata_directory: Path | None = None) -> None:
        self.path: Path = path
        text = read_text(path / META_PROPERTIES)
        if text is None:
            raise RestoreError(
                f"{path} is not the log directory of a broker, because {META_PROPERTIES} is missing; "
                "specify log.dirs of a broker that has been started once"
            )
        self.properties: dict[str, str] = read_meta_properties(text)
        if metadata_directory is not None:
            self._check_cluster(metadata_directory)
        self._lock = take_lock(path / LOCK)
        try:
            self._like_root(path / LOCK)
            self.metadata: Metadata | None = read_metadata(metadata_directory or path)
            if self.metadata is None and self.properties.get("version") == KRAFT_VERSION:
                raise RestoreError(
                    f"there is no metadata log ({METADATA_LOG}) in {metadata_directory or path}; "
                    "pass metadata_directory, the log directory that contains it"
                )
            self.node: int | None = node_id(path)
            self._checkpoints = {name: self._read(name) for name in OFFSET_CHECKPOINTS}
        except BaseException:
            release_lock(self._lock)
            raise

    def __enter__(self) -> BrokerDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        release_lock(self._lock)

    def _check_cluster(self, metadata_directory: Path) -> None:
        """Raise RestoreError if the metadata log belongs to another cluster, in which topics have other ids."""
        # A broker renames a partition directory to '…-stray' if it contains a topic id from another cluster.
        text = read_text(metadata_directory / META_PROPERTIES)
        try:
            other = read_meta_properties(text or "").get("cluster.id")
        except StructureError as error:
            raise RestoreError(f"{metadata_directory / META_PROPERTIES}: {error.message}") from None
        own = self.properties.get("cluster.id")
        if own is not None and other is not None and own != other:
            raise RestoreError(
                f"{metadata_directory} belongs to the cluster {other}, but {self.path} belongs to the cluster {own}; "
                f"specify a directory of the cluster {own} that contains {METADATA_LOG}"
            )

    def _read(self, name: str) -> dict[tuple[str, int], int]:
        try:
            return read_offset_checkpoint(read_text(self.path / name) or "", name)
        except StructureError as error:
            raise_if_intact(error)
            raise RestoreError(f"{self.path / name} is corrupted: {error.message}; delete the file") from None

    def target(self, topic: str, partition: int, partitions: int, keep_producers: bool) -> Target:
        """Return a partition to restore, of a topic with `partitions` partitions. RestoreError: it is not allowed."""
        folder = self.path / f"{topic}-{partition}"
        self._check_topic(topic, partition, partitions)
        if not folder.is_dir():
            raise RestoreError(
                f"{folder} does not exist; start the broker once, so that it creates the directory, or specify the log "
                "directory that contains it"
            )
        names = list_directory(folder)[1]
        logs = [name for name in names if base_offset_of(name) is not None]
        used = [name for name in logs if base_offset_of(name) or file_size(folder / name)]
        if used or self._checkpoints[LOG_STARTS].get((topic, partition), 0):
            raise RestoreError(
                f"{folder} is not empty; only a partition without records, as the broker has created it, can be restored"
            )
        topic_id, epoch = self._identity(folder, topic, partition)
        modes = [mode for name in logs if (mode := mode_of(folder / name)) is not None]
        return Target(folder, topic_id, epoch, keep_producers, (modes or [0o644])[0])

    def _check_topic(self, topic: str, partition: int, partitions: int) -> None:
        if self.metadata is None:
            return
        tool = "kafka-topics.sh --bootstrap-server HOST:PORT"
        topic_id = self.metadata.topics.get(topic)
        if topic_id is None:
            raise RestoreError(
                f"the cluster has no topic {topic}; start the broker, run `{tool} --create --topic {topic} "
                f"--partitions {partitions} --replication-factor 1`, and stop the broker"
            )
        replicas = self.metadata.replicas.get((topic_id, partition))
        if replicas is None:
            raise RestoreError(
                f"topic {topic} has no partition {partition} in the cluster; start the broker, run `{tool} --alter "
                f"--topic {topic} --partitions {partitions}`, and stop the broker"
            )
        if self.node is not None and self.node not in replicas:
            brokers = ", ".join(map(str, replicas))
            raise RestoreError(
                f"{topic}-{partition} is stored on broker {brokers}, but {self.path} belongs to {self.node}"
            )

    def _identity(self, folder: Path, topic: str, partition: int) -> tuple[str | None, int]:
        """Return the topic id and the leader epoch of a partition."""
        # In ZooKeeper mode, a broker has no metadata log, and stores both in the partition directory.
        if self.metadata is not None:
            topic_id = self.metadata.topics[topic]
            return base64_uuid(topic_id), max(self.metadata.leader_epochs.get((topic_id, partition), 0), 0)
        try:
            text = read_text(folder / PARTITION_METADATA)
            epochs = read_leader_epochs(read_text(folder / LEADER_EPOCHS) or "")
            known = None if text is None else read_partition_metadata(text)["topic_id"]
        except StructureError as error:
            raise RestoreError(f"{folder}: {error.message}") from None
        return known, epochs[-1][0] if epochs else 0

    def staging(self, topic: str, partition: int) -> Path:
        """Return a path for a new directory."""
        # It ends with `-delete`, so a broker deletes the directory at its next start.
        suffix = f"-{partition}.{uuid.uuid4().hex}-delete"
        return self.path / f"{topic[: MAX_NAME - len(suffix)]}{suffix}"

    def publish(self, partitions: Iterable[tuple[Target, Restored]]) -> None:
        """Sync the restored partitions, rename them, and update the checkpoints."""
        # The clean shutdown file does not exist while partitions are replaced. If the process dies during this time,
        # the broker recovers all partitions when it starts.
        done = list(partitions)
        for target, restored in done:
            self._give_away(target, restored)
            handle = os.open(restored.made.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                sync_tree(restored.made.path, handle)
            finally:
                os.close(handle)
        marker = self.path / CLEAN_SHUTDOWN
        clean, mode, owner = (
            read_bytes(marker),
            mode_of(marker),
            marker.stat() if marker.exists() else None,
        )
        if clean is not None:
            marker.unlink()
            sync_directory(self.path)
        for target, restored in done:
            made = restored.made
            replaced = self.staging(made.topic, made.partition)
            os.rename(target.path, replaced)
            os.rename(made.path, target.path)
            sync_directory(self.path)
            shutil.rmtree(replaced)
        self._write_checkpoints(done)
        if clean is not None:
            replace_file(marker, clean, mode or 0o644)
            if owner is not None and os.geteuid() == 0:
                os.chown(marker, owner.st_uid, owner.st_gid)

    def _write_checkpoints(self, partitions: list[tuple[Target, Restored]]) -> None:
        for name in OFFSET_CHECKPOINTS:
            offsets = self._checkpoints[name]
            for _, restored in partitions:
                made = restored.made
                offsets.pop((made.topic, made.partition), None)
                if name in made.offsets:
                    offsets[made.topic, made.partition] = made.offsets[name]
            place = self.path / name
            replace_file(place, offset_checkpoint_text(offsets).encode())
            self._like_root(place)

    def _give_away(self, target: Target, restored: Restored) -> None:
        """Give the restored files the permissions and the owner of the files that they replace."""
        owner = target.path.stat()
        for place in [*restored.made.path.iterdir(), restored.made.path]:
            place.chmod(owner.st_mode & 0o777 if place == restored.made.path else target.mode)
            if os.geteuid() == 0:
                os.chown(place, owner.st_uid, owner.st_gid)

    def _like_root(self, place: Path) -> None:
        """Change the owner of a file to the owner of the log directory, so that the broker can write to the file."""
        if os.geteuid() == 0:
            owner = self.path.stat()
            os.chown(place, owner.st_uid, owner.st_gid)


def refuse_missing(path: Path) -> None:
    """Raise an OSError if a path is not an existing directory."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))

"""Find the metadata log of a KRaft node, its snapshots, and the files `meta.properties` and `quorum-state`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import KafkaFormatError
from ..log import NoLogError, PartitionDir, discover
from ..log.catalog import archive_root, matching
from ..log.formats import META_PROPERTIES, read_meta_properties
from ..log.storage import is_file, list_directory, path_exists, read_text
from ..support.paths import Location, UrlPath, input_path

METADATA_PARTITION = "__cluster_metadata-0"
SNAPSHOT_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint\Z")
QUORUM_STATE = "quorum-state"
WHERE = "KRaft nodes store the metadata log in metadata.log.dir, which is by default the first directory of log.dirs"


@dataclass(frozen=True)
class SnapshotFile:
    """A metadata snapshot of a KRaft cluster: the state after all records with offsets below `end_offset`."""

    path: Location
    end_offset: int
    epoch: int  # leader epoch of the last of these records


@dataclass
class MetadataSource:
    """Files of a KRaft node from which the state of the cluster is rebuilt."""

    path: Location  # of the partition directory, or of a snapshot
    log: PartitionDir | None  # None: only snapshots exist
    snapshots: list[SnapshotFile]  # from the newest to the oldest
    properties: dict[str, str] = field(default_factory=dict)  # content of `meta.properties`; empty if it does not exist
    quorum: dict[str, Any] = field(default_factory=dict)  # content of `quorum-state`; empty if it does not exist


def find_source(path: str | os.PathLike[str], tell: Callable[[str], None]) -> MetadataSource:
    """Find the metadata log and the snapshots at a path."""
    # The path is a log directory that contains `__cluster_metadata-0`, this directory itself, or a
    # snapshot (`*.checkpoint`). It can be a URL, an archive, or a pattern that matches one path.
    # `tell` gets a message about each file that cannot be used.
    found = matching(input_path(path))
    if len(found) > 1:
        raise NoLogError(f"{path}: matches {len(found)} paths; specify one node's directory")
    place = found[0]
    if is_file(place):
        name = SNAPSHOT_NAME.match(place.name)
        if name:
            only = SnapshotFile(place, int(name[1]), int(name[2]))
            return MetadataSource(place, None, [only], _properties(place.parent.parent, tell))
        place = archive_root(place) or place.parent
    directories, names = list_directory(place)
    if METADATA_PARTITION in directories:
        place /= METADATA_PARTITION
        names = list_directory(place)[1]
    elif place.name != METADATA_PARTITION and not any(SNAPSHOT_NAME.match(n) or n == QUORUM_STATE for n in names):
        raise NoLogError(f"{path}: there is no {METADATA_PARTITION}; {WHERE}")
    snapshots = [SnapshotFile(place / n, int(m[1]), int(m[2])) for n in names if (m := SNAPSHOT_NAME.match(n))]
    snapshots.sort(key=lambda s: (s.end_offset, s.epoch), reverse=True)
    return MetadataSource(
        place, _log(place, snapshots, tell), snapshots, _properties(place.parent, tell), _quorum(place, tell)
    )


def _log(place: Location, snapshots: list[SnapshotFile], tell: Callable[[str], None]) -> PartitionDir | None:
    """Return the metadata log in a directory. If the directory contains only snapshots, return None."""
    try:
        found = discover([place if isinstance(place, UrlPath) else str(place)])
    except NoLogError:
        if snapshots:
            return None
        raise
    for message in found.messages:
        tell(message)
    (log,) = found.partitions
    if not log.segments and not snapshots:
        raise NoLogError(f"{place}: there is neither a .log file nor a snapshot")
    return log if log.segments else None


def _properties(folder: Location, tell: Callable[[str], None]) -> dict[str, str]:
    path = folder / META_PROPERTIES
    try:
        return read_meta_properties(read_text(path) or "", str(path)) if path_exists(path) else {}
    except KafkaFormatError as error:
        tell(f"ignored: {error.message}")
        return {}


def _quorum(folder: Location, tell: Callable[[str], None]) -> dict[str, Any]:
    """Return the content of `quorum-state`, which Kafka writes as JSON (``QuorumStateData``)."""
    path = folder / QUORUM_STATE
    try:
        text = read_text(path)
    except KafkaFormatError as error:
        tell(f"{path}: ignored: {error.message}")
        return {}
    if not text or not text.strip():
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        tell(f"{path}: ignored, because it is not a JSON object")
        return {}
    return found

"""Describe a partition directory and its segments, as they were when the directory was listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import StructureError
from ...support.paths import Location, UrlPath
from ..findings import Finding
from ..formats import (
    CLEANER_OFFSETS,
    OFFSET_DIGITS,
    PARTITION_METADATA,
    base_offset_of,
    file_name,
    read_partition_metadata,
    segment_name_of,
)
from ..storage import content_size, joined, read_text

CLUSTER_METADATA = "__cluster_metadata"  # The topic of Kafka's metadata log. Offset checkpoints have no entry for it.
INTERNAL_PREFIX = "__"  # the names of Kafka's internal topics begin with this prefix


class SegmentFile:
    """A `.log` file, as it was when its directory was listed.

    A log directory can contain a million segments. To save memory, path and name are not stored,
    but are created when they are used.

    Parameters
    ----------
    folder : Path or UrlPath
        Path of the partition directory. All segments of the partition share this object.
    name : str
        Name of the file.
    next_base : int, optional
        Base offset of the next segment. None, the default, if there is no next segment.
    last : bool, default True
        Whether the file is the last segment of its partition.
    size : int, optional
        Size of the file, in bytes. For a compressed file, the size after decompression. By default,
        the size is read when it is first used.

    Attributes
    ----------
    base_offset : int or None
        Base offset, which is the name of the file. None if the file has another name.
    """

    __slots__ = ("_name", "_size", "base_offset", "folder", "last", "next_base")

    folder: Location
    base_offset: int | None
    next_base: int | None
    last: bool

    def __init__(
        self, folder: Location, name: str, next_base: int | None = None, last: bool = True, size: int | None = None
    ) -> None:
        self.folder = folder
        unpacked = segment_name_of(name)
        self.base_offset = base_offset_of(unpacked or name)
        self._name = name if self.base_offset is None or unpacked else None
        self.next_base = next_base
        self.last = last
        self._size = size

    @property
    def name(self) -> str:
        """Name of the file."""
        name = self._name
        if name is None:
            assert self.base_offset is not None
            self._name = name = file_name(self.base_offset)
        return name

    @property
    def path(self) -> Location:
        """Path of the file."""
        return self.folder / self.name

    @property
    def place(self) -> str | UrlPath:
        """Path of the file as a string, or its URL. No `Path` object is created, because this would be slower."""
        return joined(self.folder, self.name)

    def sibling(self, suffix: str) -> Location:
        """Return the path of another file of the segment, by its suffix, such as ".index"."""
        return self.folder / self.sibling_name(suffix)

    def sibling_place(self, suffix: str) -> str | UrlPath:
        """Return the path of another file of the segment as a string, or its URL. No `Path` object is created."""
        return joined(self.folder, self.sibling_name(suffix))

    def sibling_name(self, suffix: str) -> str:
        """Return the name of the segment's file with the given suffix, such as ".index"."""
        return (
            Path(self.name).with_suffix(suffix).name
            if self.base_offset is None
            else self.name[:OFFSET_DIGITS] + suffix  # faster than `file_name`
        )

    @property
    def size(self) -> int:
        """Size of the file in bytes, at the time when this property was first used.

        The size is 0 if it cannot be read. In this case, opening the file raises an error later.
        """
        if self._size is None:
            try:
                self._size = content_size(self.place) or 0
            except OSError:
                self._size = 0
        return self._size

    def __repr__(self) -> str:
        return f"SegmentFile({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SegmentFile):
            return NotImplemented
        return (self.folder, self.name, self.next_base) == (other.folder, other.name, other.next_base)

    def __hash__(self) -> int:
        return hash((self.folder, self.name))

    def __reduce__(self) -> Any:
        """Include the size when the object is pickled, so that Spark tasks use the size that the driver has read."""
        return SegmentFile, (self.folder, self.name, self.next_base, self.last, self.size)


@dataclass
class PartitionDir:
    """A partition directory, as it was when it was listed.

    Attributes
    ----------
    topic, partition : str and int
        Name of the topic and number of the partition, as given by the directory's name.
    path : Path or UrlPath
        Path of the directory.
    state : str
        "live", "delete", "stray" or "future", as given by the directory's name.
    segments : list of SegmentFile
        The segments, in the order of their base offsets.
    log_start : int
        Log start offset of the partition according to the checkpoint of the log directory. 0 if the
        checkpoint does not contain the partition.
    cleaned : bool
        Whether the log cleaner's checkpoint contains the partition. If True, missing offsets are
        the result of compaction.
    named : bool
        Whether the user specified the path of this directory, or of a file in it.
    problems : list of Finding
        Findings about invalid checkpoints, and about `.log` files that are not segments.
    checkpoints : dict of int
        Maps the file name of a checkpoint to the offset of the partition in this checkpoint.
    error : OSError or None
        The error that occurred when the directory was listed. It is raised when the partition is
        read.
    ignored : frozenset of str
        Names of files in the directory that salvage must not use.
    inode : int or None
        Inode of the directory when it was listed. None for a URL.
    clean : bool
        Whether the log directory contains `.kafka_cleanshutdown`, so that the broker has written all
        records before it stopped.
    marked : int or None
        Time at which the high watermarks were written, in ns. None if it is not known.
    whole : bool
        Whether the directory was listed. False if the user specified only `.log` files in it.
    before : int or None
        Base offset of the segment before the first segment in `segments`, if a task has only one segment.
    metadata_logs : tuple of (Path or UrlPath)
        Directories of the metadata log that were found together with this partition.
    compacts : bool or None
        Whether the log cleaner's checkpoint or the metadata log shows that the log was compacted. None
        if the metadata log was not read; see `compaction.is_recorded`.
    """

    topic: str
    partition: int
    path: Location
    state: str
    segments: list[SegmentFile]
    log_start: int = 0
    cleaned: bool = False
    named: bool = False
    problems: list[Finding] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)
    error: OSError | None = None
    ignored: frozenset[str] = frozenset()
    inode: int | None = None
    clean: bool = False
    marked: int | None = None
    whole: bool = True
    before: int | None = None
    metadata_logs: tuple[Location, ...] = ()
    compacts: bool | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Name of the topic and number of the partition, as a tuple."""
        return self.topic, self.partition

    @property
    def places(self) -> list[str]:
        """The path or URL of the directory, or those of its segments if the user specified only `.log` files."""
        paths = [s.path for s in self.segments] if not self.whole else [self.path]
        return [path.url if isinstance(path, UrlPath) else str(path) for path in paths]

    @property
    def log_start_offset(self) -> int:
        """First offset that consumers can read from a broker.

        The value is the log start offset in the checkpoint or the base offset of the first segment,
        whichever is higher.
        """
        first = self.segments[0].base_offset if self.segments else None
        return max(self.log_start, first or 0)

    @property
    def was_cleaned(self) -> bool:
        """Whether the log cleaner has removed records from the log, according to its checkpoint.

        If the checkpoint contains the base offset of the first segment, the log cleaner has not run.
        `salvage` writes such an entry, because missing offsets of its copy are no loss.
        """
        first = self.segments[0].base_offset if self.segments else None
        return self.cleaned and self.checkpoints.get(CLEANER_OFFSETS, 0) > (first or 0)

    def read_topic_id(self) -> str | None:
        """Read the topic id from `partition.metadata`, which brokers have written since Kafka 2.8.

        If the file does not exist, cannot be read or is in an object store, return None.
        """
        if isinstance(self.path, UrlPath):
            return None
        try:
            return read_partition_metadata(read_text(self.path / PARTITION_METADATA) or "")["topic_id"]
        except (StructureError, OSError):
            return None

    @property
    def readable(self) -> bool:
        """Whether the partition is read. This is the case if it is live, or if the user specified its path."""
        return self.state == "live" or self.named

    @property
    def internal(self) -> bool:
        """Whether the topic is one of Kafka's internal topics."""
        return self.topic.startswith(INTERNAL_PREFIX)

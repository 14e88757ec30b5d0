"""Describe a partition directory and its segments, as they were when they were listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...paths import Location, UrlPath
from ..format import file_view, files
from ..format.names import base_offset_of, file_name
from ..format.packed import segment_name_of

INTERNAL_PREFIX = "__"
"""The names of Kafka's internal topics begin with this prefix."""


class SegmentFile:
    """The state of a `.log` file at the time when its directory was listed.

    A log directory can have a million segments. To save memory, a `SegmentFile` does not store its
    path and its name, but creates them when they are used.

    Parameters
    ----------
    folder : Path or UrlPath
        Path of the directory. All segments of a partition share this object.
    name : str
        Name of the file.
    next_base : int, optional
        Base offset of the next segment. By default, there is no next segment.
    last : bool, default True
        Whether the file is the last segment of its partition.
    size : int, optional
        Size of the file, in bytes. For a compressed file, the size after decompression. By default,
        the size is determined when it is first used.

    Attributes
    ----------
    base_offset : int or None
        Base offset in the file's name. None if the name is not a base offset.
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
        if self._name is not None:
            return self._name
        assert self.base_offset is not None
        return file_name(self.base_offset)

    @property
    def path(self) -> Location:
        """Path of the file."""
        return self.folder / self.name

    @property
    def place(self) -> str | UrlPath:
        """Path of the file as a string, or its URL. This property is faster than the property `path`."""
        return files.joined(self.folder, self.name)

    def sibling(self, suffix: str) -> Location:
        """Return the path of the segment's file with another suffix, such as ".index"."""
        return self.folder / self.sibling_name(suffix)

    def sibling_name(self, suffix: str) -> str:
        """Return the name of the segment's file with another suffix, such as ".index"."""
        return (
            Path(self.name).with_suffix(suffix).name
            if self.base_offset is None
            else file_name(self.base_offset, suffix)
        )

    @property
    def size(self) -> int:
        """Size of the file, in bytes, when this property was first used.

        0 if the size cannot be read. Opening the file then raises the error.
        """
        if self._size is None:
            try:
                self._size = file_view.content_size(self.place) or 0
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
        """Pickle the segment with its size, so that a task on another host uses the size from the driver."""
        return SegmentFile, (self.folder, self.name, self.next_base, self.last, self.size)


@dataclass
class PartitionDir:
    """The state of a partition directory at the time when it was listed.

    Attributes
    ----------
    topic, partition : str and int
        Name of the topic and number of the partition, from the directory's name.
    path : Path or UrlPath
        Path of the directory.
    state : str
        "live", "delete", "stray" or "future", from the directory's name.
    segments : list of SegmentFile
        The segments, in ascending order.
    log_start : int
        Log start offset of the partition according to the checkpoint of the log directory. 0 if the
        checkpoint does not contain the partition.
    cleaned : bool
        Whether the log cleaner's checkpoint contains the partition. If True, gaps in the offsets
        are the result of compaction.
    named : bool
        Whether the user named the directory, or a file in it, as a path.
    problems : list of (str, str, str)
        File name, error code and message for each invalid checkpoint, and for each `.log` file that
        is not a segment.
    checkpoints : dict of int
        Offset of the partition in each offset checkpoint, by the file name of the checkpoint.
    error : OSError or None
        The error that occurred when the directory was listed. `PartitionLog` raises it.
    ignored : frozenset of str
        Names of files in the directory that salvage must not use.
    inode : int or None
        Inode of the directory when it was listed. None for a URL.
    """

    topic: str
    partition: int
    path: Location
    state: str
    segments: list[SegmentFile]
    log_start: int = 0
    cleaned: bool = False
    named: bool = False
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)
    error: OSError | None = None
    ignored: frozenset[str] = frozenset()
    inode: int | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Name of the topic and number of the partition, as a tuple."""
        return self.topic, self.partition

    @property
    def log_start_offset(self) -> int:
        """First offset that a broker shows to consumers.

        This is the log start offset in the checkpoint or the base offset of the first segment,
        whichever is higher.
        """
        first = self.segments[0].base_offset if self.segments else None
        return max(self.log_start, first or 0)

    @property
    def readable(self) -> bool:
        """Whether to read the partition, because it is live or because the user named its path."""
        return self.state == "live" or self.named

    @property
    def internal(self) -> bool:
        """Whether the topic is one of Kafka's internal topics."""
        return self.topic.startswith(INTERNAL_PREFIX)

"""Discovery: which partitions and segments lie under the paths that a user names.

A PATH is a `.log` file, a partition directory (it holds `.log` files) or a log directory (it holds partition
directories). Only live partitions of a log directory are read; others are listed with their state.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import StructureError
from . import files
from .checkpoints import CLEANER_OFFSETS, LEADER_EPOCHS, LOG_STARTS, OFFSET_CHECKPOINTS, PARTITION_METADATA, read_offset_checkpoint
from .names import base_offset_of, parse_partition_name

INTERNAL_PREFIX = "__"
LOOKED_INTO = 200
"""Directories below one that holds no log, to say where a log is."""
LOST_AND_FOUND = "lost+found"
"""Stands in a log directory that is a file system of its own, and only root may look into it."""


class NoLogError(OSError):
    """There is nothing to read under a path."""


class DuplicatePartitionError(ValueError):
    """The same partition lies in two of the paths given."""


@dataclass(frozen=True)
class SegmentFile:
    """A `.log` file. base_offset is what its name says, None where the name is not a base offset."""

    path: Path
    base_offset: int | None
    next_base: int | None
    last: bool
    size: int

    @property
    def name(self) -> str:
        return self.path.name


@dataclass
class PartitionDir:
    """A partition as it lies on disk.

    state: live, delete, stray or future. log_start: from the checkpoint beside the directory, 0 where there is none.
    cleaned: the cleaner's checkpoint knows it, so gaps in its offsets are compaction's. named: it was itself a PATH.
    checkpoints: what each of the offset checkpoints says of it, by their names.
    problems: (file, error word, message) of checkpoints that cannot be believed and of `.log` files that are no segments.
    """

    topic: str
    partition: int
    path: Path
    state: str
    segments: list[SegmentFile]
    log_start: int = 0
    cleaned: bool = False
    named: bool = False
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def log_start_offset(self) -> int:
        """max(checkpoint, first segment's base offset), the first offset that a broker would show."""
        first = self.segments[0].base_offset if self.segments else None
        return max(self.log_start, first or 0)

    @property
    def internal(self) -> bool:
        return self.topic.startswith(INTERNAL_PREFIX)


@dataclass
class Discovery:
    """What was found: partitions in order of topic, partition and path; messages worth a line on stderr."""

    partitions: list[PartitionDir]
    messages: list[str]


def discover(paths: Iterable[str | os.PathLike[str]], replicas: str | None = None) -> Discovery:
    """Every partition under the paths.

    replicas: None makes the same live partition in two places a DuplicatePartitionError; "longest" takes the one that
    ends higher. Raises OSError for a path that cannot be read and
    NoLogError for one that holds no log.
    """
    if replicas not in (None, "longest"):
        raise ValueError(f"replicas is {replicas!r}; it can be 'longest' or nothing")
    found: list[PartitionDir] = []
    messages: list[str] = []
    for path in dict.fromkeys(_absolute(p) for p in paths):
        found += _discover_path(path, messages)
    return Discovery(_without_replicas(_merged(found), replicas, messages), list(dict.fromkeys(messages)))


def _absolute(path: str | os.PathLike[str]) -> Path:
    if not os.fspath(path):  # which abspath takes for the working directory
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "''")
    return Path(os.path.abspath(path))


def _merged(found: list[PartitionDir]) -> list[PartitionDir]:
    """One entry for a directory that several paths lead to: itself and its log directory, a link, several of its files."""
    merged: dict[tuple[str, tuple[str, int], str], PartitionDir] = {}
    for p in found:
        other = merged.setdefault((os.path.realpath(p.path), p.key, p.state), p)
        if other is not p:
            names = {s.name for s in other.segments}
            other.segments = sorted(other.segments + [s for s in p.segments if s.name not in names], key=_segment_order)
            other.named = other.named or p.named
            other.problems += [problem for problem in p.problems if problem not in other.problems]
    return list(merged.values())


def _segment_order(segment: SegmentFile) -> tuple[bool, int, str]:
    return segment.base_offset is None, segment.base_offset or 0, segment.name


def _discover_path(path: Path, messages: list[str]) -> list[PartitionDir]:
    if path.is_file():
        if path.suffix != ".log":
            raise NoLogError(f"{path}: not a .log file, a partition directory or a log directory")
        _, names = files.list_directory(path.parent)
        return [_partition(path.parent, [path.name], names, messages, named=True)]
    directories, names = files.list_directory(path)
    logs = [n for n in names if n.endswith(".log")]
    if any(base_offset_of(n) is not None for n in logs):
        return [_partition(path, logs, names, messages, named=True)]
    links = [n for n in names if parse_partition_name(n).parsed and (path / n).is_symlink() and not (path / n).exists()]
    messages += [f"{path / link}: the link leads nowhere" for link in links]
    found = _partitions_in(path, directories, messages)
    if found:
        return found
    if logs:
        return [_partition(path, logs, names, messages, named=True)]
    if parse_partition_name(path.name).parsed and PARTITION_METADATA in names:
        return [_partition(path, [], names, messages, named=True)]
    raise NoLogError(f"{path}: no log in it (no .log file, no partition directory){_nearby(path)}")


def _nearby(path: Path) -> str:
    """Log directories at most two levels below a path, for a message; only some hundred directories are looked into."""
    found: list[str] = []
    level, left = [path], LOOKED_INTO
    for _ in range(2):
        following: list[Path] = []
        for parent in level:
            for child in _directories(parent)[:left]:
                left -= 1
                inner = _directories(parent / child)
                if any(parse_partition_name(name).parsed and _has_log(parent / child / name) for name in inner[:LOOKED_INTO]):
                    found.append(str(parent / child))
                else:
                    following.append(parent / child)
        level = following
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"; below it there {'is' if len(found) == 1 else 'are'} {', '.join(found[:3])}{more}" if found else ""


def _directories(path: Path) -> list[str]:
    try:
        return files.list_directory(path)[0]
    except OSError:
        return []


def _has_log(path: Path) -> bool:
    try:
        return any(base_offset_of(name) is not None for name in files.list_directory(path)[1])
    except OSError:
        return False


def _partitions_in(path: Path, directories: list[str], messages: list[str]) -> list[PartitionDir]:
    """The partition directories of a log directory."""
    checkpoints = _read_checkpoints(path)
    found = []
    for directory in directories:
        if directory == LOST_AND_FOUND:
            continue
        name = parse_partition_name(directory)
        try:
            _, inner = files.list_directory(path / directory)
        except FileNotFoundError:
            messages.append(f"{path / directory}: gone before it was read (retention or a deleted topic)")
            continue
        inner_logs = [n for n in inner if n.endswith(".log")]
        if not name.parsed and not any(base_offset_of(n) is not None for n in inner_logs):
            continue
        if not inner_logs and PARTITION_METADATA not in inner and LEADER_EPOCHS not in inner:
            continue
        found.append(_partition(path / directory, inner_logs, inner, messages, checkpoints=checkpoints))
    return found


Checkpoints = dict[str, dict[tuple[str, int], int]]


def _read_checkpoints(root: Path) -> tuple[Checkpoints, list[tuple[str, str, str]]]:
    values: Checkpoints = {}
    problems = []
    for name in OFFSET_CHECKPOINTS:
        try:
            text = files.read_text(root / name)
            values[name] = read_offset_checkpoint(text or "", name)
        except StructureError as error:
            problems.append((name, "unreadable_checkpoint", error.message))
    return values, problems


def _partition(
    path: Path,
    logs: list[str],
    names: list[str],
    messages: list[str],
    named: bool = False,
    checkpoints: tuple[Checkpoints, list[tuple[str, str, str]]] | None = None,
) -> PartitionDir:
    name = parse_partition_name(path.name)
    if not name.parsed and logs:
        messages.append(f"{path}: the directory's name is no topic-partition; taken as topic {name.topic!r}, partition 0")
    if checkpoints is None:
        try:
            checkpoints = _read_checkpoints(path.parent)
        except OSError as error:
            messages.append(f"{path.parent}: its checkpoints cannot be read ({error.strerror}); the log start is the first segment's")
            checkpoints = {}, []
    values, problems = checkpoints[0], list(checkpoints[1])
    if any(file == LOG_STARTS for file, _, _ in problems):
        messages.append(f"{path.parent / LOG_STARTS}: cannot be believed; each log starts with its first segment")
    key = name.topic, name.partition
    bases = sorted(b for n in names if (b := base_offset_of(n)) is not None)
    segments = []
    for log in logs:
        if len(logs) > 1 and bases and base_offset_of(log) is None:  # Kafka names segments by 20 digits
            problems.append((log, "not_a_segment", f"{log}: the name is no base offset; not read"))
            continue
        size = files.file_size(path / log)
        if size is None:
            messages.append(f"{path / log}: gone before it was read (retention)")
            continue
        base = base_offset_of(log)
        after = len(bases) if base is None else bisect_right(bases, base)
        segments.append(SegmentFile(path / log, base, bases[after] if after < len(bases) else None, after == len(bases), size))
    segments.sort(key=_segment_order)
    live = name.state == "live"
    return PartitionDir(
        name.topic,
        name.partition,
        path,
        name.state,
        segments,
        values.get(LOG_STARTS, {}).get(key, 0) if live else 0,
        live and key in values.get(CLEANER_OFFSETS, {}),
        named,
        problems,
        {file: offsets[key] for file, offsets in values.items() if live and key in offsets},
    )


def _without_replicas(found: list[PartitionDir], replicas: str | None, messages: list[str]) -> list[PartitionDir]:
    kept: list[PartitionDir] = []
    chosen: dict[tuple[str, int], PartitionDir] = {}
    for p in sorted(found, key=lambda p: (p.topic, p.partition, p.state != "live", str(p.path))):
        if p.state != "live" and not p.named:
            kept.append(p)
            continue
        other = chosen.get(p.key)
        if other is None:
            chosen[p.key] = p
            kept.append(p)
            continue
        if replicas is None:
            both = f"{p.topic}-{p.partition} lies both in {other.path} and in {p.path}"
            raise DuplicatePartitionError(f"{both}: name one, or --replicas longest")
        winner, loser = (p, other) if _end(p) > _end(other) else (other, p)
        messages.append(f"{p.topic}-{p.partition}: {winner.path} is read, its replica {loser.path} is not")
        if winner is p:
            kept[kept.index(other)] = p
            chosen[p.key] = p
    return kept


def _end(p: PartitionDir) -> int:
    from .partition import PartitionLog  # which stands on this module

    return PartitionLog(p).next_offset

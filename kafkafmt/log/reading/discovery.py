"""Find the partitions and segments under the paths that a user names.

A path is one of these:

- a `.log` file
- a partition directory, which contains `.log` files
- a log directory, which contains partition directories

In a log directory, only the live partitions are read. The others are listed with their state.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...errors import StructureError
from ...paths import local_path
from ..format import files
from ..format.checkpoints import (
    CLEANER_OFFSETS,
    LEADER_EPOCHS,
    LOG_STARTS,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    read_offset_checkpoint,
)
from ..format.names import base_offset_of, parse_partition_name
from . import recognize
from .missing import UnavailableSegmentError, check_retention
from .partition_dir import PartitionDir, SegmentFile
from .replicas import choose_replicas

Checkpoints = dict[str, dict[tuple[str, int], int]]
LOOKED_INTO = 200
"""If a path contains no log, at most this many directories below it are searched for logs that the
error message can name.
"""
INCOMPLETE = ".kafkafmt-salvage"
"""Directory in which salvage builds its result. While it exists, the directory that contains it is
incomplete.
"""
LOST_AND_FOUND = "lost+found"
"""Name of a directory in the root of many file systems, which only the root user may list."""


class NoLogError(OSError):
    """Raised if a path contains no Kafka log."""


@dataclass
class Discovery:
    """The result of `discover`.

    Attributes
    ----------
    partitions : list of PartitionDir
        The partitions, ordered by topic, partition and path.
    messages : list of str
        Messages for the user, without duplicates.
    """

    partitions: list[PartitionDir]
    messages: list[str]


def discover(paths: Iterable[str | os.PathLike[str]], replicas: str | None = None) -> Discovery:
    """Find every partition under the paths.

    Parameters
    ----------
    paths : iterable of str or os.PathLike
        `.log` files, partition directories and log directories.
    replicas : "longest", optional
        If two directories contain the same partition, keep the copy with the higher end offset. By
        default, such a partition is an error.

    Returns
    -------
    Discovery
        The partitions, and messages about files that are not read.

    Raises
    ------
    OSError
        A path cannot be read. If it contains no log, the error is a `NoLogError`.
    ValueError
        A path is not local (see `local_path`), or `replicas` is wrong. If two directories contain
        the same partition, the error is a `DuplicatePartitionError`.
    """
    if replicas not in (None, "longest"):
        raise ValueError(f"replicas is {replicas!r}; it must be 'longest' or None")
    found: list[PartitionDir] = []
    messages: list[str] = []
    for path in dict.fromkeys(_absolute(p) for p in paths):
        found += _discover_path(path, messages)
    return Discovery(choose_replicas(_merged(found), replicas, messages), list(dict.fromkeys(messages)))


def _absolute(path: str | os.PathLike[str]) -> Path:
    if not os.fspath(path):  # abspath would return the working directory
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "''")
    return Path(os.path.abspath(local_path(path)))


def _merged(found: list[PartitionDir]) -> list[PartitionDir]:
    """Merge the entries that refer to the same directory.

    A user can name a directory by several paths: its own path, the path of its log directory, a
    link to it, and the path of each file in it.
    """
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
        _check_log_file(path)
        _, names = files.list_directory(path.parent)
        return [_partition(path.parent, [path.name], names, messages, named=True)]
    directories, names = files.list_directory(path)
    if INCOMPLETE in directories:
        raise NoLogError(
            f"{path} is incomplete, because a salvage was interrupted or is still running; if the salvage was interrupted, delete the directory and salvage again"
        )
    logs = [n for n in names if n.endswith(".log")]
    if any(base_offset_of(n) is not None for n in logs):
        return [_partition(path, logs, names, messages, named=True)]
    packed = recognize.packed_logs(names)
    links = [n for n in names if parse_partition_name(n).parsed and (path / n).is_symlink() and not (path / n).exists()]
    messages += [f"{path / link}: the target of the link does not exist" for link in links]
    found = _partitions_in(path, directories, messages)
    if found:
        messages += [_packed_message(path / name) for name in packed]
        return found
    valid = [n for n in logs if recognize.has_valid_batch(path / n)]
    if valid:
        return [_partition(path, valid, names, messages, named=True)]
    if parse_partition_name(path.name).parsed and PARTITION_METADATA in names:
        return [_partition(path, [], names, messages, named=True)]
    why = "no .log file, no partition directory"
    if logs:
        why = f"no file is named by a base offset of 20 digits, and {_few(logs)}"
    hint = f"; {_packed_message(path / packed[0]).removeprefix(f'{path}/')}" if packed else _nearby(path)
    raise NoLogError(f"{path}: no log in it ({why}){hint}")


def _check_log_file(path: Path) -> None:
    """Raise `NoLogError` if a file is not a Kafka log.

    A `.log` file whose name is 20 digits counts as a Kafka log, even if it is badly damaged.
    """
    log = path.suffix == ".log"
    if log and recognize.starts_with_batch(path):
        return
    packing = recognize.packing(path)
    if log and packing is None and (base_offset_of(path.name) is not None or recognize.has_valid_batch(path)):
        return
    what = "not a Kafka log, because the name is not a base offset of 20 digits, and the file contains no valid batch"
    if not log:
        what = "not a .log file, a partition directory or a log directory"
    raise NoLogError(f"{path}: {packing or what}")


def _packed_message(path: Path) -> str:
    return f"{path}: not read; {recognize.packing(path) or 'unpack it first'}"


def _few(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} has no valid batch"
    return f"none of {len(names)} .log files, such as {names[0]}, has a valid batch"


def _nearby(path: Path) -> str:
    """Return the part of a message that names log directories at most two levels below a path.

    At most LOOKED_INTO directories are searched.
    """
    found: list[str] = []
    level, left = [path], LOOKED_INTO
    for _ in range(2):
        following: list[Path] = []
        for parent in level:
            for child in _directories(parent)[:left]:
                left -= 1
                inner = _directories(parent / child)
                if any(
                    parse_partition_name(name).parsed and _has_log(parent / child / name)
                    for name in inner[:LOOKED_INTO]
                ):
                    found.append(str(parent / child))
                else:
                    following.append(parent / child)
        level = following
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"; there {'is a log' if len(found) == 1 else 'are logs'} in {', '.join(found[:3])}{more}" if found else ""


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
    """Return the partition directories of a log directory.

    If a directory cannot be read, its `error` attribute gives the reason.
    """
    checkpoints = _read_checkpoints(path)
    found = []
    for directory in directories:
        if directory == LOST_AND_FOUND:
            continue
        name = parse_partition_name(directory)
        try:
            partition = _partition_in(path / directory, name.parsed, messages, checkpoints)
        except OSError as error:
            if name.parsed:
                found.append(PartitionDir(name.topic, name.partition, path / directory, name.state, [], error=error))
            else:
                messages.append(f"{path / directory}: cannot be read: {error.strerror}")
            continue
        if partition is not None:
            found.append(partition)
    return found


def _partition_in(
    path: Path, parsed: bool, messages: list[str], checkpoints: tuple[Checkpoints, list[tuple[str, str, str]]]
) -> PartitionDir | None:
    """Return the partition directory at `path`, or None if `path` is not a partition directory.

    `parsed` is True if the name of the directory has the form `topic-partition`.
    """
    try:
        _, inner = files.list_directory(path)
    except FileNotFoundError:
        messages.append(f"{path}: gone before it was read (retention or a deleted topic)")
        return None
    logs = _segments_among(path, inner)
    if not parsed and not any(base_offset_of(n) is not None for n in logs):
        return None
    if not logs and PARTITION_METADATA not in inner and LEADER_EPOCHS not in inner:
        return None
    return _partition(path, logs, inner, messages, checkpoints=checkpoints)


def _segments_among(path: Path, names: list[str]) -> list[str]:
    """Return the `.log` files of a directory.

    If none of them is named by a base offset, return only those with a valid batch.
    """
    logs = [n for n in names if n.endswith(".log")]
    named = any(base_offset_of(n) is not None for n in logs)
    return logs if named else [n for n in logs if recognize.has_valid_batch(path / n)]


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
        messages.append(
            f"{path}: the directory's name is not TOPIC-PARTITION; read as topic {name.topic!r}, partition 0"
        )
    if checkpoints is None:
        try:
            checkpoints = _read_checkpoints(path.parent)
        except OSError as error:
            messages.append(
                f"{path.parent}: its checkpoints cannot be read ({error.strerror}); each log starts with its first segment"
            )
            checkpoints = {}, []
    values, problems = checkpoints[0], list(checkpoints[1])
    if any(file == LOG_STARTS for file, _, _ in problems):
        messages.append(
            f"{path.parent / LOG_STARTS}: not used, because it is damaged; each log starts with its first segment"
        )
    key = name.topic, name.partition
    bases = sorted(b for n in names if (b := base_offset_of(n)) is not None)
    segments: list[SegmentFile] = []
    vanished: list[SegmentFile] = []
    for log in logs:
        if len(logs) > 1 and bases and base_offset_of(log) is None:  # Kafka names segments by 20 digits
            problems.append((log, "not_a_segment", f"{log}: not read, because its name is not a base offset"))
            continue
        size = files.file_size(path / log)
        base = base_offset_of(log)
        after = len(bases) if base is None else bisect_right(bases, base)
        segment = SegmentFile(
            path / log, base, bases[after] if after < len(bases) else None, after == len(bases), size or 0
        )
        (segments if size is not None else vanished).append(segment)
    segments.sort(key=_segment_order)
    messages += [_packed_message(path / n) for n in recognize.packed_segments(names)]
    live = name.state == "live"
    found = PartitionDir(
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
        inode=files.inode(path),
    )
    for segment in vanished:
        try:
            check_retention(found, segment)
            messages.append(f"{segment.path}: gone before it was read (retention)")
        except UnavailableSegmentError:  # reading the segment raises the error, for this partition only
            found.segments = sorted([*found.segments, segment], key=_segment_order)
    return found

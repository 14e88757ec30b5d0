"""Find all partitions and segments under the paths that a user specifies.

A path or URL can be a `.log` file, a partition directory (with `.log` files), or a log directory
(with partition directories). A pattern with `*`, `?` or `[...]` stands for all matching files and
directories. In a log directory, partitions with the suffix `-delete`, `-stray` or `-future` are
listed, but not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...errors import StructureError
from ...support.paths import Location, UrlPath, input_path
from ...support.text import shown
from ...support.threads import map_waiting
from ..findings import Finding
from ..formats import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    PartitionName,
    base_of,
    bases_in,
    is_log_name,
    parse_partition_name,
    read_offset_checkpoint,
    segment_name_of,
)
from ..storage import (
    inode_of,
    is_file,
    list_with_sizes,
    path_exists,
    read_text,
    real_path,
    stamp_of,
)
from .archives import archive_root
from .listings import Listings
from .nearby_logs import nearby_logs
from .partition_dir import CLUSTER_METADATA, PartitionDir, SegmentFile
from .recognize import OpenSearch, has_valid_batch, packed_logs, packed_segments, packing, starts_with_batch
from .sources import matching

INCOMPLETE = ".kafkafmt-salvage"
"""Subdirectory in which `salvage` writes its output. A log directory that contains it is incomplete."""
SWAP_MESSAGE = (
    "not read; a broker is replacing segments with this file, or was stopped during the replacement "
    "and completes it at the next start"
)
"""Message about a `.log.swap` file, whose records may be in no other file (Kafka: ``LogLoader.load``)."""
LOST_AND_FOUND = "lost+found"
"""Name of a directory that many file systems have in their root. Only the root user may list it."""


class Checkpoints(NamedTuple):
    """The checkpoints of a log directory."""

    # They are read before the partitions, so that with a running broker, no log ends below its checkpoints.

    offsets: dict[str, dict[tuple[str, int], int]]  # maps the name of a checkpoint file to its entries
    problems: list[Finding]
    clean: bool = False  # whether `.kafka_cleanshutdown` exists
    marked: int | None = None  # time at which the high watermarks were written, in ns

    def prove(self, key: tuple[str, int]) -> bool:
        """Return whether a partition had records, so that a directory without a segment has lost them."""
        marks = (RECOVERY_POINTS, HIGH_WATERMARKS) if self.clean else (RECOVERY_POINTS,)
        return any(self.offsets.get(name, {}).get(key, 0) > 0 for name in marks)


class NoLogError(OSError):
    """Raised if a path contains no Kafka log."""


@dataclass
class Discovery:
    """Result of `discover`: the partitions that were found.

    Attributes
    ----------
    partitions : list of PartitionDir
        The partitions, ordered by topic, partition and path.
    messages : list of str
        Messages for the user, without duplicates.
    """

    partitions: list[PartitionDir]
    messages: list[str]


def find_partitions(
    paths: Iterable[str | os.PathLike[str] | UrlPath],
    listings: Listings | None,
    messages: list[str],
    search_in: OpenSearch,
) -> list[PartitionDir]:
    """Find all partitions under the given paths, also several directories with the same partition."""
    found: list[PartitionDir] = []
    for path in dict.fromkeys(found_path for p in paths for found_path in matching(input_path(p))):
        found += _discover_path(path, messages, listings, search_in)
    merged = _merged(found)
    metadata_logs = tuple(dict.fromkeys(p.path for p in merged if p.topic == CLUSTER_METADATA))
    for partition in merged:
        partition.metadata_logs = metadata_logs
    return merged


def _is_file(path: Location) -> bool:
    # A URL without a suffix is assumed to be a directory. This saves a request to the server.
    if isinstance(path, UrlPath) and not path.suffix:
        return False
    return is_file(path)


def _merged(found: list[PartitionDir]) -> list[PartitionDir]:
    """Merge `PartitionDir` objects that refer to the same directory."""
    same_name: dict[tuple[tuple[str, int], str], list[PartitionDir]] = {}
    for p in found:
        same_name.setdefault((p.key, p.state), []).append(p)
    merged: list[PartitionDir] = []
    for group in same_name.values():
        by_place: dict[str, PartitionDir] = {}
        for p in group:
            # Resolving links takes many system calls, so paths are resolved only if two partitions have the same name.
            place = real_path(p.path) if len(group) > 1 else ""
            other = by_place.setdefault(place, p)
            if other is not p:
                names = {s.name for s in other.segments}
                added = [s for s in p.segments if s.name not in names]
                other.segments = sorted(other.segments + added, key=_segment_order)
                other.named = other.named or p.named
                other.whole = other.whole or p.whole
                other.problems += [problem for problem in p.problems if problem not in other.problems]
        merged += by_place.values()
    return merged


def _segment_order(segment: SegmentFile) -> tuple[bool, int, str]:
    return segment.base_offset is None, segment.base_offset or 0, segment.name


def _discover_path(
    path: Location, messages: list[str], listings: Listings | None, search_in: OpenSearch
) -> list[PartitionDir]:
    if _is_file(path):
        inside = archive_root(path)
        if inside is not None:
            return _discover_path(inside, messages, listings, search_in)
        _check_log_file(path, search_in)
        _, names, sizes = list_with_sizes(path.parent)
        return [replace(_partition(path.parent, [path.name], names, sizes, messages, named=True), whole=False)]
    parsed = parse_partition_name(path.name)
    notes = list[str]()
    checkpoints = _checkpoints_next_to(path, notes) if parsed.parsed else None
    if listings is not None and (known := listings.find(path)) is not None:
        return [_with_checkpoints(known, checkpoints or _checkpoints_next_to(path, messages))]
    state = None if listings is None else listings.state_of(path)
    directories, names, sizes = list_with_sizes(path)
    if INCOMPLETE in directories:
        raise NoLogError(
            f"{path} is incomplete, because the command that writes it was interrupted or is still running; "
            "if it was interrupted, delete the directory and run the command again"
        )
    logs = [n for n in names if is_log_name(n)]
    if any(base_of(n) is not None for n in logs):
        messages += notes
        partition = _partition(path, logs, names, sizes, messages, named=True, checkpoints=checkpoints)
        if listings is not None:
            listings.add(path, state, partition)
        return [partition]
    packed = packed_logs(names)
    links = [n for n in names if parse_partition_name(n).parsed and not is_file(path / n)]
    messages += [f"{path / link}: the target of the link does not exist" for link in links]
    # Requests for missing objects are avoided, because each request takes long.
    existing = [n for n in OFFSET_CHECKPOINTS if n in sizes] if isinstance(path, UrlPath) else OFFSET_CHECKPOINTS
    own = _read_checkpoints(path, existing, CLEAN_SHUTDOWN in names)
    found = _partitions_in(path, directories, own, messages, listings, search_in)
    if found:
        messages += [_packed_message(path / name) for name in packed]
        return found
    valid = [n for n in logs if has_valid_batch(path / n, search_in)]
    if valid:
        return [_partition(path, valid, names, sizes, messages, named=True, checkpoints=checkpoints)]
    if checkpoints is not None and (PARTITION_METADATA in names or checkpoints.prove((parsed.topic, parsed.partition))):
        return [_partition(path, [], names, sizes, messages, named=True, checkpoints=checkpoints)]
    why = "no .log file and no partition directory"
    if logs:
        why = f"no file name is a base offset of 20 digits, and {_few(logs)}"
    hint = f"; {_packed_message(path / packed[0]).removeprefix(f'{path}/')}" if packed else nearby_logs(path)
    raise NoLogError(f"{path}: no Kafka log found ({why}){hint}")


def _check_log_file(path: Location, search_in: OpenSearch) -> None:
    """Raise `NoLogError` if a file is not a Kafka log."""
    # A `.log` file with a name of 20 digits is treated as one, even if it contains no valid batch.
    log = is_log_name(path.name)
    if log and starts_with_batch(path, search_in):
        return
    packed = None if segment_name_of(path.name) else packing(path)
    if log and packed is None and (base_of(path.name) is not None or has_valid_batch(path, search_in)):
        return
    what = "not a Kafka log, because the name is not a base offset of 20 digits, and the file contains no valid batch"
    if not log:
        what = "not a .log file, a partition directory or a log directory"
    raise NoLogError(f"{path}: {packed or what}")


def _packed_message(path: Location) -> str:
    return f"{path}: not read; {packing(path) or 'unpack it first'}"


def _few(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} contains no valid batch"
    return f"none of its {len(names)} .log files contains a valid batch"


def _partitions_in(
    path: Location,
    directories: list[str],
    checkpoints: Checkpoints,
    messages: list[str],
    listings: Listings | None,
    search_in: OpenSearch,
) -> list[PartitionDir]:
    """Return the partition directories of a log directory. `error` is set in those that cannot be read."""

    def read(directory: str) -> tuple[PartitionDir | None, list[str]]:
        name, notes = parse_partition_name(directory), list[str]()
        try:
            return _partition_in(path / directory, name, notes, checkpoints, listings, search_in), notes
        except OSError as error:
            if name.parsed:
                unreadable = PartitionDir(name.topic, name.partition, path / directory, name.state, [], error=error)
                return unreadable, notes
            return None, [*notes, f"{path / directory}: cannot be read: {error.strerror}"]

    found = []
    wanted = [d for d in directories if d != LOST_AND_FOUND]
    for partition, notes in map_waiting(read, wanted, waits=isinstance(path, UrlPath)):
        messages += notes
        if partition is not None:
            found.append(partition)
    return found


def _partition_in(
    path: Location,
    name: PartitionName,
    messages: list[str],
    checkpoints: Checkpoints,
    listings: Listings | None,
    search_in: OpenSearch,
) -> PartitionDir | None:
    """Return the partition directory at `path`, or None if `path` is not a partition directory."""
    # Without a segment, it must contain other files of a partition, or a checkpoint must show that segments are lost.
    if listings is not None and (known := listings.find(path)) is not None:
        return _with_checkpoints(known, checkpoints)
    state = None if listings is None else listings.state_of(path)
    try:
        _, inner, sizes = list_with_sizes(path)
    except FileNotFoundError:
        messages.append(f"{path}: deleted before it was read, by retention or with its topic")
        return None
    logs = _segments_among(path, inner, search_in)
    if not name.parsed and not any(base_of(n) is not None for n in logs):
        return None
    lost = name.parsed and name.state == "live" and checkpoints.prove((name.topic, name.partition))
    if not logs and not lost and PARTITION_METADATA not in inner and LEADER_EPOCHS not in inner:
        return None
    partition = _partition(path, logs, inner, sizes, messages, checkpoints=checkpoints)
    if listings is not None:
        listings.add(path, state, partition)
    return partition


def _segments_among(path: Location, names: list[str], search_in: OpenSearch) -> list[str]:
    """Return the names of the `.log` files in a directory."""
    # If no file name is a base offset, only `.log` files that contain a valid batch are returned.
    logs = [n for n in names if is_log_name(n)]
    named = any(base_of(n) is not None for n in logs)
    return logs if named else [n for n in logs if has_valid_batch(path / n, search_in)]


def _read_checkpoints(
    root: Location, names: Sequence[str] = OFFSET_CHECKPOINTS, clean: bool | None = None
) -> Checkpoints:
    """Read the checkpoints of a log directory. If `clean` is None, check whether `.kafka_cleanshutdown` exists."""
    values: dict[str, dict[tuple[str, int], int]] = {}
    problems = []
    marked = None if isinstance(root, UrlPath) else (stamp_of(root / HIGH_WATERMARKS) or (0, 0, 0))[2]

    def read(name: str) -> dict[tuple[str, int], int] | StructureError:
        try:
            return read_offset_checkpoint(read_text(root / name) or "", name)
        except StructureError as error:
            return error

    for name, found in zip(names, map_waiting(read, names, isinstance(root, UrlPath)), strict=True):
        if isinstance(found, StructureError):
            problems.append(Finding(name, "unreadable_checkpoint", found.message))
        else:
            values[name] = found
    clean = path_exists(root / CLEAN_SHUTDOWN) if clean is None else clean
    return Checkpoints(values, problems, clean, marked)


def _partition(
    path: Location,
    logs: list[str],
    names: list[str],
    sizes: dict[str, int],
    messages: list[str],
    named: bool = False,
    checkpoints: Checkpoints | None = None,
) -> PartitionDir:
    name = parse_partition_name(path.name)
    if not name.parsed and logs:
        messages.append(
            f"{path}: the directory's name is not TOPIC-PARTITION; read as topic {shown(name.topic)}, partition 0"
        )
    if checkpoints is None:
        checkpoints = _checkpoints_next_to(path, messages)
    problems = list(checkpoints.problems)
    if any(problem.file == LOG_STARTS for problem in problems):
        messages.append(
            f"{path.parent / LOG_STARTS}: ignored, because it cannot be read; each log starts with its first segment"
        )
    segments = _segments(path, logs, names, sizes, problems)
    swaps = [n for n in names if n.endswith(".log.swap")]
    problems += [Finding(n, "interrupted_swap", f"{n}: {SWAP_MESSAGE}") for n in swaps]
    messages += [f"{path / n}: {SWAP_MESSAGE}" for n in swaps]
    messages += _skipped(path, names, segments)
    found = PartitionDir(
        name.topic,
        name.partition,
        path,
        name.state,
        segments,
        named=named,
        problems=problems,
        inode=inode_of(path),
    )
    return _with_checkpoints(found, checkpoints)


def _with_checkpoints(partition: PartitionDir, checkpoints: Checkpoints) -> PartitionDir:
    """Copy the offsets of a partition, such as its log start offset, from the checkpoint files of the log directory."""
    key, live = partition.key, partition.state == "live"
    offsets = {file: found[key] for file, found in checkpoints.offsets.items() if key in found} if live else {}
    partition.checkpoints, partition.clean, partition.marked = offsets, checkpoints.clean, checkpoints.marked
    partition.log_start, partition.cleaned = offsets.get(LOG_STARTS, 0), CLEANER_OFFSETS in offsets
    return partition


def _checkpoints_next_to(path: Location, messages: list[str]) -> Checkpoints:
    """Read the checkpoints in the parent directory of a partition directory."""
    try:
        return _read_checkpoints(path.parent)
    except OSError as error:
        messages.append(
            f"{path.parent}: its checkpoints cannot be read ({error.strerror}); each log starts with its first segment"
        )
        return Checkpoints({}, [])


def _skipped(path: Location, names: list[str], segments: list[SegmentFile]) -> list[str]:
    """Return messages about compressed segments that are not read."""
    messages: list[str] = []
    packed = packed_segments(names)
    if not packed:  # otherwise, each segment would keep its name in memory
        return messages
    read = {s.name for s in segments}
    for name in packed:
        if segment_name_of(name) is None:
            messages.append(_packed_message(path / name))
        elif name not in read and (same := [n for n in read if base_of(n) == base_of(name)]):
            messages.append(f"{path / name}: not read, because {same[0]} is")
    return messages


def _segments(
    path: Location, logs: list[str], names: list[str], sizes: dict[str, int], problems: list[Finding]
) -> list[SegmentFile]:
    """Return the segments of a partition directory by base offset. Add `.log` files that are none to `problems`."""
    based = sorted(bases_in(names))
    # If a segment has several copies, keep the first one. Uncompressed copies are sorted before compressed copies.
    based = [pair for i, pair in enumerate(based) if not i or pair[0] != based[i - 1][0]]
    wanted = set(logs)
    ends = [*(base for base, _ in based[1:]), None]
    segments = [
        SegmentFile(path, n, end, end is None, sizes.get(n))
        for (_, n), end in zip(based, ends, strict=False)
        if n in wanted
    ]
    others = sorted(wanted.difference(n for _, n in based))
    if based and len(logs) > 1:
        # The names of Kafka's segments consist of 20 digits, so `.log` files with other names are not segments.
        why = "not read, because its name is not a base offset"
        problems += [Finding(n, "not_a_segment", f"{n}: {why}") for n in others]
        return segments
    return segments + [SegmentFile(path, n, size=sizes.get(n)) for n in others]

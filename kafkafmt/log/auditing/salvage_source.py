"""Decide what salvage reads of a source, so that a copy never exposes data that the source protects.

Symbolic links are followed only to places below the given paths. A copied or rebuilt file has at most the permissions of
the file it comes from.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..format import files
from ..format.checkpoints import CLEANER_OFFSETS, LOG_STARTS, META_PROPERTIES, OFFSET_CHECKPOINTS
from ..format.names import can_be_checkpointed
from ..reading.partition_dir import PartitionDir

BOOTSTRAP = "bootstrap.checkpoint"
ALL_FILE_BITS = 0o666


@dataclass(frozen=True)
class LeftOut:
    """A file or directory of a source that salvage does not read, and the reason."""

    path: Path
    reason: str


class Bounds:
    """The paths that a user named: links may lead to places below them, and to no others.

    Parameters
    ----------
    paths : iterable of paths
        Log directories, partition directories or `.log` files, as they were given.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        given = [Path(os.path.abspath(path)) for path in paths]
        # The indexes and snapshots of a `.log` file are in its directory.
        given += [path.parent for path in given if path.suffix == ".log" and not path.is_dir()]
        self._roots = [Path(os.path.realpath(path)) for path in given]

    def reason_to_leave_out(self, path: Path, *also: Path) -> str | None:
        """Return why `path` is not read: it is a link out of the given paths, or a broken link. None if it may be read.

        also: directories that are allowed too.
        """
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(root) for root in [*self._roots, *(Path(os.path.realpath(a)) for a in also)]):
            return f"it is a symbolic link to {real}, outside the given path"
        return None if path.exists() else f"it is a symbolic link to {real}, which does not exist"

    def check_partition(self, directory: PartitionDir) -> None:
        """Raise OSError if a partition cannot be salvaged.

        Either a broker does not accept its name, or it is a link out of the given paths.
        """
        if not can_be_checkpointed(directory.topic, directory.partition):
            allowed = "1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'"
            why = f"no broker accepts this topic name (it needs {allowed}); rename the directory to salvage it"
            raise OSError(errno.EINVAL, f"left out, topic {directory.topic!r}: {why}", str(directory.path))
        if reason := self.reason_to_leave_out(directory.path):
            raise OSError(errno.EINVAL, f"left out, {reason}", str(directory.path))

    def without_foreign_files(self, directory: PartitionDir) -> list[LeftOut]:
        """Make `directory` ignore files that are links out of the given paths, and return these files.

        Checkpoints of the log directory that are such links are ignored too, but not returned.
        """
        left_out = self.foreign_files(directory.path)
        directory.ignored = frozenset(entry.path.name for entry in left_out)
        directory.segments = [s for s in directory.segments if s.name not in directory.ignored]
        for entry in self.foreign_root_files(directory.path.parent):
            directory.checkpoints.pop(entry.path.name, None)
            directory.log_start = 0 if entry.path.name == LOG_STARTS else directory.log_start
            directory.cleaned = directory.cleaned and entry.path.name != CLEANER_OFFSETS
        return left_out

    def foreign_files(self, folder: Path) -> list[LeftOut]:
        """Return the files of a partition directory that are links out of the given paths."""
        paths = [folder / name for name in files.list_directory(folder)[1]]
        return [
            LeftOut(path, reason) for path in paths if path.is_symlink() and (reason := self.reason_to_leave_out(path))
        ]

    def foreign_root_files(self, root: Path) -> list[LeftOut]:
        """Return the files next to the partition directories that are links out of the given paths."""
        paths = [root / name for name in (META_PROPERTIES, BOOTSTRAP, *OFFSET_CHECKPOINTS)]
        return [
            LeftOut(path, reason)
            for path in paths
            if path.is_symlink() and (reason := self.reason_to_leave_out(path, root))
        ]


def log_mode(directory: PartitionDir) -> int:
    """Return the permissions that all segments of a partition have in common."""
    return files.narrowed(ALL_FILE_BITS, *(s.path for s in directory.segments))


def restrict(path: Path, mode: int) -> None:
    """Remove all permissions from a file or directory that are not in `mode`."""
    known = files.mode_of(path)
    if known is not None and known & ~mode:
        os.chmod(path, known & mode)

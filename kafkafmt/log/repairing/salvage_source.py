"""Decide which source files salvage may read, so that a copy exposes no protected data.

Symbolic links are followed only if they lead to places below the given paths. A copied or rebuilt
file has at most the permissions of the source file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...support.paths import Location, UrlPath, input_path
from ...support.text import shown
from ..catalog import PartitionDir, matching
from ..formats import CLEANER_OFFSETS, LOG_STARTS, META_PROPERTIES, OFFSET_CHECKPOINTS, can_be_checkpointed
from ..storage import list_links, mode_of

BOOTSTRAP = "bootstrap.checkpoint"
ALL_FILE_BITS = 0o666


@dataclass(frozen=True)
class LeftOut:
    """A file or directory that salvage does not read, with the reason."""

    path: Location
    reason: str


class Bounds:
    """Decides which symbolic links are followed: those to places below the paths that the user gave."""

    def __init__(self, paths: Iterable[str | os.PathLike[str] | UrlPath]) -> None:
        places = [place for path in paths for place in matching(input_path(path))]
        given = [place for place in places if not isinstance(place, UrlPath)]
        # The indexes and snapshots of a given `.log` file are in the directory of that file.
        given += [path.parent for path in given if path.suffix == ".log" and not path.is_dir()]
        self._roots = [Path(os.path.realpath(path)) for path in given]

    @classmethod
    def around(cls, directory: PartitionDir) -> Bounds:
        """Return the default bounds: the log directory, or the partition directory if it was given as a path."""
        return cls([directory.path if directory.named else directory.path.parent])

    def add(self, path: Path) -> None:
        """Allow symbolic links that point into the directory `path`, to which `salvage` writes."""
        self._roots.append(Path(os.path.realpath(path)))

    def reason_to_leave_out(self, path: Location, *also: Path) -> str | None:
        """Return the reason why a link must not be followed, or None if `path` may be read."""
        # The target must exist below a path that the user gave or below a directory in `also`.
        if isinstance(path, UrlPath):  # a URL cannot be a link
            return None
        real = Path(os.path.realpath(path))
        if not any(real.is_relative_to(root) for root in [*self._roots, *(Path(os.path.realpath(a)) for a in also)]):
            return f"it is a symbolic link to {real}, outside the given path"
        return None if path.exists() else f"it is a symbolic link to {real}, which does not exist"

    def apply_to(self, directory: PartitionDir) -> list[LeftOut]:
        """Exclude and return files that are symbolic links to places outside the given paths."""
        # Such a checkpoint of the log directory is ignored too, but not returned. OSError: the topic name is invalid,
        # or the partition directory is such a link.
        if not can_be_checkpointed(directory.topic, directory.partition):
            allowed = "1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'"
            why = f"no broker accepts this topic name (it needs {allowed}); rename the directory to salvage it"
            raise OSError(errno.EINVAL, f"not copied, topic {shown(directory.topic)}: {why}", str(directory.path))
        if reason := self.reason_to_leave_out(directory.path):
            raise OSError(errno.EINVAL, f"not copied, {reason}", str(directory.path))
        left_out = self.foreign_files(directory.path)
        directory.ignored = frozenset(entry.path.name for entry in left_out)
        if directory.ignored:
            directory.segments = [s for s in directory.segments if s.name not in directory.ignored]
        for entry in self.foreign_root_files(directory.path.parent):
            directory.checkpoints.pop(entry.path.name, None)
            directory.log_start = 0 if entry.path.name == LOG_STARTS else directory.log_start
            directory.cleaned = directory.cleaned and entry.path.name != CLEANER_OFFSETS
        return left_out

    def foreign_files(self, folder: Location) -> list[LeftOut]:
        """Return files of a partition directory that are symbolic links to files outside the given paths."""
        if isinstance(folder, UrlPath):
            return []
        paths = [folder / name for name in list_links(folder)]
        return [LeftOut(path, reason) for path in paths if (reason := self.reason_to_leave_out(path))]

    def foreign_root_files(self, root: Location) -> list[LeftOut]:
        """Return checkpoint and property files that are symbolic links to files outside the given paths."""
        if isinstance(root, UrlPath):
            return []
        paths = [root / name for name in (META_PROPERTIES, BOOTSTRAP, *OFFSET_CHECKPOINTS)]
        return [
            LeftOut(path, reason)
            for path in paths
            if path.is_symlink() and (reason := self.reason_to_leave_out(path, root))
        ]


def restrict(path: Path | str, mode: int) -> None:
    """Remove all permissions that are not in `mode` from a file or directory."""
    known = mode_of(path)
    if known is not None and known & ~mode:
        os.chmod(path, known & mode)

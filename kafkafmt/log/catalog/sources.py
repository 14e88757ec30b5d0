"""Convert what users give as paths: paths with wildcards, and an open log, topic or partition."""

from __future__ import annotations

import errno
import fnmatch
import glob
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import cast

from ...support.paths import Location, UrlPath
from ...support.text import shown
from ..storage import list_directory, path_exists

AnyPath = str | os.PathLike[str]


class OpenedLog(ABC):
    """Base class of `kafkafmt.Log`, `kafkafmt.Topic` and `kafkafmt.Partition`."""

    _replicas: str | None = None

    @abstractmethod
    def _source_paths(self) -> list[str]:
        """Return the paths of the log, or the paths of the partitions of the topic."""


Source = AnyPath | OpenedLog
"""A path, or a `kafkafmt.Log`, `kafkafmt.Topic` or `kafkafmt.Partition`, which is read from its paths."""
Sources = Source | Iterable[Source]


def listed(sources: Sources, more: Iterable[Source] = ()) -> list[Source]:
    """Return one or several sources, and more of them, as one list."""
    one = isinstance(sources, str | bytes | bytearray | memoryview) or not isinstance(sources, Iterable)
    if one or isinstance(sources, os.PathLike | OpenedLog | io.IOBase):
        return [cast("Source", sources), *more]
    return [*sources, *more]


def resolve(sources: Sources, replicas: str | None = None) -> tuple[list[AnyPath], str | None]:
    """Return the paths of one or several sources as a list, and `replicas` (None: as a given log was opened)."""
    # TypeError: `sources` is empty, or contains anything that is not a source.
    paths: list[AnyPath] = []
    for source in listed(sources):
        if isinstance(source, OpenedLog):
            paths += source._source_paths()
            replicas = source._replicas if replicas is None else replicas
        elif isinstance(source, str | os.PathLike):
            paths.append(source)
        else:
            advice = "; pass the path of the file" if isinstance(source, io.IOBase) else ""
            raise TypeError(
                f"a path must be a str or an os.PathLike, or an open Log, Topic or Partition, not {shown(source)}{advice}"
            )
    if not paths:
        raise TypeError("at least one path is needed")
    return paths, replicas


def single_path(name: str, source: Source) -> AnyPath:
    """Return the path of a source, which must have only one path. `name` is the name of the argument."""
    if not isinstance(source, str | os.PathLike | OpenedLog):
        raise TypeError(f"{name} must be a path, or an open Log, Topic or Partition, not {shown(source)}")
    paths, _ = resolve(source)
    if len(paths) > 1:
        raise ValueError(f"{name} must have a single path, but {shown(source)} has {len(paths)} paths")
    return paths[0]


def matching(path: Location) -> list[Location]:
    """Expand the wildcards `*`, `?` and `[...]` of a path to the sorted paths that match (at least one)."""
    # They do not match slashes. A path that exists literally is returned unchanged.
    if not glob.has_magic(str(path)) or path_exists(path):
        return [path]
    if isinstance(path, UrlPath):
        found: list[Location] = list(_matching_urls(path))
    else:
        found = [type(path)(name) for name in sorted(glob.glob(str(path)))]
    if not found:
        raise FileNotFoundError(errno.ENOENT, "nothing matches the pattern", str(path))
    return found


def _matching_urls(path: UrlPath) -> list[UrlPath]:
    """Return the sorted URLs of all files and directories that match a pattern."""
    root = path
    while root.key:
        root = root.parent
    found, unchecked = [root], False
    for part in path.key.split("/"):
        if not glob.has_magic(part):
            found, unchecked = [folder / part for folder in found], True
            continue
        children = []
        for folder in found:
            try:
                directories, names = list_directory(folder)
            except (FileNotFoundError, NotADirectoryError):
                continue
            hidden = part.startswith(".")
            children += [
                folder / name
                for name in sorted([*directories, *names])
                if fnmatch.fnmatchcase(name, part) and (hidden or not name.startswith("."))
            ]
        found, unchecked = children, False
    return [place for place in found if not unchecked or path_exists(place)]

"""Convert what public functions accept as paths: paths, and an open log, topic or partition."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable

from ...support.text import shown

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


def resolve(sources: Sources, replicas: str | None = None) -> tuple[list[AnyPath], str | None]:
    """Return the paths of one or several sources as a list, and `replicas` (None: as a given log was opened)."""
    # TypeError: `sources` is empty, or contains anything that is not a source.
    one = isinstance(sources, str | bytes | bytearray | memoryview) or not isinstance(sources, Iterable)
    paths: list[AnyPath] = []
    for source in [sources] if one or isinstance(sources, os.PathLike | OpenedLog) else sources:
        if isinstance(source, OpenedLog):
            paths += source._source_paths()
            replicas = source._replicas if replicas is None else replicas
        elif isinstance(source, str | os.PathLike):
            paths.append(source)
        else:
            raise TypeError(
                f"a path must be a str or an os.PathLike, or an open Log, Topic or Partition, not {shown(source)}"
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

"""Check the output path and the topic names before Spark starts."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from ..log import PartitionDir, PartitionLog, SegmentFile
from ..log.repairing import OutputPlaceError
from ..log.storage import open_regular
from ..support.paths import Location, UrlPath, input_path


def check_place(output: Location, inputs: Iterable[str | PathLike[str] | UrlPath]) -> None:
    """Raise OutputPlaceError if replacing `output` could destroy an input or other important files."""
    # `output` must not be inside an input or contain one, nor contain the current or the home
    # directory.
    if isinstance(output, UrlPath):
        for url in (str(p) for p in map(input_path, inputs) if isinstance(p, UrlPath)):
            if f"{output}/".startswith(f"{url}/") or f"{url}/".startswith(f"{output}/"):
                raise OutputPlaceError(str(output), f"is in or contains {url}, which is an input; choose another place")
        return
    places = [input_path(p) for p in inputs]
    for path in dict.fromkeys(p.resolve() for p in places if not isinstance(p, UrlPath)):
        if output == path:
            raise OutputPlaceError(str(output), "is an input; choose another directory")
        if output.is_relative_to(path):
            raise OutputPlaceError(str(output), f"is inside {path}, which is an input; choose another directory")
        if path.is_relative_to(output):
            raise OutputPlaceError(str(output), f"contains {path}, which is an input; choose another directory")
    for directory, name in ((Path.cwd, "current"), (Path.home, "home")):
        try:
            path = directory().resolve()
        except (OSError, RuntimeError):  # The current directory was deleted, or the user has no home directory.
            continue
        if path.is_relative_to(output):
            raise OutputPlaceError(str(output), f"contains the {name} directory; choose another directory")


def check_names(directories: Iterable[PartitionDir]) -> None:
    """Raise an OSError if a topic name is not valid UTF-8, which Parquet and Spark require."""
    for directory in directories:
        try:
            directory.topic.encode()
        except UnicodeEncodeError:
            problem = f"the topic name {directory.topic!a} is not valid UTF-8, so the topic cannot be exported"
            remedy = "rename the directory, or omit it"
            raise OSError(errno.EILSEQ, f"{problem}: {remedy}", str(directory.path)) from None


def check_access(log: PartitionLog, segments: Iterable[SegmentFile]) -> None:
    """Open each segment, so that an error is raised early and not in a task."""
    # A segment that retention has removed is reported and ignored. The size of each segment is
    # stored, so that a task fails if a segment disappears later.
    for segment in segments:
        if isinstance(segment.place, UrlPath):
            continue
        _ = segment.size
        try:
            os.close(open_regular(segment.place)[0])
        except FileNotFoundError:
            log.skip_missing(segment)

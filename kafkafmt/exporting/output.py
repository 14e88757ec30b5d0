"""Define where an export writes its files: the interface of a local directory and of a bucket.

Tasks create files through `AttemptFiles`. The driver keeps the files of the attempts whose results
Spark returned, adds the quarantine and the report, and publishes the output. `_SUCCESS` is written
last. staging.py implements both classes for a local directory, and bucket_output.py for a bucket.
Only these two modules create, move and delete files of the output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType
from typing import Any

from ..paths import Location
from .layout import OutputLayout

PATHS = OutputLayout(PurePath())
"""The paths of an output, relative to its directory."""


@dataclass(frozen=True)
class WrittenFile:
    """A file that a task wrote, and that becomes part of the output.

    Attributes
    ----------
    name : str
        Name that `AttemptFiles.create` returned.
    target : PurePath
        Path in the output, as the layout defines it.
    size : int
        Size that the task reported, in bytes.
    """

    name: str
    target: PurePath
    size: int


class AttemptFiles(ABC):
    """Creates and removes the files of tasks. Spark sends the object to the tasks.

    If a task runs several times, each attempt creates files with other names.
    """

    @abstractmethod
    def create(self, target: PurePath) -> tuple[str, Any]:
        """Create a file for the path `target` of the output.

        Return a unique name of the file, and the file open for writing.
        """

    @abstractmethod
    def discard(self, name: str, file: Any) -> None:
        """Remove a file that is open for writing, or was closed. A missing file is ignored."""


class Output(ABC):
    """Context manager for the output of one export.

    When the context ends, everything that the export has written is removed, unless `publish` has
    completed the output.

    Attributes
    ----------
    target : Path or UrlPath
        Directory of the output.
    overwrite : bool
        Whether an existing output is replaced.
    """

    target: Location
    overwrite: bool

    @property
    @abstractmethod
    def attempts(self) -> AttemptFiles:
        """Where tasks write their files."""

    @abstractmethod
    def check(self) -> None:
        """Raise OutputExistsError if the output exists and `overwrite` is False."""

    @abstractmethod
    def __enter__(self) -> Output:
        """Prepare the output, and remove what killed exports have left."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what was not published."""

    @abstractmethod
    def keep(self, files: Iterable[WrittenFile]) -> None:
        """Make files of tasks part of the output. All other files of tasks are removed.

        No task can write a file afterwards. Raise OSError if a file is missing or has another size.
        """

    @abstractmethod
    def create(self, target: PurePath) -> AbstractContextManager[Any]:
        """Return a context that provides a new file of the output, open for writing."""

    @abstractmethod
    def publish(self, report: str) -> None:
        """Write the report and then `_SUCCESS`, and make the output visible."""

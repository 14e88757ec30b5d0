"""Define the interfaces `AttemptFiles` and `Output`, which an export uses to write its files.

Tasks use `AttemptFiles` to create files. If a task is repeated, several attempts can write files.
The driver keeps only the files of the attempt whose result the engine returned. It then adds the
quarantine and the report, and publishes the output. `_SUCCESS` is written last.

staging.py implements `AttemptFiles` and `Output` for a local directory, and bucket_output.py
implements them for a bucket. No other module creates, moves or deletes files of the output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType
from typing import Any

from ..support.paths import Location
from .layout import OutputLayout

PATHS = OutputLayout(PurePath())
"""Paths of the files of an export, relative to the output directory."""


@dataclass(frozen=True)
class WrittenFile:
    name: str  # the name that `AttemptFiles.create` returned
    target: PurePath  # path in the output directory, as `OutputLayout` defines it
    size: int  # in bytes, as reported by the task


class AttemptFiles(ABC):
    """Creates and removes the files of tasks. Picklable, because Spark sends it to tasks."""

    # If a task runs several times, each attempt creates files with different names.

    @abstractmethod
    def create(self, target: PurePath) -> tuple[str, Any]:
        """Create a file for the path `target` of the output. Return its unique name, and the open file."""

    @abstractmethod
    def discard(self, name: str, file: Any) -> None:
        """Remove a file that `create` returned. Do nothing if the file does not exist."""


class Output(ABC):
    # If the context ends before `publish` has completed the output, all files of the export are
    # removed.

    target: Location
    overwrite: bool

    @property
    @abstractmethod
    def attempts(self) -> AttemptFiles:
        """Object that creates and removes the files of tasks."""

    @abstractmethod
    def check(self) -> None:
        """Raise OutputExistsError if the output exists and `overwrite` is False."""

    @abstractmethod
    def __enter__(self) -> Output:
        """Remove the files of killed exports, and prepare the output."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove all files that were not published."""

    @abstractmethod
    def keep(self, files: Iterable[WrittenFile]) -> None:
        """Add these files to the output, and remove all others of tasks. Tasks can then write no more files."""
        # If a file is missing or does not have the reported size, raise OSError.

    @abstractmethod
    def create(self, target: PurePath) -> AbstractContextManager[Any]:
        """Return a context manager that creates a file of the output and opens it for writing."""

    @abstractmethod
    def publish(self, report: str) -> None:
        """Write the report, and make the complete output available to readers."""

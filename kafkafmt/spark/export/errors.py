"""Errors of an export. This module imports neither pyspark nor pyarrow."""

from __future__ import annotations

from pathlib import Path


class OutputExistsError(ValueError):
    """Raised if the output exists and may not be replaced, or if it was created while the export ran.

    Attributes
    ----------
    output : Path
        The output directory.
    appeared : bool
        True if another process created it while the export ran.
    """

    def __init__(self, output: Path, appeared: bool = False) -> None:
        message = f"{output} already exists; choose another output, or pass overwrite=True to replace it"
        if appeared:
            message = f"{output} was created while the export ran; nothing was replaced"
        super().__init__(message)
        self.output = output
        self.appeared = appeared

    def __reduce__(self) -> tuple[type[OutputExistsError], tuple[Path, bool]]:
        return type(self), (self.output, self.appeared)


class TaskOSError(OSError):
    """Raised for an OSError in a Spark task. The message is one line."""


class SparkError(RuntimeError):
    """Raised if Spark or one of its Python workers fails. The message is one line."""

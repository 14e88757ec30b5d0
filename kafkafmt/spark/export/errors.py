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


class OutputPlaceError(ValueError):
    """Raised if writing or replacing the output would affect an input, or the current or home directory.

    Attributes
    ----------
    output : Path
        The output directory.
    reason : str
        What is wrong with its place, as the predicate of a sentence about the output.
    """

    def __init__(self, output: Path, reason: str) -> None:
        super().__init__(f"output {output} {reason}; choose another directory")
        self.output = output
        self.reason = reason


class TaskOSError(OSError):
    """Raised for an OSError in a Spark task. The message is one line."""


class SparkError(RuntimeError):
    """Raised if Spark or one of its Python workers fails. The message is one line."""

"""Define the errors of an export, without importing pyspark or pyarrow."""

from __future__ import annotations

from ..support.paths import Location

REMEDY = "export to another output, or replace this output (overwrite)"
"""Advice for the user if an output cannot be resumed."""


class OutputExistsError(ValueError):
    """Raised if the output already exists, or if another process creates it during the export.

    Attributes
    ----------
    output : Path or UrlPath
        The output that exists: a directory, a single file, or the report of a single file.
    appeared : bool
        True if another process created the output during the export.
    """

    def __init__(self, output: Location, appeared: bool = False) -> None:
        message = f"{output} already exists; choose another output, or pass overwrite=True to replace it"
        if appeared:
            message = f"another process created {output} during the export; the export did not replace it"
        super().__init__(message)
        self.output = output
        self.appeared = appeared

    def __reduce__(self) -> tuple[type[OutputExistsError], tuple[Location, bool]]:
        return type(self), (self.output, self.appeared)


class ResumeError(ValueError):
    """Raised if an export with `resume` cannot add records to an existing output. The message contains the reason."""


class DecodingError(ValueError):
    """Raised if keys and values cannot be decoded with the given options. The message names the topic."""


class TaskOSError(OSError):
    """Raised if an OSError occurs in a Spark task. The message is a single line."""


class SparkError(RuntimeError):
    """Raised if Spark or one of its Python workers fails. The message is a single line."""

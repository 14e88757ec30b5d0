"""Copy single files of a log directory that salvage does not rebuild."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ...support.paths import Location
from ..storage import DISK_ERRORS, NO_PERMISSION, UNREACHABLE, FileView, create_file

SOURCE_ERRORS = (*DISK_ERRORS, *NO_PERMISSION, *UNREACHABLE, errno.ENOENT)
"""Errors of a single source file. After such an error, the other files are still copied."""


def copy_readable(source: Location, target: Path, mode: int) -> str | None:
    """Copy a file with `copy_file`. If the source cannot be read, create no file and return the reason."""
    try:
        copy_file(source, target, mode)
    except OSError as error:
        if error.errno not in SOURCE_ERRORS or error.filename != str(source):
            raise
        target.unlink(missing_ok=True)
        return error.strerror or str(error)
    return None


def copy_file(source: Location, target: Path, mode: int) -> None:
    """Copy a file into a new file with the permissions `mode`. The new file is not synced."""
    with FileView(source) as view:
        handle = create_file(target, mode)
        try:
            view.transfer(handle, 0, view.size)
        finally:
            os.close(handle)

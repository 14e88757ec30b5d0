"""Report errors of commands that write a new log directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from ..log.repairing import OutputPlaceError
from ..support.text import shown
from .output import EXIT_INTERRUPTED, tell


@contextmanager
def new_directory(output: str, content: str = "data") -> Iterator[None]:
    """Convert errors about the directory `output` to usage errors. After Ctrl-C, print that it has no `content`."""
    target = os.path.abspath(output)
    try:
        yield
    except OutputPlaceError as error:
        raise click.UsageError(str(error)) from None
    except FileExistsError as error:
        if error.filename != target:
            raise
        raise click.UsageError(f"{shown(target)}: {error.strerror}") from None
    except KeyboardInterrupt:
        tell(f"interrupted: {target} contains no {content}")
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None

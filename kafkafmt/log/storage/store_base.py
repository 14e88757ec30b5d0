"""Define the interface for files that are given by URLs, and convert errors of libraries to OSError."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...support.paths import UrlError, UrlPath, without_secrets
from ...types import Buffer


class SchemeError(UrlError):
    """Raised if no installed package can read URLs with a given scheme, such as `hdfs`."""


@dataclass(frozen=True, slots=True)
class Status:
    """The size, version and modification time of a file."""

    size: int
    version: str = ""  # changes when the content changes; empty if the store provides no such value
    modified: int | None = None  # in ns since 1970; None if unknown


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The content and version of a small file that was read with one request."""

    content: bytes
    version: Mapping[str, str]  # in the form that `Store.put` accepts
    modified: int  # in ns since 1970, by the clock of the server


class Upload(ABC):
    """A new file that is open for writing. `close` makes the file visible, and `abort` discards it."""

    closed: bool = False

    @abstractmethod
    def write(self, data: Buffer) -> int:
        """Append bytes to the file, and return the number of bytes."""

    @abstractmethod
    def tell(self) -> int:
        """Return the number of bytes that have been written."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file. It then becomes visible to readers. A second call has no effect."""

    @abstractmethod
    def abort(self) -> None:
        """Discard the file, unless it is already closed."""

    def flush(self) -> None:
        """Do nothing: file objects need this method, but `write` already sends all complete parts of an upload."""
        return


class Store(ABC):
    """Base class for access to all files with the same root URL. Several threads may share a store."""

    # A missing file raises FileNotFoundError. Any other problem raises an OSError that names the URL.

    @abstractmethod
    def list_directory(self, path: UrlPath) -> tuple[list[str], dict[str, int]]:
        """Return the subdirectory names of a directory, and its file sizes by name. All pages are read."""

    @abstractmethod
    def status(self, path: UrlPath) -> Status:
        """Return the size and the version of a file."""

    @abstractmethod
    def read(self, path: UrlPath, start: int, end: int, version: str) -> Buffer:
        """Return the bytes [start, end) of a file. The range must be inside the file and not empty."""
        # OSError (ESTALE): the file no longer has this version, if the store can check it.

    def check_writable(self, path: UrlPath) -> None:
        """Raise SchemeError unless the store supports writing and conditional requests."""
        raise SchemeError(f"{path}: output can be written only to local files and to s3://, gs:// and az:// URLs")

    def load(self, path: UrlPath) -> StoredFile:
        """Read a small file. Return its content, its version and its modification time."""
        raise SchemeError(f"{path}: output can be written only to local files and to s3://, gs:// and az:// URLs")

    def put(
        self, path: UrlPath, content: bytes, create: bool = False, replaces: Mapping[str, str] | None = None
    ) -> Mapping[str, str]:
        """Write a small file, and return its new version."""
        # FileExistsError: `create` is True and the file exists, or the file does not have the version `replaces`. Only
        # one of several callers succeeds. The error can also occur after a successful request: if its response is lost,
        # the library repeats the request.
        raise SchemeError(f"{path}: output can be written only to local files and to s3://, gs:// and az:// URLs")

    def open_writer(self, path: UrlPath) -> Upload:
        """Return a new file that is open for writing. Readers see the file only after it is closed."""
        raise SchemeError(f"{path}: output can be written only to local files and to s3://, gs:// and az:// URLs")

    def delete(self, paths: Sequence[UrlPath]) -> None:
        """Delete files. Missing files are ignored."""
        for path in paths:
            self.check_writable(path)

    def list_all(self, path: UrlPath) -> dict[UrlPath, int]:
        """Return all files below a directory, at any depth, with their sizes in bytes."""
        raise SchemeError(
            f"{path}: listing all files below a directory is supported only for s3://, gs:// and az:// URLs"
        )

    def begin(self, path: UrlPath, size: int) -> tuple[Status, Buffer]:
        """Return the status of a file, and also its first bytes (at most `size`) if one request can fetch both."""
        return self.status(path), b""


def first_line(error: BaseException) -> str:
    """Return the first line of an error message. If the message is empty, return the name of the error's class."""
    return without_secrets((str(error).strip() or type(error).__name__).splitlines()[0])


@contextmanager
def errors_of(path: UrlPath) -> Iterator[None]:
    """Convert errors that a library raises in the `with` block to OSError."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    except OSError as error:
        if error.filename is not None and error.errno is not None:
            raise
        raise OSError(error.errno or errno.EIO, error.strerror or first_line(error), str(path)) from error
    except Exception as error:
        code = errno.EACCES if "Denied" in type(error).__name__ or "Unauth" in type(error).__name__ else errno.EIO
        raise OSError(code, first_line(error), str(path)) from error


def nanoseconds(time: Any) -> int | None:
    """Convert a datetime, or a number of seconds since 1970, to ns since 1970. Return None for other values."""
    if isinstance(time, datetime):
        time = time.timestamp()
    return int(time * 1_000_000_000) if isinstance(time, int | float) else None

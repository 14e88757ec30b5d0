"""Read and list files that are not local, through obstore or fsspec.

obstore serves the object stores (S3, Google Cloud Storage, Azure). fsspec serves every other scheme
for which it has an implementation, such as hdfs, sftp, zip and memory. Both are imported here only.
Credentials, endpoints and retries are those of the libraries, which read the environment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ...extras import install_line
from ...paths import UrlError, UrlPath
from ...types import Buffer

OBJECT_STORES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **{scheme: scheme for scheme in ("az", "azure", "adl", "abfs", "abfss")},
}
"""The schemes that obstore serves, with the name by which it knows them."""


class SchemeError(UrlError):
    """Raised if no installed package can read URLs with a scheme. The message is one line."""


@dataclass(frozen=True, slots=True)
class Status:
    """What a store knows about a file.

    Attributes
    ----------
    size : int
        Size, in bytes.
    version : str
        A value that changes if the content changes. Empty if the store has no such value.
    modified : int or None
        Time of the last modification, in ns since 1970. None if it is not known.
    """

    size: int
    version: str = ""
    modified: int | None = None


class Store(ABC):
    """Access to the files below the root of a URL. Several threads may use a store.

    A missing file raises FileNotFoundError. Any other problem raises an OSError that names the URL.
    """

    @abstractmethod
    def list_directory(self, path: UrlPath) -> tuple[list[str], dict[str, int]]:
        """Return the names of the subdirectories of a directory, and its files with their sizes in bytes.

        Libraries list by pages. A directory without files counts as missing.
        """

    @abstractmethod
    def status(self, path: UrlPath) -> Status:
        """Return the size and the version of a file."""

    @abstractmethod
    def read(self, path: UrlPath, start: int, end: int, version: str) -> Buffer:
        """Return the bytes [start, end) of a file. The range is not empty, and the file contains it.

        If the file has changed since it had this version, raise OSError with ESTALE, as far as the
        library can detect it.
        """

    def check_writable(self, path: UrlPath) -> None:
        """Raise SchemeError unless files can be written, and created by conditional requests."""
        raise SchemeError(f"{path}: output can be written to local files, s3://, gs:// and az:// only")

    def put(self, path: UrlPath, content: bytes | Path, create: bool = False) -> None:
        """Write a file whose content is given, or is that of a local file.

        If `create` is True and the file exists, raise FileExistsError. Of several callers, one
        succeeds.
        """
        self.check_writable(path)

    def delete(self, paths: Sequence[UrlPath]) -> None:
        """Delete files. Missing files are ignored."""
        for path in paths:
            self.check_writable(path)

    def list_all(self, path: UrlPath) -> Sequence[UrlPath]:
        """Return all files below a directory, in any depth."""
        raise SchemeError(f"{path}: the files below a URL can be listed on object stores only")

    def begin(self, path: UrlPath, size: int) -> tuple[Status, Buffer]:
        """Return the status of a file and, if this takes no further request, its first `size` bytes."""
        return self.status(path), b""


_MADE: dict[tuple[int, str], Store] = {}
_LOCK = threading.Lock()
_OTHERS: dict[str, Callable[[UrlPath], Store]] = {}


def register(scheme: str, make: Callable[[UrlPath], Store]) -> None:
    """Serve the URLs with a scheme by another store. The function gets a URL and returns its store."""
    _OTHERS[scheme] = make


def store_of(path: UrlPath) -> Store:
    """Return the store that serves a URL. The stores of a process are kept.

    Raise SchemeError if no package can read the scheme, or if the package is not installed.
    """
    key = os.getpid(), path.root + path.chain  # a store does not work in a forked process
    with _LOCK:
        if key not in _MADE:
            make = _OTHERS.get(path.scheme) or (_object_store if path.scheme in OBJECT_STORES else _file_system)
            _MADE[key] = make(path)
        return _MADE[key]


def _object_store(path: UrlPath) -> Store:
    try:
        import obstore.store
    except ModuleNotFoundError:
        raise SchemeError(f"{path}: URLs with {path.scheme}:// need obstore; {install_line('cloud')}") from None
    scheme, _, rest = path.root.partition("://")
    try:
        return ObjectStore(obstore.store.from_url(f"{OBJECT_STORES[scheme]}://{rest}"))
    except Exception as error:  # obstore has no common base class for its errors
        raise SchemeError(f"{path}: {_first_line(error)}") from None


def _file_system(path: UrlPath) -> Store:
    try:
        import fsspec
    except ModuleNotFoundError:
        raise SchemeError(f"{path}: URLs with {path.scheme}:// need fsspec; {install_line('cloud')}") from None
    try:
        fsspec.get_filesystem_class(path.scheme)
        return FileSystem(fsspec.core.url_to_fs(str(path))[0])
    except ImportError as error:
        raise SchemeError(f"{path}: {_first_line(error)}") from None
    except ValueError as error:
        known = "s3, gs, az, abfss, file, and the schemes of fsspec"
        raise SchemeError(f"{path}: {_first_line(error)}; the known schemes are {known}") from None
    except OSError:
        raise
    except Exception as error:  # each file system raises its own error classes
        raise OSError(errno.EIO, _first_line(error), str(path)) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def _errors_of(path: UrlPath) -> Iterator[None]:
    """Convert the errors of a library to OSError."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    except OSError as error:
        if error.filename is not None and error.errno is not None:
            raise
        raise OSError(error.errno or errno.EIO, error.strerror or _first_line(error), str(path)) from error
    except Exception as error:
        code = errno.EACCES if "Denied" in type(error).__name__ or "Unauth" in type(error).__name__ else errno.EIO
        raise OSError(code, _first_line(error), str(path)) from error


class ObjectStore(Store):
    """Serves a bucket or container by obstore, which retries failed requests."""

    def __init__(self, store: Any) -> None:
        import obstore

        self._store, self._obstore = store, obstore

    def list_directory(self, path: UrlPath) -> tuple[list[str], dict[str, int]]:
        """Return the names of the subdirectories of a directory, and its files with their sizes in bytes."""
        with _errors_of(path):
            found = self._obstore.list_with_delimiter(self._store, f"{path.key}/" if path.key else None)
        folders = sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])
        sizes = {o["path"].rpartition("/")[2]: o["size"] for o in found["objects"] if o["path"] != path.key}
        if not folders and not sizes:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return folders, sizes

    def status(self, path: UrlPath) -> Status:
        """Return the size and the version of an object."""
        with _errors_of(path):
            found = self._obstore.head(self._store, path.key)
        return _object_status(found)

    def read(self, path: UrlPath, start: int, end: int, version: str) -> Buffer:
        """Return the bytes [start, end) of an object."""
        options: Any = {"range": (start, end)}
        if version:
            options["if_match"] = version
        try:
            with _errors_of(path):
                data: Buffer = self._obstore.get(self._store, path.key, options=options).bytes()
                return data
        except OSError as error:
            if isinstance(error.__cause__, self._obstore.exceptions.PreconditionError):
                raise OSError(errno.ESTALE, "the object was replaced while it was read", str(path)) from None
            raise

    def begin(self, path: UrlPath, size: int) -> tuple[Status, Buffer]:
        """Return the status of an object, and its first `size` bytes, by one request."""
        try:
            with _errors_of(path):
                found = self._obstore.get(self._store, path.key, options={"range": (0, size)})
                return _object_status(found.meta), found.bytes()
        except FileNotFoundError:
            raise
        except OSError:  # an empty object has no range
            status = self.status(path)
            if status.size:
                raise
            return status, b""

    def check_writable(self, path: UrlPath) -> None:
        """Do nothing, since all object stores have conditional requests."""

    def put(self, path: UrlPath, content: bytes | Path, create: bool = False) -> None:
        """Write an object whose content is given, or is that of a local file."""
        failures = self._obstore.exceptions.AlreadyExistsError, self._obstore.exceptions.PreconditionError
        try:
            with _errors_of(path):
                self._obstore.put(self._store, path.key, content, mode="create" if create else "overwrite")
        except OSError as error:
            if create and (isinstance(error, FileExistsError) or isinstance(error.__cause__, failures)):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            raise

    def delete(self, paths: Sequence[UrlPath]) -> None:
        """Delete objects. Missing objects are ignored."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError), _errors_of(path):
                self._obstore.delete(self._store, path.key)

    def list_all(self, path: UrlPath) -> Sequence[UrlPath]:
        """Return all objects below a directory, in any depth."""
        with _errors_of(path):
            pages = list(self._obstore.list(self._store, prefix=f"{path.key}/" if path.key else None))
        root = path
        while root.key:
            root = root.parent
        return [root / found["path"] for page in pages for found in page]


def _object_status(meta: Any) -> Status:
    return Status(meta["size"], meta["e_tag"] or "", _nanoseconds(meta["last_modified"]))


def _nanoseconds(time: Any) -> int | None:
    """Return a time of a library, which is a datetime or a number of seconds, in ns since 1970."""
    if isinstance(time, datetime):
        time = time.timestamp()
    return int(time * 1_000_000_000) if isinstance(time, int | float) else None


class FileSystem(Store):
    """Serves the files of an fsspec file system."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        # A file system that is not asynchronous keeps state, such as a connection or an open archive.
        self._lock = threading.Lock() if not getattr(fs, "async_impl", False) else None

    def _name(self, path: UrlPath) -> str:
        return str(
            self._fs._strip_protocol(f"{path.root}/{path.key}" if path.root[-1] != "/" else path.root + path.key)
        )

    @contextmanager
    def _alone(self, path: UrlPath) -> Iterator[None]:
        with _errors_of(path):
            if self._lock is None:
                yield
            else:
                with self._lock:
                    yield

    def list_directory(self, path: UrlPath) -> tuple[list[str], dict[str, int]]:
        """Return the names of the subdirectories of a directory, and its files with their sizes in bytes."""
        with self._alone(path):
            self._fs.invalidate_cache()
            entries = self._fs.ls(self._name(path), detail=True)
        named = [(e["name"].rstrip("/").rpartition("/")[2], e) for e in entries]
        folders = sorted(name for name, e in named if e["type"] == "directory")
        sizes = {name: int(e["size"] or 0) for name, e in named if e["type"] == "file"}
        return folders, sizes

    def status(self, path: UrlPath) -> Status:
        """Return the size and the version of a file."""
        with self._alone(path):
            found = self._fs.info(self._name(path))
            if found["type"] == "directory":
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            version = next((str(found[k]) for k in ("ETag", "etag", "mtime", "modificationTime") if found.get(k)), "")
            times = (found.get(k) for k in ("LastModified", "last_modified", "mtime", "created"))
            return Status(int(found["size"]), version, next(filter(None, map(_nanoseconds, times)), None))

    def read(self, path: UrlPath, start: int, end: int, version: str) -> Buffer:
        """Return the bytes [start, end) of a file. Its version is not checked."""
        with self._alone(path):
            data: bytes = self._fs.cat_file(self._name(path), start=start, end=end)
            return data

"""Choose the client library for a URL (obstore or fsspec), and implement access to files through fsspec.

Object stores (S3, Google Cloud Storage, Azure) are accessed through obstore, in object_store.py, and
archives in archive_store.py. Other schemes, such as hdfs and sftp, are accessed through fsspec. Only this module imports
fsspec. Both libraries read credentials, endpoints and retry settings from the environment.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...support.extras import install_line
from ...support.paths import UrlPath
from ...types import Buffer
from .archive_store import ArchiveStore
from .bucket_credentials import check_credentials
from .process import ForkSafeLock, WrongProcessError
from .store_base import SchemeError, Status, Store, errors_of, first_line, nanoseconds

OBJECT_STORES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **{scheme: scheme for scheme in ("az", "azure", "adl", "abfs", "abfss")},
}
"""URL schemes that are accessed through obstore. Each value is the name that obstore uses for the scheme."""

ARCHIVES = ("zip", "tar")  # URL schemes for directories in an archive. The second URL of a URL chain names the archive.


MOST_STORES = 64
"""Largest number of stores that a process keeps. An archive keeps its file open and its list of members in memory."""
_MADE: OrderedDict[tuple[int, str], Store] = OrderedDict()
_LOCK = ForkSafeLock()
_OTHERS: dict[str, Callable[[UrlPath], Store]] = {}


def register(scheme: str, make: Callable[[UrlPath], Store]) -> None:
    """Register a function that creates the store for a URL with the given scheme."""
    _OTHERS[scheme] = make


def store_of(path: UrlPath) -> Store:
    """Return the store for a URL. A process keeps the stores of the root URLs that it used last."""
    # SchemeError: no installed package can read it. WrongProcessError: the process of an object store was forked.
    # After a fork, the child process cannot use the network connections of its parent process.
    key = os.getpid(), path.root + path.chain
    with _LOCK:
        store = _MADE.pop(key, None)
        if store is None:
            store = _maker(path.scheme)(path)
            while len(_MADE) >= MOST_STORES:
                _MADE.popitem(last=False)
        _MADE[key] = store
        return store


def _maker(scheme: str) -> Callable[[UrlPath], Store]:
    """Return the function that creates a store for URLs with the given scheme."""
    if scheme in ARCHIVES:
        return _archive
    return _OTHERS.get(scheme) or (_object_store if scheme in OBJECT_STORES else _file_system)


def _archive(path: UrlPath) -> Store:
    if not path.chain:
        raise SchemeError(
            f"{path}: the URL names no archive; write {path.scheme}://DIRECTORY::URL with the URL of the archive"
        )
    return ArchiveStore(path, store_of)


def _object_store(path: UrlPath) -> Store:
    try:
        from .object_store import ObjectStore
    except ModuleNotFoundError:
        raise SchemeError(f"{path}: URLs with {path.scheme}:// need obstore; {install_line('cloud')}") from None
    _check_obstore_process(path)
    scheme, _, rest = path.root.partition("://")
    check_credentials(path, OBJECT_STORES[scheme])
    try:
        return ObjectStore.at(f"{OBJECT_STORES[scheme]}://{rest}")
    except Exception as error:  # obstore has no common base class for its errors
        raise SchemeError(f"{path}: {first_line(error)}") from None


def _check_obstore_process(path: UrlPath) -> None:
    """Raise WrongProcessError if this process inherited obstore's event loop through a fork."""
    # The loop does not run in the forked process. Each request would block forever there, and could crash the parent
    # process, because both processes share one epoll instance (tokio issue 4301).
    process = os.getpid()
    for owner, root in _MADE:
        if owner != process and root.partition("://")[0] in OBJECT_STORES:
            raise WrongProcessError(
                f"{path}: process {process} was forked after process {owner} had used an object store, and obstore "
                "does not support this; start the process with the method 'spawn' or 'forkserver' of multiprocessing"
            )


def _file_system(path: UrlPath) -> Store:
    try:
        import fsspec
    except ModuleNotFoundError:
        raise SchemeError(f"{path}: URLs with {path.scheme}:// need fsspec; {install_line('cloud')}") from None
    try:
        fsspec.get_filesystem_class(path.scheme)
        return FileSystem(fsspec.core.url_to_fs(path.url, skip_instance_cache=True)[0])
    except ImportError as error:
        raise SchemeError(f"{path}: {first_line(error)}") from None
    except ValueError as error:
        known = "s3, gs, az, abfss, file, and the schemes of fsspec"
        raise SchemeError(f"{path}: {first_line(error)}; the known schemes are {known}") from None
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno or errno.EIO, error.strerror or first_line(error), str(path)) from error
    except Exception as error:  # each file system raises its own error classes
        if settings := _missing_settings(error):
            variables = " and ".join(f"FSSPEC_{path.scheme.upper()}_{name.upper()}" for name in settings)
            raise SchemeError(
                f"{path}: fsspec needs settings for {path.scheme}://; set {variables} in the environment"
            ) from None
        raise OSError(errno.EIO, first_line(error), str(path)) from error


def _missing_settings(error: Exception) -> list[str]:
    """Return the names of required arguments that a call lacked, or an empty list for other errors."""
    missing = isinstance(error, TypeError) and re.search(r"missing \d+ required .*arguments?: (.*)", str(error))
    return re.findall(r"'(\w+)'", missing[1]) if missing else []


class FileSystem(Store):
    def __init__(self, fs: Any) -> None:
        self._fs = fs
        # A synchronous file system may have only one connection, so only one thread at a time may use it.
        self._lock = threading.Lock() if not getattr(fs, "async_impl", False) else None

    def _name(self, path: UrlPath) -> str:
        return str(
            self._fs._strip_protocol(f"{path.root}/{path.key}" if path.root[-1] != "/" else path.root + path.key)
        )

    @contextmanager
    def _alone(self, path: UrlPath) -> Iterator[None]:
        with errors_of(path):
            if self._lock is None:
                yield
            else:
                with self._lock:
                    yield

    def list_directory(self, path: UrlPath) -> tuple[list[str], dict[str, int]]:
        """Return the subdirectory names of a directory, and a dict that maps its file names to sizes in bytes."""
        with self._alone(path):
            self._fs.invalidate_cache()
            entries = self._fs.ls(self._name(path), detail=True)
        named = [(e["name"].rstrip("/").rpartition("/")[2], e) for e in entries]
        folders = sorted(name for name, e in named if e["type"] == "directory")
        sizes = {name: int(e["size"] or 0) for name, e in named if e["type"] == "file"}
        return folders, sizes

    def status(self, path: UrlPath) -> Status:
        with self._alone(path):
            found = self._fs.info(self._name(path))
            if found["type"] == "directory":
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            version = next((str(found[k]) for k in ("ETag", "etag", "mtime", "modificationTime") if found.get(k)), "")
            times = (found.get(k) for k in ("LastModified", "last_modified", "mtime", "created"))
            return Status(int(found["size"]), version, next(filter(None, map(nanoseconds, times)), None))

    def read(self, path: UrlPath, start: int, end: int, version: str) -> Buffer:
        """Return the bytes [start, end) of a file. The version of the file is not checked."""
        with self._alone(path):
            data: bytes = self._fs.cat_file(self._name(path), start=start, end=end)
            return data

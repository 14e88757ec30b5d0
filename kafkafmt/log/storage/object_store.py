"""Access object stores (S3, Google Cloud Storage, Azure) through the package obstore. Only this module imports it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from typing import Any

import obstore
import obstore.exceptions
import obstore.store

from ...support.paths import UrlPath
from ...types import Buffer, byte_view
from .store_base import Status, Store, StoredFile, Upload, errors_of, nanoseconds

PART_BYTES = 5 << 20  # Part of a multipart upload. S3 accepts no smaller and at most 10,000 parts: 52 GB.
PARTS_AT_ONCE = 4  # largest number of parts of one upload that are sent in parallel


class ObjectStore(Store):
    """Store for the objects in a bucket or container. obstore repeats failed requests."""

    def __init__(self, store: Any) -> None:
        self._store = store

    @classmethod
    def at(cls, url: str) -> ObjectStore:
        return cls(obstore.store.from_url(url))

    def list_directory(self, path: UrlPath) -> tuple[list[str], dict[str, int]]:
        """Return the subdirectory names of a directory, and a dict that maps its file names to sizes in bytes."""
        with errors_of(path):
            found = obstore.list_with_delimiter(self._store, f"{path.key}/" if path.key else None)
        folders = sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])
        sizes = {o["path"].rpartition("/")[2]: o["size"] for o in found["objects"] if o["path"] != path.key}
        if not folders and not sizes:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return folders, sizes

    def status(self, path: UrlPath) -> Status:
        with errors_of(path):
            found = obstore.head(self._store, path.key)
        return _object_status(found)

    def read(self, path: UrlPath, start: int, end: int, version: str) -> Buffer:
        options: Any = {"range": (start, end)}
        if version:
            options["if_match"] = version
        try:
            with errors_of(path):
                data: Buffer = obstore.get(self._store, path.key, options=options).bytes()
                return data
        except OSError as error:
            if isinstance(error.__cause__, obstore.exceptions.PreconditionError):
                raise OSError(errno.ESTALE, "the object was replaced while it was read", str(path)) from None
            raise

    def begin(self, path: UrlPath, size: int) -> tuple[Status, Buffer]:
        """Return the status and the first `size` bytes of an object, with one request."""
        try:
            with errors_of(path):
                found = obstore.get(self._store, path.key, options={"range": (0, size)})
                return _object_status(found.meta), found.bytes()
        except FileNotFoundError:
            raise
        except OSError:  # obstore cannot request a range of an empty object
            status = self.status(path)
            if status.size:
                raise
            return status, b""

    def check_writable(self, path: UrlPath) -> None:
        """Do nothing, because every object store supports writing and conditional requests."""

    def load(self, path: UrlPath) -> StoredFile:
        """Read a small object. Return its content, its version and its modification time."""
        with errors_of(path):
            found = obstore.get(self._store, path.key)
            return StoredFile(bytes(found.bytes()), _version(found.meta), nanoseconds(found.meta["last_modified"]) or 0)

    def put(
        self, path: UrlPath, content: bytes, create: bool = False, replaces: Mapping[str, str] | None = None
    ) -> Mapping[str, str]:
        mode: Any = "create" if create else "overwrite" if replaces is None else dict(replaces)
        conflicts = obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError
        try:
            with errors_of(path):
                return _version(obstore.put(self._store, path.key, content, mode=mode))
        except OSError as error:
            if isinstance(error, FileExistsError) or isinstance(error.__cause__, conflicts):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            raise

    def open_writer(self, path: UrlPath) -> ObjectUpload:
        """Begin the upload of a new object, and return a file object for writing its content."""
        return ObjectUpload(self._store, path)

    def delete(self, paths: Sequence[UrlPath]) -> None:
        """Delete objects, with bulk requests if the store supports them. Missing objects are ignored."""
        if not paths:
            return
        try:
            with errors_of(paths[0].parent):
                obstore.delete(self._store, [path.key for path in paths])
        except FileNotFoundError:  # some stores report a missing object as an error
            for path in paths:
                with contextlib.suppress(FileNotFoundError), errors_of(path):
                    obstore.delete(self._store, path.key)

    def list_all(self, path: UrlPath) -> dict[UrlPath, int]:
        """Return all objects below a directory, at any depth, with their sizes in bytes."""
        with errors_of(path):
            pages = list(obstore.list(self._store, prefix=f"{path.key}/" if path.key else None))
        root = path
        while root.key:
            root = root.parent
        return {root / found["path"]: found["size"] for page in pages for found in page}


class ObjectUpload(Upload):
    """An upload of one object. A large object is sent in several parts, some of them in parallel."""

    # Up to `PARTS_AT_ONCE` parts are held in memory.

    closed: bool = False

    def __init__(self, store: Any, path: UrlPath) -> None:
        self._path = path
        self._size = 0
        with errors_of(path):
            self._file = obstore.open_writer(store, path.key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)

    def write(self, data: Buffer) -> int:
        view = byte_view(data)
        with errors_of(self._path):
            self._file.write(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        return self._size

    def close(self) -> None:
        """Complete the upload. The object then becomes visible to readers. A second call has no effect."""
        if not self.closed:
            self.closed = True
            with errors_of(self._path):
                self._file.close()

    def abort(self) -> None:
        """Discard the written bytes, unless the upload is already complete."""
        if not self.closed:
            self.closed = True
            error = InterruptedError("the upload was discarded")
            with errors_of(self._path):
                self._file.__exit__(type(error), error, None)  # an error makes __exit__ discard the upload


def _version(found: Any) -> dict[str, str]:
    """Return the identifiers of an object's version, to which later requests can be limited."""
    # For S3 and Azure, the version is an ETag. For Google Cloud Storage, it is a number.
    return {name: found[name] for name in ("e_tag", "version") if found[name] is not None}


def _object_status(meta: Any) -> Status:
    return Status(meta["size"], meta["e_tag"] or "", nanoseconds(meta["last_modified"]))

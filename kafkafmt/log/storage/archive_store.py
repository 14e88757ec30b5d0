"""Read the files in tar and zip archives. The list of members is read once, and again if the archive has changed."""

from __future__ import annotations

import errno
import io
import os
import shutil
import struct
import tarfile
import tempfile
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from ...support.paths import FULL_DISK, Location, TemporaryFilesError, UrlPath, input_path
from ...support.text import shown
from ...types import Buffer, byte_view
from .store_base import Status, Store, errors_of

_UNPACKED = 4  # number of decompressed members of a zip archive that are kept
_LENGTHS_AT, _LENGTHS = 26, struct.Struct("<HH")
"""Position and layout of the lengths of the name and of the extra fields in the header before a member of a zip archive."""
_ENCRYPTED = 1
_LINKS = 40  # largest number of links that are followed from one member
_STEP = 1 << 20


@dataclass
class _Directory:
    """The names in one directory of an archive."""

    folders: set[str] = field(default_factory=set)
    files: dict[str, int] = field(default_factory=dict)  # sizes of the files in bytes, by name


class ArchiveStore(Store):
    """Store for the members of one archive, which is a local file or a file in another store."""

    def __init__(self, root: UrlPath, store_of: Callable[[UrlPath], Store]) -> None:
        self._store_of = store_of
        self._kind = root.scheme
        self._archive: Location = input_path(root.chain.removeprefix("::"))
        self._lock = threading.RLock()
        self._stamp: tuple[object, ...] | None = None
        self._opened: _Tar | _Zip | None = None

    @contextmanager
    def _members(self, path: UrlPath, check: bool) -> Iterator[_Tar | _Zip]:
        """Lock the archive, and read its list of members if the archive is new or has changed."""
        # A changed file in another store is noticed only if `check` is True, because that needs a request.
        with errors_of(path), self._lock:
            if self._opened is None or check or not isinstance(self._archive, UrlPath):
                stamp = self._current_stamp()
                if self._opened is None or stamp != self._stamp:
                    file = self._open()
                    self._opened = (_Tar if self._kind == "tar" else _Zip)(file, path)
                    self._stamp = stamp
            yield self._opened

    def _current_stamp(self) -> tuple[object, ...]:
        """Return a tuple that differs after the archive was changed or replaced."""
        if isinstance(self._archive, UrlPath):
            found = self._store_of(self._archive).status(self._archive)
            return found.version, found.size
        status = os.stat(self._archive)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _open(self) -> IO[bytes]:
        if isinstance(self._archive, UrlPath):
            return io.BufferedReader(_StoreFile(self._archive, self._store_of(self._archive)), _STEP)
        return open(self._archive, "rb")

    def list_directory(self, path: UrlPath) -> tuple[list[str], dict[str, int]]:
        """Return the subdirectory names of a directory, and a dict that maps its file names to sizes in bytes."""
        with self._members(path, check=not path.key) as members:
            found = members.directories.get(path.key)
            if found is None:
                code = errno.ENOTDIR if members.size_of(path.key) is not None else errno.ENOENT
                raise OSError(code, os.strerror(code), str(path))
            return sorted(found.folders), dict(found.files)

    def status(self, path: UrlPath) -> Status:
        with self._members(path, check=False) as members:
            size = members.size_of(path.key)
            if size is None:
                code = errno.EISDIR if path.key in members.directories else errno.ENOENT
                raise OSError(code, os.strerror(code), str(path))
            return Status(size, repr(self._stamp), members.modified_of(path.key))

    def read(self, path: UrlPath, start: int, end: int, version: str) -> Buffer:
        """Return the bytes [start, end) of a file. Raise OSError with errno ESTALE if the archive has changed."""
        with self._members(path, check=False) as members:
            if version and version != repr(self._stamp):
                raise OSError(errno.ESTALE, "the archive changed while it was read", str(path))
            data = members.read(path.key, start, end)
            if len(data) < end - start:
                raise OSError(errno.EIO, "the archive ends inside this file", str(path))
            return data


class _Archive:
    """Base class of open archives. It contains the list of members by directory."""

    def __init__(self) -> None:
        self.directories: dict[str, _Directory] = {"": _Directory()}

    def _add(self, name: str, size: int | None) -> str | None:
        """Add a member (size None: a directory). Return its normalized name, or None if it leads out of the archive."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or (size is not None and not parts):
            return None
        for depth in range(len(parts) - (size is not None), 0, -1):
            folder = "/".join(parts[:depth])
            known = folder in self.directories
            self.directories.setdefault(folder, _Directory())
            self.directories.setdefault("/".join(parts[: depth - 1]), _Directory()).folders.add(parts[depth - 1])
            if known:
                break
        if size is not None:
            self.directories["/".join(parts[:-1])].files[parts[-1]] = size
        return "/".join(parts)

    def size_of(self, key: str) -> int | None:
        """Return the size of a file in bytes, or None if there is no such file."""
        folder, _, name = key.rpartition("/")
        directory = self.directories.get(folder)
        return None if directory is None else directory.files.get(name)


class _Tar(_Archive):
    """An open tar archive. Links are followed inside the archive. A compressed archive is decompressed once."""

    def __init__(self, file: IO[bytes], path: UrlPath) -> None:
        super().__init__()
        try:
            self._tar = tarfile.open(fileobj=file, errorlevel=2)
        except tarfile.ReadError:
            raise OSError(errno.EINVAL, "the file is not a tar archive", str(path)) from None
        if self._tar.fileobj is not file:
            assert self._tar.fileobj is not None
            self._tar.fileobj.seek(0)
            file = _unpacked(self._tar.fileobj)
            self._tar = tarfile.open(fileobj=file, errorlevel=2)
        self._file = file
        self._members: dict[str, tarfile.TarInfo] = {}
        for member in self._tar:
            if member.size < 0:
                raise OSError(
                    errno.EIO, f"the archive is damaged: {shown(member.name)} has the size {member.size}", str(path)
                )
            key = self._add(member.name, None if member.isdir() else member.size)
            if key and not member.isdir():
                self._members[key] = member  # as `tar` does, use the last member with a name
        for key in self._members:
            folder, _, name = key.rpartition("/")
            target = self._target(key)
            # A device, a pipe or a broken link gets a size, so that it is not skipped as an empty segment.
            self.directories[folder].files[name] = target.size if target.isreg() else 1

    def _target(self, key: str) -> tarfile.TarInfo:
        """Return the member itself, or the member to which a link leads."""
        member = self._members[key]
        for _ in range(_LINKS):
            if member.issym():
                folder = key.rpartition("/")[0]
                key = os.path.normpath(os.path.join(folder, member.linkname))
            elif member.islnk():
                key = os.path.normpath(member.linkname)
            else:
                break
            if key not in self._members:
                break
            member = self._members[key]
        return member

    def modified_of(self, key: str) -> int | None:
        return int(self._target(key).mtime * 1_000_000_000)

    def read(self, key: str, start: int, end: int) -> bytes:
        member = self._target(key)
        if not member.isreg() or member.issparse():
            source = self._tar.extractfile(member) if member.isreg() else None
            if source is None:
                raise OSError(errno.EINVAL, "this member of the archive is a broken link, a device or a pipe")
            source.seek(start)
            return source.read(end - start)
        self._file.seek(member.offset_data + start)
        return self._file.read(end - start)


class _Zip(_Archive):
    """An open zip archive. A compressed member is decompressed once, into a temporary file."""

    def __init__(self, file: IO[bytes], path: UrlPath) -> None:
        super().__init__()
        self._file = file
        self._zip = zipfile.ZipFile(file)
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._unpacked: OrderedDict[str, IO[bytes]] = OrderedDict()
        for member in self._zip.infolist():
            key = self._add(member.filename, None if member.is_dir() else member.file_size)
            if key and not member.is_dir():
                self._members[key] = member

    def modified_of(self, key: str) -> int | None:
        """Return None, because the times in a zip archive have no time zone."""
        return None

    def read(self, key: str, start: int, end: int) -> bytes:
        member = self._members[key]
        if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & _ENCRYPTED:
            self._file.seek(member.header_offset + _LENGTHS_AT)
            name, extra = _LENGTHS.unpack(self._file.read(_LENGTHS.size))
            self._file.seek(name + extra + start, os.SEEK_CUR)
            return self._file.read(end - start)
        source = self._unpacked.pop(key, None)
        if source is None:
            with self._zip.open(member) as packed:
                source = _unpacked(packed)
        self._unpacked[key] = source
        while len(self._unpacked) > _UNPACKED:
            self._unpacked.popitem(last=False)[1].close()
        source.seek(start)
        return source.read(end - start)


def _unpacked(source: Any) -> IO[bytes]:
    """Copy a decompressed stream into a temporary file."""
    target = tempfile.TemporaryFile(prefix="kafkafmt-")
    try:
        shutil.copyfileobj(source, target, _STEP)
        target.seek(0)
    except OSError as error:
        target.close()
        if error.errno in FULL_DISK:
            raise TemporaryFilesError(error.errno, os.strerror(error.errno), tempfile.gettempdir()) from error
        raise
    except BaseException:
        target.close()
        raise
    return target


class _StoreFile(io.RawIOBase):
    """A file in another store as a file object."""

    def __init__(self, path: UrlPath, store: Store) -> None:
        self._path, self._store = path, store
        self._status = store.status(path)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._status.size}[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        target = byte_view(buffer)
        end = min(self._position + len(target), self._status.size)
        if end <= self._position:
            return 0
        data = byte_view(self._store.read(self._path, self._position, end, self._status.version))
        target[: len(data)] = data
        self._position += len(data)
        return len(data)

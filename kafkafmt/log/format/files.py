"""Read, write, sync and list files.

A file that is read can be local or have a URL. remote.py and stores.py implement reading by URL. A
file that is written is always local.

Local files are read with `pread` into reused buffers whose addresses are multiples of 64 bytes. A
file is memory-mapped only if the caller requests it: a live broker can truncate a file at any time,
and reading a truncated mapping kills the process. A deleted file stays readable while it is open.
If a file is truncated, reads return fewer bytes, which callers treat as the end of the input.

A function whose docstring says "sync" returns after the data is on disk. If the kernel supports
copy_file_range or sendfile, it copies the bytes to another file or to a socket itself.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...errors import StructureError
from ...paths import Location, UrlError, UrlPath
from ...types import Buffer, byte_view
from . import remote
from .packed import SequentialReader, open_unpacked, segment_name_of
from .remote import RemoteFile
from .stores import store_of

ALIGNMENT = 64
CRC_STEP = 1 << 20
MAX_TEXT_BYTES = 64 << 20
MAX_TEXT_LINES = 1 << 20
"""Largest number of lines of a text file.

A broker's checkpoint has one line per partition. A parsed line takes about 250 bytes of memory.
"""
MAX_INDEX_BYTES = 1 << 28
"""Largest number of bytes that `read_bytes` returns. Valid index files are smaller than this."""
_LINE_ENDS = (b"\n", b"\r", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
"""The line endings that `str.splitlines` recognizes, encoded in UTF-8."""
NEW_FILE = 0o644
"""Mode of a new file, before the umask is applied."""


def _open_whole(path: Location) -> SequentialReader:
    return SequentialReader(FileView(path, whole=True))


def aligned_buffer(size: int) -> npt.NDArray[np.uint8]:
    """Return an uninitialized array of `size` bytes whose address is a multiple of 64.

    The kernel copies data into an aligned buffer five times as fast as into an unaligned one.
    """
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _open(path: str | os.PathLike[str]) -> tuple[int, os.stat_result]:
    """Open a regular file for reading. Return its descriptor and its status.

    A pipe or a device is treated as a missing file, because opening or reading it can block
    forever.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        raise FileNotFoundError(errno.ENOENT, "not a regular file", os.fspath(path))
    return handle, status


def _read_whole(path: Location | str, limit: int) -> tuple[int, bytes]:
    """Return the size of a file and its content, but at most its first `limit` bytes."""
    if isinstance(path, UrlPath):
        with FileView(path) as view:
            return view.size, view.read(0, min(view.size, limit))
    handle, status = _open(path)
    try:
        data, left = [], min(status.st_size, limit)
        while left > 0 and (part := os.read(handle, left)):
            data.append(part)
            left -= len(part)
        return status.st_size, b"".join(data)
    finally:
        os.close(handle)


def joined(folder: Location, name: str) -> str | UrlPath:
    """Return the path of a file in a directory, as a str or a `UrlPath`.

    A local path is a str, because creating a `Path` takes longer than opening a small file.
    """
    if isinstance(folder, UrlPath):
        return folder / name
    text = str(folder)
    if text == os.curdir:
        return name
    return os.path.join(text, name) if text == os.sep else f"{text}{os.sep}{name}"


class FileView:
    """An open file from which byte ranges are read.

    Parameters
    ----------
    path : str, os.PathLike or UrlPath
        A regular file, or the URL of a file.
    mapped : bool, default False
        Also map the file into memory, as `data`. This is safe only if the file is never truncated.
        A URL cannot be mapped; it raises ValueError. A compressed segment is not mapped.
    whole : bool, default False
        Read a compressed segment as it is. By default, its decompressed content is read.

    Attributes
    ----------
    size : int
        Length of the file in bytes when it was opened.
    bytes_read, reads : int
        Number of bytes that have been read, and number of read calls. Access through `data` is not
        counted.
    data : numpy.ndarray of uint8, or None
        The content of the mapped file. None if the file is not mapped or is empty.
    least_read : int
        Number of bytes that even the smallest read fetches. 0 for a local file.
    """

    least_read: int = 0

    def __init__(self, path: str | os.PathLike[str] | UrlPath, mapped: bool = False, whole: bool = False) -> None:
        self.bytes_read: int = 0
        self.reads: int = 0
        self.seconds: float = 0.0
        """Time in seconds that was spent in `read_into`."""
        self.data: npt.NDArray[np.uint8] | None = None
        self._fd = -1
        self._remote: RemoteFile | None = None
        self._given = path
        name = path.name if isinstance(path, UrlPath) else os.path.basename(path)
        if not whole and segment_name_of(name) is not None:
            self._fd = open_unpacked(self.path, stamp(self.path), partial(_open_whole, self.path))
            self.size: int = os.fstat(self._fd).st_size
            return
        if isinstance(path, UrlPath):
            if mapped:
                raise UrlError(f"{path}: only local files can be memory-mapped; pass mapped=False")
            self._remote = remote.open_file(path)
            self.size = self._remote.size
            self.least_read = remote.LEAST_BYTES
            self._count_requests(self._remote)
            return
        self._fd, status = _open(path)
        self.size = status.st_size
        if mapped and self.size:
            self.data = np.frombuffer(mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ), np.uint8)

    @cached_property
    def path(self) -> Location:
        """Path or URL of the file."""
        return self._given if isinstance(self._given, UrlPath) else Path(self._given)

    def expect(self, start: int, end: int) -> None:
        """Prepare to read the bytes [start, end) in order. For a URL, several requests are then sent ahead."""
        if self._remote is not None:
            self._remote.expect(start, end)

    def read_into(self, view: Any, position: int) -> int:
        """Fill the buffer `view` with bytes of the file, starting at `position`.

        Return the number of bytes read. It is less than the size of the buffer only if the file
        ends first.
        """
        target, got, started = memoryview(view).cast("B"), 0, perf_counter()
        if self._remote is not None:
            got = self._remote.read_into(target, position)
            self._count_requests(self._remote)
            self.seconds += perf_counter() - started
            return got
        while got < len(target):
            try:
                n = os.preadv(self._fd, [target[got:]], position + got)
            except OSError as error:  # the error that preadv raises does not name the file
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            self.reads += 1
            if n == 0:
                break
            got += n
        self.bytes_read += got
        self.seconds += perf_counter() - started
        return got

    def _count_requests(self, remote: RemoteFile) -> None:
        """Set the counts to what was fetched, which can be more than was read."""
        self.bytes_read, self.reads = remote.bytes_fetched, remote.requests

    def read(self, position: int, size: int) -> bytes:
        """Return the `size` bytes that start at `position`, or fewer at the end of the file."""
        if size <= 0:
            return b""
        data = bytearray(min(size, max(self.size - position, 0)))
        got = self.read_into(data, position)
        return bytes(data[:got])

    def crc32c(self, start: int, end: int, value: int = 0) -> int:
        """Compute the CRC-32C of the bytes in [start, end), continuing from the CRC `value`.

        Memory use is constant.
        """
        return self._checksum(core.crc32c, start, end, value)

    def crc32(self, start: int, end: int, value: int = 0) -> int:
        """Compute the CRC-32 of the bytes in [start, end), continuing from the CRC `value`.

        Memory use is constant.
        """
        return self._checksum(core.crc32, start, end, value)

    def _checksum(self, update: Callable[[bytes, int], int], start: int, end: int, value: int) -> int:
        while start < end:
            part = self.read(start, min(CRC_STEP, end - start))
            if not part:
                break
            value = update(part, value)
            start += len(part)
        return value

    def transfer(self, target: int, start: int, end: int) -> None:
        """Write the bytes in [start, end) to a file or socket, at the current position of the target.

        `target` is a blocking file descriptor. Raise OSError if the file ends before `end`.
        """
        if self._remote is not None:
            self.expect(start, end)
            while start < end:
                data = self.read(start, min(CRC_STEP, end - start))
                if not data:
                    raise OSError(errno.EIO, "the file was truncated while it was read", str(self.path))
                write_all(target, data)
                start += len(data)
            return
        methods = [_copy_file_range, _send_file, _read_and_write]
        while start < end:
            try:
                sent = methods[0](self._fd, target, start, end - start)
            except OSError as error:
                if len(methods) == 1 or error.errno not in CANNOT_TRANSFER:
                    raise OSError(error.errno, error.strerror, str(self.path)) from error
                del methods[0]
                continue
            if sent == 0:
                raise OSError(errno.EIO, "the file was truncated while it was read", str(self.path))
            start += sent

    def fileno(self) -> int:
        """Return the file descriptor. Return -1 if the file is closed, or if it is not a local file."""
        return self._fd

    def close(self) -> None:
        """Close the file. The mapped content in `data` stays readable. Closing twice does nothing."""
        if self._remote is not None:
            self._remote.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> FileView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_ahead(path: Location, index: Location, whole: bool) -> None:
    """Prepare to read a segment soon. If the paths are URLs, begin to open it and its offset index.

    If `whole` is True, it will be read from its start.
    """
    if isinstance(path, UrlPath) and isinstance(index, UrlPath):
        remote.open_ahead(index, remote.WHOLE_BYTES)
        remote.open_ahead(path, remote.NEXT_BYTES if whole else remote.FIRST_BYTES)


def forget_ahead(path: Location, index: Location) -> None:
    """Forget what `open_ahead` has prepared, if it was not used."""
    for place in (path, index):
        if isinstance(place, UrlPath):
            remote.forget_ahead(place)


CANNOT_TRANSFER = (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM, errno.ESPIPE)
"""Errors that copy_file_range and sendfile raise if they cannot copy between two files.

Examples are files on different file systems, pipes, and files opened for appending.
"""


def _copy_file_range(source: int, target: int, start: int, count: int) -> int:
    return os.copy_file_range(source, target, count, start)


def _send_file(source: int, target: int, start: int, count: int) -> int:
    return os.sendfile(target, source, start, count)


def _read_and_write(source: int, target: int, start: int, count: int) -> int:
    data = os.pread(source, min(count, CRC_STEP), start)
    write_all(target, data)
    return len(data)


def write_all(target: int, data: Buffer) -> None:
    """Write all bytes of `data` at the current position of the file descriptor `target`."""
    rest = byte_view(data)
    while rest:
        rest = rest[os.write(target, rest) :]


def write_at(target: int, data: Buffer, position: int) -> None:
    """Write all bytes of `data` to the file descriptor `target`, at `position`."""
    rest = byte_view(data)
    while rest:
        written = os.pwrite(target, rest, position)
        rest, position = rest[written:], position + written


def mode_of(path: Location | str) -> int | None:
    """Return the permission bits of a file or directory, or None if it does not exist.

    The set-user-id, set-group-id and sticky bits are not included. The file or directory of a URL
    counts as readable by its owner only, because its permissions are not known.
    """
    if isinstance(path, UrlPath):
        return 0o700
    try:
        return stat.S_IMODE(os.stat(path).st_mode) & 0o777
    except FileNotFoundError:
        return None


def narrowed(mode: int, *sources: Location | str) -> int:
    """Return `mode` without the permissions that any of the sources lacks.

    Sources that do not exist are ignored.
    """
    for source in sources:
        known = mode_of(source)
        mode &= 0o777 if known is None else known
    return mode


Stamp = tuple[int | str, int, int]


def stamp(path: Location | str) -> Stamp | None:
    """Return values that change if a file is changed, or None if it does not exist.

    They are the inode, the size and the modification time (in ns). For a URL, they are the version,
    the size and 0.
    """
    try:
        if isinstance(path, UrlPath):
            known = store_of(path).status(path)
            return known.version, known.size, 0
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def times_of(path: Location | str) -> tuple[int, int] | None:
    """Return the times of the last access and the last modification of a file, in ns. None if they are not known."""
    if isinstance(path, UrlPath):
        modified = store_of(path).status(path).modified
        return None if modified is None else (modified, modified)
    status = os.stat(path)
    return status.st_atime_ns, status.st_mtime_ns


def mode_and_times(path: Location | str) -> tuple[int, tuple[int, int] | None]:
    """Return what `mode_of` and `times_of` return, with one system call. Raise OSError if the file does not exist."""
    if isinstance(path, UrlPath):
        return mode_of(path) or 0, times_of(path)
    status = os.stat(path)
    return stat.S_IMODE(status.st_mode) & 0o777, (status.st_atime_ns, status.st_mtime_ns)


def append_to(path: Path, data: bytes, mode: int = NEW_FILE) -> None:
    """Append to a file, or restore its previous length if the write fails.

    If the file does not exist, it is created with `mode`.
    """
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        end = os.fstat(target).st_size
        try:
            write_at(target, data, end)
        except OSError:
            os.ftruncate(target, end)
            raise
    finally:
        os.close(target)


def truncate(path: Path, size: int) -> None:
    """Truncate a file to `size` bytes, and sync it."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(handle, size)
        os.fsync(handle)
    finally:
        os.close(handle)


def create(path: Path | str, mode: int = NEW_FILE) -> int:
    """Create an empty file and return a file descriptor for writing.

    Raise FileExistsError if the path exists.

    The umask is applied to `mode`.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def write_new(path: Path | str, data: bytes, mode: int = NEW_FILE, synced: bool = True) -> None:
    """Create a file with the content `data`. Raise FileExistsError if the path exists.

    If `synced` is True, the file is synced. Otherwise, the caller must sync it, as `sync_tree` does.
    """
    target = create(path, mode)
    try:
        write_all(target, data)
        if synced:
            os.fsync(target)
    finally:
        os.close(target)


def replace(path: Path, data: bytes, mode: int = NEW_FILE) -> None:
    """Replace a file's content atomically, and sync the file and its directory.

    Readers always see either the old or the new content, even after a crash. An existing file keeps
    its mode; a new file gets `mode`.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    known = mode_of(path)
    write_new(temporary, data, mode if known is None else known)
    os.replace(temporary, path)
    sync_directory(path.parent)


def sync(path: Path) -> None:
    """Sync the content of a file, no matter which process wrote it."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Sync a directory, so that creations, renames and deletions of files in it are on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def list_directory(path: Location) -> tuple[list[str], list[str]]:
    """Return the sorted names of the subdirectories of a directory, and the sorted names of its files.

    Broken links are returned as files. Pipes, sockets and devices are omitted. Kafka also omits
    everything that is not a regular file.
    """
    directories, names, _ = list_with_sizes(path)
    return directories, names


def list_links(path: Path) -> list[str]:
    """Return the sorted names of the symbolic links to files in a local directory, and of its broken links."""
    with os.scandir(path) as entries:
        links = {entry.name for entry in entries if entry.is_symlink()}
    return [name for name in list_directory(path)[1] if name in links] if links else []


def list_with_sizes(path: Location) -> tuple[list[str], list[str], dict[str, int]]:
    """Return what `list_directory` returns, and the sizes in bytes of those files whose size is listed.

    The sizes of local files are not listed, since they need a system call each.
    """
    if isinstance(path, UrlPath):
        directories, sizes = store_of(path).list_directory(path)
        return directories, sorted(sizes), sizes
    directories, names = [], []
    with os.scandir(path) as entries:
        for entry in entries:  # the kernel lists the type of an entry, so only links need more system calls
            if entry.is_file(follow_symlinks=False):
                names.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            elif entry.is_symlink():
                if not os.path.exists(entry.path):  # a circular link too, for which is_dir() raises an error
                    names.append(entry.name)
                elif entry.is_dir():
                    directories.append(entry.name)
                elif entry.is_file():
                    names.append(entry.name)
    return sorted(directories), sorted(names), {}


def file_size(path: Location | str) -> int | None:
    """Return the size of a file in bytes, or None if it does not exist.

    A broken or circular link is treated as a missing file.
    """
    try:
        return store_of(path).status(path).size if isinstance(path, UrlPath) else os.stat(path).st_size
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise


def content_size(path: Location | str) -> int | None:
    """Return the number of bytes that a `FileView` of a file reads, or None if the file does not exist.

    A compressed segment is decompressed.
    """
    if segment_name_of(os.path.basename(path) if isinstance(path, str) else path.name) is None:
        return file_size(path)
    try:
        with FileView(path) as view:
            return view.size
    except FileNotFoundError:
        return None


def is_file(path: Location) -> bool:
    """Return whether a path refers to a file."""
    if not isinstance(path, UrlPath):
        return path.is_file()
    try:
        return bool(path.key) and store_of(path).status(path).size >= 0
    except (FileNotFoundError, IsADirectoryError):
        return False


def exists(path: Location) -> bool:
    """Return whether a path refers to a file, a directory or a link, even if the link is broken."""
    if not isinstance(path, UrlPath):
        return os.path.lexists(path)
    if is_file(path):
        return True
    try:
        store_of(path).list_directory(path)
    except FileNotFoundError:
        return False
    return True


def real_path(path: Location) -> str:
    """Return a path without symbolic links. A URL is returned unchanged."""
    return str(path) if isinstance(path, UrlPath) else os.path.realpath(path)


def inode(path: Location) -> int | None:
    """Return the inode number of a file or directory, or None if it cannot be read or is a URL."""
    if isinstance(path, UrlPath):
        return None
    try:
        return path.stat().st_ino
    except OSError:
        return None


def read_text(path: Location) -> str | None:
    """Return the content of a small text file, or None if it does not exist.

    Bytes that are not valid UTF-8 are replaced with U+FFFD.

    Raise StructureError if the path is a directory, or if the file exceeds MAX_TEXT_BYTES or
    MAX_TEXT_LINES.
    """
    try:
        size, data = _read_whole(path, MAX_TEXT_BYTES)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise StructureError(f"{path.name} is a directory, not a file") from None
    if size > MAX_TEXT_BYTES:
        raise StructureError(f"{path.name} has {size} bytes; the limit is {MAX_TEXT_BYTES}")
    lines = sum(map(data.count, _LINE_ENDS))
    if lines > MAX_TEXT_LINES:
        raise StructureError(f"{path.name} has {lines} lines; the limit is {MAX_TEXT_LINES}")
    return data.decode(errors="replace")


def read_bytes(path: Location | str) -> bytes | None:
    """Return the content of a file, but at most its first MAX_INDEX_BYTES bytes.

    Return None if the path does not exist or is a directory.
    """
    try:
        return _read_whole(path, MAX_INDEX_BYTES)[1]
    except (FileNotFoundError, IsADirectoryError):
        return None

"""Open, write, copy and sync local files.

To sync a file means to wait until its data is on disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from ...support.paths import Location, full_disk_named
from ...types import Buffer, byte_view
from .files import mode_of

NEW_FILE = 0o644  # mode of a new file, before the umask is applied
COPY_STEP = 1 << 20  # number of bytes that are copied with one read and one write
CANNOT_TRANSFER = (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM, errno.ESPIPE)
"""The kernel cannot copy between two files, such as pipes, or files on different file systems."""


def open_regular(path: str | os.PathLike[str]) -> tuple[int, os.stat_result]:
    """Open a regular file for reading. Return its descriptor and its status."""
    # A pipe or a device, which can block forever, is treated as a missing file, as is a circular symbolic link.
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise FileNotFoundError(errno.ENOENT, error.strerror, os.fspath(path)) from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        raise FileNotFoundError(errno.ENOENT, "not a regular file", os.fspath(path))
    return handle, status


def copy_range(source: int, target: int, start: int, end: int, path: Path) -> None:
    """Copy the bytes [start, end) of a file to the current position of a file or socket, if possible in the kernel."""
    methods = [_copy_file_range, _send_file, _read_and_write]
    while start < end:
        try:
            sent = methods[0](source, target, start, end - start)
        except OSError as error:
            if len(methods) == 1 or error.errno not in CANNOT_TRANSFER:
                raise OSError(error.errno, error.strerror, str(path)) from error
            del methods[0]
            continue
        if sent == 0:
            raise truncated(path)
        start += sent


def truncated(path: Location) -> OSError:
    """Return the error for a file that was truncated while it was read."""
    return OSError(errno.EIO, "the file was truncated while it was read", str(path))


def _copy_file_range(source: int, target: int, start: int, count: int) -> int:
    return os.copy_file_range(source, target, count, start)


def _send_file(source: int, target: int, start: int, count: int) -> int:
    return os.sendfile(target, source, start, count)


def _read_and_write(source: int, target: int, start: int, count: int) -> int:
    data = os.pread(source, min(count, COPY_STEP), start)
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


def append_to(path: Path, data: bytes, mode: int = NEW_FILE) -> None:
    """Append `data` to a file, created with `mode` if new. If the write fails, truncate it to its previous size."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        end = os.fstat(target).st_size
        try:
            with full_disk_named(path):
                write_at(target, data, end)
        except OSError:
            os.ftruncate(target, end)
            raise
    finally:
        os.close(target)


def truncate_file(path: Path, size: int) -> None:
    """Truncate a file to `size` bytes, and sync it."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(handle, size)
        os.fsync(handle)
    finally:
        os.close(handle)


def create_file(path: Path | str, mode: int = NEW_FILE) -> int:
    """Create an empty file, and return its descriptor. FileExistsError: the path exists."""
    # The umask applies to `mode`.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def write_new(path: Path | str, data: bytes, mode: int = NEW_FILE, synced: bool = True) -> None:
    """Create a file with the content `data`. FileExistsError: the path exists."""
    # If `synced` is False, the caller must sync the file later, for example with `sync_tree`.
    target = create_file(path, mode)
    try:
        if data and (written := os.write(target, data)) < len(data):
            write_all(target, memoryview(data)[written:])
        if synced:
            os.fsync(target)
    except OSError:
        # The context manager is created only for an error, because salvage writes thousands of small files.
        with full_disk_named(path):
            raise
    finally:
        os.close(target)


def replace_file(path: Path, data: bytes, mode: int = NEW_FILE) -> None:
    """Replace a file's content atomically, and sync the file and its directory."""
    # Even after a crash, the content is either old or new. An existing file keeps its permissions.
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    known = mode_of(path)
    try:
        with full_disk_named(path):
            write_new(temporary, data, mode if known is None else known)
            os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Sync the content of a file. This includes data that other processes have written to it."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with full_disk_named(path):
            os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Sync a directory, so that the creation, renaming and deletion of its files survive a power failure."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

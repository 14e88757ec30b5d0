"""The one module of this floor that touches files; the rest sees names and byte ranges.

Files are read with `pread` into reused buffers that begin at a multiple of 64 bytes: a live broker may truncate or
delete a file at any time, and a mapped file would then kill the process, so mapping is for whoever asks for it. A
deleted file stays readable while it is open; a truncated one gives short reads, which the callers take as the end of
the input.

What is written is complete and on disk when a function returns that says so. A range of one file goes to another, or to
a socket, inside the kernel (copy_file_range, sendfile) where it can.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._backend import core
from ...errors import StructureError

ALIGNMENT = 64
CRC_STEP = 1 << 20
MAX_TEXT_BYTES = 64 << 20
MAX_TEXT_LINES = 1 << 20
"""Lines of a text file: a broker's checkpoint has one for each partition, and each takes some 250 bytes of memory when it is read."""
MAX_INDEX_BYTES = 1 << 28
_LINE_ENDS = (b"\n", b"\r", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
"""What `str.splitlines` takes for the end of a line."""
NEW_FILE = 0o644
"""Mode of a new file, which the umask narrows."""


def aligned_buffer(size: int) -> npt.NDArray[np.uint8]:
    """`size` bytes that begin at a multiple of 64: the kernel copies into those five times as fast as elsewhere."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _open(path: str | os.PathLike[str]) -> int:
    """A descriptor of a regular file. A pipe or a device counts as missing: to open or to read one may take for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        raise FileNotFoundError(errno.ENOENT, "not a regular file", os.fspath(path))
    return handle


class FileView:
    """One open file as byte ranges, read only. `size` is the file's length when it was opened.

    With `mapped` the whole of it is there as `data` too, without a copy: for files that nobody truncates any more.
    """

    def __init__(self, path: str | os.PathLike[str], mapped: bool = False) -> None:
        self.path = Path(path)
        self._fd = _open(path)
        self.size = os.fstat(self._fd).st_size
        self.bytes_read = 0
        self.reads = 0
        self.data: npt.NDArray[np.uint8] | None = None
        if mapped and self.size:
            self.data = np.frombuffer(mmap.mmap(self._fd, self.size, access=mmap.ACCESS_READ), np.uint8)

    def read_into(self, view: Any, position: int) -> int:
        """Fill `view` from `position` on; the bytes got, fewer only at the file's end."""
        target, got = memoryview(view).cast("B"), 0
        while got < len(target):
            try:
                n = os.preadv(self._fd, [target[got:]], position + got)
            except OSError as error:
                raise OSError(
                    error.errno, error.strerror, str(self.path)
                ) from error  # which does not name the file by itself
            self.reads += 1
            if n == 0:
                break
            got += n
        self.bytes_read += got
        return got

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position` on, fewer only at the file's end."""
        if size <= 0:
            return b""
        data = bytearray(min(size, max(self.size - position, 0)))
        got = self.read_into(data, position)
        return bytes(data[:got])

    def crc32c(self, start: int, end: int, value: int = 0) -> int:
        """CRC-32C of a range of any length, in constant memory."""
        return self._checksum(core.crc32c, start, end, value)

    def crc32(self, start: int, end: int, value: int = 0) -> int:
        """CRC-32 of a range of any length, in constant memory."""
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
        """Send a range to a file or socket, at its own position. OSError where the file ends before the range does.

        target: a file descriptor that blocks.
        """
        ways = [_copy_file_range, _send_file, _read_and_write]
        while start < end:
            try:
                sent = ways[0](self._fd, target, start, end - start)
            except OSError as error:
                if len(ways) == 1 or error.errno not in CANNOT_TRANSFER:
                    raise OSError(error.errno, error.strerror, str(self.path)) from error
                del ways[0]
                continue
            if sent == 0:
                raise OSError(errno.EIO, "the file was truncated while it was read", str(self.path))
            start += sent

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> FileView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


CANNOT_TRANSFER = (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM, errno.ESPIPE)
"""What the kernel answers where it cannot do it between these two: other file systems, pipes, files opened to append."""


def _copy_file_range(source: int, target: int, start: int, count: int) -> int:
    return os.copy_file_range(source, target, count, start)


def _send_file(source: int, target: int, start: int, count: int) -> int:
    return os.sendfile(target, source, start, count)


def _read_and_write(source: int, target: int, start: int, count: int) -> int:
    data = os.pread(source, min(count, CRC_STEP), start)
    write_all(target, data)
    return len(data)


def write_all(target: int, data: bytes) -> None:
    """Write all of it at the file's position; OSError where that cannot be."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]


def write_at(target: int, data: Any, position: int) -> None:
    """The same at a position."""
    rest = memoryview(data).cast("B")
    while rest:
        written = os.pwrite(target, rest, position)
        rest, position = rest[written:], position + written


def mode_of(path: Path) -> int | None:
    """Return the permission bits of a file or directory, without set-id bits and sticky bit; None if it does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o777
    except FileNotFoundError:
        return None


def narrowed(mode: int, *sources: Path) -> int:
    """Return `mode` without the permissions that a source lacks. Sources that do not exist are passed over."""
    for source in sources:
        known = mode_of(source)
        mode &= 0o777 if known is None else known
    return mode


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Return inode, size and modification time of a file, which differ after a change; None if it does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def append_to(path: Path, data: bytes, mode: int = NEW_FILE) -> None:
    """Append to a file, which is created with `mode` if it does not exist; undo a write that fails half way."""
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
    """Cut a file, on disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(handle, size)
        os.fsync(handle)
    finally:
        os.close(handle)


def create(path: Path, mode: int = NEW_FILE) -> int:
    """Create an empty file and return a descriptor for writing. FileExistsError if the path exists. The umask narrows `mode`."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def write_new(path: Path, data: bytes, mode: int = NEW_FILE) -> None:
    """Create a file with this content, and sync it to disk."""
    target = create(path, mode)
    try:
        write_all(target, data)
        os.fsync(target)
    finally:
        os.close(target)


def replace(path: Path, data: bytes, mode: int = NEW_FILE) -> None:
    """Replace a file's content atomically: readers, now or after a crash, see the old content or the new content.

    An existing file keeps its mode. `mode` is for a file that does not exist yet.
    """
    beside = path.with_name(f"{path.name}.tmp")
    beside.unlink(missing_ok=True)
    known = mode_of(path)
    write_new(beside, data, mode if known is None else known)
    os.replace(beside, path)
    sync_directory(path.parent)


def sync(path: Path) -> None:
    """A file's content, on disk, whoever wrote it."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """What was created, renamed and deleted in a directory, on disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def list_directory(path: Path) -> tuple[list[str], list[str]]:
    """The names of a directory's sub-directories and of its files, each sorted; links that lead nowhere are among the files.

    Pipes, sockets and devices are left out, as Kafka leaves out what is no file.
    """
    directories, names = [], []
    with os.scandir(path) as entries:
        for entry in entries:
            leads_nowhere = entry.is_symlink() and not os.path.exists(entry.path)
            if leads_nowhere or entry.is_file():
                names.append(entry.name)
            elif entry.is_dir():
                directories.append(entry.name)
    return sorted(directories), sorted(names)


def file_size(path: Path) -> int | None:
    """Return the size of a file; None if it does not exist, or is a link that leads nowhere or to itself."""
    try:
        return path.stat().st_size
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise


def inode(path: Path) -> int | None:
    """Return the number that identifies a file or directory within its file system, or None if it cannot be read."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def read_text(path: Path) -> str | None:
    """A small text file's content, None where it is missing. Bytes that are not UTF-8 are replaced.

    StructureError if it is a directory, or has more bytes or lines than such a file can have.
    """
    try:
        with os.fdopen(_open(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(size) if size <= MAX_TEXT_BYTES else b""
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise StructureError(f"{path.name}: a directory, not a file") from None
    if size > MAX_TEXT_BYTES:
        raise StructureError(f"{path.name}: {size} bytes, more than the limit of {MAX_TEXT_BYTES}")
    lines = sum(map(data.count, _LINE_ENDS))
    if lines > MAX_TEXT_LINES:
        raise StructureError(f"{path.name}: {lines} lines, more than the limit of {MAX_TEXT_LINES}")
    return data.decode(errors="replace")


def read_bytes(path: Path) -> bytes | None:
    """An index's content, None where it is missing or a directory; of a larger one than can be right the beginning."""
    try:
        with os.fdopen(_open(path), "rb") as file:
            return file.read(min(os.fstat(file.fileno()).st_size, MAX_INDEX_BYTES))
    except (FileNotFoundError, IsADirectoryError):
        return None

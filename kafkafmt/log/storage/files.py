"""List directories, and return the sizes, permissions and times of files.

Functions that accept local paths and URLs have a parameter of type `Location`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ...support.paths import Location, UrlPath
from ..formats import base_of
from .stores import store_of

_SEP = os.sep


def joined(folder: Location, name: str) -> str | UrlPath:
    """Append a file name to the path of a directory. Return a str for a local path, and a `UrlPath` for a URL."""
    # Creating a `Path` takes longer than opening a small file.
    if isinstance(folder, UrlPath):
        return folder / name
    text = str(folder)
    if len(text) > 1:  # neither os.curdir nor os.sep
        return f"{text}{_SEP}{name}"
    return name if text == os.curdir else os.path.join(text, name)


def mode_of(path: Location | str) -> int | None:
    """Return the permission bits of a file or directory (0o700 for a URL), or None if it does not exist."""
    if isinstance(path, UrlPath):
        return 0o700
    try:
        return stat.S_IMODE(os.stat(path).st_mode) & 0o777
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise


def narrowed_mode(mode: int, *sources: Location | str) -> int:
    """Remove from `mode` each permission bit that an existing file or directory in `sources` lacks."""
    for source in sources:
        known = mode_of(source)
        mode &= 0o777 if known is None else known
    return mode


def modes_in(folder: Location) -> dict[str, int]:
    """Return the result of `mode_of` for each regular file or link to one in a directory, by file name."""
    if isinstance(folder, UrlPath):
        return {name: mode for name in list_directory(folder)[1] if (mode := mode_of(folder / name)) is not None}
    found = {}
    # A name relative to the open directory is resolved in two thirds of the time of a path.
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(directory):
            try:
                mode = os.stat(name, dir_fd=directory).st_mode
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ELOOP):
                    raise
                continue
            if stat.S_ISREG(mode):
                found[name] = mode & 0o777
    finally:
        os.close(directory)
    return found


Stamp = tuple[int | str, int, int]


def stamp_of(path: Location | str, status: os.stat_result | None = None) -> Stamp | None:
    """Return a tuple that changes when the file is modified or replaced, or None if the file does not exist."""
    # It contains inode, size and modification time in ns; for a URL, the store's version, the size and 0. A known
    # `status` of a local file saves a system call.
    try:
        if isinstance(path, UrlPath):
            known = store_of(path).status(path)
            return known.version, known.size, 0
        status = status or os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def times_of(path: Location | str) -> tuple[int, int] | None:
    """Return the access time and the modification time of a file in ns. For a URL without times, return None."""
    if isinstance(path, UrlPath):
        modified = store_of(path).status(path).modified
        return None if modified is None else (modified, modified)
    status = os.stat(path)
    return status.st_atime_ns, status.st_mtime_ns


def mode_and_times(path: Location | str, status: os.stat_result | None = None) -> tuple[int, tuple[int, int] | None]:
    """Return the results of `mode_of` and `times_of` with at most one system call, or none if `status` is known."""
    if isinstance(path, UrlPath):
        return mode_of(path) or 0, times_of(path)
    status = status or os.stat(path)
    return stat.S_IMODE(status.st_mode) & 0o777, (status.st_atime_ns, status.st_mtime_ns)


def list_directory(path: Location) -> tuple[list[str], list[str]]:
    """Return the sorted subdirectory names and file names (see `list_with_sizes`) of a directory."""
    directories, names, _ = list_with_sizes(path)
    return directories, names


def list_links(path: Path) -> list[str]:
    """Return the sorted names of symbolic links in a local directory. Links to directories are omitted."""
    with os.scandir(path) as entries:
        links = {entry.name for entry in entries if entry.is_symlink()}
    return [name for name in list_directory(path)[1] if name in links] if links else []


def list_with_sizes(path: Location) -> tuple[list[str], list[str], dict[str, int]]:
    """Return the subdirectory names and the file names of a directory, and for a URL the sizes by file name."""
    # The file names include broken links, pipes, devices, sockets, and directories named like a segment. Otherwise,
    # such a segment would be skipped without an error. Local sizes would require a system call each.
    if isinstance(path, UrlPath):
        directories, sizes = store_of(path).list_directory(path)
        return directories, sorted(sizes), sizes
    directories, names = [], []
    with os.scandir(path) as entries:
        # `scandir` returns the type of each entry. A further system call is needed only for symbolic links.
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                names.append(entry.name)
            elif _is_directory(entry):
                directories.append(entry.name)
                if base_of(entry.name) is not None:
                    names.append(entry.name)
            else:
                names.append(entry.name)
    return sorted(directories), sorted(names), {}


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Return whether a directory entry is a directory or a symbolic link to a directory."""
    if not entry.is_symlink():
        return entry.is_dir(follow_symlinks=False)
    # For a circular link, is_dir() would raise an error.
    return os.path.exists(entry.path) and entry.is_dir()


def file_size(path: Location | str) -> int | None:
    """Return the size of a file in bytes, or None if it is missing or a broken or circular link."""
    try:
        return store_of(path).status(path).size if isinstance(path, UrlPath) else os.stat(path).st_size
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise


def is_file(path: Location) -> bool:
    if not isinstance(path, UrlPath):
        return path.is_file()
    try:
        return bool(path.key) and store_of(path).status(path).size >= 0
    except (FileNotFoundError, IsADirectoryError):
        return False


def path_exists(path: Location | str) -> bool:
    """Return whether a path exists. A broken symbolic link counts as existing."""
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
    """Resolve the symbolic links in a path. A URL is returned unchanged."""
    return path.url if isinstance(path, UrlPath) else os.path.realpath(path)


def inode_of(path: Location) -> int | None:
    """Return the inode number of a file or directory, or None if it cannot be read or is a URL."""
    if isinstance(path, UrlPath):
        return None
    try:
        return path.stat().st_ino
    except OSError:
        return None

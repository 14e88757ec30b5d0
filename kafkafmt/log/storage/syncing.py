"""Sync all files of a directory tree, after all of them have been written.

Linux can sync a whole file system with one call of ``syncfs``. For thousands of small files, this
takes a fraction of the time of separate ``fsync`` calls.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from .local_files import sync_directory, sync_file

WHOLE_SYNC_TYPES = frozenset({"btrfs", "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs"})
"""On other file systems, such as NFS and FUSE, ``syncfs`` may return before the data is on disk."""
REPORTS_ERRORS = (5, 8)  # first version of Linux in which ``syncfs`` reports errors of earlier writes
MOUNTS = Path("/proc/self/mountinfo")


def sync_tree(root: Path, opened: int) -> None:
    """Sync all files and directories below `root`, which must be in one file system."""
    # `opened` is a directory descriptor of it from before the files were written: ``syncfs`` reports only later errors.
    if _syncs_whole(root):
        sync_file_system(opened)
        return
    for folder, _, names in os.walk(root):
        for name in names:
            sync_file(Path(folder, name))
        sync_directory(Path(folder))


def sync_file_system(opened: int) -> None:
    """Sync the whole file system that contains an open file or directory."""
    libc, ctypes = _libc()
    if libc.syncfs(opened) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@lru_cache(1)
def _libc() -> tuple[Any, Any]:
    # ctypes is imported only here, because importing it takes a few milliseconds.
    import ctypes

    return ctypes.CDLL(None, use_errno=True), ctypes


def _syncs_whole(root: Path) -> bool:
    """Return whether one ``syncfs`` call can replace the ``fsync`` calls for all files below `root`."""
    if sys.platform != "linux" or _linux_version() < REPORTS_ERRORS:
        return False
    try:
        return hasattr(_libc()[0], "syncfs") and file_system_type(root) in WHOLE_SYNC_TYPES
    except (ImportError, OSError):
        return False


def _linux_version() -> tuple[int, ...]:
    numbers = os.uname().release.split("-")[0].split(".")[:2]
    return tuple(int(n) for n in numbers if n.isdigit())


def file_system_type(path: Path) -> str | None:
    """Return the type of the file system that contains `path`, such as "ext4", or None if it is unknown."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in MOUNTS.read_text(errors="replace").splitlines():
        mount, _, kind = line.partition(" - ")
        if mount.split()[2:3] == [wanted]:
            return kind.split()[0]
    return None

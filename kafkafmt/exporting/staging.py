"""Write the output of an export to a local directory, and publish it atomically.

All files are written to a staging directory next to the output, `.OUT.kafkafmt-<8 hex digits>`. The
export locks this directory with flock. The lock is released when the process ends. Each attempt of
a task writes files with unique names. The driver moves the files of the successful attempts to
their final paths, and deletes the files of the other attempts. `_SUCCESS` is written last. Then the
staging directory is renamed to the output path.

With `overwrite`, renameat2 exchanges the names of the staging directory and the old output
(RENAME_EXCHANGE). If the file system does not support this, the old output is renamed to
`.OUT.kafkafmt-old-<8 hex digits>` before the staging directory is renamed.

Even if an export is killed, the output path contains either the old output or the complete new
output. There is one exception: if the export is killed between the two renames, no output exists.
In this case, the next export gives the old output its original name again. The next export also
removes staging directories that no process has locked.

With `resume`, the export first creates hard links to all files of the old output in the staging
directory. During the export, the old output is locked, so that no other export can add files. When
the export is complete, the staging directory replaces the old output, as with `overwrite`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any

import pyarrow as pa

from ..log.repairing import OutputPlaceError
from ..support.paths import Location, is_device_or_pipe, output_path
from .errors import OutputExistsError, ResumeError
from .output import PATHS, AttemptFiles, Output, WrittenFile

AT_FDCWD = -100
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
NOT_SUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}


@dataclass(frozen=True)
class StagedFiles(AttemptFiles):
    """Creates and removes the files of tasks in the staging directory of an export."""

    directory: Path

    def create(self, target: PurePath) -> tuple[str, pa.NativeFile]:
        """Create and open a file with a unique name. FileNotFoundError: this host has no such staging directory."""
        if not self.directory.is_dir():
            problem = "the output directory is missing on this host; every executor must see it under the same path"
            raise FileNotFoundError(errno.ENOENT, problem, str(self.directory))
        name = f"{secrets.token_hex(16)}{target.suffix}"
        return name, pa.OSFile(str(self.directory / name), "wb")

    def discard(self, name: str, file: Any) -> None:
        """Remove a file that `create` returned. Do nothing if the file does not exist."""
        with contextlib.suppress(Exception):
            file.close()
        (self.directory / name).unlink(missing_ok=True)


class Staging(Output):
    """Context manager for the staging directory of one export. It is removed unless `publish` has renamed it."""

    def __init__(self, output: str | os.PathLike[str], overwrite: bool = False, resume: bool = False) -> None:
        self.output: Path = Path(os.path.realpath(output_path(output)))
        self.target: Location = self.output
        self.overwrite: bool = overwrite
        self.resume: bool = resume
        self.path: Path = Path()
        self._lock = self._old_lock = -1
        self._made: list[Path] = []

    @property
    def directory(self) -> Path:
        return self.path / "_attempts"

    @property
    def attempts(self) -> StagedFiles:
        """The object with which tasks create and remove their files."""
        return StagedFiles(self.directory)

    def check(self) -> None:
        """Raise OutputExistsError if the output exists, and `overwrite` and `resume` are False."""
        # OutputPlaceError: the output is a device or a pipe, such as /dev/null, which an export
        # would replace.
        if is_device_or_pipe(self.output):
            raise OutputPlaceError(str(self.output), "is a device or a pipe, which is not replaced")
        if os.path.lexists(self.output) and not self.overwrite and not self.resume:
            raise OutputExistsError(self.output)

    def __enter__(self) -> Staging:
        self._make_parents()
        clean_up(self.output)
        self.check()
        if self.resume and os.path.lexists(self.output):
            self._old_lock = _lock(self.output)
            if self._old_lock < 0:
                raise ResumeError(f"another export is adding files to {self.output}; try again when it has ended")
        while self._lock < 0:
            self.path = _name_next_to(self.output)
            os.mkdir(self.path)
            self._lock = _lock(self.path)
        os.mkdir(self.directory)
        return self

    def adopt(self, run: int) -> None:
        """Add all files of the old output to the staging directory for run number `run`."""
        # `report.json` of the old output is stored as the report of the previous run.
        for folder in (PATHS.data, PATHS.quarantine, PATHS.earlier_report(0).parent):
            if (self.output / folder).is_dir():
                shutil.copytree(self.output / folder, self.path / folder, copy_function=_link_or_copy)
        report = self.path / PATHS.earlier_report(run - 1)
        report.parent.mkdir(exist_ok=True)
        _link_or_copy(str(self.output / PATHS.report), str(report))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path.name:
            _remove(self.path)
        for lock in (self._lock, self._old_lock):
            if lock >= 0:
                os.close(lock)
        self._lock = self._old_lock = -1
        for parent in self._made:
            with contextlib.suppress(OSError):
                parent.rmdir()

    def keep(self, files: Iterable[WrittenFile]) -> None:
        """Move these files to their final paths, and delete all other files of tasks."""
        # If a file is missing or does not have the reported size, raise OSError. The directory for
        # the files of tasks is deleted, so that running tasks cannot create more files.
        for file in files:
            self._place(file)
        closed = self.directory.with_name(f"{self.directory.name}-closed")
        os.rename(self.directory, closed)
        _remove(closed)

    def _place(self, file: WrittenFile) -> None:
        target = self.path / file.target
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.directory / file.name, target)
        found = target.stat().st_size
        if found != file.size:
            raise OSError(f"{target} has {found} bytes, but the task wrote {file.size} bytes")

    def create(self, target: PurePath) -> pa.NativeFile:
        """Create a file and its parent directory. Return the file, which is open for writing."""
        path = self.path / target
        path.parent.mkdir(exist_ok=True)
        return pa.OSFile(str(path), "wb")

    def publish(self, report: str) -> None:
        """Write the report and `_SUCCESS`. Then rename the staging directory to the output path."""
        (self.path / PATHS.report).write_text(report, encoding="utf-8")
        with open(self.path / PATHS.success, "x"):
            pass
        if not os.path.lexists(self.output):
            rename_new(self.path, self.output)
        elif self._old_lock >= 0 and not os.path.samestat(os.fstat(self._old_lock), os.lstat(self.output)):
            raise ResumeError(f"another export has replaced {self.output} during this export; run this export again")
        elif self.overwrite or self._old_lock >= 0:
            self._replace()
        else:
            raise OutputExistsError(self.output, appeared=True)
        self._made = []

    def _replace(self) -> None:
        if _renameat2(self.path, self.output, RENAME_EXCHANGE):
            return  # the old output is now at the staging path, which __exit__ removes
        old, lock = _name_next_to(self.output, "old-"), _lock(self.output)
        try:
            os.rename(self.output, old)
            os.rename(self.path, self.output)
            _remove(old)
        finally:
            if lock >= 0:
                os.close(lock)

    def _make_parents(self) -> None:
        parent = self.output.parent
        while not parent.exists():
            self._made.append(parent)
            parent = parent.parent
        self.output.parent.mkdir(parents=True, exist_ok=True)


def clean_up(output: Path) -> list[Path]:
    """Remove directories that killed exports have left next to the output. Return the removed paths."""
    # If a killed export has renamed the old output, but not published a new one, the old name is
    # restored.
    removed = []
    pattern = re.compile(re.escape(f".{output.name}.kafkafmt-") + r"(old-)?[0-9a-f]{8}")
    for name in sorted(os.listdir(output.parent)):
        match = pattern.fullmatch(name)
        path = output.parent / name
        if match is None or (lock := _lock(path)) < 0:
            continue
        try:
            if match[1] and not os.path.lexists(output):
                os.rename(path, output)
            else:
                _remove(path)
                removed.append(path)
        finally:
            os.close(lock)
    return removed


def _link_or_copy(source: str, target: str) -> None:
    """Create a hard link to a file. If the file system does not support hard links, copy the file."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (*NOT_SUPPORTED, errno.EMLINK, errno.EXDEV):
            raise
        shutil.copy2(source, target)


def _name_next_to(output: Path, kind: str = "") -> Path:
    return output.parent / f".{output.name}.kafkafmt-{kind}{secrets.token_hex(4)}"


def _lock(path: Path) -> int:
    """Lock a file or directory, and return its descriptor, or -1 if another process has locked it or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return -1


def _remove(path: Path) -> None:
    """Delete a file or a directory tree, even if a task still creates files in it."""
    for _ in range(5):
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
        if not os.path.lexists(path):
            return


def rename_new(source: Path, target: Path) -> None:
    try:
        if not _renameat2(source, target, RENAME_NOREPLACE):
            os.rename(source, target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise OutputExistsError(target, appeared=True) from error
        raise


def _find_renameat2() -> Callable[..., int] | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def _renameat2(source: Path, target: Path, flags: int) -> bool:
    """Call renameat2 with `flags`. Return False if the kernel or the file system does not support it."""
    function = _find_renameat2()
    if function is None:
        return False
    if function(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))

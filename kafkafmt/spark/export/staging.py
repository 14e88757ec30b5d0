"""How an export becomes visible: all at once, or not at all.

Everything is written into a staging directory beside OUT, in the same parent, `.OUT.kafkafmt-<8 hex digits>`, which its
run holds by a lock (flock on the directory itself, gone with the process). Tasks write attempts, files with names of
their own; the driver takes one attempt a split and moves it to its place, the others go. `_SUCCESS` is written last,
and then the staging directory becomes OUT by one rename. With `overwrite` the two change names (renameat2,
RENAME_EXCHANGE); where the file system cannot do that, OUT steps aside as `.OUT.kafkafmt-old-<8 hex digits>` first.

So a process killed at any time leaves OUT as it was, or complete, or (between those two renames) none. The next run
puts an OUT that stepped aside back if there is none, and removes what nobody holds.
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
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from ...paths import local_path

ATTEMPTS = "_attempts"
SUCCESS = "_SUCCESS"
AT_FDCWD = -100
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
NOT_OFFERED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}


class OutputExistsError(ValueError):
    """Raised if the output exists and must not be replaced. `output` is its path."""

    def __init__(self, output: Path) -> None:
        super().__init__(f"{output} exists already; choose another output, or pass overwrite=True")
        self.output = output

    def __reduce__(self) -> tuple[type[OutputExistsError], tuple[Path]]:
        return type(self), (self.output,)


class Staging:
    """The directory in which one export is put together; a context that leaves nothing behind unless `publish` was called."""

    def __init__(self, output: str | os.PathLike[str], overwrite: bool = False) -> None:
        self.output: Path = Path(os.path.realpath(local_path(output)))
        self.overwrite = overwrite
        self.path: Path = Path()
        self._lock = -1
        self._made: list[Path] = []

    @property
    def attempts(self) -> Path:
        """Where tasks write, each file under a name that no other attempt uses."""
        return self.path / ATTEMPTS

    def check(self) -> None:
        """Raise OutputExistsError if OUT is there without `overwrite`."""
        if os.path.lexists(self.output) and not self.overwrite:
            raise OutputExistsError(self.output)

    def __enter__(self) -> Staging:
        self._make_parents()
        clean_up(self.output)
        self.check()
        while self._lock < 0:
            self.path = _beside(self.output)
            os.mkdir(self.path)
            self._lock = _lock(self.path)
        os.mkdir(self.attempts)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path.name:
            _remove(self.path)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        for parent in self._made:
            with contextlib.suppress(OSError):
                parent.rmdir()

    def place(self, attempt: str, *parts: str) -> Path:
        """Move the file of an attempt to its place; where that is."""
        target = self.path.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.attempts / attempt, target)
        return target

    def folder(self, name: str) -> Path:
        """A directory of the export, made if it is not there."""
        (self.path / name).mkdir(exist_ok=True)
        return self.path / name

    def close_attempts(self) -> None:
        """Delete what attempts have left. A task that still runs finds no directory to write into."""
        closed = self.path / f"{ATTEMPTS}-closed"
        os.rename(self.attempts, closed)
        _remove(closed)

    def publish(self) -> None:
        """_SUCCESS, and the staging directory becomes OUT."""
        with open(self.path / SUCCESS, "x"):
            pass
        if not os.path.lexists(self.output):
            _rename_new(self.path, self.output)
        elif not self.overwrite:
            self.check()
        else:
            self._replace()
        self._made = []

    def _replace(self) -> None:
        if _renameat2(self.path, self.output, RENAME_EXCHANGE):
            return  # what has the staging directory's name now is the old one
        old, lock = _beside(self.output, "old-"), _lock(self.output)
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
    """Remove what killed runs have left beside OUT; an OUT that stepped aside and was not replaced comes back first."""
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


def _beside(output: Path, kind: str = "") -> Path:
    return output.parent / f".{output.name}.kafkafmt-{kind}{secrets.token_hex(4)}"


def _lock(path: Path) -> int:
    """A descriptor that holds the lock of a file or directory; -1 where another process has it, or it is gone."""
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
    """Delete a file or a tree, also one into which a task that is being killed still writes."""
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


def _rename_new(source: Path, target: Path) -> None:
    """Rename to a name that must not be taken."""
    try:
        if not _renameat2(source, target, RENAME_NOREPLACE):
            os.rename(source, target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise OutputExistsError(Path(target)) from error
        raise


def _find_renameat2() -> Callable[..., int] | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def _renameat2(source: Path, target: Path, flags: int) -> bool:
    """Linux's rename with flags; False where the kernel or the file system does not offer it."""
    function = _find_renameat2()
    if function is None:
        return False
    if function(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in NOT_OFFERED:
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))

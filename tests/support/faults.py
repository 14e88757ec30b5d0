"""Make calls that read or change a file fail on demand.

disk = Disk(monkeypatch) disk.strike(at=17, how="crash")        the 17th change from now on and all
later ones do not happen disk.strike(at=17, how="torn")         half of the 17th change is written,
and all later ones do not happen disk.strike(at=17, how=errno.ENOSPC)   half of the 17th change is
written, and it fails with this error; later ones succeed disk.short = True
each write writes one or seven bytes, and reads are short
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from kafkafmt.log.storage import syncing

CHANGES = ("pwrite", "write", "ftruncate", "fsync", "replace", "unlink", "open", "mkdir", "copy_file_range", "sendfile")
WRITES = ("pwrite", "write")


class Crash(BaseException):
    """Ends the simulated process. As a BaseException, it is not caught by `except Exception`."""


class Disk:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.changes = 0
        self.short = False
        self.log: list[str] = []
        self.on_read: Callable[[], None] | None = None
        self._at: int | None = None
        self._how: Any = None
        self._dead = False
        for name in CHANGES:
            monkeypatch.setattr(os, name, self._changing(name, getattr(os, name)))
        monkeypatch.setattr(syncing, "sync_file_system", self._changing("syncfs", lambda _: None))
        for name in ("preadv", "pread"):
            monkeypatch.setattr(os, name, self._reading(name, getattr(os, name)))

    def strike(self, at: int, how: Any) -> None:
        self.changes, self._at, self._how, self._dead = 0, at, how, False

    def heal(self) -> None:
        self._at, self._dead = None, False

    def _changing(self, name: str, real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return real(*args, **options)
            if self._dead:
                raise Crash
            self.changes += 1
            if self.changes == self._at:
                return self._fail(name, real, args)
            if name == "fsync":  # skip the real fsync, which would only take time
                return None
            if name in WRITES and self.short:
                return real(args[0], bytes(args[1])[: 1 + 6 * (self.changes % 2)], *args[2:])
            return real(*args, **options)

        return call

    def _fail(self, name: str, real: Any, args: tuple[Any, ...]) -> Any:
        if name in WRITES and self._how != "crash":
            data = bytes(args[1])
            real(args[0], data[: len(data) // 2], *args[2:])
        if isinstance(self._how, str):
            self._dead = True
            raise Crash
        raise OSError(self._how, os.strerror(self._how))

    def _reading(self, name: str, real: Any) -> Any:
        def call(handle: int, target: Any, position: int) -> Any:
            if self.on_read is not None:
                self.on_read()
            if not self.short:
                return real(handle, target, position)
            if name == "pread":
                return real(handle, min(target, 7), position)
            return real(handle, [memoryview(target[0])[:1013]], position)

        return call


def eio() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))

"""Raise an error if a forked process uses an object that its parent process has opened.

If two processes wrote to the same files, they would overwrite each other's data. If two processes
used the same network connections, they would receive each other's responses.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import NoReturn

from ...support.text import shown


class WrongProcessError(RuntimeError):
    """Raised if a forked process uses a log directory, a writer or a remote file of its parent process.

    To write after a fork, the child process must open the log directory itself. Object stores
    cannot be read in a forked process at all if the parent process has already used one.
    """


class ForkSafeLock:
    """A lock that is free in a forked process, even if a thread of the parent process held the lock during the fork."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class OwnerLock:
    """A reentrant lock. Only the process that created the lock can acquire it. `what` is for the error message."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()
        self._lock = threading.RLock()

    @property
    def is_owner(self) -> bool:
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raise WrongProcessError if another process created the lock."""
        if not self.is_owner:
            raise WrongProcessError(
                f"{self._what} was opened in process {self._pid} and cannot be used in process {os.getpid()}; "
                "open the log directory in the process that writes, after the fork"
            )

    def __enter__(self) -> None:
        # If a thread held the lock during the fork, acquire() would block forever in the child process.
        self.check()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


def refuse_pickling(what: object) -> NoReturn:
    """Raise TypeError, because an open log cannot be sent to another process."""
    raise TypeError(
        f"{shown(what)} cannot be pickled, because another process would write to the same files; "
        "open a LogDirectory in the other process"
    )

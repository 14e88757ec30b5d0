"""Raise an error if a forked process uses a log directory or a writer that its parent process has opened.

If two processes used the same files, they would overwrite each other's data.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import NoReturn


class WrongProcessError(RuntimeError):
    """Raised if a process uses a log directory or a writer that another process has opened.

    To write after a fork, the child process must open the log directory itself.
    """


class OwnerLock:
    """A reentrant lock. Only the process that created the lock can acquire it.

    Parameters
    ----------
    what : str
        Name of the object that the lock belongs to, for the error message.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()
        self._lock = threading.RLock()

    @property
    def is_owner(self) -> bool:
        """Whether this process created the lock."""
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
        f"{what!r} cannot be pickled, because another process would write to the same files; "
        "open a LogDirectory in the other process"
    )

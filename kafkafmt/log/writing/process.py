"""Keep objects that own files from being used in a forked process, where two owners would overwrite each other's data."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import NoReturn


class WrongProcessError(RuntimeError):
    """An object is used in another process than the one that opened it, or is pickled to get there."""


class OwnerLock:
    """A reentrant lock that only the process that created it can take.

    Parameters
    ----------
    what : str
        Name of the object that the lock belongs to, for the error.
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
        """Raise WrongProcessError in any other process than the one that created the lock."""
        if not self.is_owner:
            raise WrongProcessError(
                f"{self._what} was opened in process {self._pid} and cannot be used in process {os.getpid()}: "
                "open the log directory in the process that writes, after the fork"
            )

    def __enter__(self) -> None:
        self.check()  # first: another thread may have held the lock during the fork
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


def refuse_pickling(what: object) -> NoReturn:
    """Raise TypeError: an open log cannot be sent to another process."""
    raise TypeError(
        f"{what!r} cannot be pickled: another process would write to the same files; open a LogDirectory there"
    )

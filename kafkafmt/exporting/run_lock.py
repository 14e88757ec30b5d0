"""Let only one export write to an output in a bucket, and recognize exports that were killed.

The object `_export.lock` in the output names the run that writes to it. It is created and changed by
conditional requests only, so of several exports one gets the lock. The driver renews the lock
regularly. Another export can take the lock over in two cases:

- The process that holds it has ended. This can be detected only if both exports run on the same
  machine.
- The lock was not renewed for `EXPIRY_SECONDS`, by the clock of the server.

The library repeats a failed request for up to 3 minutes. `EXPIRY_SECONDS` is longer. So a run that
has just renewed its lock can send one more request before another run takes the lock over.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..log.format.store_base import Store, StoredFile
from ..paths import UrlPath
from ..spark.hosts import host_name
from ..spark.processes import process_space, start_time

LOCK = "_export.lock"
CLOCK = "_export.clock-"
"""Start of the name of an object that is created to read the server's clock."""
WRITING, CHECKING, REPLACING, FINISHING = "writing", "checking", "replacing", "finishing"
RENEWAL_SECONDS = 30.0
EXPIRY_SECONDS = 300.0

_running: set[str] = set()
"""The runs of this process that hold a lock."""


@dataclass(frozen=True)
class RunState:
    """The content of the lock: the run that holds it, and what the run has done.

    Attributes
    ----------
    run : str
        Identifier of the run. It is a part of the names of all files that the run writes.
    host, space, pid, started : str, str, int, int
        Identify the driver process: host name, `process_space`, pid and start time.
    phase : str
        "writing" while tasks write files. "checking" when tasks can no longer write files.
        After that "finishing", or "replacing" if files of an old output are deleted.
    old_success : str or None
        Content of the `_SUCCESS` of an old output, which was deleted. None if there was none.
    renewals : int
        Number of renewals.
    left : RunState or None
        State of a killed run whose lock was taken over, until its files are removed.
    """

    run: str
    host: str
    space: str
    pid: int
    started: int
    phase: str = WRITING
    old_success: str | None = None
    renewals: int = 0
    left: RunState | None = None

    @classmethod
    def of_this_process(cls) -> RunState:
        """Return the state of a new run."""
        pid = os.getpid()
        return cls(secrets.token_hex(8), host_name(), process_space(), pid, start_time(pid) or 0)

    @classmethod
    def parse(cls, content: bytes, path: UrlPath) -> RunState:
        """Return the state in a lock. Raise OSError if the object is not a lock."""
        try:
            fields = json.loads(content)
            left = fields.pop("left")
            return cls(**fields, left=None if left is None else cls(**left))
        except (ValueError, TypeError, KeyError, AttributeError):
            problem = "this object is not the lock of an export; delete it, or choose another output"
            raise OSError(errno.EINVAL, problem, str(path)) from None

    def to_bytes(self) -> bytes:
        """Return the content of the lock."""
        return json.dumps(asdict(self)).encode()

    def has_ended(self) -> bool:
        """Return whether the process of the run has ended. Return False if this is not known."""
        if self.space != process_space() or not self.started:
            return False
        if self.pid == os.getpid() and self.started == start_time(self.pid):
            return self.run not in _running
        return start_time(self.pid) != self.started


class LockLostError(OSError):
    """Raised if another export has taken over the output."""


class RunLock:
    """The lock of one run on an output.

    Parameters
    ----------
    store : Store
    output : UrlPath
        Directory of the output.

    Attributes
    ----------
    path : UrlPath
        URL of the lock.
    state : RunState
        The content of the lock.
    """

    def __init__(self, store: Store, output: UrlPath) -> None:
        self.path: UrlPath = output / LOCK
        self.state: RunState = RunState.of_this_process()
        self._store = store
        self._version: Mapping[str, str] = {}
        self._mutex = threading.Lock()
        self._ended = threading.Event()

    def acquire(self) -> None:
        """Take the lock, and begin to renew it. If a killed run had the lock, `state.left` is its state.

        Raise OSError if another export holds the lock.
        """
        version = self._put(None)
        if version is None:
            found = self._store.load(self.path)
            last = self._check_ended(found)
            # A run removes the files of `left` before it writes its own files.
            self.state = replace(self.state, left=last.left or last)
            version = self._put(found.version)
            if version is None:
                raise self._busy(RunState.parse(self._store.load(self.path).content, self.path))
        self._version = version
        _running.add(self.state.run)
        threading.Thread(target=self._renew_regularly, name="kafkafmt-export-lock", daemon=True).start()

    def left_behind(self) -> RunState | None:
        """Return the state of a killed run, or None if there is no lock.

        Raise OSError if another export holds the lock.
        """
        try:
            found = self._store.load(self.path)
        except FileNotFoundError:
            return None
        last = self._check_ended(found)
        return last.left or last

    def renew(self, **changes: Any) -> None:
        """Renew the lock, and change fields of its state.

        Raise LockLostError if another export has taken over the output.
        """
        with self._mutex:
            self.state = replace(self.state, renewals=self.state.renewals + 1, **changes)
            version = self._put(self._version)
            if version is None:
                raise LockLostError(errno.ESTALE, "another export has taken over this output", str(self.path.parent))
            self._version = version

    def release(self) -> None:
        """Delete the lock, unless another export has taken it over."""
        with self._mutex:
            self._ended.set()
            try:
                if self._is_held():
                    self._store.delete([self.path])
            finally:
                _running.discard(self.state.run)

    def abandon(self) -> None:
        """Leave the lock for the next export, which then removes what this run has left."""
        self._ended.set()
        _running.discard(self.state.run)

    def _is_held(self) -> bool:
        try:
            return RunState.parse(self._store.load(self.path).content, self.path).run == self.state.run
        except FileNotFoundError:
            return False

    def _put(self, version: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """Write the lock, and return its version.

        The existing lock must have the given version. If `version` is None, no lock may exist. Return
        None if another run holds the lock.
        """
        content = self.state.to_bytes()
        try:
            return self._store.put(self.path, content, create=version is None, replaces=version)
        except OSError as error:
            with contextlib.suppress(OSError):
                found = self._store.load(self.path)
                if found.content == content:  # the request succeeded, but its response was lost
                    return found.version
            if isinstance(error, FileExistsError):
                return None
            raise

    def _check_ended(self, found: StoredFile) -> RunState:
        """Return the state in a lock. Raise OSError if its run may still write to the output."""
        state = RunState.parse(found.content, self.path)
        if not state.has_ended():
            age = (self._server_time() - found.modified) / 1e9
            if age <= EXPIRY_SECONDS:
                raise self._busy(state, age)
        return state

    def _busy(self, state: RunState, age: float | None = None) -> OSError:
        problem = f"an export on host {state.host} (process {state.pid}) writes to this output"
        if age is not None:
            wait = round(EXPIRY_SECONDS - age) + 1
            problem += f"; if that process was killed, repeat the export in {wait} seconds"
        return OSError(errno.EBUSY, problem, str(self.path.parent))

    def _server_time(self) -> int:
        """Return the time of the server's clock, in ns since 1970."""
        path = self.path.with_name(CLOCK + secrets.token_hex(8))
        self._store.put(path, b"")
        try:
            return self._store.load(path).modified
        finally:
            self._store.delete([path])

    def _renew_regularly(self) -> None:
        while not self._ended.wait(RENEWAL_SECONDS):
            try:
                self.renew()
            except LockLostError:
                return
            except OSError:  # the next renewal may succeed
                continue

"""Lock the output of an export in a bucket, and detect the locks of exports that were killed.

The object `_export.lock` in the output contains the identifier of the export run that writes to the
output. It is created and changed only with conditional requests, so that only one export can hold
the lock. The driver renews the lock regularly. Another export can take over the lock if its holder
has ended, or if the lock was not renewed for `EXPIRY_SECONDS`. Expiry is measured with the clock of
the object store. The end of a process can be detected only on the same machine.

The client library repeats a failed request for up to 3 minutes, which is less than
`EXPIRY_SECONDS`. Therefore, a request that a run sends directly after it has renewed the lock ends
before another run can take over the lock.
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

from ..log.storage import Store, StoredFile
from ..spark.hosts import host_name
from ..spark.processes import process_space, start_time
from ..support.paths import UrlPath
from ..support.text import quantity

LOCK = "_export.lock"
CLOCK = "_export.clock-"
"""Prefix of the names of objects that are created to read the clock of the object store."""
WRITING, CHECKING, REPLACING, FINISHING = "writing", "checking", "replacing", "finishing"
RENEWAL_SECONDS = 30.0
EXPIRY_SECONDS = 300.0

_running: set[str] = set()
"""Identifiers of the export runs in this process that hold a lock."""


@dataclass(frozen=True)
class RunState:
    """Content of a lock object: which export run holds the lock, and how far it has progressed."""

    # `host`, `space` (see `process_space`), `pid` and `started` together identify the driver's
    # process. Phases: in "writing", tasks write files; in "checking", they no longer can; in
    # "replacing", the driver deletes the old output and publishes the new one; in "finishing", it
    # publishes, and there is no old output.

    run: str  # part of the names of the files that the run writes
    host: str
    space: str
    pid: int
    started: int
    phase: str = WRITING
    old_success: str | None = None  # the old output's `_SUCCESS`, which the run deleted; None: it did not exist
    renewals: int = 0  # number of times that the lock was renewed
    left: RunState | None = None  # a killed run whose lock was taken over and whose files still exist

    @classmethod
    def of_this_process(cls) -> RunState:
        pid = os.getpid()
        return cls(secrets.token_hex(8), host_name(), process_space(), pid, start_time(pid) or 0)

    @classmethod
    def parse(cls, content: bytes, path: UrlPath) -> RunState:
        """Parse the content of a lock object. Raise OSError if the object is not a lock."""
        try:
            fields = json.loads(content)
            left = fields.pop("left")
            return cls(**fields, left=None if left is None else cls(**left))
        except (ValueError, TypeError, KeyError, AttributeError):
            problem = "this object is not the lock of an export; delete it, or choose another output"
            raise OSError(errno.EINVAL, problem, str(path)) from None

    def to_bytes(self) -> bytes:
        """Encode the state as JSON, which is the content of the lock object."""
        return json.dumps(asdict(self)).encode()

    def has_ended(self) -> bool:
        """Return True if the driver process of the run has ended, and False if it may still be running."""
        if self.space != process_space() or not self.started:
            return False
        if self.pid == os.getpid() and self.started == start_time(self.pid):
            return self.run not in _running
        return start_time(self.pid) != self.started


class LockLostError(OSError):
    """Raised if another export has taken over the lock of the output."""


class RunLock:
    def __init__(self, store: Store, output: UrlPath) -> None:
        self.path: UrlPath = output / LOCK
        self.state: RunState = RunState.of_this_process()
        self._store = store
        self._version: Mapping[str, str] = {}
        self._mutex = threading.Lock()
        self._ended = threading.Event()

    def acquire(self) -> None:
        """Acquire the lock, and start a thread that renews it. OSError: another export holds it."""
        # If a killed run holds the lock, `state.left` is set to the state of that run.
        version = self._put(None)
        if version is None:
            found = self._store.load(self.path)
            last = self._check_ended(found)
            # If the killed run `last` had taken over the lock from another killed run, `last.left` is that other run.
            # The run `last` wrote no files if `last.left` is set, because a run removes the files of `left` first.
            self.state = replace(self.state, left=last.left or last)
            version = self._put(found.version)
            if version is None:
                raise self._busy(RunState.parse(self._store.load(self.path).content, self.path))
        self._version = version
        _running.add(self.state.run)
        threading.Thread(target=self._renew_regularly, name="kafkafmt-export-lock", daemon=True).start()

    def left_behind(self) -> RunState | None:
        """Return the state of a killed run whose files must be removed, or None."""
        # OSError: another export holds the lock.
        try:
            found = self._store.load(self.path)
        except FileNotFoundError:
            return None
        last = self._check_ended(found)
        return last.left or last

    def renew(self, **changes: Any) -> None:
        """Renew the lock, and change fields of its state. LockLostError: another export has taken over the output."""
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
        """Stop renewing the lock, but do not delete it. The next export finds the lock, and removes the files of this run."""
        self._ended.set()
        _running.discard(self.state.run)

    def _is_held(self) -> bool:
        try:
            return RunState.parse(self._store.load(self.path).content, self.path).run == self.state.run
        except FileNotFoundError:
            return False

    def _put(self, version: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """Write the lock object if its version is `version` (None: if it is missing)."""
        # Return the new version, or None.
        content = self.state.to_bytes()
        try:
            return self._store.put(self.path, content, create=version is None, replaces=version)
        except OSError as error:
            with contextlib.suppress(OSError):
                found = self._store.load(self.path)
                # If the request succeeded but its response was lost, the lock object has the new content.
                if found.content == content:
                    return found.version
            if isinstance(error, FileExistsError):
                return None
            raise

    def _check_ended(self, found: StoredFile) -> RunState:
        """Return the run state that a lock file contains. If the lock's owner may still be active, raise OSError."""
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
            problem += f"; if that process was killed, repeat the export in {quantity(wait, 'second')}"
        return OSError(errno.EBUSY, problem, str(self.path.parent))

    def _server_time(self) -> int:
        """Return the current time of the object store, in nanoseconds since 1970-01-01 UTC."""
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
            except OSError:  # the failure may be temporary, so try again after RENEWAL_SECONDS
                continue

"""Write the output of an export to a bucket.

A directory in a bucket cannot be renamed. Therefore, tasks upload their files under their final
names. A name contains identifiers of the export run and of the task attempt, as in ``<first
offset>-<run>-<attempt>.parquet``, so no file replaces another file. The driver of the export does
the following:

1. Acquire the lock of the output (run_lock.py). If a killed run holds the lock, remove the files of
   that run. With `overwrite`, delete the `_SUCCESS` of the old output.
2. After all tasks have ended, change the lock, so that tasks can no longer complete a file. Check
   that each file that a successful task reported exists and has the reported size. Delete the files
   of other attempts.
3. With `overwrite`, delete the other files of the old output.
4. Upload the report. List the output again, and delete all files that do not belong to this run's
   output.
5. Renew the lock. This fails if another run has taken over the lock. Create `_SUCCESS` with a
   conditional request. Delete the lock.

If the export fails before step 3, its files are deleted, and `_SUCCESS` of the old output is
created again. If the export fails later, all files in the output are deleted. If the export is
killed, the next export to the same URL first removes the files of the killed export. Therefore,
`_SUCCESS` exists only if the output is complete.
"""

from __future__ import annotations

import contextlib
import errno
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType
from typing import Any

from ..log.repairing import OutputPlaceError
from ..log.storage import Store, Upload, store_of
from ..support.paths import UrlPath, is_url, without_secrets
from ..types import Buffer
from .errors import REMEDY, OutputExistsError, ResumeError
from .options import ExportOptions
from .output import PATHS, AttemptFiles, Output, WrittenFile
from .run_lock import CHECKING, CLOCK, FINISHING, LOCK, REPLACING, WRITING, RunLock, RunState
from .single_file import SingleFile
from .staging import Staging


@dataclass(frozen=True)
class BucketFiles(AttemptFiles):
    """Creates and removes the files that tasks of an export write to a bucket. `run` is part of their names."""

    output: UrlPath
    run: str

    def create(self, target: PurePath) -> tuple[str, Upload]:
        """Create an object with a unique name, and return its path in the output and the open object."""
        name = str(target.with_name(f"{target.stem}-{self.run}-{secrets.token_hex(4)}{target.suffix}"))
        path = self.output / name
        return name, _RunUpload(store_of(path).open_writer(path), path, self)

    def discard(self, name: str, file: Any) -> None:
        """Remove an object that `create` returned. Do nothing if the object does not exist."""
        if isinstance(file, Upload) and not file.closed:
            with contextlib.suppress(OSError):
                file.abort()
            return
        path = self.output / name
        store_of(path).delete([path])

    def check(self) -> None:
        """Check in the lock object whether tasks of this run may still write files. If not, raise OSError."""
        lock = self.output / LOCK
        with contextlib.suppress(FileNotFoundError):
            state = RunState.parse(store_of(lock).load(lock).content, lock)
            if (state.run, state.phase) == (self.run, WRITING):
                return
        raise OSError(errno.ESTALE, "the export that started this task has ended", str(self.output))


class _RunUpload(Upload):
    """An object that a task is uploading. If the run has ended, `close` discards the object."""

    def __init__(self, upload: Upload, path: UrlPath, files: BucketFiles) -> None:
        self._upload, self._path, self._files = upload, path, files

    def write(self, data: Buffer) -> int:
        return self._upload.write(data)

    def tell(self) -> int:
        return self._upload.tell()

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._files.check()
        except BaseException:
            self.abort()
            raise
        self.closed = True
        self._upload.close()
        try:
            # If the run ended during the upload, delete the object, because it is not part of the output.
            self._files.check()
        except BaseException:
            store_of(self._path).delete([self._path])
            raise

    def abort(self) -> None:
        self.closed = True
        self._upload.abort()


class BucketOutput(Output):
    def __init__(self, output: UrlPath, overwrite: bool = False) -> None:
        self.target: UrlPath = output
        self.overwrite: bool = overwrite
        self._store: Store = store_of(output)
        self._store.check_writable(output)
        self._lock = RunLock(self._store, output)
        self._expected: dict[UrlPath, int] = {}
        # Identifiers of killed runs. Tasks of these runs may still be writing files.
        self._removed: list[str] = []
        self._published = False

    @property
    def attempts(self) -> BucketFiles:
        """The object with which tasks create and remove their files."""
        return BucketFiles(self.target, self._lock.state.run)

    @property
    def _success(self) -> UrlPath:
        return self.target / str(PATHS.success)

    def check(self) -> None:
        """Raise OutputExistsError if the output exists and `overwrite` is False."""
        # Files of a killed export do not count. If another export is writing to the output, an
        # OSError is raised.
        left = self._lock.left_behind()
        if not self.overwrite and self._exists(left):
            raise OutputExistsError(self.target)

    def _exists(self, left: RunState | None) -> bool:
        """Return whether the output contains files other than those of the killed run `left`."""
        found = self._list()
        if left is None:
            return bool(found)
        if left.phase in (REPLACING, FINISHING) and self._success in found:
            return True
        return left.phase != REPLACING and any(not self._is_left(left, path) for path in found)

    def _is_left(self, state: RunState, path: UrlPath) -> bool:
        """Return whether the run with the given state wrote the file at `path`."""
        report = state.phase == FINISHING and path == self.target / str(PATHS.report)
        return report or _is_of(state.run, path)

    def __enter__(self) -> BucketOutput:
        self._lock.acquire()
        try:
            if (left := self._lock.state.left) is not None:
                self._undo(left)
                self._lock.renew(left=None)
                self._removed.append(left.run)
            found = self._list()
            if found and not self.overwrite:
                raise OutputExistsError(self.target)
            if self._success in found:
                old = self._store.load(self._success).content
                self._lock.renew(old_success=old.decode("utf-8", "replace"))
                self._store.delete([self._success])
        except BaseException:
            self._give_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._published:
            # The output is complete. If deleting the lock fails, the next export deletes the lock.
            with contextlib.suppress(OSError):
                self._lock.release()
            self._lock.abandon()
        else:
            self._give_up()

    def keep(self, files: Iterable[WrittenFile]) -> None:
        """Check the sizes of the uploaded files, and delete all other files of this run."""
        # Tasks can then write no more.
        self._lock.renew(phase=CHECKING)
        self._expected = {self.target / file.name: file.size for file in files}
        found = self._list()
        self._check(found)
        self._store.delete([p for p in found if _is_of(self._lock.state.run, p) and p not in self._expected])

    @contextmanager
    def create(self, target: PurePath) -> Iterator[Upload]:
        """Return a context manager that creates a file of the output and opens it for writing."""
        path = self.target / str(target.with_name(f"{target.stem}-{self._lock.state.run}{target.suffix}"))
        upload = self._store.open_writer(path)
        try:
            yield upload
        except BaseException:
            with contextlib.suppress(OSError):
                upload.abort()
            raise
        upload.close()
        self._expected[path] = upload.tell()

    def publish(self, report: str) -> None:
        """Delete the old output, upload the report, and create `_SUCCESS`."""
        self._lock.renew()
        old = self._unexpected()
        self._lock.renew(phase=REPLACING if old else FINISHING)
        self._store.delete([path for path in old if path == self._success])
        self._store.delete([path for path in old if path != self._success])
        content, path = report.encode(), self.target / str(PATHS.report)
        self._store.put(path, content)
        self._expected[path] = len(content)
        self._store.delete(self._unexpected())
        self._lock.renew()
        self._put_success()
        self._published = True

    def _unexpected(self) -> list[UrlPath]:
        """Check that all files of this run are complete. Return the paths of all other files in the output."""
        # If `overwrite` is False and another program wrote files to the output, raise
        # OutputExistsError.
        found = self._list()
        self._check(found)
        others = [path for path in found if path not in self._expected]
        runs = [self._lock.state.run, *self._removed]
        if not self.overwrite and not all(any(_is_of(run, path) for run in runs) for path in others):
            raise OutputExistsError(self.target, appeared=True)
        return others

    def _put_success(self) -> None:
        content = self._lock.state.run.encode()
        try:
            self._store.put(self._success, content, create=True)
        except OSError:
            with contextlib.suppress(OSError):
                # If the write succeeded and only the store's response was lost, `_SUCCESS` has the new content.
                if self._store.load(self._success).content == content:
                    return
            raise

    def _check(self, found: Mapping[UrlPath, int]) -> None:
        for path, size in self._expected.items():
            if path not in found:
                raise FileNotFoundError(errno.ENOENT, "an uploaded file is missing", str(path))
            if found[path] != size:
                raise OSError(f"{path} has {found[path]} bytes, but {size} bytes were uploaded")

    def _give_up(self) -> None:
        """Try to remove the files of this run. If an error occurs, the next export removes them."""
        with contextlib.suppress(OSError):
            # If another run has taken over the output, renew() raises an error.
            self._lock.renew()
            self._undo(self._lock.state)
            self._lock.release()
        self._lock.abandon()

    def _undo(self, state: RunState) -> None:
        """Remove the files of a run that has not published its output."""
        # If the run has removed only `_SUCCESS` from the old output, `_SUCCESS` is restored. If the
        # run has already published its output, nothing is removed.
        found = self._list()
        if state.phase in (REPLACING, FINISHING) and self._success in found:
            if self._store.load(self._success).content == state.run.encode():
                return
            self._store.delete([self._success])
        every = state.phase == REPLACING
        self._store.delete([p for p in found if p != self._success and (every or self._is_left(state, p))])
        if not every and state.old_success is not None and self._success not in found:
            with contextlib.suppress(FileExistsError):
                self._store.put(self._success, state.old_success.encode(), create=True)

    def _list(self) -> dict[UrlPath, int]:
        """Return the path and size of each file in the output. The lock is not included."""
        own = (f"{self.target}/{LOCK}", f"{self.target}/{CLOCK}")
        return {path: size for path, size in self._store.list_all(self.target).items() if not str(path).startswith(own)}


def _is_of(run: str, path: UrlPath) -> bool:
    """Return whether the name of a file contains the identifier `run` of an export run."""
    return re.search(rf"-{run}(-[0-9a-f]{{8}})?\.\w+$", path.name) is not None


def output_of(options: ExportOptions) -> Output:
    """Return the object that writes the output: to a local directory, a single file or a bucket."""
    text = str(options.output)
    if is_url(text):
        if options.resume:
            raise ResumeError(f"{without_secrets(text)}: only an output in a local directory can be resumed; {REMEDY}")
        if options.single_file:
            raise OutputPlaceError(
                without_secrets(text), "is in a bucket, but a single Parquet file can only be written locally"
            )
        return BucketOutput(UrlPath(text), options.overwrite)
    return SingleFile(options) if options.single_file else Staging(text, options.overwrite, options.resume)

"""Publish an export in a bucket.

A bucket has no directories that can be renamed. Therefore the export is staged in a local directory,
and published in these steps:

1. Create the object `_publishing` by a conditional request, which fails if the object exists. So two
   exports never publish the same output at the same time.
2. With `overwrite`, delete `_SUCCESS`, and then the other files of the old output.
3. Upload the data and quarantine files, then the report, and then `_SUCCESS`, by a conditional
   request again.
4. Delete `_publishing`.

If an error occurs, the uploaded files are deleted. If the process is killed, `_publishing` remains,
and further exports to the output are refused. So `_SUCCESS` exists only if all files are complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...log.format.stores import Store, store_of
from ...paths import Location, UrlPath, is_url
from ...threads import map_waiting
from .errors import OutputExistsError
from .layout import OutputLayout
from .staging import Staging

PUBLISHING = "_publishing"


class BucketStaging(Staging):
    """Context manager for the staging directory of an export whose output is in a bucket.

    The directory is a new one in the directory for temporary files (``TMPDIR``), which every
    executor must see. When the context ends, it is removed.

    Raises
    ------
    SchemeError
        No package can write to URLs with the scheme.
    """

    def __init__(self, output: UrlPath, overwrite: bool = False) -> None:
        super().__init__(os.path.join(tempfile.gettempdir(), "kafkafmt-export"), overwrite)
        self.target: Location = output
        self._place = output
        self._store: Store = store_of(output)
        self._store.check_writable(output)

    def check(self) -> None:
        """Raise OutputExistsError if the output contains a file and `overwrite` is False."""
        if not self.overwrite and self._existing():
            raise OutputExistsError(self._place)

    def __enter__(self) -> BucketStaging:
        self.check()
        self.path: Path = Path(tempfile.mkdtemp(prefix="kafkafmt-export-"))
        os.mkdir(self.layout.attempts)
        return self

    def publish(self) -> None:
        """Upload all files of the staging directory, and then `_SUCCESS`."""
        claim, run = self._place / PUBLISHING, secrets.token_hex(8).encode()
        try:
            self._store.put(claim, run, create=True)
        except FileExistsError:
            what = "another export is publishing this output, or was killed while it did; if it was killed, delete"
            raise OSError(errno.EBUSY, f"{what} this object and the files next to it", str(claim)) from None
        uploaded: list[UrlPath] = []
        try:
            old = [path for path in self._existing() if path != claim]
            if old and not self.overwrite:
                raise OutputExistsError(self._place, appeared=True)
            success = self._target(OutputLayout(self.path).success)
            self._store.delete([path for path in old if path == success])
            self._store.delete([path for path in old if path != success])
            for files in self._steps():
                uploaded += map(self._target, files)
                for _ in map_waiting(self._upload, files, waits=True):
                    pass
            uploaded.append(success)
            self._store.put(success, b"", create=True)
        except BaseException:
            with contextlib.suppress(OSError):
                self._store.delete(uploaded[::-1])  # `_SUCCESS` first, if its request failed after it was done
                self._store.delete([claim])
            raise
        self._store.delete([claim])

    def _existing(self) -> Sequence[UrlPath]:
        return self._store.list_all(self._place)

    def _steps(self) -> list[list[Path]]:
        """Return the files to upload, in two steps: the data and quarantine files, and then the report."""
        found = sorted(path for path in self.path.rglob("*") if path.is_file())
        report = self.layout.report
        return [[path for path in found if path != report], [path for path in found if path == report]]

    def _target(self, path: Path) -> UrlPath:
        target = self._place
        for part in path.relative_to(self.path).parts:
            target /= part
        return target

    def _upload(self, path: Path) -> None:
        self._store.put(self._target(path), path)


def staging_of(output: str | os.PathLike[str] | UrlPath, overwrite: bool) -> Staging:
    """Return the staging of an output, which is a local directory or the URL of a directory in a bucket."""
    text = str(output)
    if is_url(text):
        return BucketStaging(UrlPath(text), overwrite)
    return Staging(text, overwrite)

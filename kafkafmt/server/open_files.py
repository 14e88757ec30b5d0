"""Keep a limited number of segments open between requests."""

from __future__ import annotations

import errno
import os
import resource
from collections import OrderedDict
from threading import Lock

from ..log.storage import FileView
from ..support.paths import Location, UrlPath

MOST_DESCRIPTORS = 1 << 20


class OpenSegment:
    """A segment file that is open, so that its bytes can be sent to clients."""

    # The descriptor is -1 and the inode is 0 if the file is not local.

    def __init__(self, path: Location) -> None:
        self.path: Location = path
        self.view: FileView = FileView(path)
        self.descriptor: int = self.view.fileno()
        local = self.descriptor >= 0 and not isinstance(path, UrlPath)
        self.inode: int = os.fstat(self.descriptor).st_ino if local else 0
        self.users = 0
        self.removed = False
        """Whether `OpenFiles` no longer contains the file, so that the last user closes it."""

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes of the file, or fewer at its end. The file may have grown since it was opened."""
        handle = self.descriptor
        return os.pread(handle, size, position) if handle >= 0 else self.view.read(position, size)


def inode_of(path: Location) -> int:
    """Return the inode of a file, or 0 if the file is not local or does not exist."""
    if isinstance(path, UrlPath):
        return 0
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def descriptor_limit() -> int:
    """Return how many file descriptors the process can have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


class OpenFiles:
    """The open segments. The least recently used of more than `capacity` are closed. Threads may share the object."""

    # The capacity is at most a quarter of the file descriptors that the process can have.

    def __init__(self, capacity: int) -> None:
        self._capacity = min(capacity, descriptor_limit() // 4)
        self._files: OrderedDict[Location, OpenSegment] = OrderedDict()
        self._latest: tuple[Location | None, OpenSegment | None] = None, None
        """The last argument and the last result of `acquire`. Most calls have the same argument again."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._files)

    def acquire(self, path: Location, inode: int) -> OpenSegment:
        """Open a segment if it is not open or has another inode. The caller must pass the result to `release`."""
        with self._lock:
            latest, found = self._latest
            if latest is path and found is not None and found.inode == inode and not found.removed:
                found.users += 1
                return found
            found = self._files.get(path)
            if found is not None and inode and found.inode != inode:
                del self._files[path]
                self._remove(found)
                found = None
            if found is None:
                found = self._files[path] = self._open(path)
            self._files.move_to_end(path)
            found.users += 1
            self._latest = path, found
            while len(self._files) > self._capacity:
                oldest = next(iter(self._files))
                if oldest is found.path:
                    break
                self._remove(self._files.pop(oldest))
            return found

    def release(self, file: OpenSegment) -> None:
        """Release a file that `acquire` has returned."""
        with self._lock:
            file.users -= 1
            if file.removed:
                self._remove(file)

    def close_deleted(self) -> None:
        """Close the unused files that were deleted, renamed or replaced since they were opened."""
        with self._lock:
            known = list(self._files.items())
        deleted = [(path, file) for path, file in known if file.inode and inode_of(path) != file.inode]
        with self._lock:
            for path, file in deleted:
                if self._files.get(path) is file:
                    del self._files[path]
                    self._remove(file)

    def _open(self, path: Location) -> OpenSegment:
        """Open a file. If the process has too many open files, close the unused ones, and try again."""
        try:
            return OpenSegment(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            for known in [known for known, file in self._files.items() if not file.users]:
                self._remove(self._files.pop(known))
            return OpenSegment(path)

    def close(self) -> None:
        """Close all unused files. A file that is in use is closed when it is released."""
        with self._lock:
            files, self._files = list(self._files.values()), OrderedDict()
            for file in files:
                self._remove(file)

    @staticmethod
    def _remove(file: OpenSegment) -> None:
        """Close a file that was removed from `_files`, unless it is in use."""
        file.removed = True
        if not file.users:
            file.view.close()

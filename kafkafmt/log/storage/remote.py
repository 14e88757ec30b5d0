"""Read files over a network. Byte ranges are requested in parallel, and before they are needed.

The first byte of a response takes 10 to 100 ms. Therefore, a small read fetches more bytes than the
caller needs, and during sequential reads, several large requests are in flight.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from ...support.paths import UrlPath
from ...types import Buffer, byte_view
from .process import ForkSafeLock, WrongProcessError
from .stores import store_of

FIRST_BYTES = 64 << 10  # number of bytes that are fetched when a file is opened, unless the caller names another number
LEAST_BYTES = 256 << 10  # smallest number of bytes that a read fetches
WHOLE_BYTES = 4 << 20  # maximum size in bytes of a file that the first read fetches completely
REQUEST_BYTES = 4 << 20
"""Largest number of bytes in one request. Requests of 8 MB reduce the throughput by 10 % and use more CPU time."""
AHEAD_BYTES = 128 << 20  # bytes that are requested in advance in a sequential read: 2.5 GB/s if a request takes 50 ms
KEPT_BYTES = 4 << 20  # number of fetched bytes that are kept in memory after a sequential reader has read them
KEPT_BLOCKS = 64  # largest number of fetched byte ranges that are kept in memory if a file is not read sequentially
THREADS = 32
FREED_BYTES = (32 << 20) - (64 << 10)
"""Size of a block that is allocated and freed once. glibc then raises its thresholds. It ignores larger blocks."""

_pools: dict[int, ThreadPoolExecutor] = {}
_opened: dict[tuple[int, UrlPath], Future[RemoteFile]] = {}
_lock = ForkSafeLock()


def _pool() -> ThreadPoolExecutor:
    """Return the thread pool that sends the requests of this process."""
    with _lock:
        process = os.getpid()  # threads do not survive a fork
        if process not in _pools:
            _pools.clear()
            _keep_freed_pages()
            _pools[process] = ThreadPoolExecutor(THREADS, "kafkafmt-read")
        return _pools[process]


def _keep_freed_pages() -> None:
    """Let malloc reuse the pages of large blocks that were freed."""
    # By default, glibc returns most blocks of 4 MB, and new pages take up to 0.2 s of CPU time per GB. After a block of
    # 32 MB was freed, glibc keeps up to 64 MB of unused memory at the end of each heap.
    np.empty(FREED_BYTES, np.uint8)  # this array is freed immediately, and none of its pages is allocated


def open_ahead(path: UrlPath, first_bytes: int) -> None:
    """Open a file and fetch its first bytes in a background thread. `open_file` later returns this file."""
    key = os.getpid(), path
    pool = _pool()
    with _lock:
        if key not in _opened:
            _opened[key] = pool.submit(RemoteFile, path, first_bytes)


def fetch_ahead(path: UrlPath, size: int) -> None:
    """Request the first `size` bytes of a file that `open_ahead` has opened. If the file is not open, do nothing."""
    key = os.getpid(), path
    with _lock:
        found = _opened.pop(key, None)  # remove the file, so that no other thread uses it at the same time
    if found is None:
        return
    if found.done() and found.exception() is None:
        found.result().fetch(0, min(size, found.result().size))
    with _lock:
        kept = _opened.setdefault(key, found)
    if kept is not found:
        found.add_done_callback(_close)


def forget_ahead(path: UrlPath) -> None:
    """Close a file that `open_ahead` has opened. If `open_file` has already returned it, do nothing."""
    with _lock:
        found = _opened.pop((os.getpid(), path), None)
    if found is not None and not found.cancel():
        found.add_done_callback(_close)


def open_file(path: UrlPath) -> RemoteFile:
    """Open a file. If `open_ahead` has already opened it, return that file. A missing file raises FileNotFoundError."""
    with _lock:
        found = _opened.pop((os.getpid(), path), None)
    return RemoteFile(path) if found is None else found.result()


def _close(file: Future[RemoteFile]) -> None:
    if file.exception() is None:
        file.result().close()


class _Block:
    """A byte range of a file that was fetched, or is being fetched."""

    __slots__ = ("data", "end", "start")

    def __init__(self, start: int, end: int, data: Future[Buffer] | Buffer) -> None:
        self.start, self.end, self.data = start, end, data

    def bytes(self) -> memoryview:
        if isinstance(self.data, Future):
            self.data = self.data.result()
        return byte_view(self.data)


class RemoteFile:
    """A file on a server or in an object store. Reading the file sends requests for byte ranges."""

    def __init__(self, path: UrlPath, first_bytes: int = FIRST_BYTES) -> None:
        self._path = path
        self._process = os.getpid()
        self._store = store_of(path)
        status, data = self._store.begin(path, first_bytes)
        self.size: int = status.size
        self._version = status.version
        self.requests: int = 1
        self.bytes_fetched: int = len(first := byte_view(data))
        self._blocks: list[_Block] = [_Block(0, len(first), first)] if len(first) else []
        self._expected = (0, 0)
        self._read_to = -1
        self._ahead = 0

    def expect(self, start: int, end: int) -> None:
        """Prepare for sequential reads of the bytes [start, end): request bytes before they are read."""
        self._expected = start, min(end, self.size)

    def read_into(self, target: memoryview, position: int) -> int:
        """Fill `target` from `position`, and return the number of bytes: fewer only at the end of the file."""
        # WrongProcessError: this process was forked after the file was opened. Requests would never complete here.
        if os.getpid() != self._process:
            store_of(self._path)  # for an object store, this call raises an error that names the remedy
            raise WrongProcessError(
                f"{self._path} was opened in process {self._process} and cannot be read in process {os.getpid()}; "
                "open the log in the process that reads, after the fork"
            )
        end = min(position + len(target), self.size)
        if position >= end:
            return 0
        self._request(position, end)
        at = position
        while at < end:
            block = self._block_at(at)
            if block is None:
                # If a read needs many blocks, some may have been discarded already. Request the missing bytes again.
                self.fetch(at, end)
                continue
            data = block.bytes()[at - block.start : end - block.start]
            if not len(data):  # the file has been truncated
                break
            target[at - position : at - position + len(data)] = data
            at += len(data)
        self._read_to = at
        return at - position

    def close(self) -> None:
        """Cancel the requests that have not begun."""
        for block in self._blocks:
            if isinstance(block.data, Future):
                block.data.cancel()
        self._blocks = []

    def _request(self, start: int, end: int) -> None:
        """Request those bytes of [start, end) that are not in memory, and bytes that will probably be read next."""
        low, high = self._expected
        if low <= start < high:
            self._forget(start - KEPT_BYTES)
            self._extend(start, max(end, min(high, end + AHEAD_BYTES)), min(REQUEST_BYTES, high - end))
        elif self.size <= WHOLE_BYTES:
            self.fetch(0, self.size)
        elif self._read_to - LEAST_BYTES <= start <= self._read_to + LEAST_BYTES:
            self._ahead = min(max(2 * self._ahead, LEAST_BYTES), AHEAD_BYTES)
            self._forget(start - KEPT_BYTES)
            self._extend(start, min(self.size, end + self._ahead), self._ahead // 2)
        else:
            self._ahead = 0
            del self._blocks[:-KEPT_BLOCKS]
            self.fetch(start, max(end, min(start + LEAST_BYTES, self.size)))

    def _extend(self, start: int, end: int, least: int) -> None:
        """Request the bytes of [start, end) that are missing, but usually not if they are fewer than `least`."""
        # Each request takes long. Smaller ones are sent only at the end of the file or of an expected range.
        reached = start
        while (block := self._block_at(reached)) is not None:
            reached = block.end
        if reached < end and (end - reached >= least or end in (self.size, self._expected[1])):
            self.fetch(reached, end)

    def fetch(self, start: int, end: int) -> None:
        while start < end:
            block = self._block_at(start)
            if block is not None:
                start = block.end
                continue
            i = bisect_right(self._blocks, start, key=lambda b: b.start)
            stop = min(end, start + REQUEST_BYTES, *(b.start for b in self._blocks[i : i + 1]))
            self._blocks.insert(i, _Block(start, stop, _pool().submit(self._read, start, stop)))
            self.requests += 1
            self.bytes_fetched += stop - start
            start = stop

    def _read(self, start: int, end: int) -> Buffer:
        return self._store.read(self._path, start, end, self._version)

    def _block_at(self, position: int) -> _Block | None:
        i = bisect_right(self._blocks, position, key=lambda b: b.start) - 1
        return self._blocks[i] if i >= 0 and position < self._blocks[i].end else None

    def _forget(self, position: int) -> None:
        """Discard fetched blocks that end at or before a position."""
        while self._blocks and self._blocks[0].end <= position:
            self._blocks.pop(0)

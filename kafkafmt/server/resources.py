"""Share caches, open files and partition readers between the partitions of a server."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Generator
from threading import Lock

from ..log.reading import Part
from .checked_batches import BatchCache
from .log_starts import LogStarts
from .open_files import OpenFiles

MOST_READERS = 12
"""Largest number of partition readers that are kept open. Each reader has a buffer of about 4 MiB."""

IDLE_READER = 30.0
"""Seconds after which an unused reader is closed. An open one keeps the space of a deleted segment."""


class Reader:
    """Reader of one partition, which returns checked batches in offset order."""

    def __init__(self, at: int, parts: Generator[Part, None, None]) -> None:
        self.at = at  # the offset after the last batch that was returned
        self.parts = parts  # the next batches; can keep a segment open
        self.used: float = time.monotonic()  # latest use, on the monotonic clock


class Readers:
    """Cache of partition readers. If it is full, the least recently used reader is closed."""

    def __init__(self, capacity: int = MOST_READERS) -> None:
        self._capacity = capacity
        self._readers: OrderedDict[int, Reader] = OrderedDict()
        self._lock = Lock()

    def take(self, owner: object) -> Reader | None:
        """Remove and return the reader of a partition, or return None if there is none."""
        with self._lock:
            return self._readers.pop(id(owner), None)

    def keep(self, owner: object, reader: Reader) -> None:
        """Store the reader of a partition until the next request for the partition."""
        with self._lock:
            reader.used = time.monotonic()
            closed = [self._readers.pop(id(owner), None)]
            self._readers[id(owner)] = reader
            while len(self._readers) > self._capacity:
                closed.append(self._readers.popitem(last=False)[1])
        for old in closed:
            if old is not None:
                old.parts.close()

    def close_unused(self) -> None:
        """Close the readers that have not been used for IDLE_READER seconds."""
        oldest = time.monotonic() - IDLE_READER
        with self._lock:
            unused = [key for key, reader in self._readers.items() if reader.used < oldest]
            readers = [self._readers.pop(key) for key in unused]
        for reader in readers:
            reader.parts.close()

    def drop(self, owner: object) -> None:
        reader = self.take(owner)
        if reader is not None:
            reader.parts.close()

    def close(self) -> None:
        with self._lock:
            readers, self._readers = list(self._readers.values()), OrderedDict()
        for reader in readers:
            reader.parts.close()


class Resources:
    """The open files, cached batches and partition readers of a server."""

    def __init__(self, max_open_files: int) -> None:
        self.files: OpenFiles = OpenFiles(max_open_files)
        self.batches: BatchCache = BatchCache()
        self.readers: Readers = Readers()
        self.log_starts: LogStarts = LogStarts()

    def close_unused(self) -> None:
        """Close unused readers and deleted files, so that the file system can free the space of deleted files."""
        self.readers.close_unused()
        self.files.close_deleted()

    def close(self) -> None:
        self.readers.close()
        self.files.close()

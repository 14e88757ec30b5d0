"""Share the memory and the open files of a server between its partitions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator
from threading import Lock

from ..log.reading.part import Part
from .checked_batches import BatchCache
from .open_files import OpenFiles

MOST_READERS = 12
"""Largest number of readers that are kept between requests. Each keeps a buffer of about 4 MiB."""


class Reader:
    """Reads and checks the batches of one partition in order.

    Attributes
    ----------
    at : int
        The offset after the batches that were read.
    parts : generator of Part
        Reads the next batches.
    """

    def __init__(self, at: int, parts: Generator[Part, None, None]) -> None:
        self.at = at
        self.parts = parts


class Readers:
    """The readers of all partitions, of which the least recently used ones are closed."""

    def __init__(self, capacity: int = MOST_READERS) -> None:
        self._capacity = capacity
        self._readers: OrderedDict[int, Reader] = OrderedDict()
        self._lock = Lock()

    def take(self, owner: object) -> Reader | None:
        """Return and remove the reader of a partition, or return None. Only one thread uses it then."""
        with self._lock:
            return self._readers.pop(id(owner), None)

    def keep(self, owner: object, reader: Reader) -> None:
        """Keep the reader of a partition for its next request."""
        with self._lock:
            closed = [self._readers.pop(id(owner), None)]
            self._readers[id(owner)] = reader
            while len(self._readers) > self._capacity:
                closed.append(self._readers.popitem(last=False)[1])
        for old in closed:
            if old is not None:
                old.parts.close()

    def drop(self, owner: object) -> None:
        """Close the reader of a partition."""
        reader = self.take(owner)
        if reader is not None:
            reader.parts.close()

    def close(self) -> None:
        """Close all readers."""
        with self._lock:
            readers, self._readers = list(self._readers.values()), OrderedDict()
        for reader in readers:
            reader.parts.close()


class Resources:
    """The open files, the remembered batches and the readers of a server.

    Parameters
    ----------
    max_open_files : int
        Largest number of segments that are kept open for sending.
    """

    def __init__(self, max_open_files: int) -> None:
        self.files: OpenFiles = OpenFiles(max_open_files)
        self.batches: BatchCache = BatchCache()
        self.readers: Readers = Readers()

    def close(self) -> None:
        """Close all files."""
        self.readers.close()
        self.files.close()

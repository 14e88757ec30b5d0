"""Run a check over many partitions in threads, and collect messages and unreadable partitions.

Each call of `verify`, `salvage` or `describe` creates one `Run`. If a partition cannot be read, the
run continues with the other partitions, because a failing disk rarely affects all of them.

A thread processes one partition. Other threads read the next segments of the partition in advance,
or decode the batches that it has read, so that one partition can use all cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event, RLock
from typing import TypeVar

from ...support import arguments
from ...support.paths import Location
from ...support.threads import StoppablePool, wait_for_turn
from ..catalog import Discovery, PartitionDir, SegmentFile, Sources, choose_partitions, resolve
from ..reading import discover
from .reports import UnreadablePartition

Progress = Callable[[int, int], None]  # A function called as ``progress(done, total)``. Both numbers are bytes.
OnMessage = Callable[[str], None]
Globs = str | Iterable[str]
Numbers = int | Iterable[int]
Item = TypeVar("Item")
Result = TypeVar("Result")
SMALL_SEGMENT = 1 << 20
"""Size in bytes. If the first segment is smaller, one thread reads all segments, because passing them on takes longer."""


def globs_of(topics: Globs | None) -> list[str]:
    """Return the argument `topics` as a list. An iterator can be read only once, so call this function once."""
    return [] if topics is None else [topics] if isinstance(topics, str) else list(topics)


def numbers_of(partitions: Numbers | None) -> list[int]:
    """Return the argument `partitions` as a list of checked numbers. Call this function only once."""
    given = [] if partitions is None else [partitions] if isinstance(partitions, int) else list(partitions)
    return [arguments.integer("partitions", n, 0) for n in given]


class StoppedError(Exception):
    """Raised in a worker thread if another thread has failed or the user has pressed Ctrl-C."""


def error_text(error: OSError) -> str:
    """Return a message that names the file that could not be read or written, and gives the reason."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error.strerror or str(error)


def read_in_turn(
    read: Callable[[SegmentFile], Result], segments: Iterable[SegmentFile]
) -> Generator[Callable[[], Result], None, None]:
    """Yield a function for each segment that returns `read(segment)`, without other threads."""
    for segment in segments:
        yield partial(read, segment)


class Run:
    """The state that all threads of one call share: progress, messages and unreadable partitions."""

    # The callback functions are called from worker threads, but never from two threads at the same time.

    def __init__(self, progress: Progress | None = None, on_message: OnMessage | None = None) -> None:
        self._total = 0
        self.messages: list[str] = []
        self._unreadable: list[UnreadablePartition] = []
        self._done = 0
        self._progress = progress
        self._on_message = on_message
        self._lock = RLock()
        self._stopped = Event()
        self._callback_error: Exception | None = None
        self._count = 1
        self._active = 0
        """Number of calls of the function of `map` that are running."""
        self._readers: StoppablePool | None = None
        """Threads that read segments or decode batches for the threads of `map`."""

    def begin(self, sizes: Iterable[int]) -> None:
        """Set the sizes of the files to process, in bytes, and report a progress of 0 bytes."""
        # If no progress is reported, `sizes` is not read, because each size can take a system call.
        if self._progress is not None:
            self._total = sum(sizes)
        self.advance(0)

    def advance(self, n: int) -> None:
        """Report that `n` more bytes were processed. Raise `StoppedError` if the thread must stop."""
        if self._stopped.is_set():
            raise StoppedError
        with self._lock:
            self._done += n
            if self._progress is not None:
                with self._callback():
                    self._progress(min(self._done, self._total), self._total)

    def tell(self, message: str) -> None:
        """Add a message to `messages`, and call `on_message` with it."""
        wait_for_turn()  # messages of a partition are in the order of its segments
        with self._lock, self._callback():
            self.messages.append(message)
            if self._on_message is not None:
                self._on_message(message)

    @contextmanager
    def _callback(self) -> Iterator[None]:
        """Store an error of one of the caller's callback functions. `reading` re-raises it: it is not a read error."""
        try:
            yield
        except Exception as error:
            self._callback_error = error
            raise

    @property
    def unreadable(self) -> list[UnreadablePartition]:
        """Unreadable partitions and files, ordered by topic, partition and path."""
        return sorted(self._unreadable, key=lambda u: (u.topic or "", u.partition or 0, u.path))

    def note(self, directory: PartitionDir | None, path: Location, why: str) -> None:
        """Report why a file in `directory`, or directly in a log directory (None), is not read."""
        self.tell(f"{path}: {why}")
        topic, partition = (None, None) if directory is None else directory.key
        with self._lock:
            self._unreadable.append(UnreadablePartition(topic, partition, str(path), why))

    @contextmanager
    def reading(self, directory: PartitionDir, passes: Callable[[OSError], bool] = lambda _: False) -> Iterator[None]:
        """Report the partition as unreadable if the `with` block raises an OSError, unless `passes(error)` is True."""
        try:
            yield
        except OSError as error:
            if error is self._callback_error or passes(error):
                raise
            why = error_text(error)
            self.tell(f"{directory.topic}-{directory.partition} cannot be read: {why}")
            with self._lock:
                self._unreadable.append(UnreadablePartition(*directory.key, str(directory.path), why))

    def map(
        self, function: Callable[[Item], Result | None], items: Iterable[Item], threads: int | None, wait: bool = False
    ) -> list[Result]:
        """Call a function for all items in threads, and return the results that are not None, in item order."""
        # After an exception or Ctrl-C, the other threads stop at their next call of `advance`. Only with `wait` does
        # `map` wait for them before it re-raises the exception.
        self._count = self.threads(threads)

        def call(item: Item) -> Result | None:
            with self._lock:
                self._active += 1
            try:
                return function(item)
            finally:
                with self._lock:
                    self._active -= 1

        pool = StoppablePool(self._count)
        self._readers = StoppablePool(self._count, "kafkafmt-segment")
        try:
            results = [result for result in pool.map(call, items) if result is not None]
        except BaseException:
            self._stopped.set()
            self._readers.stop(False)
            pool.stop(wait)
            if wait:
                self._readers.stop(wait)
            raise
        pool.shutdown()
        self._readers.shutdown()
        self._readers = None
        return results

    def read_ahead(
        self, read: Callable[[SegmentFile], Result], segments: Sequence[SegmentFile]
    ) -> Generator[Callable[[], Result], None, None]:
        """Yield a function for each segment of a partition that returns `read(segment)`. Close this iterator."""
        if len(segments) < 2 or segments[0].size < SMALL_SEGMENT:
            return read_in_turn(read, segments)
        return self.ahead(read, segments) or read_in_turn(read, segments)

    def ahead(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[Callable[[], Result], None, None] | None:
        """Yield a function for each item of a partition that returns `function(item)`. Return None without threads."""
        # All partitions share these threads. There are as many as those of `map`, which wait for them meanwhile. All
        # partitions together hold about as many results.
        if self._readers is None or self._count < 2:
            return None
        return self._readers.ahead(function, items, lambda: max(self._count // self._active, 1))

    @staticmethod
    def threads(threads: int | None) -> int:
        """Return the number of threads to use. If `threads` is None, this is the number of cores."""
        given = arguments.optional_integer("threads", threads, 1)
        return given if given is not None else os.cpu_count() or 1

    def find(self, sources: Sources, replicas: str | None, every_replica: bool = False) -> Discovery:
        """Return the partitions in the paths; with `every_replica`, all directories of a partition in several paths."""
        found = discover(*resolve(sources, replicas), every_replica=every_replica)
        for message in found.messages:
            self.tell(message)
        return found

    def choose(
        self, found: Discovery, topics: Globs | None, partitions: Numbers | None, every_state: bool = False
    ) -> list[PartitionDir]:
        """Return the selected partitions, including partitions of internal topics."""
        return choose_partitions(
            found, globs_of(topics), numbers_of(partitions), every_state=every_state, on_message=self.tell
        )

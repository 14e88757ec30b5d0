"""Read several iterators in threads, and yield their items from one iterator.

A source is a function that returns an iterator. Worker threads start the sources in order. Each
thread reads one source at a time. Until items are yielded, they wait in queues, called lanes:

- If `ordered` is True, each source has its own lane. The items of a source are yielded after all
  items of the previous sources.
- If `ordered` is False, all sources share one lane. Items are yielded in the order in which they
  arrive. The items of each source stay in order.

At most `limit` items wait. There is one exception: if the lane from which the consumer reads is
empty, an item can always be added to this lane. Otherwise, items of later sources could block the
source that the consumer waits for. In addition, each worker holds the last item that it has read.
Therefore, the number of items in memory depends only on the number of threads.

The workers are daemon threads, so that a program can end before it has read all items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Condition, Thread
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

WAITING_PER_THREAD = 2
"""Number of items that can wait to be yielded, per worker thread."""


def read_parallel(sources: Sequence[Callable[[], Iterable[T]]], threads: int, ordered: bool = True) -> Iterator[T]:
    """Yield the items of all sources. At most `threads` threads read the sources."""
    # If a source raises an error, the items that it has already produced are yielded first; if
    # `ordered` is True, also all items of the previous sources. After an error, or when the
    # generator is closed, each worker ends at its next item. The generator waits until all workers
    # have ended.
    workers = min(threads, len(sources))
    lanes = _Lanes(sources, WAITING_PER_THREAD * workers, ordered)
    started: list[Thread] = []
    try:
        for number in range(workers):
            thread = Thread(target=lanes.work, name=f"kafkafmt-reader-{number}", daemon=True)
            thread.start()
            started.append(thread)
        yield from lanes.items()
    finally:
        lanes.stop()
        for thread in started:
            thread.join()


class _Failure(NamedTuple):
    """An error that a source has raised. It is added to the queue after the items of the source."""

    error: BaseException


class _Lanes(Generic[T]):
    """Queues between the worker threads, which read items, and the consumer, which yields the items."""

    def __init__(self, sources: Sequence[Callable[[], Iterable[T]]], limit: int, ordered: bool) -> None:
        self._sources = sources
        self._limit = limit
        self._ordered = ordered
        self._changed = Condition()
        lanes = len(sources) if ordered else min(len(sources), 1)
        self._lanes: list[deque[T | _Failure]] = [deque() for _ in range(lanes)]
        self._unfinished = [1] * len(sources) if ordered else [len(sources)]
        """For each lane (a queue of items), the number of sources that have not ended."""
        self._next_source = 0
        self._current_lane = 0
        self._waiting = 0
        self._stopped = False

    def work(self) -> None:
        """Read one source after another. Each worker thread runs this method."""
        while (index := self._take_source()) is not None:
            lane = index if self._ordered else 0
            failure: _Failure | None = None
            try:
                self._read(lane, self._sources[index])
            except BaseException as error:
                failure = _Failure(error)
            with self._changed:
                if failure is not None:
                    self._lanes[lane].append(failure)
                    self._waiting += 1
                self._unfinished[lane] -= 1
                self._changed.notify_all()

    def _take_source(self) -> int | None:
        with self._changed:
            if self._stopped or self._next_source == len(self._sources):
                return None
            self._next_source += 1
            return self._next_source - 1

    def _read(self, lane: int, source: Callable[[], Iterable[T]]) -> None:
        items = source()
        try:
            for item in items:
                if not self._put(lane, item):
                    return
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def _put(self, lane: int, item: T) -> bool:
        """Wait until a lane (a queue of items) has space, and add the item. Return False if `stop` is called first."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._fits(lane))
            if self._stopped:
                return False
            self._lanes[lane].append(item)
            self._waiting += 1
            self._changed.notify_all()
            return True

    def _fits(self, lane: int) -> bool:
        return self._waiting < self._limit or (lane == self._current_lane and not self._lanes[lane])

    def items(self) -> Iterator[T]:
        """Yield all items, one lane (a queue of items) after another. Raise the error of a source after its items."""
        for number, lane in enumerate(self._lanes):
            while True:
                with self._changed:
                    while not lane and self._unfinished[number]:
                        self._changed.wait()
                    if not lane:
                        self._current_lane = number + 1
                        self._changed.notify_all()
                        break
                    item = lane.popleft()
                    self._waiting -= 1
                    self._changed.notify_all()
                if isinstance(item, _Failure):
                    raise item.error
                yield item
                del item

    def stop(self) -> None:
        """Stop all worker threads. A thread that is reading an item ends after it has read this item."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

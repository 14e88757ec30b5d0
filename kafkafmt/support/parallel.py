"""Read several sources in threads, and yield their items from one iterator.

A source is a function that returns an iterator of pieces, and a piece is a function that returns an
iterator of items. One thread at a time asks a source for its next piece. Several threads work on
the pieces of a source at the same time. Therefore, all threads can work on one source.

A thread that has no work takes the next piece of the first source that no other thread asks at this
moment. Threads take pieces of the current source, from which items are yielded, and begin a few
pieces of later sources only if another thread asks the current one:

- If `ordered` is True, the items of a source are yielded after all items of the previous sources.
- If `ordered` is False, items of all sources are yielded in the order in which they arrive.

In both cases, the items of each source stay in order.

At most `limit` items wait to be yielded. There is one exception: if the consumer waits for items of
a piece, an item can always be added to this piece. Otherwise, items of later pieces could block the
piece that the consumer waits for. In addition, each thread holds the last item that it has read.
Therefore, the number of items in memory depends only on the number of threads.

The workers are daemon threads, so that a program can end before it has read all items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Condition, Thread
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
Piece = Callable[[], Iterable[T]]
Source = Callable[[], Iterable[Piece[T]]]

WAITING_PER_THREAD = 2
"""Number of items that can wait to be yielded, per worker thread."""


def read_parallel(sources: Sequence[Source[T]], threads: int, ordered: bool = True) -> Iterator[T]:
    """Yield the items of all sources. At most `threads` threads read the sources."""
    # If a source or a piece raises an error, all items before it are yielded first. After an error,
    # or when the generator is closed, each worker ends at its next item. The generator waits until
    # all workers have ended.
    lanes = _Lanes(sources, threads, ordered)
    try:
        for _ in sources[:threads]:
            lanes.start()
        yield from lanes.items()
    finally:
        lanes.stop()


class _Failure(NamedTuple):
    """An error that a source or a piece has raised. It follows the items that were read before."""

    error: BaseException


class _Lane(Generic[T]):
    """The items of a piece that wait to be yielded."""

    def __init__(self) -> None:
        self.items: deque[T | _Failure] = deque()
        self.ended = False


class _Open(Generic[T]):
    """A source, and the lanes of the pieces that have been taken from it."""

    def __init__(self, source: Source[T]) -> None:
        self.source = source
        self.pieces: Iterator[Piece[T]] | None = None
        self.lanes: deque[_Lane[T]] = deque()
        self.busy = False
        """Whether a thread asks for the next piece."""
        self.ended = False

    def take(self) -> Piece[T] | None:
        """Return the next piece, or None. Only one thread at a time calls this method."""
        if self.pieces is None:
            self.pieces = iter(self.source())
        return next(self.pieces, None)


class _Lanes(Generic[T]):
    """Queues between the worker threads, which read items, and the consumer, which yields the items."""

    def __init__(self, sources: Sequence[Source[T]], threads: int, ordered: bool) -> None:
        self._left: deque[_Open[T]] = deque(map(_Open, sources))
        """The sources from which not all items have been yielded. The first one is the current source."""
        self._all = list(self._left)
        self._threads: list[Thread] = []
        self._most_threads = threads
        self._limit = WAITING_PER_THREAD * threads
        self._ordered = ordered
        self._changed = Condition()
        self._waiting = 0
        self._stopped = False

    def start(self) -> None:
        """Start one more worker thread, unless there are enough."""
        with self._changed:
            if not self._stopped and len(self._threads) < self._most_threads:
                name = f"kafkafmt-reader-{len(self._threads)}"
                self._threads.append(Thread(target=self.work, name=name, daemon=True))
                self._threads[-1].start()

    def work(self) -> None:
        """Work on one piece after another. Each worker thread runs this method."""
        while (found := self._begin()) is not None:
            source, lane = found
            try:
                piece = source.take()
            except BaseException as error:
                self._end(source, lane, _Failure(error), last=True)
                continue
            if piece is None:
                self._end(source, lane, last=True)
                continue
            with self._changed:
                source.busy = False
                self._changed.notify_all()
            self.start()  # the source may have more pieces
            try:
                self._read(source, lane, piece)
            except BaseException as error:
                self._end(source, lane, _Failure(error))
            else:
                self._end(source, lane)
            del found, source, lane, piece

    def _begin(self) -> tuple[_Open[T], _Lane[T]] | None:
        """Choose the source to ask, and add the lane of its next piece. Return None if there is no work left."""
        with self._changed:
            while not self._stopped:
                source = self._free()
                if source is not None:
                    source.busy = True
                    lane: _Lane[T] = _Lane()
                    source.lanes.append(lane)
                    return source, lane
                if all(source.ended for source in self._left):
                    break
                self._changed.wait()
        return None

    def _free(self) -> _Open[T] | None:
        """Return the first source that can be asked."""
        begun = 0
        for number, source in enumerate(self._left):
            begun += len(source.lanes) if number else 0
            if begun >= self._most_threads:
                return None
            if not source.busy and not source.ended:
                return source
        return None

    def _read(self, source: _Open[T], lane: _Lane[T], piece: Piece[T]) -> None:
        items = piece()
        try:
            for item in items:
                if not self._put(source, lane, item):
                    return
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def _put(self, source: _Open[T], lane: _Lane[T], item: T) -> bool:
        """Wait until there is space, and add an item to a lane. Return False if `stop` is called first."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._fits(source, lane))
            if self._stopped:
                return False
            lane.items.append(item)
            self._waiting += 1
            self._changed.notify_all()
            return True

    def _fits(self, source: _Open[T], lane: _Lane[T]) -> bool:
        if self._waiting < self._limit:
            return True
        return not lane.items and lane is source.lanes[0] and (not self._ordered or source is self._left[0])

    def _end(self, source: _Open[T], lane: _Lane[T], failure: _Failure | None = None, last: bool = False) -> None:
        """Mark a lane as complete, after an error if there is one. `last`: it is the last one of its source."""
        with self._changed:
            if failure is not None:
                lane.items.append(failure)
                self._waiting += 1
            lane.ended = True
            if last:
                source.ended, source.busy = True, False
            self._changed.notify_all()

    def items(self) -> Iterator[T]:
        """Yield all items. Raise an error after the items before it."""
        while True:
            with self._changed:
                while (lane := self._filled()) is None and self._left:
                    self._changed.wait()
                if lane is None:
                    return
                item = lane.items.popleft()
                self._waiting -= 1
                self._changed.notify_all()
            if isinstance(item, _Failure):
                raise item.error
            yield item
            del item

    def _filled(self) -> _Lane[T] | None:
        """Remove the lanes and sources whose items have all been yielded. Return the lane with the next item."""
        for source in list(self._left):
            lanes = source.lanes
            while lanes and lanes[0].ended and not lanes[0].items:
                lanes.popleft()
                self._changed.notify_all()
            if lanes and lanes[0].items:
                return lanes[0]
            if source.ended and not lanes:
                self._left.remove(source)
                self._changed.notify_all()
            elif self._ordered:
                break
        return None

    def stop(self) -> None:
        """Stop all worker threads and close the sources. A thread that is reading an item first reads it completely."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        for source in self._all:
            close = getattr(source.pieces, "close", None)
            if close is not None:
                close()

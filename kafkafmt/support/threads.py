"""Call functions in threads: many calls that wait for I/O, and calls that Ctrl-C must stop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Condition, Event, local
from time import perf_counter, thread_time
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 16
TRIED = 16
"""Number of calls whose time is measured before threads are started."""
WAITING = 3
"""If a call takes more than this multiple of its CPU time, the call mostly waits."""


def map_waiting(function: Callable[[T], R], items: Sequence[T], waits: bool = False) -> Iterator[R]:
    """Yield `function(item)` for each item, in order. Call the function in threads if it mostly waits."""
    # By default, the first calls are timed to find out; if `waits` is True, threads are started
    # immediately. Several threads can wait for a network or disk at the same time. A function that
    # mostly runs Python code holds the GIL, so threads would make it slower.
    first, waiting, tried = [], 0, 0 if waits else TRIED
    for item in items[:tried]:
        wall, cpu = perf_counter(), thread_time()
        first.append(function(item))
        waiting += perf_counter() - wall > WAITING * (thread_time() - cpu)
    yield from first
    rest = items[tried:]
    if len(rest) < 2 or (not waits and 2 * waiting <= TRIED):
        yield from map(function, rest)
        return
    pool = ThreadPoolExecutor(THREADS, "kafkafmt-list")
    try:
        yield from pool.map(function, rest)
    finally:
        pool.shutdown(cancel_futures=True)


class StoppablePool(ThreadPoolExecutor):
    """A thread pool that keeps track of all running calls, even if Ctrl-C has interrupted `submit`."""

    # If Ctrl-C arrives while `ThreadPoolExecutor.submit` starts a thread, the pool does not
    # register the thread, and `shutdown` does not wait for it.

    def __init__(self, max_workers: int, thread_name_prefix: str = "") -> None:
        super().__init__(max_workers, thread_name_prefix)
        self._changed = Condition()
        self._running = 0
        self._stopped = False

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Schedule a call of `fn`, as `ThreadPoolExecutor.submit` does."""
        return super().submit(self._call, fn, *args, **kwargs)

    def _call(self, fn: Callable[..., R], *args: Any, **kwargs: Any) -> R:
        with self._changed:
            if self._stopped:
                raise CancelledError
            self._running += 1
        try:
            return fn(*args, **kwargs)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def stop(self, wait: bool) -> None:
        """Start no more calls. If `wait` is True, wait until all running calls have returned."""
        with self._changed:
            self._stopped = True
        self.shutdown(wait=wait, cancel_futures=True)
        if wait:
            with self._changed:
                self._changed.wait_for(lambda: not self._running)

    def ahead(
        self, function: Callable[[T], R], items: Iterable[T], ahead: Callable[[], int]
    ) -> Generator[Callable[[], R], None, None]:
        """Yield a function for each item, in order, that returns `function(item)`, which is called in advance."""
        # At most `ahead()` calls for later items run or have ended. Close the iterator, so that they end after an error.
        calls: deque[_CallAhead[R]] = deque()
        try:
            for item in items:
                call = _CallAhead[R]()
                calls.append(call)
                call.future = self.submit(call.run, function, item)
                while len(calls) > ahead():
                    yield calls[0].result
                    calls.popleft()
            while calls:
                yield calls[0].result
                calls.popleft()
        finally:
            for call in calls:
                call.abandon()


class _CallAhead(Generic[R]):
    """A call of `StoppablePool.ahead`. It has its turn when its result is requested."""

    def __init__(self) -> None:
        self.future: Future[R] = Future()
        self._turn = Event()
        self._abandoned = False

    def run(self, function: Callable[[T], R], item: T) -> R:
        _thread.call = self
        try:
            return function(item)
        finally:
            _thread.call = None

    def wait(self) -> None:
        self._turn.wait()
        if self._abandoned:
            raise CancelledError

    def result(self) -> R:
        self._turn.set()
        return self.future.result()

    def abandon(self) -> None:
        self._abandoned = True
        self._turn.set()
        self.future.cancel()


_thread = local()


def wait_for_turn() -> None:
    """Wait until the result of the call of `StoppablePool.ahead` in this thread is requested. Else, do nothing."""
    # CancelledError: no result will be requested.
    call = getattr(_thread, "call", None)
    if call is not None:
        call.wait()

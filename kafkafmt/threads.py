"""Call a function in several threads if this saves time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, thread_time
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 16
TRIED = 16
"""Number of calls whose time is measured before threads are started."""
WAITING = 3
"""A call waits if it takes this many times its CPU time. Threads are started if most calls wait."""


def map_waiting(function: Callable[[T], R], items: Sequence[T], waits: bool = False) -> Iterator[R]:
    """Yield `function(item)` for each item, in order, in threads if the function waits most of the time.

    If `waits` is True, the first calls are not measured, and threads are started at once.

    Reading from a network or an idle disk is mostly waiting, which threads do at the same time.
    Python code is not: it holds the GIL, so threads would only slow it down.
    """
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

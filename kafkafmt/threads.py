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


def map_waiting(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield `function(item)` for each item, in order, in threads if the function waits most of the time.

    Reading from a network or an idle disk is mostly waiting, which threads do at the same time.
    Python code is not: it holds the GIL, so threads would only slow it down.
    """
    first, waiting = [], 0
    for item in items[:TRIED]:
        wall, cpu = perf_counter(), thread_time()
        first.append(function(item))
        waiting += perf_counter() - wall > WAITING * (thread_time() - cpu)
    yield from first
    rest = items[TRIED:]
    if not rest or 2 * waiting <= TRIED:
        yield from map(function, rest)
        return
    pool = ThreadPoolExecutor(THREADS, "kafkafmt-list")
    try:
        yield from pool.map(function, rest)
    finally:
        pool.shutdown(cancel_futures=True)

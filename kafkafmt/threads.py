"""Call a function for many items. Use several threads if this saves time."""

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
"""If a call takes more than this multiple of its CPU time, the call mostly waits."""


def map_waiting(function: Callable[[T], R], items: Sequence[T], waits: bool = False) -> Iterator[R]:
    """Yield `function(item)` for each item, in order. Call the function in threads if it mostly waits.

    By default, the first calls are timed, to find out whether the function spends most of its time
    waiting for I/O. If `waits` is True, threads are started immediately.

    A function that reads from a network or disk mostly waits, and several threads can wait at the
    same time. A function that mostly runs Python code holds the GIL, so threads would make it
    slower.
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

"""Iterators that several threads may share.

A generator that is resumed by two threads raises ``ValueError: generator already executing``. What the public API returns waits
instead: each item goes to one thread. Records have `RecordIterator`, in the core, since there a call for each would cost too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from threading import RLock
from typing import Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class SharedIterator(Generic[T]):
    """Yield the items of an iterable. A thread that asks for the next item waits while another one gets its own."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items: Iterator[T] | None = iter(items)
        self._lock = RLock()
        self._busy = False

    def __iter__(self) -> SharedIterator[T]:
        return self

    def __next__(self) -> T:
        with self._lock:
            if self._busy:
                raise RuntimeError("the iterator was called by code that runs while it makes the next item")
            if self._items is None:
                raise StopIteration
            self._busy = True
            try:
                return next(self._items)
            except BaseException:
                self._items = None
                raise
            finally:
                self._busy = False

    def close(self) -> None:
        """End the iteration, and what it holds open."""
        with self._lock:
            close = getattr(self._items, "close", None)
            self._items = None
            if close is not None:
                close()


def shared(function: Callable[P, Iterable[T]]) -> Callable[P, Iterator[T]]:
    """Make a generator function return an iterator that several threads may share."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return SharedIterator(function(*args, **kwargs))

    return call

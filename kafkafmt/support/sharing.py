"""Make iterators safe for use by several threads.

If two threads resume the same generator at the same time, Python raises ``ValueError: generator
already executing``. Iterators of the public API do not raise this error. Instead, the second thread
waits, and each item is returned to only one thread. Iterators of records are `RecordIterator`
objects instead of the class in this module, because a call of a Python function for each record
would be too slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from threading import RLock
from typing import Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class SharedIterator(Generic[T]):
    """Iterator that several threads can use. Each item is returned to only one thread; others wait meanwhile."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items: Iterator[T] | None = iter(items)
        self._lock = RLock()
        self._busy = False

    def __iter__(self) -> SharedIterator[T]:
        return self

    def __next__(self) -> T:
        with self._lock:
            if self._busy:
                raise RuntimeError("the iterator was called recursively, by code that produces its next item")
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
        """End the iteration and release its resources, such as open files."""
        with self._lock:
            close = getattr(self._items, "close", None)
            self._items = None
            if close is not None:
                close()


def shared(function: Callable[P, Iterable[T]]) -> Callable[P, Iterator[T]]:
    """Decorate a generator function so that it returns a `SharedIterator`."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return SharedIterator(function(*args, **kwargs))

    return call

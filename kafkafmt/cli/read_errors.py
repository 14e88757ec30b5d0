"""Distinguish failures to read an input file, after which a command can continue, from failures to write to stdout."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


class ReadError(Exception):
    """Raised if an input file cannot be read. It is not an OSError, because writing to stdout also raises OSErrors."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause)
        self.cause = cause


@contextmanager
def reading() -> Iterator[None]:
    """Return a context manager that converts an OSError in the ``with`` block to a `ReadError`."""
    try:
        yield
    except OSError as error:
        raise ReadError(error) from error


def read_errors_of(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield all items. If the iterable raises an OSError, raise a `ReadError` instead."""
    with reading():
        yield from items

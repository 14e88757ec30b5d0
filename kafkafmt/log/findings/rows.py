"""Define sequences that store their items as arrays, and create the Python object of an item only on access.

A damaged segment can contain a hundred thousand damaged byte ranges. Creating a Python object for
each of them would take more time than finding them.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import eq
from typing import Any, TypeVar, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
BLOCK = 8192  # number of objects that an iterator creates at once


class Rows(Sequence[T_co]):
    """A read-only sequence that creates each item from arrays when the item is accessed. Items are not cached."""

    @abstractmethod
    def _build(self, start: int, stop: int) -> list[T_co]:
        """Create the items with the indexes [start, stop)."""

    @abstractmethod
    def _sliced(self, start: int, stop: int) -> Rows[T_co]:
        """Return a sequence of the items with the indexes [start, stop), without creating the items."""

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | Sequence[T_co]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return self._sliced(start, max(start, stop)) if step == 1 else self._build(0, len(self))[index]
        # `range(n)[index]` supports negative indexes, and raises IndexError if the index is out of range.
        at = range(len(self))[index]
        return self._build(at, at + 1)[0]

    def __iter__(self) -> Iterator[T_co]:
        for start in range(0, len(self), BLOCK):
            yield from self._build(start, min(start + BLOCK, len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, (str, bytes)):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class Joined(Rows[T_co]):
    """A sequence that combines several sequences, which must not change, without copying their items."""

    def __init__(self, parts: Iterable[Sequence[T_co]]) -> None:
        self.parts: list[Sequence[T_co]] = [part for part in parts if len(part)]
        self.columns: Any = None  # the items as arrays, if they have been computed (see `DamageColumns.of`)
        self._ends = [0, *accumulate(map(len, self.parts))]

    def __len__(self) -> int:
        return self._ends[-1]

    def _build(self, start: int, stop: int) -> list[T_co]:
        return [value for part in self._within(start, stop) for value in part]

    def _sliced(self, start: int, stop: int) -> Joined[T_co]:
        return Joined(self._within(start, stop))

    def _within(self, start: int, stop: int) -> Iterator[Sequence[T_co]]:
        """Yield slices of the concatenated sequences. Together, the slices contain the items [start, stop)."""
        for i in range(bisect_right(self._ends, start) - 1, len(self.parts)):
            begin = self._ends[i]
            if begin >= stop:
                return
            yield self.parts[i][max(start - begin, 0) : stop - begin]


def field_setters(cls: type[Any]) -> list[Callable[[Any, Any], None]]:
    """Return one setter function for each slot of a class. The setters also work if the class is frozen."""
    return [getattr(cls, name).__set__ for name in cls.__slots__]


def objects_of(cls: type[T], setters: list[Callable[[Any, Any], None]], *columns: Sequence[Any]) -> list[T]:
    """Create objects of a frozen class with slots from one array of values for each slot."""
    # Constructor calls would take three times as long.
    new: Callable[[type[T]], T] = object.__new__
    objects = list(map(new, [cls] * len(columns[0])))
    for set_slot, values in zip(setters, columns, strict=True):
        deque(map(set_slot, objects, values), 0)
    return objects

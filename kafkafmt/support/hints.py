"""Answer names that users know from other libraries with the name in this library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def no_attribute(owner: str, name: str, hints: Mapping[str, str]) -> AttributeError:
    """Return an error about a missing attribute, with the hint for its name."""
    hint = f"; use {hints[name]}" if name in hints else ""
    return AttributeError(f"{owner} has no attribute {name!r}{hint}")


def refuse_argument(wrong: str, advice: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function answer the keyword argument `wrong` with a TypeError that contains advice."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if wrong in kwargs:
                raise TypeError(f"{function.__name__}() has no argument {wrong!r}; {advice}")
            return function(*args, **kwargs)

        return call

    return decorate


def keywords_only(advice: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a method answer positional arguments with a TypeError that contains advice."""

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if len(args) > 1:
                raise TypeError(f"{method.__name__}() takes only keyword arguments; {advice}")
            return method(*args, **kwargs)

        return call

    return decorate


def batches_have_codecs(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function that builds batches answer the keyword argument `compression`."""
    return refuse_argument("compression", "the compression of Kafka's batches is the argument 'codec'")(function)

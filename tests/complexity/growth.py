"""Count the executed lines of kafkafmt, and compare the counts for inputs of size n, 2n and 4n."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

PACKAGE = "kafkafmt"
SIZES = (1, 2, 4)
NEGLIGIBLE = 50
"""Counts below this number are raised to it, because set-up dominates them."""
TOLERANCE = 1.35
"""Factor by which the work may exceed linear growth. Buffers and tables grow in steps."""


@contextmanager
def counted_lines() -> Iterator[Counter[str]]:
    """Count the executed lines of each module, in this thread and in threads that start inside the block.

    A line in a loop or comprehension counts each time it is executed. Lines of generated dataclass
    methods also count.
    """
    lines: Counter[str] = Counter()

    def in_frame(frame: FrameType, event: str, _: Any) -> Any:
        if event in ("line", "call"):
            lines[frame.f_globals["__name__"]] += 1
        return in_frame

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_globals.get("__name__", "").startswith(PACKAGE):
            return None
        return in_frame(frame, event, argument)

    before, before_in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(on_call)
    threading.settrace(on_call)
    try:
        yield lines
    finally:
        sys.settrace(before)
        threading.settrace(before_in_threads)


def lines_of(*calls: Callable[[], Any]) -> Counter[str]:
    """Return the number of executed lines of each module."""
    with counted_lines() as lines:
        for call in calls:
            call()
    return lines


def grows_linearly(n: int, work: Callable[[int], float | Counter[str]]) -> None:
    """Assert that the work for 2n and 4n is at most two and four times the work for n, within a tolerance.

    Each module is compared separately.

    Parameters
    ----------
    n : int
        Size of the smallest input.
    work : callable
        Returns the work for an input of a size. The result of a first call is ignored, because it
        fills caches and imports modules.
    """
    work(n)
    first, *others = (_parts(work(n * size)) for size in SIZES)
    assert sum(first.values()) > 0, "no work was counted"
    for size, found in zip(SIZES[1:], others, strict=True):
        for part, count in found.items():
            base = max(first.get(part, 0), NEGLIGIBLE)
            times = f"{count / base:.1f} times as much"
            assert count <= size * base * TOLERANCE, (
                f"{part}: {first.get(part, 0)} for {n}, {count} for {n * size}: {times}"
            )


def _parts(work: float | Counter[str]) -> dict[str, float]:
    return dict(work) if isinstance(work, Counter) else {"work": work}

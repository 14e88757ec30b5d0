"""Where a task's time goes: reading, decompressing, decoding, writing.

The lower floors know nothing of clocks. For the length of a task, which a worker's process does one of at a time, the two places
where reading and decompressing happen are wrapped: a pair of clock readings per 4 MB read and per batch decompressed.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from ...codecs import Decompressor
from ...log.format.files import FileView

SHARES = ("reading", "decompressing", "decoding", "writing")
"""decoding: the walk with its CRCs, records into columns, columns into Arrow's layout. writing: Parquet, its codec, the file."""


class Stopwatch:
    """Seconds by share, over everything that is done inside `running()`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(SHARES, 0.0)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Measure what is done meanwhile; what is none of the other three is decoding."""
        before = sum(self.seconds.values())
        read, decompress = FileView.read_into, Decompressor.decompress
        started = perf_counter()
        FileView.read_into = self._timed("reading", read)  # type: ignore[method-assign]
        Decompressor.decompress = self._timed("decompressing", decompress)  # type: ignore[method-assign]
        try:
            yield
        finally:
            FileView.read_into, Decompressor.decompress = read, decompress  # type: ignore[method-assign]
            self.seconds["decoding"] += max(perf_counter() - started - (sum(self.seconds.values()) - before), 0.0)

    @contextlib.contextmanager
    def share(self, name: str) -> Iterator[None]:
        started = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += perf_counter() - started

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            with_start = perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds[name] += perf_counter() - with_start

        return timed


def peak_memory() -> int:
    """The most bytes of memory that this process has had at once."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

"""Measure the time and the memory that a task of an export uses."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from time import perf_counter

from ..log import PartitionLog
from .report import TaskSeconds


class Stopwatch:
    """Measures how much time a task spends on each activity, from the creation of the object."""

    # `add` adds the time for reading and decompression that a `PartitionLog` has measured.

    def __init__(self) -> None:
        self._started = perf_counter()
        self._reading = self._decompressing = self._writing = 0.0

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Return a context manager. The time inside the context is counted as time for writing."""
        started = perf_counter()
        try:
            yield
        finally:
            self._writing += perf_counter() - started

    def add(self, log: PartitionLog) -> None:
        """Add the time that a log has spent on reading and decompression."""
        self._reading += log.read_seconds
        self._decompressing += log.decompress_seconds

    def stop(self) -> TaskSeconds:
        """Return the number of seconds for each activity. Time that was not measured is counted as decoding."""
        measured = self._reading + self._decompressing + self._writing
        decoding = max(perf_counter() - self._started - measured, 0.0)
        return TaskSeconds(self._reading, self._decompressing, decoding, self._writing)


def peak_memory() -> int:
    """Return the peak resident memory of this process, in bytes."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

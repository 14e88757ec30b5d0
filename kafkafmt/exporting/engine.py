"""Define the interface `Engine`. An engine runs the tasks of an export, on Spark or in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class JobProgress:
    """The progress of a job: the sum of the progress that its tasks have reported."""

    def __init__(self, bytes_done: int = 0, found: Iterable[Any] = (), slow: Iterable[str] = ()) -> None:
        self.bytes: int = bytes_done  # that the tasks have processed
        self.found: list[Any] = list(found)  # results that the caller needs before the job ends, such as damage
        self.slow: set[str] = set(slow)  # warnings about executors that use the slow pure-Python core

    def add(self, other: JobProgress) -> None:
        self.bytes += other.bytes
        self.found += other.found
        self.slow |= other.slow


class Engine(Protocol):
    """Runs the tasks of an export in parallel. A task calls a function for each of its items."""

    name: str

    @property
    def parallelism(self) -> int:
        """Maximum number of tasks that run at the same time."""
        ...

    @property
    def master(self) -> str | None:
        """Master URL of the Spark session, or None if the engine is not Spark."""
        ...

    def run(
        self,
        tasks: Sequence[Sequence[T]],
        function: Callable[[T], R],
        describe: Callable[[T, R], JobProgress],
        description: str,
        progress: Callable[[JobProgress], bool] | None = None,
    ) -> list[R]:
        """Call `function` with every item in `tasks`, and return the results in the same order as the items."""
        # A task calls `function`, and then `describe` with the item and its result. `progress` gets
        # the total several times per second; if it returns False, the job is cancelled and the
        # result is empty. On Spark, an OSError of a task becomes a `TaskOSError`.
        ...


def group_tasks(items: Iterable[T], size: Callable[[T], int], task_bytes: int) -> list[list[T]]:
    """Distribute items among tasks of about `task_bytes` bytes, largest first, so that the last tasks are small."""
    tasks: list[list[T]] = []
    left = 0
    for item in sorted(items, key=size, reverse=True):
        if not tasks or left < size(item):
            tasks.append([])
            left = task_bytes
        tasks[-1].append(item)
        left -= size(item)
    return tasks

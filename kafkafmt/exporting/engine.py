"""Define the interface `Engine`. An engine runs the tasks of an export, on Spark or in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class JobProgress:
    """The progress of a job: the sum of the progress that its tasks have reported.

    Attributes
    ----------
    bytes : int
        Number of bytes that the tasks have processed.
    found : list
        Results that the caller needs before the job ends. For example, the caller can cancel the
        job when a task reports damage.
    slow : set of str
        Warnings about executors that use the slow pure-Python core.
    """

    def __init__(self, bytes_done: int = 0, found: Iterable[Any] = (), slow: Iterable[str] = ()) -> None:
        self.bytes: int = bytes_done
        self.found: list[Any] = list(found)
        self.slow: set[str] = set(slow)

    def add(self, other: JobProgress) -> None:
        """Add the progress that `other` contains."""
        self.bytes += other.bytes
        self.found += other.found
        self.slow |= other.slow


class Engine(Protocol):
    """Runs the tasks of an export in parallel. A task calls a function for each of its items.

    Attributes
    ----------
    name : str
        Name of the engine: "spark" or "local".
    """

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
        """Call `function` with every item in `tasks`, and return the results in the same order as the items.

        Parameters
        ----------
        tasks : sequence of sequences
            One sequence of items for each task.
        function : callable
            Function that a task calls with each item. It returns the result for the item.
        describe : callable
            Function that a task calls with each item and its result. It returns the progress that
            results from this item.
        description : str
            Description of the job in a user interface, such as Spark's web UI.
        progress : callable, optional
            Function to call several times per second with the total progress. If it returns False,
            the job is cancelled and `run` returns an empty list.

        Raises
        ------
        OSError
            An OSError occurred in a task. On Spark, a `TaskOSError` is raised instead.
        """
        ...


def group_tasks(items: Iterable[T], size: Callable[[T], int], task_bytes: int) -> list[list[T]]:
    """Distribute items among tasks of about `task_bytes` bytes.

    Items are assigned to tasks in descending order of size, so that the last tasks contain only
    small items.
    """
    tasks: list[list[T]] = []
    left = 0
    for item in sorted(items, key=size, reverse=True):
        if not tasks or left < size(item):
            tasks.append([])
            left = task_bytes
        tasks[-1].append(item)
        left -= size(item)
    return tasks

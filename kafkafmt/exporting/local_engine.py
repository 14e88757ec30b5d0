"""Run the tasks of an export in threads of this process, without Spark.

The native code of kafkafmt, pyarrow and zstandard releases the GIL. Therefore, several threads can
decode and write records in parallel.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TypeVar

from ..support.threads import StoppablePool
from .engine import JobProgress

T = TypeVar("T")
R = TypeVar("R")

POLL_SECONDS = 0.1


class LocalEngine:
    """Engine that runs the tasks of an export in threads. By default, one per CPU that this process may use."""

    name = "local"
    master = None

    def __init__(self, threads: int | None = None) -> None:
        self.parallelism: int = threads or len(os.sched_getaffinity(0))

    def run(
        self,
        tasks: Sequence[Sequence[T]],
        function: Callable[[T], R],
        describe: Callable[[T, R], JobProgress],
        description: str,
        progress: Callable[[JobProgress], bool] | None = None,
    ) -> list[R]:
        """Call `function` with each item of each task, and return the results in the order of the items."""
        # After an error, a cancellation or Ctrl-C, `function` is not called again. All running
        # calls end before this returns, so that no thread uses the output afterwards.
        total, lock, stopped = JobProgress(), threading.Lock(), threading.Event()

        def run_task(items: Sequence[T]) -> list[R]:
            results = []
            for item in items:
                if stopped.is_set():
                    break
                results.append(function(item))
                with lock:
                    total.add(describe(item, results[-1]))
            return results

        cancelled = False
        pool = StoppablePool(self.parallelism, "kafkafmt-export")
        try:
            futures = [pool.submit(run_task, items) for items in tasks]
            while not cancelled and not _finished(futures):
                with lock:
                    done = JobProgress(total.bytes, total.found)
                cancelled = progress is not None and not progress(done)
        finally:
            stopped.set()
            pool.stop(wait=True)
        for future in futures:
            if not future.cancelled() and (error := future.exception()) is not None:
                raise error
        if cancelled or (progress is not None and not progress(total)):
            return []
        return [result for future in futures for result in future.result()]


def _finished(futures: Sequence[Future[list[R]]]) -> bool:
    """Wait for up to `POLL_SECONDS`. Return whether all tasks have ended or any task has failed."""
    done, running = wait(futures, POLL_SECONDS, FIRST_EXCEPTION)
    return not running or any(future.exception() is not None for future in done)

"""Run Spark jobs that report progress and can be cancelled.

A job is started in a separate thread. Meanwhile, the calling thread reports the progress, handles
Ctrl-C, and cancels the job if the progress callback returns False. Tasks report their progress with
a Spark accumulator. If a task runs several times, its progress is counted only once. Error messages
from Spark are shortened to one line.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException

from ..spark.shipped import say_slow, slow_core
from ..spark.worker_errors import cause_of, in_one_line
from .engine import JobProgress
from .errors import SparkError, TaskOSError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

POLL_SECONDS = 0.1
RETRY_SECONDS = 0.02
GROUP = "kafkafmt export"
"""Prefix of the names of job groups, and the name of the RDD."""
MARK = "kafkafmt-input-error:"


class _ProgressParam(AccumulatorParam[JobProgress]):
    def zero(self, value: JobProgress) -> JobProgress:
        return JobProgress()

    def addInPlace(self, value1: JobProgress, value2: JobProgress) -> JobProgress:
        value1.add(value2)
        return value1


class SparkEngine:
    """Engine that runs the tasks of an export as Spark jobs. It implements the interface `Engine`."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._context: SparkContext = spark.sparkContext

    @property
    def parallelism(self) -> int:
        """Maximum number of tasks that run at the same time."""
        return self._context.defaultParallelism

    @property
    def master(self) -> str | None:
        return self._context.master

    def run(
        self,
        tasks: Sequence[Sequence[T]],
        function: Callable[[T], R],
        describe: Callable[[T, R], JobProgress],
        description: str,
        progress: Callable[[JobProgress], bool] | None = None,
    ) -> list[R]:
        """Call `function` with every item of `tasks` in a Spark job. Return the results in the order of the items."""
        if not tasks:
            return []
        reported: Any = self._context.accumulator(JobProgress(), _ProgressParam())

        def run(items: Iterable[Sequence[T]]) -> Iterator[R]:
            if (slow := slow_core()) is not None:
                reported.add(JobProgress(slow=[slow]))
            for task in items:
                for item in task:
                    try:
                        result = function(item)
                    except OSError as error:
                        raise RuntimeError(MARK + json.dumps(in_one_line(error))) from error
                    reported.add(describe(item, result))
                    yield result

        group = f"{GROUP} {uuid.uuid4()}"
        results: list[R] = []
        errors: list[BaseException] = []

        def collect() -> None:
            try:
                self._context.setJobGroup(group, description, interruptOnCancel=True)
                mapped = self._context.parallelize(tasks, len(tasks)).mapPartitions(run)
                results.extend(mapped.setName(GROUP).collect())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=collect, name=GROUP, daemon=True)
        thread.start()
        stopped = False
        try:
            while thread.is_alive():
                thread.join(POLL_SECONDS)
                if progress is not None and not stopped and not progress(reported.value):
                    stopped = True
                    self._context.cancelJobGroup(group)
        except BaseException:
            self._context.cancelJobGroup(group)
            thread.join(10)
            raise
        say_slow(reported.value.slow)
        if stopped:
            return []
        if errors:
            raise _simplified(errors[0]) from errors[0]
        return results


def in_thread(function: Callable[[], T]) -> T:
    # Python raises KeyboardInterrupt only in the main thread. Therefore, Ctrl-C cannot interrupt a
    # call to Java that `function` makes.
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(POLL_SECONDS)
    if errors:
        raise errors[0]
    return results[0]


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Return a context manager that delays Ctrl-C in the main thread while a call to Java is running."""
    # If Ctrl-C interrupts a call, py4j prints a traceback and loses its connection. Nothing changes
    # if the process ignores SIGINT, as background jobs of a shell do, or has a handler for SIGINT.
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def handle(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("py4j"):
                signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGALRM)}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def spark_errors() -> Iterator[None]:
    """Return a context manager that converts errors of Spark and py4j to SparkError or TaskOSError."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise _simplified(error) from error


def _simplified(error: BaseException) -> BaseException:
    """Convert Spark's error to a TaskOSError, if a task raised an OSError, or else to a SparkError."""
    # Return others unchanged.
    text = str(error)
    found = re.search(re.escape(MARK) + r'("(?:[^"\\]|\\.)*")', text)
    if found:
        return TaskOSError(json.loads(found[1]))
    if not isinstance(error, Py4JError | PySparkException):
        return error
    return SparkError(f"Spark: {cause_of(text) or type(error).__name__}")

"""Spark jobs that tell how far they are, and that end when they are told to.

A job runs in a thread of its own, while the caller's thread looks at its progress, ends it for a reason of its own, or
passes on Ctrl-C. What a task has to say before the job is over goes through an accumulator, which Spark updates once
for each task that is done, however often it was tried.
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

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")

POLL_SECONDS = 0.1
RETRY_SECONDS = 0.02
MARK = "kafkafmt-input-error:"
TRACEBACK = "Traceback (most recent call last):"
MISSING_MODULE = (
    ": the executors' Python needs it too; install 'kafkafmt[spark]' there (PYSPARK_PYTHON names that Python), or ship an environment"
    " with spark.archives"
)


class TaskOSError(OSError):
    """What the operating system refused a task, in one line."""


class SparkError(RuntimeError):
    """What went wrong in Spark, in one line."""


class Done:
    """What finished tasks have told so far: bytes, and whatever they found that may end the job."""

    def __init__(self, bytes_done: int = 0, found: Iterable[Any] = ()) -> None:
        self.bytes = bytes_done
        self.found: list[Any] = list(found)


class _DoneParam(AccumulatorParam[Done]):
    def zero(self, value: Done) -> Done:
        return Done()

    def addInPlace(self, value1: Done, value2: Done) -> Done:
        value1.bytes += value2.bytes
        value1.found += value2.found
        return value1


def run_job(
    context: SparkContext,
    tasks: Sequence[Sequence[T]],
    function: Callable[[T], R],
    describe: Callable[[T, R], Done],
    name: str,
    progress: Callable[[Done], bool] | None = None,
) -> list[R]:
    """`function` of every item, a Spark task for each of `tasks`; the results in order.

    describe: what an item's result adds to what is told while the job runs. progress: called with that every now and
    then; False ends the job, whose results are then empty. OSErrors of tasks arrive as TaskOSError.
    """
    if not tasks:
        return []
    told: Any = context.accumulator(Done(), _DoneParam())

    def run(items: Iterable[Sequence[T]]) -> Iterator[R]:
        for task in items:
            for item in task:
                try:
                    result = function(item)
                except OSError as error:
                    raise RuntimeError(MARK + json.dumps(_one_line(error))) from error
                told.add(describe(item, result))
                yield result

    group = f"{name} {uuid.uuid4()}"
    results: list[R] = []
    errors: list[BaseException] = []

    def collect() -> None:
        try:
            context.setJobGroup(group, name, interruptOnCancel=True)
            results.extend(context.parallelize(tasks, len(tasks)).mapPartitions(run).collect())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=collect, name=name, daemon=True)
    thread.start()
    stopped = False
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            if progress is not None and not stopped and not progress(told.value):
                stopped = True
                context.cancelJobGroup(group)
    except BaseException:
        context.cancelJobGroup(group)
        thread.join(10)
        raise
    if stopped:
        return []
    if errors:
        raise _understood(errors[0]) from errors[0]
    return results


def in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread of its own and return its result, so that Ctrl-C, in the main thread, cannot break a call to Java."""
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
    """Delay Ctrl-C, in the main thread, until no call to Java is open: py4j would print a traceback, and its connection would be lost.

    Nothing changes if the signal is ignored, as in a background job, or handled by the caller.
    """
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


def group_tasks(items: Iterable[T], size: Callable[[T], int], room: int) -> list[list[T]]:
    """Items in tasks of about `room` bytes, the largest first, so that the last ones to run are short."""
    tasks: list[list[T]] = []
    left = 0
    for item in sorted(items, key=size, reverse=True):
        if not tasks or left < size(item):
            tasks.append([])
            left = room
        tasks[-1].append(item)
        left -= size(item)
    return tasks


def _one_line(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error).splitlines()[0]


@contextlib.contextmanager
def spark_errors() -> Iterator[None]:
    """Spark's own errors, with their pages of stack traces, become a SparkError."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise _understood(error) from error


def _understood(error: BaseException) -> BaseException:
    """A task's OSError out of what Spark made of it; Spark's own trouble in one line; anything else as it is."""
    text = str(error)
    found = re.search(re.escape(MARK) + r'("(?:[^"\\]|\\.)*")', text)
    if found:
        return TaskOSError(json.loads(found[1]))
    if not isinstance(error, Py4JError | PySparkException):
        return error
    return SparkError(f"Spark: {_cause(text) or type(error).__name__}")


def _cause(text: str) -> str:
    """Return the reason in an error text of Spark's, in one line: what a Python worker raised, or else the first line of Java's."""
    before, traceback, frames = text.rpartition(TRACEBACK)
    if traceback:
        cause = _raised(frames)
        missing = re.search(r"No module named '(\w+)", cause)
        return f"a Python worker raised {cause}{MISSING_MODULE if missing else ''}{_worker_host(before)}"
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.startswith("An error occurred while calling")
    ]
    return re.sub(r"^(: )?([a-z]+\.)+[A-Za-z]+(Exception|Error): ", "", lines[0]) if lines else ""


def _raised(frames: str) -> str:
    """Return the exception at the end of a Python traceback, its lines joined; `frames` may go on with Java's stack."""
    found: list[str] = []
    for line in frames.splitlines():
        if not line.strip() or line.startswith(("\tat ", "Caused by: ", "Driver stacktrace")):
            if found:
                break
        elif found or not line[0].isspace():
            found.append(line.strip())
    return " ".join(found)


def _worker_host(text: str) -> str:
    """Return the host of the task that failed, in brackets, if the text before the traceback names it."""
    hosts = re.findall(r"\(TID \d+\) \((\S+) executor", text)
    return f" (on host {hosts[-1]})" if hosts else ""

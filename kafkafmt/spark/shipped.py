"""Report executors whose Python has no kafkafmt, or runs its slow pure-Python core.

Spark pickles readers and writers to send them to the tasks. If an executor has no kafkafmt, pickle
only says "No module named 'kafkafmt'". Therefore, these objects are pickled together with a small
function, which is sent by value and reports what to do.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from .. import _backend
from .hosts import host_name
from .messages import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORE_COLUMNS = "host string, python string, version string, core string, reason string"


class Shipped:
    """Base class of objects that Spark sends to executors."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a call of a function that does not need kafkafmt to be unpickled."""
        return _BY_VALUE, (cloudpickle.dumps((type(self), self.__dict__)),)  # type: ignore[no-untyped-call]


def _unpickle(pickled: bytes) -> object:
    """Return the object that `Shipped.__reduce__` has pickled, or raise an error with a remedy."""
    import pickle
    import socket
    import sys

    try:
        cls, state = pickle.loads(pickled)
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"{missing.msg} in {sys.executable} on host {socket.gethostname()}. The Python of every executor needs it: install"
            " 'kafkafmt[spark]' there (PYSPARK_PYTHON names that Python), or ship an environment with spark.archives",
            name=missing.name,
        ) from None
    made = cls.__new__(cls)
    made.__dict__.update(state)
    return made


_BY_VALUE = types.FunctionType(_unpickle.__code__, {"__builtins__": builtins, "__name__": "__main__"}, "_unpickle")
"""A copy of `_unpickle` that belongs to `__main__`. cloudpickle pickles such functions by value."""


def slow_core() -> str | None:
    """Return a message if this process runs the pure-Python core, otherwise None."""
    if _backend.backend == "native":
        return None
    return f"host {host_name()} runs the pure-Python core, which is many times slower: {_backend.backend_reason}"


def say_slow(found: Iterable[str | None]) -> None:
    """Log the results of `slow_core`, each message only once in this process.

    A result is None if the core is fast.

    If this process runs the pure-Python core itself, nothing is logged, because importing kafkafmt
    has already warned of it.
    """
    if _backend.backend != "native":
        return
    for message in sorted({one for one in found if one is not None} - _SAID):
        _SAID.add(message)
        say(message)


_SAID: set[str] = set()
"""Messages that this process has logged."""


def check_executors(spark: SparkSession, tasks: int | None = None) -> list[dict[str, str | None]]:
    """Run a small job that checks kafkafmt on the executors, and return what it finds.

    A warning is logged for each executor without kafkafmt or with the slow pure-Python core.

    Parameters
    ----------
    spark : SparkSession
        The session. It may be a session of Spark Connect.
    tasks : int, optional
        Number of tasks. A task reports on the executor that runs it, so a cluster needs several
        tasks per core to reach every executor. By default four times the default parallelism, and
        16 with Spark Connect.

    Returns
    -------
    list of dict
        One dict for each different combination of:

        - host: name of the host
        - python: path of the Python executable
        - version: version of kafkafmt, or None if it is missing
        - core: "native" or "pure", or None if kafkafmt is missing
        - reason: why this core is in use, or why kafkafmt cannot be imported

    Examples
    --------
    >>> kafkafmt.spark.check_executors(spark)  # doctest: +SKIP
    [{'host': 'worker-1', 'python': '/usr/bin/python3', 'version': '0.1.0', 'core': 'native', 'reason': 'compiled for this Python'}]
    """
    if tasks is None:
        tasks = 16 if _is_connect(spark) else 4 * spark.sparkContext.defaultParallelism
    probe = types.FunctionType(_probe.__code__, {"__builtins__": builtins, "__name__": "__main__"}, "_probe")
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(probe, CORE_COLUMNS).distinct().collect()
    found = sorted((row.asDict() for row in rows), key=lambda row: (row["host"], row["python"]))
    for row in found:
        if row["version"] is None:
            say(f"host {row['host']}: {row['python']} cannot import kafkafmt: {row['reason']}")
        elif row["core"] != "native":
            say(f"host {row['host']} runs the pure-Python core, which is many times slower: {row['reason']}")
    return found


def _probe(batches: Any) -> Any:
    """Yield one row about the Python of this task. The function is sent by value, because kafkafmt may be missing."""
    import socket
    import sys

    import pyarrow as pa

    for _ in batches:
        pass
    try:
        import kafkafmt
        from kafkafmt import _backend

        version, core, reason = kafkafmt.__version__, _backend.backend, _backend.backend_reason
    except ImportError as error:
        version, core, reason = None, None, str(error)
    row = {"host": socket.gethostname(), "python": sys.executable, "version": version, "core": core, "reason": reason}
    yield pa.RecordBatch.from_arrays([pa.array([value], pa.string()) for value in row.values()], list(row))


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")

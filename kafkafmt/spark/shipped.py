"""Report executors on which kafkafmt is missing or uses its slow pure-Python core.

Spark pickles readers and writers to send them to the tasks. If kafkafmt is missing on an executor,
pickle's only message is "No module named 'kafkafmt'". Therefore, readers and writers are pickled
together with a small function, whose code Spark also sends. If kafkafmt is missing, this function
raises an error that names what to install.
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
        """Pickle the object in a form that executors without kafkafmt can read. These executors then raise an error with advice."""
        return _BY_VALUE, (cloudpickle.dumps((type(self), self.__dict__)),)  # type: ignore[no-untyped-call]


def _unpickle(pickled: bytes) -> object:
    """Unpickle an object that `Shipped.__reduce__` has pickled. Raise an error if kafkafmt is missing."""
    import pickle
    import socket
    import sys

    try:
        cls, state = pickle.loads(pickled)
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"{missing.msg} in {sys.executable} on host {socket.gethostname()}. Install 'kafkafmt[spark]' for the"
            " Python of every executor (PYSPARK_PYTHON contains its path), or ship an environment with spark.archives",
            name=missing.name,
        ) from None
    made = cls.__new__(cls)
    made.__dict__.update(state)
    return made


_BY_VALUE = types.FunctionType(_unpickle.__code__, {"__builtins__": builtins, "__name__": "__main__"}, "_unpickle")
"""Copy of `_unpickle` that belongs to the module `__main__`. cloudpickle includes the code of such functions."""


def slow_core() -> str | None:
    """Return a warning if this process uses the slow pure-Python core. Otherwise, return None."""
    if _backend.backend == "native":
        return None
    return f"host {host_name()} runs the pure-Python core, which is many times slower: {_backend.backend_reason}"


def say_slow(found: Iterable[str | None]) -> None:
    """Log the warnings that `slow_core` has returned on executors, each once per process."""
    # If this process also uses the pure-Python core, its import of kafkafmt has already issued a
    # warning.
    if _backend.backend != "native":
        return
    for message in sorted({one for one in found if one is not None} - _SAID):
        _SAID.add(message)
        say(message)


_SAID: set[str] = set()
"""Warnings that this process has already logged."""


def check_executors(spark: SparkSession, tasks: int | None = None) -> list[dict[str, str | None]]:
    """Run a small Spark job that checks which version and core of kafkafmt each executor uses.

    A warning is logged for each executor on which kafkafmt is missing or uses its slow pure-Python
    core.

    Parameters
    ----------
    spark : SparkSession
        The session. It may be a session of Spark Connect.
    tasks : int, optional
        Number of tasks. Each task checks the executor on which it runs. To reach all executors of a
        cluster, several tasks per core are needed. The default is four times Spark's default
        parallelism, or 16 with Spark Connect.

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
    """Yield a row that describes the Python interpreter and the kafkafmt installation of this task."""
    # Spark pickles `_probe` by value, so it also runs on executors without kafkafmt.
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

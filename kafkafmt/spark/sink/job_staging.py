"""Define the names of the directories in which Spark jobs stage rows. Remove unused directories of this kind.

The name of a staging directory is `.<log directory>.kafkafmt-write-<owner>-<job>`.

`owner` identifies the driver process by the boot of the machine, the pid namespace, the pid and the
start time. A later job on the same machine uses `owner` to check whether the driver is still
running.

For a batch query, `job` is random. For a stream, `job` is derived from an identifier that does not
change when the query is restarted. This enables the writer that commits a micro-batch, and later
runs of the query, to find the staging directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from ..processes import process_space, process_status, start_time

MARK = ".kafkafmt-write-"
_NAME = re.compile(r"(?P<place>[0-9a-f]{8})-(?P<pid>\d+)-(?P<start>\d+)-(?P<job>q[0-9a-f]{16}|[0-9a-f]{12})")
JVM = "java"


def staging_of(directory: Path, query: str | None = None) -> Path:
    """Return the path of a job's staging directory, next to the log directory."""
    # `query` identifies a stream and survives its restarts. It is None for a batch query.
    job = uuid.uuid4().hex[:12] if query is None else _job_of(query)
    pid = _driver()
    return _prefixed(directory, f"{process_space()}-{pid}-{start_time(pid) or 0}-{job}")


def remove_staging(directory: Path, used: Iterable[Path]) -> None:
    """Remove those of the paths `used` that are staging directories next to the log directory."""
    for path in set(used):
        if path.parent == directory.parent and _parsed(directory, path.name):
            shutil.rmtree(path, ignore_errors=True)


def remove_leftovers(directory: Path, own: Path) -> None:
    """Remove staging directories that earlier jobs have left next to a log directory."""
    # The driver of such a job ran on this machine and has ended; or it ran on another machine, for
    # the same streaming query as `own`.
    try:
        names = os.listdir(directory.parent)
    except OSError:
        return
    mine = _parsed(directory, own.name)
    for name in names:
        found = _parsed(directory, name)
        if found is None or name == own.name:
            continue
        here = found["place"] == process_space()
        alive = here and found["start"] != "0" and start_time(int(found["pid"])) == int(found["start"])
        same_query = mine is not None and found["job"] == mine["job"] and found["job"].startswith("q")
        if (here and found["start"] != "0" and not alive) or (same_query and not alive):
            shutil.rmtree(directory.parent / name, ignore_errors=True)


def _prefixed(directory: Path, name: str) -> Path:
    return directory.parent / f".{directory.name}{MARK}{name}"


def _parsed(directory: Path, name: str) -> re.Match[str] | None:
    prefix = _prefixed(directory, "").name
    return _NAME.fullmatch(name[len(prefix) :]) if name.startswith(prefix) else None


def _job_of(query: str) -> str:
    return "q" + hashlib.sha256(query.encode(errors="surrogateescape")).hexdigest()[:16]


def _driver() -> int:
    """Return the pid of the JVM that started this process. If no JVM started this process, return the pid of this process."""
    pid = os.getpid()
    while pid > 1:
        status = process_status(pid)
        if status is None:
            break
        if status[0] == JVM:
            return pid
        pid = int(status[2])
    return os.getpid()

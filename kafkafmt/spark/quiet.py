"""The one line that no setting of Java's silences: "Using incubator modules", which Spark's start provokes.

Java inherits our stderr when it is started. For that moment stderr is a pipe, whose other end is passed on to the real one line by
line, without that line; all else that Java or a worker has to say still arrives.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

NOISE = (b"WARNING: Using incubator modules: jdk.incubator.vector",)
STDERR = 2


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Start Java inside of this. Whoever draws on the terminal meanwhile should do so through a duplicate of stderr."""
    sys.stderr.flush()
    real, (source, sink) = os.dup(STDERR), os.pipe()
    os.dup2(sink, STDERR)
    os.close(sink)
    threading.Thread(target=_relay, args=(source, os.dup(real)), name="stderr of Java", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(real, STDERR)
        os.close(real)


def _relay(source: int, target: int) -> None:
    rest = b""
    while part := os.read(source, 1 << 16):
        *lines, rest = (rest + part).split(b"\n")
        wanted = [line + b"\n" for line in lines if not line.startswith(NOISE)]
        with contextlib.suppress(OSError):
            os.write(target, b"".join(wanted))
    if rest:
        with contextlib.suppress(OSError):
            os.write(target, rest)

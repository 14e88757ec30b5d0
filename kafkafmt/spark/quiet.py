"""Suppress the warning "Using incubator modules", which Java writes to stderr when it starts.

Java has no setting that disables the warning. Therefore, this module replaces stderr with a pipe
while Java starts. A thread copies all lines except the warning from the pipe to the real stderr.
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
    """Return a context manager that hides the warning which Java prints when it starts."""
    # stderr is redirected meanwhile, so a progress bar must write to a duplicate of its descriptor.
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

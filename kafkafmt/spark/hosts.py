"""Add the name of the host to errors about files. The same path can be a different file on another host."""

from __future__ import annotations

import socket

from ..log import UnavailableSegmentError


def host_name() -> str:
    return socket.gethostname()


def with_host(error: OSError) -> OSError:
    """Return a copy of `error` with the name of this host in its message."""
    where = f"(on host {host_name()})"
    if isinstance(error, UnavailableSegmentError):
        return UnavailableSegmentError(error.errno, f"{error.strerror} {where}", error.filename)
    if error.errno is not None and error.strerror and error.filename:
        return OSError(error.errno, f"{error.strerror} {where}", error.filename)
    return OSError(f"{error} {where}")

"""Start a PostgreSQL server for tests, on a Unix socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEBIAN = Path("/usr/lib/postgresql")
"""Debian and Ubuntu do not add PostgreSQL's programs for servers to PATH."""


def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs for servers, or None if it is not installed."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    return max((path.parent for path in DEBIAN.glob("*/bin/initdb")), default=None)


@contextmanager
def postgres_server(database: str) -> Iterator[dict[str, str]]:
    """Start a server with an empty database. Yield the environment variables with which clients find it."""
    found = programs()
    assert found, "PostgreSQL is not installed"
    folder = Path(tempfile.mkdtemp())  # the path of a socket may have only 107 bytes, so tmp_path is too long
    user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL does not start as root
    if user:
        shutil.chown(folder, user)
    clients = {"PGHOST": str(folder), "PGUSER": "postgres"}

    def run(*command: object) -> None:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            user=user,
            env=os.environ | clients,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    control = (found / "pg_ctl", "--pgdata", folder / "data", "--wait")
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    try:
        run(found / "initdb", "--pgdata", folder / "data", "--username", "postgres", "--auth", "trust", "--no-sync")
        run(*control, "--log", folder / "log", "--options", options, "start")
        try:
            run(found / "createdb", database)
            yield clients
        finally:
            run(*control, "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder)

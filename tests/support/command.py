"""Run the command `kafkafmt`, in a separate process or in this process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import kafkafmt as installed


def kafkafmt(*arguments: Any, backend: str = "auto") -> subprocess.CompletedProcess[str]:
    """Run the command with a core. Only a core that this process does not use requires a separate process."""
    return inside(*arguments) if backend in ("auto", installed.backend) else process(*arguments, backend=backend)


def process(
    *arguments: Any, backend: str = "auto", stdin: Any = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    """Run the command in a separate process, and check that it prints no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkafmt", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        stdin=stdin,
        env=os.environ | {"KAFKAFMT_BACKEND": backend, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "200"},
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def inside(*arguments: Any, terminal: io.TextIOWrapper | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, about ten times as fast as in a separate process.

    If `terminal` is given, stdout and stderr are written to it.
    """
    from kafkafmt.cli.main import run

    out, err = terminal or _stream(), terminal or _stream()
    command = ["kafkafmt", *map(str, arguments)]
    with (
        open(os.devnull) as stdin,
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", command),
        patch.object(sys, "stdin", stdin),
        patch.dict(os.environ, {"COLUMNS": "3000", "TERM": "xterm"} if terminal else {"COLUMNS": "200"}),
        pytest.raises(SystemExit) as stop,
    ):
        run()
    texts = ("", "") if terminal else (_text(out), _text(err))
    return subprocess.CompletedProcess(command, int(stop.value.code or 0), *texts)


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(errors="surrogateescape")


def records(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    """Return the records that `kafkafmt cat` prints."""
    return [json.loads(line) for line in kafkafmt("cat", *arguments, "--format", "json", **options).stdout.splitlines()]


def report(*arguments: Any, **options: Any) -> dict[str, Any]:
    """Return the report of `kafkafmt verify`."""
    found: dict[str, Any] = json.loads(kafkafmt("verify", *arguments, "--format", "json", **options).stdout)
    return found

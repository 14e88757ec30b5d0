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


def kafkafmt(
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


def inside(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, about ten times as fast as in a separate process."""
    from kafkafmt.cli.main import run

    out, err, command = io.StringIO(), io.StringIO(), ["kafkafmt", *map(str, arguments)]
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", command),
        pytest.raises(SystemExit) as stop,
    ):
        run()
    return subprocess.CompletedProcess(command, int(stop.value.code or 0), out.getvalue(), err.getvalue())


def records(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    """Return the records that `kafkafmt cat` prints."""
    return [json.loads(line) for line in kafkafmt("cat", *arguments, "--format", "json", **options).stdout.splitlines()]


def report(*arguments: Any, **options: Any) -> dict[str, Any]:
    """Return the report of `kafkafmt verify`."""
    found: dict[str, Any] = json.loads(kafkafmt("verify", *arguments, "--format", "json", **options).stdout)
    return found

"""The command `kafkafmt` as a user runs it: a process of its own, on either core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def kafkafmt(*arguments: Any, backend: str = "auto", stdin: Any = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    """Run it; stdout and stderr as text. A traceback is never right."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkafmt", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        stdin=stdin,
        env=os.environ | {"KAFKAFMT_BACKEND": backend, "PYTHONPATH": str(Path(__file__).parents[1]), "COLUMNS": "200"},
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def records(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    """The records that `kafkafmt cat` prints."""
    return [json.loads(line) for line in kafkafmt("cat", *arguments, "--format", "json", **options).stdout.splitlines()]


def report(*arguments: Any, **options: Any) -> dict[str, Any]:
    """The report of `kafkafmt verify`."""
    found: dict[str, Any] = json.loads(kafkafmt("verify", *arguments, "--format", "json", **options).stdout)
    return found

"""Test that long lines are wrapped between words on a terminal, and are not wrapped elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from golden_cases import case

ROOT = Path(__file__).parents[2]
TORN = case("torn").roots[0]


def lines_on_a_terminal(*arguments: Any, columns: int = 100) -> list[str]:
    """Return the lines that the command prints on a terminal of this width."""
    controller, terminal = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": str(columns), "TERM": "dumb"}
    command = [sys.executable, "-m", "kafkafmt", *map(str, arguments)]
    with subprocess.Popen(command, stdout=terminal, stderr=terminal, stdin=terminal, env=environment) as process:
        os.close(terminal)
        output = b""
        while True:
            try:
                data = os.read(controller, 65536)
            except OSError:  # the process has closed the terminal
                break
            output += data
        process.wait()
    os.close(controller)
    return [line.rstrip("\r") for line in output.decode().split("\n")]


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (("stats", case("internal").roots[0]), " " * 12),
        (("rewrite", TORN, "--codec", "gzip", "--on-error", "skip", "-O"), " " * 9),
        (("export", TORN, "--engine", "local", "-O"), "DAMAGE"),
        (("cat", TORN, "--on-error", "skip"), "kafkafmt: skipped:"),
    ],
)
def test_lines_are_wrapped_between_words(arguments: tuple[Any, ...], start: str, tmp_path: Path) -> None:
    more = (tmp_path / "out",) if arguments[-1] == "-O" else ()
    lines = lines_on_a_terminal(*arguments, *more, columns=70)
    assert any(line.startswith(start) for line in lines), lines
    messages = [line for line in lines if line.startswith(("  codec", "skipped", "DAMAGE", "kafkafmt:", " " * 9))]
    # A path is not divided.
    assert all(len(line) <= 70 or "/" in line for line in messages), lines
